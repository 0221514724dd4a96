"""`python -m regrow check-preload`: what modules do when they are imported, and whether Regrow can keep them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

#: Modules that do one thing each.
SOURCES = {
    "quiet": "import colorsys\nprint('a line that is nobody\\'s')\n",
    "big": "data = bytes(range(256)) * (64 << 12)\n",
    "thread": "import threading\nend = threading.Event()\n"
    "threading.Thread(target=end.wait, daemon=True, name='watcher').start()\n",
    "opens_socket": "import socket\nkept = socket.socket()\n",
    "opens_file": "kept = open('/etc/passwd')\nkept.readline()\n",
    # Each run opens it anew.
    "holds_file": "kept = open('/etc/passwd')\n",
    "starts_child": "import subprocess\nkept = subprocess.Popen(['sleep', '1234'])\n",
    "hooks": "import os\nos.register_at_fork(before=lambda: None, after_in_child=lambda: None)\n",
    "raises": "raise ValueError('not today')\n",
    "exits": "import sys\nsys.exit(3)\n",
    "crashes": "import os\nos.abort()\n",
    "hangs": "import time\nwhile True:\n    time.sleep(1)\n",
    "needs_another": "import nothing_of_that_name\n",
    "slow": "import time\ntime.sleep(0.3)\n",
    # What a module does of which CUDA is initialised.
    "cuda": "import sys, types\nsys.modules['torch'] = torch = types.ModuleType('torch')\n"
    "torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)\n",
}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder with the modules."""
    for name, source in SOURCES.items():
        (tmp_path / f"{name}.py").write_text(source)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, as typed in a folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "regrow", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)


def found(folder: Path, *names: str) -> tuple[int, dict[str, Any]]:
    """The exit status, and what is found of each module."""
    done = run(folder, "check-preload", "--json", "--timeout", "5", *names)
    assert done.stderr == ""
    return done.returncode, {finding["module"]: finding for finding in json.loads(done.stdout)["modules"]}


def test_modules_that_can_be_kept_are_told_with_what_they_take(modules: Path) -> None:
    status, findings = found(modules, "holds_file")
    assert (status, findings["holds_file"]["kept"]) == (0, True)
    status, findings = found(modules, "quiet", "big", "slow", "hooks", "cuda")
    assert status == 0
    assert all(finding["kept"] and finding["reason"] is finding["error"] is None for finding in findings.values())
    assert findings["quiet"]["modules"] == 2
    assert 60 < findings["big"]["memory_mib"] < 70
    assert findings["quiet"]["memory_mib"] < 5
    assert findings["slow"]["import_ms"] >= 300
    assert findings["hooks"]["fork_hooks"] == 2
    assert [finding["cuda"] for finding in findings.values()] == [False, False, False, False, True]
    assert not any(finding["threads"] or finding["descriptors"] or finding["children"] for finding in findings.values())


def test_what_stands_in_the_way_is_named(modules: Path) -> None:
    status, findings = found(modules, "opens_socket", "opens_file", "starts_child")
    assert status == 1
    assert not any(finding["kept"] for finding in findings.values())
    assert findings["opens_socket"]["descriptors"][0].startswith("socket:[")
    assert "descriptors" in findings["opens_socket"]["reason"]
    assert findings["opens_file"]["descriptors"] == ["/etc/passwd"]
    assert findings["starts_child"]["children"] == ["sleep 1234"]
    assert "process" in findings["starts_child"]["reason"]
    # Nothing goes on that a module has started.
    assert not any(words == "sleep 1234" for words in command_lines())


def command_lines() -> list[str]:
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        except OSError:
            continue
    return texts


def test_a_thread_is_named_and_that_it_does_not_run_is_said(modules: Path) -> None:
    status, findings = found(modules, "thread")
    assert status == 0
    assert findings["thread"]["threads"] == [{"name": "watcher", "python": True}]
    text = run(modules, "check-preload", "thread").stdout
    assert "thread: it starts threads: watcher" in text
    assert "do not run in the processes" in text


def test_a_module_that_cannot_be_imported_is_told_why(modules: Path) -> None:
    begin = time.monotonic()
    names = ("raises", "exits", "crashes", "hangs", "needs_another", "is_nowhere", "quiet.part", "quiet")
    status, findings = found(modules, *names)
    assert status == 1
    assert {name: finding["error"] for name, finding in findings.items()} == {
        "raises": "its import raises ValueError: not today",
        "exits": "its import raises SystemExit: 3",
        "crashes": "the process that imports it was killed by SIGABRT",
        "hangs": "its import takes longer than 5 s",
        "needs_another": "its import raises ModuleNotFoundError: No module named 'nothing_of_that_name'",
        "is_nowhere": "there is no such module",
        "quiet.part": "there is no such module",
        "quiet": None,
    }
    assert [name for name, finding in findings.items() if finding["kept"]] == ["quiet"]
    # The hanging one was ended.
    assert time.monotonic() - begin < 200


def test_the_table_is_for_people(modules: Path) -> None:
    done = run(modules, "check-preload", "quiet", "raises", "opens_file")
    assert (done.returncode, done.stderr) == (1, "")
    table, _, notes = done.stdout.partition("\n\n")
    head, *rows = table.splitlines()
    assert " ".join(head.split()) == "module import memory modules threads files children CUDA fork hooks kept"
    assert [row.split()[0] for row in rows] == ["quiet", "raises", "opens_file"]
    assert [row.split()[-1] for row in rows] == ["yes", "no", "no"]
    # The cells of a column end at one place.
    assert len({row.index(" ms ") for row in (rows[0], rows[2])}) == 1
    assert "a line that is nobody's" not in done.stdout
    assert notes.splitlines()[0] == "raises: its import raises ValueError: not today"
    assert notes.splitlines()[1] == "opens_file: it leaves open: /etc/passwd"
    assert "opens_file: Regrow cannot keep it: " in notes


def test_real_modules(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pandas")
    status, findings = found(tmp_path, "numpy", "pandas", "json")
    assert status == 0
    assert findings["numpy"]["modules"] > 50
    assert findings["pandas"]["modules"] > findings["numpy"]["modules"]
    assert findings["pandas"]["memory_mib"] > findings["numpy"]["memory_mib"] > 1.0


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "check-preload", "no-name")
    assert (done.returncode, done.stdout) == (2, "")
    assert "'no-name' is not the name of a module" in done.stderr
    done = run(tmp_path)
    assert done.returncode == 2
    assert "check-preload" in run(tmp_path, "--help").stdout
