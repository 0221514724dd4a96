"""`regrow.run` and `regrow.aio.run`: Python programs in fresh processes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import regrow
import regrow._run
from bodies import repeated

Run = Callable[..., regrow.Completed]


def run_in_loop(*args: Any, **more: Any) -> regrow.Completed:
    return asyncio.run(regrow.aio.run(*args, **more))


@pytest.fixture(params=[regrow.run, run_in_loop], ids=["run", "aio"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both ways."""
    function: Run = request.param
    return function


def test_a_source_is_run(run: Run) -> None:
    done = run("import sys; print(sys.argv); print('no', file=sys.stderr); sys.exit(3)", args=["a", "b c"])
    assert (done.returncode, done.stdout, done.stderr) == (3, b"['-c', 'a', 'b c']\n", b"no\n")
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.args[0] == sys.executable
    with pytest.raises(subprocess.CalledProcessError):
        done.check_returncode()


def test_it_is_as_if_the_interpreter_had_been_started(run: Run) -> None:
    source = "import sys, os, json; print(json.dumps([sys.argv, sys.flags, sys.path, __name__, sorted(globals())]))"
    plain = subprocess.run([sys.executable, "-c", source, "x"], capture_output=True, check=True)
    assert run(source, ["x"]).stdout == plain.stdout


