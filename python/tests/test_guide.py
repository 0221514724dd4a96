"""The guide's snippets run: each as a program of its own, in the order of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conftest import Script

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "python/README.md", *sorted((ROOT / "docs/guide/src").glob("python-*.md"))]
SNIPPETS = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE), 1)
]


def test_there_are_snippets() -> None:
    assert len(SNIPPETS) > 5


@pytest.mark.parametrize("text", SNIPPETS)
def test_a_snippet_of_the_guide_runs(script: Script, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "import ray" in text:
        pytest.skip("Ray is large, and says much on standard error: it has tests of its own")
    # A worker of Dask whose heartbeat is under way when its cluster is closed says that the scheduler is gone.
    monkeypatch.setenv("DASK_LOGGING__DISTRIBUTED", "critical")
    done = script(text)
    assert (done.returncode, done.stderr) == (0, "")
