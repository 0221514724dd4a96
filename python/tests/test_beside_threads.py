"""Starts are safe beside threads: a process inherits no lock of its caller. A forked copy of the same caller does, and hangs.

`REGROW_CALLS` says how many calls are made, for a soak.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CALLS = int(os.environ.get("REGROW_CALLS", "500"))


def test_calls_beside_threads_that_hold_locks_do_not_hang(tmp_path: Path) -> None:
    words = [sys.executable, str(Path(__file__).with_name("beside_threads.py")), str(CALLS), str(tmp_path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300 + CALLS / 2, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["ended"] == CALLS
    # They come from the image, and are no interpreters that were started anew.
    assert found["creations"] == {"warm": CALLS}
    # Each of the eight threads has been at it all the time.
    assert found["least"] > 50, found
    # The caller is one in which it matters.
    assert found["hangs"] == {"nothing": False, "import": True, "lock": True}
