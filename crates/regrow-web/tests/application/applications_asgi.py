"""ASGI applications for the tests, each named by the test that calls it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, MutableMapping
from typing import Any, Callable

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

TEXT = [(b"content-type", b"text/plain")]
counter = 0


def log(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


async def start(send: Send, status: int = 200, headers: Any = TEXT) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def part(send: Send, body: Any, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def http_only(application: Application) -> Application:
    async def checked(scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await application(scope, receive, send)

    return checked


@http_only
async def hello(scope: Message, receive: Receive, send: Send) -> None:
    await start(send)
    await part(send, b"hello")


@http_only
async def count(scope: Message, receive: Receive, send: Send) -> None:
    global counter
    counter += 1
    await start(send)
    await part(send, b"%d %s" % (counter, scope["query_string"]))


@http_only
async def show_scope(scope: Message, receive: Receive, send: Send) -> None:
    await start(send)
    await part(send, json.dumps(dict(scope), default=lambda value: value.decode("latin-1")).encode())


@http_only
async def upload(scope: Message, receive: Receive, send: Send) -> None:
    digest, total, longest, more = hashlib.sha256(), 0, 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            log("disconnected after", total)
            return
        digest.update(message["body"])
        total += len(message["body"])
        longest = max(longest, len(message["body"]))
        more = message["more_body"]
    await start(send)
    await part(send, f"{total} {longest} {digest.hexdigest()}".encode())
    log((await receive())["type"], (await receive())["type"])


@http_only
async def echo(scope: Message, receive: Receive, send: Send) -> None:
    ticks = asyncio.create_task(asyncio.sleep(60))
    await start(send)
    more = True
    while more:
        message = await receive()
        more = message["more_body"]
        await part(send, message["body"], more)
    assert not ticks.done()


@http_only
async def streams(scope: Message, receive: Receive, send: Send) -> None:
    await start(send)
    await part(send, b"one", True)
    while not os.path.exists(scope["query_string"]):
        await asyncio.sleep(0.01)
    await part(send, b"two")


async def lives(scope: Message, receive: Receive, send: Send) -> None:
    how = os.environ.get("QUERY_STRING", "")
    if scope["type"] == "http":
        log("request", scope["state"]["name"])
        if how == "raises":
            raise LookupError("in the request")
        await hello(scope, receive, send)
        return
    log((await receive())["type"])
    if how == "fails":
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        raise LookupError("no database")
    scope["state"]["name"] = "shared"
    await send({"type": "lifespan.startup.complete"})
    log((await receive())["type"])
    if how == "fails late":
        await send({"type": "lifespan.shutdown.failed", "message": "no farewell"})
    elif how == "raises late":
        raise LookupError("at the end")
    else:
        await send({"type": "lifespan.shutdown.complete"})
    await receive()


async def knows_no_lifespan(scope: Message, receive: Receive, send: Send) -> None:
    await receive()
    await start(send)
    await part(send, scope["type"].encode())


async def returns_from_lifespan(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await hello(scope, receive, send)


@http_only
async def misuses(scope: Message, receive: Receive, send: Send) -> None:
    how = scope["query_string"].decode()
    if how == "nothing":
        return
    if how == "raises":
        raise LookupError("nothing there")
    if how == "body first":
        await part(send, b"x")
    await start(send)
    if how == "started":
        raise LookupError("before the body")
    if how == "start twice":
        await start(send)
    if how == "unknown":
        await send({"type": "websocket.close"})
    if how == "text":
        await part(send, "text")
    if how == "number":
        await part(send, 5)
    await part(send, b"one", True)
    if how == "incomplete":
        return
    if how == "raises late":
        raise LookupError("in the middle")
    await part(send, memoryview(b"two"))
    if how == "too much":
        await part(send, b"three")
    if how == "raises at last":
        raise LookupError("behind the reply")


@http_only
async def leaves(scope: Message, receive: Receive, send: Send) -> None:
    sys.exit(0)


HEADS: dict[bytes, tuple[Any, Any]] = {
    b"value-lf": (200, [(b"x-a", b"a\nset-cookie: b")]),
    b"value-cr": (200, [(b"x-a", b"a\r")]),
    b"name-colon": (200, [(b"x:a", b"a")]),
    b"name-text": (200, [("x-a", b"a")]),
    b"status": (99, []),
    b"status-text": ("200", []),
    b"long": (200, [(b"content-length", b"2")]),
    b"short": (200, [(b"content-length", b"20")]),
}


@http_only
async def heads(scope: Message, receive: Receive, send: Send) -> None:
    await start(send, *HEADS[scope["query_string"]])
    await part(send, b"abc")


async def numbers(log_as: str) -> AsyncIterator[int]:
    try:
        for number in range(10):
            yield number
    finally:
        log(log_as)


@http_only
async def uses_asyncio(scope: Message, receive: Receive, send: Send) -> None:
    loop = asyncio.get_running_loop()
    assert asyncio.get_event_loop() is loop
    assert asyncio.current_task() is not None
    for _ in range(200):
        assert await loop.run_in_executor(None, threading.get_ident) != threading.get_ident()
    await asyncio.gather(*(asyncio.sleep(0.05) for _ in range(20)))
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate(b"through a program"))[0] == b"through a program"
    reader, writer = await asyncio.open_connection(*await serve_upper())
    writer.write(b"through a socket\n")
    assert await reader.readline() == b"THROUGH A SOCKET\n"
    writer.close()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), 0.01)
    async for _ in numbers("generator closed"):
        break
    scope["left"] = asyncio.create_task(leave_running())
    await asyncio.sleep(0)
    await start(send)
    await part(send, b"all of it")


async def leave_running() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        log("task cancelled")


async def serve_upper() -> tuple[str, int]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    address: tuple[str, int] = server.sockets[0].getsockname()
    return address


@http_only
async def wakes_by_thread(scope: Message, receive: Receive, send: Send) -> None:
    """The first thing that the loop waits for comes from a thread."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    threading.Timer(float(scope["query_string"]), loop.call_soon_threadsafe, (event.set,)).start()
    await event.wait()
    await hello(scope, receive, send)


@http_only
async def wakes_by_signal(scope: Message, receive: Receive, send: Send) -> None:
    """The first thing that the loop waits for is a signal."""
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, event.set)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    await event.wait()
    await hello(scope, receive, send)


@http_only
async def endless(scope: Message, receive: Receive, send: Send) -> None:
    await start(send)
    while True:
        await part(send, b"x" * 10_000, True)


@http_only
async def endless_in_group(scope: Message, receive: Receive, send: Send) -> None:
    """What is raised for the client's absence is another error."""
    try:
        await endless(scope, receive, send)
    except OSError as error:
        raise RuntimeError("the client has gone") from error


@http_only
async def listens(scope: Message, receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "http.request"
    await start(send)
    await part(send, b"listening", True)
    both = await asyncio.gather(receive(), receive())
    log(*(message["type"] for message in both))


@http_only
async def listens_while_sending(scope: Message, receive: Receive, send: Send) -> None:
    await receive()
    listener = asyncio.ensure_future(receive())
    await start(send)
    await part(send, b"one", True)
    await asyncio.sleep(0.05)
    assert not listener.done()
    await part(send, b"two")
    log((await listener)["type"])


@http_only
async def goes_on(scope: Message, receive: Receive, send: Send) -> None:
    """While the reply waits for its reader, another task touches a file."""

    async def touch() -> None:
        await asyncio.sleep(0.05)
        with open(scope["query_string"], "w"):
            pass

    task = asyncio.create_task(touch())
    await start(send)
    await part(send, b"x" * 3_000_000)
    await task
