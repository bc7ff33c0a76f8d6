"""A thousand synthetic subscriptions of readers, emergency desks and bidders.

Two in three are path queries, which deliver the message as it is; the other ones are For-Where-Return queries, which
rewrite it.
"""

import random
from collections.abc import Callable, Iterator
from typing import Final

from twigcast.demo.vocabulary import (
    AUTHORS,
    BIDDERS,
    CATEGORIES,
    CITIES,
    EVENTS,
    LANGUAGES,
    NAMESPACES,
    SECTIONS,
    SEVERITIES,
    TOPICS,
    URGENCIES,
)
from twigcast.registration import Subscription

SUBSCRIPTIONS: Final = 1_000
"""Number of subscriptions."""

REWRITING_SHARE: Final = 1 / 3
"""The share of For-Where-Return queries."""

Maker = Callable[[random.Random], str]


def subscriptions(seed: int, count: int = SUBSCRIPTIONS) -> Iterator[Subscription]:
    """Yields subscriptions that all differ.

    Args:
        seed: The same seed gives the same subscriptions.
        count: Their number. There are several thousand different ones.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    seen: set[str] = set()
    while len(seen) < count:
        makers = _REWRITING if chance.random() < REWRITING_SHARE else _PATHS
        family = chance.choice(list(makers))
        query = chance.choice(makers[family])(chance)
        if query not in seen:
            seen.add(query)
            yield Subscription(f"{family}-{len(seen):04d}", query, NAMESPACES if "cap:" in query else {})


def _news_paths() -> tuple[Maker, ...]:
    return (
        lambda c: f"/story[head/section='{c.choice(SECTIONS)}']//topic[.='{c.choice(TOPICS)}']",
        lambda c: f"//place[@country='{c.choice(CITIES)[1]}'][. = '{c.choice(CITIES)[0]}']",
        lambda c: f"/story[@priority <= {c.randint(1, 4)} and @lang='{c.choice(LANGUAGES)}']/head/title",
        lambda c: f"//byline[.='{c.choice(AUTHORS)}' or .='{c.choice(AUTHORS)}']",
        lambda c: f"/story[head/topics/topic='{c.choice(TOPICS)}'][not(body/photo)]",
        lambda c: f"/story/body[@words > {c.randrange(200, 1400, 25)}]//photo[@width >= 1280]",
        lambda c: f"/story[head[place='{c.choice(CITIES)[0]}']/topics/topic[1]='{c.choice(TOPICS)}']//caption/em",
    )


def _alert_paths() -> tuple[Maker, ...]:
    return (
        lambda c: f"//cap:info[cap:event='{c.choice(EVENTS)}'][cap:severity='{c.choice(SEVERITIES)}']",
        lambda c: f"/cap:alert[cap:status='Actual']/cap:info[cap:area/cap:areaDesc='{c.choice(CITIES)[0]}']",
        lambda c: (
            f"//cap:info[cap:urgency='{c.choice(URGENCIES)}']"
            f"[cap:parameter[cap:valueName='level']/cap:value >= {c.randint(2, 5)}]/cap:headline"
        ),
        lambda c: f"//cap:area[cap:geocode/cap:value='{c.choice(CITIES)[1]}']/cap:areaDesc[.='{c.choice(CITIES)[0]}']",
        lambda c: f"/cap:alert[cap:msgType='{c.choice(('Update', 'Cancel'))}']//cap:event[.='{c.choice(EVENTS)}']",
    )


def _auction_paths() -> tuple[Maker, ...]:
    return (
        lambda c: f"/auction[@status='open']/item[@category='{c.choice(CATEGORIES)}'][@condition!='worn']",
        lambda c: f"//bid[. > {c.randrange(50, 700, 5)}]",
        lambda c: f"/auction[bids/bid/@by='{c.choice(BIDDERS)}']",
        lambda c: f"/auction[seller/@rating >= {c.randint(30, 50) / 10}]/item[@category='{c.choice(CATEGORIES)}']/name",
        lambda c: (
            f"//bids[@count > {c.randint(1, 5)}]/bid[1][@by='{c.choice(BIDDERS)}' or . < {c.randrange(10, 400, 10)}]"
        ),
        lambda c: f"//item[@category='{c.choice(CATEGORIES)}']/description/location[@country='{c.choice(CITIES)[1]}']",
    )


def _news_rewriting() -> tuple[Maker, ...]:
    return (
        lambda c: (
            f"for $s in /story where $s/head/topics/topic = '{c.choice(TOPICS)}' and $s/@priority <= {c.randint(2, 6)} "
            "return <brief>{ $s/head/title }{ $s/head/byline }{ $s/head/published }</brief>"
        ),
        lambda c: (
            f"for $p in /story[head/section='{c.choice(SECTIONS)}']//photo "
            f"where $p/@width >= {c.choice((640, 1280, 1920))} "
            f"return <picture wanted-by='{c.choice(BIDDERS)}'>{{ $p/caption }}</picture>"
        ),
        lambda c: (
            f"for $s in /story where $s/head/place = '{c.choice(CITIES)[0]}' and $s/@lang = '{c.choice(LANGUAGES)}' "
            "return <local>{ $s/head/place }{ $s/head/title }{ $s/body/p }</local>"
        ),
    )


def _alert_rewriting() -> tuple[Maker, ...]:
    return (
        lambda c: (
            f"for $i in //cap:info where $i/cap:event = '{c.choice(EVENTS)}' "
            f"and $i/cap:area/cap:areaDesc = '{c.choice(CITIES)[0]}' "
            "return <warning>{ $i/cap:headline }{ $i/cap:severity }{ $i/cap:area }</warning>"
        ),
        lambda c: (
            f"for $a in /cap:alert where $a/cap:info/cap:severity = '{c.choice(SEVERITIES)}' "
            f"and $a/cap:info/cap:urgency = '{c.choice(URGENCIES)}' "
            f"and $a/cap:info/cap:language = '{c.choice(LANGUAGES)}' "
            "return <page>{ $a/cap:identifier }{ $a/cap:info/cap:headline }</page>"
        ),
    )


def _auction_rewriting() -> tuple[Maker, ...]:
    return (
        lambda c: (
            f"for $a in /auction where $a/item/@category = '{c.choice(CATEGORIES)}' "
            f"and $a/bids/bid < {c.randrange(20, 400, 10)} "
            "return <offer>{ $a/item/name }{ $a/bids/bid }</offer>"
        ),
        lambda c: (
            f"for $b in /auction/bids/bid where $b/@by = '{c.choice(BIDDERS)}' and $b > {c.randrange(20, 300, 20)} "
            "return <mine>{ $b }</mine>"
        ),
        lambda c: (
            f"for $a in /auction[@status='closed'] where $a/seller = '{c.choice(BIDDERS)}' "
            "return <sold>{ $a/item/name }{ $a/bids/bid }{ $a/payment }</sold>"
        ),
    )


_PATHS: Final = {"news": _news_paths(), "alerts": _alert_paths(), "auctions": _auction_paths()}
_REWRITING: Final = {"news": _news_rewriting(), "alerts": _alert_rewriting(), "auctions": _auction_rewriting()}
