"""The executor: every call in a fresh process, and whatever happens to one is nobody else's."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import gc
import os
import pickle
import queue
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Optional

import pytest

import bodies
import calls
import held_open
import regrow
import regrow._call.calls
import regrow._call.future
import regrow._call.order
from conftest import Script


def test_a_call_gives_its_value(executor: regrow.Executor) -> None:
    assert executor.submit(calls.add, 1, two=2).result() == 3


def test_every_call_has_a_process_of_its_own(executor: regrow.Executor) -> None:
    pids = [future.result() for future in [executor.submit(calls.pid) for _ in range(8)]]
    assert len(set(pids)) == 8
    assert os.getpid() not in pids


def test_nothing_is_left_of_a_call(executor: regrow.Executor) -> None:
    assert [executor.submit(calls.remember, number).result() for number in range(4)] == [[0], [1], [2], [3]]


def test_nobody_counts_references_to_what_all_runs_have() -> None:
    with regrow.Executor(1, preload=["calls"]) as executor:
        for _ in range(3):
            found, freed = executor.submit(calls.uncounted).result()
            knows = sys.version_info >= (3, 12)
            assert found == [knows, knows, knows, knows, False, False, False]
            assert freed == ["the one of the image"]


def test_no_memory_serves_two_calls_where_it_is_not_to_be_used_again(executor: regrow.Executor, tmp_path: Path) -> None:
    assert bodies.repeated(lambda path: executor.submit(bodies.shown, path).result(), tmp_path) > 0
    with regrow.Executor(1, preload=["json"], reuse="never") as never:
        assert bodies.repeated(lambda path: never.submit(bodies.shown, path).result(), tmp_path) == 0
        assert [never.submit(calls.remember, number).result() for number in range(4)] == [[0], [1], [2], [3]]


def test_the_process_is_gone_when_the_result_is_there(executor: regrow.Executor) -> None:
    pid = executor.submit(calls.pid).result()
    assert not Path(f"/proc/{pid}").exists()


def test_a_thousand_calls_give_what_they_are_asked_for() -> None:
    with regrow.Executor(4) as executor:
        assert list(executor.map(calls.add, range(1000), range(1000))) == [2 * number for number in range(1000)]


def test_map_gives_results_while_others_run(executor: regrow.Executor) -> None:
    results = executor.map(calls.add, [1, 2], timeout=60)
    assert next(results) == 1
    assert list(results) == [2]


def test_many_threads_share_an_executor(executor: regrow.Executor) -> None:
    results: list[int] = []

    def use(number: int) -> None:
        results.extend(executor.submit(calls.add, number, 10 * turn).result() for turn in range(4))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(number + 10 * turn for number in range(5) for turn in range(4))


def test_two_threads_wait_for_one_future(executor: regrow.Executor) -> None:
    future = executor.submit(calls.sleep, 0.3)
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(future.result())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["slept"] * 3


def test_wait_and_as_completed_work(tmp_path: Path) -> None:
    with regrow.Executor(3) as executor:
        slow: concurrent.futures.Future[object] = executor.submit(calls.wait_for, str(tmp_path / "end"))
        fast: concurrent.futures.Future[object] = executor.submit(calls.add, 1)
        done, rest = concurrent.futures.wait([slow, fast], return_when=concurrent.futures.FIRST_COMPLETED)
        assert (done, rest) == ({fast}, {slow})
        completed = concurrent.futures.as_completed([slow, fast])
        assert next(completed).result() == 1
        (tmp_path / "end").touch()
        assert next(completed).result() == "waited"


def test_callbacks_are_called_without_anybody_waiting(executor: regrow.Executor) -> None:
    called = threading.Event()
    executor.submit(calls.add, 1).add_done_callback(lambda future: called.set())
    assert called.wait(30)


def test_a_call_is_served_when_no_descriptor_is_free_for_its_process() -> None:
    with regrow.Executor(2) as executor:
        assert executor.submit(calls.pid).result() > 0
        future = executor.submit(calls.close_the_answer, 0.5)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        taken = [os.dup(0) for _ in range(highest)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(taken), hard))
        try:
            time.sleep(0.3)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for number in taken:
                os.close(number)
        # Nobody asks the futures for their results: the executor's thread serves them.
        assert concurrent.futures.wait([future], 60).done
        assert isinstance(future.exception(), regrow.BrokenProcess)
        later = executor.submit(calls.pid)
        assert concurrent.futures.wait([later], 60).done


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_results_that_are_held_hold_no_descriptors(executor: regrow.Executor) -> None:
    futures = [executor.submit(calls.add, number) for number in range(200)]
    # The executor's thread serves some of them, this one the others.
    concurrent.futures.wait(futures[:100])
    assert [future.result() for future in futures] == list(range(200))
    held = open_descriptors()
    futures.clear()
    gc.collect()
    # What the pool keeps may have changed a little.
    assert held - open_descriptors() < 50


def test_calls_that_are_killed_hold_no_descriptors(executor: regrow.Executor) -> None:
    executor.submit(calls.pid).result()
    before = open_descriptors()
    futures = []
    for _ in range(40):
        futures.append(executor.submit(calls.sleep, 60))
        assert futures[-1].running()
        futures[-1].cancel()
        executor.submit(calls.pid).result()
    # What was killed may not have been looked at yet.
    end = time.monotonic() + 60
    while open_descriptors() - before >= 20 and time.monotonic() < end:
        time.sleep(0.01)
    assert open_descriptors() - before < 20
    assert all(future.cancelled() for future in futures)


def test_asyncio_can_wait_for_a_call(executor: regrow.Executor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, calls.add, number) for number in range(4)))

    assert asyncio.run(main()) == [0, 1, 2, 3]


def test_no_more_run_than_were_asked_for(tmp_path: Path) -> None:
    with regrow.Executor(1) as executor:
        first = executor.submit(calls.wait_for, str(tmp_path / "end"))
        second = executor.submit(calls.pid)
        assert first.running()
        assert not second.running()
        (tmp_path / "end").touch()
        second.result()
        assert first.done()


def test_a_timeout_of_result_leaves_the_call_alone(executor: regrow.Executor, tmp_path: Path) -> None:
    future = executor.submit(calls.wait_for, str(tmp_path / "end"))
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(timeout=0.05)
    (tmp_path / "end").touch()
    assert future.result() == "waited"


def test_big_arguments_and_results_travel(executor: regrow.Executor) -> None:
    size = 100 * 1024 * 1024
    data = bytes(range(256)) * (size // 256)
    assert executor.submit(bytes.upper, data).result() == data.upper()


def test_an_exception_comes_back_with_its_traceback(executor: regrow.Executor) -> None:
    with pytest.raises(calls.CustomError) as caught:
        executor.submit(calls.raise_custom).result()
    assert caught.value.code == 3
    cause = caught.value.__cause__
    assert isinstance(cause, regrow.RemoteTraceback)
    assert "in raise_custom" in str(cause)
    assert "worker.py" not in str(cause)


def test_an_exception_that_cannot_be_loaded_comes_back_as_text(executor: regrow.Executor) -> None:
    for function in (calls.raise_unloadable, calls.raise_unpicklable):
        error = executor.submit(function).exception()
        assert isinstance(error, regrow.RemoteError)
        assert function.__name__ in str(error.__cause__)
    assert "Unloadable: 1 and 2" in str(executor.submit(calls.raise_unloadable).exception())


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_what_loading_an_answer_raises_breaks_that_call_alone(executor: regrow.Executor, is_waited_for: bool) -> None:
    value: concurrent.futures.Future[object] = executor.submit(calls.LeavesWhenLoaded)
    raised: concurrent.futures.Future[object] = executor.submit(calls.raise_interrupting)
    if not is_waited_for:
        # The executor's thread serves them.
        assert not concurrent.futures.wait([value, raised], 60).not_done
    error = value.exception(60)
    assert isinstance(error, regrow.BrokenProcess)
    assert isinstance(error.__cause__, SystemExit)
    error = raised.exception(60)
    assert isinstance(error, regrow.RemoteError)
    assert "InterruptsWhenLoaded: so" in str(error)
    later = executor.submit(calls.add, 1)
    assert concurrent.futures.wait([later], 60).done
    assert later.result() == 1


def test_a_signal_handler_that_raises_while_an_answer_is_loaded_is_heard(executor: regrow.Executor) -> None:
    def handler(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        future: concurrent.futures.Future[object] = executor.submit(calls.SignalsWhenLoaded)
        interrupts = 0
        while True:
            try:
                assert future.result() == "loaded"
                break
            except KeyboardInterrupt:
                interrupts += 1
        # None where the executor's thread was first.
        assert interrupts <= 1
    finally:
        signal.signal(signal.SIGUSR1, before)


# The thread says what ended its callback, as `threading` does.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_callback_that_leaves_ends_nothing(executor: regrow.Executor, tmp_path: Path) -> None:
    future = executor.submit(calls.wait_for, str(tmp_path / "end"))
    future.add_done_callback(lambda _: sys.exit(3))
    (tmp_path / "end").touch()
    assert concurrent.futures.wait([future], 60).done
    later = executor.submit(calls.add, 1)
    assert concurrent.futures.wait([later], 60).done


def test_a_result_that_cannot_be_pickled_is_an_error(executor: regrow.Executor) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        executor.submit(calls.unpicklable).result()


def test_an_argument_that_cannot_be_pickled_is_an_error(executor: regrow.Executor) -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        executor.submit(calls.add, lambda: None).result()


def test_sys_exit_is_an_exception_like_others(executor: regrow.Executor) -> None:
    with pytest.raises(SystemExit) as caught:
        executor.submit(calls.leave, 3).result()
    assert caught.value.code == 3


def test_an_end_without_a_result_is_that_call_s_error(executor: regrow.Executor) -> None:
    others = [executor.submit(calls.sleep, 0.5)]
    with pytest.raises(regrow.BrokenProcess, match="exit status 5") as caught:
        executor.submit(calls.leave_at_once, 5).result()
    assert caught.value.returncode == 5
    for number in (signal.SIGSEGV, signal.SIGKILL):
        with pytest.raises(regrow.BrokenProcess, match=f"killed by {number.name}") as caught:
            executor.submit(calls.kill_self, int(number)).result()
        assert caught.value.returncode == -number
    assert [future.result() for future in others] == ["slept"]
    assert executor.submit(calls.add, 1).result() == 1


def test_a_crash_is_seen_although_a_forked_child_lives_on(executor: regrow.Executor, tmp_path: Path) -> None:
    with pytest.raises(regrow.BrokenProcess, match="exit status 9"):
        executor.submit(calls.fork_and_crash, str(tmp_path / "child")).result()
    # Had its end been waited for, it would be gone.
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_forked_child_does_not_answer(executor: regrow.Executor) -> None:
    assert executor.submit(calls.fork_and_return).result() == "parent"


def test_threads_of_a_call_are_waited_for(executor: regrow.Executor) -> None:
    assert executor.submit(calls.start_thread).result() == "returned"


def test_a_running_call_can_be_cancelled(tmp_path: Path) -> None:
    with regrow.Executor(2) as executor:
        other = executor.submit(calls.sleep, 1)
        future = executor.submit(calls.touch_and_sleep, str(tmp_path / "pid"), 60)
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        pid = (tmp_path / "pid").read_text()
        assert future.cancel()
        assert future.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()
        assert other.result() == "slept"
    assert not Path(f"/proc/{pid}").exists()


def test_a_waiting_call_can_be_cancelled(tmp_path: Path) -> None:
    with regrow.Executor(1) as executor:
        running = executor.submit(calls.wait_for, str(tmp_path / "end"))
        waiting = executor.submit(calls.add, 1)
        assert waiting.cancel()
        (tmp_path / "end").touch()
        assert executor.submit(calls.add, 2).result() == 2
        assert running.result() == "waited"
        assert not running.cancel()


def test_cancelling_tells_those_who_wait() -> None:
    with regrow.Executor(1) as executor:
        future = executor.submit(calls.sleep, 60)
        threading.Timer(0.3, future.cancel).start()
        assert concurrent.futures.wait([future], timeout=30).done == {future}


def test_a_call_that_takes_too_long_is_killed() -> None:
    # The last call has so long for its own start, on a machine that has much else to do.
    with regrow.Executor(3, timeout=3.0) as executor:
        # One is waited for, the others are served by the executor's thread.
        futures = [executor.submit(calls.sleep, 60) for _ in range(3)]
        with pytest.raises(TimeoutError, match=r"longer than 3\.0 s"):
            futures[0].result()
        for future in futures[1:]:
            assert isinstance(future.exception(), TimeoutError)
        assert executor.submit(calls.add, 1).result() == 1


def test_memory_is_limited() -> None:
    with regrow.Executor(2, memory_limit=200 * 1024 * 1024) as executor:
        with pytest.raises(MemoryError):
            executor.submit(calls.allocate, 400 * 1024 * 1024).result()
        assert executor.submit(calls.allocate, 1024).result() == 1024


def test_an_initializer_is_called_and_every_call_finds_what_it_did() -> None:
    with regrow.Executor(2, initializer=calls.initialize, initargs=(7,)) as executor:
        assert executor.submit(calls.remember, 1).result() == [7, 1]
        assert executor.submit(calls.remember, 2).result() == [7, 2]


def test_a_long_setup_travels() -> None:
    with regrow.Executor(1, initializer=calls.initialize, initargs=(2**1_000_000,)) as executor:
        assert executor.submit(calls.remember, 1).result() == [2**1_000_000, 1]


def test_what_an_initializer_is_given_is_in_no_command_line() -> None:
    with regrow.Executor(1, initializer=calls.initialize_with_text, initargs=("a secret",)) as executor:
        words = executor.submit(calls.words_of_family).result()
    setups = [word.rsplit(b":", 1)[1] for word in words if word.startswith(b"regrow._call.worker:prepare:")]
    assert not [setup for setup in setups if b"a secret" in base64.b64decode(setup)]


def test_a_broken_process_is_what_the_standard_library_raises(executor: regrow.Executor) -> None:
    error = executor.submit(calls.leave_at_once, 5).exception()
    assert isinstance(error, regrow.BrokenProcess)
    assert isinstance(error, BrokenProcessPool)
    assert isinstance(error, concurrent.futures.BrokenExecutor)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.returncode) == (regrow.BrokenProcess, str(error), 5)


def test_map_refuses_chunks_of_nothing(executor: regrow.Executor) -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="chunksize must be >= 1"):
            executor.map(calls.add, [1], chunksize=size)
    assert list(executor.map(calls.add, [1, 2], [3, 4], chunksize=2)) == [4, 6]


def test_an_initializer_that_fails_breaks_calls_with_its_exception() -> None:
    with regrow.Executor(1, initializer=calls.initialize_badly) as executor:
        error = executor.submit(calls.add, 1).exception()
        assert isinstance(error, regrow.BrokenProcess)
        assert isinstance(error.__cause__, calls.CustomError)
        assert "in initialize_badly" in str(error.__cause__.__cause__)


def test_a_preloaded_module_that_cannot_be_imported_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise ValueError('not today')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with regrow.Executor(1, preload=["broken_module"]) as executor:
        error = executor.submit(calls.add, 1).exception()
        assert isinstance(error, regrow.BrokenProcess)
        assert isinstance(error.__cause__, ValueError)
        assert "broken_module.py" in str(error.__cause__.__cause__)
        # The file that has been mended counts.
        (tmp_path / "broken_module.py").write_text("VALUE = 'a value, after all'\n")
        assert executor.submit(calls.value_of, "broken_module", "VALUE").result() == "a value, after all"


def test_modules_are_preloaded() -> None:
    with regrow.Executor(1, preload=["colorsys", "xml.dom"]) as executor:
        assert {"colorsys", "xml.dom"} <= executor.submit(calls.modules).result()


def test_a_preloaded_module_that_changes_on_disk_is_the_changed_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "changing_module.py"
    module.write_text("VALUE = 'first'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with regrow.Executor(1, preload=["changing_module"]) as executor:
        assert executor.submit(calls.value_of, "changing_module", "VALUE").result() == "first"
        module.write_text("VALUE = 'another, longer one'\n")
        assert executor.submit(calls.value_of, "changing_module", "VALUE").result() == "another, longer one"


@pytest.mark.parametrize("preload", [[], ["numpy"]])
def test_nothing_random_is_repeated(preload: list[str]) -> None:
    for module in preload:
        pytest.importorskip(module)
    with regrow.Executor(2, preload=preload) as executor:
        futures = [executor.submit(calls.random_values) for _ in range(100)]
        values = [value for future in futures for value in future.result()]
    assert len(set(values)) == len(values) == 100 * (8 + 2 * len(preload))


def test_modules_that_start_threads_can_be_preloaded() -> None:
    numpy = pytest.importorskip("numpy")
    with regrow.Executor(2, preload=["numpy"]) as executor:
        product = executor.submit(numpy.dot, numpy.ones((100, 100)), numpy.ones((100, 100))).result()
    assert float(product.sum()) == 1_000_000.0


def test_surroundings_are_the_caller_s(executor: regrow.Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor.submit(calls.pid).result()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_VARIABLE", "of the caller")
    argv, path, directory, environment = executor.submit(calls.surroundings).result()
    assert argv == sys.argv
    assert path == sys.path
    assert directory == str(tmp_path)
    assert environment.items() >= dict(os.environ).items()


def test_calls_nest(executor: regrow.Executor) -> None:
    assert executor.submit(calls.nested, 1).result() == 2


def test_what_a_call_prints_is_there_with_its_result(capfd: pytest.CaptureFixture[str], executor: regrow.Executor) -> None:
    executor.submit(calls.print_and_return, "printed").result()
    assert capfd.readouterr().out == "printed\n"


def test_shutdown_waits_and_then_nothing_is_taken() -> None:
    executor = regrow.Executor(1)
    first, second = executor.submit(calls.sleep, 0.2), executor.submit(calls.add, 1)
    executor.shutdown()
    assert (first.done(), second.done()) == (True, True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(calls.add, 1)


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_shutdown_in_a_callback_says_that_it_cannot_wait(tmp_path: Path, is_waited_for: bool) -> None:
    executor = regrow.Executor(1)
    future = executor.submit(calls.wait_for, str(tmp_path / "end"))
    told: queue.Queue[str] = queue.Queue()

    def close(_: object) -> None:
        try:
            executor.shutdown(wait=True)
        except RuntimeError as error:
            told.put(str(error))

    def let_end() -> None:
        # The main thread waits for the call by then, or is about to.
        time.sleep(0.1)
        (tmp_path / "end").touch()

    future.add_done_callback(close)
    if is_waited_for:
        threading.Thread(target=let_end).start()
        assert future.result() == "waited"
    else:
        (tmp_path / "end").touch()
    assert told.get(timeout=60) == "cannot join current thread"
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(calls.add, 1)
    executor.shutdown()


def test_shutdown_in_the_callback_of_a_start_that_fails_says_that_it_cannot_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = regrow.Executor(1)
    executor.submit(calls.add, 1).result()
    told: list[str] = []
    set_outcome = regrow._call.future.Future.set_outcome

    class Closed:
        """Something whose descriptor is not open."""

        def fileno(self) -> int:
            return 1_000_000

    def watched(future: regrow._call.future.Future[int], value: Any, error: Optional[BaseException]) -> None:
        future.add_done_callback(close)
        set_outcome(future, value, error)

    def close(_: object) -> None:
        try:
            executor.shutdown(wait=True)
        except RuntimeError as error:
            told.append(str(error))

    monkeypatch.setattr(regrow._call.future.Future, "set_outcome", watched)
    order, _ = regrow._call.order.order_with_buffers(calls.add, (1,), {})
    with pytest.raises(OSError, match="Bad file descriptor"):
        executor._calls.submit(calls.add, order, [Closed()]).result()
    assert told == ["cannot join current thread"]


def test_shutdown_in_the_callback_of_a_cancelled_call_waits() -> None:
    executor = regrow.Executor(1)
    future = executor.submit(calls.sleep, 600)
    start = time.monotonic()
    future.add_done_callback(lambda _: executor.shutdown(wait=True))
    assert future.cancel()
    assert time.monotonic() - start < 500


@pytest.mark.parametrize("look", ["done", "wait", "as_completed", "callback", "exception"])
def test_a_call_goes_on_whatever_way_its_future_is_looked_at(executor: regrow.Executor, look: str) -> None:
    over = threading.Event()
    future = executor.submit(calls.add, 1)
    if look == "callback":
        future.add_done_callback(lambda _: over.set())
        assert over.wait(60)
    elif look == "wait":
        assert not concurrent.futures.wait([future], timeout=60).not_done
    elif look == "as_completed":
        futures: list[concurrent.futures.Future[int]] = [future]
        assert list(concurrent.futures.as_completed(futures, timeout=60)) == futures
    elif look == "exception":
        assert future.exception(60) is None
    end = time.monotonic() + 60
    while not future.done() and time.monotonic() < end:
        time.sleep(0.001)
    assert future.result(0) == calls.add(1)


def test_calls_that_nobody_looks_at_end_and_give_their_slots_to_others(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(5)]
    with regrow.Executor(1) as executor:
        for path in paths:
            executor.submit(path.write_text, "x")
    assert all(path.read_text() == "x" for path in paths)


def test_no_thread_is_started_for_calls_whose_results_are_asked_for() -> None:
    before = threading.active_count()
    with regrow.Executor(2) as executor:
        for number in range(5):
            assert executor.submit(calls.add, number).result() == calls.add(number)
        assert threading.active_count() == before


def test_shutdown_waits_for_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    poll = regrow._call.calls._poll

    def slow(calls: regrow._call.calls.Calls, core: regrow._core.Calls) -> None:
        poll(calls, core)
        time.sleep(0.3)

    monkeypatch.setattr(regrow._call.calls, "_poll", slow)
    before = set(threading.enumerate())
    executor = regrow.Executor(1)
    # Who waits for a future in another way than by its result has the thread do so.
    assert not concurrent.futures.wait([executor.submit(calls.add, 1)]).not_done
    assert set(threading.enumerate()) > before
    executor.shutdown()
    assert set(threading.enumerate()) == before


def test_shutdown_can_cancel_what_waits(tmp_path: Path) -> None:
    executor = regrow.Executor(1)
    running, waiting = executor.submit(calls.wait_for, str(tmp_path / "end")), executor.submit(calls.add, 1)
    # The running call is waited for: it ends when the waiting one has been cancelled.
    waiting.add_done_callback(lambda _: (tmp_path / "end").touch())
    executor.shutdown(cancel_futures=True)
    assert running.result() == "waited"
    assert waiting.cancelled()


@pytest.mark.parametrize(
    "wrong",
    [{"max_workers": 0}, {"timeout": -1.0}, {"memory_limit": 0}, {"preload": ["not a name"]}, {"reuse": ""}],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must be greater than 0|not the name of a module|reuse is"):
        regrow.Executor(**wrong)  # type: ignore[arg-type]


def test_a_string_is_no_list_of_modules() -> None:
    with pytest.raises(TypeError):
        regrow.Executor(preload="json")
    with pytest.raises(TypeError):
        regrow.Executor(initializer=3)  # type: ignore[arg-type]


def test_files_that_modules_hold_open_are_opened_anew_for_each_call() -> None:
    with open(held_open.__file__, "rb") as file:
        begin = file.read(20)
    with regrow.Executor(2, preload=["held_open"]) as executor:
        for turn in range(6):
            future = executor.submit(held_open.read_both, 20)
            numbers, read, inheritable, following = future.result()
            assert future.creation is not None
            assert future.creation.endswith("at warm")
            # Whatever the calls before have done with them.
            assert read == [begin, begin], turn
            assert inheritable == [False, True]
            # They are out of the way of what a caller passes, and of what a call opens.
            assert min(numbers) >= 250 > following
            executor.submit(held_open.close_both).result()


def test_an_interrupt_while_an_answer_is_loaded_is_the_caller_s(executor: regrow.Executor) -> None:
    calls.LOADED.clear()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        future = executor.submit(calls.interrupting_once)
        with pytest.raises(KeyboardInterrupt):
            future.result()
        loaded: object = future.result()
        assert loaded == "loaded"
    finally:
        signal.signal(signal.SIGINT, before)
    # Another thread has loaded it again.
    assert calls.LOADED == [True, False]


def test_what_is_submitted_after_shutdown_leaves_nothing() -> None:
    executor = regrow.Executor(1)
    executor.submit(calls.pid).result()
    executor.shutdown()
    for _ in range(10):
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(calls.add, 1)
    kept = weakref.ref(executor._calls)
    del executor
    gc.collect()
    assert kept() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_hook_that_raises_does_not_end_the_polling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def hook(_: object) -> None:
        raise RuntimeError("a hook that fails")

    def leave(_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr(threading, "excepthook", hook)
    with regrow.Executor(1) as executor:
        first = executor.submit(calls.sleep, 0.1)
        first.add_done_callback(leave)
        assert not concurrent.futures.wait([first]).not_done
        second = [executor.submit(calls.sleep, 0.01) for _ in range(3)]
        assert not concurrent.futures.wait(second, timeout=60).not_done


def test_the_polling_thread_serves_calls_without_a_descriptor() -> None:
    script = (
        "import os, resource, threading, time, regrow, calls\n"
        "if __name__ == '__main__':\n"
        "    executor = regrow.Executor(1)\n"
        "    executor.submit(calls.pid).result()\n"
        "    future = executor.submit(calls.sleep, 0.2)\n"
        "    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))\n"
        "    over, raised = threading.Event(), []\n"
        "    threading.excepthook = raised.append\n"
        "    future.add_done_callback(lambda _: over.set())\n"
        "    print(over.wait(30), raised)\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))\n"
        "    print(executor.submit(calls.add, 1, 2).result())\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("True []\n3\n", 0), done.stderr


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.2])
def test_a_program_ends_while_its_threads_are_in_calls(after_s: float, script: Script) -> None:
    text = textwrap.dedent(
        """
        import sys, threading, time
        import regrow

        def go(call):
            while True:
                call()

        if __name__ == "__main__":
            executor = regrow.Executor(preload=["json"])
            calls = [lambda: executor.submit(pow, 2, 3).result()] * 3 + [lambda: regrow.run("pass")]
            first = executor.submit(pow, 2, 3)
            assert (first.result(), first.creation.endswith("at warm")) == (8, True), first.creation
            for call in calls:
                threading.Thread(target=go, args=(call,), daemon=True).start()
            time.sleep(float(sys.argv[1]))
            print("over")
        """
    )
    done = script(text, str(after_s))
    # Standard error may have what the threads say: that the executor is closed.
    assert (done.returncode, done.stdout) == (0, "over\n"), done.stderr
