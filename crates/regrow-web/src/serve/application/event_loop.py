"""The event loop of an ASGI application: asyncio's, without descriptors until it waits for something.

A part of the module `regrow_application` (see `reply`). Most requests are answered without waiting, and then save the
selector and the pipe of an event loop.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any, Optional


async def happening(
    loop: asyncio.AbstractEventLoop,
    descriptor: int,
    add: Callable[..., object],
    remove: Callable[[int], object],
) -> None:
    """Waits until a descriptor is ready. `add` and `remove` are the methods of the loop for readers or for writers."""
    future = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    add(descriptor, wake)
    try:
        await future
    finally:
        remove(descriptor)


class LateSelector:
    """A selector that opens its descriptor only when it needs it."""

    def __init__(self) -> None:
        self.made: Any = None
        #: Called before every wait. Returns whether it has made anything.
        self.before_wait: Callable[[], bool] = lambda: False

    def __getattr__(self, name: str) -> Any:
        if self.made is None:
            import selectors

            self.made = selectors.DefaultSelector()
        return getattr(self.made, name)

    def select(self, timeout: Optional[float] = None) -> Any:
        """The events of the descriptors."""
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
    """The class of the event loop.

    Other threads wake a loop through a pipe to itself. This loop makes the pipe before it waits for the first time, and then
    looks once more at what it has to do. So it misses nothing that a thread left while there was no pipe.
    """
    import asyncio

    plain: Any = asyncio.SelectorEventLoop
    if not (hasattr(plain, "_make_self_pipe") and hasattr(plain, "_close_self_pipe")):
        return asyncio.SelectorEventLoop

    class LateLoop(plain):  # type: ignore[misc]
        """A loop that makes its selector and its pipe only when it needs them."""

        def __init__(self) -> None:
            selector = LateSelector()
            selector.before_wait = self.make_pipe
            super().__init__(selector)

        def make_pipe(self) -> bool:
            """Makes the pipe if there is none. Returns whether it has made it."""
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
            """Adds a handler. A signal wakes the loop through the pipe."""
            self.make_pipe()
            super().add_signal_handler(*args)

    return LateLoop
