"""gitweb, a large Perl program that starts others, unmodified: the same through every server, and right in a browser.

Screenshots of what the browser shows go to the folder that REGROW_WEB_PICTURES names, by default one in the temporary folder.
"""

from __future__ import annotations

import contextlib
import html
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import client
import gitweb
import servers

WAYS = ["fcgiwrap-nginx", "nginx", "http", "folder", "h2c"]
PAGES = {
    "projects": "",
    "summary": "?p=orchard.git;a=summary",
    "shortlog": "?p=orchard.git;a=shortlog",
    "log": "?p=orchard.git;a=log",
    "tree": "?p=orchard.git;a=tree;f=tools;hb=main",
    "blob": "?p=orchard.git;a=blob;f=tools/ladder.c;hb=main",
    "blob_plain": "?p=orchard.git;a=blob_plain;f=binary.dat;hb=main",
    "blame": "?p=orchard.git;a=blame;f=trees.txt;hb=main",
    "history": "?p=orchard.git;a=history;f=trees.txt;hb=main",
    "commit": "?p=orchard.git;a=commit;h={pear}",
    "commitdiff": "?p=orchard.git;a=commitdiff;h={pear}",
    "commitdiff_plain": "?p=orchard.git;a=commitdiff_plain;h={pear}",
    "patch": "?p=orchard.git;a=patch;h={pear}",
    "tag": "?p=orchard.git;a=tag;h=refs/tags/v1.0",
    "heads": "?p=orchard.git;a=heads",
    "search": "?p=orchard.git;a=search;h=HEAD;st=commit;s=ladder",
    "snapshot": "?p=orchard.git;a=snapshot;h=main;sf=tgz",
    "atom": "?p=orchard.git;a=atom",
    "rss": "?p=orchard.git;a=rss",
    "opml": "?a=opml",
    "project_index": "?a=project_index",
    "missing_project": "?p=desert.git",
    "missing_commit": "?p=orchard.git;a=commit;h=0123456789012345678901234567890123456789",
    "malformed": "?p=orchard.git;a=nonsense",
}
# The path behind the script says what is asked for; where gitweb is at `/` it is without the slash that a path begins with.
DEEP = "orchard.git/tree/main:/tools"
STATUSES = {"missing_project": 404, "missing_commit": 404, "malformed": 400}


@dataclass
class Served:
    """gitweb in all ways."""

    orchard: gitweb.Orchard
    # Port and the path that gitweb is at.
    ways: dict[str, tuple[int, str]]
    gateway: servers.Gateway

    def page(self, page: str) -> str:
        """What stands behind gitweb's path."""
        return PAGES[page].format(pear=self.orchard.commit("main~1"))

    def ask(self, way: str, page: str) -> client.Reply:
        """Asks for a page."""
        port, at = self.ways[way]
        request = client.Request(f"{at}{self.page(page)}", headers=(("User-Agent", "regrow"),))
        return client.ask_h2c(port, request) if way == "h2c" else client.ask(port, request)


@pytest.fixture(scope="module")
def served(place: servers.Place) -> Iterator[Served]:
    """gitweb behind every server."""
    with contextlib.ExitStack() as stack:
        orchard = gitweb.Orchard(place)
        options = ["--env", f"GITWEB_CONFIG={orchard.config}", "--warm-script", "--perl-modules", "CGI,CGI::Carp,Encode"]
        program = servers.Gateway(place, [*options, "--program"], ["--", gitweb.CGI])
        stack.callback(program.stop)
        folder = servers.Gateway(place, options, [str(Path(gitweb.CGI).parent)])
        stack.callback(folder.stop)
        fcgiwrap = servers.Fcgiwrap(place)
        stack.callback(fcgiwrap.stop)
        ports = {way: servers.free_port() for way in ("fcgiwrap-nginx", "nginx", "cgid")}
        lines = gitweb.nginx_lines(ports["nginx"], f"unix:{program.socket}", orchard.config)
        lines += gitweb.nginx_lines(ports["fcgiwrap-nginx"], f"unix:{fcgiwrap.socket}", orchard.config)
        nginx = servers.Nginx(place, {}, more=lines, probe=ports["nginx"])
        stack.callback(nginx.stop)
        apache = servers.Apache(place, {}, more=gitweb.apache_lines(ports["cgid"], "cgi-script", orchard.config))
        stack.callback(apache.stop)
        ways = {way: (port, "/gitweb") for way, port in ports.items()}
        ways["http"] = ways["h2c"] = (program.http, "/")
        ways["folder"] = (folder.http, "/gitweb.cgi")
        yield Served(orchard, ways, program)


