"""A broker as a process of its own polls feeds of a real server; the client registers them and reads the reports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("httpx2")

from tests.end_to_end.feed_server import Answer, FeedServer
from twigcast.broker.errors import Invalid, UnknownObject, UrlRefused
from twigcast.client import Client

CAP = "application/cap+xml"
SECONDS = 30.0

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}
"""The settings of a broker that is started are those that a test gives it."""


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.05)


class BrokerProcess:
    """A broker that was started."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        out = folder / "out"
        arguments = ["serve", "--port", "0", "--store", str(folder / "store"), "--token-file", str(folder / "token")]
        for setting in ("allow_private_urls=true", "poll_interval_min=1", "log_level=info"):
            arguments += ["--set", setting]
        with out.open("wb") as stdout, self.log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "twigcast", *arguments],
                stdout=stdout,
                stderr=stderr,
                cwd=folder,
                env=ENVIRONMENT,
            )
        until(lambda: self._process.poll() is not None or bool(re.search(r"at http://\S+", out.read_text())))
        found = re.search(r"at (http://\S+)", out.read_text())
        assert found, self.log.read_text()
        self.client = Client(found[1], (folder / "token").read_text().strip())

    def stop(self) -> None:
        self.client.close()
        self._process.terminate()
        assert self._process.wait(timeout=30) == 0, self.log.read_text()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    result = BrokerProcess(tmp_path)
    yield result
    result.stop()


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer() as result:
        yield result


@pytest.mark.slow
def test_a_feed_with_damage_is_published_and_each_poll_says_what_it_did(
    broker: BrokerProcess, server: FeedServer
) -> None:
    client = broker.client
    client.subscribe("all", "//title")
    items = [f"<item><guid>{n}</guid><title>{title}</title></item>" for n, title in ((3, "&nbsp;"), (2, "b"), (1, "a"))]
    feed = f"\n<?xml version='1.0'?>\n<rss><channel>\n{chr(10).join(items)}</channel></rss><b>Notice".encode()
    server.answers["/feed"] = Answer(feed, headers={"Content-Type": "text/html; charset=latin-1"})
    source = client.put_source("news", kind="atom", url=f"{server.url}/feed", interval=1)
    assert (source.updates, list(source.follow), source.last_report) == ("ignore", [], None)
    assert [delivery.message for delivery in client.deliveries("all", wait=5)] == ["1", "2"]
    until(lambda: len(client.polls("news")) >= 2)
    first = client.polls("news")[-1]
    assert (first.took, first.updated, first.refused_count, first.status, first.error) == (2, 0, 1, 200, None)
    (refusal,) = first.refused
    assert "nbsp" in refusal.reason
    assert (refusal.line, refusal.column) == (4, items[0].index("&") + 1)
    assert first.bytes == len(feed)
    assert first.next_poll is not None
    now = client.source("news")
    assert now.warnings == ["line 2: white space stands before the XML declaration", now.warnings[1]]
    assert now.last_report is not None
    assert now.last_report.skipped == {"known": 3}
    assert [one.name for one in client.sources()] == ["news"]
    log = broker.log.read_text()
    assert "poll of the source 'news': took 2, updated 0, skipped 0, refused 1" in log
    assert client.pause_source("news").paused
    assert not client.resume_source("news").paused
    client.delete_source("news")
    with pytest.raises(UnknownObject):
        client.polls("news")


@pytest.mark.slow
def test_the_alerts_of_an_index_are_published_and_updated(broker: BrokerProcess, server: FeedServer) -> None:
    client = broker.client
    client.subscribe("floods", "/*[local-name() = 'alert']")

    def show(updated: str, event: str) -> None:
        entry = f"<entry><id>1</id><updated>{updated}</updated><link type='{CAP}' href='a'/></entry>"
        server.answers["/a"] = Answer(f"<alert>{event}</alert>".encode(), headers={"Content-Type": CAP})
        server.answers["/index"] = Answer(f"<feed xmlns='http://www.w3.org/2005/Atom'>{entry}</feed>".encode())

    show("2026-11-01T10:00:00Z", "Flood")
    client.put_source(
        "alerts", kind="atom", url=f"{server.url}/index", interval=1, updates="updated", follow=[CAP, "TEXT/xml"]
    )
    assert [item.xml for item in client.deliveries("floods", wait=5)] == ["<alert>Flood</alert>"]
    assert client.source("alerts").follow == [CAP, "text/xml"]
    show("2026-11-01T11:00:00Z", "High water")
    (update,) = client.deliveries("floods", wait=5)
    assert update.xml == "<alert>High water</alert>"
    assert update.message.startswith(f"{server.url}/a~1~")
    until(lambda: sum(report.updated for report in client.polls("alerts")) == 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "http-folder", "updates": "content"},
        {"kind": "rss", "follow": ["nonsense"]},
        {"kind": "rss", "follow_hosts": ["http://x.example/"]},
    ],
)
def test_settings_that_make_no_sense_are_refused(broker: BrokerProcess, settings: dict[str, object]) -> None:
    with pytest.raises(Invalid):
        broker.client.put_source("s", url="http://127.0.0.1:9/", **settings)  # type: ignore[arg-type]
    with pytest.raises(UrlRefused):
        broker.client.put_source("s", kind="rss", url="ftp://127.0.0.1/")