def test_a_path_is_run(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print(__file__, sys.argv, sys.path[0])")
    assert run(program, ["x"]).stdout.decode() == f"{program} {[str(program), 'x']} {tmp_path}\n"


def test_input_is_written_and_nothing_else(run: Run) -> None:
    echo = "import sys; sys.stdout.write(sys.stdin.read())"
    assert run(echo, input=b"through").stdout == b"through"
    assert run(echo, input=b"").stdout == b""
    assert run(echo).stdout == b""


def test_much_goes_through_all_pipes_at_once(run: Run) -> None:
    data = os.urandom(8 * 1024 * 1024)
    source = """
import sys
while chunk := sys.stdin.buffer.read(100000):
    sys.stdout.buffer.write(chunk)
    sys.stderr.buffer.write(chunk)
"""
    done = run(source, input=data)
    assert done.stdout == data
    assert done.stderr == data


def test_input_that_nobody_reads_is_no_error(run: Run) -> None:
    assert run("print('done')", input=bytes(1_000_000)).stdout == b"done\n"


def test_environment_and_directory_are_given(run: Run, tmp_path: Path) -> None:
    done = run("import os; print(dict(os.environ), os.getcwd())", env={"ONE": "1"}, cwd=tmp_path)
    environment, _, directory = done.stdout.decode().strip().rpartition(" ")
    assert directory == str(tmp_path)
    assert "'ONE': '1'" in environment
    assert "PATH" not in environment


def test_modules_are_preloaded_and_not_seen(run: Run) -> None:
    assert run("import colorsys; print(colorsys.__name__)", preload=["colorsys"]).stdout == b"colorsys\n"


def test_modules_that_have_had_threads_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The C library keeps the stacks of threads that have ended, from 2.42 on with guard pages, of which an image has none.
    begin_and_end = "threading.Thread(target={}, args=({},))\nthread.start()\nthread.join()\n"
    module = "import threading\nthread = " + begin_and_end.format("len", "()")
    (tmp_path / "had_threads.py").write_text(module)
    source = "import threading, had_threads\nthread = " + begin_and_end.format("print", "'here'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    runs = [regrow.run(source, preload=["had_threads"], reuse="always", timeout=60) for _ in range(4)]
    assert [done.stdout for done in runs] == [b"here\n"] * 4
    assert runs[-1].creation.endswith(" at warm"), [done.creation for done in runs]


def test_an_uncaught_exception_looks_as_ever(run: Run) -> None:
    source = "def f():\n    raise ValueError('x')\nf()\n"
    plain = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    done = run(source)
    assert (done.returncode, done.stderr) == (plain.returncode, plain.stderr)


def test_a_program_that_takes_too_long_is_killed(run: Run, tmp_path: Path) -> None:
    source = f"import os, time; print(os.getpid(), flush=True); open({str(tmp_path / 'on')!r}, 'w'); time.sleep(60)"
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        run(source, timeout=2)
    assert isinstance(caught.value.stdout, bytes)
    assert caught.value.stderr is None
    assert not Path(f"/proc/{int(caught.value.stdout)}").exists()


def test_a_signal_is_a_negative_status(run: Run) -> None:
    assert run("import os; os.kill(os.getpid(), 9)").returncode == -9


def test_what_does_not_exist_is_an_error(run: Run, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(repr(str(tmp_path / "no")))) as caught:
        run("pass", cwd=tmp_path / "no")
    assert caught.value.filename == str(tmp_path / "no")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as refused:
        run("pass", cwd=tmp_path / "file")
    assert refused.value.filename == str(tmp_path / "file")
    assert run(tmp_path / "no.py").returncode == 2


def test_an_interpreter_that_is_gone_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    regrow._run._starter.cache_clear()
    try:
        with pytest.raises(FileNotFoundError) as caught:
            run("pass", cwd=tmp_path)
        assert caught.value.filename == str(tmp_path / "python")
    finally:
        regrow._run._starter.cache_clear()


def test_input_that_is_no_bytes_is_refused(run: Run) -> None:
    echo = "import sys; sys.stdout.write(sys.stdin.read())"
    with pytest.raises(TypeError, match=r"input is bytes, not str: give input\.encode\(\)"):
        run(echo, input="text")
    with pytest.raises(TypeError, match="input is bytes, not int"):
        run(echo, input=3)
    assert run(echo, input=bytearray(b"one")).stdout == b"one"
    assert run(echo, input=memoryview(b"two")).stdout == b"two"


@pytest.mark.parametrize("length", [131071, 131072, 1_000_000])
def test_a_long_source_is_run(run: Run, length: int) -> None:
    head = "import sys, os\nprint(sorted(globals()), sys.argv, len('é'), os.path.exists('/proc/self/fd/61'))\n#"
    source = head + "x" * (length - len(head.encode()))
    done = run(source, ["a"])
    expected = subprocess.run([sys.executable, "-c", head, "a"], capture_output=True, check=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, expected.stdout, b"")
    assert done.args == [sys.executable, "-c", source, "a"]


def test_an_exception_of_a_long_source_has_its_line(run: Run) -> None:
    done = run("\n" * 200_000 + "raise ValueError('so')", preload=["json"])
    assert done.returncode == 1
    assert done.stderr.endswith(b'  File "<string>", line 200001, in <module>\nValueError: so\n')
    with pytest.raises(ValueError, match=r"(?i)nul"):
        run("pass #" + "x" * 200_000 + "\0")


def test_a_nul_byte_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"(?i)nul"):
        run("pass\0")


def test_outputs_are_read_to_their_end_after_the_process(run: Run) -> None:
    source = """
import os, time
if os.fork() == 0:
    time.sleep(0.5)
    os.write(1, b"late")
    os._exit(0)
os.write(1, b"early ")
"""
    assert run(source).stdout == b"early late"


def test_no_memory_serves_two_programs_unless_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    def repeats(**more: Any) -> int:
        return repeated(lambda path: run(f"import bodies; bodies.shown({path!r})", cwd=here, **more), tmp_path)

    here = Path(__file__).parent
    assert repeats() == 0
    assert repeats(preload=["json"]) == 0
    assert repeats(reuse="always") > 0
    with pytest.raises(ValueError, match="reuse is 'always' or 'never', not 'sometimes'"):
        run("pass", reuse="sometimes")


def pipes() -> int:
    """How many pipes this process has open."""

    def target(number: str) -> str:
        # A thread of the pool may have closed it meanwhile.
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/self/fd/{number}")
        return ""

    return sum(target(number).startswith("pipe:") for number in os.listdir("/proc/self/fd"))


def test_programs_that_took_too_long_hold_no_descriptors(run: Run) -> None:
    errors = []
    for _ in range(30):
        with pytest.raises(subprocess.TimeoutExpired) as caught:
            run("import time; time.sleep(60)", timeout=0)
        errors.append(caught.value)
    held = pipes()
    del caught
    errors.clear()
    gc.collect()
    # Two pipes each. What the pool keeps has other descriptors, which come and go.
    assert held - pipes() < 30


def test_a_timeout_has_what_was_read_as_subprocess_has_it(run: Run) -> None:
    source = "import sys, time; print('said', file=sys.stderr, flush=True); time.sleep(60)"
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        run(source, timeout=5)
    assert (caught.value.timeout, caught.value.cmd) == (5, [sys.executable, "-c", source])
    assert (caught.value.stdout, caught.value.stderr) == (None, b"said\n")


def test_a_cancelled_task_kills_its_process(tmp_path: Path) -> None:
    started = tmp_path / "started"
    source = f"import os, time; open({str(started)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async def main() -> int:
        task = asyncio.create_task(regrow.aio.run(source))
        while not started.exists() or not started.read_text():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return int(started.read_text())

    pid = asyncio.run(main())
    assert not Path(f"/proc/{pid}").exists()


def test_many_programs_run_at_once_in_one_loop() -> None:
    async def main() -> list[bytes]:
        runs = (regrow.aio.run(f"import time; time.sleep(0.2); print({number})") for number in range(12))
        return [done.stdout for done in await asyncio.gather(*runs)]

    assert asyncio.run(main()) == [b"%d\n" % number for number in range(12)]


def test_a_loop_goes_on_while_a_program_runs() -> None:
    async def main() -> int:
        ticks = 0
        task = asyncio.create_task(regrow.aio.run("import time; time.sleep(0.5)"))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.01)
        return ticks

    assert asyncio.run(main()) > 5


def test_time_that_is_over_at_once_is_no_reason_to_hang() -> None:
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        regrow.run("import time; time.sleep(60)", timeout=0)
    assert time.monotonic() - start < 30
