"""`python -m regrow`: what the package does on a command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Optional

from regrow import _preload


def main(words: Optional[Sequence[str]] = None) -> int:
    """Carries out a command, and gives its exit status."""
    parser = argparse.ArgumentParser(prog="python -m regrow", description="Fresh processes of Python out of kept interpreters.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    check = commands.add_parser(
        "check-preload",
        help="what modules do when they are imported, and whether Regrow can keep them",
        description="Imports each module in a fresh interpreter, shows what that takes and what it leaves open, and has "
        "Regrow make an image with it. The exit status is 1 if a module cannot be preloaded.",
    )
    check.add_argument("modules", nargs="+", metavar="MODULE", help="a name, as in an import statement")
    check.add_argument("--json", action="store_true", help="print one JSON object, for programs")
    check.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS", help="how long an import may take (default: %(default)s)"
    )
    check.set_defaults(run=_preload.run)
    options = parser.parse_args(words)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
