"""The executors that stand in the place of others: `ProcessPoolExecutor`, and loky's `get_reusable_executor`."""

from __future__ import annotations

import concurrent.futures
import contextlib
import inspect
import multiprocessing
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest

import calls
import drop_in_calls
import regrow
from conftest import Script

cloudpickle = pytest.importorskip("cloudpickle")


def creations(futures: list[Any]) -> set[str]:
    """How the processes were made, without where from: a body that is still clean counts as one that is used again."""
    return {future.creation.rpartition(" at ")[2] for future in futures}


# ProcessPoolExecutor.


def test_the_arguments_are_those_of_the_standard_library() -> None:
    theirs = inspect.signature(concurrent.futures.ProcessPoolExecutor.__init__).parameters
    ours = inspect.signature(regrow.ProcessPoolExecutor.__init__).parameters
    assert [name for name in ours if name in theirs] == list(theirs)
    for name, parameter in theirs.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default), name


def test_changing_the_import_is_enough(script: Script) -> None:
    text = (
        "import os\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "def square(number):\n"
        "    return number * number, os.getpid()\n"
        "if __name__ == '__main__':\n"
        "    with ProcessPoolExecutor(max_workers=2) as executor:\n"
        "        pairs = list(executor.map(square, range(40), chunksize=5))\n"
        "    print(sum(value for value, _ in pairs), len({pid for _, pid in pairs}))\n"
    )
    theirs = script(text)
    ours = script(text.replace("from concurrent.futures import", "from regrow import"))
    assert theirs.stdout.split()[0] == ours.stdout.split()[0] == "20540", ours.stderr
    # One of their workers is at times quick enough for all chunks.
    assert int(theirs.stdout.split()[1]) <= 2
    assert int(ours.stdout.split()[1]) == 40


@pytest.mark.parametrize(("most", "method"), [(None, None), (1, "fork"), (7, "spawn"), (None, "regrow")])
def test_every_call_has_a_fresh_process_whatever_is_asked_for(most: int | None, method: str | None) -> None:
    context = regrow.get_context() if method == "regrow" else method and multiprocessing.get_context(method)
    with regrow.ProcessPoolExecutor(2, context or None, max_tasks_per_child=most) as executor:
        futures = [executor.submit(calls.remember, number) for number in range(4)]
        assert [future.result() for future in futures] == [[0], [1], [2], [3]]
    assert creations(futures) == {"warm"}


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="max_tasks_per_child must be an integer"):
        regrow.ProcessPoolExecutor(max_tasks_per_child="3")  # type: ignore[arg-type]
    for number in (0, -1):
        with pytest.raises(ValueError, match="max_tasks_per_child must be >= 1"):
            regrow.ProcessPoolExecutor(max_tasks_per_child=number)
        with pytest.raises(ValueError, match="max_workers must be greater than 0"):
            regrow.ProcessPoolExecutor(number)
    with pytest.raises(TypeError, match="initializer must be callable"):
        regrow.ProcessPoolExecutor(initializer="f")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="mp_context must be a context"):
        regrow.ProcessPoolExecutor(mp_context="spawn")  # type: ignore[arg-type]


def test_our_own_arguments_work() -> None:
    with regrow.ProcessPoolExecutor(1, preload=["colorsys"], memory_limit=300 << 20, reuse="never") as executor:
        assert "colorsys" in executor.submit(calls.modules).result()
        assert isinstance(executor.submit(calls.allocate, 600 << 20).exception(), MemoryError)
    with regrow.ProcessPoolExecutor(1, timeout=1.0) as executor:
        assert isinstance(executor.submit(calls.sleep, 60).exception(), TimeoutError)


