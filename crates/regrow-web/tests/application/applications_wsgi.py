"""WSGI applications for the tests, each named by the test that calls it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any, Callable
from wsgiref.validate import validator

Environ = dict[str, Any]
Start = Callable[..., Callable[[bytes], object]]
Application = Callable[[Environ, Start], Iterable[bytes]]

TEXT = [("Content-Type", "text/plain")]
counter = 0


def hello(environ: Environ, start: Start) -> list[bytes]:
    start("200 OK", TEXT)
    return [b"hello"]


def count(environ: Environ, start: Start) -> list[bytes]:
    global counter
    counter += 1
    start("200 OK", TEXT)
    return [b"%d %s" % (counter, environ["QUERY_STRING"].encode())]


def show_environ(environ: Environ, start: Start) -> list[bytes]:
    start("200 OK", TEXT)
    return [
        json.dumps({name: value if isinstance(value, (str, bool)) else repr(value) for name, value in environ.items()}).encode()
    ]


def careful(environ: Environ, start: Start) -> Iterable[bytes]:
    data = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    body = b"got %d" % len(data)
    start("200 OK", [*TEXT, ("Content-Length", str(len(body)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


validated: Any = validator(careful)


class Closed:
    """An iterable that says that it was closed."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = iter(parts)

    def __iter__(self) -> Iterator[bytes]:
        return self.parts

    def close(self) -> None:
        print("closed", file=sys.stderr)


def closed(environ: Environ, start: Start) -> Closed:
    start("200 OK", TEXT)
    return Closed([b"one", b"", b"two"])


def closed_after_error(environ: Environ, start: Start) -> Closed:
    def parts() -> Iterator[bytes]:
        if environ["QUERY_STRING"] == "late":
            yield b"one"
        raise LookupError("in the middle")

    start("200 OK", TEXT)
    return Closed(parts())


def fails_to_close(environ: Environ, start: Start) -> Iterable[bytes]:
    class Failing(Closed):
        def close(self) -> None:
            raise LookupError("while closing")

    start("200 OK", TEXT)
    return Failing([b"whole"])


def starts_twice(environ: Environ, start: Start) -> list[bytes]:
    start("200 OK", TEXT)
    start("200 OK", TEXT)
    return [b"x"]


