"""Projection on links: sending only the part of a message that is used behind a link (Diao 2005, section 7.3.3).

A broker sends each neighbour that is its parent in some tree the part of messages that suffices for its own
subscriptions and for its other neighbours (:mod:`twigcast.overlay.onyx.content.projection`). The neighbour sends no
more than that. The same projection serves as the remainder on a later link, since applying a projection twice changes
nothing.

How changes are handled is not in the thesis. Projections are sent on the same link as routing deltas, before `Attach`,
so the sender of spans that count knows them. But when a broker suddenly uses more, messages that were reduced before
are still under way. So a reduced message names its part. A broker whose subscriptions use more than that does not
count it as received, and requests the whole from the root, as for any message that it has missed.

Messages are sent whole to a neighbour that has sent no projection for their scope. A broker without projections sends
none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import (
    Projection,
    Transformation,
    common_part,
    covers,
    query_of,
    read_part,
    write_part,
)
from twigcast.overlay.onyx.messages import OverlayMessage, RoutingQuery, SetProjection


class ProjectionSet(NamedTuple):
    """The parts of messages that are used behind a link."""

    parts: Mapping[str, Projection | None]  #: By scope, a part; `None`: the whole.
    rest: bool = False  #: Whether the whole may be used of other scopes; otherwise nothing is.


#: Scopes with a part of their own; with more, whole messages are sent.
SCOPES_MAX: Final = 1_000
#: Different parts that the broker's own subscriptions use of one scope; with more, the whole message is requested.
_PARTS_MAX: Final = 200
_COMPILED_MAX: Final = 256

_NOTHING: Final = ProjectionSet({})
_EVERYTHING: Final = ProjectionSet({}, rest=True)


class LinkProjections:
    """The parts of messages that the broker's subscriptions and its neighbours use.

    Args:
        limits: Of messages and queries.
        text: Returns the text of a message in another form; without it, such messages are sent whole.
    """

    def __init__(self, limits: Limits | None = None, text: Callable[[OverlayMessage], bytes] | None = None) -> None:
        self._text = text
        self._keys: dict[Hashable, tuple[frozenset[str], Projection | None]] = {}
        self._local: dict[str, Counter[Projection | None]] = {}
        self._common: dict[str, Projection | None] = {}
        self._remote: dict[Address, ProjectionSet] = {}
        self._announced: dict[Address, ProjectionSet] = {}
        #: By neighbour, the updates sent on the current link.
        self.sent: Counter[Address] = Counter()
        self._compiled = lru_cache(_COMPILED_MAX)(lambda part: Transformation([query_of(part)], limits))

    # What is used.

    def subscribe(self, key: Hashable, query: RoutingQuery, part: Projection | None) -> None:
        """Adds or replaces the part that a subscription uses; `None`: the whole."""
        self.unsubscribe(key)
        scopes = frozenset(disjunct.scope for disjunct in query)
        self._keys[key] = scopes, part
        for scope in scopes:
            self._local.setdefault(scope, Counter())[part] += 1
            self._common.pop(scope, None)

    def unsubscribe(self, key: Hashable) -> None:
        """Removes a subscription, if it is there."""
        scopes, part = self._keys.pop(key, (frozenset(), None))
        for scope in scopes:
            counts = self._local[scope]
            counts[part] -= 1
            if not counts[part]:
                del counts[part]
            if not counts:
                del self._local[scope]
            self._common.pop(scope, None)

    def apply(self, neighbour: Address, parts: ProjectionSet) -> None:
        """Replaces what a neighbour uses."""
        self._remote[neighbour] = parts

    def forget(self, neighbour: Address) -> None:
        """Removes a neighbour whose link is gone."""
        for table in (self._remote, self._announced, self.sent):
            table.pop(neighbour, None)

    def local(self, scope: str) -> Projection | None:
        """Returns the part that suffices for the broker's own subscriptions of a scope, of which there are some."""
        if scope not in self._common:
            counts = self._local[scope]
            self._common[scope] = None if None in counts or len(counts) > _PARTS_MAX else common_part(counts)
        return self._common[scope]

    def suffices(self, message: OverlayMessage) -> bool:
        """Returns whether a reduced message is enough for the broker's own subscriptions."""
        if message.scope not in self._local:
            return True
        part = read_part(message.reduced)
        return part is not None and covers(part, self.local(message.scope))

    # What neighbours are sent.

    def required_with(self, others: Iterable[Address]) -> ProjectionSet:
        """Returns what suffices for the own subscriptions and for some neighbours."""
        parts: dict[str, list[Projection | None]] = {scope: [self.local(scope)] for scope in self._local}
        rest = False
        for other in others:
            remote = self._remote.get(other, _EVERYTHING)
            rest |= remote.rest
            for scope, part in remote.parts.items():
                parts.setdefault(scope, []).append(part)
        if rest or len(parts) > SCOPES_MAX:
            return _EVERYTHING
        return ProjectionSet({scope: common_part(each) for scope, each in parts.items()})

    def update_for(self, neighbour: Address, others: Iterable[Address]) -> SetProjection | None:
        """Returns what a parent is to be sent, or `None` if nothing has changed.

        `others` are the neighbours to which its messages are passed on.
        """
        required = self.required_with(others)
        if self._announced.get(neighbour) == required:
            return None
        self._announced[neighbour] = required
        self.sent[neighbour] += 1
        return SetProjection(
            tuple((scope, write_part(part)) for scope, part in sorted(required.parts.items())), required.rest
        )

    # Messages.

    def part_for(self, neighbour: Address, message: OverlayMessage) -> Projection | None:
        """Returns the part of a message that a neighbour is sent; `None` for the message as it is here."""
        part = self.of(neighbour, message.scope)
        if part is None or (message.form != "text" and self._text is None):
            return None
        if message.reduced and not covers(read_part(message.reduced), part):
            # A broker behind the link needs more than has arrived here, and will request it.
            return None
        return part

    def reduced(self, message: OverlayMessage, part: Projection) -> OverlayMessage | None:
        """Returns a message reduced to a part, or `None` if nothing of it is used.

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
        """Returns the part that a neighbour uses of the messages of a scope; `None`: the whole."""
        return self._remote.get(neighbour, _NOTHING).parts.get(scope)
