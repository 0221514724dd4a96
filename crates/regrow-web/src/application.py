"""Answers one request with a WSGI or ASGI application: the part of `regrow web` that is in the application's process.

The request comes as a CGI script has it (RFC 3875): variables, and the body on descriptor 0. The reply leaves as a CGI
script's: `Status:`, fields, an empty line, and the body, on descriptor 1.

    in the image   prepare(kind, "module:attribute")   imports the application, and does its own part a few times
    in a run       serve(b"")                          answers; gives the exit status
    without image  python3 -c CODE KIND module:attribute [DIRECTORY]...      both; CODE executes this file

Invariants:

- An exit status that is not 0 says that the reply is not whole, or that the application has failed behind it. An error
  before the reply's head is a whole reply, of status 500.
- The application's reply ends as soon as it is whole: nobody waits for what is done behind it. One that is not whole ends
  with the process.
- Only the reply is written to what was descriptor 1. While the application runs, 1 is where 2 is, so that nothing that
  it prints, and no program that it starts, gets into the reply.
- Preparing leaves no descriptors open, starts no threads, and never calls the application.
- Nothing is imported that an interpreter does not have anyway, but for asyncio where the application is one for it.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from posix import environ as process_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
    from types import TracebackType
    from typing import Any, Optional, Union

    Variables = Mapping[bytes, bytes]
    Message = MutableMapping[str, Any]
    Buffer = Union[bytes, memoryview[int]]
    Error = tuple[type[BaseException], BaseException, Optional[TracebackType]]
    Field = tuple[bytes, bytes]

INPUT = 0
#: The longest piece of a body that is read, or copied to be written with what comes before it, at once.
PIECE = 1 << 16
TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
#: Fields that are the gateway's to send; `Status` would be taken for the status.
NOT_PASSED = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"status", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
FAILED = b"Status: 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: 22\r\n\r\n"
#: How often the preparation does its own part: the interpreter has specialised the code then.
REHEARSALS = 20


class Server:
    """The application, and what a request is answered with. `load` sets it."""

    application: Any = None
    answer: Callable[[Any, Variables, Reply], int]
    new_loop: Callable[[], asyncio.AbstractEventLoop]


# The reply.


class Reply:
    """The reply: its head, which waits for the first bytes of the body, and how much of the body is missing."""

    def __init__(self, descriptor: int, variables: Variables) -> None:
        self.descriptor = descriptor
        self.has_body = self.is_for_body = variables.get(b"REQUEST_METHOD") != b"HEAD"
        self.head: Optional[bytes] = None
        #: How many bytes of the body are still to come, by `Content-Length`.
        self.missing: Optional[int] = None
        self.is_begun = False
        #: Why it could not be written.
        self.error: Optional[OSError] = None
        self.was_blocking = False

    def set_head(self, status: bytes, fields: Iterable[Field]) -> None:
        """Sets status and fields. They may be set again as long as nothing is written."""
        if not (status[:3].isdigit() and int(status[:3]) >= 100 and status[3:4].strip() == b""):
            raise ValueError(f"{status!r} is no status")
        if status.translate(None, TEXT):
            raise ValueError(f"the status {status!r} has control characters")
        lines = [b"Status: ", status, b"\r\n"]
        length = None
        for name, value in fields:
            if not name or name.translate(None, TOKEN):
                raise ValueError(f"{name!r} is no name of a field")
            if value.translate(None, TEXT):
                raise ValueError(f"the field {name!r} has control characters: {value!r}")
            lower = name.lower()
            if lower in NOT_PASSED:
                continue
            if lower == b"content-length":
                if not value.isdigit():
                    raise ValueError(f"{value!r} is no Content-Length")
                length = int(value)
            lines += (name, b": ", value, b"\r\n")
        self.head = b"".join(lines)
        self.has_body = self.is_for_body and status[:1] != b"1" and status[:3] not in (b"204", b"304")
        self.missing = length if self.has_body else None

    def begin(self, length: Optional[int] = None) -> bytes:
        """The head, to be written now. `length` is that of the body, where it is known."""
        if self.head is None:
            raise RuntimeError("the application has not begun its reply")
        self.is_begun = True
        if length is not None and self.has_body and self.missing is None:
            self.missing = length
            return b"%bContent-Length: %d\r\n\r\n" % (self.head, length)
        return self.head + b"\r\n"

    def is_excess(self, data: bytes) -> bool:
        """Whether this is more of the body than there may be."""
        return self.missing is not None and len(data) > self.missing

    def take(self, data: bytes, is_all: bool = False) -> bytes:
        """What is to be written for a part of the body; `is_all` says that it is the only one."""
        head = b"" if self.is_begun else self.begin(len(data) if is_all else None)
        if not self.has_body:
            return head
        if self.missing is not None:
            self.missing -= len(data)
        if head and len(data) > PIECE:
            self.write(head)
            return data
        return head + data

    def check_end(self) -> None:
        """Checks that the reply is whole."""
        if self.missing:
            raise RuntimeError(f"the body is {self.missing} bytes shorter than its Content-Length")

    def end(self) -> None:
        """Ends the reply."""
        self.block()
        os.close(self.descriptor)
        self.descriptor = -1

    def unblock(self) -> None:
        """Has the descriptor not block, so that other tasks go on while a part of the reply waits for its reader."""
        kind = os.fstat(self.descriptor).st_mode
        if (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and os.get_blocking(self.descriptor):
            os.set_blocking(self.descriptor, False)
            self.was_blocking = True

    def block(self) -> None:
        """Undoes that: others may have the descriptor too."""
        if self.was_blocking:
            os.set_blocking(self.descriptor, True)
            self.was_blocking = False

    def push(self, data: Buffer) -> Buffer:
        """Writes what can be written without waiting, if the descriptor does not block; gives the rest."""
        try:
            written = os.write(self.descriptor, data)
        except BlockingIOError:
            return data
        except OSError as error:
            self.error = error
            raise
        return b"" if written == len(data) else memoryview(data)[written:]

    def write(self, data: Buffer) -> None:
        """Writes everything."""
        while data:
            rest = self.push(data)
            if len(rest) == len(data):
                wait_for(self.descriptor, is_output=True)
            data = rest

    def fail(self) -> None:
        """Says that the application has failed."""
        self.is_begun = True
        self.write(FAILED + (b"Internal Server Error\n" if self.is_for_body else b""))


def wait_for(descriptor: int, is_output: bool = False, timeout_ms: Optional[int] = None) -> int:
    """Waits until a descriptor can be read or written; gives what `poll` says of it."""
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if is_output else select.POLLIN)
    found = poll.poll(timeout_ms)
    return found[0][1] if found else 0


def fail(reply: Reply, error: BaseException) -> int:
    """Prints an error, and replies with it if there is no reply yet. That the client has gone is no error to be told of."""
    if comes_from(error, reply.error):
        return 1
    show(error)
    if reply.is_begun:
        return 1
    try:
        reply.fail()
    except OSError:
        return 1
    return 0


def show(error: BaseException) -> None:
    """Prints an exception as the interpreter does, without the frames of this file that it begins with."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    sys.__excepthook__(type(error), error.with_traceback(trace), trace)


