"""Measures the test suites of packages under `pytest --regrow` beside plain pytest: `package_suites.py FOLDER OUTPUT`.

FOLDER has the suites (`python/tests/suites.py`), and is kept between runs. Sessions of plain pytest, of `pytest --regrow`, of
`pytest --regrow=module`, and of both with `-n 2` take turns. A figure is the least of its rounds: what else the machine does
makes a session longer, and never shorter. The benchmark checks that all have the same outcomes. The table goes to standard
output, and the figures go to OUTPUT (`figures.py`).
"""

from __future__ import annotations

import pathlib
import sys

import figures
from figures import Figure, figure
from suites import SUITES, Place, Suite, differences

NAMES = ("click", "jinja2", "pyyaml", "attrs")
ROUNDS = 3
PLUGIN = ("-p", "regrow.pytest_plugin")
TEST = (*PLUGIN, "--regrow")
MODULE = (*PLUGIN, "--regrow=module")
TWO = ("-n", "2")


def measure(suite: Suite, folder: pathlib.Path) -> list[Figure]:
    """The figures of a suite."""
    place = Place(suite, folder)
    place.make()
    # Modules are compiled, and the second session knows which patterns the tests compile.
    reference = place.run()
    place.run(*TEST)
    ways: list[tuple[str, ...]] = [(), TEST, (*TEST, *TWO), MODULE, (*MODULE, *TWO)]
    seconds: dict[tuple[str, ...], float] = {}
    for _ in range(ROUNDS):
        for words in ways:
            session = place.run(*words)
            wrong = differences(suite, reference, session)
            assert not wrong, wrong
            seconds[words] = min(session.seconds, seconds.get(words, session.seconds))
    plain, one, two, modules, two_modules = (seconds[words] for words in ways)
    more_ms = (one - plain) / reference.tests * 1e3
    name = f"{suite.name}, {reference.tests} tests"
    return [
        figure(f"{name}: plain pytest", plain, None, "s"),
        figure(f"{name}: pytest --regrow, beyond plain per test", more_ms, 1.5, "ms", True),
        figure(f"{name}: pytest --regrow -n 2, as part of plain", two / plain, 1.2, "times", True),
        figure(f"{name}: pytest --regrow=module, as part of plain", modules / plain, None, "times", True),
        figure(f"{name}: pytest --regrow=module -n 2, as part of plain", two_modules / plain, None, "times", True),
    ]


def main() -> None:
    """Measures all of them."""
    folder, output = map(pathlib.Path, sys.argv[1:])
    measured: list[Figure] = []
    for suite in SUITES:
        if suite.name in NAMES:
            for found in measure(suite, folder.absolute()):
                figures.show(found)
                measured.append(found)
    figures.write(output, measured)


if __name__ == "__main__":
    main()
