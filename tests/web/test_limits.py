"""How many connections there may be: those by one protocol keep no client of another waiting, and an unused one ends."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import client
import processes
import servers
import test_fastcgi
import test_http2
from test_http2 import DATA, END_STREAM, HEADERS, PING, SETTINGS
from watched import plain, started, watched

MOST = 2
# More than there may be: what is beyond is taken by the kernel, and waits.
MANY = 3 * MOST
# An unused connection of HTTP/2 ends within some of the seconds of `--idle-timeout`; one that never ends pings so often.
MOST_PINGS = 600
PAUSE_S = 0.1


@pytest.fixture(scope="module")
def gateway(place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway that allows few connections, and keeps those that are open."""
    limits = ["--max-connections", str(MOST), "--max-fastcgi-connections", str(MOST), "--max-metrics-connections", str(MOST)]
    with servers.serving(place, *limits, "--idle-timeout", "3600", "--header-timeout", "3600") as made:
        yield made


@pytest.fixture(scope="module")
def strict(place: servers.Place) -> Iterator[servers.Gateway]:
    """A gateway that waits a second for a client."""
    with servers.serving(place, "--idle-timeout", "1", "--header-timeout", "1") as made:
        yield made


def by_fastcgi(gateway: servers.Gateway) -> socket.socket:
    """A connection of a web server."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(client.PATIENCE_S)
    made.connect(str(gateway.socket))
    return made


def answers_fastcgi(place: servers.Place, gateway: servers.Gateway) -> None:
    """A web server is answered."""
    with test_fastcgi.Connection(gateway) as connection:
        connection.send(test_fastcgi.request(place, "/plain.sh"))
        assert connection.answer().out.endswith(b"still here\n")


def has(connection: socket.socket) -> bool:
    """Whether something has come, or the other side has closed."""
    connection.settimeout(1)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    return True


def test_connections_by_http_keep_nobody_else_waiting(place: servers.Place, gateway: servers.Gateway) -> None:
    held = [client.connect(gateway.http) for _ in range(MANY)]
    try:
        answers_fastcgi(place, gateway)
        # That of the web server may be counted for a moment longer.
        counted = f"regrow_web_connections {MOST}\n"
        processes.wait_for("the connections by HTTP alone", lambda: counted in gateway.metrics())
        # Those that are beyond the limit are not answered, though they ask.
        held[-1].sendall(client.head_of(client.Request("/plain.sh"), "127.0.0.1"))
        assert not has(held[-1])
    finally:
        for connection in held:
            connection.close()
    plain(gateway)


def test_connections_by_fastcgi_keep_nobody_else_waiting(place: servers.Place, gateway: servers.Gateway) -> None:
    held = [by_fastcgi(gateway) for _ in range(MANY)]
    try:
        plain(gateway)
        assert "regrow_web_runs_total" in gateway.metrics()
        held[-1].sendall(test_fastcgi.request(place, "/plain.sh"))
        assert not has(held[-1])
    finally:
        for connection in held:
            connection.close()
    answers_fastcgi(place, gateway)


def test_connections_to_the_metrics_keep_nobody_else_waiting(place: servers.Place, gateway: servers.Gateway) -> None:
    held = [client.connect(gateway.metrics_port) for _ in range(MANY)]
    try:
        plain(gateway)
        answers_fastcgi(place, gateway)
        held[-1].sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert not has(held[-1])
    finally:
        for connection in held:
            connection.close()
    assert "regrow_web_runs_total" in gateway.metrics()


def pinged_until_it_ends(connection: socket.socket) -> int:
    """Answers and sends pings until the other side has closed. Returns how many were sent."""
    connection.settimeout(PAUSE_S)
    for sent in range(1, MOST_PINGS + 1):
        try:
            connection.sendall(test_http2.frame(PING, 0, 0, b"12345678"))
            while piece := connection.recv(1 << 16):
                # A ping of the gateway's, wherever in the piece it stands.
                if (at := piece.find(b"\0\0\x08\x06\0\0\0\0\0")) >= 0:
                    connection.sendall(test_http2.frame(PING, 1, 0, piece[at + 9 : at + 17]))
            return sent
        except TimeoutError:
            time.sleep(PAUSE_S)
        except (BrokenPipeError, ConnectionResetError):
            return sent
    pytest.fail(f"a connection lives that has sent {MOST_PINGS} pings and nothing else")


def test_a_connection_that_only_pings_ends(strict: servers.Gateway) -> None:
    with watched(strict) as seen:
        with test_http2.opened(strict) as connection:
            connection.sendall(test_http2.headers(1, "/plain.sh"))
            for kind, flags, stream, _ in test_http2.frames(connection):
                if stream == 1 and kind in (DATA, HEADERS) and flags & END_STREAM:
                    break
            assert pinged_until_it_ends(connection) > 1
        seen.logged = [200]


def test_a_connection_that_takes_no_reply_and_pings_ends(strict: servers.Gateway) -> None:
    """The client leaves no room for the reply: a window of no bytes."""
    with watched(strict) as seen:
        with client.connect(strict.http) as connection:
            no_window = struct.pack(">HI", 4, 0)
            connection.sendall(test_http2.PREFACE + test_http2.frame(SETTINGS, 0, 0, no_window))
            connection.sendall(test_http2.headers(1, "/plain.sh"))
            assert pinged_until_it_ends(connection) > 1
        seen.logged = None


@pytest.mark.parametrize("ask", [client.ask, client.ask_h2c], ids=["http", "h2c"])
def test_a_client_waits_for_a_slow_process_as_long_as_it_takes(
    ask: Callable[[int, client.Request], client.Reply], strict: servers.Gateway
) -> None:
    with watched(strict) as seen, ThreadPoolExecutor(1) as clients:
        reply = clients.submit(ask, strict.http, client.Request("/waits.sh"))
        processes.wait_for("the script has begun", lambda: started(strict) > 0)
        # Several times the time that a client may be idle.
        time.sleep(4)
        assert not reply.done()
        (strict.notes / "go").touch()
        assert reply.result().body == b"waited\n"
        seen.logged = [200]
