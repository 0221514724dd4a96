"""Has Celery's own integration tests meet the pool of `regrow.celery`: a plugin of pytest.

The tests ask for the prefork pool by its name. Where the variable `REGROW_TEST_CREATIONS` is set, that name is ours in this
session, and the file that the variable names is told at the end how many processes of tasks were made in which way.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

from celery import concurrency

#: The file, if the pool is ours.
TOLD = os.environ.get("REGROW_TEST_CREATIONS")
#: How the processes of tasks were made, of all pools of the session.
creations: Counter[str] = Counter()

if TOLD is not None:
    from regrow.celery import TaskPool

    concurrency.ALIASES["prefork"] = f"{__name__}:Pool"

    class Pool(TaskPool):
        """Ours, which notes how processes were made."""

        def on_stop(self) -> None:
            self._note()
            super().on_stop()

        def on_terminate(self) -> None:
            self._note()
            super().on_terminate()

        def _note(self) -> None:
            if self._jobs is not None:
                creations.update(self._jobs.creations)
                self._jobs.creations.clear()


def pytest_unconfigure() -> None:
    if TOLD is not None:
        Path(TOLD).write_text(json.dumps(creations))
