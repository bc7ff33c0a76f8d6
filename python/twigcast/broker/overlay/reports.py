"""Reports on the overlay for the API, the console and the metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from twigcast.broker.overlay.receiving import ReceiveCounts
from twigcast.broker.overlay.registry.registrar import RegistryReport
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import Root
from twigcast.overlay.onyx.network.reports import DialReport, LinkFault, LinkReport


class LinkDecision(NamedTuple):
    """The decision whether a message passes over one link.

    Attributes:
        neighbour: The broker at the other end.
        is_child: Whether it lies below this broker in the tree of the message's root.
        interests: Texts of the disjuncts that the message satisfies; empty: it does not pass.
        reduced: The query whose result is sent in place of the message; empty: the message itself is sent.
    """

    neighbour: Address
    is_child: bool
    interests: tuple[str, ...]
    reduced: str = ""


class BrokerInfo(NamedTuple):
    """A broker of the overlay: its number, what it says of itself, and its neighbours with the costs of the links."""

    identity: Address
    label: str
    links: tuple[tuple[Address, int], ...]


class NodeStatus(NamedTuple):
    """The status of a node.

    Attributes:
        peers: All brokers of the overlay, with this one.
        tables: By neighbour, the number of disjuncts that it wants.
        horizons: By root, its horizon.
        gaps: By root, how many numbers below the last received one are missing.
        parents: By root, the next broker towards it.
        counts: By name, what the node has done since its start.
        flows: By neighbour, messages sent over the current link, and messages that nobody behind it wanted.
    """

    peers: tuple[BrokerInfo, ...]
    tables: Mapping[Address, int]
    horizons: Mapping[Root, int]
    gaps: Mapping[Root, int]
    parents: Mapping[Root, Address]
    counts: Mapping[str, int] = {}
    flows: Mapping[Address, tuple[int, int]] = {}


@dataclass(slots=True)
class TrafficTotals:
    """Counts of messages since the start."""

    published: int = 0
    """Messages published here and handed to the node."""
    recovered: int = 0
    """Messages published here that others requested again."""
    recoveries: int = 0
    """Requests of other brokers for missed messages."""
    lost: int = 0
    """Requests for messages that retention had removed."""


@dataclass(frozen=True, slots=True)
class OverlayReport:
    """The state of the overlay, as seen by one broker."""

    name: str
    identity: int
    incarnation: int
    where: str
    links: list[LinkReport]
    dials: list[DialReport]
    troubles: list[LinkFault]
    trouble_counts: dict[str, int]
    status: NodeStatus
    names: dict[int, str]
    received: ReceiveCounts
    tallies: TrafficTotals
    transcoded: int
    """Messages converted to another form for a neighbour."""
    damaged: int
    """Messages that could not be converted."""
    left_as_text: int
    """Messages sent as text, since they would be over a limit in the agreed form."""
    waiting_messages: int
    waiting_bytes: int
    interests_waiting: int
    interests_generalised: int
    wide_scopes: frozenset[str]
    registry: RegistryReport
    sources: int
    """Registered sources."""
    sources_refused: dict[str, int]
    """By tenant, messages refused because the source of that name has another key."""

    def name_of(self, identity: int) -> str:
        """Returns the name of a broker, or its number if the name is unknown."""
        return self.names.get(identity) or str(identity)


@dataclass(frozen=True, slots=True)
class MessageRoute:
    """The route of a message through the overlay."""

    root: str
    """The broker that accepted it first."""
    number: int
    """Its number there."""
    passed: list[str]
    """The brokers that the message has passed, this one last."""
    branches: list[tuple[str, LinkDecision]]
    """By name of the neighbour, the decision on each link."""
