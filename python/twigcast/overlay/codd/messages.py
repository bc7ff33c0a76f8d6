"""The messages of the cooperative tree (CoDD; the ones of ours are marked).

The messages of a session arrive in order, but a session may be lost, and a node may come back to a parent it has left.
All messages about a link therefore carry its *epoch*, a number that the child draws when it attaches and never draws
again; what belongs to another epoch is ignored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.core import Address, Traffic, carries

#: Usual size of a query on a wire; messages with many queries count this much for each.
QUERY_BYTES = 24


@carries(Traffic.DATA, lambda m: 4 + m.item.size_bytes)
class Forward(NamedTuple):
    """A document on its way down."""

    item: Item
    epoch: int


@carries(Traffic.DATA, lambda m: 8 + m.item.size_bytes)
class Replayed(NamedTuple):
    """A document sent again by the producer to a node that lost its parent (ours)."""

    item: Item
    token: int  #: Of the request.


@carries(Traffic.MAINTENANCE, lambda m: 12 + 6 * len(m.ancestors))
class Heartbeat(NamedTuple):
    """A report from parent to child: all it needs up to document `watermark` was sent before (ours)."""

    watermark: int  #: Number of the document up to which the parent itself is complete.
    ancestors: tuple[Address, ...]  #: The nodes above, nearest first, the parent included.
    round: int  #: Number of the producer's heartbeat that this one passes on: proof that the path above is whole.
    epoch: int


# Joining.


@carries(Traffic.CONTROL, lambda m: 10 + QUERY_BYTES * len(m.queries))
class Add(NamedTuple):
    """The ADD of the paper: a search for a parent for a node with these queries."""

    joiner: Address
    queries: frozenset[Query]
    token: int


@carries(Traffic.CONTROL, 12)
class AddResult(NamedTuple):
    """The ADDRESULT of the paper: an offer, with the overlap with the joiner and the depth of the sender."""

    token: int
    overlap: float
    level: int


@carries(Traffic.CONTROL, lambda m: 10 + QUERY_BYTES * len(m.queries))
class AddChild(NamedTuple):
    """The ADDCHILD of the paper: the sender becomes a child, or replaces the leaving child `replaces`."""

    queries: frozenset[Query]  #: What its subtree asks for.
    epoch: int
    replaces: Address = -1


@carries(Traffic.CONTROL, lambda m: len(m.reason))
class Reject(NamedTuple):
    """A refusal of `AddChild`: the slot has been taken meanwhile, or there would be a cycle (ours).

    It also answers a child that is none any more.
    """

    reason: str
    epoch: int


@carries(Traffic.CONTROL, lambda m: 8 + 6 * len(m.ancestors))
class AttachConfirmation(NamedTuple):
    """A confirmation that the whole path to the producer carries an announcement (ours)."""

    version: int  #: The announcement this answers.
    first: int  #: Number of the first document that surely comes on this link.
    ancestors: tuple[Address, ...]  #: The nodes above.
    epoch: int


# Filters.


@carries(Traffic.CONTROL, lambda m: 4 + QUERY_BYTES * (len(m.added) + len(m.removed)))
class ChangeQueries(NamedTuple):
    """The ADD_QUERY and REMOVE_QUERY of the paper: the sender's subtree asks for more, or for less."""

    added: frozenset[Query]
    removed: frozenset[Query]
    version: int
    epoch: int


# Leaving.


@carries(Traffic.CONTROL, 0)
class Leave(NamedTuple):
    """The LEAVE of the paper, from child to parent: the child has gone or moved."""

    epoch: int


@carries(Traffic.CONTROL, 12)
class NewParent(NamedTuple):
    """The NEW_PARENT of the paper: attach to `parent`, in place of `replaces`, or search for a parent from there on."""

    parent: Address
    replaces: Address = -1


@carries(Traffic.CONTROL, 4)
class EndOfStream(NamedTuple):
    """A notice that the producer has left and there will be nothing more (ours)."""

    last: int


@carries(Traffic.CONTROL, lambda m: 8 + QUERY_BYTES * len(m.queries))
class Replay(NamedTuple):
    """A request to the producer for the documents between `after` and `before` that these queries need (ours)."""

    queries: frozenset[Query]
    after: int
    before: int
    token: int


@carries(Traffic.CONTROL, 12)
class ReplayDone(NamedTuple):
    """The end of a replay. `lost` documents were too old to be kept (ours)."""

    token: int
    repeated: int
    lost: int


# Reorganisation.


@carries(Traffic.CONTROL, 10)
class Reorganize(NamedTuple):
    """The REORGANIZE of the paper, to the root: the sender asks for another parent for its child `subject`."""

    subject: Address
    overhead: float


@carries(Traffic.CONTROL, 6)
class Grant(NamedTuple):
    """The permission of the root to search for a better parent now (ours)."""

    subject: Address


@carries(Traffic.CONTROL, 1)
class SearchDone(NamedTuple):
    """A report to the root that the search is over, and whether the subtree was moved (ours)."""

    moved: bool


@carries(Traffic.CONTROL, lambda m: 10 + len(m.needed))
class GetOverhead(NamedTuple):
    """The GETOVERHEAD of the paper, which asks how many documents would come just for `subject`.

    `needed` is a serialised bitmap of the documents that the subtree needs.
    """

    subject: Address
    needed: bytes
    token: int


@carries(Traffic.CONTROL, lambda m: 9 + 6 * len(m.children))
class Overhead(NamedTuple):
    """The answer to `GetOverhead`: the number, whether there is capacity, and the children to ask next."""

    token: int
    overhead: int
    has_capacity: bool
    children: tuple[Address, ...]


@carries(Traffic.CONTROL, 6)
class Move(NamedTuple):
    """A request to the root of a subtree to attach to `parent` instead."""

    parent: Address


@carries(Traffic.CONTROL, 1)
class Moved(NamedTuple):
    """A report from the root of a subtree to its old parent: done, or refused (ours)."""

    moved: bool


# What a node delivers to its application.


class Received(NamedTuple):
    """A document that satisfies the node's own query. It is delivered once."""

    number: int
    content: Any = None

    def __repr__(self) -> str:
        return f"Received({self.number})"


class JoinedTree(NamedTuple):
    """The event that the node has a parent, and documents from `first` on will come."""

    parent: Address
    first: int


class Reorganised(NamedTuple):
    """The end of a search for a better parent: predicted cost before and after, or refused."""

    subject: Address
    cost_before: int
    cost_after: int
    moved: bool
    visited: int


class Gap(NamedTuple):
    """The number of documents that are lost, because the producer no longer keeps them."""

    documents: int


class StreamEnded(NamedTuple):
    """The event that the producer has left."""

    last: int


class TreeFailure(NamedTuple):
    """The final failure of a request of this node's application."""

    what: str
    reason: str
