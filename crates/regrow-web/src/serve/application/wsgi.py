"""WSGI (PEP 3333): the environ and `start_response` of an application, and its result as a reply.

A part of the module `regrow_application` (see `reply`).
"""

from __future__ import annotations

import io
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Any, Optional

    from reply import PIECE, Reply, Variables, fail, wait_for
    from request import Body, body_length, is_secure

    Error = tuple[type[BaseException], BaseException, Optional[TracebackType]]


class FileWrapper:
    """`wsgi.file_wrapper`: a file as the body of a reply. The kernel sends it where it can."""

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
    """Has the kernel send a file from its position. Returns False if the caller has to read the rest, or all of it."""
    raw = file.raw if type(file) is io.BufferedReader else file
    # Other objects may have a descriptor whose file is not what they read.
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
            # The kernel cannot send the file to such a descriptor.
            file.seek(at)
            return False
        if not count:
            break
        at += count
        if reply.missing is not None:
            reply.missing -= count
    return True


def check_part(data: object) -> None:
    """Raises an error if a part of the body is not bytes."""
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
        """Sets status and fields of the reply. Returns `write`."""
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
        """Writes a part of the body without delay."""
        check_part(data)
        if self.reply.is_excess(data):
            raise RuntimeError("the body is longer than its Content-Length")
        self.reply.write(self.reply.take(data))

    def put_all(self, result: Iterable[bytes]) -> None:
        """Writes the result of the application. An empty part does not send the head: the application may still replace it."""
        if type(result) is FileWrapper and self.reply.head is not None and send_file(self.reply, result.filelike):
            return
        is_all = isinstance(result, (list, tuple)) and len(result) == 1
        for data in result:
            check_part(data)
            if self.reply.is_excess(data):
                # The client gets as much as Content-Length says, and the application is asked for no more.
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
    except BaseException as error:  # any error here is one of the application
        return fail(reply, error)
    return 1 if reply.error else 0