def normal(body: bytes, at: str) -> bytes:
    """A page without the port that it was asked for at, and without the name that gitweb has there."""
    body = re.sub(rb"127\.0\.0\.1(:\d+)?", b"127.0.0.1", body)
    # Who served it is told in a comment or in the generator's name.
    body = re.sub(rb"(Apache|nginx|regrow)/[^<\"\s]*( \(\w+\))?", b"server", body)
    return re.sub(rb'(["\'/.1])' + re.escape(at.encode()) + rb"(?=[/?\"'<])", rb"\1@", body) if at else body


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("way", WAYS)
def test_pages_are_those_of_apache(way: str, page: str, served: Served) -> None:
    """Apart from addresses, each byte: the ones with another path are compared where that shows nowhere."""
    expected, got = served.ask("cgid", page), served.ask(way, page)
    assert expected.status == STATUSES.get(page, 200)
    assert got.status == expected.status
    assert got.values("content-type") == expected.values("content-type")
    if served.ways[way][1] == served.ways["cgid"][1]:
        assert normal(got.body, "") == normal(expected.body, "")
    else:
        assert words(got.body) == words(expected.body)


def words(body: bytes) -> str:
    """What there is to read on a page, or the bytes where it is none."""
    if not body.lstrip().startswith(b"<"):
        return re.sub(r"127\.0\.0\.1\S*", "", body.decode("latin-1"))
    text = re.sub(r"<[^>]*>", " ", body.decode())
    return re.sub(r"127\.0\.0\.1\S*", "", re.sub(r"\s+", " ", html.unescape(text)))


@pytest.mark.parametrize("way", WAYS)
def test_the_path_behind_the_script(way: str, served: Served) -> None:
    pages = []
    for one in ("cgid", way):
        port, at = served.ways[one]
        path = at.rstrip("/") + "/" + DEEP
        pages.append(client.ask_h2c(port, client.Request(path)) if one == "h2c" else client.get(port, path))
    assert [page.status for page in pages] == [200, 200]
    assert "ladder.c" in words(pages[0].body)
    assert words(pages[1].body) == words(pages[0].body)


def test_runs_are_recycled(served: Served) -> None:
    for _ in range(10):
        for page in PAGES:
            served.ask("http", page)
    runs = served.gateway.runs()
    assert runs.all >= 10 * len(PAGES)
    assert runs.recycled >= 0.95 * runs.all, runs
    assert runs.by_way.get("warm", 0) > 0.9 * runs.all, runs


SEEN = {
    "projects": ["orchard.git", "Trees and what is done", "Orchard Keeper"],
    "summary": ["Trees and what is done to them", "What is no text", "v1.0", "winter", "shortlog", "heads"],
    "log": ["Replace the pear: größer & besser", "A ladder", "Plant two trees", "Orchard Keeper"],
    "tree": ["ladder.c", "blob", "history", "raw"],
    "commitdiff": ["Replace the pear: größer & besser", "-pear", "+quince", "+plum", "trees.txt"],
    "blob": ["#include <stdio.h>", 'puts("<up> & down");'],
    "blame": ["quince", "plum", "apple"],
}


def browse(url: str, *options: str) -> str:
    """What headless Chromium makes of a page."""
    with tempfile.TemporaryDirectory(prefix="regrow-chromium-") as profile:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        command += ["--hide-scrollbars", f"--user-data-dir={profile}", "--window-size=1100,900", *options, url]
        done = subprocess.run(command, check=False, capture_output=True, timeout=300, env={**os.environ, "HOME": profile})
        assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
        return done.stdout.decode()


def pictures() -> Path:
    """Where the screenshots go."""
    folder = Path(os.environ.get("REGROW_WEB_PICTURES", Path(tempfile.gettempdir(), "regrow-web-pictures")))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("page", SEEN)
@pytest.mark.parametrize("way", ["nginx", "http"])
def test_pages_in_a_browser(way: str, page: str, served: Served) -> None:
    port, at = served.ways[way]
    url = f"http://127.0.0.1:{port}{at}{served.page(page)}"
    dom = browse(url, "--dump-dom")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", dom))).replace("\xa0", " ")
    for words in SEEN[page]:
        assert words in text, text[:3000]
    picture = pictures() / f"{way}-{page}.png"
    picture.unlink(missing_ok=True)
    browse(url, f"--screenshot={picture}")
    head = picture.read_bytes()[:24]
    assert head.startswith(b"\x89PNG\r\n")
    assert struct.unpack(">II", head[16:]) == (1100, 900)


def test_a_link_is_followed_in_a_browser(served: Served) -> None:
    """The commit that the first page links to is the one that git names."""
    port, at = served.ways["nginx"]
    dom = browse(f"http://127.0.0.1:{port}{at}{PAGES['summary']}", "--dump-dom")
    links = [html.unescape(link) for link in re.findall(r'href="([^"]*a=commitdiff[^"]*)"', dom)]
    assert links
    newest = next(link for link in links if served.orchard.commit("main") in link)
    text = browse(f"http://127.0.0.1:{port}{newest}", "--dump-dom")
    assert "What is no text" in text
    assert "binary.dat" in text
