"""Has an image do what its processes are going to do, so that each of them need not do it for the first time.

What is done for the first time takes longest, and writes most memory: modules are imported, caches are filled, the interpreter
specialises its code. A rehearsal runs no code of the app's tasks and receivers, and leaves no connection open.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Iterator
from typing import Any

_NAME = "regrow.rehearsal"
#: How often the result backend is used.
_TIMES = 10
#: The signals that are sent around a task.
_SIGNALS = ("task_prerun", "task_postrun", "task_success", "task_failure", "before_task_publish", "after_task_publish")


class Rehearsal:
    """A task that does nothing, in an app that has it for a moment at a time."""

    def __init__(self, app: Any, hostname: str) -> None:
        from celery.app import trace

        self._app = app
        self._task = app._task_from_fun(_nothing, name=_NAME, ignore_result=True)
        del app._tasks[_NAME]
        self._task.__trace__ = trace.build_tracer(_NAME, self._task, app.loader, hostname, app=app)
        self._order = pickle.dumps((0, trace.fast_trace_task, _message(_NAME), {}), pickle.HIGHEST_PROTOCOL)

    @contextlib.contextmanager
    def staged(self) -> Iterator[bytes]:
        """The order of the task, which can be carried out here."""
        self._app._tasks[_NAME] = self._task
        try:
            with _without_receivers():
                yield self._order
        finally:
            del self._app._tasks[_NAME]

    def use_results(self) -> None:
        """Uses the result backend as tasks do."""
        # Whatever is wrong with the backend is an error of the task that uses it.
        with contextlib.suppress(Exception):
            _rehearse_results(self._app)


def _nothing() -> None:
    """The task of a rehearsal."""


def _message(number: str) -> tuple[Any, ...]:
    """What a worker gives the function that carries out a task."""
    request = {
        "lang": "py",
        "task": _NAME,
        "id": number,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": number,
        "delivery_info": {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": False},
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "ignore_result": True,
    }
    body = json.dumps([[], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}])
    return _NAME, number, request, body, "application/json", "utf-8"


@contextlib.contextmanager
def _without_receivers() -> Iterator[None]:
    """Has nobody hear of what is rehearsed."""
    from celery import signals

    kept = {name: getattr(signals, name).receivers for name in _SIGNALS}
    for name in _SIGNALS:
        getattr(signals, name).receivers = []
    try:
        yield
    finally:
        for name, receivers in kept.items():
            getattr(signals, name).receivers = receivers


def _rehearse_results(app: Any) -> None:
    """Connects to a result backend of Redis, as each task does that has a result, and closes the connection."""
    from celery.backends.redis import RedisBackend

    backend = app.backend
    if not isinstance(backend, RedisBackend):
        return
    try:
        for _ in range(_TIMES):
            with backend.client.pipeline() as pipe:
                pipe.get("regrow-rehearsal").delete("regrow-rehearsal").publish("regrow-rehearsal", "")
                pipe.execute()
            backend.encode_result(None, "SUCCESS")
            backend.client.connection_pool.disconnect()
    finally:
        backend.client.connection_pool.disconnect()
