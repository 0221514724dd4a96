"""The pytest plugin: ``pytest --regrow`` runs every test in a fresh process.

Here is what pytest has to know of it in every session: the options, and what they exclude. The rest is loaded when the
option is given:

    _pytest.controller   in the pytest that was started: hands tests out, shows their reports in the order of collection
    _pytest.replay       what such a process has told, done again there
    _pytest.units        which tests share a process, and how long each may take
    _pytest.runs         a process, seen from there
    _pytest.watching     what the session waits for
    _pytest.gates        where a process that is started ahead waits for its turn
    _pytest.processes    starts the processes, recycled or by exec
    _pytest.worker       inside them: a pytest that has collected too, and runs the tests of one order
    _pytest.answers      how the run of one test tells its report
    _pytest.leavings     what these tests leave in it
    _pytest.patterns     regular expressions that the next session has compiled ahead
    _pytest.capturing    the capturing of output, begun before the stop
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from regrow._pytest.units import MARKER, UNITS

if TYPE_CHECKING:
    from collections.abc import Generator

# The search path before any conftest has changed it: that of the processes that are started for tests.
SEARCH_PATH = list(sys.path)

# A session with one of these options runs no tests, so that no process is prepared for them.
RUNS_NO_TESTS = ("collectonly", "showfixtures", "show_fixtures_per_test", "markers", "cacheshow", "help", "version")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declares the options, and ``-n`` where pytest-xdist does not."""
    group = parser.getgroup("regrow", "a fresh process for every test")
    # An option with an optional value would take the path behind it for its value: each value is an option of its own.
    for unit in UNITS:
        flags = ["--regrow"] if unit == UNITS[0] else []
        group.addoption(
            *flags,
            f"--regrow={unit}",
            dest="regrow",
            action="store_const",
            const=unit,
            help=f"run each {unit} in a fresh process",
        )
    group.addoption(
        "--regrow-isolate",
        dest="regrow",
        choices=UNITS,
        metavar="UNIT",
        help=f"the same, with the unit as a word of its own: {', '.join(UNITS)}",
    )
    group.addoption(
        "--regrow-memory-limit",
        type=byte_count,
        metavar="BYTES",
        help="the most memory that a test's process may have for itself: a number, or one with K, M or G behind it",
    )
    group.addoption(
        "--regrow-timeout",
        type=positive_seconds,
        metavar="SECONDS",
        help="kill a test's process when the test takes longer (ini: regrow_timeout)",
    )
    parser.addini("regrow_timeout", "the default of --regrow-timeout")
    if not xdist_is_used(pluginmanager):
        group._addoption(
            "-n",
            "--numprocesses",
            type=process_count,
            metavar="N",
            help="with --regrow, how many processes run at the same time: a number, or auto (default: 1)",
        )


def xdist_is_used(pluginmanager: pytest.PytestPluginManager) -> bool:
    """Whether pytest-xdist is loaded or going to be: then ``-n`` is its option."""
    if pluginmanager.hasplugin("xdist"):
        return True
    by_itself = not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    return by_itself and not pluginmanager.is_blocked("xdist") and find_spec("xdist") is not None


def positive_seconds(text: str) -> float:
    """The value of ``--regrow-timeout``."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"not a time in seconds: {text!r}")
    return seconds


def byte_count(text: str) -> int:
    """The value of `--regrow-memory-limit`."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].upper() in ("K", "M", "G") else (text, "")
    if not number.isdecimal() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"not a number of bytes: {text!r}")
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]


def process_count(text: str) -> int | str:
    """The value of ``-n``, as pytest-xdist understands it as well."""
    if text in ("auto", "logical"):
        return text
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a number of processes: {text!r}")
    return int(text)


@pytest.hookimpl(hookwrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, None, None]:
    """Looks at the options before any other plugin acts on them: pytest-xdist would start its own processes for ``-n``."""
    option = config.option
    if not option.regrow:
        if getattr(option, "numprocesses", None) is not None and not config.pluginmanager.hasplugin("xdist"):
            raise pytest.UsageError("-n is for --regrow, or for pytest-xdist, which is not installed")
    else:
        for name in ("usepdb", "trace"):
            if getattr(option, name, False):
                raise pytest.UsageError("a debugger needs the test in pytest's own process: leave --regrow out")
        option.regrow_processes = processes_asked_for(getattr(option, "numprocesses", None))
        option.regrow_by_xdist = getattr(option, "dist", "no") == "loadgroup"
        if config.pluginmanager.hasplugin("xdist"):
            option.numprocesses, option.dist, option.tx = None, "no", []
    yield


def processes_asked_for(value: int | str | None) -> int:
    """How many processes ``-n`` means; without it one, as tests may count on being alone."""
    if isinstance(value, str):
        return len(os.sched_getaffinity(0))
    return max(value or 1, 1)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, and loads the controller if there is something to do for it."""
    config.addinivalue_line("markers", f"{MARKER}(unit): with --regrow, what shares a process: {', '.join(UNITS)}")
    option = config.option
    if not option.regrow or any(getattr(option, name, False) for name in RUNS_NO_TESTS):
        return
    from regrow._pytest.controller import Controller

    timeout_s = option.regrow_timeout
    if timeout_s is None and (text := config.getini("regrow_timeout")):
        try:
            timeout_s = positive_seconds(str(text))
        except argparse.ArgumentTypeError as why:
            raise pytest.UsageError(f"regrow_timeout: {why}") from None
    config.pluginmanager.register(Controller(config, SEARCH_PATH, timeout_s), "regrow-controller")