def test_what_an_initializer_does_to_the_memory_is_done_once(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    with regrow.ProcessPoolExecutor(2, initializer=drop_in_calls.note_and_hold, initargs=(str(notes), [1])) as executor:
        futures = [executor.submit(drop_in_calls.held, "value") for _ in range(6)]
        assert [future.result() for future in futures] == [[1]] * 6
    assert creations(futures) == {"warm"}
    # The image is made a second time where a file that it has read was written right before (a module was compiled).
    assert 1 <= len(notes.read_text().splitlines()) <= 2


def test_a_database_that_an_initializer_opens_is_each_process_s_own(tmp_path: Path) -> None:
    path, notes = tmp_path / "data", tmp_path / "notes"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE numbers (number)")
    with regrow.ProcessPoolExecutor(2, initializer=drop_in_calls.connect, initargs=(str(path), str(notes))) as executor:
        futures = [executor.submit(drop_in_calls.insert, number) for number in range(5)]
        pids = {future.result() for future in futures}
    assert database.execute("SELECT number FROM numbers ORDER BY number").fetchall() == [(n,) for n in range(5)]
    # No image holds the connection: each process of a call has called the initializer, beside the one that was refused.
    assert "warm" not in creations(futures)
    assert len(pids) == 5
    assert pids < {int(line) for line in notes.read_text().split()}
    database.close()


def test_a_thread_that_an_initializer_starts_runs_in_every_process() -> None:
    with regrow.ProcessPoolExecutor(2, initializer=drop_in_calls.start_thread) as executor:
        futures = [executor.submit(drop_in_calls.thread_is_alive) for _ in range(3)]
        assert [future.result() for future in futures] == [True] * 3
    assert "warm" not in creations(futures)


def test_what_an_initializer_changes_of_its_process_is_changed_in_every_process(tmp_path: Path) -> None:
    expected = (os.nice(0) + 3, 0o077, str(tmp_path), (0, 0), True)
    with regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.change_process, initargs=(str(tmp_path),)) as executor:
        assert [executor.submit(drop_in_calls.process_has_changed).result() for _ in range(2)] == [expected] * 2


def test_a_folder_that_an_initializer_makes_is_there_for_every_call() -> None:
    with regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.make_folder) as executor:
        folders = [executor.submit(drop_in_calls.folder_exists).result() for _ in range(3)]
    assert [exists for _, exists in folders] == [True] * 3
    assert len({name for name, _ in folders}) == 3
    assert not any(os.path.exists(name) for name, _ in folders)


@pytest.mark.parametrize("make", [regrow.get_context, lambda: multiprocessing.get_context("spawn")], ids=["regrow", "spawn"])
def test_locks_and_queues_reach_the_initializer(make: Callable[[], Any]) -> None:
    context = make()
    lock, queue, total = context.Lock(), context.Queue(), context.Value("i", 0, lock=False)
    with regrow.ProcessPoolExecutor(4, initializer=drop_in_calls.share, initargs=(lock, queue, total)) as executor:
        futures = [executor.submit(drop_in_calls.add_up, number) for number in range(40)]
        assert len({future.result() for future in futures}) == 40
    assert total.value == sum(range(40))
    assert sorted(queue.get(timeout=30) for _ in range(40)) == list(range(40))
    assert creations(futures) == {"warm"}


def test_pipes_and_managers_reach_the_initializer() -> None:
    ours, theirs = multiprocessing.Pipe()
    with regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.receive_from, initargs=(theirs,)) as executor:
        executor.submit(drop_in_calls.send_back, 1).result()
        # The executor holds a copy of its own.
        theirs.close()
        executor.submit(drop_in_calls.send_back, 2).result()
        assert [ours.recv(), ours.recv()] == [1, 2]
    with multiprocessing.Manager() as manager:
        queue = manager.Queue()
        with regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.hold, initargs=("queue", queue)) as executor:
            executor.submit(drop_in_calls.put_held, "value").result()
        assert queue.get(timeout=30) == "value"


def test_a_lock_that_only_a_forked_process_can_have_is_refused() -> None:
    lock = multiprocessing.get_context("fork").Lock()
    executor = regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.hold, initargs=("lock", lock))
    with executor, pytest.raises(RuntimeError, match=r"make it with regrow\.get_context"):
        executor.submit(calls.pid).result()


@pytest.mark.parametrize("shares", [False, True])
def test_an_initializer_that_fails_breaks_its_calls(shares: bool) -> None:
    given: dict[str, Any] = {"initializer": drop_in_calls.fail}
    if shares:
        given = {"initializer": drop_in_calls.fail_with, "initargs": (regrow.get_context().Lock(),)}
    with regrow.ProcessPoolExecutor(1, **given) as executor:
        for _ in range(2):
            with pytest.raises(BrokenProcessPool) as caught:
                executor.submit(calls.pid).result()
            text = f"{caught.value.__cause__!r} {caught.value.__cause__}"
            assert "no initializer today" in text


def test_a_task_that_dies_is_its_own_error() -> None:
    with regrow.ProcessPoolExecutor(2) as executor:
        functions: list[Any] = [calls.leave_at_once if number % 3 else calls.add for number in range(12)]
        futures: list[Any] = [executor.submit(function, number) for number, function in enumerate(functions)]
        for number, future in enumerate(futures):
            assert isinstance(future.exception(), BrokenProcessPool if number % 3 else type(None))
        assert executor.submit(calls.add, 1).result() == 1


