"""What a client may send to the gateway's own HTTP server: what is malformed is refused, and nothing else gets through."""

from __future__ import annotations

import http.client
import re
import shutil
import socket
from collections.abc import Iterator

import pytest

import client
import servers
from client import Request
from watched import plain, watched

HOST = b"Host: 127.0.0.1\r\n"
CLOSE = b"Connection: close\r\n"
GET = b"GET /variables.py HTTP/1.1\r\n" + HOST + CLOSE
POST = b"POST /reads.py HTTP/1.1\r\n" + HOST + CLOSE


@pytest.fixture(scope="module")
def gateway(place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway of the scripts that misbehave."""
    (place.abuse / "folder").mkdir(exist_ok=True)
    (place.abuse / "link.sh").unlink(missing_ok=True)
    (place.abuse / "link.sh").symlink_to(place.root / "outside.sh")
    shutil.copy(place.abuse / "plain.sh", place.abuse / ".hidden.sh")
    with servers.serving(place) as made:
        yield made


def send(port: int, raw: bytes, method: str = "GET") -> client.Reply:
    """Sends bytes as they are, and reads a reply."""
    with client.connect(port) as connection:
        connection.sendall(raw)
        return client.receive(connection, method)


def refused(port: int, raw: bytes) -> int:
    """The status that something is refused with; 400 where the connection is closed without a word."""
    with client.connect(port) as connection:
        connection.sendall(raw)
        try:
            return client.receive(connection).status
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return 400


def variables(reply: client.Reply) -> dict[str, str]:
    """What the script's environment was."""
    assert reply.status == 200, reply
    return dict(line.split("=", 1) for line in reply.body.decode("latin-1").splitlines())


CLIMBS = [
    "/../outside.sh",
    "/%2e%2e/outside.sh",
    "/%2E%2e/outside.sh",
    "/.%2e/outside.sh",
    "/..%2foutside.sh",
    "/%2e%2e%2foutside.sh",
    "/..%5coutside.sh",
    "/..\\outside.sh",
    "/%252e%252e/outside.sh",
    "/%252e%252e%252foutside.sh",
    "/..%c0%afoutside.sh",
    "/%c0%ae%c0%ae/outside.sh",
    "/%u002e%u002e/outside.sh",
    "/..%00/outside.sh",
    "/..;/outside.sh",
    "/...//outside.sh",
    "/..//outside.sh",
    "//../outside.sh",
    "/./../outside.sh",
    "/folder/../../outside.sh",
    "/folder/%2e%2e/%2e%2e/outside.sh",
    "/plain.sh/../../outside.sh",
    "/folder/..%2f..%2foutside.sh",
    "/link.sh",
    "/folder/../link.sh",
    "/.hidden.sh",
    "/%2ehidden.sh",
    "/folder",
    "/folder/",
    "/",
    "/noted.py",
    "/noted.sh",
    "/plain.sh%00",
    "/plain.sh%00.txt",
    "/%",
    "/%4",
    "/%zz",
    "/plain.sh%0a",
    "//etc/passwd",
    "/%2fetc%2fpasswd",
    "http://127.0.0.1/../outside.sh",
    "http://127.0.0.1/%2e%2e/outside.sh",
    "*",
    "outside.sh",
    "../outside.sh",
    "/" + "../" * 40 + "etc/passwd",
    "/" + "a" * 300 + "/plain.sh",
    "/" + "a/" * 5000 + "plain.sh",
]


@pytest.mark.parametrize("path", CLIMBS, ids=lambda path: path[:40])
def test_no_path_leads_out(path: str, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as misuse:
        status = refused(gateway.http, f"GET {path} HTTP/1.1\r\n".encode("latin-1") + HOST + CLOSE + b"\r\n")
        assert status in (400, 403, 404), status
        # Whether something else than a path was a request at all is the server's to say.
        misuse.logged = [status] if path.startswith(("/", "http")) else None


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"X-A: b\rX-Injected: 1\r\n", "a carriage return in a value"),
        (b"X-A: b\x00c\r\n", "a zero in a value"),
        (b"X-A: b\x07c\r\n", "a control character in a value"),
        (b"X A: b\r\n", "a blank in a name"),
        (b"X-A : b\r\n", "a blank behind a name"),
        (b"X\tA: b\r\n", "a tab in a name"),
        (b": b\r\n", "no name"),
        (b"X-A\r\n", "no colon"),
        (b"X(A): b\r\n", "a bracket in a name"),
        (b"X\xe4: b\r\n", "a byte beyond ASCII in a name"),
        (b"X-A: b\r\n folded: c\r\n", "a folded line"),
        (b"Content-Length: 1\r\nContent-Length: 2\r\n", "two lengths"),
        (b"Content-Length: -1\r\n", "a negative length"),
        (b"Content-Length: +1\r\n", "a length with a sign"),
        (b"Content-Length: 0x1\r\n", "a length in other digits"),
        (b"Content-Length: 1, 2\r\n", "two lengths in one"),
        (b"Content-Length: 99999999999999999999999\r\n", "a length beyond all numbers"),
        (b"Transfer-Encoding: gzip\r\n", "an encoding that is not known"),
        (b"Transfer-Encoding: chunked, gzip\r\n", "an encoding behind the chunks"),
        (b"Transfer-Encoding: xchunked\r\n", "nearly chunks"),
        (b"Host: other.example\r\n", "a second host"),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_malformed_field_is_refused(line: bytes, what: str, gateway: servers.Gateway) -> None:
    with client.connect(gateway.http) as connection:
        connection.sendall(GET.replace(b"GET", b"POST") + line + b"\r\n")
        try:
            status = client.receive(connection).status
        except (http.client.RemoteDisconnected, ConnectionResetError):
            status = 400
    assert status in (400, 501), what
    plain(gateway)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /variables.py\r\n\r\n",
        b"GET  /variables.py HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /variables.py HTTP/1.1 \r\n" + HOST + b"\r\n",
        b"GET /variables.py HTTP/3.0\r\n" + HOST + b"\r\n",
        b"GET /variables.py HTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /a\x00b HTTP/1.1\r\n" + HOST + b"\r\n",
        b"G(T /variables.py HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /variables.py HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x55" * 100 + b"\r\n\r\n",
    ],
    ids=["0.9", "two-blanks", "blank-at-end", "version-3", "no-protocol", "zero", "bracket", "no-host", "tls"],
)
def test_a_malformed_request_is_refused(raw: bytes, gateway: servers.Gateway) -> None:
    assert refused(gateway.http, raw) in (400, 505)
    plain(gateway)


