"""Clients that misbehave and scripts that misbehave: the gateway answers as it should, and nothing is left of them."""

from __future__ import annotations

import hashlib
import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import client
import processes
import servers
from client import Request
from watched import Misuse, few_descriptors, noted, plain, sockets, started, watched

Gateway = servers.Gateway
# Far longer than any test takes.
NEVER = ["--timeout", "3600", "--idle-timeout", "3600", "--header-timeout", "3600", "--queue-timeout", "3600"]
MIB = 1 << 20
# How often a misuse is repeated before more and more descriptors are a loss.
ROUNDS = 10
# What a client notices of a reply that is not whole.
BROKEN_OFF = (http.client.IncompleteRead, ConnectionResetError)


@pytest.fixture(scope="module", params=["recycled", "executed"])
def patient(request: pytest.FixtureRequest, place: servers.Place) -> Iterator[Gateway]:
    """A gateway that waits for everybody."""
    options = [] if request.param == "recycled" else ["--no-recycle"]
    with servers.serving(place, *NEVER, *options) as made:
        yield made


@pytest.fixture(scope="module")
def strict(place: servers.Place) -> Iterator[Gateway]:
    """A gateway that waits for nobody."""
    limits = ["--timeout", "3", "--idle-timeout", "2", "--header-timeout", "2", "--max-header", "16K", "--max-body", "1M"]
    with servers.serving(place, *limits) as made:
        yield made


def repeated(gateway: Gateway, misuse: Callable[[Misuse], None], *, ran: bool | None = True) -> None:
    """Does something until it leaves no more descriptors than before.

    A gateway that recycles keeps more bodies of what is asked for more, up to a limit; one that loses some never gets there.
    """
    with watched(gateway, ran=ran) as first:
        misuse(first)
    counts = [sockets(gateway.pid)]
    for _ in range(ROUNDS):
        with watched(gateway, ran=ran) as again:
            misuse(again)
        if few_descriptors(gateway, counts[-1]):
            return
        counts.append(sockets(gateway.pid))
    pytest.fail(f"descriptors, time after time: {counts}")


def cut_off(connection: socket.socket) -> bytes:
    """Reads until the other side closes, however it does."""
    got = b""
    try:
        while piece := connection.recv(1 << 16):
            got += piece
    except ConnectionResetError:
        pass
    return got


def asked(gateway: Gateway, path: str, extra: bytes = b"") -> socket.socket:
    """A connection on which something has been asked for."""
    connection = client.connect(gateway.http)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + extra + b"\r\n")
    return connection


