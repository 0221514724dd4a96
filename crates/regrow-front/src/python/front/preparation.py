"""Goes to the stop: imports, reports, rehearses what each run does, and stops."""

from __future__ import annotations

import _ctypes
import _signal  # type: ignore[import-not-found]
import gc
import posix
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .dependencies import Missing, absent_paths
from .environment import Change, Environment
from .ground import AFTER_FORK, BEFORE_FORK, GATE, HELD, ORDER_HEAD, Address, Function, decode, encode
from .loading import Options, load
from .order import Order
from .renewal import is_quiet, renewals
from .streams import flush_streams, kind_of, standard_streams


class Prepared:
    """What the front end makes before the stop, for all runs."""

    def __init__(self, in_c: list[Change], own: list[Change], runner: Any) -> None:
        self.in_c = in_c
        self.own = own
        # What carries out orders before the front end reads them, where the environment is the order's alone.
        self.runner = None if in_c or own else runner
        self.streams = standard_streams()
        # A hook that runs behind the stop may write to the streams, unless all hooks are known.
        self.ahead = [stream for stream in self.streams if is_quiet() and kind_of(stream.number) is not None]
        self.renewals = renewals()


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
        in_c, own = environment.finish()
        prepared = Prepared(in_c, own, runner)
        flush_streams()
        rehearse(prepared)
    except BaseException as error:  # whatever it is, there is no image
        write_report(report, "refuse", [" ".join(f"{type(error).__name__}: {error}".split())])
        posix._exit(1)
    names = [name if isinstance(name, bytes) else encode(name) for name in environment.names]
    write_report(report, "env", sorted(name for name in names if name and b"=" not in name and b"\0" not in name))
    write_report(report, "absent", sorted(absent_paths(missing)))
    write_report(report, "gate", [str(_ctypes.addressof(GATE))] if is_quiet() else [])
    return prepared


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
        for renew in prepared.renewals:
            renew()
        for stream in prepared.streams:
            # The old buffer is kept: a run that replaces it need not close it too.
            stream.replaced = stream.open()


def holes() -> Iterator[object]:
    """Takes the free blocks of each size until some follow each other, so that what a run makes lies side by side."""
    for size in range(512, 0, -16):
        last = in_row = 0
        for _ in range((1 << 18) // size):
            thing: object = bytes(size - 33) if size > 32 else complex(size, 1) if size > 16 else object()
            yield thing
            in_row = in_row + 1 if id(thing) == last + size else 0
            if in_row == 6:
                break
            last = id(thing)


def stop(report: int, prepared: Prepared, options: Options) -> None:
    """Stops this process. Returns in every run, when it has its order and has renewed what no two runs may share."""
    gc.collect()
    HELD.extend((*holes(), prepared, options, *sys.argv, *getattr(sys, "orig_argv", ())))
    gc.freeze()
    for stream in prepared.ahead:
        stream.open_ahead()
    if len(posix.listdir("/proc/self/task")) > 1:
        write_report(report, "fork", [""])
        if posix.fork():
            posix._exit(0)
    itself = posix.getpid()
    BEFORE_FORK()
    posix.kill(itself, _signal.SIGSTOP)
    AFTER_FORK()
    for renew in prepared.renewals:
        renew()
    if GATE[0]:
        Function(GATE[0])(Address(GATE[1]))
