"""Random histories of brokers that reduce messages on their links, some of them: each result is that of one broker."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

from lxml import etree

from tests.overlay.onyx.protocol.histories import History, violations_of
from twigcast import SubscriptionSet
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Projection, part_of
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.messages import OverlayMessage, RoutingQuery
from twigcast.overlay.onyx.protocol.events import StoreRequested
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

#: Mostly such as allow a projection, with a few that need the whole, or something else of it.
QUERIES = (
    "for $n in /b/n where $n/@area = 1 return <r>{ $n/head }</r>",
    "for $n in /b/n where $n/@area = 2 return <r>{ $n/head }{ $n/body }</r>",
    "for $n in /b/n where $n/@area = 2 and $n/head return $n/body",
    "for $n in /b/n where $n/@area = 3 or $n/urgent return $n",
    "for $n in /b/n[head] return <r>{ $n/@area }</r>",
    "<all>{ for $n in /b/n where count($n/body) > 1 return $n/body[2] }</all>",
    "for $n in /b/n where not($n/head) return <none/>",
    "for $n in /b/n where $n/@area = 1 return <r>{ $n/node()[not(self::image or self::urgent)] }</r>",
    "for $n in /b/m return $n",
    "count(/b/n) = 1",
    "not(/b/n[@area = 1])",
    "//urgent",
)
_MANY_WHOLE = 0.05


def draw_batch(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.randint(0, 4)):
        inside = "".join(
            rng.choice(("<head>h</head>", "<body>x</body>", "<body><urgent/>y</body>", "<urgent/>", "text", "<image/>"))
            for _ in range(rng.randint(0, 4))
        )
        parts.append(f"<n area='{rng.randint(1, 4)}'>{inside}</n>" if rng.random() < 0.9 else "<m/>")
    return f"<b d='1'>{''.join(parts)}</b>".encode()


@lru_cache(maxsize=64)
def engine(query: str) -> SubscriptionSet:
    result = SubscriptionSet()
    result.add_many([("q", query)]).raise_if_refused()
    return result


@lru_cache(maxsize=20_000)
def result(query: str, body: bytes) -> bytes | None:
    """What one broker makes of a message for a user; `None`: no match. A match without a result of its own: a word."""
    deliveries = list(engine(query).deliver(body))
    if not deliveries:
        return None
    if not query.startswith(("for", "<")):
        return b"matches"
    payload = deliveries[0].payload
    return etree.tostring(etree.fromstring(b"<w>" + payload + b"</w>"), method="c14n", exclusive=True)


@lru_cache
def wanted(query: str) -> RoutingQuery:
    return routing_query(query)


@lru_cache
def part(query: str) -> Projection | None:
    return part_of(query, {})


@dataclass
class ReducingHistory(History):
    """Half of the histories have brokers among them that do not reduce."""

    queries: ClassVar[Sequence[str]] = QUERIES
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def settings_of(self, settings: OnyxSettings) -> Callable[[Address], OnyxSettings]:
        rng = random.Random(f"who {self.seed}")
        share = rng.choice((1.0, 1.0, 0.7))
        self.few = rng.random() < 0.5
        does = [rng.random() < share for _ in range(10)]
        return lambda address: replace(settings, reduces=does[address])

    def draw(self) -> bytes:
        return draw_batch(self.rng)

    def matches(self, query: str, body: bytes) -> bool:
        return result(query, body) is not None

    def wanted(self, query: str) -> RoutingQuery:
        return wanted(query)

    def part(self, query: str) -> Projection | None:
        return part(query)

    def is_published(self, message: OverlayMessage, body: bytes | None) -> bool:
        return body is not None and (bool(message.reduced) or message.body == body)

    def _note(self, time: float, address: Address, item: object) -> None:
        super()._note(time, address, item)
        if isinstance(item, StoreRequested) and item.message is not None:
            self._look(address, item.message)

    def _look(self, address: Address, message: OverlayMessage) -> None:
        """Whoever has a subscription where a message is handed over gets what the whole message gives."""
        original = self.network.stores[message.root].messages[message.number].body
        self.counts["reduced" if message.reduced else "whole"] += 1
        for interest in self.open_wishes():
            if interest.broker == address and result(interest.query, message.body) != result(interest.query, original):
                self.wrong.append(f"at {address}, {interest.query}: {message.body!r} of {original!r}")

    def violations(self) -> list[str]:
        return super().violations() + self.wrong


def run_reducing_history(seed: int) -> list[str]:
    """Violations of one history, in words."""
    return violations_of(ReducingHistory(seed))
