"""Practice for the pytest of a warm image: before it stops, a test of nobody's is run a few times.

The first test of a pytest takes twice as long as the tenth: caches fill, and the interpreter adapts its code to what it
meets. Every run of an image would be such a first test, and would write all of that anew. What is called in practice are
pytest's own plugins alone: hooks and fixtures of the project and of other plugins may do things once that nobody expects
to be done before there is a test.
"""

from __future__ import annotations

import contextlib
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.fixtures import FuncFixtureInfo

if TYPE_CHECKING:
    from regrow._pytest.worker import Worker

CURRENT_TEST = "PYTEST_CURRENT_TEST"

# CPython 3.11 adapts a function at its eighth call, and what that calls later.
ROUNDS = 16


class OwnHooks:
    """The hooks of pytest's own plugins and of `recorder`."""

    def __init__(self, manager: pytest.PytestPluginManager, recorder: object) -> None:
        self._manager = manager
        self._others = [plugin for plugin in manager.get_plugins() if plugin is not recorder and not is_of_pytest(plugin)]

    def __getattr__(self, name: str) -> Any:
        hook = self._manager.subset_hook_caller(name, self._others)
        setattr(self, name, hook)
        return hook


def is_of_pytest(plugin: object) -> bool:
    """Whether a plugin comes with pytest."""
    module = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
    return module.partition(".")[0] == "_pytest"


class PracticeTest(pytest.Function):
    """A test without fixtures, for which no hooks but pytest's own are called."""

    hooks: OwnHooks

    @property
    def ihook(self) -> Any:
        return self.hooks


class Loop:
    """What pytest's own plugins do around the loop over tests (their loggers catch records), begun before the stop.

    Where another plugin has anything to do with the loop, pytest calls it in the run.
    """

    def __init__(self, worker: Worker, recorder: object) -> None:
        self._around: list[Any] = []
        found = worker.config.hook.pytest_runtestloop.get_hookimpls()
        others = [one for one in found if one.plugin is not recorder]
        around = [one for one in others if getattr(one, "wrapper", False)]
        self.is_begun = all(is_of_pytest(one.plugin) and not one.hookwrapper for one in others)
        if self.is_begun:
            self._around += [one.function(worker.session) for one in reversed(around)]
            for one in self._around:
                next(one)

    def end(self) -> None:
        """Ends what was begun."""
        for one in reversed(self._around):
            with contextlib.suppress(StopIteration):
                one.send(True)


def practice_test() -> None:
    """Does what every test does."""
    assert os.getpid() > 0


def practise(worker: Worker, recorder: object) -> None:
    """Runs the practice test, with all that a run does before and after it. The worker is parked, and is so again."""
    for first_of_file in {item.nodeid.split("::")[0]: item for item in reversed(worker.session.items)}.values():
        # Both are kept for all tests of the file.
        first_of_file.location, first_of_file.ihook  # noqa: B018
    PracticeTest.hooks = OwnHooks(worker.config.pluginmanager, recorder)
    test = PracticeTest.from_parent(
        worker.session,
        name="practice",
        callobj=practice_test,
        fixtureinfo=FuncFixtureInfo((), (), [], {}),
    )
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # Each test sets it and takes it away. A session that a test has started has it from there.
    outer = os.environ.get(CURRENT_TEST)
    worker.order = {"tests": [], "slot": 0, "results": nowhere, "tell_ready": False, "input": None, "gate": None}
    try:
        for _ in range(ROUNDS):
            worker.wake()
            worker.run_in_turn([(0, test)], test.ihook)
            worker.park()
    finally:
        os.close(nowhere)
        if outer is not None:
            os.environ[CURRENT_TEST] = outer