@pytest.mark.parametrize("asks", [True, False])
def test_workers_can_be_ended(tmp_path: Path, asks: bool) -> None:
    executor = regrow.ProcessPoolExecutor(2)
    paths = [tmp_path / str(number) for number in range(2)]
    running = [executor.submit(drop_in_calls.touch_and_wait, str(path)) for path in paths]
    waiting = [executor.submit(calls.pid) for _ in range(3)]
    end = time.monotonic() + 60
    while not all(path.exists() for path in paths) and time.monotonic() < end:
        time.sleep(0.01)
    if asks:
        executor.terminate_workers()
        assert [future.result() for future in running] == ["told"] * 2
    else:
        executor.kill_workers()
        assert all(isinstance(future.exception(), BrokenProcessPool) for future in running)
    assert [Path(f"{path}.terminated").exists() for path in paths] == [asks] * 2
    assert all(future.cancelled() for future in waiting)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(calls.pid)
    executor.shutdown()


def submit_if_it_is_open(executor: regrow.ProcessPoolExecutor) -> None:
    with contextlib.suppress(RuntimeError):
        executor.submit(calls.sleep, 600)


def test_workers_that_are_being_started_are_ended_too() -> None:
    executors = [regrow.ProcessPoolExecutor(2) for _ in range(6)]
    futures = []
    for executor in executors:
        futures += [executor.submit(calls.sleep, 600) for _ in range(4)]
        thread = threading.Thread(target=submit_if_it_is_open, args=(executor,))
        thread.start()
        executor.kill_workers()
        thread.join()
    assert not concurrent.futures.wait(futures, 60).not_done
    for executor in executors:
        executor.kill_workers()
        executor.shutdown()


def test_a_forked_copy_has_the_executor_as_its_own(script: Script) -> None:
    done = script(
        "import os, regrow, drop_in_calls, signal\n"
        "if __name__ == '__main__':\n"
        "    context = regrow.get_context()\n"
        "    total, lock, queue = context.Value('i', 0, lock=False), context.Lock(), context.Queue()\n"
        "    with regrow.ProcessPoolExecutor(1, initializer=drop_in_calls.share, initargs=(lock, queue, total)) as executor:\n"
        "        executor.submit(drop_in_calls.add_up, 1).result()\n"
        "        child = os.fork()\n"
        "        executor.submit(drop_in_calls.add_up, 10).result()\n"
        "        if child == 0:\n"
        "            os._exit(0)\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "    print(total.value)\n"
    )
    # Python warns of the fork, since there may be threads.
    assert (done.stdout, done.returncode) == ("21\n", 0), done.stderr


# get_reusable_executor.


@pytest.fixture
def reusable() -> Iterator[Callable[..., regrow.ReusableExecutor]]:
    """`get_reusable_executor` for one test, which finds none."""
    regrow.get_reusable_executor().shutdown()
    yield regrow.get_reusable_executor
    regrow.get_reusable_executor(reuse=True).shutdown(kill_workers=True)


def test_it_is_the_same_executor_until_something_differs(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    first = reusable(2)
    assert reusable(2) is first
    assert reusable(3) is first
    assert reusable(reuse=True) is first
    assert reusable(2, reuse=True, env={"A": "1"}) is first
    second = reusable(2, env={"A": "1"})
    assert second is not first
    with pytest.raises(RuntimeError, match="after shutdown"):
        first.submit(calls.pid)
    assert reusable(2, env={"A": "1"}) is second
    assert reusable(2, env={"A": "1"}, reuse=False) is not second
    third = reusable(2)
    third.shutdown()
    assert reusable(2) is not third


def test_every_thread_has_its_own(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    mine = reusable(2)
    found: list[regrow.ReusableExecutor] = []

    def use() -> None:
        found.append(reusable(2))
        assert reusable(2) is found[-1]
        assert found[-1].submit(calls.add, 1).result() == 1

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(executor) for executor in [mine, *found]}) == 4


def test_it_is_resized(reusable: Callable[..., regrow.ReusableExecutor], tmp_path: Path) -> None:
    executor = reusable(1)
    first = executor.submit(calls.wait_for, str(tmp_path / "end"))
    second = executor.submit(calls.wait_for, str(tmp_path / "end"))
    assert (first.running(), second.running()) == (True, False)
    # The calls that run are not waited for.
    assert reusable(2) is executor
    assert second.running()
    assert reusable(1) is executor
    third = executor.submit(calls.pid)
    assert not third.running()
    (tmp_path / "end").touch()
    assert [first.result(), second.result()] == ["waited"] * 2
    assert third.result() > 0


