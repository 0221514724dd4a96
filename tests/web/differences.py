"""Where the reply of one way to serve differs from the others', each with its reason.

A difference says what the reply is instead, so that one that has gone is found as much as one that has come.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, replace

from client import Reply

Change = Callable[[Reply], Reply]


@dataclass(frozen=True)
class Difference:
    """For these ways and cases, the reply is the reference's after a change."""

    # Patterns as in file names.
    ways: str
    cases: tuple[str, ...]
    why: str
    becomes: Change

    def holds_for(self, way: str, case: str) -> bool:
        """Whether it is about this reply."""
        return fnmatch.fnmatchcase(way, self.ways) and any(fnmatch.fnmatchcase(case, pattern) for pattern in self.cases)


def swapped(old: bytes, new: bytes) -> Change:
    """The body with something else in it."""

    def change(reply: Reply) -> Reply:
        assert old in reply.body, f"{old!r} is not in {reply.body[:2000]!r}"
        return replace(reply, body=reply.body.replace(old, new))

    return change


def sent_to(location: str) -> Change:
    """A redirect that the client is to follow."""
    return lambda _: Reply(302, "Moved Temporarily", (("location", location),), b"")


# The cases whose reference is not Apache's reply, because that is the odd one.
NOT_APACHES: tuple[str, ...] = ()

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "nginx-fcgiwrap",
        ("nph",),
        "nginx has no scripts that write the whole reply: it leaves the status line out and takes 200.",
        lambda reply: replace(reply, status=200, reason="OK"),
    ),
    *(
        Difference("nginx-fcgiwrap", (case,), "nginx has no local redirects for FastCGI: the client gets the location.", change)
        for case, change in {
            "redirect-local": sent_to("/query.pl?from=local&a=%20b"),
            "redirect-local-post": sent_to("/query.pl?from=local&a=%20b"),
            "redirect-local-info": sent_to("/pathinfo.py/from/local?x=1"),
            "redirect-local-missing": sent_to("/there/is/none.pl"),
        }.items()
    ),
    Difference(
        "nginx-fcgiwrap",
        ("descriptors",),
        "fcgiwrap lets its scripts have a descriptor of its own.",
        swapped(b"open: 0 1 2\n", b"open: 0 1 2 3\n"),
    ),
    Difference(
        "nginx-fcgiwrap",
        ("missing", "missing-in-folder"),
        "fcgiwrap says the same of a script that is not there and of one that may not be run.",
        lambda reply: replace(reply, status=403),
    ),
    Difference(
        "apache-cgid",
        ("closed",),
        "Apache learns that a script may not be run when it cannot start it.",
        lambda reply: replace(reply, status=500),
    ),
)


def differences(way: str, case: str) -> list[Difference]:
    """What is known to be different in one reply."""
    return [difference for difference in DIFFERENCES if difference.holds_for(way, case)]
