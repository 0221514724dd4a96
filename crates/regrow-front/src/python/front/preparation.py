"""Goes to the stop: imports, reports, rehearses what each run does, and stops."""

from __future__ import annotations

import _ctypes
import _signal  # type: ignore[import-not-found]
import gc
import posix
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from .dependencies import Missing, absent_paths
from .environment import Change, Environment
from .ground import (
    AFTER_FORK,
    BEFORE_FORK,
    FLUSH_C_STREAMS,
    GATE,
    HELD,
    LOW_NUMBERS,
    ORDER_HEAD,
    SHOWS_WARNINGS,
    VERSION,
    Address,
    Function,
    decode,
    encode,
)
from .held_files import held_files
from .loading import Options, load
from .order import Order
from .renewal import forget_names, fork_hooks, is_done_once, is_quiet, renewals
from .stacks import drop_stacks, keeps_guards
from .streams import flush_streams, kind_of, standard_streams, usual_kind


class Prepared:
    """What the front end makes before the stop, for all runs."""

    def __init__(self, in_c: list[Change], own: list[Change], runner: Any) -> None:
        self.in_c = in_c
        self.own = own
        # What carries out orders before the front end reads them, where the environment is the order's alone.
        # Where the interpreter is to finalize there are no such runs.
        self.runner = None if in_c or own or SHOWS_WARNINGS else runner
        self.streams = standard_streams()
        hooks = fork_hooks()
        self.is_quiet = is_quiet(hooks)
        # Whether the hooks of a fork run once for all runs.
        self.is_forked = is_done_once(hooks)
        # A hook that runs behind the stop may write to the streams, unless all hooks are known.
        self.ahead = [stream for stream in self.streams if self.is_quiet and kind_of(stream.number) is not None]
        self.pids = [posix.getpid()]
        self.renewals = renewals(self.pids)


def write_report(number: int, kind: str, texts: Iterable[str | bytes]) -> None:
    """Writes records of one kind."""
    values = [text if isinstance(text, bytes) else encode(text) for text in texts]
    data = b"".join(encode(kind) + (b" " + value if value else b"") + b"\0" for value in values)
    while data:
        data = data[posix.write(number, data) :]


def prepare(options: Options, report: int) -> Prepared:
    """Imports, and reports what the image depends on. Where no image can be made it ends the process."""
    environment = Environment()
    missing = Missing()
    sys.meta_path.append(missing)
    try:
        runner = load(options)
        sys.meta_path.remove(missing)
        while LOW_NUMBERS:
            posix.close(LOW_NUMBERS.pop())
        in_c, own = environment.finish()
        prepared = Prepared(in_c, own, runner)
        flush_streams()
        rehearse(prepared)
    except BaseException as error:  # whatever it is, there is no image
        refuse(report, error)
    names = [name if isinstance(name, bytes) else encode(name) for name in environment.names]
    write_report(report, "env", sorted(name for name in names if name and b"=" not in name and b"\0" not in name))
    write_report(report, "absent", [] if options.unfollowed else sorted(absent_paths(missing)))
    write_report(report, "gate", [str(_ctypes.addressof(GATE))] if prepared.is_quiet else [])
    exchange = getattr(prepared.runner, "exchange", None)
    write_report(report, "exchange", [] if exchange is None else [str(exchange)])
    return prepared


def refuse(report: int, error: BaseException) -> NoReturn:
    """Reports why there is no image, and ends the process."""
    write_report(report, "refuse", [" ".join(f"{type(error).__name__}: {error}".split())])
    posix._exit(1)


def rehearse(prepared: Prepared) -> None:
    """Begins a few runs, so that the interpreter specialises the code of a run's start and makes what it needs once."""
    entries = [name + b"=" + value for name, value in posix.environ.items()]
    text = ORDER_HEAD + b"2 %d 0\n-c\0pass\0%b\0" % (len(entries), b"\0".join(entries))
    for _ in range(20):
        number = posix.memfd_create("order", 0)
        posix.write(number, text)
        posix.lseek(number, 0, 0)
        order = Order(number)
        order.variables()
        decode(order.argv[0])
        compile(order.argv[1], "<string>", "exec", 0, True)
        for stream in prepared.streams:
            # The old buffer is kept: a run that replaces it need not close it too.
            stream.replaced = stream.open()


def rehearse_calls(prepared: Prepared) -> None:
    """Carries out a few calls, and what comes before one: the caches that every run fills are full then."""
    rehearse = getattr(prepared.runner, "rehearse", None)
    for _ in range(20):
        for renew in prepared.renewals:
            renew()
        if rehearse is not None:
            rehearse(prepared.streams, FLUSH_C_STREAMS)


def holes() -> Iterator[object]:
    """Takes the free blocks of each size up to the first of a pool, so that what a run makes lies side by side."""
    # From 3.10 on a pool has four pages.
    pool = 1 << 14 if VERSION >= (3, 10) else 1 << 12
    for size in range(512, 0, -16):
        for _ in range((1 << 18) // size):
            thing: object = bytes(size - 33) if size > 32 else complex(size, 1) if size > 16 else object()
            yield thing
            if id(thing) % pool < size:
                break


def leave_threads(report: int) -> None:
    """Goes on as a process of one thread."""
    if len(posix.listdir("/proc/self/task")) > 1:
        write_report(report, "fork", [""])
        if posix.fork():
            posix._exit(0)


def stop(report: int, prepared: Prepared, options: Options) -> bool:
    """Stops this process. Returns in every run, when it has its order and has renewed what no two runs may share.

    False where what libraries hold open could not be opened anew."""
    if options.unfollowed:
        posix.kill(posix.getpid(), _signal.SIGSTOP)
    had_guards = keeps_guards()
    leave_threads(report)
    if had_guards:
        drop_stacks()
    prepared.pids.append(posix.getpid())
    if prepared.is_forked:
        BEFORE_FORK()
        AFTER_FORK()
    # What is printed here is nobody's: the streams are opened anew.
    gc.collect()
    try:
        for stream in prepared.ahead:
            if options.kinds:
                mode, device, block, is_terminal = options.kinds[stream.number]
                stream.open_ahead((mode, device, block), bool(is_terminal))
            else:
                stream.open_ahead(usual_kind(stream.number), False)
        rehearse_calls(prepared)
    except BaseException as error:  # as with the preparation
        refuse(report, error)
    forget_names()
    gc.collect()
    make_immortal = getattr(prepared.runner, "make_immortal", None)
    if make_immortal is not None:
        make_immortal()
    HELD.extend((*holes(), prepared, options, *sys.argv, *getattr(sys, "orig_argv", ())))
    gc.freeze()
    for words in (sys.argv, getattr(sys, "orig_argv", [])):
        # Every run has its own.
        words.clear()
    itself = posix.getpid()
    files = held_files()
    if not prepared.is_forked:
        BEFORE_FORK()
    for file in files:
        posix.close(file.number)
    posix.kill(itself, _signal.SIGSTOP)
    if not prepared.is_forked:
        AFTER_FORK()
    for renew in prepared.renewals:
        renew()
    if GATE[0]:
        Function(GATE[0])(Address(GATE[1]))
    return all(file.open() for file in files)
