"""Early projection on links, among running brokers (Diao 2005, section 7.3.3; what happens on changes is ours).

A broker tells each neighbour that is a parent in some tree what part of messages suffices for all that it passes on or
keeps (:mod:`twigcast.overlay.onyx.content.projection`): by scope, the part that is common to its own users and its
other neighbours. The neighbour sends no more than that. The remainder of a link behind is the link's part itself: to
take a part twice is to take it once.

Parts are told on the same link as routing deltas, before `Attach`, so that spans that count were sent by brokers that
knew them. Where more is wanted suddenly, though, messages that were reduced before are under way still. So a reduced
message says what of it was taken. A broker whose users need more than that does not take it for known: it asks the root
for the whole, as for any message that it has missed.

Nothing is reduced for a neighbour that has told nothing of a scope; a broker that does not reduce tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import Projection, common_part, covers, query_of
from twigcast.overlay.onyx.content.projection_text import PART_CHARACTERS_MAX, read_part, write_part
from twigcast.overlay.onyx.content.restructuring import Transformation
from twigcast.overlay.onyx.messages import OverlayMessage, RoutingQuery, SetProjection
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from twigcast.overlay.onyx.protocol.node import OnyxNode


class ProjectionSet(NamedTuple):
    """What is taken of messages.

    Attributes:
        parts: By scope, a part; `None`: the whole.
        rest: Whether of other scopes the whole may be wanted; otherwise nothing is.
    """

    parts: Mapping[str, Projection | None]
    rest: bool = False


#: Scopes for which parts are told; where there are more, whole messages are sent.
SCOPES_MAX: Final = 1_000
#: Different parts of one scope of one's own users; where there are more, the whole message is wanted.
_PARTS_MAX: Final = 200
_COMPILED_MAX: Final = 256

_NOTHING: Final = ProjectionSet({})
_EVERYTHING: Final = ProjectionSet({}, rest=True)


class LinkProjections:
    """What the broker's users take of messages, and what its neighbours do.

    Args:
        limits: Of messages and queries.
        text: The text of a message that comes in another form; without it, such messages are not reduced.
    """

    def __init__(self, limits: Limits | None = None, text: Callable[[OverlayMessage], bytes] | None = None) -> None:
        self._text = text
        self._keys: dict[Hashable, tuple[frozenset[str], Projection | None]] = {}
        self._local: dict[str, Counter[Projection | None]] = {}
        self._common: dict[str, Projection | None] = {}
        self._remote: dict[Address, ProjectionSet] = {}
        self._announced: dict[Address, ProjectionSet] = {}
        #: Times that each neighbour was told, on its present link.
        self.sent: Counter[Address] = Counter()
        self._compiled = lru_cache(_COMPILED_MAX)(lambda part: Transformation([query_of(part)], limits))

    # What is taken.

    def subscribe(self, key: Hashable, requested: RoutingQuery, part: Projection | None) -> None:
        """A user takes this of messages, in place of what the key has taken."""
        self.unsubscribe(key)
        scopes = frozenset(disjunct.scope for disjunct in requested)
        self._keys[key] = scopes, part
        for scope in scopes:
            self._local.setdefault(scope, Counter())[part] += 1
            self._common.pop(scope, None)

    def unsubscribe(self, key: Hashable) -> None:
        """A user takes nothing any more."""
        scopes, part = self._keys.pop(key, (frozenset(), None))
        for scope in scopes:
            counts = self._local[scope]
            counts[part] -= 1
            if not counts[part]:
                del counts[part]
            if not counts:
                del self._local[scope]
            self._common.pop(scope, None)

    def apply(self, neighbour: Address, taken: ProjectionSet) -> None:
        """A neighbour takes this."""
        self._remote[neighbour] = taken

    def forget(self, neighbour: Address) -> None:
        """The link to a neighbour is gone."""
        for held in (self._remote, self._announced, self.sent):
            held.pop(neighbour, None)

    def local(self, scope: str) -> Projection | None:
        """What suffices for the broker's own users of a scope; `None`: the whole. There are some."""
        if scope not in self._common:
            counts = self._local[scope]
            self._common[scope] = None if None in counts or len(counts) > _PARTS_MAX else common_part(counts)
        return self._common[scope]

    def suffices(self, message: OverlayMessage) -> bool:
        """Whether what was taken of a message is enough for the broker's own users."""
        if message.scope not in self._local:
            return True
        taken = read_part(message.reduced)
        return taken is not None and covers(taken, self.local(message.scope))

    # What neighbours are told.

    def request_to(self, others: Iterable[Address]) -> ProjectionSet:
        """What suffices for one's users and for these neighbours; one that has told nothing may want anything."""
        parts: dict[str, list[Projection | None]] = {scope: [self.local(scope)] for scope in self._local}
        rest = False
        for other in others:
            taken = self._remote.get(other, _EVERYTHING)
            rest |= taken.rest
            for scope, part in taken.parts.items():
                parts.setdefault(scope, []).append(part)
        if rest or len(parts) > SCOPES_MAX:
            return _EVERYTHING
        return ProjectionSet({scope: common_part(each) for scope, each in parts.items()})

    def news_for(self, neighbour: Address, others: Iterable[Address]) -> SetProjection | None:
        """What to tell a neighbour, given the others that messages are passed on to; `None`: nothing new."""
        interest = self.request_to(others)
        if self._announced.get(neighbour) == interest:
            return None
        self._announced[neighbour] = interest
        self.sent[neighbour] += 1
        return SetProjection(
            tuple((scope, write_part(part)) for scope, part in sorted(interest.parts.items())), interest.rest
        )

    # Messages.

    def part_for(self, neighbour: Address, message: OverlayMessage) -> Projection | None:
        """What of a message is sent to a neighbour; `None`: all that is here of it."""
        part = self.of(neighbour, message.scope)
        if part is None or (message.form != "text" and self._text is None):
            return None
        if message.reduced and not covers(read_part(message.reduced), part):
            # Somebody behind the link needs more than what has come; who that is will ask for it.
            return None
        return part

    def reduced(self, message: OverlayMessage, part: Projection) -> OverlayMessage | None:
        """A part of a message; `None`: nothing of it is wanted.

        Raises:
            RejectedMessage: The message is over a limit here.
            WireError: It cannot be read in the form in which it came.
        """
        text = write_part(part)
        if not text:
            return message
        whole = message.body if message.form == "text" or self._text is None else self._text(message)
        body = self._compiled(part).run(whole)
        return None if body is None else message._replace(body=body, form="text", lexicon=None, reduced=text)

    def of(self, neighbour: Address, scope: str) -> Projection | None:
        """What a neighbour takes of the messages of a scope; `None`: the whole."""
        return self._remote.get(neighbour, _NOTHING).parts.get(scope)


