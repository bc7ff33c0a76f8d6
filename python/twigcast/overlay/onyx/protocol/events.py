"""What a node hands to its application: things to store, questions to its store, news."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Root, SourceEntry


class StoreRequested(NamedTuple):
    """Store this; afterwards say `stored`.

    Attributes:
        root: Whose messages it is about.
        message: A message that somebody here may want; `None`: only the horizon is new.
        horizon: Once this and all that was handed over before is stored, all of the root is known up to here, so that
            it may be stored as the horizon. Of messages above it, some may be handed over again after a restart.
    """

    root: Root
    message: OverlayMessage | None
    horizon: int


class RangeLost(NamedTuple):
    """The root has no longer what was missing above `after`, up to `upto`. The horizon will pass over it."""

    root: Root
    after: int
    upto: int


class ResendRequested(NamedTuple):
    """Somebody has missed messages: read them from the store and answer, in order, with `answer`."""

    question: Recover


class InterestSettled(NamedTuple):
    """All roots that can be reached have heard of what was wanted here when `settle` was called with this token."""

    token: Hashable


class ProtocolViolation(NamedTuple):
    """A neighbour broke the protocol. The node counts the link as down; the driver is to break it.

    Attributes:
        kind: In a word: `version`, `identity`, `order`, `loop`, `hops`, `size`.
        reason: In a sentence.
    """

    neighbour: Address
    kind: str
    reason: str


class NodeWarning(NamedTuple):
    """Something is wrong that needs a person, and breaks nothing here: `identity`, `message`, `question`."""

    kind: str
    reason: str


class SourceChanged(NamedTuple):
    """A source is new, or something about it is."""

    source: SourceEntry


class ServiceMessageReceived(NamedTuple):
    """Another broker's service says something to that of this one."""

    origin: Address
    content: bytes


class MessageRouted(NamedTuple):
    """Where a message went from here (only with the setting `trace`).

    Attributes:
        came_from: The parent; `None`: it was published here.
        taken: The children it was sent to.
        left_out: The children that do not want it.
    """

    root: Root
    number: int
    message_id: str
    came_from: Address | None
    taken: frozenset[Address]
    left_out: frozenset[Address]
