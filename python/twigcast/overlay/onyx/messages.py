"""What the parts of ONYX have in common: names of things, and the messages between brokers.

Links keep order. A link that breaks and comes back is a new one: both sides begin again with :class:`Hello`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries

if TYPE_CHECKING:
    from twigcast.overlay.onyx.lexicon import Lexicon

#: The root of a message, and the broker that stored it first.
Root: TypeAlias = Address

#: Version of what brokers say to each other: major and minor; the major ones must be equal. The major one grows where
#: a frame of a kind that was there before gets other fields, since frames do not tell which fields they have, and where
#: element streams get another form. New kinds, which older brokers pass over, make the minor one grow.
PROTOCOL = (3, 0)

#: Disjuncts in one message to a neighbour about what is wanted, or not any more. More are told in several: a broker
#: that takes one in does nothing else meanwhile.
DISJUNCTS_PER_DELTA_MAX = 1 << 16

#: In place of a set of roots: all of them.
EVERYWHERE = "*"


class LinearPath(NamedTuple):
    """An absolute linear path with its predicates (Diao 2005, section 7.3.1), in one canonical form.

    Attributes:
        text: Canonical text; equal paths have equal texts.
        namespaces: (prefix, URI), in the order of their first use in the text; prefixes are canonical too.
    """

    text: str
    namespaces: tuple[tuple[str, str], ...] = ()


class Disjunct(NamedTuple):
    """One conjunction of a routing query. Without paths it is always true.

    Attributes:
        scope: Whose messages it is about (a tenant); empty where there is but one.
        paths: The conjunction; compared as a set.
    """

    scope: str
    paths: frozenset[LinearPath]


#: A routing query: the `or` of its disjuncts. Empty: nothing is wanted.
RoutingQuery: TypeAlias = frozenset[Disjunct]


class OverlayMessage(NamedTuple):
    """An XML message on its way.

    Attributes:
        root: The broker that stored it first.
        number: Its number there.
        scope: The tenant it belongs to.
        source: Name of its source.
        message_id: The identifier its publisher gave it, or the root did.
        content_type: With its charset, if any.
        body: The bytes, in the form that `form` names.
        form: Name of the wire format; `text` unless negotiated otherwise.
        path: The brokers it has passed, the root first; to see loops, and to tell its way.
        published: Time of acceptance at the root, in seconds.
        reduced: The part of the message that the body is (see `projection_text`); empty: the whole.
        lexicon: The dictionary that the body was written with, where it was; learnt on the link, and no part of it.
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
        """It, having passed one broker more. Each message comes here, and `_replace` takes four times as long."""
        root, number, scope, source, message_id, content_type, body, form, path, published, reduced, lexicon = self
        path = (*path, broker)
        return _new(
            OverlayMessage,
            (root, number, scope, source, message_id, content_type, body, form, path, published, reduced, lexicon),
        )


_new = tuple.__new__


@carries(Traffic.DATA)
class Span(NamedTuple):
    """Down the tree of `root`: all there is to know of its numbers above `after` up to `upto`, for the receiver.

    Attributes:
        message: The message with the number `upto`; `None`: silence.
    """

    root: Root
    after: int
    upto: int
    message: OverlayMessage | None

    def size_bytes(self) -> int:
        """The body, and the fields around it."""
        message = self.message
        return HEADER_BYTES + 24 + (0 if message is None else len(message.body) + len(message.reduced) + 64)


@carries(Traffic.CONTROL)
class Hello(NamedTuple):
    """First on a new link, from both sides.

    Attributes:
        identity: Number of the sender, for good.
        incarnation: Number of its start; two brokers with one identity are told apart by it.
        version: Of the protocol; (major, minor), the major ones must be equal.
        forms: Wire formats that the sender can read, the dearest first.
    """

    identity: Address
    incarnation: int
    version: tuple[int, int]
    forms: tuple[str, ...]

    def size_bytes(self) -> int:
        """Numbers and names."""
        return HEADER_BYTES + 20 + sum(len(form) + 1 for form in self.forms)


@carries(Traffic.CONTROL)
class LinkState(NamedTuple):
    """Flooded: the links of one broker and what they cost; the newest counts.

    Attributes:
        origin: Whose links.
        incarnation, version: Later states have the greater pair.
        links: Neighbour and cost (round trip in milliseconds, rounded up, at least 1).
        where: How others reach it (host and port); empty in the simulator.
    """

    origin: Address
    incarnation: int
    version: int
    links: tuple[tuple[Address, int], ...]
    where: str = ""

    def size_bytes(self) -> int:
        """Numbers."""
        return HEADER_BYTES + 20 + 12 * len(self.links) + len(self.where)


