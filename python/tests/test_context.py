"""The context of `multiprocessing`: what a program does with one of the standard library's, it does with this one."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing.connection
import os
import signal
import time
from pathlib import Path

import pytest

import calls
import regrow

context = regrow.get_context()


class Subclass(context.Process):  # type: ignore[name-defined, misc]
    """A process with a `run` of its own."""

    def __init__(self, queue: object) -> None:
        super().__init__(name="of its own")
        self.queue = queue

    def run(self) -> None:
        """Says its name."""
        calls.put(self.queue, (self.name, os.getpid()))


def files_of_orders() -> int:
    """How many files there are through which processes are told what to do."""
    found = 0
    for number in os.listdir("/proc/self/fd"):
        # The descriptor that lists them is closed by now.
        with contextlib.suppress(FileNotFoundError):
            found += "regrow-call" in os.readlink(f"/proc/self/fd/{number}")
    return found


def test_a_process_is_told_what_to_do_without_a_file(tmp_path: Path) -> None:
    before = files_of_orders()
    process = context.Process(target=calls.wait_for, args=(str(tmp_path / "end"),))
    process.start()
    assert files_of_orders() == before
    (tmp_path / "end").touch()
    process.join()
    assert process.exitcode == 0


def test_a_process_runs_and_ends() -> None:
    process = context.Process(target=calls.exit_with, args=(5,))
    process.start()
    assert process.is_alive()
    process.join()
    assert (process.exitcode, process.is_alive()) == (5, False)
    process.close()


def test_a_process_that_is_closed_holds_no_descriptor() -> None:
    process = context.Process(target=calls.exit_with, args=(0,))
    process.start()
    popen, sentinel = vars(process)["_popen"], process.sentinel
    process.join()
    info = Path(f"/proc/self/fdinfo/{sentinel}")
    # A pidfd of a process that has been waited for.
    assert "Pid:\t-1\n" in info.read_text()
    process.close()
    assert popen is not None
    # Something else may have the number by now.
    with contextlib.suppress(FileNotFoundError):
        assert "Pid:\t-1\n" not in info.read_text()


def test_a_queue_brings_values() -> None:
    queue = context.Queue()
    processes = [context.Process(target=calls.put, args=(queue, number)) for number in range(3)]
    for process in processes:
        process.start()
    assert sorted(queue.get(timeout=60) for _ in processes) == [0, 1, 2]
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_a_subclass_of_process_works() -> None:
    queue = context.SimpleQueue()
    process = Subclass(queue)
    process.start()
    assert queue.get() == ("of its own", process.pid)
    process.join()


def test_a_pipe_has_two_ends() -> None:
    ours, theirs = context.Pipe()
    process = context.Process(target=calls.answer, args=(theirs,))
    process.start()
    theirs.close()
    ours.send(21)
    assert ours.recv() == 42
    process.join()
    with pytest.raises(EOFError):
        ours.recv()


def test_locks_and_values_are_shared() -> None:
    lock, number = context.Lock(), context.Value("i", 0)
    processes = [context.Process(target=calls.count_up, args=(lock, number, 50)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert number.value == 150


def test_an_event_wakes() -> None:
    event = context.Event()
    process = context.Process(target=calls.set_event, args=(event,))
    process.start()
    assert event.wait(60)
    process.join()


def test_a_pool_maps() -> None:
    with context.Pool(2) as pool:
        assert pool.map(calls.add, range(20)) == list(range(20))
        assert pool.apply(calls.add, (1, 2)) == 3
        with pytest.raises(calls.CustomError):
            pool.apply(calls.raise_custom)


def test_a_pool_replaces_processes_that_have_done_their_part() -> None:
    with context.Pool(1, maxtasksperchild=1) as pool:
        assert len({pool.apply(calls.pid) for _ in range(3)}) == 3


def test_a_manager_serves() -> None:
    with context.Manager() as manager:
        shared = manager.dict(one=1)
        process = context.Process(target=shared.update, args=({"two": 2},))
        process.start()
        process.join()
        assert dict(shared) == {"one": 1, "two": 2}
        with regrow.Executor(1) as executor:
            assert executor.submit(dict, shared).result() == {"one": 1, "two": 2}


def test_the_executor_of_the_standard_library_takes_the_context() -> None:
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        assert executor.submit(calls.add, 1, 2).result() == 3


def test_signals_end_a_process() -> None:
    event = context.Event()
    process = context.Process(target=calls.ignore_termination, args=(event,))
    process.start()
    assert event.wait(60)
    process.terminate()
    process.join(0.3)
    assert process.exitcode is None
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def test_a_sentinel_tells_of_the_end() -> None:
    process = context.Process(target=time.sleep, args=(0.2,))
    process.start()
    assert multiprocessing.connection.wait([process.sentinel], timeout=60) == [process.sentinel]
    process.join()
    assert process.exitcode == 0


def test_a_daemon_ends_with_its_parent(tmp_path: Path) -> None:
    process = context.Process(target=calls.touch_and_sleep, args=(str(tmp_path / "x"), 60), daemon=True)
    process.start()
    assert process.daemon
    process.terminate()
    process.join()
    assert process.exitcode == -signal.SIGTERM


def test_modules_are_preloaded() -> None:
    with_modules = regrow.get_context(preload=["colorsys"])
    queue = with_modules.Queue()
    process = with_modules.Process(target=calls.put, args=(queue, "there"))
    process.start()
    assert queue.get(timeout=60) == "there"
    process.join()


def test_a_module_that_is_not_there_is_an_exit_status(capfd: pytest.CaptureFixture[str]) -> None:
    process = regrow.get_context(preload=["no_such_module"]).Process(target=calls.pid)
    process.start()
    process.join()
    assert process.exitcode == 1
    assert "No module named 'no_such_module'" in capfd.readouterr().err


def test_an_exception_is_an_exit_status(capfd: pytest.CaptureFixture[str]) -> None:
    process = context.Process(target=calls.raise_custom)
    process.start()
    process.join()
    assert process.exitcode == 1
    assert "in raise_custom" in capfd.readouterr().err