def starts_anew(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", [("X-First", "1")])
    if environ["QUERY_STRING"] == "late":
        yield b"sent"
    else:
        yield b""
    try:
        raise LookupError("something is wrong")
    except LookupError:
        start("503 Later", [("X-Second", "2")], sys.exc_info())
    yield b"sorry"


def starts_late(environ: Environ, start: Start) -> Iterator[bytes]:
    yield b""
    start("202 Accepted", TEXT)
    yield b"late"


def starts_never(environ: Environ, start: Start) -> list[bytes]:
    return [b"x"]


def writes(environ: Environ, start: Start) -> list[bytes]:
    write = start("200 OK", TEXT)
    write(b"written ")
    write(b"twice ")
    return [b"and returned"]


HEADS: dict[str, tuple[Any, Any]] = {
    "status-crlf": ("200 OK\r\nX: y", TEXT),
    "status-word": ("OK", TEXT),
    "status-long": ("2000 OK", TEXT),
    "status-bytes": (b"200 OK", TEXT),
    "value-lf": ("200 OK", [("X-A", "a\nSet-Cookie: b")]),
    "value-cr": ("200 OK", [("X-A", "a\rb")]),
    "value-nul": ("200 OK", [("X-A", "a\0")]),
    "value-number": ("200 OK", [("X-A", 1)]),
    "value-unicode": ("200 OK", [("X-A", "\u20ac")]),
    "name-space": ("200 OK", [("X A", "a")]),
    "name-colon": ("200 OK", [("X:A", "a")]),
    "name-empty": ("200 OK", [("", "a")]),
    "length": ("200 OK", [("Content-Length", "-1")]),
    "fine": ("200 OK", [("X-A", "a\tb\xe9"), ("Status", "404"), ("Connection", "close"), ("Transfer-Encoding", "x")]),
}


def heads(environ: Environ, start: Start) -> list[bytes]:
    start(*HEADS[environ["QUERY_STRING"]])
    return [b"x"]


def raises(environ: Environ, start: Start) -> list[bytes]:
    raise LookupError("nothing there")


def leaves(environ: Environ, start: Start) -> list[bytes]:
    sys.exit(0)


def lengths(environ: Environ, start: Start) -> Iterable[bytes]:
    said, *parts = environ["QUERY_STRING"].split(",")
    write = start("200 OK", [("Content-Length", said)] if said else TEXT)
    if environ["REQUEST_METHOD"] == "POST":
        for part in parts:
            write(part.encode())
        return []
    return [part.encode() for part in parts]


def bodiless(environ: Environ, start: Start) -> list[bytes]:
    start(environ["QUERY_STRING"].replace("_", " "), [])
    return [b"a body"]


def texts(environ: Environ, start: Start) -> list[str]:
    start("200 OK", TEXT)
    return ["text"]


def file_of(kind: str) -> Any:
    data = b"0123456789" * 100_000
    file: Any = tempfile.TemporaryFile(buffering=0 if kind == "raw" else -1)  # noqa: SIM115
    if kind == "memory":
        return io.BytesIO(data)
    if kind == "gzip":
        with gzip.GzipFile(fileobj=file, mode="wb") as packed:
            packed.write(data)
        file.seek(0)
        return gzip.GzipFile(fileobj=file)
    file.write(data)
    file.flush()
    reader = open(os.dup(file.fileno()), "rb") if kind == "reader" else file  # noqa: SIM115
    reader.seek(5)
    return reader


def files(environ: Environ, start: Start) -> Any:
    kind, _, length = environ["QUERY_STRING"].partition(",")
    start("200 OK", [("Content-Length", length)] if length else TEXT)
    file = file_of(kind)
    close = file.close

    def tell() -> None:
        print("closed", file=sys.stderr)
        close()

    result: Any = environ["wsgi.file_wrapper"](file, 4096)
    result.close = tell
    return result


def empty_file(environ: Environ, start: Start) -> Any:
    start("200 OK", TEXT)
    return environ["wsgi.file_wrapper"](open(os.devnull, "rb"))


def upload(environ: Environ, start: Start) -> list[bytes]:
    body, how = environ["wsgi.input"], environ["QUERY_STRING"]
    ways: dict[str, Callable[[], Any]] = {
        "read": lambda: [body.read()],
        "parts": lambda: iter(lambda: body.read(10_000), b""),
        "lines": lambda: iter(body.readline, b""),
        "readlines": lambda: body.readlines(),
        "iterate": lambda: body,
        "short": lambda: iter(lambda: body.readline(7), b""),
    }
    digest, number = hashlib.sha256(), 0
    for piece in ways[how]():
        digest.update(piece)
        number += 1
    assert body.read() == b""
    start("200 OK", TEXT)
    return [f"{number} {digest.hexdigest()}".encode()]


def prints(environ: Environ, start: Start) -> list[bytes]:
    print("printed")
    subprocess.run(["echo", "a program's"], check=True)
    os.write(1, b"written\n")
    start("200 OK", TEXT)
    return [b"reply"]


def waits(environ: Environ, start: Start) -> Iterator[bytes]:
    start("200 OK", TEXT)
    yield b"one"
    wait_for_file(environ["QUERY_STRING"])
    yield b"two"


def wait_for_file(path: str) -> None:
    until = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < until
        time.sleep(0.01)


def works_after(environ: Environ, start: Start) -> Iterable[bytes]:
    class Working(Closed):
        def close(self) -> None:
            wait_for_file(environ["QUERY_STRING"])

    start("200 OK", TEXT)
    return Working([b"a", b"b"])


def endless(environ: Environ, start: Start) -> Closed:
    start("200 OK", TEXT)
    return Closed(iter(lambda: b"x" * 10_000, b""))


def large(environ: Environ, start: Start) -> Iterable[bytes]:
    start("200 OK", TEXT)
    return [b"x" * 20_000_000] if environ["QUERY_STRING"] == "one" else (b"%08d" % number for number in range(50_000))


not_callable = 5
