"""The messages of the cooperative tree (CoDD; the ones of ours are marked).

Messages may overtake each other, and a node may come back to a parent it has left. All messages about a link therefore
carry its *epoch*, a number that the child chooses when it attaches; what belongs to another epoch is ignored.
"""

from __future__ import annotations

from typing import NamedTuple

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries

#: Usual size of a query on a wire; messages with many queries count this much for each.
QUERY_BYTES = 24


class Needs(NamedTuple):
    """What a subtree asks for: its announced queries, and how far its documents are complete.

    Attributes:
        queries: The queries.
        version: Number of this announcement on its link.
    """

    queries: frozenset[Query]
    version: int = 0


@carries(Traffic.DATA)
class Forward(NamedTuple):
    """A document on its way down. `sent` numbers the documents sent on this link."""

    item: Item
    sent: int
    epoch: int

    def size_bytes(self) -> int:
        """The document and a number."""
        return HEADER_BYTES + 4 + self.item.size_bytes


@carries(Traffic.DATA)
class Replayed(NamedTuple):
    """A document sent again by the producer to a node that lost its parent (ours)."""

    item: Item

    def size_bytes(self) -> int:
        """The document."""
        return HEADER_BYTES + self.item.size_bytes


@carries(Traffic.MAINTENANCE)
class Heartbeat(NamedTuple):
    """From parent to child: all you need up to document `watermark` is in the first `sent` documents (ours).

    Attributes:
        watermark: Number of the document up to which the parent itself is complete.
        sent: Documents sent on this link so far.
        ancestors: The nodes above, nearest first, the parent included.
        round: Number of the producer's heartbeat that this one passes on: proof that the path above is whole.
    """

    watermark: int
    sent: int
    ancestors: tuple[Address, ...]
    round: int
    epoch: int

    def size_bytes(self) -> int:
        """Three numbers and the addresses."""
        return HEADER_BYTES + 12 + 6 * len(self.ancestors)


# Joining.


@carries(Traffic.CONTROL)
class Add(NamedTuple):
    """ADD: find a place for a node with these queries."""

    joiner: Address
    queries: frozenset[Query]
    token: int

    def size_bytes(self) -> int:
        """The queries."""
        return HEADER_BYTES + 10 + QUERY_BYTES * len(self.queries)


@carries(Traffic.CONTROL)
class AddResult(NamedTuple):
    """ADDRESULT: the sender has room; how much it has in common with the joiner, and how deep it is."""

    token: int
    overlap: float
    level: int

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 12


@carries(Traffic.CONTROL)
class AddChild(NamedTuple):
    """ADDCHILD: the sender becomes a child; in place of `replaces`, where a leaving node passes its slot on."""

    needs: Needs
    epoch: int
    replaces: Address = -1

    def size_bytes(self) -> int:
        """The queries."""
        return HEADER_BYTES + 10 + QUERY_BYTES * len(self.needs.queries)


@carries(Traffic.CONTROL)
class Reject(NamedTuple):
    """The place has been taken meanwhile, or would make a cycle (ours)."""

    reason: str
    epoch: int

    def size_bytes(self) -> int:
        """A text."""
        return HEADER_BYTES + len(self.reason)


@carries(Traffic.CONTROL)
class AttachConfirmation(NamedTuple):
    """The whole path to the producer carries the announcement: all matching documents from `first` on will come (ours).

    Attributes:
        version: The announcement this answers.
        first: Number of the first document that surely comes on this link.
        ancestors: The nodes above.
    """

    version: int
    first: int
    ancestors: tuple[Address, ...]
    epoch: int

    def size_bytes(self) -> int:
        """Two numbers and the addresses."""
        return HEADER_BYTES + 8 + 6 * len(self.ancestors)


# Filters.


@carries(Traffic.CONTROL)
class ChangeQueries(NamedTuple):
    """ADD_QUERY and REMOVE_QUERY: the sender's subtree asks for more, or for less."""

    added: frozenset[Query]
    removed: frozenset[Query]
    version: int
    epoch: int

    def size_bytes(self) -> int:
        """The queries."""
        return HEADER_BYTES + 4 + QUERY_BYTES * (len(self.added) + len(self.removed))