def test_a_field_named_proxy_is_no_variable_of_a_proxy(gateway: servers.Gateway) -> None:
    with watched(gateway) as misuse:
        for name in (b"Proxy", b"proxy", b"PROXY"):
            found = variables(send(gateway.http, GET + name + b": http://evil.example/\r\n\r\n"))
            assert not [key for key, value in found.items() if "PROXY" in key.upper() or "evil" in value]
        misuse.logged = [200] * 3


def test_fields_with_underscores_do_not_take_the_place_of_others(gateway: servers.Gateway) -> None:
    fields = b"X_Under: forged\r\nX-Under: true\r\nX_Only: forged\r\nContent_Length: 7\r\nContent_Type: forged/x\r\n"
    with watched(gateway) as misuse:
        found = variables(send(gateway.http, GET + fields + b"\r\n"))
        assert found["HTTP_X_UNDER"] == "'true'"
        assert not [key for key, value in found.items() if "forged" in value]
        misuse.logged = [200]


def test_variables_of_the_gateway_itself_are_not_the_clients_to_set(gateway: servers.Gateway) -> None:
    fields = b"Regrow-Order: 63\r\nRegrow-Warm: 63\r\nPath: /evil\r\nScript-Name: /evil\r\nLd-Preload: /evil.so\r\n"
    with watched(gateway) as misuse:
        found = variables(send(gateway.http, GET + fields + b"Https: on\r\nRemote-Addr: 6.6.6.6\r\n\r\n"))
        forged = {name: value for name, value in found.items() if "evil" in value or value in ("'63'", "'6.6.6.6'")}
        forged = {name: value for name, value in forged.items() if not name.startswith("HTTP_")}
        assert not forged, forged
        assert "HTTPS" not in found
        assert found["REMOTE_ADDR"] == "'127.0.0.1'"
        misuse.logged = [200]


def test_what_the_gateway_was_started_with_is_not_told(gateway: servers.Gateway) -> None:
    """A script gets what RFC 3875 says, a search path, and what was asked for."""
    found = variables(send(gateway.http, GET + b"\r\n"))
    assert found["REGROW_TEST_NOTES"]
    assert found["GATEWAY_INTERFACE"] == "'CGI/1.1'"
    for name in ("HOME", "TMPDIR", "REGROW_WARM", "REGROW_ORDER"):
        assert name not in found


def test_a_length_beside_chunks_is_not_believed(gateway: servers.Gateway) -> None:
    raw = POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n"
    with client.connect(gateway.http) as connection:
        connection.sendall(raw)
        reply = client.receive(connection)
    if reply.status != 400:
        said, length = reply.body.split()[:2]
        assert (reply.status, length) == (200, b"5")
        assert said in (b"5", b"none")


