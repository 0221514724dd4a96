"""What the gateway calls: it loads the application, prepares the image, and answers one request.

The last part of the module `regrow_application` (see `reply`).

    in the image   prepare(kind, "module:attribute")   imports the application, and answers some requests of its own
    in a process   serve(b"")                          answers a request; returns the exit status
    without image  python3 -c CODE KIND module:attribute [DIRECTORY]...      does both; CODE executes the module
    to check       python3 -c CODE check KIND module:attribute               imports the application, or says why it cannot
"""

from __future__ import annotations

import os
import sys
from posix import environ as process_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from asgi import AsgiServer, Message, answer_by_asgi
    from event_loop import make_loop_class
    from reply import Reply, Variables, fail, show
    from wsgi import answer_by_wsgi

#: How often the preparation answers a request of its own. The interpreter has specialised the code after that.
REHEARSALS = 20
KINDS: dict[str, Callable[[Any, Variables, Reply], int]] = {"wsgi": answer_by_wsgi, "asgi": answer_by_asgi}


class Server:
    """The application, and the function that answers a request with it. `load` sets both."""

    application: Any = None
    answer: Callable[[Any, Variables, Reply], int]


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
        AsgiServer.new_loop = make_loop_class()
    Server.application = found
    Server.answer = KINDS[kind]


def prepare(kind: str, target: str) -> None:
    """Prepares for requests. `kind` is `wsgi` or `asgi`, and `target` names the application."""
    load(kind, target)
    application = {"wsgi": wsgi_rehearsal, "asgi": asgi_rehearsal}[kind]
    for _ in range(REHEARSALS):
        reply = Reply(os.memfd_create("reply", 0), REHEARSED)
        if Server.answer(application, REHEARSED, reply):
            raise RuntimeError("the preparation cannot make a reply")


def serve(_data: bytes = b"") -> int:
    """Answers the request of this process. Returns its exit status."""
    descriptor = take_output()
    return Server.answer(Server.application, process_variables, Reply(descriptor, process_variables))


def take_output() -> int:
    """Returns a copy of descriptor 1, and makes 1 a copy of 2 for the application."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


#: The request that the preparation answers.
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
    """The WSGI application that the preparation calls."""
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Rehearsal", "1")])
    return [b"x"]


async def asgi_rehearsal(scope: Message, receive: Callable[[], Any], send: Callable[[Message], Any]) -> None:
    """The ASGI application that the preparation calls."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"x"})


def check(kind: str, target: str) -> NoReturn:
    """Imports the application, and ends without what it does at its end."""
    status = 0
    try:
        load(kind, target)
    except BaseException as error:  # whatever the error is, there is no application
        show(error)
        status = 1
    sys.stderr.flush()
    os._exit(status)


def main() -> int:
    """Loads the application and answers a request, without an image."""
    if sys.argv[1] == "check":
        check(*sys.argv[2:])
    kind, target, *directories = sys.argv[1:]
    descriptor = take_output()
    sys.path[:0] = directories
    reply = Reply(descriptor, process_variables)
    try:
        load(kind, target)
    except BaseException as error:  # whatever the error is, there is no application
        return fail(reply, error)
    return Server.answer(Server.application, process_variables, reply)


if __name__ == "__main__":
    sys.exit(main())
