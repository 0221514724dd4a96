"""The backend of joblib: every task in a fresh process, large arrays mapped, and what joblib promises of any backend."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

joblib = pytest.importorskip("joblib")
np = pytest.importorskip("numpy")

from joblib import Parallel, delayed  # noqa: E402

import joblib_calls  # noqa: E402
import regrow  # noqa: E402
import regrow.joblib  # noqa: E402
from conftest import Script  # noqa: E402
from regrow._reusable import ReusableExecutor  # noqa: E402

MIB = 1 << 20


@pytest.fixture(autouse=True)
def futures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The futures of all tasks; the backend is that of the test."""
    made: list[Any] = []
    submit = ReusableExecutor.submit

    def noted(self: ReusableExecutor, *args: Any, **kwargs: Any) -> Any:
        made.append(submit(self, *args, **kwargs))
        return made[-1]

    monkeypatch.setattr(ReusableExecutor, "submit", noted)
    with joblib.parallel_config(backend="regrow", n_jobs=2):
        yield made


def are_recycled(futures: list[Any]) -> bool:
    return {future.creation.rpartition(" at ")[2] for future in futures} == {"warm"}


def test_every_task_has_a_fresh_process(futures: list[Any]) -> None:
    pairs = Parallel()(delayed(joblib_calls.square)(number) for number in range(30))
    assert [value for value, _ in pairs] == [number * number for number in range(30)]
    assert len({pid for _, pid in pairs} - {os.getpid()}) == 30
    assert Parallel()(delayed(joblib_calls.remember)(number) for number in range(3)) == [[0], [1], [2]]
    assert are_recycled(futures)


def test_tasks_of_a_batch_share_a_process_where_that_is_asked_for() -> None:
    pairs = Parallel(batch_size=5, pre_dispatch="all")(delayed(joblib_calls.square)(number) for number in range(20))
    assert len({pid for _, pid in pairs}) == 4


def last_pool() -> object:
    """The pool of the image that was used last."""
    starter = list(regrow.joblib._preparations.values())[-1].starter
    assert starter is not None
    return starter.pool


def test_later_loops_use_the_same_image(futures: list[Any]) -> None:
    Parallel()(delayed(joblib_calls.square)(number) for number in range(2))
    pool = last_pool()
    for _ in range(3):
        Parallel()(delayed(joblib_calls.square)(number) for number in range(2))
    assert last_pool() is pool
    assert are_recycled(futures)


def test_lambdas_and_closures_are_tasks() -> None:
    offset = 3
    assert Parallel()(delayed(lambda number: number + offset)(number) for number in range(4)) == [3, 4, 5, 6]


