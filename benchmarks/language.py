"""What the language has beyond XPath 1.0, each beside the plain spelling of as much, over alerts, orders and news."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa

from benchmarks.filtering import warm_up
from benchmarks.measure import Row, parse_with_expat, side_by_side
from benchmarks.real_feeds import EVENTS, FEEDS, Kind
from twigcast import SubscriptionSet

COUNT = 10_000
MESSAGES = 300
ROUNDS = 5
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = 365 * 24 * 60
TARGET = 3.0
"""The most E that a construct may take."""

CLOSINGS = {"alerts": b"</alert>", "orders": b"</order>", "news": b"</item>"}


def _instant(chance: random.Random) -> datetime:
    return FIRST + timedelta(minutes=chance.randrange(MINUTES))


def _written(at: datetime, chance: random.Random) -> str:
    zone = timezone(timedelta(hours=chance.randrange(-11, 13)))
    return at.astimezone(zone).isoformat()


def _dated(feed: str) -> list[bytes]:
    """Messages of a feed that also say when they were sent, in some zone and in minutes, and a version."""
    chance = random.Random(f"dates {feed}")
    messages = []
    for message in FEEDS[feed].messages(MESSAGES):
        at = _instant(chance)
        minute = int((at - FIRST).total_seconds()) // 60
        said = f"<sent>{_written(at, chance)}</sent><minute>{minute}</minute><mass>{minute / 1000:.3e}</mass>"
        said += f"<version>{chance.randrange(30)}.{chance.randrange(30)}.{chance.randrange(30)}</version>"
        closing = CLOSINGS[feed]
        messages.append(message.removesuffix(closing) + said.encode() + closing)
    return messages


def _bounds(chance: random.Random) -> tuple[datetime, datetime]:
    low = _instant(chance)
    return low, low + timedelta(minutes=chance.randrange(1, 2_000))


def _minute(at: datetime) -> int:
    return int((at - FIRST).total_seconds()) // 60


def _date_range(chance: random.Random) -> str:
    low, high = (_written(at, chance) for at in _bounds(chance))
    return f"/*[sent >= xs:dateTime('{low}') and sent < xs:dateTime('{high}')]"


def _number_range(chance: random.Random) -> str:
    low, high = (_minute(at) for at in _bounds(chance))
    return f"/*[minute >= {low} and minute < {high}]"


def _double_range(chance: random.Random) -> str:
    low, high = (_minute(at) / 1000 for at in _bounds(chance))
    return f"/*[mass >= xs:double('{low:e}') and mass < xs:double('{high:e}')]"


@dataclass(frozen=True)
class Construct:
    """A kind of condition in both spellings."""

    feeds: tuple[str, ...]
    spelling: Kind
    plain: Kind


ALL = ("alerts", "orders", "news")
TEXTS = {"alerts": "info/text", "orders": "note", "news": "head/title"}

CONSTRUCTS: dict[str, Construct] = {
    "date range": Construct(ALL, _date_range, _number_range),
    "date": Construct(
        ALL,
        lambda r: f"/*[sent = xs:dateTime('{_written(_instant(r), r)}')]",
        lambda r: f"/*[minute = {_minute(_instant(r))}]",
    ),
    "date bound": Construct(
        ALL,
        lambda r: f"/*[sent > xs:dateTime('{_written(FIRST + timedelta(days=363, minutes=r.randrange(2_880)), r)}')]",
        lambda r: f"/*[minute > {363 * 1440 + r.randrange(2_880)}]",
    ),
    "date after": Construct(
        ALL,
        lambda r: (
            f"/*[xs:dateTime(sent) + xs:dayTimeDuration('P1D') > xs:dateTime('{_written(_instant(r), r)}')]"
            f"[version = '{r.randrange(30)}.{r.randrange(30)}.{r.randrange(30)}']"
        ),
        lambda r: (
            f"/*[minute + 1440 > {_minute(_instant(r))}]"
            f"[version = '{r.randrange(30)}.{r.randrange(30)}.{r.randrange(30)}']"
        ),
    ),
    "exponents": Construct(ALL, _double_range, _number_range),
    "versions": Construct(
        ALL,
        lambda r: f"/*[version >= twig:version('29.{r.randrange(30)}.{r.randrange(30)}')]",
        lambda r: f"/*[minute > {363 * 1440 + r.randrange(2_880)}]",
    ),
    "any case": Construct(
        ("alerts",),
        lambda r: f"/alert/info[lower-case(event) = '{r.choice(EVENTS).lower()}'][severity = 'Minor']",
        lambda r: f"/alert/info[event = '{r.choice(EVENTS)}'][severity = 'Minor']",
    ),
}


def _word(chance: random.Random) -> str:
    """A word that is not in most messages, so that the time is not that of writing the answers."""
    return f"w{chance.randrange(20, 3_000)}x"


def _words(feed: str) -> dict[str, Construct]:
    """Words in a text of a feed, by `matches` with a literal part."""
    text = TEXTS[feed]

    def spelled(pattern: Callable[[random.Random], str], flags: str = "") -> Kind:
        return lambda r: f"/*[matches({text}, '{pattern(r)}'{flags})]"

    def plain(r: random.Random) -> str:
        return f"/*[contains({text}, '{_word(r)}')]"

    return {
        "word": Construct((feed,), spelled(_word), plain),
        "either word": Construct((feed,), spelled(lambda r: f"{_word(r)}|{_word(r)}"), plain),
        "whole word": Construct((feed,), spelled(lambda r: f"(^|\\s){_word(r)}(\\s|$)"), plain),
        "two words": Construct((feed,), spelled(lambda r: f"{_word(r)}.* {_word(r)}"), plain),
        "word in any case": Construct((feed,), spelled(lambda r: _word(r).upper(), ", 'i'"), plain),
    }


def kinds() -> Iterator[tuple[str, str, Construct]]:
    """Each feed, the name of each kind of condition there, and the kind."""
    for feed in ALL:
        for name, construct in {**CONSTRUCTS, **_words(feed)}.items():
            if feed in construct.feeds:
                yield feed, name, construct


def _set(kind: Kind, seed: str) -> SubscriptionSet:
    chance = random.Random(seed)
    subscriptions = SubscriptionSet()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused = subscriptions.add_many((str(number), kind(chance)) for number in range(COUNT)).refused
    assert not refused, refused[0]
    return subscriptions


def measure(only: str = "") -> list[Row]:
    """Returns a row for each construct on each feed: it and the plain spelling in turns."""
    feeds = {feed: _dated(feed) for feed in ALL}
    warm_up(feeds["alerts"][:3])
    return [
        _measured(feed, name, construct, feeds[feed]) for feed, name, construct in kinds() if not only or only == name
    ]


def _measured(feed: str, name: str, construct: Construct, messages: list[bytes]) -> Row:
    batch = pa.array(messages, pa.large_binary())
    own, plain = (_set(kind, f"{feed} {name}") for kind in (construct.spelling, construct.plain))
    # Covers are chosen anew by what messages show.
    for _ in range(2):
        own.match_batch(batch), plain.match_batch(batch)
    times = side_by_side(
        ROUNDS, lambda: own.match_batch(batch), lambda: plain.match_batch(batch), lambda: parse_with_expat(messages)
    )
    micros, of_plain, expat = (timing.median / len(messages) * 1e6 for timing in times)
    return {
        "feed": feed,
        "kind": name,
        "matches": len(own.match_batch(batch).column("keys").flatten()) / len(messages),
        "plain_matches": len(plain.match_batch(batch).column("keys").flatten()) / len(messages),
        "E_us": expat,
        "us": micros,
        "E": micros / expat,
        "plain_E": of_plain / expat,
    }
