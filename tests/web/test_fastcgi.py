"""What a web server, or who pretends to be one, may send to the gateway as a FastCGI responder, byte for byte."""

from __future__ import annotations

import shutil
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import processes
import servers
from watched import few_descriptors, noted, plain, sockets, started, watched

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, GET_VALUES_RESULT, UNKNOWN = range(1, 12)
KEEP = 1


@pytest.fixture(scope="module")
def gateway(place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway of the scripts that misbehave."""
    (place.abuse / ".hidden").mkdir(exist_ok=True)
    for name in (".hidden.sh", ".hidden/plain.sh"):
        shutil.copy(place.abuse / "plain.sh", place.abuse / name)
    with servers.serving(place, "--timeout", "3600", "--idle-timeout", "3600", "--max-body", "1M") as made:
        yield made


def record(kind: int, content: bytes = b"", number: int = 1, *, padding: int = 0, version: int = 1) -> bytes:
    """A record of FastCGI."""
    return struct.pack(">BBHHBx", version, kind, number, len(content), padding) + content + b"p" * padding


def pairs(variables: dict[str, str]) -> bytes:
    """Names and values as they stand in a stream."""
    out = b""
    for name, value in variables.items():
        for text in (name.encode(), value.encode()):
            out += bytes([len(text)]) if len(text) < 128 else struct.pack(">I", len(text) | 1 << 31)
        out += name.encode() + value.encode()
    return out


def begin(flags: int = 0, role: int = 1, number: int = 1) -> bytes:
    """The record that a request begins with."""
    return record(BEGIN, struct.pack(">HB5x", role, flags), number)


def variables(place: servers.Place, path: str, **more: str) -> dict[str, str]:
    """What a web server says of a request."""
    known = {
        "SCRIPT_FILENAME": str(place.abuse / path.split("?")[0].lstrip("/")),
        "SCRIPT_NAME": path.split("?")[0],
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": path.partition("?")[2],
        "REQUEST_URI": path,
        "SERVER_PROTOCOL": "HTTP/1.1",
        "GATEWAY_INTERFACE": "CGI/1.1",
        "REMOTE_ADDR": "192.0.2.7",
        "SERVER_NAME": "orchard.example",
        "SERVER_PORT": "80",
    }
    return {**known, **more}


def request(
    place: servers.Place,
    path: str,
    body: bytes = b"",
    flags: int = 0,
    number: int = 1,
    more: dict[str, str] | None = None,
) -> bytes:
    """A whole request."""
    known = variables(place, path, **more or {})
    if body:
        known = {"CONTENT_LENGTH": str(len(body)), **known, "REQUEST_METHOD": "POST"}
    out = begin(flags, number=number) + record(PARAMS, pairs(known), number) + record(PARAMS, number=number)
    for at in range(0, len(body), 65535):
        out += record(STDIN, body[at : at + 65535], number)
    return out + record(STDIN, number=number)


@dataclass
class Answer:
    """What came back for one request."""

    out: bytes = b""
    error: bytes = b""
    end: tuple[int, int] | None = None


class Connection:
    """A connection of a web server to the gateway."""

    def __init__(self, gateway: servers.Gateway) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(120)
        self.socket.connect(str(gateway.socket))

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, raw: bytes) -> None:
        """Sends bytes."""
        self.socket.sendall(raw)

    def exactly(self, length: int) -> bytes:
        """Reads so many bytes, or fewer at the end."""
        got = b""
        while len(got) < length and (piece := self.socket.recv(length - len(got))):
            got += piece
        return got

    def record(self) -> tuple[int, int, bytes] | None:
        """The next record: its kind, its request, its content."""
        head = self.exactly(8)
        if len(head) < 8:
            return None
        version, kind, number, length, padding = struct.unpack(">BBHHBx", head)
        assert version == 1
        content = self.exactly(length)
        self.exactly(padding)
        return kind, number, content

    def answer(self) -> Answer:
        """Reads to the end of a request, or of the connection."""
        answer = Answer()
        while (got := self.record()) is not None:
            kind, _, content = got
            if kind == STDOUT:
                answer.out += content
            elif kind == STDERR:
                answer.error += content
            elif kind == END:
                answer.end = struct.unpack(">IB3x", content)
                break
        return answer

    def ended(self) -> bool:
        """Whether the other side has closed the connection, and said nothing more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


def check(answer: Answer, status: int = 200) -> None:
    """Whether a plain reply, or a refusal with a status, came whole."""
    assert answer.end == (0, 0), answer
    head = answer.out.split(b"\r\n\r\n")[0].split(b"\n\n")[0]
    assert (b"Status: %d" % status in head) or status == 200, answer
    if status == 200:
        assert answer.out.endswith(b"still here\n")


def test_a_request_and_the_end_of_the_connection(place: servers.Place, gateway: servers.Gateway) -> None:
    with watched(gateway) as seen:
        with Connection(gateway) as connection:
            connection.send(request(place, "/plain.sh"))
            check(connection.answer())
            assert connection.ended()
        seen.logged = [200]


def test_a_connection_that_is_kept(place: servers.Place, gateway: servers.Gateway) -> None:
    with watched(gateway) as seen, Connection(gateway) as connection:
        for number in range(1, 30):
            connection.send(request(place, "/plain.sh", flags=KEEP, number=number * 7 % 65536))
            check(connection.answer())
        seen.logged = [200] * 29


def test_bytes_that_come_one_by_one(place: servers.Place, gateway: servers.Gateway) -> None:
    with Connection(gateway) as connection:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        for byte in request(place, "/reads.py", b"one by one"):
            connection.send(bytes([byte]))
        assert b"10 10 " in connection.answer().out


def test_variables_in_many_records_with_padding(place: servers.Place, gateway: servers.Gateway) -> None:
    stream = pairs(variables(place, "/variables.py", LONG="l" * 70000, EMPTY="", HTTP_X="y"))
    raw = begin()
    for at in range(0, len(stream), 997):
        raw += record(PARAMS, stream[at : at + 997], padding=at % 256)
    with Connection(gateway) as connection:
        connection.send(raw + record(PARAMS, padding=255) + record(STDIN, padding=3))
        answer = connection.answer()
    lines = answer.out.decode().splitlines()
    assert f"LONG={'l' * 70000!r}" in lines
    assert "EMPTY=''" in lines
    assert "REMOTE_ADDR='192.0.2.7'" in lines


def test_a_web_server_that_forwards_a_proxy_is_not_believed(place: servers.Place, gateway: servers.Gateway) -> None:
    """nginx and Apache pass the client's field on as it is: HTTP_PROXY is a variable of theirs."""
    with Connection(gateway) as connection:
        connection.send(request(place, "/variables.py", more={"HTTP_PROXY": "http://evil.example/"}))
        assert b"evil" not in connection.answer().out


@pytest.mark.parametrize("name", ["REGROW_WARM", "REGROW_ORDER"])
def test_variables_that_are_front_ends_own(name: str, place: servers.Place, gateway: servers.Gateway) -> None:
    """A web server that passes them on changes nothing, and no script sees them."""
    with Connection(gateway) as connection:
        connection.send(request(place, "/variables.py", more={name: "63"}))
        answer = connection.answer()
    assert answer.end == (0, 0)
    assert b"REMOTE_ADDR='192.0.2.7'" in answer.out
    assert name.encode() not in answer.out


@pytest.mark.parametrize(
    "path",
    ["/../outside.sh", "/nothing.sh", "/noted.py", "/folder", "/", "/../../../../bin/sh", "/.hidden.sh", "/.hidden/plain.sh"],
)
def test_no_script_but_those_of_the_folder(path: str, place: servers.Place, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as seen:
        with Connection(gateway) as connection:
            connection.send(request(place, path))
            answer = connection.answer()
        assert answer.end == (0, 0)
        status = int(answer.out.split(b"Status: ")[1][:3])
        assert status in (400, 403, 404)
        seen.logged = [status]


def test_other_roles_are_refused(gateway: servers.Gateway) -> None:
    for role in (2, 3, 77):
        with Connection(gateway) as connection:
            connection.send(begin(role=role))
            assert connection.answer().end == (0, 3)


def test_what_the_gateway_can_is_told(gateway: servers.Gateway) -> None:
    with Connection(gateway) as connection:
        asked = pairs({"FCGI_MAX_CONNS": "", "FCGI_MAX_REQS": "", "FCGI_MPXS_CONNS": "", "OTHER": ""})
        connection.send(record(GET_VALUES, asked, 0))
        got = connection.record()
        assert got is not None
        assert got[0] == GET_VALUES_RESULT
        assert b"FCGI_MPXS_CONNS0" in got[2]
        assert b"OTHER" not in got[2]


def test_records_that_nobody_knows_are_said_to_be(place: servers.Place, gateway: servers.Gateway) -> None:
    with Connection(gateway) as connection:
        connection.send(record(99, b"what", 0))
        got = connection.record()
        assert got is not None
        assert (got[0], got[2][0]) == (UNKNOWN, 99)
        connection.send(request(place, "/plain.sh"))
        check(connection.answer())


def test_a_second_request_beside_the_first_is_refused(place: servers.Place, gateway: servers.Gateway) -> None:
    with Connection(gateway) as connection:
        connection.send(begin(KEEP) + begin(KEEP, number=2))
        assert connection.answer().end == (0, 1)
        connection.send(request(place, "/plain.sh")[16:])
        check(connection.answer())


@pytest.mark.parametrize(
    "raw",
    [
        record(BEGIN, b"\0\1\0\0\0\0\0\0", version=2),
        record(BEGIN, b"\0\1"),
        record(STDIN, b"without a beginning"),
        record(PARAMS, b"without a beginning"),
        begin() + record(PARAMS, b"\xff\xff\xff\xff\xff\xff\xff\xffname"),
        begin() + record(PARAMS, b"\x05\x05short") + record(PARAMS),
        begin() + b"".join(record(PARAMS, pairs({f"N{number}": "v" * 60000})) for number in range(400)),
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["version", "short-begin", "stdin", "params", "huge-lengths", "cut-pair", "24-mib", "http"],
)
def test_what_is_no_fastcgi_ends_the_connection(raw: bytes, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as seen:
        with Connection(gateway) as connection:
            try:
                connection.send(raw)
                # No more comes; who waits for more is not to wait for ever.
                connection.socket.shutdown(socket.SHUT_WR)
                answer = connection.answer()
            except (BrokenPipeError, ConnectionResetError):
                answer = Answer()
        assert b"still here" not in answer.out
        seen.logged = None


def test_a_request_that_is_aborted(place: servers.Place, gateway: servers.Gateway) -> None:
    for flags in (0, KEEP, KEEP):
        with watched(gateway) as seen:
            with Connection(gateway) as connection:
                connection.send(request(place, "/sleeps.sh", flags=flags))
                processes.wait_for("the script is under way", lambda: started(gateway) > 0)
                connection.send(record(ABORT))
                assert connection.answer().end is not None
                processes.wait_for("the script is gone", lambda: not any(processes.exists(pid) for pid in noted(gateway)))
            seen.logged = [None]


def test_a_connection_that_breaks_off(place: servers.Place, gateway: servers.Gateway) -> None:
    whole = request(place, "/sleeps.sh")
    counts = [sockets(gateway.pid)]
    for _ in range(10):
        with watched(gateway) as seen:
            with Connection(gateway) as connection:
                connection.send(whole)
                processes.wait_for("the script is under way", lambda: started(gateway) > 0)
            seen.logged = [None]
        if few_descriptors(gateway, counts[-1]):
            break
        counts.append(sockets(gateway.pid))
    else:
        pytest.fail(f"descriptors, time after time: {counts}")
    for at in (1, 8, 9, 16, 20, len(whole) // 2, len(whole) - 9):
        with Connection(gateway) as connection:
            connection.send(whole[:at])
    plain(gateway)


def test_a_body_that_is_cut_is_no_body(place: servers.Place, gateway: servers.Gateway) -> None:
    known = variables(place, "/reads.py", CONTENT_LENGTH="100", REQUEST_METHOD="POST")
    raw = begin() + record(PARAMS, pairs(known)) + record(PARAMS) + record(STDIN, b"0123456789")
    with watched(gateway, ran=None) as seen:
        with Connection(gateway) as connection:
            connection.send(raw)
        seen.logged = [None]


@pytest.mark.parametrize("said", [{}, {"CONTENT_LENGTH": ""}, {"CONTENT_LENGTH": "-1"}], ids=["nothing", "empty", "Caddy's"])
def test_a_body_without_a_length(said: dict[str, str], place: servers.Place, gateway: servers.Gateway) -> None:
    known = variables(place, "/reads.py", REQUEST_METHOD="POST", **said)
    raw = begin() + record(PARAMS, pairs(known)) + record(PARAMS)
    body = b"x" * 200000
    for at in range(0, len(body), 30000):
        raw += record(STDIN, body[at : at + 30000])
    with Connection(gateway) as connection:
        connection.send(raw + record(STDIN))
        assert b" 200000 " in connection.answer().out


@pytest.mark.parametrize("said", [True, False])
def test_a_body_that_is_too_large(said: bool, place: servers.Place, gateway: servers.Gateway) -> None:
    length = {"CONTENT_LENGTH": str(2 << 20)} if said else {}
    known = variables(place, "/reads.py", REQUEST_METHOD="POST", **length)
    with watched(gateway, ran=None) as seen:
        with Connection(gateway) as connection:
            connection.send(begin() + record(PARAMS, pairs(known)) + record(PARAMS))
            for _ in range(64):
                connection.send(record(STDIN, b"x" * 32768))
            connection.send(record(STDIN))
            check(connection.answer(), 413)
        seen.logged = [413]


def test_a_body_that_nobody_reads(place: servers.Place, gateway: servers.Gateway) -> None:
    """The reply comes, whole, and whoever sends is not cut off while it does."""
    body = b"x" * (1 << 20)
    known = variables(place, "/plain.sh", CONTENT_LENGTH=str(len(body)), REQUEST_METHOD="POST")
    with Connection(gateway) as connection:
        connection.send(begin() + record(PARAMS, pairs(known)) + record(PARAMS))
        # As Apache does: everything is sent before anything is read, however long the script has been ready.
        processes.wait_for("the script has run", lambda: bool(noted(gateway)))
        for at in range(0, len(body), 32768):
            connection.send(record(STDIN, body[at : at + 32768]))
        connection.send(record(STDIN))
        check(connection.answer())
