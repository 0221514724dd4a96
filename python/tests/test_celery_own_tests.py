"""Celery's own integration tests end with our pool as with its prefork pool, but for a list of tests with their reasons.

Each parameter is a file: `canvas` is t/integration/test_canvas.py. Its sessions have a Redis of their own, since tests of some
files leave a worker behind that others cannot use. The tests are not changed.

The folder that the variable `REGROW_CELERY` names is kept between runs: it has Celery's source archive, as pip fetches it, and
an environment in which Celery is installed from it. check.sh names one.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("celery")
pytest.importorskip("redis")

from celery_servers import Redis
from suites import Place, Session, Suite, differences

#: The files whose tests give tasks to a pool.
FILES = ("canvas", "group_chains", "inspect", "redis_backend", "tasks")
#: What the tests need beside Celery and pytest.
NEEDS = (
    *("redis", "pydantic", "sqlalchemy", "cryptography", "tblib", "pytest-rerunfailures", "pytest-timeout", "pytest-subtests"),
    *("pytest-order", "pytest-click", "freezegun"),
)
#: Tests that must differ, by a pattern of their name, and why.
EXPLAINED = {
    "*.test_Inspect::test_stats": "it counts on a process that waits for tasks, and there is none between two tasks",
    "*.test_tasks::test_retry": "the task counts its attempts in its process, and every attempt has one of its own",
}
#: No session takes as long, in seconds: that of canvas takes twenty minutes on a busy machine.
HANGS_S = 3000
#: Processes of a session that may be made otherwise, before there is an image.
MOST_NOT_RECYCLED = 4
#: What the names begin with of the ways in which they are made out of an image.
RECYCLED = ("recycled", "forked")

pytestmark = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")


@pytest.fixture
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where a file of Celery's tests can run."""
    folder = os.environ.get("REGROW_CELERY")
    if folder is None:
        pytest.skip("REGROW_CELERY names no folder for Celery's tests: check.sh does that")
    words = ("-p", "no:cacheprovider", f"t/integration/test_{request.param}.py")
    suite = Suite("celery", needs=NEEDS, words=words, plugin="celery_with_regrow", explained=EXPLAINED, hangs_s=HANGS_S)
    place = Place(suite, Path(folder))
    place.make()
    # Some tests start the command.
    monkeypatch.setenv("PATH", os.pathsep.join([str(place.python.parent), os.environ["PATH"]]))
    return place


def session(place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session with a Redis of its own."""
    folder.mkdir()
    redis = Redis(folder)
    monkeypatch.setenv("TEST_BROKER", redis.url(0))
    monkeypatch.setenv("TEST_BACKEND", redis.url(1))
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis.port))
    try:
        return place.run("-p", "celery.contrib.pytest")
    finally:
        redis.stop()


@pytest.mark.timeout(2 * HANGS_S)
@pytest.mark.parametrize("place", FILES, indirect=True)
def test_celery_s_own_tests_end_as_with_its_pool(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = session(place, tmp_path / "theirs", monkeypatch)
    told = tmp_path / "creations"
    monkeypatch.setenv("REGROW_TEST_CREATIONS", str(told))
    ours = session(place, tmp_path / "ours", monkeypatch)
    assert not differences(place.suite, theirs, ours)
    assert any("passed" in outcomes for outcomes in ours.outcomes.values())
    creations = json.loads(told.read_text())
    recycled = sum(count for name, count in creations.items() if name.startswith(RECYCLED))
    assert recycled > 0, creations
    assert sum(creations.values()) - recycled <= MOST_NOT_RECYCLED, creations
