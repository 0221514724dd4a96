"""The reply of a Python application, as a CGI script writes it: head and body, on one descriptor.

The first part of the module `regrow_application`, which answers one request with a WSGI or ASGI application. The parts are
one module with one set of names; each is checked as a module of its own.

    reply       this part          what leaves the process
    request     variables, body    what comes to the process
    wsgi        PEP 3333           request and reply of a WSGI application
    event_loop  asyncio            an event loop without descriptors
    asgi        ASGI 3             request and reply of an ASGI application
    serve       load, main         what the gateway calls

The request comes as to a CGI script (RFC 3875): variables, and the body on descriptor 0. The reply leaves as that of a CGI
script: `Status:`, fields, an empty line, and the body, on descriptor 1.

Invariants:

- An exit status other than 0 says that the reply is not complete, or that the application has failed after it. An error
  before the head of the reply makes a complete reply of status 500.
- A complete reply ends at once: the client does not wait for what the application does after it. A reply that is not
  complete ends with the process.
- Only the reply goes to what was descriptor 1. While the application runs, 1 is a copy of 2, so nothing that the
  application or a program of it prints gets into the reply.
- The preparation leaves no descriptor open, starts no thread, and never calls the application.
- The module imports only what every interpreter has imported anyway, and asyncio for an ASGI application.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Optional, Union

    Variables = Mapping[bytes, bytes]
    Buffer = Union[bytes, memoryview[int]]
    Field = tuple[bytes, bytes]

#: The most bytes of a body that are read at once, or copied behind the head to be written with it.
PIECE = 1 << 16
TOKEN = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
TEXT = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
#: Fields that only the gateway sends, and `Status`, which a CGI reply uses for the status.
NOT_PASSED = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"status", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
FAILED = b"Status: 500 Internal Server Error\r\nContent-Type: text/plain\r\nContent-Length: 22\r\n\r\n"


class Reply:
    """The reply. It writes its head together with the first bytes of its body, and knows how much of the body is missing."""

    def __init__(self, descriptor: int, variables: Variables) -> None:
        self.descriptor = descriptor
        self.has_body = self.is_for_body = variables.get(b"REQUEST_METHOD") != b"HEAD"
        self.head: Optional[bytes] = None
        #: How many bytes of the body are still to come, if there is a `Content-Length`.
        self.missing: Optional[int] = None
        self.is_begun = False
        #: Why the reply could not be written.
        self.error: Optional[OSError] = None
        self.was_blocking = False

    def set_head(self, status: bytes, fields: Iterable[Field]) -> None:
        """Sets status and fields, again if need be, until the reply writes the first bytes."""
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
        """The head, which the caller writes. `length` is the length of the body, if the caller knows it."""
        if self.head is None:
            raise RuntimeError("the application has not begun its reply")
        self.is_begun = True
        if length is not None and self.has_body and self.missing is None:
            self.missing = length
            return b"%bContent-Length: %d\r\n\r\n" % (self.head, length)
        return self.head + b"\r\n"

    def is_excess(self, data: bytes) -> bool:
        """Whether the body becomes longer than its Content-Length."""
        return self.missing is not None and len(data) > self.missing

    def take(self, data: bytes, is_all: bool = False) -> bytes:
        """The bytes to write for a part of the body, with the head if it is the first part. `is_all`: it is the only part."""
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
        """Raises an error if the body is too short."""
        if self.missing:
            raise RuntimeError(f"the body is {self.missing} bytes shorter than its Content-Length")

    def end(self) -> None:
        """Ends the reply: closes the descriptor."""
        self.block()
        os.close(self.descriptor)
        self.descriptor = -1

    def unblock(self) -> None:
        """Makes the descriptor non-blocking, so that other tasks go on while the reply waits for its reader."""
        kind = os.fstat(self.descriptor).st_mode
        if (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and os.get_blocking(self.descriptor):
            os.set_blocking(self.descriptor, False)
            self.was_blocking = True

    def block(self) -> None:
        """Undoes `unblock`, because other processes may share the descriptor."""
        if self.was_blocking:
            os.set_blocking(self.descriptor, True)
            self.was_blocking = False

    def push(self, data: Buffer) -> Buffer:
        """Writes once, without waiting if the descriptor is non-blocking. Returns the rest."""
        try:
            written = os.write(self.descriptor, data)
        except BlockingIOError:
            return data
        except OSError as error:
            self.error = error
            raise
        return b"" if written == len(data) else memoryview(data)[written:]

    def write(self, data: Buffer) -> None:
        """Writes all of the data."""
        while data:
            rest = self.push(data)
            if len(rest) == len(data):
                wait_for(self.descriptor, is_output=True)
            data = rest

    def fail(self) -> None:
        """Replies that the application has failed."""
        self.is_begun = True
        self.write(FAILED + (b"Internal Server Error\n" if self.is_for_body else b""))


def wait_for(descriptor: int, is_output: bool = False, timeout_ms: Optional[int] = None) -> int:
    """Waits until a descriptor is readable or writable. Returns the events of `poll`."""
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if is_output else select.POLLIN)
    found = poll.poll(timeout_ms)
    return found[0][1] if found else 0


def fail(reply: Reply, error: BaseException) -> int:
    """Prints an error, and replies with status 500 if there is no reply yet. Says nothing if the client has gone."""
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
    """Prints an exception as the interpreter does, without the first frames, which are of this module."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    sys.__excepthook__(type(error), error.with_traceback(trace), trace)


def comes_from(error: BaseException, origin: Optional[BaseException]) -> bool:
    """Whether an exception is `origin`, or has it among its causes."""
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
