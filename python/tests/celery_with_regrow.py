"""Has Celery's own integration tests meet the pool of `regrow.celery`: a plugin of pytest.

The tests ask for the prefork pool by its name. Where the variable `REGROW_TEST_POOL` is set, that name is ours in this session.
At its end a line says how many tasks were not in recycled processes.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from celery import concurrency

IS_OURS = "REGROW_TEST_POOL" in os.environ
#: How the processes of tasks were made, of all pools of the session.
creations: Counter[str] = Counter()

if IS_OURS:
    from regrow.celery import TaskPool

    concurrency.ALIASES["prefork"] = f"{__name__}:Pool"

    class Pool(TaskPool):
        """Ours, which notes how processes were made."""

        def on_stop(self) -> None:
            if self._jobs is not None:
                creations.update(self._jobs.creations)
            super().on_stop()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if IS_OURS:
        recycled = sum(count for name, count in creations.items() if name.startswith("recycled"))
        others = {name: count for name, count in creations.items() if not name.startswith("recycled")}
        terminalreporter.write_line(f"regrow: {sum(others.values())} not recycled: {others}, and {recycled} recycled")
