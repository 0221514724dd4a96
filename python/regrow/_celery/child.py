"""The side of a task that runs in its process.

    in the image   prepare(setup)   what a process of the prefork pool does before its first task, as far as it needs no
                                    descriptors: app, tasks, logging, signal handlers; `image_init` is sent
                   practise()       most of what a run does, before the image is made
    in a run       run(order)       what belongs to a process: `worker_process_init`, one task, `worker_process_shutdown`

    order          pickle of (pid of the worker, function, args, kwargs); empty: it is in the file at descriptor 61. Without
                   a function it asks whether the image could be prepared
    answer         see `regrow._celery.engine`

A run ends by `os._exit`, as a process of the prefork pool does: threads that a task has left behind do not hold it up.

The soft time limit is a signal, which may come at any time: `_takes_limit` is set while the task runs, and what comes before
that is raised when it begins.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import posix
import signal
import sys
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Optional

from regrow._celery.engine import ANSWER_FD, ORDER_FD
from regrow._celery.rehearsal import Rehearsal
from regrow._celery.setup import Setup

if TYPE_CHECKING:
    from regrow import _core

_PR_SET_PDEATHSIG = 1

_setup: Optional[Setup] = None
_app: Any = None
#: The main module of the worker, where the app is there.
_main: Optional[ModuleType] = None
#: What runs do before there is one.
_rehearsal: Optional[Rehearsal] = None
#: The variables that the app has set, each with its value, or that it has removed. Each run does so again.
_variables: list[tuple[bytes, Optional[bytes]]] = []
#: Why the image could not be prepared.
_failure: Optional[bytes] = None
#: Whether the soft time limit is to be raised at once, and whether it came before that.
_takes_limit = False
_has_limit_come = False
_prctl = ctypes.CDLL(None).prctl


def prepare(data: bytes) -> Optional[_core.TaskRunner]:
    """Sets the app up. An exception is kept, and is what every order is answered with.

    Returns what carries tasks out on a way of its own (see `docs/warm.md`): it does what the front end does ahead of `run`."""
    global _failure
    # Not by `os.environ`: the image is of the variables that are read there.
    before = dict(posix.environ)
    try:
        _prepare(data)
    except BaseException:
        _failure = _pickled_exception()
        return None
    _put_back_variables(before)
    from regrow import _core
    from regrow._call import worker

    return _core.TaskRunner(worker, sys.modules[__name__])


def _prepare(data: bytes) -> None:
    global _setup, _app, _rehearsal
    if data.startswith(b"@"):
        with open(data[1:], "rb") as file:
            data = file.read()
    else:
        data = data[1:]
    _setup = pickle.loads(data)
    sys.path[:] = _setup.path
    _app = _import_app(_setup)
    _set_up_app(_app, _setup)
    _set_up_signals()
    _import_transports(_app)
    _rehearsal = Rehearsal(_app, _setup.hostname)
    practise()
    _rehearsal.use_results()
    _release_files()


def _put_back_variables(before: dict[bytes, bytes]) -> None:
    """Leaves to each run what the app has done to the environment. An image that has not changed it starts its runs sooner."""
    after = dict(posix.environ)
    _variables[:] = ((name, after.get(name)) for name in {*before, *after} if before.get(name) != after.get(name))
    for name, _ in _variables:
        _set_variable(name, before.get(name))


def _set_variable(name: bytes, value: Optional[bytes]) -> None:
    if value is None:
        del os.environb[name]
    else:
        os.environb[name] = value


def _import_app(setup: Setup) -> Any:
    """The app, as it is in the worker."""
    if setup.main is not None:
        _import_main(setup.main)
    # The command line looks for the app in the current directory too, and does not stay there.
    sys.path.insert(0, setup.directory)
    try:
        if setup.home is None:
            assert setup.pickled is not None
            app = _unpickled_app(setup.pickled)
        else:
            __import__(setup.home[0])
            app = getattr(sys.modules[setup.home[0]], setup.home[1])
        for name in setup.include:
            app.loader.import_task_module(name)
        for name, (module, kind) in setup.classes.items():
            # One that cannot be made without arguments is unknown here: that is an error of its own tasks.
            with contextlib.suppress(Exception):
                if name not in app.tasks:
                    app.register_task(getattr(app.loader.import_task_module(module), kind))
        app.conf.update({name: pickle.loads(value) for name, value in setup.changes.items()})
        app.loader.init_worker()
    finally:
        sys.path.remove(setup.directory)
    return app


def _import_main(main: dict[str, Any]) -> None:
    """Imports the worker's main module, as `multiprocessing` does. Its tasks have the names that they have there."""
    global _main
    from multiprocessing import spawn

    # Celery reads it when it is imported: the file whose tasks are named as those of `__main__`.
    path = main.get("init_main_from_path")
    if path is not None:
        os.environ["MP_MAIN_FILE"] = path
    try:
        import celery.utils.imports  # noqa: F401
    finally:
        os.environ.pop("MP_MAIN_FILE", None)
    spawn.prepare(main)
    _main = sys.modules["__main__"]


