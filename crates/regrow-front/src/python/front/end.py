"""Ends a run: finds its exit status, drops what the run has made, and ends the process."""

from __future__ import annotations

import _io
import _signal  # type: ignore[import-not-found]
import _thread
import _warnings
import _weakref
import gc
import posix
import sys
from types import TracebackType
from typing import Any, NoReturn

from .ground import AHEAD, FLUSH_C_STREAMS, HELD, INTERRUPTED, SHOWS_WARNINGS, VERSION, encode
from .streams import flush_streams


def own_frames_cut(trace: TracebackType | None) -> TracebackType | None:
    """Cuts off the frames of the front end that a traceback begins with."""
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    return trace


def exit_status(error: SystemExit) -> int:
    """Returns the exit status that `SystemExit` asks for; writes what is no number to `sys.stderr`."""
    code = error.code
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF if -(1 << 63) <= (code or 0) < 1 << 63 else 0xFF
    try:
        if sys.stderr is None:
            posix.write(2, encode(f"{code}\n"))
        else:
            sys.stderr.write(f"{code}\n")
    except Exception:  # there is nobody left to tell
        pass
    return 1


def show(error: BaseException) -> None:
    """Prints an exception as the interpreter does."""
    sys.__excepthook__(type(error), error, error.__traceback__)


def judge(error: BaseException) -> int:
    """Treats an exception that has left the program as the interpreter does; returns the exit status."""
    error.__traceback__ = trace = own_frames_cut(error.__traceback__)
    if isinstance(error, SystemExit):
        return exit_status(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if VERSION >= (3, 12):
        vars(sys)["last_exc"] = error
    hook = getattr(sys, "excepthook", None)
    try:
        sys.audit("sys.excepthook", hook, type(error), error, trace)
        if hook is None:
            print("sys.excepthook is missing", file=sys.stderr)
            show(error)
        else:
            hook(type(error), error, trace)
    except SystemExit as leaving:
        return exit_status(leaving)
    except BaseException as second:  # the interpreter prints whatever it is
        second.__traceback__ = own_frames_cut(second.__traceback__)
        second.__context__ = None
        print("Error in sys.excepthook:", file=sys.stderr)
        show(second)
        print("\nOriginal exception was:", file=sys.stderr)
        show(error)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def ended(is_file: bool, error: BaseException | None) -> int:
    """Does what the interpreter does when a program ends; returns the exit status. After a file it flushes first."""
    if is_file:
        for stream in (sys.stderr, sys.stdout):
            try:
                stream.flush()
            except Exception:  # the interpreter asks no further either
                pass
    return 0 if error is None else judge(error)


def drop(kept: frozenset[str]) -> None:
    """Drops what the run has made, as the interpreter does at its end: finalizers run, files are closed."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    # Of a stream in a cycle the collector may close the file before it finalizes the buffer.
    flush_all()
    modules = sys.modules
    names = ["__main__"]
    if len(modules) != len(kept):
        names += [name for name in modules if name not in kept]
    left = []
    for name in names:
        module = modules.pop(name, None)
        # A weak proxy of a module says that it is one, and nothing can refer to it weakly.
        if issubclass(type(module), type(sys)):
            left.append(_weakref.ref(module))
        del module
    gc.collect()
    for reference in reversed(left):
        module = reference()
        if module is not None:
            clear(vars(module))
    flush_all()


def flush_all() -> None:
    """Writes what the streams of the run hold, and the standard ones."""
    for thing in (*gc.get_objects(), *AHEAD, sys.__stdout__, sys.__stderr__):
        # A stream that something prepared holds stays open.
        if type(thing) in (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom):
            try:
                thing.flush()
            except Exception:  # closed, detached, or its reader is gone
                pass


def clear(names: dict[str, Any]) -> None:
    """Clears a module that something still holds, in the interpreter's order."""
    private = [name for name in names if name[:1] == "_" and name[:2] != "__"]
    for name in private + [name for name in names if name != "__builtins__"]:
        names[name] = None


def warning_filters() -> list[object]:
    """Copies the list of warning filters."""
    return list(getattr(sys.modules.get("warnings"), "filters", _warnings.filters))


class Kept:
    """What was there before the run's program: the end compares with it."""

    def __init__(self) -> None:
        self.modules = frozenset(sys.modules)
        self.filters = warning_filters()
        self.finalizes = SHOWS_WARNINGS


def leave(status: int, kept: Kept) -> None:
    """Ends the process. Returns where the interpreter itself must finalize, and does what is left to do."""
    if kept.finalizes or kept.filters != warning_filters():
        return
    threading: Any = sys.modules.get("threading")
    if threading is not None:
        try:
            threading._shutdown()
        except BaseException as error:  # the interpreter prints it, and goes on
            print(f"Exception ignored in: {threading!r}", file=sys.stderr)
            error.__traceback__ = own_frames_cut(error.__traceback__)
            show(error)
        del threading
    if _thread._count():
        return
    if "atexit" in sys.modules:
        try:
            sys.modules["atexit"]._run_exitfuncs()
        except BaseException:  # each was printed
            pass
    if not flush_streams():
        return
    drop(kept.modules)
    if not flush_streams():
        return
    FLUSH_C_STREAMS(None)
    if status == INTERRUPTED:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        posix.kill(posix.getpid(), _signal.SIGINT)
        status = 130
    posix._exit(status)


def finalize(status: int) -> NoReturn:
    """Has the interpreter end in its own way. It writes out a stream when nothing holds the stream any more."""
    HELD.clear()
    if status == INTERRUPTED:
        sys.excepthook = lambda *_: None
        raise KeyboardInterrupt
    raise SystemExit(status)


def end_well(kept: Kept) -> NoReturn:
    """Ends a process whose program has done what it should."""
    leave(0, kept)
    finalize(0)
