"""The page of hello.pl as a Python application, by WSGI and by ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs


def page(query: str) -> bytes:
    """What is answered."""
    name = parse_qs(query).get("name", ["nobody"])[0]
    return f"Hello, {name}.\n".encode()


def wsgi(environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
    """The application by WSGI."""
    body = page(environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
    """The application by ASGI."""
    assert scope["type"] == "http", scope["type"]
    del receive
    body = page(scope["query_string"].decode())
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
