"""Reports and warnings of a test, made in the pytest that was started out of what its process has told."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Optional

import pytest
from _pytest._code.code import ReprExceptionInfo, ReprFileLocation, ReprTracebackNative, TerminalRepr
from _pytest._io import TerminalWriter

# What a report of pytest's own consists of.
FIELDS = {
    *("nodeid", "location", "keywords", "outcome", "longrepr", "when", "user_properties", "sections"),
    *("duration", "start", "stop"),
}


def as_plain(report: pytest.TestReport) -> Optional[dict[str, Any]]:
    """What a report without a traceback is made of, which is made again by `TestReport(**fields)`; None for any other one."""
    fields = vars(report)
    if type(report) is not pytest.TestReport or not FIELDS.issuperset(fields):
        return None
    return fields if fields["longrepr"] is None else None


class Words(TerminalRepr):
    """What is left of a failure that has a form of its own, as that of a doctest has: its words."""

    def __init__(self, text: str, as_shown: str) -> None:
        self.text = text
        self.as_shown = as_shown

    def toterminal(self, tw: TerminalWriter) -> None:
        tw.line(self.as_shown if tw.hasmarkup else self.text)


def failure(item: pytest.Item, what: str, when: str, seconds: float) -> pytest.TestReport:
    """The report of a test that could not make its own."""
    path, line, _ = item.location
    where = ReprFileLocation(path, (line or 0) + 1, what)
    words = ReprTracebackNative([f"{path}:{(line or 0) + 1}: {what}\n"])
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=ReprExceptionInfo(reprtraceback=words, reprcrash=where),
        when=when,  # type: ignore[arg-type]
        duration=seconds,
        user_properties=item.user_properties,
    )


def recorded_warning(
    what: tuple[str, str, str],
    where: tuple[str, int, Optional[str]],
    when: str,
    nodeid: str,
    location: Optional[tuple[str, int, str]],
) -> dict[str, Any]:
    """The arguments of pytest's hook for a warning that was recorded in another process."""
    module, name, text = what
    category = getattr(sys.modules.get(module), name, None)
    if not (isinstance(category, type) and issubclass(category, Warning)):
        category = type(name, (Warning,), {"__module__": module})
    filename, lineno, line = where
    message = warnings.WarningMessage(text, category, filename, lineno, line=line)
    return {"warning_message": message, "when": when, "nodeid": nodeid, "location": location}
