"""The messages between brokers, and the values in them.

Links preserve order. A link that ends and is made again is a new one, which both sides begin with :class:`Hello`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries

if TYPE_CHECKING:
    from twigcast.overlay.onyx.lexicon import Lexicon

#: The root of a message: the broker that stored it first.
Root: TypeAlias = Address

#: Version of the protocol: major and minor; the major ones must be equal. The major one grows if an existing frame gets
#: other fields, since frames do not name their fields, or if element streams change. The minor one grows with new
#: kinds, which older brokers skip.
PROTOCOL = (3, 0)

#: Most disjuncts in one `RoutingDelta`; more are sent in several, since processing one delays all else.
DISJUNCTS_PER_DELTA_MAX = 1 << 16

#: Stands for the set of all roots.
EVERYWHERE = "*"


class LinearPath(NamedTuple):
    """An absolute linear path with its predicates (Diao 2005, section 7.3.1), in canonical form.

    Attributes:
        text: Canonical text; equal paths have equal texts.
        namespaces: Pairs of canonical prefix and URI, in the order of their first use in the text.
    """

    text: str
    namespaces: tuple[tuple[str, str], ...] = ()


class Disjunct(NamedTuple):
    """A conjunction of a routing query. Without paths it is always true.

    Attributes:
        scope: The tenant of the messages; empty if there is only one.
        paths: The paths that are all required.
    """

    scope: str
    paths: frozenset[LinearPath]


#: A routing query: the `or` of its disjuncts. An empty one wants nothing.
RoutingQuery: TypeAlias = frozenset[Disjunct]


class OverlayMessage(NamedTuple):
    """An XML message between brokers.

    Attributes:
        root: The broker that stored it first.
        number: Its sequence number there.
        scope: Its tenant.
        source: Name of its source.
        message_id: Identifier from its publisher or its root.
        content_type: Content type with the charset, if any.
        body: The bytes in the form `form`.
        form: Name of the wire form; `text` unless another one is agreed on.
        path: The brokers that it has passed, the root first. Shows loops and the route.
        published: Time of acceptance at the root, in seconds.
        reduced: The part to which the body is reduced (see `projection_text`); empty: the body is whole.
        lexicon: The dictionary with which the body was written, if any. It is known on the link, and not sent with it.
    """

    root: Root
    number: int
    scope: str
    source: str
    message_id: str
    content_type: str
    body: bytes
    form: str = "text"
    path: tuple[Address, ...] = ()
    published: float = 0.0
    reduced: str = ""
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


@carries(Traffic.DATA)
class Span(NamedTuple):
    """A range of numbers of `root`, above `after` up to `upto`, sent down its tree. No other message of it is wanted.

    Attributes:
        message: The message with the number `upto`; `None`: the receiver wants none of the range.
    """

    root: Root
    after: int
    upto: int
    message: OverlayMessage | None

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        message = self.message
        return HEADER_BYTES + 24 + (0 if message is None else len(message.body) + len(message.reduced) + 64)


@carries(Traffic.CONTROL)
class Hello(NamedTuple):
    """The first message on a new link, from both sides.

    Attributes:
        identity: Number of the sender, which never changes.
        incarnation: Number of its start; distinguishes two brokers with the same identity.
        version: Major and minor version of the protocol; the major ones must be equal.
        forms: Wire forms that the sender can read, the best first.
    """

    identity: Address
    incarnation: int
    version: tuple[int, int]
    forms: tuple[str, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 20 + sum(len(form) + 1 for form in self.forms)


@carries(Traffic.CONTROL)
class LinkState(NamedTuple):
    """The links of one broker with their costs. It is flooded, and the newest one counts.

    Attributes:
        origin: The broker.
        incarnation, version: Later states have a greater pair.
        links: Pairs of neighbour and cost (round trip in milliseconds, rounded up, at least 1).
        where: How others reach the broker (host and port); empty in the simulator.
    """

    origin: Address
    incarnation: int
    version: int
    links: tuple[tuple[Address, int], ...]
    where: str = ""

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 20 + 12 * len(self.links) + len(self.where)


@carries(Traffic.INDEXING)
class RoutingDelta(NamedTuple):
    """Changes of what the sender wants from a neighbour.

    Attributes:
        version: Counts from 0 on each link; version 0 holds all interests.
        interests: Disjuncts with the roots for whose messages they hold (all: `EVERYWHERE`).
        unwanted: Disjuncts that are no longer wanted for any root.
    """

    version: int
    interests: tuple[tuple[Disjunct, frozenset[Root] | str], ...]
    unwanted: tuple[Disjunct, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        size = HEADER_BYTES + 4
        for disjunct, roots in self.interests:
            size += sum(len(path.text) + 2 for path in disjunct.paths) + 8 * (
                1 if isinstance(roots, str) else len(roots)
            )
        return size + sum(sum(len(path.text) + 2 for path in disjunct.paths) for disjunct in self.unwanted)


@carries(Traffic.INDEXING)
class SetProjection(NamedTuple):
    """The parts of messages that the sender uses, in place of the previous ones.

    Attributes:
        parts: By scope, the text of a part (see `projection_text`); empty: the whole.
        rest: Whether the whole may be used of all other scopes; otherwise nothing is.
    """

    parts: tuple[tuple[str, str], ...]
    rest: bool = False

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 1 + sum(len(scope) + len(text) + 4 for scope, text in self.parts)


@carries(Traffic.CONTROL, content=17)
class Attach(NamedTuple):
    """A request to the parent towards `root` to confirm the interests that were sent before.

    Attributes:
        number: Grows with each request of the sender for this root.
        hops: Links of the request and of those for which it was sent. Bounds it while brokers disagree on the tree.
    """

    root: Root
    number: int
    hops: int = 1


@carries(Traffic.CONTROL, content=8)
class Detach(NamedTuple):
    """A request to a former parent towards `root` to send no more of its messages."""

    root: Root


@carries(Traffic.CONTROL, content=24)
class Attached(NamedTuple):
    """The answer to `Attach`: spans that begin at `position` or later count."""

    root: Root
    number: int
    position: int


@carries(Traffic.CONTROL)
class Recover(NamedTuple):
    """A question to `root`, passed up its tree, for the messages above `after` up to `upto` that `query` wants.

    Attributes:
        route: The brokers passed, the asker first. The answer goes back along it.
    """

    root: Root
    after: int
    upto: int
    query: RoutingQuery
    route: tuple[Address, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        paths = sum(len(path.text) + 2 for disjunct in self.query for path in disjunct.paths)
        return HEADER_BYTES + 24 + paths + 8 * len(self.route)


@carries(Traffic.DATA)
class Recovered(NamedTuple):
    """A span of the answer to `Recover`, passed back along the rest of `route`, the asker last.

    Attributes:
        lost: Whether the root no longer has these messages.
        pauses: Whether the answer pauses here until the asker asks for the rest, so that links are not overloaded.
    """

    span: Span
    route: tuple[Address, ...]
    lost: bool = False
    pauses: bool = False

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return self.span.size_bytes() + 8 * len(self.route)


@carries(Traffic.CONTROL, content=20)
class StoredReport(NamedTuple):
    """A report to the parent towards `root` on what is stored at and below the sender, so that the root may forget it.

    Attributes:
        horizon: The lowest horizon.
        brokers: Number of brokers with a horizon. If these are not all, some broker is unreachable.
    """

    root: Root
    horizon: int
    brokers: int = 1


@carries(Traffic.CONTROL)
class SourceEntry(NamedTuple):
    """An entry of the catalogue of sources. It is flooded, and the newest version counts.

    Attributes:
        name: Name of the source.
        version: Grows with each change of this source.
        root: The broker at which it publishes.
        schema: Its DTD; empty: none.
        rate: Expected messages per second.
        size: Expected bytes of a message.
        is_gone: Whether the source is removed.
        owner: SHA-256, in hexadecimal, of the key of its publishers; empty: no key is required.
    """

    name: str
    version: int
    root: Root
    schema: str = ""
    rate: float = 0.0
    size: int = 0
    is_gone: bool = False
    owner: str = ""

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 33 + len(self.name) + len(self.schema) + len(self.owner)


@carries(Traffic.CONTROL)
class ServiceMessage(NamedTuple):
    """A message between the services of two brokers, passed up the tree of the target. It may be lost on the way.

    Attributes:
        origin: The sender.
        target: The receiver.
        hops: Links that it has passed.
        content: The bytes of the service.
    """

    origin: Address
    target: Address
    hops: int
    content: bytes

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 20 + len(self.content)
