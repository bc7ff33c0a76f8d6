"""Node events: what a protocol node hands to its application."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Root, SourceEntry


class StoreRequested(NamedTuple):
    """A request to store a message or a horizon, and then to call `stored`."""

    root: Root  #: The root of the message.
    message: OverlayMessage | None  #: A message that a subscription here may match; `None`: only the horizon is new.
    #: The horizon that may be stored with this message and all earlier ones. Messages above it may be handed over again
    #: after a restart.
    horizon: int


class RangeLost(NamedTuple):
    """A range of missed messages that the root no longer has. The horizon will pass over it."""

    root: Root
    after: int
    upto: int


class ResendRequested(NamedTuple):
    """A request for stored messages of this broker. They are to be passed to `answer`, in order."""

    question: Recover


class InterestSettled(NamedTuple):
    """The confirmation that all reachable roots know the interests at the time when `settle` was called."""

    token: Hashable


class ProtocolViolation(NamedTuple):
    """A breach of the protocol by a neighbour. The node counts the link as down; the driver has to close it."""

    neighbour: Address
    kind: str  #: In a word: `version`, `identity`, `order`, `loop`, `hops`, `size`.
    reason: str  #: In a sentence.


class NodeWarning(NamedTuple):
    """A problem for an operator that breaks nothing here."""

    kind: str  #: In a word: `catalogue`, `identity`, `members`, `message`, `question`.
    reason: str  #: In a sentence.


class SourceChanged(NamedTuple):
    """A new or changed entry of the catalogue of sources."""

    source: SourceEntry


class ServiceMessageReceived(NamedTuple):
    """A message from the service of another broker."""

    origin: Address
    content: bytes


class MessageRouted(NamedTuple):
    """The decision where to forward a message (only with the setting `trace`)."""

    root: Root
    number: int
    message_id: str
    came_from: Address | None  #: The parent; `None`: the message was published here.
    taken: frozenset[Address]  #: The children to which it was sent.
    left_out: frozenset[Address]  #: The children that do not want it.
