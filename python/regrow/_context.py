"""A context of `multiprocessing` whose processes are fresh ones out of kept interpreters.

A process is started as by the method "spawn": it is told what it is to be through a pipe, imports the main module unless
its image has, and shares what "spawn" lets processes share. Descriptors that it is given are numbered from `FIRST_FD`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
from collections.abc import Sequence
from multiprocessing import context, popen_spawn_posix, reduction, resource_tracker, spawn, util
from multiprocessing import process as mp_process
from typing import Any, ClassVar, Optional, SupportsIndex

from regrow import _core
from regrow._starter import Starter, checked_preload, worker_starter

FIRST_FD = 64

_FUNCTION = b"regrow._call.worker:process\n"
_WORDS = ["-c", "--multiprocessing-fork"]


class Popen(popen_spawn_posix.Popen):
    """A process of the context, as `multiprocessing` holds it."""

    method = "regrow"
    _fds: list[int]

    def __init__(self, process_obj: Any, starter: Starter) -> None:
        self._starter = starter
        super().__init__(process_obj)

    def duplicate_for_child(self, fd: int) -> int:
        """The number that a descriptor of this process has in the child."""
        self._fds.append(fd)
        return FIRST_FD + len(self._fds) - 1

    def _launch(self, process_obj: Any) -> None:
        tracker = self.duplicate_for_child(_tracker_fd())
        preparation = spawn.get_preparation_data(process_obj._name)
        message = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(preparation, message)
            reduction.dump(process_obj, message)
        finally:
            context.set_spawning_popen(None)
        reader, writer = os.pipe()
        try:
            pipe = self.duplicate_for_child(reader)
            self._process = self._start(b"%d %d" % (tracker, pipe))
        except BaseException:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        self.pid = self._process.pid
        self.sentinel = self._process.pidfd()
        # The child takes the end of the pipe for that of its parent.
        self.finalizer = util.Finalize(self, util.close_fds, (writer,))  # type: ignore[attr-defined]
        # A process that has ended before it read tells why by itself.
        with contextlib.suppress(BrokenPipeError), open(writer, "wb", closefd=False) as file:
            file.write(message.getbuffer())

    def _start(self, order: bytes) -> _core.Process:
        call = _FUNCTION + order
        if not self._starter.is_prepared():
            self._starter.prepare(_WORDS, _FUNCTION)
        fds = [(fd, FIRST_FD + index) for index, fd in enumerate(self._fds)]
        return self._starter.start(_WORDS, call=call, outputs=[], fds=fds)

    def poll(self, flag: int = os.WNOHANG) -> Optional[int]:
        """The exit code, if the process has ended; without `WNOHANG`, when it has."""
        if self.returncode is None and self._process.wait(0 if flag == os.WNOHANG else None):
            code = self._process.returncode
            self.returncode = 255 if code is None else code
        return self.returncode

    def _send_signal(self, sig: int) -> None:
        if self.returncode is None:
            self._process.send_signal(sig)

    def close(self) -> None:
        """Gives back what is held for a process that has ended: its sentinel is closed with it."""
        super().close()
        self._process.close()

    def terminate(self) -> None:
        """Asks the process to end."""
        self._send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process."""
        self._send_signal(signal.SIGKILL)


class Process(mp_process.BaseProcess):
    """A process of a context; see `multiprocessing.Process`."""

    _start_method: ClassVar[Optional[str]] = None
    _preload: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def _Popen(cls, process_obj: Any) -> Popen:  # noqa: N802
        return Popen(process_obj, _starter(cls._preload))


@functools.lru_cache(maxsize=16)
def _process_class(preload: tuple[str, ...]) -> type[Process]:
    """The class of the processes that have these modules. What is preloaded is nothing that the process itself need know."""
    if not preload:
        return Process

    def reduce(self: Process, protocol: SupportsIndex) -> Any:
        if type(self) is made:
            return object.__new__, (Process,), self.__dict__
        return object.__reduce_ex__(self, protocol)

    made = type("Process", (Process,), {"_preload": preload, "__reduce_ex__": reduce})
    return made


class Context(context.BaseContext):
    """A context of `multiprocessing`, with everything that those of the standard library have."""

    _name = "regrow"

    def __init__(self, preload: Sequence[str] = ()) -> None:
        self._preload = checked_preload(preload)
        self.Process = _process_class(self._preload)


def _tracker_fd() -> int:
    """The descriptor of the process that removes what processes that share it leave behind."""
    fd = resource_tracker.getfd()
    assert fd is not None
    return fd


@functools.lru_cache(maxsize=16)
def _starter(preload: tuple[str, ...]) -> Starter:
    starter = worker_starter(preload, None)
    starter.tell("multiprocessing", 0)
    return starter


def get_context(preload: Sequence[str] = ()) -> Context:
    """A context for `multiprocessing`, as `multiprocessing.get_context()`: its `Process` is a fresh process out of a kept
    interpreter that has the modules of `preload` and the main module in memory."""
    return Context(preload)