def test_killing_ends_what_runs(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    futures = [reusable(2).submit(calls.sleep, 600) for _ in range(4)]
    assert reusable(2, timeout=3, kill_workers=True).submit(calls.add, 2).result() == 2
    assert not concurrent.futures.wait(futures, 60).not_done
    assert [future.cancelled() for future in futures] == [False, False, True, True]
    assert all(isinstance(future.exception(), BrokenProcessPool) for future in futures[:2])


def test_what_loky_refuses_is_refused(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    for number in (0, -1):
        with pytest.raises(ValueError, match="max_workers must be greater than 0"):
            reusable(number)
    bad: list[Any] = ["fork", multiprocessing.get_context("fork"), "no such method"]
    for context in bad:
        with pytest.raises(ValueError, match="context"):
            reusable(2, context=context)
    good: list[Any] = ["loky", "spawn", multiprocessing.get_context("spawn"), regrow.get_context()]
    for context in good:
        assert reusable(2, context=context).submit(calls.add, 1).result() == 1


def test_lambdas_closures_and_their_values_travel(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    class OwnError(Exception):
        pass

    def fail() -> None:
        raise OwnError("from there")

    offset = 10
    futures = [reusable(2).submit(lambda number: number + offset, number) for number in range(8)]
    assert [future.result() for future in futures] == list(range(10, 18))
    assert creations(futures) == {"warm"}
    assert reusable(2).submit(lambda: lambda: offset).result()() == 10
    with pytest.raises(OwnError, match="from there") as caught:
        reusable(2).submit(fail).result()
    assert "in fail" in str(caught.value.__cause__)


def test_without_cloudpickle_it_takes_what_pickle_takes(
    reusable: Callable[..., regrow.ReusableExecutor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regrow._cloud, "cloudpickle_name", lambda: None)
    executor = reusable(1, reuse=False)
    assert executor.submit(calls.add, 1, two=2).result() == 3
    with pytest.raises(Exception, match="pickle"):
        executor.submit(lambda: 1).result()


def test_a_program_needs_no_guard(script: Script) -> None:
    done = script(
        "import os, regrow\n"
        "def double(number):\n"
        "    return 2 * number\n"
        "executor = regrow.get_reusable_executor(max_workers=2)\n"
        "print(list(executor.map(double, range(5))))\n"
    )
    assert (done.stdout, done.stderr) == ("[0, 2, 4, 6, 8]\n", "")


def test_variables_are_set_before_modules_are_imported(
    reusable: Callable[..., regrow.ReusableExecutor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reads_a_variable.py").write_text("import os\nVALUE = os.environ.get('READ_AT_IMPORT')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import reads_a_variable  # type: ignore[import-not-found]

    executor = reusable(1, env={"READ_AT_IMPORT": "early", "A_NUMBER": 3})

    def look() -> tuple[object, object]:
        return reads_a_variable.VALUE, os.environ["A_NUMBER"]

    futures = [executor.submit(look) for _ in range(3)]
    assert [future.result() for future in futures] == [("early", "3")] * 3
    assert creations(futures) == {"warm"}
    del sys.modules["reads_a_variable"]


def test_the_image_has_the_modules_that_calls_need(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    import colorsys
    import fractions

    executor = reusable(1)

    def use() -> tuple[float, bool]:
        """Whether a module was there before the function was loaded is told by its name: the pickle imports it otherwise."""
        return colorsys.rgb_to_hsv(1, 1, 1)[2], True

    assert executor.submit(use).result() == (1, True)
    assert "colorsys" in executor.submit(calls.modules).result()
    # A further module joins them.
    assert executor.submit(lambda: fractions.Fraction(1, 2)).result() == fractions.Fraction(1, 2)
    assert {"colorsys", "fractions"} <= executor.submit(calls.modules).result()


def test_reducers_are_asked_on_both_ways(reusable: Callable[..., regrow.ReusableExecutor]) -> None:
    executor = reusable(1, job_reducers={complex: lambda _: (int, ("5",))}, result_reducers={complex: lambda _: (str, ("r",))})
    assert executor.submit(lambda value: value + 1, 3j).result() == 6
    result: object = executor.submit(lambda: complex("3j")).result()
    assert result == "r"
