"""What is asked of every server, and where a server differs from the others for a reason of its own.

A case says what its reply is for a fact (status, and a part of the body), so that servers that agree on an error are found.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from client import Headers, Request

BOUNDARY = "----RegrowTestBoundary7MA4YWxkTrZu0gW"
FORM = ("Content-Type", "application/x-www-form-urlencoded")
# Bytes that are no text, reproducible, long enough for several pipes' worth.
BINARY = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(8192))
LONG = b"".join(hashlib.sha256(b"long %d" % number).digest() for number in range(163840))


@dataclass(frozen=True)
class Case:
    """A request, and what is known of its reply."""

    name: str
    request: Request
    # A part of the body, the whole of it (`whole`), or nothing that is known ahead.
    shows: bytes = b""
    whole: bytes | None = None
    status: int = 200
    reason: str | None = None
    # Fields that the reply must have.
    fields: Headers = ()
    # What is the server's own in this reply, where the script says nothing about it: "reason", "body", "content-type".
    servers_own: tuple[str, ...] = ()


def part(name: str, content: bytes, filename: str | None = None, kind: str | None = None) -> bytes:
    """A part of a form of several."""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"'
    head += f'; filename="{filename}"' if filename is not None else ""
    head += f"\r\nContent-Type: {kind}" if kind else ""
    return head.encode() + b"\r\n\r\n" + content + b"\r\n"


UPLOAD = (
    part("text", b"a value")
    + part("file", BINARY, "pic ture.bin", "application/octet-stream")
    + part("file", b"--" + BOUNDARY.encode()[:-1] + b"\r\nnearly\r\n\x00\xff", "near.txt", "text/plain")
    + part("empty", b"", "nothing", "text/plain")
    + f"--{BOUNDARY}--\r\n".encode()
)
UPLOADED = ("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")


def get(name: str, path: str, shows: bytes = b"", **more: object) -> Case:
    """A case of a plain GET."""
    return Case(name, Request(path), shows, **more)  # type: ignore[arg-type]


def post(name: str, path: str, body: bytes, headers: Headers = (FORM,), shows: bytes = b"", **more: object) -> Case:
    """A case of a POST with a body whose length is said."""
    return Case(name, Request(path, "POST", headers, body), shows, **more)  # type: ignore[arg-type]


QUERIES = [
    get("query", "/query.pl?a=1&b=two%20words&c=a+b&d&e=", b"b -> [two words]"),
    get("query-none", "/query.pl", b"raw=\n"),
    get("query-empty", "/query.pl?", b"raw=\n"),
    get("query-of-question-marks", "/query.pl?a?b=c?&?=?", b"raw=a?b=c?&?=?\n"),
    get("query-no-pairs", "/query.pl?alone", b"alone -> nothing"),
    get("query-percent-kept", "/query.pl?x=%41%2f%00%0a%25", b"raw=x=%41%2f%00%0a%25\n"),
    get("query-long", f"/query.pl?x={'y' * 6000}", b"y" * 6000),
    get("query-bytes-coded", "/rawquery.py?%ff%FE=%e4%80", b"ff fe 3d e4 80"),
    get("query-bytes-raw", "/rawquery.py?\xff\xe4=\x80", b"ff e4 3d 80\n"),
    get("query-utf8-raw", "/rawquery.py?\xc3\xa4\xe2\x98\x83", b"c3 a4 e2 98 83\n"),
    get("query-odd-characters", "/rawquery.py?[]{}|\\^`'!*();:@$,/", b"5b 5d 7b 7d 7c 5c 5e 60 27"),
    Case("method-delete", Request("/query.pl?x=1", "DELETE"), b"method=DELETE"),
    Case("method-options", Request("/query.pl", "OPTIONS"), b"method=OPTIONS"),
    Case("method-put", Request("/digest.py", "PUT", (("Content-Type", "a/b"),), b"put"), b"PUT a/b 3 "),
    Case("method-patch", Request("/digest.py", "PATCH", (("Content-Type", "a/b"),), b"patch"), b"PATCH a/b 5 "),
    Case("method-own", Request("/query.pl", "REPORT"), b"method=REPORT"),
    get("awk-variables", "/variables.awk/abc?x=1&y=2", b"2 y=2\nGET 4\n"),
    get("utf8", "/utf8.pl?%c3%a4h%e2%98%83", "äh☃ has 3 characters, upper case ÄH☃".encode()),
]

FORMS = [
    get("cgi-pm-get", "/form.pl?name=%3Cb%3E&x=1&x=2", b"[&lt;b&gt;]"),
    post("cgi-pm-post", "/form.pl", b"name=Jane+Doe&town=S%C3%A3o+Paulo&x=1&x=2&x=", shows=b"<p>x = [1] [2] []</p>"),
    post("cgi-pm-post-and-query", "/form.pl?q=in+the+query", b"b=in+the+body", shows=b"[in the body]"),
    post("cgi-pm-post-empty", "/form.pl", b"", shows=b"What came by POST"),
    post("cgi-pm-upload", "/upload.pl", UPLOAD, (UPLOADED,), b"file: pic ture.bin, application/octet-stream, 262144 bytes"),
    post("python-upload", "/upload.py", UPLOAD, (UPLOADED,), b"file pic ture.bin application/octet-stream 262144 "),
    post("awk-body", "/table.awk", b"1 2 3\n4 5 6\n7\n", (("Content-Type", "text/plain"),), b"column 1: 12\ncolumn 2: 7"),
    get("awk-no-body", "/table.awk", b"0 lines"),
]

REDIRECTS = [
    get(
        "redirect-client",
        "/redirect.pl?client",
        status=302,
        fields=(("location", "http://www.example.org/there?a=1&b=2"),),
        servers_own=("reason", "body", "content-type"),
    ),
    get("redirect-document", "/redirect.pl?document", b"<p>There.</p>\n", status=301, reason="Moved Permanently"),
    get("redirect-303", "/redirect.pl?other", b"Done.\n", status=303, reason="See Other"),
    post("redirect-303-post", "/redirect.pl?other", b"a=b", shows=b"Done.\n", status=303),
    get("redirect-local", "/redirect.pl?local", b"raw=from=local&a=%20b\n"),
    get("redirect-local-info", "/redirect.pl?info", b"PATH_INFO b'/from/local'"),
    post("redirect-local-post", "/redirect.pl?local", b"a=b", shows=b"method=GET\nraw=from=local"),
]

HEADERS = [
    Case("cookies-none", Request("/cookies.pl"), whole=b"", fields=(("set-cookie", "count=1; path=/"),)),
    Case(
        "cookies",
        Request("/cookies.pl", headers=(("Cookie", "count=41; session=a%20b%3Bc"),)),
        whole=b"count=41\nsession=a b;c\n",
        fields=(("set-cookie", "session=a%20b%3Bc; path=/; HttpOnly"), ("set-cookie", "count=42; path=/")),
    ),
    Case(
        "headers",
        Request(
            "/headers.py",
            headers=(
                ("X-One", "1"),
                ("x-lower", "in small letters"),
                ("X-Empty", ""),
                ("X-Blanks", "   about   it   "),
                ("X-Quotes", "\"'`$(id);|&<>\\"),
                ("X-Long", "l" * 4000),
                ("Accept", "text/html;q=0.9, */*"),
                ("Accept-Language", "de, en;q=0.5"),
                ("Referer", "http://www.example.org/?from"),
                ("User-Agent", "Regrow's tests (of the gateway)"),
            ),
        ),
        b"HTTP_X_QUOTES=b'\"\\'`$(id);|&<>\\\\'\n",
    ),
    Case("headers-latin-1", Request("/headers.py", headers=(("X-Latin", "\xe4\xf6"),)), b"HTTP_X_LATIN=b'\\xe4\\xf6'"),
    Case("headers-many", Request("/headers.py", headers=tuple((f"X-N-{i}", str(i)) for i in range(80))), b"HTTP_X_N_79"),
    get("headers-out-many", "/many.py", b"a hundred", fields=(("x-field-1", "v" * 13 + "1"), ("x-field-0", "0"))),
    Case("head", Request("/plain.sh", "HEAD"), whole=b"", fields=(("content-type", "text/plain"),)),
    Case("head-own-header", Request("/lf.sh", "HEAD"), whole=b"", fields=(("x-ends", "lf"),)),
    Case("head-length", Request("/length.py", "HEAD"), whole=b"", fields=(("content-length", "20"),)),
    Case("head-large", Request("/large.py", "HEAD"), whole=b"", fields=(("x-length", "5242880"),)),
    get("environment", "/environment.py/in%20fo?q=%20", b"PATH_INFO=/in fo\n"),
    post("environment-post", "/environment.py", b"12345", (("Content-Type", "a/b; c=d"),), b"CONTENT_TYPE=a/b; c=d\n"),
    get("line-ends-lf", "/lf.sh", whole=b"one\ntwo\r\nthree", fields=(("x-ends", "lf"),)),
    get("line-ends-crlf", "/crlf.sh", whole=b"\r\none\ntwo\r\nthree", fields=(("x-ends", "crlf"),)),
    get("line-ends-mixed", "/mixed.sh", whole=b"body\n", status=202, reason="Taken", fields=(("x-ends", "mixed"),)),
]

STATUSES = [
    get("status-404", "/status.pl/404/Not%20Here", whole=b"The status is 404.\n", status=404, reason="Not Here"),
    get("status-418", "/status.pl/418/I'm%20a%20teapot", b"is 418", status=418, reason="I'm a teapot"),
    get("status-500", "/status.pl/500/My%20Own%20Fault", b"is 500", status=500, reason="My Own Fault"),
    get("status-503", "/status.pl/503/Come%20Again", b"is 503", status=503, reason="Come Again"),
    get("status-201", "/status.pl/201/Created", b"is 201", status=201, reason="Created"),
    get("status-200-own", "/status.pl/200/Fine", b"is 200", status=200, reason="Fine"),
    get("status-599", "/status.pl/599/Unheard%20Of", b"is 599", status=599, reason="Unheard Of"),
    get("status-no-reason", "/status.pl/404", whole=b"The status is 404.\n", status=404, servers_own=("reason",)),
    get("status-204", "/status.pl/204/No%20Content", whole=b"", status=204, fields=(("x-why", "nothing to say"),)),
]

BODIES = [
    get("large-out", "/large.py", b"0: \n1: a\n2: ab\n", fields=(("x-length", "5242880"),)),
    post("large-in", "/digest.py", LONG, (("Content-Type", "a/b"),), hashlib.sha256(LONG).hexdigest().encode()),
    post("large-in-and-out", "/echo.cgi", LONG, (("Content-Type", "a/b"),), whole=LONG, fields=(("x-echo", "yes"),)),
    post("echo-small", "/echo.cgi", b"\x00\r\n\xff", (("Content-Type", "image/x"),), whole=b"\x00\r\n\xff"),
    post("bytes", "/bytes.pl", BINARY, (("Content-Type", "a/b"),), whole=bytes(range(256)) + BINARY[::-1]),
    get("bytes-no-body", "/bytes.pl", whole=bytes(range(256))),
    get("binary", "/binary.cgi", fields=(("content-length", "300007"),)),
    get("length", "/length.py", whole="exactly so long: ä\n".encode(), fields=(("content-length", "20"),)),
    get("empty", "/empty.sh", whole=b"", fields=(("x-body", "none"),)),
    Case("chunked", Request("/digest.py", "POST", (("Content-Type", "a/b"),), chunks=(b"one", b"two", b"x")), b"POST a/b 7 "),
    Case("chunked-empty", Request("/digest.py", "POST", (("Content-Type", "a/b"),), chunks=()), b"POST a/b 0 "),
    Case("chunked-large", Request("/digest.py", "POST", chunks=(LONG[:70000], LONG[70000:])), b" 5242880 "),
    post("chain", "/chain.sh", b"x" * 70001, shows=b"70001\n"),
]

PATHS = [
    get("path-info", "/pathinfo.py/a/b/c?d=/e", b"PATH_INFO b'/a/b/c'"),
    get("path-info-slash", "/pathinfo.py/", b"PATH_INFO b'/'\n"),
    get("path-info-none", "/pathinfo.py", b"PATH_INFO b''\n"),
    get("path-info-spaces", "/pathinfo.py/a%20b/%25/c+d", b"PATH_INFO b'/a b/%/c+d'"),
    get("path-info-bytes", "/pathinfo.py/%ff%e4", b"PATH_INFO b'/\\xff\\xe4'"),
    get("path-info-question", "/pathinfo.py/a%3fb%23c?q", b"PATH_INFO b'/a?b#c'"),
    get("path-info-script-again", "/pathinfo.py/x/pathinfo.py/y", b"PATH_INFO b'/x/pathinfo.py/y'"),
    get("name-with-space", "/name%20with%20space.pl", b"name /name with space.pl\ninfo \n"),
    get("name-with-space-info", "/name%20with%20space.pl/in%20fo", b"info /in fo\n"),
    get("subfolder", "/sub/deeper/inner.pl", b"runs in /sub/deeper\nfinds beside.txt inner.pl\n"),
    get("letters-coded", "/%70lain.%73h", whole=b"hello by GET\n"),
    get("folder", "/folder.sh", b"folder scripts\n#!/bin/sh\nWhat lies beside the script.\n"),
]

PROGRAMS = [
    get("plain", "/plain.sh", whole=b"hello by GET\n"),
    get("ends-perl", "/ends.pl", b"BEGIN\nINIT\ndestroyed at the end of its block\nbody\nEND that was compiled last\n"),
    get("ends-python", "/ends.py", b"body\na thread that ends later\nregistered last\nregistered first\n"),
    get("noise", "/noise.pl", b"line 20\nnothing is []\n"),
    get("fails", "/fails.pl", whole=b"all is said\n"),
    get("fails-die", "/fails.pl?die", whole=b"all is said\n"),
    get("pieces", "/pieces.pl", whole=b"piece 1 of 5\npiece 2 of 5; piece 3 of 5\npiece 4 of 5; piece 5 of 5\n"),
    get("closes", "/closes.py", whole=b"said\n"),
    get("fresh", "/fresh.pl", b"count 1, list 1, state 1, seen 0\n"),
    get("fresh-again", "/fresh.pl", b"variable not there, directory clean\n"),
    get("memory", "/memory.cgi", b"started 0, table clean, heap clean, thread's own 7, arguments 0, name memory.cgi\n"),
    get("memory-again", "/memory.cgi", b"last word, started 1\n"),
    get("data", "/data.pl", b"greeting: hello, world\n1: one\n"),
    get("children", "/children.pl", b"from a pipe\nshell says 42\nthe child\nits end 3\nby system\nits end 5\n"),
    get("taint", "/taint.pl?x", b"taint mode 1, warnings 1, a command from outside was refused"),
    get("descriptors", "/descriptors.py", whole=b"open: 0 1 2\n"),
    get("nph", "/nph-raw.pl", whole=b"nobody parsed this header\n", status=203, reason="As I Say", fields=(("x-own", "yes"),)),
]

# What a server says itself: the page is its own, the status is not.
ERRORS = [
    get("missing", "/there/is/none.pl", status=404),
    get("missing-in-folder", "/sub/none.pl", status=404),
    get("closed", "/closed.sh", status=403),
    get("redirect-local-missing", "/redirect.pl?missing", status=404),
]

CASES = [*QUERIES, *FORMS, *REDIRECTS, *HEADERS, *STATUSES, *BODIES, *PATHS, *PROGRAMS]
