"""The counters of a simulation: messages and bytes by kind and by traffic, and the load of each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twigcast.lab.overlays.ordered import Piece
from twigcast.overlay.core import Address, KeyRoutedMessage, LinkMessage


@dataclass(slots=True)
class Counters:
    """Counts of one run. Messages between nodes of one host are counted apart: they cross no network."""

    messages: Counter[type] = field(default_factory=Counter)
    bytes: Counter[type] = field(default_factory=Counter)
    local_messages: int = 0
    lost: int = 0
    doubled: int = 0
    blocked: int = 0
    dropped: int = 0
    events: int = 0
    received: Counter[Address] = field(default_factory=Counter)

    def by_kind(self) -> dict[str, int]:
        """Returns the messages sent over the network by name of their class, most frequent first."""
        return {kind.__name__: count for kind, count in self.messages.most_common()}

    def by_traffic(self) -> dict[str, int]:
        """Returns the messages sent over the network by kind of traffic. Enveloped ones count as what is inside."""
        totals: Counter[str] = Counter()
        for kind, count in self.messages.items():
            totals[_traffic_of(kind)] += count
        return dict(totals)


def _traffic_of(kind: Any) -> str:
    return str(getattr(kind, "traffic", "other"))


def content_kind(message: Any) -> type:
    """Returns the class that a message counts under. Wrappers count as what is inside."""
    kind = type(message)
    if kind is LinkMessage or kind is Piece:
        message = message.message
        kind = type(message)
    return type(message.payload) if kind is KeyRoutedMessage else kind


def shares(loads: Iterable[float]) -> list[float]:
    """Loads as fractions of their sum, heaviest first; all zero where there is no load."""
    ordered = sorted(loads, reverse=True)
    total = sum(ordered)
    return [load / total if total else 0.0 for load in ordered]


def top_share(loads: Sequence[float], fraction: float) -> float:
    """Returns the share of the whole load carried by the heaviest `fraction` of the nodes (at least one node)."""
    ranked = shares(loads)
    return sum(ranked[: max(1, round(len(ranked) * fraction))]) if ranked else 0.0


def gini(loads: Sequence[float]) -> float:
    """Returns the Gini coefficient of the loads: 0 for perfect balance, near 1 if one node carries all."""
    ordered = sorted(loads)
    total = sum(ordered)
    if not total:
        return 0.0
    weighted = sum(rank * load for rank, load in enumerate(ordered, start=1))
    count = len(ordered)
    return 2 * weighted / (count * total) - (count + 1) / count