def _unpickled_app(pickled: bytes) -> Any:
    """An app that no module holds. Tasks that are registered from here on belong to it, whatever app their module has."""
    import celery.app.base

    vars(celery.app.base)["USING_EXECV"] = True
    return pickle.loads(pickled)


def _set_up_app(app: Any, setup: Setup) -> None:
    """What `celery.concurrency.prefork.process_initializer` does to the app and to logging."""
    from celery._state import _set_task_join_will_block
    from celery.app import trace
    from celery.worker import state

    from regrow.celery import image_init

    _set_task_join_will_block(True)
    logfile = os.environ.get("CELERY_LOG_FILE") or None
    app.log.setup(
        int(os.environ.get("CELERY_LOG_LEVEL", 0) or 0),
        logfile,
        bool(os.environ.get("CELERY_LOG_REDIRECT", False)),
        str(os.environ.get("CELERY_LOG_REDIRECT_LEVEL")),
        colorize=setup.colorize,
        hostname=setup.hostname,
    )
    trace.setup_worker_optimizations(app, setup.hostname)
    for name, task in app.tasks.items():
        task.__trace__ = trace.build_tracer(name, task, app.loader, setup.hostname, app=app)
    state.reset_state()
    image_init.send(sender=app, hostname=setup.hostname)


