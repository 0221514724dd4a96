"""What the tests share: the folder with the scripts, the servers that are the reference, and the gateway in all its ways."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

import client
import servers

# The ways in which a gateway runs scripts, with its options.
MODES: dict[str, list[str]] = {
    "plain": [],
    "warm": ["--perl-modules", "CGI,CGI::Cookie,Digest::MD5", "--warm-script"],
    "none": ["--no-recycle"],
}
# The ways in which a client reaches one.
ROADS = ("http", "h2c", "nginx-unix", "nginx-tcp", "apache-unix")
REFERENCES = ("cgid", "fcgiwrap-nginx", "fcgiwrap-apache")
ALL_WAYS = [*REFERENCES, *(f"{mode}-{road}" for mode in MODES for road in ROADS)]
# With warm scripts each road is taken, and with the others some: `make soak` takes all of them with each.
MORE_WAYS = {"plain-nginx-unix", "plain-nginx-tcp", "none-h2c", "none-nginx-tcp", "none-apache-unix"}
LEFT_OUT: set[str] = set() if os.environ.get("REGROW_LONG") else MORE_WAYS
WAYS = [way for way in ALL_WAYS if way not in LEFT_OUT]

Ask = Callable[[client.Request], client.Reply]


@pytest.fixture(scope="session")
def place() -> Iterator[servers.Place]:
    """The folder that everything lies in."""
    made = servers.Place()
    yield made
    made.remove()


@pytest.fixture(scope="session")
def reference(place: servers.Place) -> Iterator[dict[str, int]]:
    """The ports of the servers that the gateway is compared with."""
    with contextlib.ExitStack() as stack:
        fcgiwrap = servers.Fcgiwrap(place)
        stack.callback(fcgiwrap.stop)
        nginx = servers.Nginx(place, {"fcgiwrap": f"unix:{fcgiwrap.socket}"})
        stack.callback(nginx.stop)
        apache = servers.Apache(place, {"fcgiwrap": f"proxy:unix:{fcgiwrap.socket}|fcgi://localhost/"}, kind="GENERIC")
        stack.callback(apache.stop)
        yield dict(zip(REFERENCES, (apache.cgi, nginx.ports["fcgiwrap"], apache.ports["fcgiwrap"])))


@dataclass
class Gateways:
    """A gateway for each mode, with nginx and Apache in front of all of them."""

    by_mode: dict[str, servers.Gateway]
    nginx: servers.Nginx
    apache: servers.Apache

    def road(self, mode: str, road: str) -> Ask:
        """How a client asks by a road."""
        if road == "h2c":
            return lambda request: client.ask_h2c(self.by_mode[mode].http, request)
        if road == "http":
            port = self.by_mode[mode].http
        elif road.startswith("nginx"):
            port = self.nginx.ports[f"{mode}-{road}"]
        else:
            port = self.apache.ports[f"{mode}-{road}"]
        return lambda request: client.ask(port, request)


@pytest.fixture(scope="session")
def gateways(place: servers.Place) -> Iterator[Gateways]:
    """The gateway in all its ways."""
    with contextlib.ExitStack() as stack:
        by_mode = {}
        for mode, options in MODES.items():
            by_mode[mode] = servers.Gateway(place, options, [str(place.scripts)])
            stack.callback(by_mode[mode].stop)
        responders = {}
        handlers = {}
        for mode, gateway in by_mode.items():
            responders[f"{mode}-nginx-unix"] = f"unix:{gateway.socket}"
            responders[f"{mode}-nginx-tcp"] = f"127.0.0.1:{gateway.fastcgi_port}"
            handlers[f"{mode}-apache-unix"] = f"proxy:unix:{gateway.socket}|fcgi://localhost/"
        nginx = servers.Nginx(place, responders)
        stack.callback(nginx.stop)
        apache = servers.Apache(place, handlers)
        stack.callback(apache.stop)
        yield Gateways(by_mode, nginx, apache)


@pytest.fixture
def asker(request: pytest.FixtureRequest) -> Callable[[str], Ask]:
    """Gives how a client asks in one of WAYS; starts what that needs, and nothing else."""

    def by(way: str) -> Ask:
        if way in REFERENCES:
            ports: dict[str, int] = request.getfixturevalue("reference")
            return lambda asked: client.ask(ports[way], asked)
        gateways: Gateways = request.getfixturevalue("gateways")
        mode, road = way.split("-", 1)
        return gateways.road(mode, road)

    return by