def test_a_header_that_never_ends(strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with client.connect(strict.http) as connection:
            connection.sendall(b"GET /plain.sh HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            try:
                for number in range(1 << 20):
                    connection.sendall(b"X-%d: and on and on and on and on and on and on and on and on\r\n" % number)
            except (BrokenPipeError, ConnectionResetError):
                pass
            else:
                pytest.fail("64 MiB of a header were taken")
        seen.logged = None

    repeated(strict, misuse, ran=False)


@pytest.mark.parametrize(
    "head",
    [b"X: " + b"x" * 20000, b"".join(b"X-%d: y\r\n" % number for number in range(3000))],
    ids=["one-long-field", "many-fields"],
)
def test_a_header_that_is_too_large(head: bytes, strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with asked(strict, "/plain.sh", head.removesuffix(b"\r\n") + b"\r\n") as connection:
            assert client.receive(connection).status == 431
        seen.logged = None

    repeated(strict, misuse, ran=False)


@pytest.mark.parametrize(
    "part", [b"", b"GET /pl", b"GET /plain.sh HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A"], ids=["none", "line", "field"]
)
def test_a_header_that_stops(part: bytes, strict: Gateway) -> None:
    """A connection that says nothing is closed; one that has begun to is told why."""

    def misuse(seen: Misuse) -> None:
        with client.connect(strict.http) as connection:
            connection.sendall(part)
            answer = cut_off(connection)
            assert answer.startswith(b"HTTP/1.1 408") if part else answer in (b"",) or answer.startswith(b"HTTP/1.1 408")
        seen.logged = None

    repeated(strict, misuse, ran=False)


def test_a_header_that_comes_a_byte_at_a_time(strict: Gateway) -> None:
    """The time is that of the whole header: a byte now and then does not lengthen it."""

    def misuse(seen: Misuse) -> None:
        with client.connect(strict.http) as connection:
            connection.settimeout(0.2)
            connection.sendall(b"GET /plain.sh HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
            answer = b""
            for _ in range(600):
                try:
                    connection.sendall(b"a")
                    answer = connection.recv(4096)
                    break
                except TimeoutError:
                    continue
                except (BrokenPipeError, ConnectionResetError):
                    break
            else:
                pytest.fail("two minutes of a header were waited for")
            assert answer.startswith(b"HTTP/1.1 408"), answer
        seen.logged = None

    repeated(strict, misuse, ran=False)


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n", b"Transfer-Encoding: chunked\r\n"], ids=["length", "chunks"])
def test_a_body_that_stops(head: bytes, strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with client.connect(strict.http) as connection:
            connection.sendall(b"POST /reads.py HTTP/1.1\r\nHost: 127.0.0.1\r\n" + head + b"\r\n5\r\n12345\r\n")
            assert client.receive(connection).status == 408
        seen.logged = [408]

    # Whether a script is started before the first byte of a body has come, or when it is whole, is the gateway's affair.
    repeated(strict, misuse, ran=None)


def test_a_reply_that_nobody_reads(strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with asked(strict, "/endless.cgi?10000000000") as connection:
            # Nothing is read until the script is gone.
            processes.wait_for("the script has begun", lambda: (strict.notes / "pids").exists())
            pids = [int(line) for line in (strict.notes / "pids").read_text().split()]
            processes.wait_for("the script is gone", lambda: not any(processes.exists(pid) for pid in pids))
            assert len(cut_off(connection)) < 100 * MIB
        # 504 or 499: the script is late, and the client has gone, whichever the gateway sees first.
        seen.logged = [None]

    repeated(strict, misuse)


def test_a_reply_that_is_taken_slowly(strict: Gateway) -> None:
    """A script has its time and no more, though there is always something to pass on, and the client takes it."""

    def misuse(seen: Misuse) -> None:
        with asked(strict, "/endless.cgi") as connection:
            processes.wait_for("the script has begun", lambda: (strict.notes / "pids").exists())
            pids = [int(line) for line in (strict.notes / "pids").read_text().split()]
            end = time.monotonic() + processes.PATIENCE_S
            while any(processes.exists(pid) for pid in pids):
                assert time.monotonic() < end, "the script goes on"
                connection.recv(1 << 16)
                time.sleep(0.2)
            cut_off(connection)
        # As above.
        seen.logged = [None]

    repeated(strict, misuse)


@pytest.mark.parametrize("query", ["", "head"])
def test_a_client_that_goes_away(query: str, patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with asked(patient, f"/sleeps.sh?{query}") as connection:
            processes.wait_for("the script has begun", lambda: started(patient) > 0)
            if query:
                assert connection.recv(10).startswith(b"HTTP/1.1 2")
        seen.logged = [None]

    repeated(patient, misuse)


def test_clients_that_go_away_in_numbers(patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        connections = [asked(patient, "/sleeps.sh") for _ in range(20)]
        processes.wait_for("all scripts have begun", lambda: started(patient) == 20)
        for connection in connections:
            connection.close()
        seen.logged = [None] * 20

    repeated(patient, misuse)


def test_a_client_that_goes_away_while_it_sends(patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with client.connect(patient.http) as connection:
            connection.sendall(b"POST /reads.py HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * MIB)
            processes.wait_for("the script has begun", lambda: started(patient) > 0)
        seen.logged = [None]

    repeated(patient, misuse)


def test_a_script_that_leaves_a_child(patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        # The child keeps the output open for a day: whoever waits for that never gets the reply.
        assert client.get(patient.http, "/leaves.py").body == b"all that there is\n"
        seen.logged = [200]

    repeated(patient, misuse)


def test_a_script_that_leaves_a_daemon(patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        assert client.get(patient.http, "/daemon.py").body == b"all that there is\n"
        seen.logged = [200]

    repeated(patient, misuse)


def test_a_script_with_a_helper_in_a_session_of_its_own(patient: Gateway) -> None:
    """The gateway does not take the helper for an orphan while its script runs, though other scripts end and sweeps pass."""

    def misuse(seen: Misuse) -> None:
        asked = 0
        with ThreadPoolExecutor(1) as clients:
            reply = clients.submit(client.get, patient.http, "/helper.py")
            processes.wait_for("the helper is there", lambda: bool(noted(patient)))
            # Several sweeps take place meanwhile: one every quarter of a second.
            for _ in range(20):
                plain(patient)
                asked += 1
                time.sleep(0.05)
            assert not reply.done()
            (patient.notes / "go").touch()
            assert reply.result().body == b"helped\n"
        seen.logged = [200] * (asked + 1)

    repeated(patient, misuse)


@pytest.mark.parametrize(
    "how", ["nothing", "text", "unfinished", "colon", "blank", "return", "zero", "status", "empty", "endless"]
)
def test_a_script_without_a_header(how: str, patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        reply = client.get(patient.http, f"/headless.sh?{how}")
        assert (reply.status, b"body" in reply.body) == (502, False)
        seen.logged = [502]

    repeated(patient, misuse)


def test_a_reply_without_end(patient: Gateway) -> None:
    """10 GiB are on their way; the client takes 16 MiB and goes."""

    def misuse(seen: Misuse) -> None:
        with asked(patient, f"/endless.cgi?{10 << 30}") as connection:
            left = 16 * MIB
            while left > 0:
                left -= len(connection.recv(1 << 16))
        assert processes.anonymous_kib(patient.pid) < 100 << 10
        seen.logged = [499]

    repeated(patient, misuse)


def test_a_large_reply_arrives_and_is_not_kept(patient: Gateway) -> None:
    with watched(patient) as seen, asked(patient, f"/endless.cgi?{MIB << 10}", b"Connection: close\r\n") as connection:
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        length = 0
        while piece := answer.read(1 << 20):
            length += len(piece)
            assert piece.count(b"e") == len(piece)
        assert length == MIB << 10
        seen.logged = [200]


@pytest.mark.parametrize("query", ["", "head"])
def test_a_script_that_never_ends(query: str, strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with asked(strict, f"/sleeps.sh?{query}") as connection:
            if query:
                with pytest.raises(BROKEN_OFF):
                    client.receive(connection)
            else:
                assert client.receive(connection).status == 504
        seen.logged = [504]

    repeated(strict, misuse)


@pytest.mark.parametrize("how", ["before", "within"])
def test_a_script_that_dies_before_its_header_is_whole(how: str, patient: Gateway) -> None:
    for _ in range(3):
        assert client.get(patient.http, f"/crashes.cgi?{how}").status == 502
    plain(patient)


@pytest.mark.parametrize("how", ["behind", "kill"])
def test_a_script_that_dies_behind_its_header(how: str, patient: Gateway) -> None:
    """A reply that is not whole does not look as if it were."""
    for _ in range(3):
        with (
            asked(patient, f"/crashes.cgi?{how}") as connection,
            pytest.raises(BROKEN_OFF),
        ):
            client.receive(connection)
    plain(patient)


def test_a_script_that_is_noisy(patient: Gateway) -> None:
    said = patient.said.stat().st_size

    def misuse(seen: Misuse) -> None:
        assert client.get(patient.http, "/noisy.py").body == b"first half\nsecond half\n"
        seen.logged = [200]

    repeated(patient, misuse)
    assert patient.said.stat().st_size - said < MIB


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_is_too_large(chunked: bool, strict: Gateway) -> None:
    request = Request(
        "/reads.py", "POST", body=None if chunked else b"x" * (2 * MIB), chunks=(b"x" * 65536,) * 32 if chunked else None
    )

    def misuse(seen: Misuse) -> None:
        try:
            assert client.ask(strict.http, request).status == 413
        except ConnectionResetError:
            # What is sent on behind an answer may wipe the answer out: TCP does that.
            pass
        seen.logged = [413]

    with watched(strict, ran=True) as seen:
        misuse(seen)
        # One that is just as large as it may be, so that a script has run in any case.
        assert client.ask(strict.http, Request("/reads.py", "POST", body=b"x" * MIB)).status == 200
        seen.logged = [413, 200]


def test_a_body_that_says_that_it_is_too_large_is_not_taken(strict: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        with client.connect(strict.http) as connection:
            connection.sendall(b"POST /reads.py HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n")
            assert client.receive(connection).status == 413
        seen.logged = [413]

    repeated(strict, misuse, ran=False)


def test_a_body_of_4_gib(patient: Gateway) -> None:
    """The slow one: every byte goes to the script, and none of them is kept."""
    block = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(32768))
    count = (4 << 30) // len(block)
    digest = hashlib.sha1(usedforsecurity=False)
    with watched(patient) as seen, client.connect(patient.http) as connection:
        head = f"POST /reads.py HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {count * len(block)}\r\n\r\n"
        connection.sendall(head.encode())
        for _ in range(count):
            connection.sendall(block)
            digest.update(block)
        reply = client.receive(connection)
        assert reply.body.decode() == f"{4 << 30} {4 << 30} {digest.hexdigest()}\n"
        seen.logged = [200]


@pytest.mark.parametrize("options", [[], ["--no-recycle"]], ids=["recycled", "executed"])
def test_a_script_that_writes_while_it_reads(options: list[str], place: servers.Place) -> None:
    """A reply that is as long as the body and begins before that has ended, which takes a server that does both at once."""
    block = bytes(range(256)) * 256
    head = "POST /echo.cgi?at-once HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: a/b\r\n"
    head += f"Content-Length: {len(block) * 1000}\r\n\r\n"
    with (
        servers.serving(place, *NEVER, *options, served=[str(place.scripts)]) as gateway,
        client.connect(gateway.http) as connection,
    ):

        def send() -> None:
            connection.sendall(head.encode())
            for _ in range(1000):
                connection.sendall(block)

        sender = threading.Thread(target=send)
        sender.start()
        reply = client.receive(connection)
        sender.join()
        assert reply.body == block * 1000


def test_a_body_that_nobody_reads(patient: Gateway) -> None:
    def misuse(seen: Misuse) -> None:
        reply = client.ask(patient.http, Request("/plain.sh", "POST", body=b"x" * (64 << 10)))
        assert (reply.status, reply.body) == (200, b"still here\n")
        seen.logged = [200]

    repeated(patient, misuse)


def test_the_limit_of_memory(place: servers.Place) -> None:
    with servers.serving(place, *NEVER, "--memory", "512M") as gateway, watched(gateway) as seen:
        for _ in range(3):
            assert client.get(gateway.http, "/eats.py?100").body == b"had 104857600\n"
            assert client.get(gateway.http, "/eats.py?1000").body == b"refused\n"
        seen.logged = [200] * 6
    with servers.serving(place, *NEVER) as gateway:
        assert client.get(gateway.http, "/eats.py?1000").body == b"had 1048576000\n"
