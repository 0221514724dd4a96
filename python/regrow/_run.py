"""Python programs in fresh processes: `subprocess.run` for Python."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Optional, Union

from regrow import _core
from regrow._starter import Reuse, Starter, checked_preload, checked_reuse

StrPath = Union[str, "os.PathLike[str]"]


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
        self.words = program + [os.fspath(arg) for arg in args]
        self.starter = _starter(checked_preload(preload), checked_reuse(reuse))
        self._input = input
        self._environment = None if env is None else list(env.items())
        self._directory = None if cwd is None else os.fspath(cwd)

    def prepare(self) -> None:
        """Makes the image of the modules that are preloaded, if that was not done before."""
        self.starter.prepare(self.words)

    def start(self) -> _core.Process:
        """Starts the process."""
        return self.starter.start(
            self.words,
            environment=self._environment,
            directory=self._directory,
            input=self._input,
            outputs=[1, 2],
            fds=[],
        )

    def completed(self, process: _core.Process) -> Completed:
        """What became of a process that has ended."""
        code = process.returncode
        # As in subprocess: when somebody else has waited for the process, nobody knows.
        return Completed(self.command, 0 if code is None else code, process.output(0), process.output(1), process.creation)

    @property
    def command(self) -> list[str]:
        """The command line."""
        return [sys.executable, *self.words]


@functools.lru_cache(maxsize=16)
def _starter(preload: tuple[str, ...], reuse: Reuse) -> Starter:
    return Starter(preload=preload, reuse=reuse)


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
        raise
    if over:
        return program.completed(process)
    process.kill()
    process.wait()
    raise subprocess.TimeoutExpired(program.command, timeout or 0.0, process.output(0), process.output(1))
