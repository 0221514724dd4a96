"""Regular expressions that tests compile: sessions learn them, and an image has them compiled.

    process    the patterns in `re`'s cache that were not there before its test ──> an event
    session    counts them; those of several processes go to pytest's own cache, `.pytest_cache`
    image      compiles what the cache names, before it stops

In one process a pattern is compiled once, and `re` keeps it. In a process for each test it would be compiled again and again: a
third of the time of tests of a parser. A compiled pattern cannot be changed, and one that Python warns of is left out, so
that a test sees no difference.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any, Optional

# Where they are in pytest's cache.
KEY = "regrow/patterns"

# The most that are kept. `re` keeps 512, and a test shall find room.
MOST = 256

# How many `re` keeps at least: a cache of fewer has lost none.
CACHED = 256

# The longest pattern that is kept, in characters.
LONGEST = 4096

# A pattern as it is sent and kept: its text, whether that stands for bytes (as Latin-1), and its flags.
Sent = tuple[str, bool, int]


def cached() -> dict[Any, Any]:
    """What `re` has compiled; nothing where it keeps that in a form of its own."""
    cache = getattr(re, "_cache", None)
    return cache if isinstance(cache, dict) else {}


def compiled_since(before: frozenset[Any]) -> list[Sent]:
    """The patterns in the cache of `re` that were not among these keys."""
    # A cache that is not full only grows: most tests compile nothing, and their process need not touch every key.
    if len(cached()) == len(before) < CACHED:
        return []
    return [sent for key in cached() if key not in before and (sent := sent_form(key)) is not None]


def sent_form(key: Any) -> Optional[Sent]:
    """A key of the cache in the form that is sent."""
    if not (isinstance(key, tuple) and len(key) == 3 and isinstance(key[2], int)):
        return None
    _, pattern, flags = key
    if not isinstance(pattern, (str, bytes)) or len(pattern) > LONGEST:
        return None
    is_bytes = isinstance(pattern, bytes)
    return pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern, is_bytes, int(flags)


def compile_ahead(kept: object) -> None:
    """Compiles the patterns that a session has kept; whatever is wrong with one of them is left for tests to meet."""
    for one in kept[:MOST] if isinstance(kept, list) else ():
        try:
            text, is_bytes, flags = one
            pattern = text.encode("latin-1") if is_bytes else text
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                re.compile(pattern, flags)
        except Exception:  # the file may hold anything, and a pattern may be none in this Python
            continue


class Patterns:
    """The session's side: counts in how many processes a pattern was compiled."""

    def __init__(self, kept: object) -> None:
        self._kept = [tuple(one) for one in kept if isinstance(one, list)] if isinstance(kept, list) else []
        self._seen: Counter[Sent] = Counter()

    def add(self, sent: Iterable[Sent]) -> None:
        """Takes what a process has compiled."""
        self._seen.update(sent)

    def worth_keeping(self) -> Optional[list[Any]]:
        """What the next session is to compile ahead; None if that is what this one had."""
        several = [one for one, count in self._seen.most_common(MOST) if count > 1 and one not in self._kept]
        return [*several, *self._kept][:MOST] if several else None