# Leaving.


@carries(Traffic.CONTROL)
class Leave(NamedTuple):
    """LEAVE: from child to parent; the child has gone or moved."""

    epoch: int

    def size_bytes(self) -> int:
        """A header."""
        return HEADER_BYTES


@carries(Traffic.CONTROL)
class NewParent(NamedTuple):
    """NEW_PARENT: attach to `parent`, in place of `replaces`; or look for a place from there on."""

    parent: Address
    replaces: Address = -1

    def size_bytes(self) -> int:
        """Two addresses."""
        return HEADER_BYTES + 12


@carries(Traffic.CONTROL)
class EndOfStream(NamedTuple):
    """The producer has left: there will be nothing more (ours)."""

    last: int

    def size_bytes(self) -> int:
        """A number."""
        return HEADER_BYTES + 4


@carries(Traffic.CONTROL)
class Replay(NamedTuple):
    """To the producer: send the documents after `after` and before `before` that these queries need (ours)."""

    queries: frozenset[Query]
    after: int
    before: int

    def size_bytes(self) -> int:
        """The queries and two numbers."""
        return HEADER_BYTES + 8 + QUERY_BYTES * len(self.queries)


@carries(Traffic.CONTROL)
class ReplayDone(NamedTuple):
    """From the producer: that was all; `lost` documents were too old to be kept (ours)."""

    before: int
    repeated: int
    lost: int

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 12


# Reorganisation.


@carries(Traffic.CONTROL)
class Reorganize(NamedTuple):
    """REORGANIZE: to the root; the sender wants its child `subject` moved elsewhere."""

    subject: Address
    overhead: float

    def size_bytes(self) -> int:
        """An address and a number."""
        return HEADER_BYTES + 10


@carries(Traffic.CONTROL)
class Grant(NamedTuple):
    """From the root: search a better place now (ours)."""

    subject: Address

    def size_bytes(self) -> int:
        """An address."""
        return HEADER_BYTES + 6


@carries(Traffic.CONTROL)
class SearchDone(NamedTuple):
    """To the root: the search is over; was the subtree moved (ours)?"""

    moved: bool

    def size_bytes(self) -> int:
        """A flag."""
        return HEADER_BYTES + 1


@carries(Traffic.CONTROL)
class GetOverhead(NamedTuple):
    """GETOVERHEAD: how many documents would come to you just for `subject`? `needed` is a serialised bitmap."""

    subject: Address
    needed: bytes
    token: int

    def size_bytes(self) -> int:
        """The bitmap."""
        return HEADER_BYTES + 10 + len(self.needed)


@carries(Traffic.CONTROL)
class Overhead(NamedTuple):
    """The answer: the number, whether there is room, and the children where else to look."""

    token: int
    overhead: int
    has_capacity: bool
    children: tuple[Address, ...]

    def size_bytes(self) -> int:
        """Numbers and addresses."""
        return HEADER_BYTES + 9 + 6 * len(self.children)


@carries(Traffic.CONTROL)
class Move(NamedTuple):
    """To the root of a subtree: attach to `parent` instead."""

    parent: Address

    def size_bytes(self) -> int:
        """An address."""
        return HEADER_BYTES + 6


@carries(Traffic.CONTROL)
class Moved(NamedTuple):
    """From the root of a subtree to its old parent: done, or refused (ours)."""

    moved: bool

    def size_bytes(self) -> int:
        """A flag."""
        return HEADER_BYTES + 1


# What a node delivers to its application.


class Received(NamedTuple):
    """A document that satisfies the node's own query; delivered once."""

    number: int


class JoinedTree(NamedTuple):
    """The node has a parent, and documents from `first` on will come."""

    parent: Address
    first: int


class Reorganised(NamedTuple):
    """A search for a better place ended: predicted cost before and after, or refused."""

    subject: Address
    cost_before: int
    cost_after: int
    moved: bool
    visited: int


class Gap(NamedTuple):
    """Documents that could not be had any more, because the producer no longer keeps them."""

    documents: int


class StreamEnded(NamedTuple):
    """The producer has left."""

    last: int


class TreeFailure(NamedTuple):
    """Something failed for good."""

    what: str
    reason: str
