"""The side of a call that runs in its process.

    in the image   prepare(setup)    sets variables, imports what is preloaded and the main module of the parent as
                                     `__mp_main__`, calls the initializer
    in a run       call(order)       calls the function; its answer is written when everything else is done
                   process(order)    a `multiprocessing` process

    order          length of the authentication key (2 bytes) | key | pickle of (function, args, kwargs)
                   empty: the order is in the file at descriptor 61. With large buffers the function is `carry`
    answer         kind (1 byte) | length (8 bytes) | pickle, at descriptor 62; the runner's goes into the exchange of the
                   body where it fits there (docs/warm.md)

Numbers are little-endian. The kinds are `=`, the value; `#`, a value with large buffers; `!`, an exception of the call; `?`,
one of the preparation. An exception is `(pickle of it or None, its text, its traceback)`. The answer is written last, so that
whoever has read it need not wait long for the end of the process. In one of the kind `#` the number of buffers and their sizes
(8 bytes each) stand before the pickle, and the buffers behind it (`regrow._call.buffers`), from the next page on.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import functools
import os
import pickle
import sys
import traceback
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO, Optional

from regrow._call import buffers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

ORDER_FD = 61
ANSWER_FD = 62

VALUE = b"="
WITH_BUFFERS = b"#"
ERROR = b"!"
UNPREPARED = b"?"

#: How long the head of an answer is: its kind, and the length of what follows.
HEAD_BYTES = 9
#: The longest answer that is copied so that one call writes it.
_ONE_PIECE = 16 * 1024

#: What pickles an exception. A call may have something else do it.
dumps: Callable[[object], bytes] = functools.partial(pickle.dumps, protocol=pickle.HIGHEST_PROTOCOL)
#: Whether this process is one of a call: it has a descriptor for the answer.
_in_call = False
#: The large buffers of what the call returns, as its pickle is made, and what takes them.
_beside: list[memoryview] = []
_take = functools.partial(buffers.take, _beside)
#: What is written at the end: kind, and pickle.
_answer: Optional[tuple[bytes, bytes]] = None
#: The names of the modules that are preloaded.
_preload: tuple[str, ...] = ()
#: The exception of the preparation.
_failure: Optional[bytes] = None
#: The module `__main__` that the process began with.
_own_main: Optional[ModuleType] = None
#: What this interpreter holds so that no image of it is kept.
_outside: Optional[BinaryIO] = None
#: What modules are looked for in.
_path: list[str] = []


def prepare(setup: bytes) -> Optional[Callable[..., Optional[bytes]]]:
    """Gets the interpreter ready for calls. An exception is kept, and is what every call is answered with.

    Returns what carries calls out on a way of its own (see `docs/warm.md`): it does what `call` and the end of the process do.
    """
    global _failure
    atexit.register(_send)
    os.register_at_fork(after_in_child=_forget)
    try:
        _prepare(setup)
    except BaseException as error:
        _failure = _described(error)
    _path[:] = sys.path
    if _failure is not None:
        return None
    from regrow import _core

    return _core.Runner(sys.modules[__name__])


def _prepare(setup: bytes) -> None:
    global _preload
    from multiprocessing import process, spawn

    if setup.startswith(b"@"):
        with open(setup[1:], "rb") as file:
            data = file.read()
    else:
        data = setup[1:]
    main, initializer, _preload, environment, likely = pickle.loads(data)
    os.environ.update(environment)
    _import_preloaded()
    _import_likely(likely)
    current = process.current_process()
    # As multiprocessing has it: a main module that starts processes while it is imported is told so.
    current._inheriting = True  # type: ignore[attr-defined]
    try:
        spawn.prepare(main)
        if initializer is not None:
            begun = _begun()
            function, args = pickle.loads(initializer)
            function(*args)
            if _begun() > begun:
                # A thread is in no image, and what one process cleans up at its end the next one misses.
                _keep_out()
    finally:
        del current._inheriting  # type: ignore[attr-defined]


def _begun() -> int:
    """How much there is that ends with a process: threads of Python's, and objects that clean up at its end."""
    finalizers: list[weakref.finalize[..., object]] = list(vars(weakref.finalize)["_registry"])
    return _thread._count() + sum(one.atexit for one in finalizers)


def _keep_out() -> None:
    """Has Regrow keep no image of this interpreter: each process prepares itself. An open descriptor says so."""
    global _outside
    _outside = open(os.devnull, "rb")  # noqa: SIM115


def _import_preloaded() -> None:
    for name in _preload:
        __import__(name)


