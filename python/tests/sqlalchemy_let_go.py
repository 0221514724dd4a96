"""A plugin for pytest beside the test suite of SQLAlchemy: closes what that has opened before the first test.

The suite connects to its database while it is configured and collected, and keeps the connection in its pool. An open file
cannot be in a warm image, as the guide says. A disposed engine connects again when a test asks for it.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Closes the connections of all engines that are the suite's own."""
    from sqlalchemy.testing import config  # type: ignore[import-not-found]

    for used in config.Config.all_configs():
        used.db.dispose()
