"""A client that sends exactly what a test says and gives back exactly what came: HTTP/1.1 by hand, h2c through curl."""

from __future__ import annotations

import http.client
import socket
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# How long a reply may take on a machine that has much else to do.
PATIENCE_S = 120.0
# More fields than the standard library takes.
http.client._MAXHEADERS = 1000  # type: ignore[attr-defined]
# How curl ends when a stream is refused because what it asks for is malformed.
REFUSED = (16, 92)
# What belongs to a server or a connection, and not to the script.
NOT_THE_SCRIPTS = frozenset(
    {
        "accept-ranges",
        "alt-svc",
        "connection",
        "date",
        "keep-alive",
        "last-modified",
        "server",
        "transfer-encoding",
        "upgrade",
        "vary",
    }
)
Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Request:
    """What is asked. The path is sent as it stands."""

    path: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes | None = None
    # The pieces of a body whose length is not said ahead.
    chunks: tuple[bytes, ...] | None = None

    def content(self) -> bytes:
        """The whole body."""
        return b"".join(self.chunks) if self.chunks is not None else self.body or b""


@dataclass(frozen=True)
class Reply:
    """What came back. Names of fields are in small letters; HTTP/2 knows no reason."""

    status: int
    reason: str | None
    fields: Headers
    body: bytes
    version: str = field(default="1.1", compare=False)

    def values(self, name: str) -> list[str]:
        """The values of a field, in their order."""
        return [value for known, value in self.fields if known == name]

    def scripts_own(self) -> dict[str, str | list[str]]:
        """The fields that a script wrote: those of one name joined as RFC 9110 (5.3) says, but for cookies."""
        own: dict[str, str | list[str]] = {}
        for name, _ in self.fields:
            if name not in NOT_THE_SCRIPTS:
                own[name] = self.values(name) if name == "set-cookie" else ", ".join(self.values(name))
        return own


def head_of(request: Request, host: str, close: bool = True) -> bytes:
    """The head of a request of HTTP/1.1."""
    lines = [f"{request.method} {request.path} HTTP/1.1", f"Host: {host}"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.chunks is not None:
        lines.append("Transfer-Encoding: chunked")
    elif request.body is not None:
        lines.append(f"Content-Length: {len(request.body)}")
    if close:
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def body_of(request: Request) -> bytes:
    """The body of a request of HTTP/1.1 as it goes over the wire."""
    if request.chunks is None:
        return request.body or b""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in request.chunks) + b"0\r\n\r\n"


class _Replayed:
    """The socket that `http.client` wants, over a connection that has been read from already or not."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")

    def makefile(self, _mode: str) -> Any:
        return self._file


def receive(connection: socket.socket, method: str = "GET") -> Reply:
    """Reads one reply of HTTP/1.1. Raises what `http.client` does when it is cut off or malformed."""
    answer = http.client.HTTPResponse(_Replayed(connection), method=method)  # type: ignore[arg-type]
    answer.begin()
    body = answer.read()
    # Blanks around a value are no part of it (RFC 9110, 5.5).
    fields = tuple((name.lower(), value.strip(" \t")) for name, value in answer.getheaders())
    return Reply(answer.status, answer.reason, fields, body, f"{answer.version // 10}.{answer.version % 10}")


def connect(port: int) -> socket.socket:
    """A connection to a server of this machine."""
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S)


def ask(port: int, request: Request) -> Reply:
    """Sends a request over a connection of its own."""
    with connect(port) as connection:
        connection.sendall(head_of(request, f"127.0.0.1:{port}"))
        try:
            connection.sendall(body_of(request))
        except (BrokenPipeError, ConnectionResetError):
            pass  # The server has answered before it has read all, which is its right.
        return receive(connection, request.method)


def get(port: int, path: str) -> Reply:
    """Asks for a path."""
    return ask(port, Request(path))


def ask_h2c(port: int, request: Request) -> Reply:
    """Sends a request by HTTP/2 without TLS, with prior knowledge."""
    with tempfile.TemporaryDirectory() as folder:
        head, body, sent = Path(folder, "head"), Path(folder, "body"), Path(folder, "sent")
        # Text of Latin-1 stands for its bytes.
        command = ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--path-as-is", "--globoff"]
        command += ["--max-time", str(int(PATIENCE_S)), "--dump-header", str(head), "--output", str(body)]
        # What curl would add by itself.
        command += ["--header", "Accept:", "--header", "User-Agent:", "--header", "Content-Type:", "--header", "Expect:"]
        for name, value in request.headers:
            # A field without a value is curl's way to say that it is to be left out, unless a semicolon stands there.
            command += ["--header", f"{name}: {value.strip()}" if value.strip() else f"{name};"]
        if request.method == "HEAD":
            command.append("--head")
        else:
            command += ["--request", request.method]
        if request.chunks is not None or request.body is not None:
            sent.write_bytes(request.content())
            command += ["--data-binary", f"@{sent}"]
        if request.chunks is not None:
            command += ["--header", "Transfer-Encoding: chunked"]
        command.append(f"http://127.0.0.1:{port}{request.path}")
        done = subprocess.run([word.encode("latin-1") for word in command], check=False, capture_output=True)
        if done.returncode in REFUSED:
            return Reply(400, None, (), b"", "2")
        assert done.returncode == 0, f"curl {request.path} ended with {done.returncode}: {done.stderr!r}"
        # An interim reply has a head of its own.
        last = head.read_bytes().decode("latin-1").rstrip("\r\n").split("\r\n\r\n")[-1].split("\r\n")
        version, status = last[0].split(" ")[:2]
        assert version == "HTTP/2", last[0]
        pairs = [line.split(":", 1) for line in last[1:]]
        content = body.read_bytes() if body.exists() and request.method != "HEAD" else b""
        return Reply(int(status), None, tuple((name.lower(), value.strip()) for name, value in pairs), content, "2")