def _import_likely(names: Iterable[str]) -> None:
    """Imports modules that calls are going to need."""
    for name in names:
        # A call that does need the module meets what the import raises.
        with contextlib.suppress(BaseException):
            __import__(name)


def call(order: bytes) -> None:
    """Carries out one call."""
    global _answer, _in_call
    _in_call = True
    # The file of the answer serves other calls: what this one starts and leaves behind is not to have it.
    os.set_inheritable(ANSWER_FD, False)
    _continue_main()
    if not order:
        order = _long_order()
    try:
        _answer = _carry_out(order)
    except BaseException as error:
        _answer = ERROR, _described(error)


def _carry_out(order: bytes) -> tuple[bytes, bytes]:
    if _failure is not None:
        return UNPREPARED, _failure
    end = 2 + int.from_bytes(order[:2], "little")
    _authenticate(order[2:end])
    function, args, kwargs = pickle.loads(memoryview(order)[end:])
    data = pickle.dumps(function(*args, **kwargs), pickle.HIGHEST_PROTOCOL, buffer_callback=_take)
    return (WITH_BUFFERS, _write_buffers(data)) if _beside else (VALUE, data)


def carry(number: int, sizes: Sequence[int], data: bytes) -> Any:
    """Calls the function of an order whose large buffers are in the memory file at a descriptor."""
    memory = buffers.mapped(number, buffers.places(sizes)[-1])
    os.close(number)
    function, args, kwargs = pickle.loads(data, buffers=buffers.parts(memory, sizes))
    del memory
    return function(*args, **kwargs)


def _write_buffers(data: bytes) -> bytes:
    """Writes the large buffers of what the call returns, and gives what stands before them in the answer."""
    sizes = [len(buffer) for buffer in _beside]
    data = b"".join(number.to_bytes(8, "little") for number in (len(sizes), *sizes)) + data
    try:
        buffers.write(ANSWER_FD, buffers.up_to_page(HEAD_BYTES + len(data)), _beside)
    except BaseException:
        os.ftruncate(ANSWER_FD, 0)
        raise
    finally:
        _beside.clear()
    return data


def process(order: bytes) -> None:
    """Becomes a process of `multiprocessing`, which is told the descriptors of the resource tracker and of its own pipe."""
    from multiprocessing import resource_tracker, spawn

    _continue_main()
    # Modules that make a semaphore when they are imported have started a tracker by now: this process's is its parent's.
    vars(resource_tracker)["_resource_tracker"]._pid = None
    # Where a module could not be imported it says so here: a process has no answer that could.
    _import_preloaded()
    tracker, pipe = (int(number) for number in order.split())
    spawn.spawn_main(pipe_handle=pipe, tracker_fd=tracker)


def _continue_main() -> None:
    """Has the parent's main module be this process's, and its path, as prepared."""
    global _own_main
    main = sys.modules.get("__mp_main__")
    if main is not None:
        _own_main = sys.modules["__main__"]
        sys.modules["__main__"] = main
    if _path:
        sys.path[:] = _path


def _authenticate(key: bytes) -> None:
    """Takes over the key by which processes of one family know one another."""
    process = sys.modules.get("multiprocessing.process")
    if key and process is not None:
        process.current_process().authkey = key


def _long_order() -> bytes:
    with open(ORDER_FD, "rb") as file:
        return file.read()


def _described(error: BaseException) -> bytes:
    """An exception in a form that always travels."""
    inner = error.__traceback__
    while inner is not None and inner.tb_frame.f_code.co_filename == __file__:
        inner = inner.tb_next
    text = "".join(traceback.format_exception(type(error), error, inner))
    try:
        pickled = dumps(error)
    except BaseException:
        pickled = None
    return pickle.dumps((pickled, traceback.format_exception_only(type(error), error)[-1].strip(), text))


def _send() -> None:
    """Writes the answer. It is registered before anything else, so that it is called after everything else."""
    if _own_main is not None:
        # What ends with the run is its own module. The one that was prepared is not torn down for nothing.
        sys.modules["__main__"] = _own_main
    if _answer is not None:
        _write_answer(*_answer)


def _write_answer(kind: bytes, data: bytes) -> None:
    head = kind + len(data).to_bytes(8, "little")
    # Whoever wants no answer any more has closed the pipe.
    with contextlib.suppress(BrokenPipeError):
        if len(data) <= _ONE_PIECE:
            _write(head + data)
        else:
            _write(head)
            _write(data)


def _write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(ANSWER_FD, rest) :]


def _forget() -> None:
    """A process that the function has forked answers nothing, and holds up nobody who waits for the answer."""
    global _answer
    _answer = None
    if _in_call:
        with contextlib.suppress(OSError):
            os.close(ANSWER_FD)
