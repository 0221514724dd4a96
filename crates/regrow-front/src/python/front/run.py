"""Runs the front end: it prepares and stops, or has its order at once; then it runs the program and ends."""

from __future__ import annotations

import posix
import sys
import time
from typing import Any, NoReturn

from .end import Kept, end_well, ended, finalize, leave
from .ground import FLUSH_C_STREAMS
from .loading import Options, load
from .order import Order, become_plain
from .preparation import Prepared, prepare, stop
from .program import Program
from .streams import kind_of


def take_variable(name: bytes) -> int | None:
    """Takes one of the front end's own variables out of the environment; returns its number."""
    value = posix.environ.pop(name, None)
    if value is None:
        return None
    posix.unsetenv(name)
    return int(value)


def take_environment(order: Order, prepared: Prepared) -> None:
    """Makes `os.environ` the order's, in place. The C library has the order's already, but for what modules change."""
    variables = posix.environ
    variables.clear()
    variables.update(order.variables())
    for name, value in prepared.own:
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    for name, value in prepared.in_c:
        if value is None:
            posix.unsetenv(name)
        else:
            posix.putenv(name, value)


def wake(number: int, prepared: Prepared, taken: bytes | None) -> Order:
    """Makes this process what the order says. Every run begins with it."""
    order = Order(number, taken)
    logging: Any = sys.modules.get("logging")
    if logging is not None:
        # The time at which a plain process would have imported it.
        logging._startTime = time.time_ns() if isinstance(logging._startTime, int) else time.time()
    take_environment(order, prepared)
    try:
        for stream in prepared.streams:
            if stream.kind is None or stream.kind != kind_of(stream.number):
                stream.open()
    except OSError:
        become_plain(order)
    return order


def leave_to_plain(number: int) -> NoReturn:
    """Leaves the run to a plain interpreter, or ends it where the order is in no descriptor."""
    try:
        order = Order(number)
    except OSError:
        posix.write(2, b"regrow: what a library holds open cannot be opened in this run\n")
        posix._exit(1)
    become_plain(order)


def begin() -> tuple[Program, Kept]:
    """Prepares, stops, and wakes in a run; returns its program, and what was there before it."""
    options = Options(sys.argv[1:])
    number = take_variable(b"REGROW_ORDER")
    if number is not None:
        load(options)
        kept = Kept()
        return Program(Order(number), options.skip), kept
    number = take_variable(b"REGROW_WARM")
    if number is None:
        raise SystemExit("a front end is started by Regrow: neither REGROW_WARM nor REGROW_ORDER is set")
    prepared = prepare(options, number)
    kept = Kept()
    is_whole = stop(number, prepared, options)
    taken = None
    if not is_whole:
        leave_to_plain(number)
    if prepared.runner is not None:
        taken = prepared.runner(number, options.skip, prepared.streams, FLUSH_C_STREAMS, lambda: end_well(kept))
    return Program(wake(number, prepared, taken), options.skip), kept


program, kept = begin()
is_file, main_names = program.is_file, program.main
kept.finalizes |= b"REGROW_PYTHON_FINALIZE" in posix.environ
try:
    program.step[0](*program.step[1])
except BaseException as error:  # all of them are the program's
    status = ended(is_file, error)
else:
    status = ended(is_file, None)
if is_file:
    main_names.pop("__file__", None)
    main_names.pop("__cached__", None)
del program, main_names
leave(status, kept)
finalize(status)