def comes_from(error: BaseException, origin: Optional[BaseException]) -> bool:
    """Whether an exception is another one, or was raised for it."""
    seen: list[BaseException] = []
    left: list[Optional[BaseException]] = [error]
    while left and origin is not None:
        one = left.pop()
        if one is origin:
            return True
        if one is not None and not any(one is other for other in seen):
            seen.append(one)
            left += (one.__cause__, one.__context__, *getattr(one, "exceptions", ()))
    return False


# The request.


def body_length(variables: Variables) -> Optional[int]:
    """The length of the request's body; `None` where only its end tells."""
    text = variables.get(b"CONTENT_LENGTH")
    if text:
        if not text.isdigit():
            raise ValueError(f"{text!r} is no CONTENT_LENGTH")
        return int(text)
    return None if b"HTTP_TRANSFER_ENCODING" in variables else 0


def is_secure(variables: Variables) -> bool:
    """Whether the request has come by HTTPS."""
    return variables.get(b"HTTPS", b"").lower() in (b"on", b"1") or variables.get(b"REQUEST_SCHEME") == b"https"


class Body(io.RawIOBase):
    """The request's body: descriptor 0 up to the body's length. An end before that is an error."""

    def __init__(self, length: Optional[int]) -> None:
        self.left = length

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Reads what is there, or waits for some."""
        view = memoryview(buffer)
        if self.left is not None:
            view = view[: self.left]
        if not view:
            return 0
        while True:
            try:
                count = os.readv(INPUT, (view,))
                break
            except BlockingIOError:
                wait_for(INPUT)
        if self.left is not None:
            if not count:
                raise ConnectionResetError(f"the request's body has ended {self.left} bytes early")
            self.left -= count
        return count

    def readall(self) -> bytes:
        """Reads to the end."""
        return b"".join(iter(lambda: self.read(PIECE) or b"", b""))


# WSGI (PEP 3333).


class FileWrapper:
    """`wsgi.file_wrapper`: a file as a body. It is sent without being read, where that can be."""

    def __init__(self, filelike: Any, block_size: int = 8192) -> None:
        self.filelike = filelike
        self.block_size = block_size
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self) -> FileWrapper:
        return self

    def __next__(self) -> bytes:
        data: bytes = self.filelike.read(self.block_size)
        if not data:
            raise StopIteration
        return data


def send_file(reply: Reply, file: Any) -> bool:
    """Has the kernel send a file from where it stands. False where the rest, or all of it, is to be read instead."""
    raw = file.raw if type(file) is io.BufferedReader else file
    # Others may have a descriptor, but not be what is in its file.
    if type(raw) is not io.FileIO or not reply.has_body:
        return False
    state = os.fstat(raw.fileno())
    if not stat.S_ISREG(state.st_mode):
        return False
    start = file.tell()
    if start >= state.st_size:
        return False
    if not reply.is_begun:
        reply.write(reply.begin(state.st_size - start))
    end = state.st_size if reply.missing is None else min(state.st_size, start + reply.missing)
    at = start
    while at < end:
        try:
            count = os.sendfile(reply.descriptor, raw.fileno(), at, end - at)
        except BlockingIOError:
            wait_for(reply.descriptor, is_output=True)
            continue
        except ConnectionError as error:
            reply.error = error
            raise
        except OSError:
            # It cannot be sent to such a descriptor.
            file.seek(at)
            return False
        if not count:
            break
        at += count
        if reply.missing is not None:
            reply.missing -= count
    return True


def check_part(data: object) -> None:
    """Checks that a part of a body is one."""
    if not isinstance(data, bytes):
        raise TypeError(f"a part of the body is {type(data).__name__}, and not bytes")


class WsgiRequest:
    """A request to a WSGI application."""

    def __init__(self, variables: Variables, reply: Reply) -> None:
        self.reply = reply
        length = body_length(variables)
        environ: dict[str, Any] = {name.decode("latin-1"): value.decode("latin-1") for name, value in variables.items()}
        environ.pop("HTTP_CONTENT_TYPE", None)
        environ.pop("HTTP_CONTENT_LENGTH", None)
        for name in ("SCRIPT_NAME", "PATH_INFO", "QUERY_STRING"):
            environ.setdefault(name, "")
        if not environ["PATH_INFO"] and not environ["SCRIPT_NAME"]:
            environ["PATH_INFO"] = "/"
        environ.setdefault("REQUEST_METHOD", "GET")
        environ.setdefault("SERVER_NAME", "localhost")
        environ.setdefault("SERVER_PORT", "80")
        environ.setdefault("SERVER_PROTOCOL", "HTTP/1.1")
        environ["wsgi.version"] = (1, 0)
        environ["wsgi.url_scheme"] = "https" if is_secure(variables) else "http"
        environ["wsgi.input"] = io.BytesIO() if length == 0 else io.BufferedReader(Body(length), PIECE)
        environ["wsgi.input_terminated"] = True
        environ["wsgi.errors"] = sys.stderr
        environ["wsgi.multithread"] = False
        environ["wsgi.multiprocess"] = True
        environ["wsgi.run_once"] = True
        environ["wsgi.file_wrapper"] = FileWrapper
        self.environ = environ

    def start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: Optional[Error] = None
    ) -> Callable[[bytes], object]:
        """Sets status and fields of the reply; gives `write`."""
        if exc_info is not None:
            try:
                if self.reply.is_begun:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.reply.head is not None:
            raise RuntimeError("start_response was called before, and is given no exc_info")
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        self.reply.set_head(status.encode("latin-1"), fields)
        return self.write

    def write(self, data: bytes) -> None:
        """Writes a part of the body at once."""
        check_part(data)
        if self.reply.is_excess(data):
            raise RuntimeError("the body is longer than its Content-Length")
        self.reply.write(self.reply.take(data))

    def put_all(self, result: Iterable[bytes]) -> None:
        """Writes the application's result. An empty part does not send the head, which may be replaced until then."""
        if type(result) is FileWrapper and self.reply.head is not None and send_file(self.reply, result.filelike):
            return
        is_all = isinstance(result, (list, tuple)) and len(result) == 1
        for data in result:
            check_part(data)
            if self.reply.is_excess(data):
                # The client gets what it was told of, and no more is asked for.
                self.reply.write(self.reply.take(data[: self.reply.missing]))
                break
            if data:
                self.reply.write(self.reply.take(data, is_all))
        if not self.reply.is_begun:
            self.reply.write(self.reply.begin(0))

    def run(self, application: Callable[..., Iterable[bytes]]) -> None:
        """Calls the application, and writes its result."""
        result = application(self.environ, self.start_response)
        try:
            self.put_all(result)
            self.reply.check_end()
            self.reply.end()
        finally:
            close = getattr(result, "close", None)
            if close is not None:
                close()


