"""An app of Celery whose tasks tell where they run, and do what tasks should not. Brokers are in the environment."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Optional

from celery import Celery, signals
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.log import get_task_logger
from kombu.message import Message

from regrow._celery import child
from regrow.celery import image_init

app = Celery(
    "celery_app",
    broker=os.environ.get("REGROW_TEST_BROKER"),
    backend=os.environ.get("REGROW_TEST_BACKEND"),
)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options=json.loads(os.environ.get("REGROW_TEST_OPTIONS", "{}")),
    worker_prefetch_multiplier=1,
    worker_pool_restarts=True,
    result_expires=600,
)
logger = get_task_logger(__name__)

#: What tasks of this process have done, and what its signals have said.
done: list[str] = []
heard: list[str] = []


@image_init.connect
def on_image(**_: Any) -> None:
    heard.append(f"image {os.getpid()}")
    os.environ["SET_IN_THE_IMAGE"] = "yes"
    os.environ.pop("REGROW_TEST_REMOVED", None)


@signals.worker_process_init.connect
def on_process(**_: Any) -> None:
    heard.append(f"process {os.getpid()}")


@signals.worker_process_shutdown.connect
def on_process_end(pid: int, **_: Any) -> None:
    path = os.environ.get("REGROW_TEST_ENDS")
    if path:
        note(path, str(pid))


if "REGROW_TEST_NO_ACKNOWLEDGEMENT" in os.environ:

    @signals.worker_shutting_down.connect
    def on_shutting_down(**_: Any) -> None:
        def ack(self: Message, multiple: bool = False) -> None:
            raise RuntimeError("there is no broker")

        Message.ack = ack  # type: ignore[method-assign]


def note(path: str, text: str) -> None:
    """Adds a line to a file."""
    with open(path, "a") as file:
        file.write(text + "\n")


@app.task
def where(name: str = "") -> tuple[int, list[str], list[str]]:
    done.append(name)
    return os.getpid(), done, heard


@app.task
def add(one: int, two: int) -> int:
    return one + two


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(ignore_result=True)
def noted(path: str, text: str, seconds: float = 0.0) -> None:
    time.sleep(seconds)
    note(path, text)


@app.task(acks_late=True, reject_on_worker_lost=True)
def late(path: str, text: str, seconds: float) -> int:
    note(path, f"begin {text} {os.getpid()}")
    time.sleep(seconds)
    note(path, f"end {text}")
    return os.getpid()


@app.task(acks_late=True, reject_on_worker_lost=True)
def dies_once(path: str) -> int:
    note(path, "begin")
    with open(path) as file:
        if len(file.readlines()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@app.task
def length(data: str) -> int:
    return len(data)


@app.task
def long(size: int) -> str:
    return "x" * size


@app.task
def fails(text: str) -> None:
    raise KeyError(text)


class StubbornError(Exception):
    """An exception that cannot be pickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("stubborn")
        self.lock = threading.Lock()


@app.task
def fails_stubbornly() -> None:
    raise StubbornError(1, 2)


@app.task
def fails_at_length(size: int) -> None:
    raise ValueError("x" * size)


@app.task
def exits(status: int, at_once: bool) -> None:
    if at_once:
        os._exit(status)
    sys.exit(status)


@app.task
def kills_itself(number: int) -> None:
    os.kill(os.getpid(), number)


@app.task
def variables(*names: str) -> list[list[Optional[str]]]:
    """Variables as Python and as the C library have them."""
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    in_c = [getenv(name.encode()) for name in names]
    return [[os.environ.get(name) for name in names], [value and value.decode() for value in in_c]]


@app.task
def way_in() -> str:
    """The function that has begun the process of a task: what is around the pool's own."""
    frame = sys._getframe()
    while frame.f_code.co_filename != child.__file__ or frame.f_code.co_name != "run":
        assert frame.f_back is not None
        frame = frame.f_back
    assert frame.f_back is not None
    return frame.f_back.f_code.co_name


@app.task
def crashes() -> None:
    ctypes.string_at(0)


@app.task
def recurses() -> int:
    sys.setrecursionlimit(1 << 30)

    def deeper(_: int) -> int:
        return max([1], key=deeper)

    return deeper(1)


@app.task
def allocates(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


@app.task
def naps(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


@app.task(soft_time_limit=0.3, time_limit=20)
def catches_limit() -> str:
    try:
        time.sleep(30)
    except SoftTimeLimitExceeded:
        return "caught"
    return "not reached"


@app.task(soft_time_limit=0.3)
def exceeds_soft_limit() -> None:
    time.sleep(30)


@app.task(time_limit=0.3)
def exceeds_hard_limit(path: str) -> None:
    note(path, str(os.getpid()))
    with contextlib.suppress(SoftTimeLimitExceeded):
        time.sleep(30)


@app.task
def tells_pid_and_naps(path: str, seconds: float) -> None:
    note(path, str(os.getpid()))
    time.sleep(seconds)


@app.task
def leaves_thread() -> int:
    threading.Thread(target=time.sleep, args=(30,)).start()
    return os.getpid()


@app.task
def leaves_child() -> int:
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    return child


@app.task
def sends(number: int) -> list[str]:
    """Sends tasks of its own, through a connection of its own."""
    return [add.delay(number, other).id for other in range(3)]


@app.task(bind=True, max_retries=3, default_retry_delay=0)
def succeeds_at_last(self: Any, path: str) -> int:
    note(path, str(os.getpid()))
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task(bind=True, track_started=True)
def started_state(self: Any) -> tuple[int, Any]:
    return os.getpid(), self.backend.get_task_meta(self.request.id)["result"]


@app.task
def speaks(text: str) -> int:
    print(f"printed {text}")
    logger.warning("logged %s", text)
    return os.getpid()