def on_reduce(node: OnyxNode, sender: Address, reduce: SetProjection) -> None:
    """A neighbour takes something else of messages."""
    if node.reductions is None:
        return
    if len(reduce.parts) > SCOPES_MAX or any(len(text) > PART_CHARACTERS_MAX for _, text in reduce.parts):
        raise RemoteProtocolError("size", "it names too many parts of messages, or too large ones")
    node.reductions.apply(sender, ProjectionSet({scope: read_part(text) for scope, text in reduce.parts}, reduce.rest))
    node.soon()


def tell(node: OnyxNode, neighbour: Address) -> None:
    """Tell a neighbour what is taken of its messages, if that has changed."""
    if node.reductions is not None:
        attached = {child for stream in node.streams.values() for child in (*stream.children, *stream.held)}
        reduce = node.reductions.news_for(neighbour, attached - {neighbour})
        if reduce is not None:
            node.send(neighbour, reduce)


def announcement_count(node: OnyxNode, neighbour: Address) -> int:
    """How often a neighbour has been told something of what is wanted from it."""
    reported = node.deltas_sent[neighbour]
    return reported if node.reductions is None else reported + node.reductions.sent[neighbour]


def suffices(node: OnyxNode, message: OverlayMessage) -> bool:
    """Whether what was taken of a message is enough for the broker's own users."""
    return not message.reduced or (node.reductions is not None and node.reductions.suffices(message))


def outgoing(
    node: OnyxNode, message: OverlayMessage, selected: Iterable[Address]
) -> Iterator[tuple[Address, OverlayMessage]]:
    """What is sent to each of those that want a message; those that want nothing of it are left out.

    In the order of the thesis (see `scheduling`): what goes as it is goes first; then it is reduced, once for all links
    that take the same, and for links that get the message alone.
    """
    parts: dict[Projection, list[Address]] = {}
    for neighbour in selected:
        part = None if node.reductions is None else node.reductions.part_for(neighbour, message)
        if part is None:
            yield neighbour, message
        else:
            parts.setdefault(part, []).append(neighbour)
    for part, neighbours in parts.items():
        reduced = _reduced(node, message, part)
        if reduced is not None:
            node.counts["reduced"] += len(neighbours)
            node.counts["reduced_bytes"] += len(neighbours) * (len(message.body) - len(reduced.body))
            yield from ((neighbour, reduced) for neighbour in neighbours)


def _reduced(node: OnyxNode, message: OverlayMessage, part: Projection) -> OverlayMessage | None:
    assert node.reductions is not None
    try:
        return node.reductions.reduced(message, part)
    except TwigcastError as error:
        node.trouble("message", f"number {message.number} of root {message.root} is sent whole: {error}")
        return message