def _set_up_signals() -> None:
    for name in ("SIGTERM", "SIGHUP", "SIGTTIN", "SIGTTOU"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    # Ctrl-C at a terminal reaches all of its processes, and is the worker's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, _on_soft_limit)


def _import_transports(app: Any) -> None:
    """Has the modules of broker and result backend in memory, and the objects that hold no connection yet."""
    # Whatever is wrong with them is an error of the task that uses them.
    with contextlib.suppress(Exception):
        app.connection_for_write().transport  # noqa: B018
        app.amqp.producer_pool  # noqa: B018
    with contextlib.suppress(Exception):
        getattr(app.backend, "client", None)


def _release_files() -> None:
    """Closes log files: each process that writes opens them again by itself."""
    for reference in list(logging._handlerList):  # type: ignore[attr-defined]
        handler = reference()
        if isinstance(handler, logging.FileHandler) and handler.stream is not None:
            handler.stream.close()
            handler.stream = None


def _on_soft_limit(_number: int, _frame: Optional[FrameType]) -> None:
    global _has_limit_come
    if not _takes_limit:
        _has_limit_come = True
        return
    from billiard.exceptions import SoftTimeLimitExceeded

    raise SoftTimeLimitExceeded


def practise() -> None:
    """Does what a run does, with a task that does nothing and that nobody hears of."""
    assert _rehearsal is not None
    with _rehearsal.staged() as order:
        _worker, function, args, kwargs = pickle.loads(order)
        _carry_out(function, args, kwargs)


def run(order: bytes) -> None:
    """Carries out one order. Does not return."""
    status = 1
    try:
        # The file of the answer serves other tasks: what this one starts and leaves behind is not to have it.
        os.set_inheritable(ANSWER_FD, False)
        for name, value in _variables:
            if posix.environ.get(name) != value:
                _set_variable(name, value)
        # With the worker its processes end.
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if not order:
            with open(ORDER_FD, "rb") as file:
                order = file.read()
        worker, function, args, kwargs = pickle.loads(order)
        if os.getppid() != worker:
            os._exit(1)
        if _failure is not None:
            _send(b"!" + _failure)
        elif function is None:
            _send(b"=" + pickle.dumps(None))
        else:
            _send(_answer_to(function, args, kwargs))
            _send_shutdown()
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                # Whoever reads it may be gone.
                stream.flush()  # type: ignore[union-attr]
        os._exit(status)


def _answer_to(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The answer to a call, in a process that begins with it."""
    try:
        _begin_process(args)
    except BaseException:
        return b"!" + _pickled_exception()
    return _carry_out(function, args, kwargs)


def _carry_out(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The answer to a call."""
    global _takes_limit
    try:
        try:
            _takes_limit = True
            if _has_limit_come:
                _on_soft_limit(signal.SIGUSR1, None)
            value = function(*args, **kwargs)
        finally:
            _takes_limit = False
    except BaseException:
        return b"!" + _pickled_exception()
    try:
        return b"=" + pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return b"!" + _pickled_refusal(error, value)


def _begin_process(args: tuple[Any, ...]) -> None:
    """What a process of the prefork pool does when it has started, and has to do with descriptors or with its number."""
    from multiprocessing import process

    from celery import signals
    from celery.app.trace import build_tracer

    assert _setup is not None
    if _main is not None:
        sys.modules["__main__"] = _main
    # Log lines show it.
    process.current_process().name = f"Regrow-{os.getpid()}"
    _app.loader.init_worker_process()
    if signals.worker_process_init.receivers:
        signals.worker_process_init.send(sender=_setup.hostname)
    task = _app._tasks.get(args[0]) if args and isinstance(args[0], str) else None
    if task is not None and task.track_started:
        # It has noted the number of the process that made it.
        task.__trace__ = build_tracer(task.name, task, _app.loader, _setup.hostname, app=_app)


def _send_shutdown() -> None:
    """Tells the app that its process ends, as the prefork pool does."""
    from celery import signals

    if signals.worker_process_shutdown.receivers:
        assert _setup is not None
        signals.worker_process_shutdown.send(sender=_setup.hostname, pid=os.getpid(), exitcode=0)


def _pickled_exception() -> bytes:
    """The exception that is handled, with its traceback, in a form that always travels."""
    from billiard.einfo import ExceptionInfo

    info = ExceptionInfo()
    try:
        pickled = pickle.dumps(info, pickle.HIGHEST_PROTOCOL)
        pickle.loads(pickled)
        return pickled
    except Exception as error:
        return _pickled_refusal(error, info)


def _pickled_refusal(error: Exception, value: object) -> bytes:
    """What billiard says of a result that cannot be pickled."""
    from billiard.einfo import ExceptionInfo
    from billiard.pool import MaybeEncodingError

    return pickle.dumps(ExceptionInfo((MaybeEncodingError, MaybeEncodingError(error, value), error.__traceback__)))


def _send(answer: bytes) -> None:
    """Writes an answer, and its first byte last: whoever reads it knows by that byte that all of it is there."""
    rest, at = memoryview(answer)[1:], 1
    while rest:
        written = os.pwrite(ANSWER_FD, rest, at)
        rest, at = rest[written:], at + written
    os.pwrite(ANSWER_FD, answer[:1], 0)
