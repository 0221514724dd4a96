"""Every script's reply is the same through every server: status, reason, the script's own fields, and each byte of the body."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import pytest

import client
import processes
from cases import CASES, ERRORS, Case
from conftest import ALL_WAYS, REFERENCES, WAYS, Ask, Gateways
from differences import DIFFERENCES, NOT_APACHES, differences

Asker = Callable[[str], Ask]
BY_NAME = {case.name: case for case in [*CASES, *ERRORS]}
# The replies that the others are compared with, by the case's name.
known: dict[str, client.Reply] = {}


def comparable(reply: client.Reply, case: Case) -> client.Reply:
    """What of a reply is the script's: a length that it has not said is the server's own."""
    said = {name for name, _ in case.fields}
    own = reply.scripts_own()
    for name in ("content-length", *case.servers_own):
        if name not in said:
            own.pop(name, None)
    pairs = []
    for name in sorted(own):
        value = own[name]
        pairs += [(name, one) for one in ([value] if isinstance(value, str) else value)]
    reason = None if "reason" in case.servers_own else reply.reason
    body = b"" if "body" in case.servers_own else reply.body
    return client.Reply(reply.status, reason, tuple(pairs), body)


def reference_of(case: Case, asker: Asker) -> client.Reply:
    """The reply that the others are compared with."""
    if case.name not in known:
        way = REFERENCES[1] if case.name in NOT_APACHES else REFERENCES[0]
        known[case.name] = asker(way)(case.request)
    return known[case.name]


def check_facts(case: Case, reply: client.Reply) -> None:
    """What the case itself says of its reply."""
    assert reply.status == case.status, reply.body[:2000]
    if case.reason is not None and reply.reason is not None:
        assert reply.reason == case.reason
    assert case.shows in reply.body, reply.body[:2000]
    if case.whole is not None:
        assert reply.body == case.whole
    own = reply.scripts_own()
    for name, value in case.fields:
        assert value in own[name] if name == "set-cookie" else own[name] == value, own


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(CASES) + len(ERRORS)


@pytest.mark.parametrize("case", [case.name for case in CASES])
@pytest.mark.parametrize("way", WAYS)
def test_reply(way: str, case: str, asker: Asker) -> None:
    one = BY_NAME[case]
    reply = asker(way)(one.request)
    expected = comparable(reference_of(one, asker), one)
    found = differences(way, case)
    for difference in found:
        expected = difference.becomes(expected)
    if not found:
        check_facts(one, reply)
    got = comparable(reply, one)
    if got.reason is None or expected.reason is None:
        got, expected = replace(got, reason=None), replace(expected, reason=None)
    assert (got.status, got.reason, got.fields) == (expected.status, expected.reason, expected.fields)
    # Not by the assertion alone: bodies are of megabytes.
    if got.body != expected.body:
        at = next((i for i, pair in enumerate(zip(got.body, expected.body)) if pair[0] != pair[1]), -1)
        pytest.fail(
            f"{len(got.body)} bytes for {len(expected.body)}, first difference at {at}:\n"
            f"{got.body[max(at - 100, 0) :][:600]!r}\n{expected.body[max(at - 100, 0) :][:600]!r}"
        )


@pytest.mark.parametrize("case", [case.name for case in ERRORS])
@pytest.mark.parametrize("way", WAYS)
def test_errors_of_the_server_itself(way: str, case: str, asker: Asker) -> None:
    one = BY_NAME[case]
    reply = asker(way)(one.request)
    found = differences(way, case)
    expected = client.Reply(one.status, None, (), b"")
    for difference in found:
        expected = difference.becomes(expected)
    assert reply.status == expected.status


def test_differences_are_of_ways_and_cases_that_there_are() -> None:
    for difference in DIFFERENCES:
        for pattern in difference.cases:
            one = replace(difference, cases=(pattern,))
            assert any(one.holds_for(way, case) for way in ALL_WAYS for case in BY_NAME), f"{difference.ways}: {pattern}"
    assert set(NOT_APACHES) <= set(BY_NAME)


@functools.cache
def scripts() -> list[str]:
    """A case of every script, by its name."""
    seen: dict[str, str] = {}
    for case in CASES:
        path = case.request.path.split("?")[0].split("/")
        seen.setdefault(next(part for part in path if "." in part), case.name)
    return list(seen.values())


@pytest.mark.parametrize("mode", ["plain", "warm"])
def test_runs_are_recycled(mode: str, gateways: Gateways) -> None:
    """Every script comes to run in a recycled process, and most runs do. How many is the policy's decision, and the load's."""
    gateway = gateways.by_mode[mode]

    def is_recycled(name: str) -> bool:
        before = gateway.runs()
        gateways.road(mode, "http")(BY_NAME[name].request)
        after = gateway.runs()
        assert after.all > before.all
        return after.recycled - before.recycled == after.all - before.all

    # Before the first run there is no counter.
    gateways.road(mode, "http")(BY_NAME["plain"].request)
    for name in scripts():
        processes.wait_for(f"{name} is recycled", functools.partial(is_recycled, name))
    before = gateway.runs()
    for _ in range(20):
        for name in scripts():
            gateways.road(mode, "http")(BY_NAME[name].request)
    runs = gateway.runs()
    assert runs.all - before.all >= 20 * len(scripts())
    assert runs.recycled - before.recycled > (runs.all - before.all) / 2, runs
    if mode == "warm":
        assert runs.by_way.get("warm", 0) > 0, runs


def test_runs_are_not_recycled_where_that_is_not_wanted(gateways: Gateways) -> None:
    gateways.road("none", "http")(BY_NAME["plain"].request)
    runs = gateways.by_mode["none"].runs()
    assert runs.all > 0
    assert runs.recycled == 0, runs