def answer_by_wsgi(application: Callable[..., Iterable[bytes]], variables: Variables, reply: Reply) -> int:
    """Answers a request with a WSGI application."""
    try:
        WsgiRequest(variables, reply).run(application)
    except BaseException as error:  # whatever it is, it is the application's
        return fail(reply, error)
    return 1 if reply.error else 0


# ASGI 3.0.


def scope_of(variables: Variables) -> dict[str, Any]:
    """What an ASGI application is told of a request."""
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
    """The path as the client has written it, or as it might have."""
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
        #: How much of the request's body is to be read; `None` where its end is not known.
        self.left = length
        self.has_more = True
        self.is_complete = False
        self.is_gone = False
        #: Those that wait for the end of the reply or of the client, and the event that they wait for.
        self.over: Optional[asyncio.Event] = None
        #: Held by the one that waits for the request's body.
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
        """A part of the body that is there."""
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
        """Waits until there is something of the body. One waits at a time: a descriptor has one reader."""
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
                # A file: nobody who reads it can go.
                pass
        await self.over.wait()

    def look(self) -> None:
        """Looks whether the client has gone."""
        import select

        if wait_for(self.reply.descriptor, timeout_ms=0) & (select.POLLERR | select.POLLHUP):
            self.is_gone = True
            self.conclude()
        else:
            # It can be read, and would be said to be so again and again.
            self.loop.remove_reader(self.reply.descriptor)

    def conclude(self) -> None:
        """Tells those that wait for the end."""
        if self.over is not None and not self.over.is_set():
            self.over.set()
            self.loop.remove_reader(self.reply.descriptor)

    async def send(self, message: Message) -> None:
        """Takes an event from the application."""
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
            # Not `bytes` of a number, which would be so many zeros.
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
        """Calls the application; gives the exit status."""
        try:
            await application(scope, self.receive, self.send)
            if not self.is_complete and not self.is_gone:
                raise RuntimeError("the application has returned without a complete reply")
        except BaseException as error:  # whatever it is, it is the application's
            status = fail(self.reply, error)
        else:
            status = 0 if self.is_complete else 1
        self.is_complete = True
        self.conclude()
        return status