@carries(Traffic.INDEXING)
class RoutingDelta(NamedTuple):
    """To a neighbour: changes of what the sender wants from it.

    Attributes:
        version: Counts from 0 on a link, 0 being the whole table; a number left out means to begin again.
        query: Disjuncts and, for each, the roots for whose messages it holds (all: `EVERYWHERE`).
        unwanted: Disjuncts no longer wanted for any root.
    """

    version: int
    interests: tuple[tuple[Disjunct, frozenset[Root] | str], ...]
    unwanted: tuple[Disjunct, ...]

    def size_bytes(self) -> int:
        """Texts of the paths and the roots' numbers."""
        size = HEADER_BYTES + 4
        for disjunct, roots in self.interests:
            size += sum(len(path.text) + 2 for path in disjunct.paths) + 8 * (
                1 if isinstance(roots, str) else len(roots)
            )
        return size + sum(sum(len(path.text) + 2 for path in disjunct.paths) for disjunct in self.unwanted)


@carries(Traffic.INDEXING)
class SetProjection(NamedTuple):
    """To a neighbour: what the sender takes of the messages that it wants from it; all of it, in place of the last one.

    Attributes:
        parts: By scope, the text of a part (see `projection_text`); empty: the whole.
        rest: Whether of all other scopes the whole may be wanted; otherwise nothing is.
    """

    parts: tuple[tuple[str, str], ...]
    rest: bool = False

    def size_bytes(self) -> int:
        """Texts."""
        return HEADER_BYTES + 1 + sum(len(scope) + len(text) + 4 for scope, text in self.parts)


@carries(Traffic.CONTROL)
class Attach(NamedTuple):
    """To the parent towards `root`: my routing query is with you; say when the root has heard of it.

    Attributes:
        number: Grows with each that the sender sends for this root.
        hops: Links that it has come over with those that it was sent for: where brokers do not yet agree on the tree,
            it could go round for ever.
    """

    root: Root
    number: int
    hops: int = 1

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 17


@carries(Traffic.CONTROL)
class Detach(NamedTuple):
    """To the parent towards `root`, until now: send me no more of it."""

    root: Root

    def size_bytes(self) -> int:
        """A number."""
        return HEADER_BYTES + 8


@carries(Traffic.CONTROL)
class Attached(NamedTuple):
    """Answer to `Attach`: spans that begin at `position` or later count.

    Sent again, with a later position, where the parent has not passed on anything for a while.
    """

    root: Root
    number: int
    position: int

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 24


@carries(Traffic.CONTROL)
class Recover(NamedTuple):
    """Up the tree to `root`: the messages above `after` up to `upto` that `query` asks for.

    Attributes:
        route: The brokers passed, the asker first: the answer goes back along it.
    """

    root: Root
    after: int
    upto: int
    query: RoutingQuery
    route: tuple[Address, ...]

    def size_bytes(self) -> int:
        """Texts and numbers."""
        paths = sum(len(path.text) + 2 for disjunct in self.query for path in disjunct.paths)
        return HEADER_BYTES + 24 + paths + 8 * len(self.route)


@carries(Traffic.DATA)
class Recovered(NamedTuple):
    """Answer to `Recover`: one span, passed back along `route` (the rest of it, the asker last).

    Attributes:
        lost: The root no longer has these messages; nothing is known of them any more.
        pauses: The answer ends here for now: the asker is to ask on, so that no more is under way at a time than all
            links take.
    """

    span: Span
    route: tuple[Address, ...]
    lost: bool = False
    pauses: bool = False

    def size_bytes(self) -> int:
        """The span and the way."""
        return self.span.size_bytes() + 8 * len(self.route)


@carries(Traffic.CONTROL)
class StoredReport(NamedTuple):
    """To the parent towards `root`, now and then: what is stored at and below the sender; the root may forget.

    Attributes:
        horizon: The lowest.
        brokers: Of how many it is the lowest. Where that is not all there are, somebody cannot be reached just now.
    """

    root: Root
    horizon: int
    brokers: int = 1

    def size_bytes(self) -> int:
        """Three numbers."""
        return HEADER_BYTES + 20


@carries(Traffic.CONTROL)
class SourceEntry(NamedTuple):
    """Flooded: an entry of the catalogue; the newest version of a source counts.

    Attributes:
        name: Of the source.
        version: Grows with each change of this source.
        root: The broker at which it publishes.
        schema: Its DTD; empty: none is known.
        rate: Messages a second that it expects to publish.
        size: Bytes of a message that it expects.
        is_gone: It publishes no more.
        owner: SHA-256, in hexadecimal, of the key that its publishers show; empty: none is asked for.
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
        """Texts and numbers."""
        return HEADER_BYTES + 33 + len(self.name) + len(self.schema) + len(self.owner)


@carries(Traffic.CONTROL)
class ServiceMessage(NamedTuple):
    """To one broker, passed on towards it as messages of its tree would come from it. May be lost on the way.

    Attributes:
        origin: Who has sent it first.
        target: Whom it is for.
        hops: Links that it has passed.
        content: What the services of the two brokers say to each other.
    """

    origin: Address
    target: Address
    hops: int
    content: bytes

    def size_bytes(self) -> int:
        """The content and three numbers."""
        return HEADER_BYTES + 20 + len(self.content)
