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


def sent_to(location: str, status: int) -> Change:
    """A redirect that the client is to follow, or that it would not know as one where the status is 200."""
    return lambda _: Reply(status, None, (("location", location),), b"")


# The cases whose reference is not Apache's reply, because that is the odd one.
NOT_APACHES: tuple[str, ...] = ()

LOCAL = {
    "redirect-local": "/query.pl?from=local&a=%20b",
    "redirect-local-post": "/query.pl?from=local&a=%20b",
    "redirect-local-info": "/pathinfo.py/from/local?x=1",
    "redirect-local-missing": "/there/is/none.pl",
}

DIFFERENCES: tuple[Difference, ...] = (
    *(
        Difference(
            ways,
            (case,),
            "A responder cannot have another path be answered: nginx and mod_proxy_fcgi give the client the location.",
            sent_to(location, status),
        )
        for ways, status in {"fcgiwrap-nginx": 302, "*-nginx-*": 302, "*-apache-*": 302, "fcgiwrap-apache": 200}.items()
        for case, location in LOCAL.items()
    ),
    Difference(
        "fcgiwrap-apache",
        ("redirect-client",),
        "mod_proxy_fcgi takes 200 where a script gives a location and no status, and fcgiwrap adds none.",
        lambda reply: replace(reply, status=200),
    ),
    Difference(
        "fcgiwrap-nginx",
        ("nph",),
        "nginx has no scripts that write the whole reply: it leaves the status line out and takes 200.",
        lambda reply: replace(reply, status=200, reason="OK"),
    ),
    Difference(
        "fcgiwrap-apache",
        ("nph",),
        "mod_proxy_fcgi has no scripts that write the whole reply: their status line is no header field.",
        lambda _: Reply(500, None, (), b""),
    ),
    Difference(
        "fcgiwrap-*",
        ("descriptors",),
        "fcgiwrap lets its scripts have a descriptor of its own.",
        swapped(b"open: 0 1 2\n", b"open: 0 1 2 3\n"),
    ),
    Difference(
        "fcgiwrap-*",
        ("missing", "missing-in-folder"),
        "fcgiwrap says the same of a script that is not there and of one that may not be run.",
        lambda reply: replace(reply, status=403),
    ),
    Difference(
        "cgid",
        ("closed",),
        "Apache learns that a script may not be run when it cannot start it.",
        lambda reply: replace(reply, status=500),
    ),
    Difference(
        "*-h[t2]*",
        ("query-bytes-raw",),
        "A byte that is neither ASCII nor UTF-8 is no part of a URI, and is refused (RFC 9112, 3.2); others pass it on.",
        lambda _: Reply(400, None, (), b""),
    ),
)


def differences(way: str, case: str) -> list[Difference]:
    """What is known to be different in one reply."""
    return [difference for difference in DIFFERENCES if difference.holds_for(way, case)]
