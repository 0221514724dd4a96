"""The same for asyncio: no thread waits, the event loop polls the process and its pipes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Optional

from regrow import _core
from regrow._run import Completed, Program, StrPath
from regrow._starter import Reuse

__all__ = ["run"]


async def run(
    source_or_path: StrPath,
    args: Sequence[StrPath] = (),
    input: Optional[bytes] = None,
    preload: Sequence[str] = (),
    timeout: Optional[float] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[StrPath] = None,
    reuse: Reuse = "never",
) -> Completed:
    """Runs a Python program in a fresh process; see `regrow.run`. The process is killed when the task is cancelled."""
    program = Program(source_or_path, args, input, preload, env, cwd, reuse)
    loop = asyncio.get_running_loop()
    if not program.starter.is_prepared():
        await loop.run_in_executor(None, program.prepare)
    process = program.start()
    watch = _Watch(loop, process)
    try:
        await asyncio.wait_for(watch.over, timeout)
    except asyncio.TimeoutError:
        watch.kill()
        raise program.expired(process, timeout) from None
    except BaseException:
        watch.kill()
        process.close()
        raise
    return program.completed(process)


class _Watch:
    """Has an event loop move the bytes of a process, and tell when it is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop, process: _core.Process) -> None:
        self._loop = loop
        self._process = process
        self._readers: set[int] = set()
        self._writer: Optional[int] = None
        #: Done when the process has ended and its outputs are read.
        self.over: asyncio.Future[None] = loop.create_future()
        self._follow()

    def _follow(self) -> None:
        """Watches what is still to be waited for: the pipes, and after them the process."""
        readable = set(self._process.readable())
        writable = self._process.writable()
        if writable != self._writer and self._writer is not None:
            self._loop.remove_writer(self._writer)
        if writable is not None and self._writer is None:
            self._loop.add_writer(writable, self._ready)
        self._writer = writable
        wanted = readable or {self._process.pidfd()}
        for fd in self._readers - wanted:
            self._loop.remove_reader(fd)
        for fd in wanted - self._readers:
            self._loop.add_reader(fd, self._ready)
        self._readers = wanted

    def _ready(self) -> None:
        try:
            if self._process.wait(0, outputs=True):
                self._leave()
                if not self.over.done():
                    self.over.set_result(None)
            else:
                self._follow()
        except Exception as error:
            self._leave()
            if not self.over.done():
                self.over.set_exception(error)

    def _leave(self) -> None:
        """Watches nothing any more."""
        if self._writer is not None:
            self._loop.remove_writer(self._writer)
        for fd in self._readers:
            self._loop.remove_reader(fd)
        self._writer, self._readers = None, set()

    def kill(self) -> None:
        """Ends the process, if it has not ended, and the watch. A killed process is gone at once: that is waited for."""
        self._leave()
        self._process.kill()
        self._process.wait()
