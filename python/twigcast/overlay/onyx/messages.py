"""The messages between brokers, and the values in them.

Links preserve order. A link that ends and is made again is a new one, which both sides begin with :class:`Hello`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries

if TYPE_CHECKING:
    from twigcast.overlay.onyx.lexicon import Lexicon

#: The root of a message: the broker that stored it first.
Root: TypeAlias = Address

#: Version of the protocol: major and minor; the major ones must be equal. The major one grows if an existing frame gets
#: other fields, since frames do not name their fields, or if element streams change. The minor one grows with new
#: kinds, which older brokers skip.
PROTOCOL = (3, 1)

#: Most disjuncts in one `RoutingDelta`; more are sent in several, since processing one delays all else.
DISJUNCTS_PER_DELTA_MAX = 1 << 16

#: Stands for the set of all roots.
EVERYWHERE = "*"


class LinearPath(NamedTuple):
    """An absolute linear path with its predicates (Diao 2005, section 7.3.1), in canonical form."""

    text: str  #: Canonical text; equal paths have equal texts.
    #: Pairs of canonical prefix and URI, in the order of their first use in the text.
    namespaces: tuple[tuple[str, str], ...] = ()


class Disjunct(NamedTuple):
    """A conjunction of a routing query. Without paths it is always true."""

    scope: str  #: The tenant of the messages; empty if there is only one.
    paths: frozenset[LinearPath]  #: The paths that are all required.


#: A routing query: the `or` of its disjuncts. An empty one wants nothing.
RoutingQuery: TypeAlias = frozenset[Disjunct]


class OverlayMessage(NamedTuple):
    """An XML message between brokers."""

    root: Root  #: The broker that stored it first.
    number: int  #: Its sequence number there.
    scope: str  #: Its tenant.
    source: str  #: Name of its source.
    message_id: str  #: Identifier from its publisher or its root.
    content_type: str  #: Content type with the charset, if any.
    body: bytes  #: The bytes in the form `form`.
    form: str = "text"  #: Name of the wire form; `text` unless another one is agreed on.
    path: tuple[Address, ...] = ()  #: The brokers that it has passed, the root first. Shows loops and the route.
    published: float = 0.0  #: Time of acceptance at the root, in seconds.
    reduced: str = ""  #: The part to which the body is reduced (see `write_part`); empty: the body is whole.
    #: The dictionary with which the body was written, if any. It is known on the link, and not sent with it.
    lexicon: Lexicon | None = None

    def passed_on(self, broker: Address) -> OverlayMessage:
        """Returns the message with one broker more in its path. `_replace` would take four times as long for each."""
        root, number, scope, source, message_id, content_type, body, form, path, published, reduced, lexicon = self
        path = (*path, broker)
        return _new(
            OverlayMessage,
            (root, number, scope, source, message_id, content_type, body, form, path, published, reduced, lexicon),
        )


_new = tuple.__new__


class PeerMessage(NamedTuple):
    """A message of another protocol over the links of this one, as the bytes of its own form."""

    body: bytes


@carries(Traffic.DATA, lambda m: 24 + (len(m.message.body) + len(m.message.reduced) + 64 if m.message else 0))
class Span(NamedTuple):
    """The numbers of `root` above `after` up to `upto`, sent down its tree. No other message of them is wanted."""

    root: Root
    after: int
    upto: int
    message: OverlayMessage | None  #: The message with the number `upto`; `None`: the receiver wants none of the range.


@carries(Traffic.CONTROL, lambda m: 20 + sum(len(form) + 1 for form in m.forms))
class Hello(NamedTuple):
    """The first message on a new link, from both sides."""

    identity: Address  #: Number of the sender, which never changes.
    incarnation: int  #: Number of its start; distinguishes two brokers with the same identity.
    version: tuple[int, int]  #: Major and minor version of the protocol; the major ones must be equal.
    forms: tuple[str, ...]  #: Wire forms that the sender can read, the best first.


@carries(Traffic.CONTROL, lambda m: 20 + 12 * len(m.links) + len(m.where))
class LinkState(NamedTuple):
    """The links of one broker with their costs. It is flooded, and the newest one counts.

    Later states have a greater pair of incarnation and version.
    """

    origin: Address
    incarnation: int
    version: int
    links: tuple[tuple[Address, int], ...]  #: Pairs of neighbour and cost: round trip in milliseconds, 1 or more.
    where: str = ""  #: How others reach the broker (host and port); empty in the simulator.


def _paths_bytes(disjuncts: Iterable[Disjunct]) -> int:
    return sum(len(path.text) + 2 for disjunct in disjuncts for path in disjunct.paths)


def _delta_bytes(delta: RoutingDelta) -> int:
    disjuncts = [*(disjunct for disjunct, _ in delta.interests), *delta.unwanted]
    return 4 + _paths_bytes(disjuncts) + sum(8 * len(roots) for _, roots in delta.interests)


@carries(Traffic.INDEXING, _delta_bytes)
class RoutingDelta(NamedTuple):
    """Changes of what the sender wants from a neighbour."""

    version: int  #: Counts from 0 on each link; version 0 holds all interests.
    #: Disjuncts with the roots for whose messages they hold (all: `EVERYWHERE`).
    interests: tuple[tuple[Disjunct, frozenset[Root] | str], ...]
    unwanted: tuple[Disjunct, ...]  #: Disjuncts that are no longer wanted for any root.


@carries(Traffic.INDEXING, lambda m: 1 + sum(len(scope) + len(text) + 4 for scope, text in m.parts))
class SetProjection(NamedTuple):
    """The parts of messages that the sender uses, in place of the previous ones."""

    parts: tuple[tuple[str, str], ...]  #: By scope, the text of a part (see `write_part`); empty: the whole.
    rest: bool = False  #: Whether the whole may be used of all other scopes; otherwise nothing is.


@carries(Traffic.CONTROL, 17)
class Attach(NamedTuple):
    """A request to the parent towards `root` to confirm the interests that were sent before."""

    root: Root
    number: int  #: Grows with each request of the sender for this root.
    #: Links of the request and of those for which it was sent. Bounds it while brokers disagree on the tree.
    hops: int = 1


@carries(Traffic.CONTROL, 8)
class Detach(NamedTuple):
    """A request to a former parent towards `root` to send no more of its messages."""

    root: Root


@carries(Traffic.CONTROL, 24)
class Attached(NamedTuple):
    """The answer to `Attach`: spans that begin at `position` or later count."""

    root: Root
    number: int
    position: int


@carries(Traffic.CONTROL, lambda m: 24 + _paths_bytes(m.query) + 8 * len(m.route))
class Recover(NamedTuple):
    """A question to `root`, passed up its tree, for the messages above `after` up to `upto` that `query` wants."""

    root: Root
    after: int
    upto: int
    query: RoutingQuery
    route: tuple[Address, ...]  #: The brokers passed, the asker first. The answer goes back along it.


@carries(Traffic.DATA, lambda m: m.span.size_bytes() - HEADER_BYTES + 8 * len(m.route))
class Recovered(NamedTuple):
    """A span of the answer to `Recover`, passed back along the rest of `route`, the asker last."""

    span: Span
    route: tuple[Address, ...]
    lost: bool = False  #: Whether the root no longer has these messages.
    #: Whether the answer pauses here until the asker asks for the rest, so that links are not overloaded.
    pauses: bool = False


@carries(Traffic.CONTROL, 20)
class StoredReport(NamedTuple):
    """A report to the parent towards `root` on what is stored at and below the sender, for the root to forget it."""

    root: Root
    horizon: int  #: The lowest horizon.
    brokers: int = 1  #: Number of brokers with a horizon. If these are not all, some broker is unreachable.


@carries(Traffic.CONTROL, lambda m: 33 + len(m.name) + len(m.schema) + len(m.owner))
class SourceEntry(NamedTuple):
    """An entry of the catalogue of sources. It is flooded, and the newest version counts."""

    name: str  #: Name of the source.
    version: int  #: Grows with each change of this source.
    root: Root  #: The broker at which it publishes.
    schema: str = ""  #: Its DTD; empty: none.
    rate: float = 0.0  #: Expected messages per second.
    size: int = 0  #: Expected bytes of a message.
    is_gone: bool = False  #: Whether the source is removed.
    owner: str = ""  #: SHA-256, in hexadecimal, of the key of its publishers; empty: no key is required.


@carries(Traffic.CONTROL, lambda m: 20 + len(m.content))
class ServiceMessage(NamedTuple):
    """A message between the services of two brokers, passed up the tree of the target. It may be lost on the way."""

    origin: Address  #: The sender.
    target: Address  #: The receiver.
    hops: int  #: Links that it has passed.
    content: bytes  #: The bytes of the service.
