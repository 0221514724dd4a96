"""Python programs in fresh processes: `subprocess.run` for Python."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from regrow import _core
from regrow._starter import Reuse, Starter, checked_preload, checked_reuse

StrPath = Union[str, "os.PathLike[str]"]

#: The longest source that is an argument, in bytes: the kernel's limit for one, with the NUL at its end. A longer one is in a
#: file that has this number in the process until it is read.
_LONGEST_SOURCE = 128 * 1024 - 1
_SOURCE_FD = 61
#: A program that becomes the one in that file, and leaves no name behind.
_READER = (
    "exec(compile((lambda file: (file.read(), file.close())[0])(open("
    f"{_SOURCE_FD}, encoding='utf-8', errors='surrogateescape', newline='')), '<string>', 'exec'))"
)
#: What the system says of a directory that nothing can be started in.
_NO_DIRECTORY = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)


class Completed(subprocess.CompletedProcess[bytes]):
    """A process that has ended: `args`, `returncode`, `stdout`, `stderr`; and `creation`, how it was made, in words."""

    def __init__(self, args: list[str], returncode: int, stdout: bytes, stderr: bytes, creation: str) -> None:
        super().__init__(args, returncode, stdout, stderr)
        self.creation = creation


class Program:
    """A run that is about to be started: the interpreter's arguments, and what else it is given."""

    def __init__(
        self,
        source_or_path: StrPath,
        args: Sequence[StrPath],
        input: Optional[bytes],
        preload: Sequence[str],
        env: Optional[Mapping[str, str]],
        cwd: Optional[StrPath],
        reuse: Reuse,
    ) -> None:
        program = ["-c", source_or_path] if isinstance(source_or_path, str) else [os.fspath(source_or_path)]
        words = program + [os.fspath(arg) for arg in args]
        #: The command line.
        self.command = [sys.executable, *words]
        self._source = _long_source(source_or_path)
        self.words = words if self._source is None else ["-c", _READER, *words[2:]]
        self.starter = _starter(checked_preload(preload), checked_reuse(reuse))
        self._input = None if input is None else _input_bytes(input)
        self._environment = None if env is None else list(env.items())
        self._directory = None if cwd is None else os.fspath(cwd)

    def prepare(self) -> None:
        """Makes the image of the modules that are preloaded, if that was not done before."""
        self.starter.prepare(self.words)

    def start(self) -> _core.Process:
        """Starts the process."""
        if self._source is None:
            return self._start([])
        file = os.memfd_create("regrow-source", os.MFD_CLOEXEC)
        try:
            rest = memoryview(self._source)
            while rest:
                rest = rest[os.write(file, rest) :]
            os.lseek(file, 0, os.SEEK_SET)
            return self._start([(file, _SOURCE_FD)])
        finally:
            os.close(file)

    def _start(self, fds: list[tuple[int, int]]) -> _core.Process:
        try:
            return self.starter.start(
                self.words,
                environment=self._environment,
                directory=self._directory,
                input=self._input,
                outputs=[1, 2],
                fds=fds,
            )
        except OSError as error:
            if error.filename is None and error.errno in _NO_DIRECTORY:
                error.filename = sys.executable if self._has_directory() else self._directory
            raise

    def _has_directory(self) -> bool:
        """Whether a process can be started in its directory."""
        path = self._directory
        return path is None or (os.path.isdir(path) and os.access(path, os.X_OK))

    def completed(self, process: _core.Process) -> Completed:
        """What became of a process that has ended."""
        code = process.returncode
        # As in subprocess: when somebody else has waited for the process, nobody knows.
        status = 0 if code is None else code
        completed = Completed(self.command, status, process.output(0), process.output(1), process.creation)
        process.close()
        return completed

    def expired(self, process: _core.Process, timeout: Optional[float]) -> subprocess.TimeoutExpired:
        """What is raised for a process that has been killed because its time was over."""
        # As in subprocess: an output of which nothing was read is None.
        stdout, stderr = process.output(0) or None, process.output(1) or None
        process.close()
        return subprocess.TimeoutExpired(self.command, timeout or 0.0, stdout, stderr)


def _long_source(source_or_path: StrPath) -> Optional[bytes]:
    """A source that is too long for an argument."""
    if not isinstance(source_or_path, str) or len(source_or_path) * 4 <= _LONGEST_SOURCE:
        return None
    source = source_or_path.encode("utf-8", "surrogateescape")
    if b"\0" in source:
        raise ValueError("the source has a NUL in it")
    return source if len(source) > _LONGEST_SOURCE else None


def _input_bytes(input: Any) -> bytes:
    """What is written to a standard input."""
    if isinstance(input, str):
        raise TypeError("input is bytes, not str: give input.encode()")
    try:
        return bytes(memoryview(input))
    except TypeError:
        raise TypeError(f"input is bytes, not {type(input).__name__}") from None


@functools.lru_cache(maxsize=16)
def _starter(preload: tuple[str, ...], reuse: Reuse) -> Starter:
    starter = Starter(preload=preload, reuse=reuse)
    starter.tell("regrow.run", 0)
    return starter


def run(
    source_or_path: StrPath,
    args: Sequence[StrPath] = (),
    input: Optional[bytes] = None,
    preload: Sequence[str] = (),
    timeout: Optional[float] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[StrPath] = None,
    reuse: Reuse = "never",
) -> Completed:
    """Runs a Python program in a fresh process and waits for its end.

    A string is the source of the program, as for `python3 -c`; a `pathlib.Path`, or whatever else is a path, is its file.
    The process has `args` as its arguments, `input` as its standard input (nothing, by default), and the modules of
    `preload` in memory: importing them takes no time. `env` is its whole environment, `cwd` its working directory; both
    are this process's unless they are given.

    The process has its memory alone: it is a copy of an interpreter in which nothing was run, and is dropped when it ends.
    With `reuse="always"` the memory is put back instead, and serves the next call: that takes less time, and is for
    programs that you trust.

    A program that takes longer than `timeout` seconds is killed, and `subprocess.TimeoutExpired` is raised.
    """
    program = Program(source_or_path, args, input, preload, env, cwd, reuse)
    if not program.starter.is_prepared():
        program.prepare()
    deadline = None if timeout is None else time.monotonic() + timeout
    process = program.start()
    try:
        over = process.wait(None if deadline is None else deadline - time.monotonic(), outputs=True)
    except BaseException:
        process.kill()
        process.wait()
        process.close()
        raise
    if over:
        return program.completed(process)
    process.kill()
    process.wait()
    raise program.expired(process, timeout)
