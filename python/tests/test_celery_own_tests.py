"""Celery's own integration tests end with our pool as with its prefork pool, but for a list of tests with their reasons.

Each parameter is a file: `canvas` is t/integration/test_canvas.py. Its sessions have a Redis of their own, since tests of some
files leave a worker behind that others cannot use. The tests are not changed.

Tests that end differently run again by themselves, with both pools, as Celery repeats most of its tests: on a busy machine a
test of Celery waits in vain for a result now and then, with the prefork pool too.

The folder that the variable `REGROW_CELERY` names is kept between runs: it has Celery's source archive, as pip fetches it, and
an environment in which Celery is installed from it. check.sh names one.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
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
#: How often tests that end differently are repeated: a difference has to be there each time.
REPEATED = 3
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
    """A session with a Redis of its own. A test that is repeated has one outcome: it has failed, or it has passed."""
    folder.mkdir(parents=True)
    redis = Redis(folder)
    monkeypatch.setenv("TEST_BROKER", redis.url(0))
    monkeypatch.setenv("TEST_BACKEND", redis.url(1))
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(redis.port))
    try:
        done = place.run("-p", "celery.contrib.pytest")
        # In the report each repetition looks as if it had passed.
        return replace(done, outcomes={name: outcomes[:1] for name, outcomes in done.outcomes.items()})
    finally:
        redis.stop()


def sessions(place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Session, Session]:
    """A session with the prefork pool, and one with ours. A file `creations` tells how the last one made its processes."""
    monkeypatch.delenv("REGROW_TEST_CREATIONS", raising=False)
    theirs = session(place, folder / "theirs", monkeypatch)
    monkeypatch.setenv("REGROW_TEST_CREATIONS", str(folder / "creations"))
    return theirs, session(place, folder / "ours", monkeypatch)


def node_of(name: str, file: str) -> str:
    """What pytest calls a test of a file, by its name in a report: `t.integration.test_x.Class::name`."""
    module = file.removesuffix(".py").replace("/", ".")
    classes, _, function = name.removeprefix(module).partition("::")
    return "::".join([file, *classes.split(".")[1:], function])


def lasting(place: Place, found: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Those of the differences that are found again whenever their tests are repeated."""
    *words, file = place.suite.words
    for repetition in range(REPEATED):
        if not found:
            break
        print(*found.values(), sep="\n")
        nodes = [node_of(name, file) for name in found]
        of_these = Place(replace(place.suite, words=(*words, *nodes)), place.folder.parent)
        found = differences(place.suite, *sessions(of_these, folder / str(repetition), monkeypatch))
    return found


@pytest.mark.timeout(2 * HANGS_S)
@pytest.mark.parametrize("place", FILES, indirect=True)
def test_celery_s_own_tests_end_as_with_its_pool(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = sessions(place, tmp_path, monkeypatch)
    assert not lasting(place, differences(place.suite, theirs, ours), tmp_path, monkeypatch)
    assert any("passed" in outcomes for outcomes in ours.outcomes.values())
    creations = json.loads((tmp_path / "creations").read_text())
    recycled = sum(count for name, count in creations.items() if name.startswith(RECYCLED))
    assert recycled > 0, creations
    assert sum(creations.values()) - recycled <= MOST_NOT_RECYCLED, creations
