"""The extension module: pools, images, processes, with and without recycling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import calls
import regrow
from regrow import _context, _core, _starter

NEVER = "import time; time.sleep(60)"


@pytest.fixture(params=[True, False], ids=["recycled", "plain"])
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[_core.Pool]:
    """A pool that recycles, and one that does not: nobody may be able to tell but by the time that it takes."""
    pool = _core.Pool(4, recycle=request.param)
    monkeypatch.setattr(_starter, "_pools", {})
    monkeypatch.setattr(_core, "Pool", lambda *_, **__: pool)
    _context._starter.cache_clear()
    yield pool
    _context._starter.cache_clear()
    pool.clear()


@pytest.fixture
def image() -> _core.Image:
    """The plain interpreter."""
    return _core.Image(sys.executable, [], [])


def test_calls_start_in_a_warm_image() -> None:
    pool = _core.Pool(4, warm_only=True)
    image = _starter.worker_starter(["json"], None).image
    point, why = pool.prepare(image, ["x"], call=b"regrow._call.worker:call\n")
    if point is None and "kernel" in why:
        pytest.skip(why)
    assert (point, why) == ("warm", "")
    process = pool.start(image, ["x"], call=b"regrow._call.worker:call\n", answer=62)
    assert process.wait()
    assert process.creation == "recycled at warm"
    assert pool.keepers()


def test_writes_are_tracked_beside_memory_that_the_kernel_may_drop(tmp_path: Path) -> None:
    """The C library has its random numbers in such memory from version 2.41 on."""
    module = "import mmap\ntry:\n    kept = mmap.mmap(-1, 4096, flags=0x28)\nexcept OSError:\n    kept = None\n"
    (tmp_path / "droppable.py").write_text(module)
    pool = _core.Pool(1, warm_only=True, timed=True)
    image = _core.Image(sys.executable, [], ["--path", str(tmp_path), "--preload", "droppable"])
    source = "import droppable\nif droppable.kept: assert droppable.kept.read(9) == bytes(9); droppable.kept[:1] = b'1'\n"
    call = b"builtins:exec\n" + source.encode()
    point, why = pool.prepare(image, ["x"], call=call)
    if point is None and "kernel" in why:
        pytest.skip(why)
    for _ in range(3):
        process = pool.start(image, ["x"], call=call)
        assert process.wait()
        assert process.returncode == 0
    pages = pool.reset_pages()
    assert pages is not None
    # The interpreter has some thousands.
    assert 0 < pages[0] < 1000


def test_an_executor_works_in_both_ways(pool: _core.Pool) -> None:
    with regrow.Executor(2, preload=["colorsys"], initializer=calls.initialize, initargs=(3,)) as executor:
        assert executor.submit(calls.remember, 1).result() == [3, 1]
        assert "colorsys" in executor.submit(calls.modules).result()
        assert len(executor.submit(bytes.upper, bytes(1_000_000)).result()) == 1_000_000
        assert isinstance(executor.submit(calls.raise_custom).exception(), calls.CustomError)
        with pytest.raises(regrow.BrokenProcess):
            executor.submit(calls.leave_at_once, 1).result()
        argv, path, _, _ = executor.submit(calls.surroundings).result()
        assert (argv, path) == (sys.argv, sys.path)


def test_a_context_works_in_both_ways(pool: _core.Pool) -> None:
    context = regrow.get_context(preload=["colorsys"])
    queue = context.SimpleQueue()
    process = context.Process(target=calls.put, args=(queue, 1))
    process.start()
    assert queue.get() == 1
    process.join()
    assert process.exitcode == 0


def test_a_module_that_is_not_there_breaks_the_call(pool: _core.Pool) -> None:
    with regrow.Executor(1, preload=["no_such_module"]) as executor, pytest.raises(regrow.BrokenProcess) as caught:
        executor.submit(abs, -1).result()
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
    assert caught.value.__cause__.name == "no_such_module"


def test_a_process_ends_once(pool: _core.Pool, image: _core.Image) -> None:
    process = pool.start(image, ["-c", "raise SystemExit(3)"])
    assert process.wait()
    assert process.returncode == 3
    assert process.wait(0)
    process.kill()
    process.send_signal(signal.SIGTERM)
    assert process.returncode == 3


def test_a_wait_ends_at_its_time(pool: _core.Pool, image: _core.Image) -> None:
    process = pool.start(image, ["-c", NEVER], outputs=[1])
    for timeout in (0, 0.01, 0.2, -1):
        assert not process.wait(timeout)
    assert process.returncode is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(1e300)
    assert process.returncode == -signal.SIGTERM
    with pytest.raises(ValueError, match="not a number"):
        process.wait(float("nan"))


def test_a_process_can_be_killed_while_another_thread_waits(pool: _core.Pool, image: _core.Image) -> None:
    process = pool.start(image, ["-c", NEVER])
    threading.Timer(0.2, process.kill).start()
    assert process.wait()
    assert process.returncode == -signal.SIGKILL


def test_other_threads_go_on_during_a_wait(pool: _core.Pool, image: _core.Image) -> None:
    process = pool.start(image, ["-c", NEVER])
    waiter = threading.Thread(target=process.wait)
    waiter.start()
    for _ in range(6):
        time.sleep(0.01)
    # Were this thread held up by the other one, the process would have ended by itself.
    process.kill()
    waiter.join()
    assert process.returncode == -signal.SIGKILL


def test_descriptors_are_given_and_no_others(pool: _core.Pool, image: _core.Image) -> None:
    reader, writer = os.pipe()
    try:
        os.set_inheritable(reader, True)
        code = "import os; os.write(7, repr(sorted(map(int, os.listdir('/proc/self/fd')))).encode())"
        process = pool.start(image, ["-c", code], fds=[(writer, 7)])
        assert process.wait()
        # One more is that of the list itself.
        assert os.read(reader, 1000) == b"[0, 1, 2, 3, 7]"
    finally:
        os.close(reader)
        os.close(writer)


def test_what_cannot_be_is_an_error(pool: _core.Pool, image: _core.Image) -> None:
    with pytest.raises(OSError, match=r"(?i)bad file descriptor"):
        pool.start(image, ["-c", "pass"], fds=[(-1, 7)])
    with pytest.raises(FileNotFoundError):
        pool.start(_core.Image("/no/such/program", [], []), [])
    with pytest.raises(FileNotFoundError) as caught:
        pool.start(image, ["-c", "pass"], directory="/no/such/directory")
    assert caught.value.errno == 2
    process = pool.start(image, ["-c", "pass"])
    with pytest.raises(ValueError, match="no such output"):
        process.output(0)
    assert process.wait()


def test_somebody_else_may_wait_for_a_process(image: _core.Image) -> None:
    process = _core.Pool(1, recycle=False).start(image, ["-c", "pass"])
    os.waitpid(process.pid, 0)
    assert process.wait()
    assert process.returncode is None


def test_runs_of_a_caller_under_make_are_recycled_too(tmp_path: Path) -> None:
    # GNU make ignores the signals of the C library, which takes one of them over with the first thread.
    program = """
import sys, threading, time
from regrow import _core
pool = _core.Pool(4, warm_only=True)
image = _core.Image(sys.executable, [], ["--preload", "json"])
print(pool.prepare(image, ["x"], call=b"builtins:exec\\n"))
thread = threading.Thread(target=abs, args=[1])
thread.start()
thread.join()
time.sleep(0.2)
process = pool.start(image, ["x"], call=b"builtins:exec\\nimport json; json.dumps")
assert process.wait()
print(process.creation)
"""
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "Makefile").write_text(f"all:\n\t@{sys.executable} program.py\n")
    done = subprocess.run(["make", "-s"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    prepared, creation = done.stdout.splitlines()
    if "kernel" in prepared:
        pytest.skip(prepared)
    assert (prepared, creation) == ("('warm', '')", "recycled at warm")