@pytest.mark.parametrize(
    "chunk", [b"zz\r\nx\r\n", b"-1\r\nx\r\n", b"5\r\n1234567\r\n0\r\n\r\n", b"fffffffffffffffff\r\nx", b"5;\n12345\n"]
)
def test_a_malformed_chunk_ends_the_request(chunk: bytes, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=True) as misuse:
        # One that is well-formed goes first, so that the script is there whenever it is started.
        assert refused(gateway.http, POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" + chunk) == 400
        misuse.logged = [None]
        plain(gateway)
        misuse.logged.append(200)


@pytest.mark.parametrize(
    "head", [b"Content-Length: 100\r\n\r\n0123456789", b"Transfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n"]
)
def test_a_body_that_breaks_off_is_no_body(head: bytes, gateway: servers.Gateway) -> None:
    with client.connect(gateway.http) as connection:
        connection.sendall(POST + head)
        connection.shutdown(socket.SHUT_WR)
        try:
            status = client.receive(connection).status
        except (http.client.RemoteDisconnected, ConnectionResetError):
            status = 400
    assert status != 200
    plain(gateway)


def test_http_1_0(gateway: servers.Gateway) -> None:
    with client.connect(gateway.http) as connection:
        connection.sendall(b"GET /plain.sh HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, body = answer.split(b"\r\n\r\n", 1)
    # A client of that age knows no chunks: the end of the connection is the end of the body.
    assert body == b"still here\n"
    assert head.split(b"\r\n")[0].split()[1] == b"200"
    assert b"chunked" not in head.lower()


@pytest.mark.parametrize("path", ["/plain.sh", "/none.sh"])
def test_http_1_0_kept(path: str, gateway: servers.Gateway) -> None:
    """A connection that is said to be kept is; one whose end is the end of a body is not said to be."""
    raw = f"GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode()
    with client.connect(gateway.http) as connection:
        connection.sendall(raw)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        said = {line.split(b":")[0].lower(): line.split(b":", 1)[1].strip().lower() for line in head.split(b"\r\n")[1:-2]}
        if b"content-length" in said:
            assert len(connection.recv(int(said[b"content-length"]), socket.MSG_WAITALL)) == int(said[b"content-length"])
            if said.get(b"connection") == b"keep-alive":
                connection.sendall(raw)
                assert connection.recv(8) == b"HTTP/1.0"
        else:
            assert said.get(b"connection", b"close") == b"close"


def test_requests_that_follow_each_other(gateway: servers.Gateway) -> None:
    one = b"GET /plain.sh HTTP/1.1\r\n" + HOST
    with watched(gateway) as misuse, client.connect(gateway.http) as connection:
        for _ in range(20):
            connection.sendall(one + b"\r\n")
            assert client.receive(connection).body == b"still here\n"
        misuse.logged = [200] * 20


def test_requests_that_do_not_wait_for_each_other(gateway: servers.Gateway) -> None:
    one = b"GET /plain.sh HTTP/1.1\r\n" + HOST
    posted = b"POST /reads.py HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
    with watched(gateway) as misuse, client.connect(gateway.http) as connection:
        connection.sendall((one + b"\r\n") * 5 + posted + one + CLOSE + b"\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert len(re.findall(rb"HTTP/1\.1 200", answer)) == 7
        assert answer.count(b"still here\n") == 6
        assert b"3 3 a9993e36" in answer
        assert answer.index(b"3 3 a9993e36") < answer.rindex(b"still here\n")
        misuse.logged = [200] * 7


def test_a_body_that_nobody_reads_is_no_part_of_the_next_request(gateway: servers.Gateway) -> None:
    """A body that a script has left unread, with a request in it, is not taken for that request."""
    smuggled = b"GET /variables.py?smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
    raw = b"POST /plain.sh HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(smuggled) + smuggled
    with client.connect(gateway.http) as connection:
        connection.sendall(raw + b"GET /plain.sh HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert b"smuggled" not in answer
    assert 1 <= answer.count(b"still here\n") <= 2


def test_a_client_that_waits_for_leave_to_send_is_given_it(gateway: servers.Gateway) -> None:
    with client.connect(gateway.http) as connection:
        connection.sendall(POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        line = b""
        while not line.endswith(b"\r\n\r\n"):
            piece = connection.recv(1)
            assert piece
            line += piece
        assert line.startswith(b"HTTP/1.1 100")
        connection.sendall(b"abc")
        assert client.receive(connection).body.startswith(b"3 3 a9993e36")


def test_methods_that_are_not_for_scripts(gateway: servers.Gateway) -> None:
    assert refused(gateway.http, b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n") in (400, 404, 405, 501)
    plain(gateway)


def test_a_long_query_arrives(gateway: servers.Gateway) -> None:
    query = "q" * 30000
    found = variables(client.ask(gateway.http, Request(f"/variables.py?{query}")))
    assert found["QUERY_STRING"] == repr(query)
