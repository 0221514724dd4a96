"""What processes of tests have told, done again in the pytest that was started: the events of `regrow._pytest.worker`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from regrow._pytest.reports import Words, failure, recorded_warning

if TYPE_CHECKING:
    from regrow._pytest.controller import Controller
    from regrow._pytest.worker import Event


def replay(event: Event, item: pytest.Item, hook: Any, controller: Controller) -> None:
    """Does here what an event says was done in the process of a test, by the hooks of the test's directory."""
    kind, *values = event
    config = item.config
    if kind == "plain":
        hook.pytest_runtest_logreport(report=pytest.TestReport(**values[0]))
    elif kind == "report":
        report = config.hook.pytest_report_from_serializable(config=config, data=values[0])
        if values[1] is not None and isinstance(report.longrepr, str):
            report.longrepr = Words(report.longrepr, values[1])
        hook.pytest_runtest_logreport(report=report)
    elif kind == "warning":
        config.hook.pytest_warning_recorded.call_historic(kwargs=recorded_warning(*values))
    elif kind == "text":
        reporter = config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter._tw.write(values[0])
    elif kind == "left":
        controller.left.append((item.nodeid, *values))
    elif kind == "patterns":
        controller.patterns.add(values[0])
    elif kind == "ended":
        hook.pytest_runtest_logreport(report=failure(item, *values))
    elif kind == "internal":
        hook.pytest_runtest_logreport(report=failure(item, values[0], "call", 0.0))
    elif kind == "interrupt":
        raise KeyboardInterrupt
    elif kind == "exit":
        pytest.exit(values[0], values[1])
    elif kind == "stop":
        for name, why in zip(("shouldfail", "shouldstop"), values):
            if why:
                setattr(item.session, name, why)


def is_calm(event: Event) -> bool:
    """Whether the session goes on behind this event, whatever its options are."""
    if event[0] in ("report", "plain"):
        return bool(event[1].get("outcome") != "failed")
    return event[0] in ("warning", "text", "left", "patterns")
