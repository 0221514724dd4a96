"""How far a map is: in a file, on a terminal, and in a notebook with and without ipywidgets.

The notebooks are real ones: a kernel of Jupyter executes their cells.
"""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import calls
import regrow

if TYPE_CHECKING:
    from conftest import Script

#: What a program that maps begins with.
HEAD = """
import itertools, operator, sys, time
import regrow

def wait(number):
    time.sleep(0.05)
    return number

def fail(number):
    return 1 // number
"""
#: The last line of a map that has ended.
LAST = re.compile(
    r"^(\w+): (\d+)/(\d+) \[(#*)(-*)\] ([0-9.]+)/s, (\d+) recycled(?:, (\d+) failed)?(?:, (\d+) cancelled)?, [0-9.]+ s$"
)


def _main(body: str) -> str:
    # A program that hangs says where.
    watched = "import faulthandler\nfaulthandler.dump_traceback_later(100)\n"
    return watched + HEAD + "\nif __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in body.strip().splitlines())


def _last(line: str) -> dict[str, Any]:
    found = LAST.match(line)
    assert found, line
    name, done, total, filled, empty, _rate, recycled, failed, cancelled = found.groups()
    assert (len(filled), len(empty)) == (24 * int(done) // int(total), 24 - 24 * int(done) // int(total))
    counts = {"done": done, "total": total, "recycled": recycled, "failed": failed or 0, "cancelled": cancelled or 0}
    return {"name": name, **{key: int(value) for key, value in counts.items()}}


def test_a_file_has_a_line_with_true_counts(script: Script) -> None:
    done = script(
        _main("""
with regrow.Executor(2) as executor:
    futures = []
    submit = executor.submit
    def noting(*args):
        futures.append(submit(*args))
        return futures[-1]
    executor.submit = noting
    print(list(executor.map(wait, range(12), progress=True)))
print(sum(future.creation.startswith("recycled") for future in futures))
""")
    )
    results, recycled = done.stdout.splitlines()
    assert results == str(list(range(12))), done.stderr
    assert [_last(line) for line in done.stderr.splitlines()] == [
        {"name": "wait", "done": 12, "total": 12, "recycled": int(recycled), "failed": 0, "cancelled": 0}
    ]
    assert int(recycled) > 0


def test_failures_are_counted_and_raised(script: Script) -> None:
    done = script(
        _main("""
with regrow.Executor(1) as executor:
    results = executor.map(fail, [1, 1, 0, 1, 1], progress="text")
    try:
        print(next(results), next(results), next(results))
    except ZeroDivisionError as error:
        print(error)
""")
    )
    assert "division" in done.stdout, done.stderr
    (line,) = done.stderr.splitlines()
    last = _last(line)
    assert (last["done"], last["failed"]) == (5, 1)


def test_a_map_that_nobody_asks_for_results_is_shown_to_its_end(script: Script) -> None:
    done = script(_main("regrow.Executor(2).map(wait, iter(range(6)), progress=True)"))
    (line,) = done.stderr.splitlines()
    assert _last(line)["done"] == 6


def test_the_end_is_not_known_of_a_map_that_takes_elements_one_by_one(script: Script) -> None:
    if sys.version_info < (3, 14):
        pytest.skip("maps have no buffersize before Python 3.14")
    done = script(
        _main("""
with regrow.Executor(2) as executor:
    results = executor.map(wait, itertools.count(), buffersize=2, progress=True)
    print(list(itertools.islice(results, 5)))
    results.close()
""")
    )
    assert done.stdout == "[0, 1, 2, 3, 4]\n"
    (line,) = done.stderr.splitlines()
    assert re.match(r"^wait: [5-7] [0-9.]+/s, \d+ recycled", line), line


def test_a_late_result_and_a_wrong_word_are_told_as_ever() -> None:
    with regrow.Executor(1) as executor:
        with pytest.raises(ValueError, match="progress is"):
            executor.map(calls.add, [1], [1], progress="loud")  # type: ignore[arg-type]
        with pytest.raises(TimeoutError):
            list(executor.map(calls.sleep, [60], timeout=0.1, progress=True))
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(calls.add, [1], [1], progress=True)
    assert "regrow-bar" not in [thread.name for thread in threading.enumerate()]


def test_results_are_let_go_of(executor: regrow.Executor) -> None:
    """A future that is over is held by nobody but its map."""
    from regrow._bar import Tally

    tally = Tally(2)
    futures = [executor.submit(calls.add, 1, two=2) for _ in range(2)]
    for future in futures:
        tally.add(future)
    assert [future.result() for future in futures] == [3, 3]
    tally.look()
    assert (tally.done, tally.is_idle()) == (2, True)
    del future
    holders = [sys.getrefcount(futures[at]) for at in range(2)]
    futures.append(executor.submit(calls.add, 1))
    futures[2].result()
    assert holders == [sys.getrefcount(futures[2])] * 2


def _on_terminal(program: Path, then: Callable[[int, str], None] = lambda _pid, _text: None) -> tuple[str, int]:
    """What a program writes to a terminal of 80 columns, and its status. `then` is told the text so far."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"}
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, str(program)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        start_new_session=True,
    )
    os.close(terminal)
    text = ""
    while True:
        try:
            got = os.read(controller, 65536)
        except OSError:
            break
        if not got:
            break
        text += got.decode()
        then(process.pid, text)
    os.close(controller)
    return text, process.wait()


def test_a_terminal_has_one_line_that_is_drawn_again(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_main("with regrow.Executor(1) as executor: print(sum(executor.map(wait, range(20), progress=True)))"))
    text, status = _on_terminal(program)
    assert status == 0, text
    drawn = [part for part in text.split("\r\x1b[K") if part.startswith("wait: ")]
    counts = [int(re.match(r"wait: (\d+)/20 ", part).group(1)) for part in drawn]  # type: ignore[union-attr]
    assert counts == sorted(counts)
    assert len(set(counts)) > 2, "it is drawn while the calls run"
    assert all(len(part.splitlines()[0]) < 80 for part in drawn)
    last, *rest = drawn[-1].replace("\r", "").splitlines()
    assert (_last(last)["done"], rest) == (20, ["190"]), text


def test_an_interrupt_ends_the_bar_and_the_map(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        _main("""
with regrow.Executor(1) as executor:
    try:
        list(executor.map(wait, range(200), progress=True))
    except KeyboardInterrupt:
        print('interrupted')
""")
    )
    sent: list[int] = []

    def interrupt(pid: int, text: str) -> None:
        if re.search(r"wait: [2-9]/200", text) and not sent:
            sent.append(pid)
            os.kill(pid, 2)

    text, status = _on_terminal(program, interrupt)
    assert status == 0, text
    assert text.rstrip().endswith("interrupted"), text
    assert re.search(r"wait: 200/200 .* cancelled", text), text


# Notebooks.

#: A cell that maps, with what it says of itself.
CELL = """
executor = regrow.Executor(2)
print(sum(executor.map(operator.neg, range(40), progress={progress!r})))
"""


@pytest.fixture(scope="module")
def notebook() -> Iterator[Callable[..., Any]]:
    """Executes cells in a kernel, and gives the notebook."""
    for name in ("ipykernel", "nbclient", "nbformat", "ipywidgets"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    import nbclient
    import nbformat

    def run(*cells: str) -> Any:
        v4: Any = nbformat.v4
        book = v4.new_notebook(cells=[v4.new_code_cell(cell) for cell in (HEAD, *cells)])
        nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
        return book

    return run  # type: ignore[return-value]


def _texts(cell: Any, name: str) -> str:
    return "".join(output["text"] for output in cell.outputs if output["output_type"] == "stream" and output["name"] == name)


def test_a_notebook_has_a_bar(notebook: Callable[..., Any]) -> None:
    cell = (book := notebook(CELL.format(progress=True))).cells[1]
    assert _texts(cell, "stdout") == "-780\n"
    assert _texts(cell, "stderr") == ""
    (shown,) = [output for output in cell.outputs if output["output_type"] == "display_data"]
    states = book.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    box = states[shown["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]]["state"]
    bar, words = (states[child.removeprefix("IPY_MODEL_")]["state"] for child in box["children"])
    assert (bar["description"], bar["value"], bar["max"], bar["bar_style"]) == ("neg", 40, 40, "success")
    assert re.match(r"^40/40, [0-9.]+/s, \d+ recycled, [0-9.]+ s$", words["value"]), words


@pytest.mark.parametrize("without", [False, True])
def test_a_notebook_has_text_where_there_is_no_bar_or_text_is_asked_for(notebook: Callable[..., Any], without: bool) -> None:
    cells = ["sys.modules['ipywidgets'] = None", CELL.format(progress=True)] if without else [CELL.format(progress="text")]
    cell = notebook(*cells).cells[-1]
    assert _texts(cell, "stdout") == "-780\n"
    assert [output["output_type"] for output in cell.outputs if output["output_type"] != "stream"] == []
    assert _last(_texts(cell, "stderr").rsplit("\r", 1)[1].rstrip())["done"] == 40
