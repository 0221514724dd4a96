"""Which interpreter is started, what it has prepared, and out of which pool.

    Starter   one image: the interpreter's options, modules to be imported, a function to be called
    pools     one for each set of modules, each reuse and each size, and of this process alone: a forked copy makes its own

A pool is dropped with the last starter that uses it.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import functools
import itertools
import os
import pickle
import stat
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Literal, Optional, Union

from regrow import _core
from regrow._progress import progress

#: Whether a body serves many processes, one after the other, or one.
Reuse = Literal["always", "never"]
#: What names a pool: the modules, the reuse, and how many bodies it may have.
_Key = tuple[tuple[str, ...], Reuse, int]

#: The longest setup that is passed as an argument, in bytes; a longer one is passed in a file.
_LONGEST_ARGUMENT = 64 * 1024
#: How many bodies a program may have beside one for each processor.
_SPARE_BODIES = 8

_pools: weakref.WeakValueDictionary[_Key, _Pool] = weakref.WeakValueDictionary()
_pools_lock = threading.Lock()
#: The pools of the process that this one was forked from. Nothing of them is this process's to end.
_others: list[_Pool] = []
#: Whose the pools are: changes with every fork.
_owner = object()
#: What starters are known by in the list of pools.
_numbers = itertools.count(1)


class _Pool:
    """A pool of the engine, in a form that can be referred to weakly."""

    __slots__ = ("__weakref__", "core")

    def __init__(self, reuse: Reuse, bodies: int) -> None:
        is_single = reuse == "never"
        # Whoever loads what a call returns, or says that he trusts a program, gains nothing by distrusting its memory.
        self.core = _core.Pool(bodies, single_use=is_single, trusts_runs=not is_single)


def _pool_of(key: _Key) -> _Pool:
    _unlist_at_exit()
    with _pools_lock:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = _Pool(key[1], key[2])
        return pool


@functools.cache
def _unlist_at_exit() -> None:
    """Has pools leave the list that `regrow top` shows at the end of the interpreter. Not before there is one: an interpreter
    that others are made from had better have nothing to do at its end."""
    atexit.register(_unlist)


def _unlist() -> None:
    for pool in list(_pools.values()):
        pool.core.unlist()


def _leave_to_parent() -> None:
    global _pools, _pools_lock, _owner
    _others.extend(_pools.values())
    _pools = weakref.WeakValueDictionary()
    _pools_lock = threading.Lock()
    _owner = object()


os.register_at_fork(after_in_child=_leave_to_parent)


def _kind_of(place: Union[int, str]) -> str:
    """What decides how an interpreter opens a standard stream: type, device, size of blocks, whether it is a terminal."""
    try:
        status = os.stat(place)
    except OSError:
        return "0:0:0:0"
    is_terminal = isinstance(place, int) and os.isatty(place)
    return f"{stat.S_IFMT(status.st_mode)}:{status.st_rdev}:{status.st_blksize}:{int(is_terminal)}"


class Starter:
    """Starts processes of one image.

    `preload` is imported in the order given. Where there is `setup`, a function as `module:name`, it is called with
    `setup_data` instead, and imports the modules itself. Private data does not appear in the interpreter's arguments.
    `path` is what modules are looked for in before the interpreter's own directories. `reuse` says whether a body serves
    many processes, one after the other, or one. `bodies` is how many of them there may be: what runs beyond that is started
    by exec.
    """

    def __init__(
        self,
        *,
        options: Sequence[str] = (),
        preload: Sequence[str] = (),
        setup: Optional[str] = None,
        setup_data: bytes = b"",
        is_private: bool = False,
        path: Sequence[str] = (),
        reuse: Reuse = "always",
        bodies: Optional[int] = None,
    ) -> None:
        if not sys.executable:
            raise RuntimeError("this interpreter does not know its own program, so that it cannot start another one")
        self._preload = checked_preload(preload)
        self._reuse = checked_reuse(reuse)
        self._bodies = (os.cpu_count() or 1) + _SPARE_BODIES if bodies is None else bodies
        words: list[str] = []
        if self._preload and setup is None:
            words += ["--preload", ",".join(self._preload)]
        if setup is not None:
            words += ["--setup", f"{setup}:{self._argument(setup_data, is_private)}"]
        for directory in path:
            words += ["--path", directory]
        if words:
            words += ["--streams", ",".join((_kind_of(os.devnull), _kind_of(1), _kind_of(2)))]
        #: What is started.
        self.image = _core.Image(sys.executable, list(options), words, preload=self._preload)
        self._prepares = bool(words)
        self._number = next(_numbers)
        self._renew()

    def _argument(self, data: bytes, is_private: bool) -> str:
        if is_private or len(data) > _LONGEST_ARGUMENT:
            number, path = tempfile.mkstemp(prefix="regrow-")
            weakref.finalize(self, _remove, path, os.getpid())
            with open(number, "wb") as file:
                file.write(data)
            data = b"@" + os.fsencode(path)
        else:
            data = b"=" + data
        return base64.b64encode(data).decode("ascii")

    def _renew(self) -> None:
        self._owner = _owner
        self._pool = _pool_of((self._preload, self._reuse, self._bodies))
        self._is_prepared = False
        self._preparing = threading.Lock()
        #: What takes the starter off the list of pools, once it is there.
        self._listed: Optional[weakref.finalize[..., object]] = None

    def tell(self, name: str, workers: int, waiting: int = 0, failed: int = 0) -> None:
        """Says in the list that `regrow top` shows whom the starter is for: how many processes that has at a time, and how many
        calls wait and have failed."""
        core = self.pool
        core.set_user(self._number, name, ",".join(self._preload), workers, waiting=waiting, failed=failed)
        if self._listed is None:
            self._listed = weakref.finalize(self, core.drop_user, self._number)
            self._listed.atexit = False

    def tell_no_more(self) -> None:
        """Takes the starter off that list."""
        if self._listed is not None and self._owner is _owner:
            self._listed()

    @property
    def pool(self) -> _core.Pool:
        """The pool of this process that the image is in."""
        if self._owner is not _owner:
            self._renew()
        return self._pool.core

    def is_prepared(self) -> bool:
        """Whether nobody has to wait any more, because the image is made, cannot be, or has nothing to prepare."""
        return (self._is_prepared and self._owner is _owner) or not self._prepares

    def prepare(self, words: list[str], call: Optional[bytes] = None) -> None:
        """Makes the image, if no thread has done so; a terminal shows that it takes time."""
        pool = self.pool
        with self._preparing:
            if self._is_prepared:
                return
            what = f"importing {', '.join(self._preload)}" if self._preload else "preparing an interpreter"
            with progress(what):
                pool.prepare(self.image, words, call=call)
            self._is_prepared = True

    def start(
        self,
        words: list[str],
        *,
        call: Optional[bytes] = None,
        environment: Optional[list[tuple[str, str]]] = None,
        directory: Optional[str] = None,
        input: Optional[bytes] = None,
        outputs: Sequence[int] = (),
        answer: Optional[int] = None,
        fds: list[tuple[int, int]],
        memory_limit: Optional[int] = None,
        place: Optional[str] = None,
    ) -> _core.Process:
        """Starts a process; see `Pool.start`."""
        return self.pool.start(
            self.image,
            words,
            call=call,
            environment=environment,
            directory=directory,
            input=input,
            outputs=list(outputs),
            answer=answer,
            fds=fds,
            memory_limit=memory_limit,
            place=place,
        )


def _remove(path: str, owner: int) -> None:
    """Removes a file that this process has made, and not one that it was forked from."""
    if os.getpid() == owner:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def checked_preload(preload: Sequence[str]) -> tuple[str, ...]:
    """Names of modules, as they can be passed on."""
    if isinstance(preload, str):
        raise TypeError("preload is a sequence of names of modules, not one string")
    names = tuple(preload)
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"{name!r} is not the name of a module")
    return names


def checked_reuse(reuse: Reuse) -> Reuse:
    """What a caller has said of reuse."""
    if reuse not in ("always", "never"):
        raise ValueError(f"reuse is 'always' or 'never', not {reuse!r}")
    return reuse


def worker_starter(
    preload: Sequence[str],
    initializer: Optional[bytes],
    reuse: Reuse = "always",
    *,
    imports_main: bool = True,
    environment: Optional[Mapping[str, str]] = None,
    likely: Sequence[str] = (),
) -> Starter:
    """A starter of processes that answer calls (`regrow._call.worker`): with this process's options and path, and its main
    module if they import it. Variables of `environment` are set before they import anything. Modules of `likely` are imported
    too, if they can be."""
    import subprocess
    from multiprocessing import spawn

    main = spawn.get_preparation_data("regrow")
    # Neither is for a command line, which every user can read; and a kept interpreter stays where it is.
    del main["authkey"], main["dir"]
    path = main["sys_path"]
    if not imports_main:
        for name in ("init_main_from_name", "init_main_from_path"):
            main.pop(name, None)
    return Starter(
        options=subprocess._args_from_interpreter_flags(),  # type: ignore[attr-defined]
        preload=preload,
        setup="regrow._call.worker:prepare",
        # The modules are imported there, so that an exception of theirs is an answer.
        setup_data=pickle.dumps((main, initializer, tuple(preload), dict(environment or {}), tuple(likely))),
        # What an initializer is given may be a secret.
        is_private=initializer is not None,
        path=[entry for entry in path if os.path.isabs(entry)],
        reuse=reuse,
    )