async def happening(
    loop: asyncio.AbstractEventLoop,
    descriptor: int,
    add: Callable[..., object],
    remove: Callable[[int], object],
) -> None:
    """Waits until something happens at a descriptor."""
    future = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    add(descriptor, wake)
    try:
        await future
    finally:
        remove(descriptor)


class Lifespan:
    """The application's life: it is told of its beginning before the request, and of its end after it.

    An application that knows nothing of it raises, or returns, and is left alone.
    """

    def __init__(self, application: Callable[..., Awaitable[object]], loop: asyncio.AbstractEventLoop) -> None:
        self.application = application
        self.loop = loop
        self.state: dict[str, Any] = {}
        self.asked = ""
        self.ending = loop.create_future()
        #: Set by the application's next answer, or its end.
        self.answered = loop.create_future()
        self.error: Optional[BaseException] = None
        self.task = loop.create_task(self.run())

    async def run(self) -> None:
        """Calls the application."""
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": self.state}
        try:
            await self.application(scope, self.receive, self.send)
        except BaseException as error:  # it is told of at the end, if the application takes part
            self.error = error
        finally:
            self.settle(None)

    def settle(self, answer: Optional[Message]) -> None:
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
            # There are no more.
            await self.loop.create_future()
        return {"type": f"lifespan.{self.asked}"}

    async def send(self, message: Message) -> None:
        """Takes an answer of the application."""
        kind = message["type"]
        stage = "shutdown" if self.asked == "shutdown" else "startup"
        if kind not in (f"lifespan.{stage}.complete", f"lifespan.{stage}.failed") or self.answered.done():
            raise RuntimeError(f"{kind!r} is no answer to lifespan.{stage}")
        self.settle(message)

    async def begin(self) -> bool:
        """Waits for the beginning; says whether the application takes part. Raises where it has failed."""
        answer = await self.answered
        if answer is None:
            return False
        if answer["type"] == "lifespan.startup.failed":
            raise RuntimeError(f"the application has not started: {answer.get('message', '')}")
        return True

    async def end(self) -> None:
        """Tells the application of its end, and waits for its answer."""
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
    """Answers a request with an ASGI application; then ends what that has left running, as a server does at its end."""
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
    loop = Server.new_loop()
    reply.unblock()
    try:
        return loop.run_until_complete(run_asgi(application, variables, reply, loop))
    finally:
        loop.close()
        reply.block()


