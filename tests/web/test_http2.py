"""What a client of HTTP/2 may send to the gateway, frame for frame: floods are ended, and nothing is left of them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

import client
import processes
import servers
from watched import noted, plain, started, watched

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


@pytest.fixture(scope="module")
def gateway(place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway of the scripts that misbehave."""
    with servers.serving(place, "--timeout", "3600", "--idle-timeout", "3600", "--header-timeout", "3") as made:
        yield made


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


def literal(name: str, value: str) -> bytes:
    """A field as it stands in a block of fields, without a table and without a code."""
    out = b"\x00"
    for text in (name.encode(), value.encode()):
        length = len(text)
        if length < 127:
            out += bytes([length])
        else:
            out += b"\x7f"
            length -= 127
            while length >= 128:
                out += bytes([length % 128 | 128])
                length //= 128
            out += bytes([length])
        out += text
    return out


def fields(path: str, method: str = "GET", *more: tuple[str, str]) -> bytes:
    """The fields of a request."""
    known = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "127.0.0.1"), *more]
    return b"".join(literal(name, value) for name, value in known)


def headers(stream: int, path: str, *more: tuple[str, str]) -> bytes:
    """A request without a body."""
    return frame(HEADERS, END_HEADERS | END_STREAM, stream, fields(path, "GET", *more))


def opened(gateway: servers.Gateway) -> socket.socket:
    """A connection on which both sides have said their settings."""
    connection = client.connect(gateway.http)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, struct.pack(">I", 1 << 30)))
    return connection


def exactly(connection: socket.socket, length: int) -> bytes:
    """Reads so many bytes, or fewer at the end."""
    got = b""
    try:
        while len(got) < length and (piece := connection.recv(length - len(got))):
            got += piece
    except ConnectionResetError:
        pass
    return got


def frames(connection: socket.socket) -> Iterator[tuple[int, int, int, bytes]]:
    """The frames that come: kind, flags, stream, content."""
    while len(head := exactly(connection, 9)) == 9:
        length = int.from_bytes(head[:3], "big")
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        yield kind, flags, stream, exactly(connection, length)


def test_many_streams_at_once(gateway: servers.Gateway) -> None:
    count = 60
    with watched(gateway) as seen:
        with opened(gateway) as connection:
            connection.sendall(b"".join(headers(2 * number + 1, "/plain.sh") for number in range(count)))
            bodies = dict.fromkeys(range(1, 2 * count, 2), b"")
            ended: set[int] = set()
            for kind, flags, stream, content in frames(connection):
                assert kind not in (RESET, GOAWAY), (kind, stream, content)
                if kind == DATA:
                    bodies[stream] += content
                if kind in (DATA, HEADERS) and flags & END_STREAM:
                    ended.add(stream)
                if len(ended) == count:
                    break
        assert set(bodies.values()) == {b"still here\n"}
        seen.logged = [200] * count


def test_streams_that_are_reset_by_the_hundred(gateway: servers.Gateway) -> None:
    """The flood of CVE-2023-44487: requests that are taken back at once."""
    with watched(gateway, ran=None) as seen:
        with opened(gateway) as connection:
            try:
                for number in range(2000):
                    stream = 2 * number + 1
                    connection.sendall(headers(stream, "/sleeps.sh") + frame(RESET, 0, stream, struct.pack(">I", 8)))
            except (BrokenPipeError, ConnectionResetError):
                pass
            processes.wait_for("all scripts are gone", lambda: not any(processes.exists(pid) for pid in noted(gateway)))
        seen.logged = None


def test_a_stream_that_is_reset_ends_its_script_and_no_other(gateway: servers.Gateway) -> None:
    with watched(gateway) as seen:
        with opened(gateway) as connection:
            connection.sendall(headers(1, "/sleeps.sh"))
            processes.wait_for("the script is under way", lambda: started(gateway) == 1)
            pids = noted(gateway)
            connection.sendall(frame(RESET, 0, 1, struct.pack(">I", 8)))
            processes.wait_for("the script is gone", lambda: not any(processes.exists(pid) for pid in pids))
            connection.sendall(headers(3, "/plain.sh"))
            body = b""
            for kind, flags, stream, content in frames(connection):
                if stream == 3 and kind == DATA:
                    body += content
                if stream == 3 and flags & END_STREAM and kind in (DATA, HEADERS):
                    break
            assert body == b"still here\n"
        seen.logged = [None, 200]


