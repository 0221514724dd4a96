"""Four times as many clients as the gateway has room for: each is answered, with 200 or with 503, and nothing grows.

REGROW_LOAD_SECONDS says how long each kind of load lasts; 5 by default.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator

import pytest

import client
import processes
import servers

SECONDS = int(os.environ.get("REGROW_LOAD_SECONDS", "5"))
# The load that lasts.
LONGER = min(3 * SECONDS, 60)
# How long a load lasts before memory is measured.
WARM_UP = max(SECONDS // 5, 1)
# Requests that are answered at a time, and that wait.
ROOM, QUEUE = 4, 4
CLIENTS = 4 * (ROOM + QUEUE)
# A script that takes 0.4 s: of those that ask for it by new connections some are refused. Those that ask for a quick one the
# gateway may answer as fast as it accepts them.
SLOW = "/pieces.pl"
SLOWLY = max(SECONDS // 2, 3)


@pytest.fixture(scope="module", params=["recycled", "executed"])
def gateway(request: pytest.FixtureRequest, place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway with little room."""
    options = ["--max-requests", str(ROOM), "--max-queue", str(QUEUE), "--queue-timeout", "60"]
    options += ["--no-recycle"] if request.param == "executed" else ["--perl-modules", "CGI"]
    with servers.serving(place, *options, served=[str(place.scripts)]) as made:
        yield made


def wrk(port: int, path: str, seconds: int = SECONDS) -> dict[int, int]:
    """The statuses of the replies under wrk's load."""
    command = ["wrk", "--threads", "2", "--connections", str(CLIENTS), "--duration", f"{seconds}s", "--timeout", "120s"]
    command += ["--script", str(servers.HERE / "statuses.lua"), f"http://127.0.0.1:{port}{path}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "broken: 0" in done.stdout, done.stdout
    return {int(status): int(count) for status, count in re.findall(r"^status (\d+): (\d+)$", done.stdout, re.MULTILINE)}


def ab(port: int, path: str, *options: str, seconds: int = SECONDS) -> tuple[int, int]:
    """How many requests ab made, and how many replies were not 200."""
    command = ["ab", "-q", "-l", "-t", str(seconds), "-n", "10000000", "-c", str(CLIENTS), "-s", "120", *options]
    done = subprocess.run([*command, f"http://127.0.0.1:{port}{path}"], check=True, capture_output=True, text=True)

    def number(what: str) -> int:
        found = re.search(rf"^{what}:\s+(\d+)", done.stdout, re.MULTILINE)
        return int(found[1]) if found else 0

    assert number("Failed requests") == 0, done.stdout
    return number("Complete requests"), number("Non-2xx responses")


def statuses(gateway: servers.Gateway) -> dict[int, int]:
    """The replies that the gateway has counted."""
    found = re.findall(r'^regrow_web_replies_total\{status="(\d+)"\} (\d+)', gateway.metrics(), re.MULTILINE)
    return {int(status): int(count) for status, count in found}


def check_answers(gateway: servers.Gateway) -> None:
    """Every reply is 200 or 503. Clients without a reply (499) went away when a load ended."""
    found = statuses(gateway)
    assert {200} <= set(found) <= {200, 499, 503}, found
    # Each load, of which there are fewer than twenty, ends with its clients going away.
    assert found.get(499, 0) <= 20 * CLIENTS, found


def check_calm(gateway: servers.Gateway) -> None:
    """After the load, all is as it was before one."""
    processes.wait_for("nothing is under way", lambda: "regrow_web_under_way 0" in gateway.metrics())
    assert "regrow_web_waiting 0" in gateway.metrics()
    for _ in range(20):
        assert client.get(gateway.http, "/plain.sh").body == b"hello by GET\n"
    # None of the processes is a script's: each has answered, and its group is gone.
    assert processes.descriptors(gateway.pid) < 500


@pytest.mark.parametrize("path", ["/plain.sh", "/form.pl?a=1&b=2"])
def test_wrk(path: str, gateway: servers.Gateway) -> None:
    wrk(gateway.http, path, WARM_UP)
    before = processes.anonymous_kib(gateway.pid)
    found = wrk(gateway.http, path)
    # The gateway may be quick enough that nobody waits.
    assert {200} <= set(found) <= {200, 503}, found
    assert processes.anonymous_kib(gateway.pid) < before + (16 << 10)
    check_answers(gateway)
    check_calm(gateway)


@pytest.mark.parametrize("options", [[], ["-k"]], ids=["closed", "kept"])
def test_ab(options: list[str], gateway: servers.Gateway) -> None:
    ab(gateway.http, "/plain.sh", *options, seconds=WARM_UP)
    before = processes.anonymous_kib(gateway.pid)
    made, refused = ab(gateway.http, "/plain.sh", *options)
    assert refused < made
    # On a machine that has other work no slow one may end before a short load does.
    answered = 0
    for _ in range(10):
        made, refused = ab(gateway.http, SLOW, *options, seconds=SLOWLY)
        assert refused > 0
        answered += made - refused
        if answered > 0:
            break
    assert answered > 0
    assert processes.anonymous_kib(gateway.pid) < before + (16 << 10)
    check_answers(gateway)
    check_calm(gateway)


@pytest.mark.parametrize("gateway", ["recycled"], indirect=True)
def test_load_that_lasts(gateway: servers.Gateway) -> None:
    """What the other loads do for a while, for longer: nothing grows."""
    wrk(gateway.http, "/form.pl?a=1&b=2", WARM_UP)
    before = processes.anonymous_kib(gateway.pid)
    found = wrk(gateway.http, "/form.pl?a=1&b=2", LONGER)
    assert {200} <= set(found) <= {200, 503}, found
    made, refused = ab(gateway.http, "/plain.sh", seconds=LONGER)
    assert refused < made
    assert processes.anonymous_kib(gateway.pid) < before + (16 << 10)
    check_answers(gateway)
    check_calm(gateway)


def test_load_through_nginx(place: servers.Place, gateway: servers.Gateway) -> None:
    nginx = servers.Nginx(place, {"gateway": f"unix:{gateway.socket}"})
    try:
        found = wrk(nginx.ports["gateway"], "/plain.sh")
        assert {200} <= set(found) <= {200, 503}, found
        found = {}
        for _ in range(10):
            found = wrk(nginx.ports["gateway"], SLOW, SLOWLY)
            assert {503} <= set(found) <= {200, 503}, found
            if 200 in found:
                break
        assert 200 in found, found
    finally:
        nginx.stop()
    check_calm(gateway)


def test_load_with_scripts_that_are_broken_off(gateway: servers.Gateway) -> None:
    """Clients that ask for much and go away, as fast as they can, for as long as a load lasts."""
    end = time.monotonic() + SECONDS
    broken = 0
    while time.monotonic() < end:
        with client.connect(gateway.http) as connection:
            connection.sendall(b"GET /large.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if broken % 2:
                connection.recv(1)
        broken += 1
    assert broken > 10
    check_calm(gateway)
