"""`regrow_application` without the gateway: it starts as a CGI script does, and the tests look at its reply byte by byte.

`APPLICATION_PYTHON` names another interpreter for the applications. The tests with frameworks need a virtual environment,
which they make in cargo's target folder; those with images need the package `regrow`, of which `python/check.sh` makes one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
SERVE = HERE.parents[1] / "src" / "serve"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PYTHON = os.environ.get("APPLICATION_PYTHON", sys.executable)
FRAMEWORKS = ("flask==3.1.3", "django==5.2.19", "fastapi==0.165.0")
SECONDS = 60

Variables = Mapping[str, Union[str, bytes]]


def joined_source() -> str:
    """The module, of the parts that the gateway names, joined as the gateway joins them."""
    names = re.findall(r'include_str!\("(application/\w+\.py)"\)', (SERVE / "application.rs").read_text())
    future = "from __future__ import annotations\n"
    for_types = re.compile(r"TYPE_CHECKING = False\nif TYPE_CHECKING:\n(?: .*\n|\n)*")
    return future + "".join(for_types.sub("", (SERVE / name).read_text("ascii").partition(future)[2]) for name in names)


SOURCE = joined_source()


@dataclass
class Reply:
    """What a process has replied."""

    head: list[str]
    body: bytes
    errors: str
    status: int

    @property
    def json(self) -> Any:
        """The body, taken apart."""
        return json.loads(self.body)


def variables_of(given: Variables) -> dict[bytes, bytes]:
    """The environment of a request."""
    plain: dict[str, Union[str, bytes]] = {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "REQUEST_METHOD": "GET",
        "REQUEST_URI": "/",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": "example.org",
        "SERVER_PORT": "8080",
        "REMOTE_ADDR": "192.0.2.1",
        "REMOTE_PORT": "4711",
        "HTTP_HOST": "example.org:8080",
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
        **given,
    }
    return {name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in plain.items()}


def command(target: str, python: str = PYTHON) -> list[str]:
    """How an application is started. The name of its module says of which kind it is."""
    kind = "asgi" if "asgi" in target or "fastapi" in target else "wsgi"
    return [python, "-c", SOURCE, kind, target, str(HERE)]


def wsgi(name: str) -> str:
    """An application of `applications_wsgi`."""
    return f"applications_wsgi:{name}"


def asgi(name: str) -> str:
    """An application of `applications_asgi`."""
    return f"applications_asgi:{name}"


def parsed(data: bytes) -> tuple[list[str], bytes]:
    """A reply's head and body."""
    head, separator, body = data.partition(b"\r\n\r\n")
    assert separator or not data, data
    return head.decode("latin-1").split("\r\n") if separator else [], body


