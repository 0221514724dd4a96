"""Has an image hold what makes the pickles of values: importing this is making one."""

from __future__ import annotations

from regrow import _cloud

_cloud.dumps((_cloud.dumps, _cloud.Dumps(None)))
