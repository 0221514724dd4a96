"""Which tests share a process, how long each of them may take.

    unit        who shares a process
    test        nobody
    class       the tests of a class; a test outside of any class is alone
    module      the tests of a module, or of another collector of a file, as a text file of doctests is
    file        the tests of a file

The marker `regrow_isolate("UNIT")` of a test, a class or a module stands above the unit of the session.

With `--dist=loadgroup` of pytest-xdist the tests of one `xdist_group` share a process, as they do there, whatever the unit.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import pytest

UNITS = ("test", "class", "module", "file")

MARKER = "regrow_isolate"
#: The marker of pytest-xdist.
XDIST_MARKER = "xdist_group"

# How much longer than pytest-timeout allows a test may take before its process is killed: pytest-timeout first has the time
# to end the test itself, and to show where it stands.
GRACE_S = 3.0


def unit_of(item: pytest.Item, unit: str) -> str:
    """The unit of a test, where `unit` is that of the session."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return unit
    if len(marker.args) != 1 or marker.kwargs or marker.args[0] not in UNITS:
        raise pytest.UsageError(f"{item.nodeid}: the marker {MARKER} has one argument, which is one of {', '.join(UNITS)}")
    return str(marker.args[0])


def xdist_groups(item: pytest.Item) -> Optional[tuple[str, ...]]:
    """The groups of a test as pytest-xdist tells them apart. A marker that names none is of the group `default`."""
    names = (mark.args[0] if mark.args else mark.kwargs.get("name", "default") for mark in item.iter_markers(XDIST_MARKER))
    return tuple(sorted({str(name) for name in names})) or None


def who_shares(item: pytest.Item, unit: str) -> object:
    """What a test shares its process with: nothing, or what is equal for all that share one."""
    if unit == "class":
        return item.getparent(pytest.Class)
    if unit == "module":
        return item.getparent(pytest.File)  # type: ignore[type-abstract]
    return item.nodeid.split("::")[0] if unit == "file" else None


def grouped(items: list[pytest.Item], session_unit: str, *, by_xdist: bool = False) -> list[list[int]]:
    """The tests that share a process, by their index, in the order of the first of each group."""
    groups: dict[Any, list[int]] = {}
    for test, item in enumerate(items):
        unit = unit_of(item, session_unit)
        of = who_shares(item, unit)
        if by_xdist and (names := xdist_groups(item)) is not None:
            unit, of = XDIST_MARKER, names
        groups.setdefault(test if of is None else (unit, of), []).append(test)
    return list(groups.values())


def limits_of(items: list[pytest.Item], session_limit_s: Optional[float]) -> list[Optional[float]]:
    """How long each test may take before its process is killed, in seconds."""
    if not items or not items[0].config.pluginmanager.hasplugin("timeout"):
        return [session_limit_s] * len(items)
    return [least(session_limit_s, limit_of_pytest_timeout(item)) for item in items]


def limit_of_pytest_timeout(item: pytest.Item) -> Optional[float]:
    """Until when pytest-timeout should have ended a test."""
    value: Any = getattr(item.config, "_env_timeout", None)
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        value = marker.kwargs.get("timeout", marker.args[0] if marker.args else value)
    # Anything else is pytest-timeout's to refuse; 0 means no limit.
    is_limit = isinstance(value, (int, float)) and 0 < value < math.inf
    return value + GRACE_S if is_limit else None


def least(one: Optional[float], other: Optional[float]) -> Optional[float]:
    """The smaller of two limits, if there are any."""
    return other if one is None else one if other is None else min(one, other)