def ask(target: str, body: Optional[bytes] = None, python: str = PYTHON, **variables: Union[str, bytes]) -> Reply:
    """A request, answered."""
    if body is not None:
        variables = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": str(len(body)), **variables}
    done = subprocess.run(
        command(target, python),
        env=variables_of(variables),
        input=body or b"",
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    return Reply(*parsed(done.stdout), done.stderr.decode(), done.returncode)


@contextmanager
def started(target: str, **variables: Union[str, bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A request that is being answered."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(target), env=variables_of(variables), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[bytes], end: bytes) -> bytes:
    """Reads the reply until it ends so."""
    assert process.stdout is not None
    data = b""
    while not data.endswith(end):
        more = process.stdout.read(65536)
        assert more, data
        data += more
    return data


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit status and errors of a process that nobody hears any more."""
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read().decode()
    return process.wait(SECONDS), errors


class TestBoth:
    """What both kinds of applications have in common."""

    def test_a_reply_byte_by_byte(self) -> None:
        reply = ask(wsgi("hello"))
        assert reply == Reply(["Status: 200 OK", "Content-Type: text/plain", "Content-Length: 5"], b"hello", "", 0)
        reply = ask(asgi("hello"))
        assert reply == Reply(["Status: 200", "content-type: text/plain", "Content-Length: 5"], b"hello", "", 0)

    @pytest.mark.parametrize("target", [wsgi("hello"), asgi("hello")])
    def test_the_reply_to_head_has_no_body(self, target: str) -> None:
        reply = ask(target, REQUEST_METHOD="HEAD")
        assert (len(reply.head), reply.body, reply.errors, reply.status) == (2, b"", "", 0)

    @pytest.mark.parametrize("target", [wsgi("raises"), asgi("misuses")])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_an_error_before_the_head_is_a_reply(self, target: str, method: str) -> None:
        reply = ask(target, REQUEST_METHOD=method, QUERY_STRING="raises")
        length = "Content-Length: 22"
        assert reply.head == ["Status: 500 Internal Server Error", "Content-Type: text/plain", length]
        assert reply.body == (b"Internal Server Error\n" if method == "GET" else b"")
        assert reply.status == 0
        assert reply.errors.startswith("Traceback (most recent call last):\n")
        assert reply.errors.endswith("LookupError: nothing there\n")
        assert "<string>" not in reply.errors.splitlines()[1]

    @pytest.mark.parametrize("target", [wsgi("leaves"), asgi("leaves")])
    def test_an_application_that_exits_has_failed(self, target: str) -> None:
        reply = ask(target)
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert "SystemExit" in reply.errors

    @pytest.mark.parametrize(
        ("target", "why"),
        [
            ("no_such_wsgi:x", "ModuleNotFoundError"),
            (wsgi("nothing"), "AttributeError"),
            (wsgi("not_callable"), "is not callable"),
            ("applications_wsgi", "is not of the form module:attribute"),
            ("no_such_asgi:x", "ModuleNotFoundError"),
        ],
    )
    def test_an_application_that_is_not_there(self, target: str, why: str) -> None:
        reply = ask(target)
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert why in reply.errors

    @pytest.mark.parametrize("target", [wsgi("upload"), asgi("upload")])
    def test_a_length_that_is_no_number(self, target: str) -> None:
        reply = ask(target, CONTENT_LENGTH="-5")
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert "is no CONTENT_LENGTH" in reply.errors

    @pytest.mark.parametrize("target", [wsgi("waits"), asgi("streams")])
    def test_a_part_is_there_before_the_next_is_made(self, target: str, tmp_path: Path) -> None:
        with started(target, QUERY_STRING=str(tmp_path / "go")) as process:
            head, body = parsed(read_until(process, b"one"))
            assert (len(head), body) == (2, b"one")
            (tmp_path / "go").touch()
            read_until(process, b"two")
            assert ended(process) == (0, "")

    @pytest.mark.parametrize(
        ("target", "errors"),
        [(wsgi("endless"), "closed\n"), (asgi("endless"), ""), (asgi("endless_in_group"), "")],
    )
    def test_a_client_that_has_gone_is_no_error(self, target: str, errors: str) -> None:
        with started(target) as process:
            assert process.stdout is not None
            assert process.stdout.read(100_000)
            assert ended(process) == (1, errors)

    @pytest.mark.parametrize("target", [wsgi("hello"), wsgi("raises"), asgi("hello")])
    def test_a_client_that_has_gone_at_once(self, target: str) -> None:
        with started(target) as process:
            status, errors = ended(process)
            assert status == 1
            assert "Pipe" not in errors


class TestWsgi:
    """PEP 3333."""

    def test_environ(self) -> None:
        environ = ask(
            wsgi("show_environ"),
            SCRIPT_NAME="/app",
            PATH_INFO="/\u00fc/\u20ac".encode() + b"\xff",
            QUERY_STRING="a=%20",
            CONTENT_TYPE="text/x",
            HTTP_X_A=b"\xe4",
            HTTP_CONTENT_LENGTH="5",
            HTTP_CONTENT_TYPE="x",
        ).json
        assert environ["PATH_INFO"].encode("latin-1") == "/\u00fc/\u20ac".encode() + b"\xff"
        assert (environ["SCRIPT_NAME"], environ["QUERY_STRING"]) == ("/app", "a=%20")
        assert (environ["CONTENT_TYPE"], environ["HTTP_X_A"]) == ("text/x", "\xe4")
        assert not {"HTTP_CONTENT_LENGTH", "HTTP_CONTENT_TYPE"} & environ.keys()
        assert environ["wsgi.version"] == "(1, 0)"
        assert environ["wsgi.url_scheme"] == "http"
        flags = ("multithread", "multiprocess", "run_once", "input_terminated")
        assert [environ[f"wsgi.{flag}"] for flag in flags] == [False, True, True, True]

    @pytest.mark.parametrize("given", [{"HTTPS": "on"}, {"REQUEST_SCHEME": "https"}])
    def test_https(self, given: dict[str, str]) -> None:
        assert ask(wsgi("show_environ"), None, **given).json["wsgi.url_scheme"] == "https"
        assert ask(asgi("show_scope"), None, **given).json["scheme"] == "https"

    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE"])
    def test_the_validator_finds_nothing(self, method: str) -> None:
        body = b"x" * 100_000 if method in ("POST", "PUT") else None
        reply = ask(wsgi("validated"), body, REQUEST_METHOD=method)
        wanted = b"" if method == "HEAD" else b"got %d" % len(body or b"")
        assert (reply.head[0], reply.body, reply.errors, reply.status) == ("Status: 200 OK", wanted, "", 0)

    def test_close_is_always_called(self) -> None:
        assert ask(wsgi("closed")) == Reply(["Status: 200 OK", "Content-Type: text/plain"], b"onetwo", "closed\n", 0)
        reply = ask(wsgi("closed_after_error"))
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert reply.errors.startswith("closed\nTraceback")
        reply = ask(wsgi("closed_after_error"), QUERY_STRING="late")
        assert (reply.head[0], reply.body, reply.status) == ("Status: 200 OK", b"one", 1)
        assert reply.errors.startswith("closed\nTraceback")
        assert reply.errors.endswith("LookupError: in the middle\n")

    def test_an_error_while_closing(self) -> None:
        reply = ask(wsgi("fails_to_close"))
        assert (reply.body, reply.status) == (b"whole", 1)
        assert "while closing" in reply.errors

    def test_start_response(self) -> None:
        reply = ask(wsgi("starts_twice"))
        assert "start_response was called before" in reply.errors
        assert reply.head[0] == "Status: 500 Internal Server Error"
        reply = ask(wsgi("starts_anew"))
        assert reply == Reply(["Status: 503 Later", "X-Second: 2"], b"sorry", "", 0)
        reply = ask(wsgi("starts_anew"), QUERY_STRING="late")
        assert (reply.head, reply.body, reply.status) == (["Status: 200 OK", "X-First: 1"], b"sent", 1)
        assert reply.errors.endswith("LookupError: something is wrong\n")
        assert ask(wsgi("starts_late")) == Reply(["Status: 202 Accepted", "Content-Type: text/plain"], b"late", "", 0)
        reply = ask(wsgi("starts_never"))
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert "has not begun its reply" in reply.errors

    def test_write(self) -> None:
        reply = ask(wsgi("writes"))
        assert reply == Reply(["Status: 200 OK", "Content-Type: text/plain"], b"written twice and returned", "", 0)

    @pytest.mark.parametrize(
        "how",
        [
            "status-crlf",
            "status-word",
            "status-long",
            "status-bytes",
            "value-lf",
            "value-cr",
            "value-nul",
            "value-number",
            "value-unicode",
            "name-space",
            "name-colon",
            "name-empty",
            "length",
        ],
    )
    def test_a_head_that_is_none(self, how: str) -> None:
        reply = ask(wsgi("heads"), QUERY_STRING=how)
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert "Traceback" in reply.errors

    def test_fields_that_are_the_gateways_are_not_passed(self) -> None:
        reply = ask(wsgi("heads"), QUERY_STRING="fine")
        assert reply == Reply(["Status: 200 OK", "X-A: a\tb\xe9", "Content-Length: 1"], b"x", "", 0)

    @pytest.mark.parametrize(
        ("method", "query", "length", "body", "status"),
        [
            ("GET", ",abc", "3", b"abc", 0),
            ("GET", ",", "0", b"", 0),
            ("GET", ",a,bc", None, b"abc", 0),
            ("GET", "3,a,bc", "3", b"abc", 0),
            ("GET", "0", "0", b"", 0),
            ("GET", "4,a,bc", "4", b"abc", 1),
            ("GET", "2,a,bc,d", "2", b"ab", 0),
            ("POST", "3,a,bc", "3", b"abc", 0),
            ("POST", "3,a,bc,d", "3", b"abc", 1),
            ("HEAD", "3", "3", b"", 0),
            ("HEAD", ",abc", None, b"", 0),
        ],
    )
    def test_lengths(self, method: str, query: str, length: Optional[str], body: bytes, status: int) -> None:
        reply = ask(wsgi("lengths"), REQUEST_METHOD=method, QUERY_STRING=query)
        said = [line.partition(": ")[2] for line in reply.head if line.startswith("Content-Length")]
        assert (said, reply.body, reply.status) == ([length] if length else [], body, status)
        assert ("Content-Length" in reply.errors) == bool(status)

    @pytest.mark.parametrize("status", ["204_No_Content", "304_Not_Modified"])
    def test_a_status_without_a_body(self, status: str) -> None:
        assert ask(wsgi("bodiless"), QUERY_STRING=status) == Reply([f"Status: {status.replace('_', ' ')}"], b"", "", 0)

    def test_a_body_of_text_is_an_error(self) -> None:
        reply = ask(wsgi("texts"))
        assert reply.head[0] == "Status: 500 Internal Server Error"
        assert "is str, and not bytes" in reply.errors

    @pytest.mark.parametrize("kind", ["buffered", "raw", "reader", "memory", "gzip"])
    @pytest.mark.parametrize("length", [None, 1000])
    @pytest.mark.parametrize("method", ["GET", "HEAD"])
    def test_files(self, kind: str, length: Optional[int], method: str) -> None:
        query = f"{kind},{length}" if length else kind
        reply = ask(wsgi("files"), QUERY_STRING=query, REQUEST_METHOD=method)
        whole = (b"0123456789" * 100_000)[0 if kind in ("memory", "gzip") else 5 :]
        wanted = whole[:length] if method == "GET" else b""
        assert hashlib.sha256(reply.body).digest() == hashlib.sha256(wanted).digest()
        assert (reply.errors, reply.status) == ("closed\n", 0)
        if kind in ("raw", "reader") and method == "GET":
            assert reply.head[-1] == f"Content-Length: {length or len(whole)}"

    def test_an_empty_file(self) -> None:
        reply = ask(wsgi("empty_file"))
        assert (reply.head[-1], reply.body, reply.status) == ("Content-Length: 0", b"", 0)

    def test_a_file_goes_to_sockets_and_files(self, tmp_path: Path) -> None:
        wanted = (b"0123456789" * 100_000)[5:]
        environment = variables_of({"QUERY_STRING": "reader"})
        for mode in ("wb", "ab"):
            with open(tmp_path / "reply", mode) as file:
                subprocess.run(command(wsgi("files")), env=environment, stdout=file, check=True, timeout=SECONDS)
            assert parsed((tmp_path / "reply").read_bytes())[1] == wanted
            (tmp_path / "reply").unlink()
        ours, theirs = socket.socketpair()
        # A descriptor that does not block is waited for.
        theirs.setblocking(False)
        with ours, subprocess.Popen(command(wsgi("files")), env=environment, stdout=theirs.fileno()) as process:
            theirs.close()
            assert parsed(b"".join(iter(lambda: ours.recv(65536), b"")))[1] == wanted
        assert process.returncode == 0

    @pytest.mark.parametrize("how", ["read", "parts", "lines", "readlines", "iterate", "short"])
    def test_uploads(self, how: str) -> None:
        body = os.urandom(5 << 20) if how in ("read", "parts") else os.urandom(300_000)
        pieces = {"read": 1, "parts": -(-len(body) // 10_000)}.get(how, body.count(b"\n") + (not body.endswith(b"\n")))
        reply = ask(wsgi("upload"), body, QUERY_STRING=how)
        assert (reply.errors, reply.status) == ("", 0)
        number, digest = reply.body.decode().split()
        assert digest == hashlib.sha256(body).hexdigest()
        assert int(number) == pieces or how == "short"

    def test_no_more_than_the_body_is_read(self) -> None:
        reply = ask(wsgi("upload"), b"body and more", CONTENT_LENGTH="4", QUERY_STRING="read")
        assert reply.body.decode() == f"1 {hashlib.sha256(b'body').hexdigest()}"
        reply = ask(wsgi("upload"), b"no body", CONTENT_LENGTH="", QUERY_STRING="parts")
        assert reply.body.startswith(b"0 ")

    def test_a_body_that_ends_early_is_an_error(self) -> None:
        for how in ("read", "parts", "lines"):
            reply = ask(wsgi("upload"), b"body", CONTENT_LENGTH="400", QUERY_STRING=how)
            assert "ConnectionResetError: the request's body has ended 396 bytes early" in reply.errors

    def test_a_body_of_unknown_length(self) -> None:
        body = os.urandom(300_000)
        reply = ask(wsgi("upload"), body, CONTENT_LENGTH="", HTTP_TRANSFER_ENCODING="chunked", QUERY_STRING="read")
        assert reply.body.decode() == f"1 {hashlib.sha256(body).hexdigest()}"

    def test_what_is_printed_is_not_in_the_reply(self) -> None:
        reply = ask(wsgi("prints"))
        assert (reply.body, reply.status) == (b"reply", 0)
        assert sorted(reply.errors.splitlines()) == ["a program's", "printed", "written"]

    @pytest.mark.parametrize("how", ["one", "many"])
    def test_large_bodies(self, how: str) -> None:
        reply = ask(wsgi("large"), QUERY_STRING=how)
        wanted = b"x" * 20_000_000 if how == "one" else b"".join(b"%08d" % number for number in range(50_000))
        assert (reply.body == wanted, reply.errors, reply.status) == (True, "", 0)

    def test_the_reply_ends_before_what_is_done_behind_it(self, tmp_path: Path) -> None:
        with started(wsgi("works_after"), QUERY_STRING=str(tmp_path / "go")) as process:
            assert process.stdout is not None
            assert parsed(process.stdout.read())[1] == b"ab"
            assert process.poll() is None
            (tmp_path / "go").touch()
            assert ended(process) == (0, "")


class TestAsgi:
    """ASGI 3.0."""

    def test_scope(self) -> None:
        scope = ask(
            asgi("show_scope"),
            SCRIPT_NAME="/app",
            PATH_INFO="/\u00fc b".encode(),
            REQUEST_URI="/app/%C3%BC%20b?a=%20",
            QUERY_STRING="a=%20",
            CONTENT_TYPE="text/x",
            HTTP_X_AB=b"\xe4",
            HTTP_CONTENT_LENGTH="5",
            HTTPS="off",
        ).json
        headers = dict(scope.pop("headers"))
        assert headers == {"host": "example.org:8080", "x-ab": "\xe4", "content-type": "text/x"}
        assert scope == {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/app/\u00fc b",
            "raw_path": "/app/%C3%BC%20b",
            "query_string": "a=%20",
            "root_path": "/app",
            "client": ["192.0.2.1", 4711],
            "server": ["example.org", 8080],
            "extensions": {},
        }

    @pytest.mark.parametrize(
        ("uri", "path", "raw"),
        [
            ("/a%2Fb?c://d/e", b"/a/b", "/a%2Fb"),
            ("http://example.org/a%20b?x", b"/a b", "/a%20b"),
            ("*", b"*", "*"),
            ("", b"/a b/%#/\xc3\xbc", "/a%20b/%25%23/%C3%BC"),
            ("", b"", "/"),
        ],
    )
    def test_the_raw_path(self, uri: str, path: bytes, raw: str) -> None:
        scope = ask(asgi("show_scope"), REQUEST_URI=uri, PATH_INFO=path).json
        assert (scope["raw_path"], scope["path"]) == (raw, path.decode() or "/")

    def test_the_version_of_http_and_a_client_without_an_address(self) -> None:
        scope = ask(asgi("show_scope"), SERVER_PROTOCOL="HTTP/2.0", REMOTE_ADDR="", REMOTE_PORT="", SERVER_PORT="").json
        assert (scope["http_version"], scope["client"], scope["server"]) == ("2", None, ["example.org", 80])

    def test_uploads(self) -> None:
        body = os.urandom(5 << 20)
        for variables in ({}, {"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}):
            reply = ask(asgi("upload"), body, **variables)
            total, longest, digest = reply.body.decode().split()
            assert (int(total), digest) == (len(body), hashlib.sha256(body).hexdigest())
            assert int(longest) <= 65536
            assert (reply.errors, reply.status) == ("http.disconnect http.disconnect\n", 0)
        reply = ask(asgi("upload"))
        assert reply.body.decode() == f"0 0 {hashlib.sha256().hexdigest()}"

    def test_an_upload_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "body").write_bytes(b"x" * 100_000)
        with open(tmp_path / "body", "rb") as file:
            environment = variables_of({"CONTENT_LENGTH": "100000"})
            done = subprocess.run(command(asgi("upload")), env=environment, stdin=file, capture_output=True, check=True)
        assert parsed(done.stdout)[1].startswith(b"100000 65536 ")

    def test_an_upload_that_ends_early(self) -> None:
        reply = ask(asgi("upload"), b"body", CONTENT_LENGTH="400")
        assert (reply.head, reply.errors, reply.status) == ([], "disconnected after 4\n", 1)

    def test_request_and_reply_flow_at_the_same_time(self) -> None:
        with started(asgi("echo"), CONTENT_LENGTH="9") as process:
            assert process.stdin is not None
            for piece in (b"one", b"two", b"six"):
                process.stdin.write(piece)
                assert read_until(process, piece)
            assert ended(process) == (0, "")

    def test_a_reply_that_waits_does_not_stop_other_tasks(self, tmp_path: Path) -> None:
        with started(asgi("goes_on"), QUERY_STRING=str(tmp_path / "touched")) as process:
            wait_for(tmp_path / "touched")
            assert len(parsed(read_until(process, b"x" * 10_000))[1]) <= 3_000_000
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0

    def test_one_who_listens_hears_that_the_client_has_gone(self) -> None:
        with started(asgi("listens")) as process:
            assert read_until(process, b"listening")
            time.sleep(0.1)
            assert process.poll() is None
            assert ended(process) == (1, "http.disconnect http.disconnect\n")

    def test_one_who_listens_hears_that_the_reply_is_complete(self) -> None:
        reply = ask(asgi("listens_while_sending"))
        assert (reply.body, reply.errors, reply.status) == (b"onetwo", "http.disconnect\n", 0)

    @pytest.mark.parametrize(
        ("how", "body", "status", "why"),
        [
            ("nothing", None, 0, "without a complete reply"),
            ("body first", None, 0, "before http.response.start"),
            ("started", None, 0, "before the body"),
            ("start twice", None, 0, "was sent before"),
            ("unknown", None, 0, "is no event of a reply"),
            ("text", None, 0, "TypeError"),
            ("number", None, 0, "TypeError"),
            ("incomplete", b"one", 1, "without a complete reply"),
            ("raises late", b"one", 1, "in the middle"),
            ("too much", b"onetwo", 1, "after the reply was complete"),
            ("raises at last", b"onetwo", 1, "behind the reply"),
            ("fine", b"onetwo", 0, ""),
        ],
    )
    def test_errors(self, how: str, body: Optional[bytes], status: int, why: str) -> None:
        reply = ask(asgi("misuses"), QUERY_STRING=how)
        assert reply.head[0] == ("Status: 500 Internal Server Error" if body is None else "Status: 200")
        assert (reply.body, reply.status) == (b"Internal Server Error\n" if body is None else body, status)
        assert why in reply.errors
        assert bool(reply.errors) == bool(why)

    @pytest.mark.parametrize("how", ["value-lf", "value-cr", "name-colon", "name-text", "status", "status-text", "long"])
    def test_a_head_that_is_none(self, how: str) -> None:
        reply = ask(asgi("heads"), QUERY_STRING=how)
        assert (reply.head[0], reply.status) == ("Status: 500 Internal Server Error", 0)
        assert "Traceback" in reply.errors

    def test_a_body_that_is_short(self) -> None:
        reply = ask(asgi("heads"), QUERY_STRING="short")
        assert (reply.body, reply.status) == (b"abc", 1)
        assert "17 bytes shorter" in reply.errors

    @pytest.mark.parametrize(
        ("how", "errors", "body"),
        [
            ("", "lifespan.startup request shared lifespan.shutdown", b"hello"),
            ("raises", r"lifespan.startup request shared Traceback.*LookupError: in the request lifespan.shutdown", None),
            ("fails", r"lifespan.startup Traceback.*the application has not started: no database", None),
            ("fails late", r"lifespan.*shutdown the application has not shut down: no farewell", b"hello"),
            ("raises late", r"lifespan.*shutdown Traceback.*LookupError: at the end", b"hello"),
        ],
    )
    def test_lifespan(self, how: str, errors: str, body: Optional[bytes]) -> None:
        reply = ask(asgi("lives"), QUERY_STRING=how)
        assert (reply.body, reply.status) == (b"Internal Server Error\n" if body is None else body, 0)
        assert re.fullmatch(errors + " ?", reply.errors.replace("\n", " ")), reply.errors

    @pytest.mark.parametrize(("name", "body"), [("knows_no_lifespan", b"http"), ("returns_from_lifespan", b"hello")])
    def test_an_application_without_lifespan(self, name: str, body: bytes) -> None:
        reply = ask(asgi(name))
        assert (reply.body, reply.errors, reply.status) == (body, "", 0)

    def test_asyncio_is_whole(self) -> None:
        reply = ask(asgi("uses_asyncio"))
        assert (reply.body, reply.status) == (b"all of it", 0), reply.errors
        assert sorted(reply.errors.splitlines()) == ["generator closed", "task cancelled"]

    @pytest.mark.parametrize("delay", ["0", "0.0001", "0.001", "0.1"])
    def test_a_thread_wakes_the_loop(self, delay: str) -> None:
        for _ in range(3):
            assert ask(asgi("wakes_by_thread"), QUERY_STRING=delay).body == b"hello"

    def test_a_signal_wakes_the_loop(self) -> None:
        assert ask(asgi("wakes_by_signal")).body == b"hello"


def wait_for(path: Path) -> None:
    """Waits until a file is there."""
    until = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.fixture(scope="session")
def frameworks() -> str:
    """An interpreter that has the frameworks."""
    folder = TARGET / "application-venv"
    made = folder / "made"
    wanted = f"{PYTHON} {FRAMEWORKS}"
    if not made.exists() or made.read_text() != wanted:
        steps: list[Sequence[str]] = [
            [PYTHON, "-m", "venv", "--clear", str(folder)],
            [str(folder / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", *FRAMEWORKS],
        ]
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{' '.join(step[:3])}: {done.stderr.strip()[-300:]}")
        made.write_text(wanted)
    return str(folder / "bin/python")


FORM = {"CONTENT_TYPE": "application/x-www-form-urlencoded"}


class TestFrameworks:
    """What people write applications with."""

    def test_flask(self, frameworks: str) -> None:
        app = "framework_flask:app"
        variables = {"PATH_INFO": "/r\u00e9sum\u00e9/\u20ac", **FORM}
        reply = ask(app, b"a=b%20c", frameworks, **variables)
        assert reply.json == {"form": "b c", "name": "\u20ac", "url": "http://example.org:8080/r\u00e9sum\u00e9/\u20ac"}
        assert ask(app, python=frameworks, PATH_INFO="/stream").body == b"01234"
        reply = ask(app, python=frameworks, PATH_INFO="/file", QUERY_STRING="1")
        assert reply.body == (HERE / "framework_flask.py").read_bytes()
        assert ask(app, python=frameworks, PATH_INFO="/file").body == b"in memory"
        reply = ask(app, python=frameworks, PATH_INFO="/fails")
        assert (reply.head[0], reply.status) == ("Status: 500 INTERNAL SERVER ERROR", 0)
        assert "in the view" in reply.errors

    @pytest.mark.parametrize("name", ["application", "asgi_application"])
    def test_django(self, frameworks: str, name: str) -> None:
        app = f"framework_django:{name}"
        reply = ask(app, b"a=b%20c", frameworks, PATH_INFO="/caf\u00e9/count", **FORM)
        assert reply.json == {"count": 1, "path": "/caf\u00e9/count", "a": "b c"}, reply.errors
        assert ask(app, python=frameworks, PATH_INFO="/stream").body == b"01234"
        assert ask(app, python=frameworks, PATH_INFO="/nowhere").head[0].startswith("Status: 404")

    def test_fastapi(self, frameworks: str) -> None:
        app = "framework_fastapi:app"
        variables = {"PATH_INFO": "/items/k", "CONTENT_TYPE": "application/json"}
        reply = ask(app, b'{"name": "x", "number": 7}', frameworks, **variables)
        assert reply.json == {"key": "k", "number": 8, "pool": "a pool", "url": "http://example.org:8080/items/k"}
        assert reply.errors == "begins\nin the background\nends\n"
        assert ask(app, b"{}", frameworks, **variables).head[0] == "Status: 422"
        for path, body in (("thread", "a thread"), ("anyio", "by anyio")):
            assert ask(app, python=frameworks, PATH_INFO=f"/{path}").json == body
        assert ask(app, python=frameworks, PATH_INFO="/stream").body == b"01234"
        reply = ask(app, python=frameworks, PATH_INFO="/fails")
        assert (reply.head[0], reply.body) == ("Status: 500", b"Internal Server Error")
        assert "in the view" in reply.errors


class TestWarm:
    """Preparing in an image, and serving in runs of it."""

    def runs(self, target: str, program: str, path: str = "/", number: int = 20) -> list[dict[str, Any]]:
        """Requests that are answered out of an image."""
        driver = TARGET / "python" / "venv" / "bin" / "python"
        probe = [str(driver), "-c", "import regrow"]
        if not driver.exists() or subprocess.run(probe, capture_output=True, check=False).returncode:
            pytest.skip("the package regrow is not built: python/check.sh does that")
        kind = command(target)[3]
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "source.py"
            source.write_text(SOURCE, "ascii")
            words = [str(driver), str(HERE / "warm.py"), str(source), program, kind, target, str(HERE), str(number), path]
            environment = {**os.environ, "XDG_RUNTIME_DIR": folder, "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=5 * SECONDS)
        answer = json.loads(done.stdout)
        if answer["point"] is None and "kernel" in answer["why"]:
            pytest.skip(answer["why"])
        assert (answer["point"], answer["why"]) == ("warm", "")
        runs: list[dict[str, Any]] = answer["runs"]
        # One for which no body is ready in time is started by exec, and serves as well.
        assert sum(run["creation"].endswith("at warm") for run in runs) > number / 2
        return runs

    @pytest.mark.parametrize("target", [wsgi("count"), asgi("count")])
    def test_twenty_runs_see_a_fresh_state(self, target: str) -> None:
        for number, run in enumerate(self.runs(target, PYTHON)):
            assert (run["status"], run["errors"]) == (0, "")
            assert run["reply"].endswith(f"\r\n\r\n1 {number}")

    @pytest.mark.parametrize("target", [wsgi("raises"), asgi("uses_asyncio")])
    def test_errors_and_all_of_asyncio_in_an_image(self, target: str) -> None:
        for run in self.runs(target, PYTHON, number=3):
            if target == wsgi("raises"):
                assert run["reply"].endswith("Internal Server Error\n")
                assert run["errors"].endswith("LookupError: nothing there\n")
            else:
                assert run["reply"].endswith("all of it"), run["errors"]
            assert run["status"] == 0

    @pytest.mark.parametrize(
        ("target", "path", "body"),
        [
            ("framework_flask:app", "/count", "1"),
            ("framework_django:application", "/caf\u00e9/count", '{"count": 1,'),
            ("framework_django:asgi_application", "/caf\u00e9/count", '{"count": 1,'),
            ("framework_fastapi:app", "/count", "1"),
            ("framework_fastapi:app", "/thread", '"a thread"'),
        ],
    )
    def test_frameworks_in_an_image(self, frameworks: str, target: str, path: str, body: str) -> None:
        for run in self.runs(target, frameworks, path, number=5):
            assert run["status"] == 0, run
            assert run["reply"].partition("\r\n\r\n")[2].startswith(body), run
