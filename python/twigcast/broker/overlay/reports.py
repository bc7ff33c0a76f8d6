"""What is told of the overlay: for the API, the console and the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from twigcast.broker.overlay.node import LinkDecision, NodeStatus
from twigcast.broker.overlay.receiving import ReceiveCounts
from twigcast.broker.overlay.registry.registrar import RegistryReport
from twigcast.overlay.onyx.network.reports import DialReport, LinkFault, LinkReport


@dataclass(slots=True)
class TrafficTotals:
    """What was passed on since the start."""

    published: int = 0
    """Messages published here that the node was told of."""
    recovered: int = 0
    """Messages published here that others asked for again."""
    recoveries: int = 0
    """Times that others asked."""
    lost: int = 0
    """Times that they asked for what retention had removed."""


@dataclass(frozen=True, slots=True)
class OverlayReport:
    """How the overlay looks from here."""

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
    """Messages brought into another form for a neighbour."""
    damaged: int
    """Messages that could not be."""
    left_as_text: int
    """Messages that went as text, since they would be over a limit in the form that was agreed on."""
    waiting_messages: int
    waiting_bytes: int
    interests_waiting: int
    interests_generalised: int
    wide_scopes: frozenset[str]
    registry: RegistryReport
    sources: int
    """That are registered."""
    sources_refused: dict[str, int]
    """By tenant: messages under the name of a source that is somebody else's."""

    def name_of(self, identity: int) -> str:
        """The name of a broker, as far as it is known."""
        return self.names.get(identity) or str(identity)


@dataclass(frozen=True, slots=True)
class MessageRoute:
    """The way of a message through the overlay."""

    root: str
    """The broker that accepted it first."""
    number: int
    """Its number there."""
    passed: list[str]
    """The brokers that it passed, this one last."""
    branches: list[tuple[str, LinkDecision]]
    """By name of the neighbour, what became, or would become, of it on each link."""
