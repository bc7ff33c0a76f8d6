"""Subscriptions like those that people write, over four feeds; on alerts, beside event-ruler and Luwak."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from lxml import etree

from benchmarks.filtering import warm_up
from benchmarks.measure import Row, allocated_bytes, once, parse_with_expat, side_by_side
from benchmarks.real_feeds import EVENTS, FEEDS, LEVELS, code, word
from benchmarks.sector_feeds import SECTOR_FEEDS
from twigcast import SubscriptionSet

COUNTS = (10_000, 100_000)
MESSAGES = 300
MANY_MATCHES = 1_000
"""From so many matches of a message on, it is their number that decides what the message costs."""
ROUNDS = 5
PEER_COUNT = 10_000
PEER_SECONDS = 15.0
PEER_SECONDS_MAX = 60.0
"""After so long, adding the rules included, a peer is given up."""
SENDERS, MEASURES = 150, 5
PEERS = Path(__file__).with_name("peers")


@dataclass(frozen=True)
class Interest:
    """One interest in three languages: an XPath, a Lucene query, and a rule for JSON events."""

    xpath: str
    lucene: str
    rule: dict[str, Any]


def _of_info(rule: dict[str, Any], **of_alert: Any) -> dict[str, Any]:
    return {"alert": {**of_alert, "info": rule}}


def _twig(r: random.Random) -> Interest:
    wanted = code(r)
    rule = _of_info({"area": {"code": {"scheme": ["FIPS"], "value": [wanted]}}})
    return Interest(f"//code[scheme='FIPS' and value='{wanted}']", f"+FIPS:{wanted}", rule)


def _levels(r: random.Random) -> Interest:
    sender, event, wanted = f"office{r.randrange(SENDERS)}", r.choice(EVENTS), code(r)
    return Interest(
        f"/alert[sender='{sender}']/info[event='{event}']/area/code[value='{wanted}']",
        f'+sender:{sender} +event:"{event}" +value:{wanted}',
        _of_info({"event": [event], "area": {"code": {"value": [wanted]}}}, sender=[sender]),
    )


def _either(r: random.Random) -> Interest:
    first, second = code(r), code(r)
    return Interest(
        "/alert[status != 'Exercise']/info[severity='Extreme' or severity='Severe']"
        f"[area/code/value='{first}' or area/code/value='{second}']",
        f"-status:Exercise +(severity:Extreme severity:Severe) +(value:{first} value:{second})",
        _of_info(
            {"severity": ["Extreme", "Severe"], "area": {"code": {"value": [first, second]}}},
            status=[{"anything-but": "Exercise"}],
        ),
    )


def _beside(r: random.Random) -> Interest:
    event, what, bound = r.choice(EVENTS), f"m{r.randrange(MEASURES)}", r.randrange(1_000)
    return Interest(
        f"/alert/info[event='{event}'][measure[what='{what}' and value > {bound}]]",
        f'+event:"{event}" +{what}:{{{bound:04d} TO *}}',
        _of_info({"event": [event], "measure": {what: [{"numeric": [">", bound]}]}}),
    )


def _between(r: random.Random) -> Interest:
    what, low = f"m{r.randrange(MEASURES)}", r.randrange(1_000)
    high = low + r.randrange(1, 80)
    return Interest(
        f"/alert/info/measure[what='{what}'][value >= {low} and value < {high}]",
        f"+{what}:[{low:04d} TO {high:04d}}}",
        _of_info({"measure": {what: [{"numeric": [">=", low, "<", high]}]}}),
    )


def _prefix(r: random.Random) -> Interest:
    start = code(r)[:3]
    rule = _of_info({"area": {"code": {"value": [{"prefix": start}]}}})
    return Interest(f"//code[starts-with(value, '{start}')]", f"+value:{start}*", rule)


def _except(r: random.Random) -> Interest:
    sender, event, level = f"office{r.randrange(SENDERS)}", r.choice(EVENTS), r.choice(LEVELS)
    return Interest(
        f"/alert[info/event='{event}' and not(info/severity='{level}') and sender='{sender}']",
        f'+event:"{event}" -severity:{level} +sender:{sender}',
        _of_info({"event": [event], "severity": [{"anything-but": level}]}, sender=[sender]),
    )


def _word(r: random.Random) -> Interest:
    wanted = word(r)
    rule = _of_info({"text": [{"wildcard": f"*{wanted}*"}]})
    return Interest(f"/alert[contains(info/text, '{wanted}')]", f"+text:{wanted}", rule)


INTERESTS: dict[str, Callable[[random.Random], Interest]] = {
    "twig": _twig,
    "levels": _levels,
    "either": _either,
    "beside": _beside,
    "between": _between,
    "prefix": _prefix,
    "except": _except,
    "word": _word,
}
"""The kinds of interest that the peers can express too."""


def event_of(message: bytes) -> str:
    """Returns an alert as JSON."""
    alert = etree.fromstring(message)
    info = alert.find("info")
    assert info is not None, "an alert has information"

    def texts(of: etree._Element, *names: str) -> dict[str, Any]:
        return {name: of.findtext(name) for name in names}

    areas = [
        {**texts(area, "name"), "code": [texts(code_, "scheme", "value") for code_ in area.iter("code")]}
        for area in info.iter("area")
    ]
    measured = {m.findtext("what"): int(m.findtext("value") or 0) for m in info.iter("measure")}
    of_info = {**texts(info, "event", "urgency", "severity", "text"), "measure": measured, "area": areas}
    return json.dumps({"alert": {**texts(alert, "id", "sender", "status"), "info": of_info}})


class Peers:
    """The peers, fetched with Maven and compiled into a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = f"{folder / 'lib'}/*:{folder}"
        fetch = ["mvn", "-q", "-f", str(PEERS / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*fetch, f"-DoutputDirectory={folder / 'lib'}"], check=True, stdout=sys.stderr)
        sources = [str(source) for source in sorted(PEERS.glob("*.java"))]
        subprocess.run(["javac", "-cp", self.path, "-d", str(folder), *sources], check=True, stdout=sys.stderr)

    def run(self, peer: str, events: list[str], rules: list[str]) -> tuple[float | None, int | None]:
        """Returns microseconds an event, and the matches of all events; ``None`` where it was too slow to tell."""
        for name, lines in (("events", events), ("rules", rules)):
            (self.folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        files = [str(self.folder / "events"), str(self.folder / "rules"), str(PEER_SECONDS)]
        command = ["java", "-Xmx3g", "-cp", self.path, peer, *files]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PEER_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None, None
        answer = json.loads(done.stdout.splitlines()[-1])
        return answer["us"], answer["matches"] if answer["matches"] >= 0 else None


def _own(messages: list[bytes], queries: list[str]) -> tuple[Row, int]:
    """Returns the figures of the engine, and the matches of all messages."""
    subscriptions = SubscriptionSet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [(str(number), query) for number, query in enumerate(queries)]
        before = allocated_bytes()
        adding = once(lambda: _all_taken(subscriptions, pairs))
        after = allocated_bytes()
    feed = pa.array(messages, pa.large_binary())
    own, expat = side_by_side(ROUNDS, lambda: subscriptions.match_batch(feed), lambda: parse_with_expat(messages))
    matched = len(subscriptions.match_batch(feed).column("keys").flatten())
    matches = matched / len(messages)
    row: Row = {
        "queries": len(queries),
        "matches": matches,
        "E_us": expat.median / len(messages) * 1e6,
        "us": own.median / len(messages) * 1e6,
        "E": own.median / expat.median,
        "ns_per_match": own.median / matched * 1e9 if matches >= MANY_MATCHES else None,
        "queries_per_s": len(queries) / adding,
        "bytes_per_query": None if before is None or after is None else (after - before) / len(queries),
    }
    return row, matched


def _all_taken(subscriptions: SubscriptionSet, pairs: list[tuple[str, str]]) -> None:
    refused = subscriptions.add_many(pairs).refused
    assert not refused, refused[0]


def measure(count: str) -> list[Row]:
    """Returns a row for each kind of condition on each feed."""
    rows: list[Row] = []
    for feed in (*FEEDS.values(), *SECTOR_FEEDS):
        messages = feed.messages(MESSAGES)
        warm_up(messages[:3])
        for kind in [*feed.kinds, "mixed"]:
            row, _ = _own(messages, feed.queries(kind, int(count)))
            rows.append({"feed": feed.name, "kind": kind, **row})
    return rows


def measure_peers() -> list[Row]:
    """Returns a row for each kind that the peers can express: their time beside the engine's, in one run."""
    if not all(map(shutil.which, ("mvn", "java", "javac"))):
        print("no peers: Maven and Java are needed to run them", file=sys.stderr)
        return []
    messages = FEEDS["alerts"].messages(MESSAGES)
    warm_up(messages[:3])
    events, texts = [event_of(message) for message in messages], [message.decode() for message in messages]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(Path(folder))
        for kind, interest in INTERESTS.items():
            chance = random.Random(f"wishes {kind}")
            interests = [interest(chance) for _ in range(PEER_COUNT)]
            row, matched = _own(messages, [w.xpath for w in interests])
            ruler = peers.run("RulerPeer", events, [json.dumps(w.rule) for w in interests])
            luwak = peers.run("LuwakPeer", texts, [w.lucene for w in interests])
            row = {"kind": kind, **row}
            for name, (micros, found) in (("ruler", ruler), ("luwak", luwak)):
                if found is not None and found != matched:
                    raise AssertionError(f"{kind}: {name} finds {found} matches, the engine {matched}")
                row[f"{name}_us"] = micros
                row[f"{name}_ratio"] = None if micros is None else micros / row["us"]
            print(row, file=sys.stderr, flush=True)
            rows.append(row)
    return rows
