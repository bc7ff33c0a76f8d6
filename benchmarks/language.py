"""What the language has beyond XPath 1.0, each beside the plain spelling of as much, over alerts, orders and news."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa

from benchmarks.filtering import warm_up
from benchmarks.measure import Row, parse_with_expat, side_by_side
from benchmarks.real_feeds import EVENTS, FEEDS, Kind, sku
from twigcast import SubscriptionSet
from twigcast.registration import Dialect, Params

COUNT = 10_000
XQUERY_COUNT = 1_000
MESSAGES = 300
ROUNDS = 5
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
MINUTES = 365 * 24 * 60
TARGET = 3.0
"""The most E that a construct may take."""

XSI = "http://www.w3.org/2001/XMLSchema-instance"
NAMESPACES = {"xsi": XSI, "k": "urn:kinds"}

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
        kind = f"K{chance.randrange(5_000)}"
        said += f"<typed xmlns:xsi='{XSI}' xmlns:t='urn:kinds' xsi:type='t:{kind}' plain='{kind}'/>"
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


Spelling = Callable[[random.Random], str | tuple[str, Params]]
"""Makes a query, or one with the values of its parameters."""


@dataclass(frozen=True)
class Construct:
    """A kind of condition in both spellings."""

    feeds: tuple[str, ...]
    spelling: Spelling
    plain: Kind
    count: int = COUNT
    dialect: Dialect = "xpath"


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
    "name": Construct(
        ALL,
        lambda r: f"/*/typed[@xsi:type = xs:QName('k:K{r.randrange(5_000)}')]",
        lambda r: f"/*/typed[@plain = 'K{r.randrange(5_000)}']",
    ),
    "any case": Construct(
        ("alerts",),
        lambda r: f"/alert/info[lower-case(event) = '{r.choice(EVENTS).lower()}'][severity = 'Minor']",
        lambda r: f"/alert/info[event = '{r.choice(EVENTS)}'][severity = 'Minor']",
    ),
    "quantified": Construct(
        ("orders",),
        lambda r: f"some $l in /order/lines/line satisfies $l/@sku = '{sku(r)}' and $l/qty > {r.randrange(50)}",
        lambda r: f"/order/lines/line[@sku = '{sku(r)}' and qty > {r.randrange(50)}]",
    ),
    "replace": Construct(
        ("news",),
        lambda r: f"/item[replace(head/date, '[^0-9]', '') = '2026{r.randrange(1, 13):02d}{r.randrange(1, 29):02d}']",
        lambda r: f"/item[translate(head/date, '-', '') = '2026{r.randrange(1, 13):02d}{r.randrange(1, 29):02d}']",
    ),
}


NAMED: dict[str, tuple[str, Kind]] = {
    "alerts": ("info/area/name", lambda r: f"District {r.randrange(900)}"),
    "orders": ("lines/line/@sku", sku),
    "news": ("head/by/person", lambda r: f"Writer {r.randrange(700)}"),
}
"""What of a message holds one of many values, and such a value."""


def _values(feed: str) -> dict[str, Construct]:
    """Conditions on a value of a feed."""
    path, value = NAMED[feed]

    def several(r: random.Random) -> list[str]:
        return [value(r) for _ in range(5)]

    def listed(r: random.Random) -> str:
        return f"/*[{path} = ({', '.join(repr(each) for each in several(r))})]"

    def either(r: random.Random) -> str:
        return f"/*[{' or '.join(f'{path} = {each!r}' for each in several(r))}]"

    def equal(r: random.Random) -> str:
        return f"/*[{path} = '{value(r)}']"

    return {
        "equal in any case": Construct((feed,), lambda r: f"/*/{path}[lower-case(.) = '{value(r).lower()}']", equal),
        "list": Construct((feed,), listed, either),
        "prefix": Construct(
            (feed,),
            lambda r: f"/*/{path}[matches(., '^{value(r)[:-1]}')]",
            lambda r: f"/*/{path}[starts-with(., '{value(r)[:-1]}')]",
        ),
        "end": Construct(
            (feed,),
            lambda r: f"/*/{path}[ends-with(., '{value(r)[2:]}')]",
            lambda r: f"/*/{path}[contains(., '{value(r)[2:]}')]",
        ),
        "parameter": Construct((feed,), lambda r: (f"/*[{path} = $value]", {"value": value(r)}), equal),
        "list parameter": Construct((feed,), lambda r: (f"/*[{path} = $values]", {"values": several(r)}), either),
        "dialect xquery": Construct((feed,), _mixed(feed), _mixed(feed), XQUERY_COUNT, "xquery"),
    }


def _mixed(feed: str) -> Kind:
    """Native constructs of several kinds."""
    path, value = NAMED[feed]
    kinds: list[Kind] = [
        _date_range,
        lambda r: f"/*[{path} = ('{value(r)}', '{value(r)}')]",
        lambda r: f"/*[matches({TEXTS[feed]}, '{_word(r)}')]",
        lambda r: f"some $v in /*/{path} satisfies lower-case($v) = '{value(r).lower()}'",
        lambda r: f"for $m in /* where $m/{path} = '{value(r)}' return <got>{{ $m/sent }}</got>",
    ]
    return lambda r: r.choice(kinds)(r)


def _word(chance: random.Random) -> str:
    """A word that is not in most messages, so that the time is not that of writing the answers."""
    return f"w{chance.randrange(20, 3_000)}x"


def _words(feed: str) -> dict[str, Construct]:
    """Words in a text of a feed, by `matches` with a literal part."""
    text = TEXTS[feed]

    def spelled(pattern: Kind, flags: str = "") -> Kind:
        return lambda r: f"/*[matches({text}, '{pattern(r)}'{flags})]"

    def plain(r: random.Random) -> str:
        return f"/*[contains({text}, '{_word(r)}')]"

    return {
        "word": Construct((feed,), spelled(_word), plain),
        "either word": Construct((feed,), spelled(lambda r: f"{_word(r)}|{_word(r)}"), plain),
        "whole word": Construct((feed,), spelled(lambda r: f"(^|\\s){_word(r)}(\\s|$)"), plain),
        "two words": Construct((feed,), spelled(lambda r: f"{_word(r)}.* {_word(r)}"), plain),
        "word in any case": Construct((feed,), spelled(lambda r: _word(r).upper(), ", 'i'"), plain),
        "token": Construct(
            (feed,),
            lambda r: f"/*[tokenize({text}, ' ') = '{_word(r)}']",
            lambda r: f"/*[contains(concat(' ', {text}, ' '), ' {_word(r)} ')]",
        ),
    }


def kinds() -> Iterator[tuple[str, str, Construct]]:
    """Each feed, the name of each kind of condition there, and the kind."""
    for feed in ALL:
        for name, construct in {**CONSTRUCTS, **_values(feed), **_words(feed)}.items():
            if feed in construct.feeds:
                yield feed, name, construct


def _set(spelling: Spelling, count: int, dialect: Dialect, seed: str) -> tuple[SubscriptionSet, float]:
    """Returns subscriptions of a kind, and how many of them were added in a second."""
    chance = random.Random(seed)
    made = [spelling(chance) for _ in range(count)]
    rows = [
        {"key": str(number), "query": one}
        if isinstance(one, str)
        else {"key": str(number), "query": one[0], "params": one[1]}
        for number, one in enumerate(made)
    ]
    subscriptions = SubscriptionSet(namespaces=NAMESPACES, dialect=dialect)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.thread_time()
        refused = subscriptions.add_many(rows).refused
        seconds = time.thread_time() - start
    assert not refused, refused[0]
    return subscriptions, count / seconds


def measure(only: str = "") -> list[Row]:
    """Returns a row for each construct on each feed: it and the plain spelling in turns."""
    feeds = {feed: _dated(feed) for feed in ALL}
    warm_up(feeds["alerts"][:3])
    return [
        _measured(feed, name, construct, feeds[feed]) for feed, name, construct in kinds() if not only or only == name
    ]


def _measured(feed: str, name: str, construct: Construct, messages: list[bytes]) -> Row:
    batch = pa.array(messages, pa.large_binary())
    seed, count = f"{feed} {name}", construct.count
    own, added = _set(construct.spelling, count, construct.dialect, seed)
    plain, plain_added = _set(construct.plain, count, "xpath", seed)
    routes = {own.describe(str(number)).route for number in range(0, count, 50)}
    assert "xquery" not in routes, f"{name}: Saxon would be measured"
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
        "queries": count,
        "matches": len(own.match_batch(batch).column("keys").flatten()) / len(messages),
        "plain_matches": len(plain.match_batch(batch).column("keys").flatten()) / len(messages),
        "E_us": expat,
        "us": micros,
        "E": micros / expat,
        "plain_E": of_plain / expat,
        "added_per_s": added,
        "plain_added_per_s": plain_added,
    }