def test_a_header_that_never_ends(gateway: servers.Gateway) -> None:
    """The flood of CVE-2024-27316: continuations without an end."""
    with watched(gateway, ran=False) as seen:
        with opened(gateway) as connection:
            connection.sendall(frame(HEADERS, END_STREAM, 1, fields("/plain.sh")))
            piece = b"".join(literal(f"x-{number}", "v" * 100) for number in range(100))
            try:
                for _ in range(20000):
                    connection.sendall(frame(CONTINUATION, 0, 1, piece))
                pytest.fail("200 MiB of a header were taken")
            except (BrokenPipeError, ConnectionResetError):
                pass
        seen.logged = None


def test_a_header_that_is_too_large(gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as seen:
        with opened(gateway) as connection:
            connection.sendall(frame(HEADERS, END_STREAM, 1, fields("/plain.sh", "GET", ("x-long", "l" * 16000))))
            block = b"".join(literal(f"x-{number}", "v" * 10000) for number in range(20))
            pieces = [block[at : at + 16000] for at in range(0, len(block), 16000)]
            try:
                for number, piece in enumerate(pieces):
                    last = END_HEADERS if number == len(pieces) - 1 else 0
                    connection.sendall(frame(CONTINUATION, last, 1, piece))
            except (BrokenPipeError, ConnectionResetError):
                pass
            kinds = []
            for kind, _, _, content in frames(connection):
                kinds.append(kind)
                if kind == HEADERS:
                    # 431 as a text of three digits, or from a table.
                    assert b"431" in content or content[:1] in (b"\x08", b"\x48", b"\x18"), content
                if kind in (HEADERS, RESET, GOAWAY):
                    break
            assert not kinds or kinds[-1] in (HEADERS, RESET, GOAWAY)
        seen.logged = None


def test_pings_and_settings_without_end(gateway: servers.Gateway) -> None:
    """What is answered by itself is not kept for a client that reads nothing."""
    with watched(gateway, ran=False) as seen:
        with opened(gateway) as connection:
            connection.settimeout(5)
            flood = (frame(PING, 0, 0, b"12345678") + frame(SETTINGS, 0, 0)) * 1000
            try:
                for _ in range(2000):
                    connection.sendall(flood)
            except (BrokenPipeError, ConnectionResetError, TimeoutError):
                pass
            assert processes.anonymous_kib(gateway.pid) < 100 << 10
        seen.logged = None


@pytest.mark.parametrize(
    "raw",
    [
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        PREFACE + frame(DATA, 0, 1, b"x"),
        PREFACE + frame(SETTINGS, 0, 1),
        PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 2, fields("/plain.sh")),
        PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xff\xff\xff\xff\xff\xff"),
        PREFACE + frame(SETTINGS, 0, 0) + frame(WINDOW, 0, 0, b"\0\0\0\0"),
        PREFACE + struct.pack(">I", 1 << 23)[1:] + bytes([DATA, 0]) + struct.pack(">I", 1),
    ],
    ids=["preface", "no-settings", "settings-on-a-stream", "even-stream", "no-fields", "no-window", "huge-frame"],
)
def test_what_is_malformed_ends_the_connection(raw: bytes, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as seen:
        with client.connect(gateway.http) as connection:
            connection.sendall(raw)
            assert any(kind == GOAWAY for kind, _, _, _ in frames(connection)) or exactly(connection, 1) == b""
        seen.logged = None


@pytest.mark.parametrize(
    "block",
    [
        literal(":method", "GET") + literal(":scheme", "http") + literal(":authority", "127.0.0.1"),
        fields("/plain.sh") + literal(":path", "/plain.sh"),
        fields("/plain.sh") + literal("X-Upper", "a"),
        fields("/plain.sh") + literal("x-a", "b\r\nx-injected: c"),
        fields("/plain.sh") + literal("x-a\r\nx-injected", "c"),
        fields("/plain.sh") + literal("x-a", "b\0c"),
        fields("/plain.sh") + literal("connection", "close"),
        fields("/plain.sh") + literal("transfer-encoding", "chunked"),
        fields("/plain.sh\r\nX: y"),
        fields("/plain.sh HTTP/1.1\r\nX: y"),
        fields("plain.sh"),
        fields("/../outside.sh"),
    ],
    ids=[
        "no-path",
        "two-paths",
        "capital",
        "lf",
        "lf-name",
        "zero",
        "connection",
        "encoding",
        "path-lf",
        "line",
        "no-slash",
        "climbs",
    ],
)
def test_a_malformed_request_is_refused(block: bytes, gateway: servers.Gateway) -> None:
    with watched(gateway, ran=False) as seen:
        with opened(gateway) as connection:
            connection.sendall(frame(HEADERS, END_HEADERS | END_STREAM, 1, block))
            for kind, _, stream, content in frames(connection):
                assert not (kind == DATA and b"still here" in content)
                if kind in (RESET, GOAWAY) or (kind in (HEADERS, DATA) and stream == 1):
                    break
        seen.logged = None
    plain(gateway)
