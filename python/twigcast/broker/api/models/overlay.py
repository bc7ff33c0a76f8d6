"""The overlay of a broker."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self

from pydantic import Field

from twigcast.broker.api.models.common import Model, moment

if TYPE_CHECKING:
    from twigcast.broker.overlay.service import Report, Way
    from twigcast.overlay.onyx.network.reports import DialReport, LinkReport, Trouble


class LinkOut(Model):
    """A link to a neighbouring broker."""

    name: str
    identity: str = Field(description="Its number in the overlay, as a text: it has up to 62 bits.")
    where: str = Field(description="The address that was dialed, or from which it was dialed.")
    dialed: bool = Field(description="Whether this broker dialed.")
    secure: bool = Field(description="Whether both have shown certificates.")
    software: str
    since: datetime
    round_trip: float | None = Field(description="Seconds.")
    clock_ahead: float | None = Field(description="By how many seconds its clock is ahead of ours.")
    queue_frames: int
    queue_bytes: int
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int
    table: int = Field(description="Disjuncts of routing queries that it wants from here.")

    @classmethod
    def of(cls, link: LinkReport, table: int) -> Self:
        """A link as it is shown."""
        return cls(
            name=link.name,
            identity=str(link.identity),
            where=link.where,
            dialed=link.dialed,
            secure=link.secure,
            software=link.software,
            since=moment(link.since),
            round_trip=link.round_trip,
            clock_ahead=link.skew,
            queue_frames=link.queue_frames,
            queue_bytes=link.queue_bytes,
            sent_frames=link.sent_frames,
            sent_bytes=link.sent_bytes,
            received_frames=link.received_frames,
            received_bytes=link.received_bytes,
            table=table,
        )


class DialOut(Model):
    """A broker that is to be reached, and is not."""

    url: str
    attempts: int
    reason: str | None
    at: datetime | None

    @classmethod
    def of(cls, dial: DialReport) -> Self:
        """It as it is shown."""
        at = None if dial.at is None else moment(dial.at)
        return cls(url=dial.url, attempts=dial.attempts, reason=dial.reason, at=at)


class TroubleOut(Model):
    """A broker that was refused, or a link that broke."""

    at: datetime
    kind: str
    peer: str
    reason: str

    @classmethod
    def of(cls, trouble: Trouble) -> Self:
        """It as it is shown."""
        return cls(at=moment(trouble.at), kind=trouble.kind, peer=trouble.peer, reason=trouble.reason)


class NeighbourOut(Model):
    """A link between two brokers, as the overlay knows it."""

    name: str
    cost: int = Field(description="Milliseconds there and back, rounded up.")


class PeerOut(Model):
    """A broker of the overlay."""

    name: str
    identity: str
    label: str = Field(description="Its name and address.")
    neighbours: list[NeighbourOut]
    towards: str | None = Field(description="The neighbour that lies towards it; null: it is this broker.")
    horizon: int | None = Field(description="All its messages up to this number are known here.")
    missing: int = Field(description="Numbers below those that have come since that are asked for again.")


class OverlayOut(Model):
    """The overlay as this broker sees it."""

    name: str
    identity: str
    incarnation: int
    where: str
    links: list[LinkOut]
    not_reached: list[DialOut]
    troubles: list[TroubleOut] = Field(description="The latest, the newest last.")
    trouble_counts: dict[str, int]
    brokers: list[PeerOut]
    published: int = Field(description="Messages published here, since the start.")
    stored: int = Field(description="Messages of others that a subscription here matched.")
    unwanted: int = Field(description="Messages of others that none matched.")
    known: int = Field(description="Messages of others that were stored already.")
    refused: int = Field(description="Messages of others that are kept as rejected.")
    asked_again: int = Field(description="Messages published here that others asked for again.")
    lost: int = Field(description="Times that they asked for what retention had removed.")
    waiting_messages: int = Field(description="Messages of others that wait for the store.")
    waiting_bytes: int
    wishes_waiting: int = Field(description="Subscriptions whose routing queries are still to be made.")

    @classmethod
    def of(cls, report: Report) -> Self:
        """It as it is shown."""
        received, tallies = report.received, report.tallies
        return cls(
            name=report.name,
            identity=str(report.identity),
            incarnation=report.incarnation,
            where=report.where,
            links=[LinkOut.of(link, report.status.tables.get(link.identity, 0)) for link in report.links],
            not_reached=[DialOut.of(dial) for dial in report.dials],
            troubles=[TroubleOut.of(trouble) for trouble in report.troubles],
            trouble_counts=report.trouble_counts,
            brokers=_peers(report),
            published=tallies.published,
            stored=received.stored,
            unwanted=received.unwanted,
            known=received.known,
            refused=received.refused,
            asked_again=tallies.recovered,
            lost=tallies.lost + received.lost,
            waiting_messages=report.waiting_messages,
            waiting_bytes=report.waiting_bytes,
            wishes_waiting=report.wishes_waiting,
        )


def _peers(report: Report) -> list[PeerOut]:
    status = report.status
    found = []
    for peer in status.peers:
        towards = status.parents.get(peer.identity)
        found.append(
            PeerOut(
                name=report.name_of(peer.identity),
                identity=str(peer.identity),
                label=peer.label,
                neighbours=[NeighbourOut(name=report.name_of(one), cost=cost) for one, cost in peer.links],
                towards=None if towards is None else report.name_of(towards),
                horizon=status.horizons.get(peer.identity),
                missing=status.gaps.get(peer.identity, 0),
            )
        )
    return sorted(found, key=lambda peer: peer.name)


class BranchOut(Model):
    """What becomes of a message on one link."""

    neighbour: str
    behind: bool = Field(description="Whether the neighbour lies behind this broker, seen from the message's root.")
    taken: bool = Field(description="Whether the message goes there.")
    wanted: list[str] = Field(description="Routing queries that want it there, in the scope of its tenant.")


class WayOut(Model):
    """The way of a message through the overlay."""

    root: str = Field(description="The broker that accepted it first.")
    number: int = Field(description="Its number there.")
    passed: list[str] = Field(description="The brokers that it passed, this one last.")
    links: list[BranchOut] = Field(description="As the routing tables are now.")

    @classmethod
    def of(cls, way: Way) -> Self:
        """It as it is shown."""
        links = [
            BranchOut(
                neighbour=branch.neighbour,
                behind=branch.is_child,
                taken=branch.is_child and bool(branch.wanted),
                wanted=list(branch.wanted),
            )
            for branch in way.branches
        ]
        return cls(root=way.root, number=way.number, passed=way.passed, links=links)
