"""The overlay of a broker."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Self

from pydantic import Field

from twigcast.broker.api.models.common import Model, moment
from twigcast.overlay.onyx.registry.description import Description, read_description

if TYPE_CHECKING:
    from twigcast.broker.overlay.registration_service import BrokerChoice
    from twigcast.broker.overlay.registry.registrar import RegistryReport
    from twigcast.broker.overlay.reports import MessageRoute, OverlayReport
    from twigcast.overlay.onyx.network.reports import DialReport, LinkFault, LinkReport


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
    sends: str = Field(description="Form in which messages go to it, such as `text` or `dictionary+zstd`.")
    receives: str = Field(description="Form in which they come.")
    table: int = Field(description="Disjuncts of the routing queries that it has sent here.")
    messages_sent: int = Field(description="Messages forwarded to it since the link began.")
    messages_left_out: int = Field(description="Messages not forwarded to it, since no subscription there matched.")

    @classmethod
    def of(cls, link: LinkReport, table: int, flow: tuple[int, int]) -> Self:
        """Returns a link as the API shows it."""
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
            sends=link.sends,
            receives=link.receives,
            table=table,
            messages_sent=flow[0],
            messages_left_out=flow[1],
        )


class DialOut(Model):
    """A broker that is dialled, and not reached."""

    url: str
    attempts: int
    reason: str | None
    at: datetime | None

    @classmethod
    def of(cls, dial: DialReport) -> Self:
        """Returns it as the API shows it."""
        at = None if dial.at is None else moment(dial.at)
        return cls(url=dial.url, attempts=dial.attempts, reason=dial.reason, at=at)


class LinkFaultOut(Model):
    """A broker that was refused, or a link that broke."""

    at: datetime
    kind: str
    peer: str
    reason: str

    @classmethod
    def of(cls, trouble: LinkFault) -> Self:
        """Returns it as the API shows it."""
        return cls(at=moment(trouble.at), kind=trouble.kind, peer=trouble.peer, reason=trouble.reason)


class NeighbourOut(Model):
    """A link between two brokers, as the overlay reports it."""

    name: str
    cost: int = Field(description="The round trip in milliseconds, rounded up.")


class PeerOut(Model):
    """A broker of the overlay."""

    name: str
    identity: str
    label: str = Field(description="Its name and address.")
    url: str | None = Field(description="Its address for clients, if it publishes one.")
    place: tuple[float, float] = Field(description="Its position on the map that the brokers agree on.")
    holds_registry: bool = Field(description="Whether it holds the registry.")
    neighbours: list[NeighbourOut]
    towards: str | None = Field(description="The neighbour towards it; null for this broker.")
    horizon: int | None = Field(description="All its messages up to this number have arrived here.")
    missing: int = Field(description="Numbers of missing messages, which are requested again.")


class RegistryOut(Model):
    """The registry of sources and profiles, as this broker sees it."""

    holders: list[str] = Field(description="Names of the brokers that hold it; empty if none does.")
    role: str | None = Field(description="leader, follower or candidate; null if this broker does not hold it.")
    leader: str | None = Field(description="The leader, if it is known here.")
    entries: int = Field(description="Number of applied entries of the log that this broker holds.")

    @classmethod
    def of(cls, report: RegistryReport) -> Self:
        """Returns it as the API shows it."""
        return cls(holders=list(report.holders), role=report.role, leader=report.leader, entries=report.entries)


class OverlayOut(Model):
    """The overlay as this broker sees it."""

    name: str
    identity: str
    incarnation: int
    where: str
    links: list[LinkOut]
    not_reached: list[DialOut]
    troubles: list[LinkFaultOut] = Field(description="The latest, the newest last.")
    trouble_counts: dict[str, int]
    brokers: list[PeerOut]
    published: int = Field(description="Messages published here since the start.")
    stored: int = Field(description="Messages of other brokers that a subscription here matched.")
    unwanted: int = Field(description="Messages of other brokers that no subscription here matched.")
    known: int = Field(description="Messages of other brokers that were stored already.")
    reduced: int = Field(description="Times that only a part of a message was forwarded.")
    reduced_bytes: int = Field(description="Bytes saved by that.")
    insufficient: int = Field(
        description="Parts of messages that did not suffice here, so that the whole was requested."
    )
    refused: int = Field(description="Messages of other brokers that are stored as rejected.")
    asked_again: int = Field(description="Messages published here that other brokers requested again.")
    lost: int = Field(description="Times that they requested messages that retention had removed.")
    waiting_messages: int = Field(description="Messages of other brokers that wait for the store.")
    waiting_bytes: int
    wishes_waiting: int = Field(description="Subscriptions whose routing queries are not made yet.")
    wishes_generalised: int = Field(
        description="Subscriptions whose routing query matches more than they do: an exact one is too large."
    )
    registry: RegistryOut
    sources: int = Field(description="Sources that are registered in the overlay.")

    @classmethod
    def of(cls, report: OverlayReport) -> Self:
        """Returns it as the API shows it."""
        received, tallies = report.received, report.tallies
        return cls(
            name=report.name,
            identity=str(report.identity),
            incarnation=report.incarnation,
            where=report.where,
            links=[
                LinkOut.of(
                    link, report.status.tables.get(link.identity, 0), report.status.flows.get(link.identity, (0, 0))
                )
                for link in report.links
            ],
            not_reached=[DialOut.of(dial) for dial in report.dials],
            troubles=[LinkFaultOut.of(trouble) for trouble in report.troubles],
            trouble_counts=report.trouble_counts,
            brokers=_peers(report),
            published=tallies.published,
            stored=received.stored,
            unwanted=received.unwanted,
            known=received.already_stored,
            reduced=report.status.counts.get("reduced", 0),
            reduced_bytes=report.status.counts.get("reduced_bytes", 0),
            insufficient=report.status.counts.get("insufficient", 0),
            refused=received.refused,
            asked_again=tallies.recovered,
            lost=tallies.lost + received.lost,
            waiting_messages=report.waiting_messages,
            waiting_bytes=report.waiting_bytes,
            wishes_waiting=report.interests_waiting,
            wishes_generalised=report.interests_generalised,
            registry=RegistryOut.of(report.registry),
            sources=report.sources,
        )


def _peers(report: OverlayReport) -> list[PeerOut]:
    status = report.status
    results = []
    for peer in status.peers:
        towards = status.parents.get(peer.identity)
        description = read_description(peer.label)
        results.append(
            PeerOut(
                name=report.name_of(peer.identity),
                identity=str(peer.identity),
                label=description.label,
                url=description.url or None,
                place=description.location,
                holds_registry=description.name in report.registry.holders,
                neighbours=[NeighbourOut(name=report.name_of(one), cost=cost) for one, cost in peer.links],
                towards=None if towards is None else report.name_of(towards),
                horizon=status.horizons.get(peer.identity),
                missing=status.gaps.get(peer.identity, 0),
            )
        )
    return sorted(results, key=lambda peer: peer.name)


class BranchOut(Model):
    """The decision about a message on one link."""

    neighbour: str
    behind: bool = Field(
        description="Whether the neighbour is behind this broker, as seen from the root of the message."
    )
    taken: bool = Field(description="Whether the message is forwarded there.")
    wanted: list[str] = Field(description="Routing queries there that match it, in the scope of its tenant.")
    reduced: str | None = Field(
        description="The query whose result is sent instead of the message; null if the message is sent."
    )


class RouteOut(Model):
    """The route of a message through the overlay."""

    root: str = Field(description="The broker that accepted it first.")
    number: int = Field(description="Its number there.")
    passed: list[str] = Field(description="The brokers that it passed, this one last.")
    links: list[BranchOut] = Field(description="Decisions by the present routing tables.")

    @classmethod
    def of(cls, route: MessageRoute) -> Self:
        """Returns it as the API shows it."""
        links = [
            BranchOut(
                neighbour=name,
                behind=branch.is_child,
                taken=branch.is_child and bool(branch.interests),
                wanted=list(branch.interests),
                reduced=branch.reduced or None,
            )
            for name, branch in route.branches
        ]
        return cls(root=route.root, number=route.number, passed=route.passed, links=links)


class RegistrationIn(Model):
    """A source to be registered."""

    place: tuple[float, float] = Field(
        (0.0, 0.0), description="Its position on the map of `overlay_place`: a broker near it becomes its root."
    )
    dtd: str = Field("", max_length=512 << 10, description="Its schema, as a DTD; empty if there is none.")
    rate: float = Field(1.0, ge=0, le=1e9, description="Messages a second that it expects to publish.")
    size: int = Field(1_000, ge=0, le=1 << 40, description="Bytes of a message that it expects.")


class ChosenOut(Model):
    """A chosen broker."""

    name: str
    url: str | None = Field(description="Its address for clients; null if it publishes none.")

    @classmethod
    def of(cls, broker: Description) -> Self:
        """Returns it as the API shows it."""
        return cls(name=broker.name, url=broker.url or None)


class ChoiceOut(Model):
    """The broker that serves a source or a subscriber."""

    broker: ChosenOut
    backup: ChosenOut | None = Field(description="The broker that would replace it.")

    @classmethod
    def of(cls, choice: BrokerChoice) -> Self:
        """Returns it as the API shows it."""
        backup = None if choice.backup is None else ChosenOut.of(choice.backup)
        return cls(broker=ChosenOut.of(choice.broker), backup=backup)


class RegisteredOut(ChoiceOut):
    """A registered source: where it publishes, and with which key."""

    key: str = Field(description="To be sent as `Twigcast-Source-Key` with each message, and to change the source.")


class SourceEntryOut(Model):
    """A source in the catalogue."""

    name: str
    root: str = Field(description="The broker at which it publishes.")
    url: str | None = Field(description="The address of that broker; null if it publishes none.")
    version: int = Field(description="Grows with each change.")
    rate: float
    size: int
    dtd: str | None = Field(description="Its schema; null if it was not requested, or there is none.")


class CatalogueOut(Model):
    """The catalogue of an overlay, for one tenant."""

    sources: list[SourceEntryOut]


class ProfileIn(Model):
    """The expected subscriptions of a subscriber, for which a broker is chosen."""

    query: str = Field(max_length=1 << 20)
    namespaces: dict[str, str] = Field(default_factory=dict)
    place: tuple[float, float] = Field((0.0, 0.0), description="The position of the subscriber.")


class MovedOut(Model):
    """The new brokers of the sources and profiles of a broker that is gone."""

    sources: int = Field(description="Sources that publish at another broker now.")
    profiles: int = Field(description="Profiles whose host is another broker now.")