def test_a_large_array_is_mapped_and_not_copied(futures: list[Any]) -> None:
    array = np.ones(100 * MIB // 8)
    before = in_memory()
    found = Parallel()(delayed(joblib_calls.facts)(array) for _ in range(6))
    assert {(total, writeable) for total, writeable, _, _ in found} == {(float(len(array)), False)}
    assert max(own for *_, own in found) < 64 * 1024
    assert are_recycled(futures)
    # No file is left of it.
    assert in_memory() - before == set()
    assert not [number for number in os.listdir("/proc/self/fd") if "regrow-array" in target_of(number)]


def in_memory() -> set[str]:
    """The files in shared memory, without the semaphores of other programs."""
    return {name for name in os.listdir("/dev/shm") if not name.startswith("sem.")}


def target_of(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except FileNotFoundError:
        return ""


def test_a_large_array_can_be_copied() -> None:
    array = np.ones(100 * MIB // 8)
    ((total, writeable, _, own), _) = Parallel(max_nbytes=None)(delayed(joblib_calls.facts)(array) for _ in range(2))
    assert (total, writeable) == (float(len(array)), True)
    assert own > 100 * 1024


def test_arrays_of_every_shape_arrive() -> None:
    base = np.arange(3 * MIB, dtype="f8").reshape(1024, -1)
    arrays = [
        base,
        np.asfortranarray(base),
        base[::2, 1::3],
        base[::-1],
        base.T[5:],
        base.astype("f4"),
        base.view([("left", "f8"), ("right", "f8")]),
        np.array([[str(number)] for number in range(200_000)], dtype=object),
        np.ones((0, 5)),
        np.float64(3.0),
        np.ma.masked_greater(base, 7.0),
    ]
    for array, copy in zip(arrays, Parallel()(delayed(np.array)(array, subok=True) for array in arrays)):
        assert (copy.dtype, copy.shape) == (array.dtype, array.shape)
        assert np.array_equal(np.asarray(copy), np.asarray(array))
    facts = Parallel()(delayed(joblib_calls.facts)(array) for array in arrays[:2])
    assert [order for _, _, order, _ in facts] == ["C", "F"]


def test_an_array_that_stands_twice_in_a_call_is_written_once() -> None:
    array = np.ones(2 * MIB)
    assert Parallel()(delayed(joblib_calls.is_one)(array, array) for _ in range(2)) == [True, True]


def test_an_array_that_changes_between_two_loops_is_the_changed_one() -> None:
    array = np.ones(MIB)
    with Parallel() as parallel:
        for factor in (1, 2):
            array[:] = factor
            assert parallel(delayed(np.sum)(array) for _ in range(2)) == [factor * MIB] * 2


@pytest.mark.parametrize(("mode", "seen"), [("c", [7.0, 7.0]), ("r+", [7.0, 7.0])])
def test_a_mapped_array_can_be_written_to(mode: str, seen: list[float]) -> None:
    array = np.ones(MIB)
    assert Parallel(mmap_mode=mode)(delayed(joblib_calls.write)(array, index) for index in range(2)) == seen
    assert array.sum() == MIB
    with pytest.raises(ValueError, match="read-only"):
        Parallel()(delayed(joblib_calls.write)(array, index) for index in range(2))


def test_a_mapped_file_is_mapped_again(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    mapped = np.memmap(path, "f8", "w+", shape=(1000, 10))
    mapped[:] = np.arange(10_000).reshape(1000, 10)
    parts = [mapped, mapped[10:20], mapped[::3, 2], mapped.T, mapped[5]]
    sums = Parallel(max_nbytes=None)(delayed(np.sum)(part) for part in parts)
    assert sums == [float(part.sum()) for part in parts]
    # What a task writes is in the file.
    Parallel(max_nbytes=None)(delayed(joblib_calls.write)(mapped[index], 0) for index in (3, 4))
    assert [mapped[3, 0], mapped[4, 0]] == [7.0, 7.0]
    (result, _) = Parallel()(delayed(joblib_calls.view)(mapped) for _ in range(2))
    assert np.array_equal(result, mapped[:3])
    # A file that is gone is copied.
    path.unlink()
    assert Parallel()(delayed(np.sum)(mapped) for _ in range(2)) == [float(mapped.sum())] * 2


def test_results_that_are_parts_of_arguments_arrive() -> None:
    array = np.arange(MIB, dtype="f8")
    for result in Parallel()(delayed(joblib_calls.view)(array) for _ in range(2)):
        assert result.tolist() == [0.0, 1.0, 2.0]
    (big, _) = Parallel()(delayed(joblib_calls.ones)(MIB) for _ in range(2))
    assert big.sum() == MIB


@pytest.mark.parametrize("backend", [None, "regrow"])
def test_loops_nest(backend: str | None) -> None:
    for values, pids, kinds in Parallel()(delayed(joblib_calls.nested)(size, backend) for size in (3, 4)):
        assert values == [number * number for number in range(len(values))]
        # Threads of the task, as with joblib's own backends, or processes where that is said.
        assert len(pids) == (1 if backend is None else len(values))
        assert kinds == {"DummyProcess" if backend is None else "_MainThread"}


def test_an_exception_has_the_traceback_of_the_task() -> None:
    with pytest.raises(KeyError) as caught:
        Parallel()(delayed(joblib_calls.fail_at)(number, 2) for number in range(20))
    assert caught.value.args == (2,)
    assert "in fail_at" in str(caught.value.__cause__)


def test_a_task_that_dies_is_an_exception() -> None:
    with pytest.raises(regrow.BrokenProcess, match="SIGABRT"):
        Parallel()(delayed(joblib_calls.die_at)(number, 2) for number in range(20))
    assert Parallel()(delayed(abs)(number) for number in (-1, -2)) == [1, 2]


def test_an_argument_that_cannot_be_pickled_is_an_exception() -> None:
    for bad in range(3):
        arguments: list[Any] = [0, 0, 0]
        arguments[bad] = threading.Lock()
        with pytest.raises(TypeError, match="pickle"):
            Parallel()(delayed(repr)(argument) for argument in arguments)


def gone(folder: Path) -> bool:
    """Whether all processes that have noted their number are gone, after a while."""
    end = time.monotonic() + 60
    while any(Path(f"/proc/{path.read_text()}").exists() for path in folder.iterdir() if path.read_text()):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_a_timeout_kills_the_tasks(tmp_path: Path) -> None:
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=2)(delayed(joblib_calls.note_and_sleep)(str(tmp_path), number, 600) for number in range(4))
    assert len(list(tmp_path.iterdir())) == 2
    assert gone(tmp_path)


def test_a_failure_kills_the_other_tasks(tmp_path: Path) -> None:
    def tasks() -> Iterator[Any]:
        yield delayed(joblib_calls.note_and_sleep)(str(tmp_path), 0, 600)
        yield delayed(joblib_calls.fail_at)(1, 1)

    with Parallel() as parallel:
        with pytest.raises(KeyError):
            parallel(tasks())
        assert gone(tmp_path)
        # It can be used again.
        assert parallel(delayed(abs)(number) for number in (-1, -2)) == [1, 2]


@pytest.mark.parametrize("kind", ["generator", "generator_unordered"])
def test_results_come_one_by_one(tmp_path: Path, kind: str) -> None:
    results = Parallel(return_as=kind)(delayed(joblib_calls.fail_at)(number, -1) for number in range(20))
    assert sorted(results) == list(range(20))
    # One that is left alone ends its tasks.
    sleeping = Parallel(return_as=kind)(delayed(joblib_calls.note_and_sleep)(str(tmp_path), n, 600) for n in range(4))
    end = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del sleeping
    assert gone(tmp_path)


def test_threads_of_libraries_are_limited() -> None:
    with joblib.parallel_config(backend="regrow", n_jobs=2, inner_max_num_threads=3):
        assert (
            Parallel()(delayed(joblib_calls.limits)() for _ in range(2))
            == [{"OMP_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "3"}] * 2
        )


def test_one_job_is_this_process() -> None:
    (pair, _) = Parallel(n_jobs=1)(delayed(joblib_calls.square)(number) for number in range(2))
    assert pair[1] == os.getpid()
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)(delayed(abs)(1) for _ in range(2))
    assert joblib.effective_n_jobs(-1) == joblib.cpu_count()


def test_a_killed_program_leaves_no_file(script: Script, tmp_path: Path) -> None:
    before = in_memory()
    done = script(
        "import os, signal, joblib, numpy, regrow.joblib\n"
        "array = numpy.ones(4 << 20)\n"
        "def use(array, number):\n"
        "    if number == 3:\n"
        "        os.kill(os.getppid(), signal.SIGKILL)\n"
        "    return array.sum()\n"
        "with joblib.parallel_config(backend='regrow', n_jobs=2):\n"
        "    joblib.Parallel()(joblib.delayed(use)(array, number) for number in range(20))\n"
    )
    assert done.returncode == -9
    assert in_memory() - before == set()


def test_an_interrupt_ends_the_tasks(script: Script, tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    done = script(
        "import os, signal, sys, threading, time, joblib, regrow.joblib, joblib_calls\n"
        "folder = sys.argv[1]\n"
        "def interrupt():\n"
        "    while len(os.listdir(folder)) < 2:\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "with joblib.parallel_config(backend='regrow', n_jobs=2):\n"
        "    try:\n"
        "        joblib.Parallel()(joblib.delayed(joblib_calls.note_and_sleep)(folder, n, 600) for n in range(4))\n"
        "    except KeyboardInterrupt:\n"
        "        print(joblib.Parallel()(joblib.delayed(abs)(n) for n in (-1, -2)))\n",
        str(folder),
    )
    assert done.stdout == "[1, 2]\n", done.stderr
    assert gone(folder)


def test_a_forked_copy_has_loops_of_its_own() -> None:
    Parallel()(delayed(abs)(number) for number in range(2))
    child = os.fork()
    if child == 0:
        is_right = Parallel()(delayed(abs)(number) for number in range(-3, 0)) == [3, 2, 1]
        os._exit(0 if is_right else 1)
    assert Parallel()(delayed(abs)(number) for number in range(-2, 0)) == [2, 1]
    assert os.waitpid(child, 0)[1] == 0


def test_a_task_may_have_more_arrays_than_it_may_have_descriptors() -> None:
    arrays = [np.full(200_000, number) for number in range(40)]
    assert Parallel()(delayed(joblib_calls.sums)(arrays) for _ in range(2)) == [[200_000 * n for n in range(40)]] * 2


def test_joblib_without_numpy_has_the_backend_too(script: Script) -> None:
    done = script(
        "import importlib.util, sys\n"
        "sys.modules['numpy'] = None\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'numpy' else find(name, *more)\n"
        "import joblib, regrow.joblib\n"
        "with joblib.parallel_config(backend='regrow', n_jobs=2):\n"
        "    print(joblib.Parallel()(joblib.delayed(abs)(number) for number in (-1, -2)))\n"
    )
    assert (done.stdout, done.stderr) == ("[1, 2]\n", "")


def test_scikit_learn_gives_what_it_gives_without(futures: list[Any]) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    data, target = datasets.load_iris(return_X_y=True)
    expected = cross_val_score(LogisticRegression(max_iter=1000), data, target, cv=3, n_jobs=1)
    # With named modules no time goes to finding out which ones the tasks need.
    with joblib.parallel_config(backend="regrow", n_jobs=2, preload=["sklearn.linear_model", "sklearn.model_selection"]):
        scores = cross_val_score(LogisticRegression(max_iter=1000), data, target, cv=3, n_jobs=2)
    assert scores.tolist() == expected.tolist()
    assert len(futures) == 3
    assert are_recycled(futures)
