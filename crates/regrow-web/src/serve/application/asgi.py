"""ASGI 3: the scope, `receive` and `send` of an application, for its request and for its lifespan.

A part of the module `regrow_application` (see `reply`).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, MutableMapping
    from typing import Any, Optional

    from event_loop import happening
    from reply import PIECE, TOKEN, Buffer, Reply, Variables, fail, show, wait_for
    from request import INPUT, body_length, is_secure

    Message = MutableMapping[str, Any]


class AsgiServer:
    """How event loops are made. `load` sets it."""

    new_loop: Callable[[], asyncio.AbstractEventLoop]


def scope_of(variables: Variables) -> dict[str, Any]:
    """The scope of a request."""
    get = variables.get
    headers = [
        (name[5:].lower().replace(b"_", b"-"), value)
        for name, value in variables.items()
        if name[:5] == b"HTTP_" and name not in (b"HTTP_CONTENT_TYPE", b"HTTP_CONTENT_LENGTH")
    ]
    for name in (b"CONTENT_TYPE", b"CONTENT_LENGTH"):
        value = get(name)
        if value:
            headers.append((name.lower().replace(b"_", b"-"), value))
    root = get(b"SCRIPT_NAME", b"")
    path = root + get(b"PATH_INFO", b"") or b"/"
    version = get(b"SERVER_PROTOCOL", b"HTTP/1.1").partition(b"/")[2].decode("latin-1")
    client = get(b"REMOTE_ADDR")
    server = get(b"SERVER_NAME")
    is_https = is_secure(variables)
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": version[:1] if version[:1] in ("2", "3") else version,
        "method": get(b"REQUEST_METHOD", b"GET").decode("latin-1").upper(),
        "scheme": "https" if is_https else "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": raw_path(get(b"REQUEST_URI"), path),
        "query_string": get(b"QUERY_STRING", b""),
        "root_path": root.decode("utf-8", "replace"),
        "headers": headers,
        "client": (client.decode("latin-1"), int(get(b"REMOTE_PORT") or 0)) if client else None,
        "server": (server.decode("latin-1"), int(get(b"SERVER_PORT") or (443 if is_https else 80))) if server else None,
        "extensions": {},
    }


def raw_path(uri: Optional[bytes], path: bytes) -> bytes:
    """The path as the client has written it. Without a URI it is the encoded `path`."""
    if not uri:
        plain = TOKEN.translate(None, b"#%^`|") + b"/(),:;=@"
        return b"".join(bytes((byte,)) if byte in plain else b"%%%02X" % byte for byte in path)
    uri = uri.partition(b"?")[0]
    scheme, separator, rest = uri.partition(b"://")
    if separator and b"/" not in scheme:
        return b"/" + rest.partition(b"/")[2]
    return uri


class Exchange:
    """A request to an ASGI application, and its reply: `receive` and `send`."""

    def __init__(self, reply: Reply, length: Optional[int], loop: asyncio.AbstractEventLoop) -> None:
        self.reply = reply
        self.loop = loop
        #: How much of the body of the request is left to read; `None` if only its end tells.
        self.left = length
        self.has_more = True
        self.is_complete = False
        self.is_gone = False
        #: Set at the end of the reply, or when the client has gone.
        self.over: Optional[asyncio.Event] = None
        #: Held by the task that waits for the body of the request.
        self.reading: Optional[asyncio.Lock] = None

    async def receive(self) -> Message:
        """The next event for the application."""
        while self.has_more and not self.is_complete and not self.is_gone:
            if self.left == 0 or wait_for(INPUT, timeout_ms=0):
                return self.next_part()
            await self.readable()
        if not self.is_complete and not self.is_gone:
            await self.end()
        return {"type": "http.disconnect"}

    def next_part(self) -> Message:
        """The event for the part of the body that is there."""
        data = os.read(INPUT, PIECE if self.left is None else min(PIECE, self.left)) if self.left != 0 else b""
        if self.left is None:
            self.has_more = bool(data)
        elif data or not self.left:
            self.left -= len(data)
            self.has_more = self.left > 0
        else:
            self.is_gone = True
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": data, "more_body": self.has_more}

    async def readable(self) -> None:
        """Waits for a part of the body. One task waits at a time, because the loop has one reader for a descriptor."""
        import asyncio

        if self.reading is None:
            self.reading = asyncio.Lock()
        async with self.reading:
            if self.has_more and not wait_for(INPUT, timeout_ms=0):
                await happening(self.loop, INPUT, self.loop.add_reader, self.loop.remove_reader)

    async def end(self) -> None:
        """Waits until the reply is complete, or the client has gone."""
        if self.over is None:
            import asyncio

            self.over = asyncio.Event()
            try:
                self.loop.add_reader(self.reply.descriptor, self.look)
            except OSError:
                # The descriptor is a file, which no reader can leave.
                pass
        await self.over.wait()

    def look(self) -> None:
        """Checks whether the client has gone."""
        import select

        if wait_for(self.reply.descriptor, timeout_ms=0) & (select.POLLERR | select.POLLHUP):
            self.is_gone = True
            self.conclude()
        else:
            # The descriptor stays readable, and would wake the loop again and again.
            self.loop.remove_reader(self.reply.descriptor)

    def conclude(self) -> None:
        """Wakes the tasks that wait for the end."""
        if self.over is not None and not self.over.is_set():
            self.over.set()
            self.loop.remove_reader(self.reply.descriptor)

    async def send(self, message: Message) -> None:
        """Takes an event of the application."""
        kind = message["type"]
        reply = self.reply
        if self.is_complete:
            raise RuntimeError(f"{kind!r} was sent after the reply was complete")
        if kind == "http.response.start":
            if reply.head is not None:
                raise RuntimeError("http.response.start was sent before")
            fields = [(bytes(name), bytes(value)) for name, value in message.get("headers", ())]
            reply.set_head(b"%d" % message["status"], fields)
            return
        if kind != "http.response.body":
            raise RuntimeError(f"{kind!r} is no event of a reply")
        if reply.head is None:
            raise RuntimeError("http.response.body was sent before http.response.start")
        data = message.get("body", b"")
        if not isinstance(data, bytes):
            # `bytes` of a number would be that many zeros.
            data = memoryview(data).tobytes()
        more = message.get("more_body", False)
        if reply.is_excess(data):
            raise RuntimeError("the body is longer than its Content-Length")
        part: Buffer = reply.take(data, not more)
        while part:
            rest = reply.push(part)
            if len(rest) == len(part):
                await happening(self.loop, reply.descriptor, self.loop.add_writer, self.loop.remove_writer)
            part = rest
        if not more:
            reply.check_end()
            self.is_complete = True
            self.conclude()
            reply.end()

    async def run(self, application: Callable[..., Awaitable[object]], scope: Message) -> int:
        """Calls the application. Returns the exit status."""
        try:
            await application(scope, self.receive, self.send)
            if not self.is_complete and not self.is_gone:
                raise RuntimeError("the application has returned without a complete reply")
        except BaseException as error:  # any error here is one of the application
            status = fail(self.reply, error)
        else:
            status = 0 if self.is_complete else 1
        self.is_complete = True
        self.conclude()
        return status


class Lifespan:
    """The lifespan of the application: it gets the startup event before the request, and the shutdown event after it.

    An application that does not take part raises an error or returns, and gets no events.
    """

    def __init__(self, application: Callable[..., Awaitable[object]], loop: asyncio.AbstractEventLoop) -> None:
        self.application = application
        self.loop = loop
        self.state: dict[str, Any] = {}
        self.asked = ""
        self.ending = loop.create_future()
        #: The next answer of the application; `None` at its end.
        self.answered = loop.create_future()
        self.error: Optional[BaseException] = None
        self.task = loop.create_task(self.run())

    async def run(self) -> None:
        """Calls the application."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.application(scope, self.receive, self.send)
        except BaseException as error:  # `end` prints it, if the application takes part
            self.error = error
        finally:
            self.note_answer(None)

    def note_answer(self, answer: Optional[Message]) -> None:
        """Notes an answer."""
        if not self.answered.done():
            self.answered.set_result(answer)

    async def receive(self) -> Message:
        """The next event for the application."""
        if not self.asked:
            self.asked = "startup"
        elif self.asked == "startup":
            await self.ending
            self.asked = "shutdown"
        else:
            # There are no more events.
            await self.loop.create_future()
        return {"type": f"lifespan.{self.asked}"}

    async def send(self, message: Message) -> None:
        """Takes an answer of the application."""
        kind = message["type"]
        stage = "shutdown" if self.asked == "shutdown" else "startup"
        if kind not in (f"lifespan.{stage}.complete", f"lifespan.{stage}.failed") or self.answered.done():
            raise RuntimeError(f"{kind!r} is no answer to lifespan.{stage}")
        self.note_answer(message)

    async def begin(self) -> bool:
        """Waits for the startup. Returns whether the application takes part. Raises an error if its startup has failed."""
        answer = await self.answered
        if answer is None:
            return False
        if answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the application has not started: {answer.get('message', '')}")
        return True

    async def end(self) -> None:
        """Sends the shutdown event, and waits for the answer."""
        if not self.task.done():
            self.answered = self.loop.create_future()
            self.ending.set_result(None)
            answer = await self.answered
            if answer is not None and answer["type"] == "lifespan.shutdown.failed":
                print(f"the application has not shut down: {answer.get('message', '')}", file=sys.stderr)
        if self.error is not None:
            show(self.error)


async def run_asgi(
    application: Callable[..., Awaitable[object]], variables: Variables, reply: Reply, loop: asyncio.AbstractEventLoop
) -> int:
    """Answers a request with an ASGI application. Then cancels the tasks that are left, as a server does when it stops."""
    import asyncio

    lifespan = Lifespan(application, loop)
    takes_part = False
    try:
        scope = scope_of(variables)
        exchange = Exchange(reply, body_length(variables), loop)
        takes_part = await lifespan.begin()
        if takes_part:
            scope["state"] = lifespan.state.copy()
    except Exception as error:
        status = fail(reply, error)
    else:
        status = await exchange.run(application, scope)
    if takes_part:
        await lifespan.end()
    tasks = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()
    return status


def answer_by_asgi(application: Callable[..., Awaitable[object]], variables: Variables, reply: Reply) -> int:
    """Answers a request with an ASGI application, in an event loop of its own."""
    loop = AsgiServer.new_loop()
    reply.unblock()
    try:
        return loop.run_until_complete(run_asgi(application, variables, reply, loop))
    finally:
        loop.close()
        reply.block()