class LateSelector:
    """A selector that is made when it is first needed."""

    def __init__(self) -> None:
        self.made: Any = None
        #: Called before every wait; says whether it has made anything.
        self.before_wait: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        if self.made is None:
            import selectors

            self.made = selectors.DefaultSelector()
        return getattr(self.made, name)

    def select(self, timeout: Optional[float] = None) -> Any:
        """What has happened at the descriptors."""
        if timeout is None or timeout > 0:
            if self.before_wait():
                return []
        elif self.made is None:
            return []
        return self.made.select(timeout)

    def close(self) -> None:
        """Closes the selector, if there is one."""
        if self.made is not None:
            self.made.close()


def make_loop_class() -> Callable[[], asyncio.AbstractEventLoop]:
    """The class of the event loop: asyncio's, but one that has no descriptors before it waits for something.

    Before it waits for the first time it makes what other threads wake it with, and looks again at what is to be done. So
    it misses nothing that a thread has left there when there was nothing to wake it with.
    """
    import asyncio

    plain: Any = asyncio.SelectorEventLoop
    if not (hasattr(plain, "_make_self_pipe") and hasattr(plain, "_close_self_pipe")):
        return asyncio.SelectorEventLoop

    class LateLoop(plain):  # type: ignore[misc]
        """A loop that makes selector and pipe when they are needed."""

        def __init__(self) -> None:
            selector = LateSelector()
            selector.before_wait = self.make_pipe
            super().__init__(selector)

        def make_pipe(self) -> bool:
            """Makes the pipe to itself, if there is none."""
            if self._ssock is not None:
                return False
            super()._make_self_pipe()
            return True

        def _make_self_pipe(self) -> None:
            self._ssock = self._csock = None

        def _close_self_pipe(self) -> None:
            if self._ssock is not None:
                super()._close_self_pipe()

        def add_signal_handler(self, *args: Any) -> None:
            """A signal wakes the loop by the pipe."""
            self.make_pipe()
            super().add_signal_handler(*args)

    return LateLoop


