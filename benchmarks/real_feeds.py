"""Feeds and subscriptions like those that people write: alerts, orders, news and market data, and kinds of condition.

The same seed makes the same messages and queries. A feed has messages and kinds; a kind makes one query at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from xml.sax.saxutils import escape

Kind = Callable[[random.Random], str]

EVENTS = [f"Event {number}" for number in range(80)]
LEVELS = ["Extreme", "Severe", "Moderate", "Minor"]
COUNTRIES = ["DE", "FR", "NL", "US", "JP", "BR", "IN", "ZA"]
CITIES = [
    f"{first}{second}" for first in ("Ber", "Ham", "Par", "Lyo", "Tok", "Osa") for second in ("lin", "burg", "ia", "on")
]
UPPER, LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


def _skewed(chance: random.Random, count: int) -> int:
    """Returns a number below ``count``, small ones much more often."""
    return min(count - 1, int(chance.paretovariate(0.7)) - 1)


def word(chance: random.Random) -> str:
    """Returns a word, frequent ones much more often; none is part of another."""
    return f"w{_skewed(chance, 20_000)}x"


def words(chance: random.Random, count: int) -> str:
    """Returns a text of so many words."""
    return " ".join(word(chance) for _ in range(count))


def element(name: str, content: object, **attributes: object) -> str:
    """Returns an element; its content is markup."""
    written = "".join(f' {key}="{escape(str(value))}"' for key, value in attributes.items())
    return f"<{name}{written}>{content}</{name}>"


def _alert(chance: random.Random) -> str:
    areas = []
    for _ in range(chance.randrange(1, 4)):
        codes = "".join(
            element("code", element("scheme", scheme) + element("value", f"{chance.randrange(2_500):05d}"))
            for scheme in ("FIPS", "ZONE", "FIPS")[: chance.randrange(1, 4)]
        )
        areas.append(element("area", element("name", f"District {chance.randrange(900)}") + codes))
    measured = "".join(
        element("measure", element("what", f"m{number}") + element("value", chance.randrange(1_000)))
        for number in range(5)
    )
    status = "Actual" if chance.random() < 0.95 else "Exercise"
    info = (
        element("event", chance.choice(EVENTS))
        + element("urgency", chance.choice(["Now", "Soon", "Later", "Past"]))
        + element("severity", chance.choice(LEVELS))
        + element("text", words(chance, 60))
        + measured
        + "".join(areas)
    )
    head = element("id", f"a-{chance.randrange(10**6)}") + element("sender", f"office{chance.randrange(150)}")
    return element("alert", head + element("status", status) + element("info", info))


def _order(chance: random.Random) -> str:
    lines = "".join(
        element(
            "line",
            element("qty", chance.randrange(1, 50))
            + element("price", f"{chance.randrange(100, 90_000) / 100:.2f}")
            + element("category", f"cat{_skewed(chance, 300)}")
            + element("tags", " ".join(f"t{_skewed(chance, 400)}" for _ in range(chance.randrange(5)))),
            sku=f"S{chance.randrange(8_000):05d}",
            store=f"d{chance.randrange(12)}",
        )
        for _ in range(chance.randrange(1, 12))
    )
    customer = f"C{chance.randrange(5_000)}"
    status = "shipped" if chance.random() < 0.9 else chance.choice(["open", "held", "returned"])
    ship = (
        element("city", chance.choice(CITIES))
        + element("zip", f"{chance.randrange(100_000):05d}")
        + element("method", chance.choice(["air", "road", "sea"]))
        + element("for", customer if chance.random() < 0.7 else f"C{chance.randrange(5_000)}")
    )
    return element(
        "order",
        element("status", status)
        + element("customer", "", id=customer, country=chance.choice(COUNTRIES))
        + element("lines", lines)
        + element("ship", ship)
        + element("note", f"  {words(chance, chance.randrange(1, 12))}\n "),
        no=chance.randrange(10**6),
    )


def _item(chance: random.Random) -> str:
    subjects = "".join(
        element("subject", "", code=f"{_skewed(chance, 1_500):04d}", about=chance.choice(["main", "side", "note"]))
        for _ in range(chance.randrange(1, 8))
    )
    keywords = "".join(element("keyword", word(chance)) for _ in range(chance.randrange(2, 8)))
    head = (
        element("title", words(chance, 9))
        + element("by", element("person", f"Writer {_skewed(chance, 700)}"))
        + element("date", f"2026-{chance.randrange(1, 13):02d}-{chance.randrange(1, 29):02d}")
        + element("link", f"site{chance.randrange(400)}.{chance.choice(['org', 'com', 'net', 'example'])}")
    )
    body = "".join(element("p", words(chance, 30)) for _ in range(chance.randrange(1, 7)))
    return element("item", element("head", head) + element("meta", subjects + keywords) + element("body", body))


def _ticks(chance: random.Random) -> str:
    trades = []
    for _ in range(chance.randrange(5, 40)):
        kept = {
            "sym": f"{chance.choice(UPPER)}{chance.choice(UPPER)}{_skewed(chance, 60)}",
            "px": f"{chance.randrange(1_000, 50_000) / 100:.2f}",
            "qty": chance.randrange(1, 1_000),
            "exch": f"X{chance.randrange(9)}",
        }
        if chance.random() < 0.2:
            kept["cond"] = chance.choice("ABCDE")
        trades.append(element("trade", "", **kept))
    return element("ticks", element("session", chance.choice(["am", "pm", "late"])) + "".join(trades))


def code(chance: random.Random) -> str:
    """Returns the code of a place."""
    return f"{chance.randrange(2_500):05d}"


def sku(chance: random.Random) -> str:
    """Returns the number of an article."""
    return f"S{chance.randrange(8_000):05d}"


def _symbol(chance: random.Random) -> str:
    return f"{chance.choice(UPPER)}{chance.choice(UPPER)}{_skewed(chance, 60)}"


def _between(chance: random.Random, bound: int, width: int) -> tuple[int, int]:
    low = chance.randrange(bound)
    return low, low + chance.randrange(1, width)


def _zone_between(chance: random.Random) -> str:
    low, high = _between(chance, 1_000, 80)
    return f"/alert/info/measure[what='m{chance.randrange(5)}'][value >= {low} and value < {high}]"


def _price_between(chance: random.Random) -> str:
    low, high = _between(chance, 500, 6)
    return f"/ticks/trade[@exch='X{chance.randrange(9)}' and @px >= {low} and @px <= {high}]"


def _any_of(chance: random.Random) -> str:
    codes = " or ".join(f". = '{code(chance)}'" for _ in range(40))
    return f"//code/value[{codes}]"


def _some_words(chance: random.Random) -> str:
    wanted = " or ".join(f"contains(info/text, '{word(chance)}{chance.randrange(10)}')" for _ in range(5))
    return f"/alert[({wanted}) and not(contains(info/text, '{word(chance)}'))]"


ALERTS: dict[str, Kind] = {
    "twig": lambda r: f"//code[scheme='FIPS' and value='{code(r)}']",
    "levels": lambda r: (
        f"/alert[sender='office{r.randrange(150)}']/info[event='{r.choice(EVENTS)}']/area/code[value='{code(r)}']"
    ),
    "either": lambda r: (
        f"/alert[status != 'Exercise'][info[severity='Extreme' or severity='Severe']"
        f"[area/code/value='{code(r)}' or area/name='District {r.randrange(900)}']]"
    ),
    "beside": lambda r: (
        f"/alert/info[event='{r.choice(EVENTS)}'][measure[what='m{r.randrange(5)}' and value > {r.randrange(1_000)}]]"
    ),
    "between": _zone_between,
    "prefix": lambda r: f"//code[starts-with(value, '{r.randrange(250):03d}')]",
    "except": lambda r: (
        f"/alert[info/event='{r.choice(EVENTS)}' and not(info/urgency='Past') and sender='office{r.randrange(150)}']"
    ),
    "word": lambda r: f"/alert[contains(info/text, '{word(r)}')]",
    "words": _some_words,
    "list": _any_of,
    "common": lambda r: f"/alert[status='Actual' and info/area/name='District {r.randrange(900)}']",
    "unlike": lambda r: f"/alert[status != 'Actual'][info/event='{r.choice(EVENTS)}']",
}

ORDERS: dict[str, Kind] = {
    "amount": lambda r: f"/order/lines/line[@sku='{sku(r)}']/qty > {r.randrange(50)}",
    "count": lambda r: f"/order[count(lines/line) > {r.randrange(3, 9)} and ship/zip='{r.randrange(100_000):05d}']",
    "count of": lambda r: f"/order[count(lines/line[category='cat{_skewed(r, 300)}']) > {r.randrange(1, 4)}]",
    "count only": lambda r: (
        f"/order[count(lines/line) = {r.randrange(1, 12)}][customer/@country='{r.choice(COUNTRIES)}']"
        f"[ship/city='{r.choice(CITIES)}']"
    ),
    "first": lambda r: f"/order/lines/line[1][@sku='{sku(r)}']",
    "last": lambda r: f"/order/lines/line[last()][@sku='{sku(r)}']",
    "first of": lambda r: f"/order/lines/line[@store='d{r.randrange(12)}'][1][category='cat{_skewed(r, 300)}']",
    "second's": lambda r: f"/order/lines/line[2]/category = 'cat{_skewed(r, 300)}'",
    "parent": lambda r: f"//line[@sku='{sku(r)}'][../../customer/@country='{r.choice(COUNTRIES)}']",
    "up": lambda r: f"//category[. = 'cat{r.randrange(300)}']/../../../ship[city='{r.choice(CITIES)}']",
    "ancestor": lambda r: f"//line[@sku='{sku(r)}']/ancestor::order[status='open']",
    "sum": lambda r: f"/order[sum(lines/line/price) > {r.randrange(2_000, 8_000)}]",
    "product": lambda r: f"/order/lines/line[qty * price > {r.randrange(20_000, 45_000)}]",
    "token": lambda r: f"//line[contains(concat(' ', tags, ' '), ' t{_skewed(r, 400)} ')]",
    "any case": lambda r: (
        f"/order[translate(ship/city, '{UPPER}', '{LOWER}') = '{r.choice(CITIES).lower()}']"
        f"[ship/method='sea'][customer/@country='{r.choice(COUNTRIES)}']"
    ),
    "trimmed": lambda r: f"/order[normalize-space(note) = '{word(r)}']",
    "part": lambda r: f"/order[substring(ship/zip, 1, 3) = '{r.randrange(1_000):03d}']",
    "length": lambda r: f"/order[string-length(note) > {r.randrange(10, 80)} and customer/@id='C{r.randrange(5_000)}']",
    "local name": lambda r: f"//*[local-name() = 'line'][@sku='{sku(r)}']",
    "not most": lambda r: (
        f"/order[not(status='shipped')][customer/@country='{r.choice(COUNTRIES)}']"
        f"[ship/method='{r.choice(['air', 'road', 'sea'])}']"
    ),
    "same": lambda r: (
        f"/order[customer/@id != ship/for][customer/@country='{r.choice(COUNTRIES)}'][lines/line/@sku='{sku(r)}']"
    ),
    "no such": lambda r: (
        f"/order[not(lines/line[category='cat{_skewed(r, 20)}'])][ship/zip='{r.randrange(100_000):05d}']"
    ),
    "or within or": lambda r: (
        f"/order[customer/@country='{r.choice(COUNTRIES)}' and (lines/line/@sku='{sku(r)}'"
        f" or lines/line[category='cat{_skewed(r, 300)}'"
        f" and (qty > {r.randrange(20, 50)} or @store='d{r.randrange(12)}')])]"
    ),
    "elsewhere": lambda r: f"//ship[for = //customer[@id='C{r.randrange(5_000)}']/@id]",
    "none above": lambda r: f"/order[not(lines/line/price > {r.randrange(500, 90_000) / 100})]",
}

NEWS: dict[str, Kind] = {
    "subject": lambda r: f"//subject[@code='{_skewed(r, 1_500):04d}' and @about='main']",
    "both words": lambda r: f"/item[contains(head/title, '{word(r)}') and contains(body, '{word(r)}')]",
    "anywhere": lambda r: f"/item[contains(., '{word(r)[:-1]}{r.randrange(100)}x')]",
    "paragraph": lambda r: f"//p[contains(., '{word(r)[:-1]}{r.randrange(100)}x')]",
    "day": lambda r: (
        f"/item[starts-with(head/date, '2026-{r.randrange(1, 13):02d}-{r.randrange(3)}')]"
        f"[meta/subject/@code='{_skewed(r, 1_500):04d}']"
    ),
    "ends": lambda r: (
        f"/item/head/link[substring(., string-length(.) - 2) = '{r.choice(['org', 'net'])}']"
        f"[starts-with(., 'site{r.randrange(400)}')]"
    ),
    "one of three": lambda r: (
        f"/item[head/by/person='Writer {_skewed(r, 700)}' or meta/keyword='{word(r)}'"
        f" or contains(head/title, '{word(r)}')]"
    ),
    "any element": lambda r: f"//*[@code='{_skewed(r, 1_500):04d}']",
    "any attribute": lambda r: f"//@code = '{_skewed(r, 1_500):04d}'",
    "any text": lambda r: f"//text()[. = '{word(r)}']",
    "after": lambda r: f"//keyword[. = '{word(r)}']/following-sibling::keyword[. = '{word(r)}']",
    "before": lambda r: f"//keyword[. = '{word(r)}'][preceding-sibling::subject[@about='side']]",
    "headed": lambda r: f"/item[substring-before(head/title, ' ') = '{word(r)}']",
}

MARKET: dict[str, Kind] = {
    "above": lambda r: f"/ticks/trade[@sym='{_symbol(r)}' and @px > {r.randrange(10, 500)}]",
    "band": _price_between,
    "at least": lambda r: f"/ticks/trade[@sym='{_symbol(r)}']/@qty >= {r.randrange(1_000)}",
    "pair": lambda r: f"/ticks[trade/@sym='{_symbol(r)}' and trade/@sym='{_symbol(r)}']",
    "last trade": lambda r: f"/ticks/trade[@sym='{_symbol(r)}'][last()]/@px > {r.randrange(10, 500)}",
    "latest": lambda r: f"/ticks/trade[last()][@px > {r.randrange(10, 500)}]",
    "unlike price": lambda r: f"/ticks/trade[@px != 100][@sym='{_symbol(r)}']",
    "family": lambda r: f"//trade[starts-with(@sym, '{_symbol(r)[:2]}') and not(@cond)]",
    "plain or": lambda r: f"//trade[@cond='{r.choice('ABCDE')}' or not(@cond)][@sym='{_symbol(r)}']",
    "one bound": lambda r: f"/ticks[session='late']/trade[@qty > {r.randrange(900, 1_000)}][@exch='X{r.randrange(9)}']",
    "rounded": lambda r: f"/ticks/trade[floor(@px) = {r.randrange(10, 500)}][@exch='X{r.randrange(9)}']",
    "worth": lambda r: f"/ticks/trade[@px * @qty > {r.randrange(200_000, 500_000)}][@exch='X{r.randrange(9)}']",
    "opening": lambda r: f"/ticks/trade[position() < 4][@sym='{_symbol(r)}']",
}


@dataclass(frozen=True)
class Feed:
    """Messages of one sort, and the kinds of query that are asked of them."""

    name: str
    message: Callable[[random.Random], str]
    kinds: dict[str, Kind]

    def messages(self, count: int, seed: int = 3) -> list[bytes]:
        """Returns messages, the same for the same seed."""
        chance = random.Random(f"{self.name} {seed}")
        return [self.message(chance).encode() for _ in range(count)]

    def queries(self, kind: str, count: int, seed: int = 7) -> list[str]:
        """Returns queries of one kind, or of all in equal shares: ``mixed``."""
        chance = random.Random(f"{self.name} {kind} {seed}")
        kinds = list(self.kinds.values()) if kind == "mixed" else [self.kinds[kind]]
        return [chance.choice(kinds)(chance) for _ in range(count)]


FEEDS = {
    feed.name: feed
    for feed in (
        Feed("alerts", _alert, ALERTS),
        Feed("orders", _order, ORDERS),
        Feed("news", _item, NEWS),
        Feed("market", _ticks, MARKET),
    )
}
"""The feeds by name."""