# What `regrow web` calls.

KINDS: dict[str, Callable[[Any, Variables, Reply], int]] = {"wsgi": answer_by_wsgi, "asgi": answer_by_asgi}


def load(kind: str, target: str) -> None:
    """Imports the application that `module:attribute` names."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is neither wsgi nor asgi")
    name, _, path = target.partition(":")
    if not name or not path:
        raise ValueError(f"{target!r} is not of the form module:attribute")
    __import__(name)
    found: Any = sys.modules[name]
    for part in path.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{target} is not callable")
    if kind == "asgi":
        Server.new_loop = make_loop_class()
    Server.application = found
    Server.answer = KINDS[kind]


def prepare(kind: str, target: str) -> None:
    """Gets everything ready that a request needs. `kind` is `wsgi` or `asgi`, and `target` names the application."""
    load(kind, target)
    application = {"wsgi": wsgi_rehearsal, "asgi": asgi_rehearsal}[kind]
    for _ in range(REHEARSALS):
        reply = Reply(os.memfd_create("reply", 0), REHEARSED)
        if Server.answer(application, REHEARSED, reply):
            raise RuntimeError("a reply cannot be made")


def serve(_data: bytes = b"") -> int:
    """Answers the request of this process; gives its exit status."""
    descriptor = take_output()
    return Server.answer(Server.application, process_variables, Reply(descriptor, process_variables))


def take_output() -> int:
    """Takes descriptor 1 away from the application, which is given 2 instead."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


#: The request that is answered while the image is made.
REHEARSED: Variables = {
    b"REQUEST_METHOD": b"GET",
    b"REQUEST_URI": b"/a?b",
    b"SCRIPT_NAME": b"",
    b"PATH_INFO": b"/a",
    b"QUERY_STRING": b"b",
    b"SERVER_NAME": b"localhost",
    b"SERVER_PORT": b"80",
    b"SERVER_PROTOCOL": b"HTTP/1.1",
    b"REMOTE_ADDR": b"127.0.0.1",
    b"REMOTE_PORT": b"1",
    b"CONTENT_TYPE": b"text/plain",
    b"HTTP_HOST": b"localhost",
}


def wsgi_rehearsal(_environ: dict[str, Any], start_response: Callable[..., object]) -> list[bytes]:
    """The application that is called while the image is made."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Rehearsal", "1")])
    return [b"x"]


async def asgi_rehearsal(scope: Message, receive: Callable[[], Any], send: Callable[[Message], Any]) -> None:
    """The same for ASGI."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"x"})


def main() -> int:
    """Prepares and serves, where no image is kept."""
    kind, target, *directories = sys.argv[1:]
    descriptor = take_output()
    sys.path[:0] = directories
    reply = Reply(descriptor, process_variables)
    try:
        load(kind, target)
    except BaseException as error:  # whatever it is, there is no application
        return fail(reply, error)
    return Server.answer(Server.application, process_variables, reply)


if __name__ == "__main__":
    sys.exit(main())
