"""The routing table of one broker: what each neighbour wants, matched by the compiled engine.

Interests of neighbours arrive as `RoutingDelta`s, those of the broker's own users as subscriptions. From these and the
broadcast trees follows what the broker wants from each neighbour: a disjunct *d* from neighbour *n* for messages of the
roots whose tree leads over *n* to the broker, and below it to a broker that wants *d*. This is updated one disjunct at
a time and sent to the neighbour as deltas (Diao 2005, section 7.3.2; the deltas are not in the thesis).

A table is used by one thread at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from twigcast._core import NameDictionary
from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.announcement import Announcement, AnnouncementDelta, Generalise, InterestCover, Roots
from twigcast.overlay.onyx.content.generalise import generalise
from twigcast.overlay.onyx.content.implication_index import order_of
from twigcast.overlay.onyx.content.routing_index import RoutingIndex
from twigcast.overlay.onyx.content.routing_query import aggregate
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, Root, RoutingDelta, RoutingQuery

_NOWHERE: frozenset[Root] = frozenset()

#: Greatest number of conjunctions of the own users that are reduced by implication.
_AGGREGATED_MAX = 200
#: Most conjunctions of one question.
_QUESTION_MAX = 5_000


class BroadcastTrees(NamedTuple):
    """The broadcast trees, as seen by one broker."""

    parent: Mapping[Root, Address]  #: By reachable root, the neighbour towards it.
    children: Mapping[Root, frozenset[Address]]  #: By root, the neighbours that get its messages from the broker.


class _TreesFromParent(NamedTuple):
    """The trees in which one neighbour is the parent."""

    roots: frozenset[Root]  #: Roots whose messages come from that neighbour.
    #: By other neighbour, those of the roots whose messages are forwarded to it.
    through: Mapping[Address, frozenset[Root]]


class RoutingTable:
    """The interests of the users and neighbours of one broker, and its announcements."""

    def __init__(
        self,
        limits: Limits | None = None,
        boxes_max: int | None = None,
        generalise: Generalise = generalise,
    ) -> None:
        """Begins empty.

        Args:
            limits: Of messages and paths.
            boxes_max: Most conjunctions and distinct paths announced to one neighbour; more are generalised.
            generalise: Makes an announcement smaller (see `twigcast.overlay.onyx.content.generalise`).
        """
        self._limits = limits or Limits()
        self._index = RoutingIndex(self._limits)
        self._boxes_max = boxes_max
        self._generalise = generalise
        self._cover = InterestCover()
        self._subscriptions: dict[Hashable, RoutingQuery] = {}
        self._local: Counter[Disjunct] = Counter()
        self._remote: dict[Address, dict[Disjunct, Roots]] = {}
        self._wanting: dict[Disjunct, set[Address]] = {}
        self._versions_in: dict[Address, int] = {}
        self._versions_out: dict[Address, int] = {}
        self._announcements: dict[Address, Announcement] = {}
        self._dirty: dict[Address, dict[Disjunct, None]] = {}
        self._towards: dict[Address, _TreesFromParent] = {}

    @property
    def widened(self) -> int:
        """The number of paths of neighbours that the engine refused. Their conjunctions are wider without them."""
        return self._index.widened

    # Own users.

    def subscribe(self, key: Hashable, query: RoutingQuery) -> None:
        """Adds or replaces the routing query of a subscription."""
        before = self._subscriptions.get(key, frozenset())
        self._subscriptions[key] = query
        self._count_local(query, before)

    def unsubscribe(self, key: Hashable) -> bool:
        """Removes a subscription. Returns whether it was there."""
        query = self._subscriptions.pop(key, None)
        if query is None:
            return False
        self._count_local(frozenset(), query)
        return True

    def _count_local(self, come: RoutingQuery, gone: RoutingQuery) -> None:
        # In order: what is sent of it must not depend on hash values, which differ from process to process.
        for disjunct in sorted(come - gone, key=order_of):
            self._local[disjunct] += 1
            if self._local[disjunct] == 1:
                self._mark(disjunct)
        for disjunct in sorted(gone - come, key=order_of):
            self._local[disjunct] -= 1
            if not self._local[disjunct]:
                del self._local[disjunct]
                self._mark(disjunct)

    def local(self, boxes_max: int | None = None) -> RoutingQuery:
        """Returns the routing query of the broker's own users, for `Recover`.

        A small one is reduced by implication, which for a larger one takes longer than it saves. A very large one is
        replaced by everything in its scopes, since it would load all brokers that pass it on.

        Args:
            boxes_max: Most conjunctions and distinct paths; `None`: as above.
        """
        if boxes_max is not None:
            return frozenset(self._generalise(self._local, boxes_max).values())
        if len(self._local) <= _AGGREGATED_MAX:
            return aggregate(self._local)
        if len(self._local) > _QUESTION_MAX:
            return frozenset(Disjunct(scope, frozenset()) for scope in {disjunct.scope for disjunct in self._local})
        wide = {disjunct.scope for disjunct in self._local if not disjunct.paths}
        return frozenset(one for one in self._local if not one.paths or one.scope not in wide)

    # Interests of neighbours.

    def apply(self, neighbour: Address, delta: RoutingDelta) -> bool:
        """Applies changes of what a neighbour wants, if their version follows the previous one.

        Returns whether it does.
        """
        expected = self._versions_in.get(neighbour)
        if delta.version != 0 and (expected is None or delta.version != expected):
            return False
        existing = self._remote.setdefault(neighbour, {})
        if delta.version == 0:
            kept = {disjunct for disjunct, _ in delta.interests}
            for disjunct in [disjunct for disjunct in existing if disjunct not in kept]:
                self._set_remote(neighbour, disjunct, _NOWHERE)
        for disjunct in delta.unwanted:
            self._set_remote(neighbour, disjunct, _NOWHERE)
        for disjunct, roots in delta.interests:
            self._set_remote(neighbour, disjunct, roots)
        self._versions_in[neighbour] = delta.version + 1
        return True

    def forget(self, neighbour: Address) -> None:
        """Removes all that concerns a neighbour whose link has ended."""
        for disjunct in list(self._remote.get(neighbour, ())):
            self._set_remote(neighbour, disjunct, _NOWHERE)
        for table in (self._remote, self._versions_in, self._versions_out, self._announcements, self._dirty):
            table.pop(neighbour, None)

    def remote(self, neighbour: Address) -> Mapping[Disjunct, Roots]:
        """Returns what a neighbour wants: disjuncts with the roots for whose messages they hold."""
        return dict(self._remote.get(neighbour, {}))

    def remote_count(self, neighbour: Address) -> int:
        """Returns the number of disjuncts that a neighbour wants."""
        return len(self._remote.get(neighbour, ()))

    def _set_remote(self, neighbour: Address, disjunct: Disjunct, roots: Roots) -> None:
        existing = self._remote[neighbour]
        before = existing.get(disjunct, _NOWHERE)
        if before == roots:
            return
        if roots:
            existing[disjunct] = roots
            self._wanting.setdefault(disjunct, set()).add(neighbour)
        else:
            del existing[disjunct]
            wanting = self._wanting[disjunct]
            wanting.discard(neighbour)
            if not wanting:
                del self._wanting[disjunct]
        self._index.change(neighbour, disjunct, before, roots)
        self._mark(disjunct, origin=neighbour)

    # Announcements.

    def set_trees(self, trees: BroadcastTrees) -> None:
        """Replaces the broadcast trees."""
        before, self._towards = self._towards, _seen_from_parents(trees)
        for neighbour, dirty in self._dirty.items():
            if before.get(neighbour) != self._towards.get(neighbour):
                for disjuncts in (self._local, self._wanting, self._announcements[neighbour].interests):
                    dirty.update(dict.fromkeys(disjuncts))

    def _mark(self, disjunct: Disjunct, origin: Address | None = None) -> None:
        for neighbour, dirty in self._dirty.items():
            if neighbour != origin:
                dirty[disjunct] = None

    def interests_from(self, neighbour: Address) -> dict[Disjunct, Roots]:
        """Returns the exact interests for a neighbour, computed from scratch."""
        requested = {
            disjunct: self._roots_from(neighbour, disjunct)
            for disjunct in dict.fromkeys((*self._local, *self._wanting))
        }
        return {disjunct: roots for disjunct, roots in requested.items() if roots}

    def _roots_from(self, neighbour: Address, disjunct: Disjunct) -> Roots:
        towards = self._towards.get(neighbour)
        if towards is None:
            return _NOWHERE
        if disjunct in self._local:
            return EVERYWHERE
        roots = _NOWHERE
        for child in self._wanting.get(disjunct, ()):
            through = towards.through.get(child)
            if through:
                own = self._remote[child][disjunct]
                roots |= through if isinstance(own, str) else through & own
        # Shorter than all roots of the neighbour, from which no messages of other roots come.
        return EVERYWHERE if len(roots) == len(towards.roots) else roots

    def delta(self, neighbour: Address) -> RoutingDelta | None:
        """Returns what has changed for a neighbour since the last call, the first time everything, or `None`."""
        if neighbour not in self._announcements:
            self._announcements[neighbour] = Announcement(self._boxes_max, self._generalise, self._cover)
            self._dirty[neighbour] = {}
            changes = self._announcements[neighbour].update(self.interests_from(neighbour))
            return self._numbered(neighbour, changes)
        dirty, self._dirty[neighbour] = self._dirty[neighbour], {}
        interests = {disjunct: self._roots_from(neighbour, disjunct) for disjunct in dirty}
        existing = self._announcements[neighbour].interests
        changed = {d: roots for d, roots in interests.items() if roots != existing.get(d, _NOWHERE)}
        changes = self._announcements[neighbour].update(changed)
        return self._numbered(neighbour, changes) if changes.interests or changes.unwanted else None

    def announced(self, neighbour: Address) -> Mapping[Disjunct, Roots]:
        """Returns what a neighbour was sent."""
        announcement = self._announcements.get(neighbour)
        return {} if announcement is None else dict(announcement.announced)

    def _numbered(self, neighbour: Address, changes: AnnouncementDelta) -> RoutingDelta:
        version = self._versions_out.get(neighbour, 0)
        self._versions_out[neighbour] = version + 1
        return RoutingDelta(version, tuple(changes.interests.items()), changes.unwanted)

    # Messages.

    def route(self, message: bytes, scope: str, root: Root, among: Iterable[Address]) -> frozenset[Address]:
        """Returns those of some neighbours, the children in the tree of its root, that want a message.

        Raises:
            RejectedMessage: The message is malformed or over a limit, so it is not known who wants it.
        """
        return self._index.route(message, scope, root, frozenset(among))

    def route_stream(
        self,
        stream: bytes,
        dictionary: NameDictionary | None,
        scope: str,
        root: Root,
        among: Iterable[Address],
    ) -> frozenset[Address]:
        """Returns the same as `route`, for a message that comes as an element stream.

        Raises:
            RejectedMessage: The stream is damaged, or its message is malformed or over a limit.
        """
        return self._index.route_stream(stream, dictionary, scope, root, frozenset(among))

    def holding(self, message: bytes, scope: str, root: Root) -> dict[Address, list[Disjunct]]:
        """Returns, by neighbour, the disjuncts that a message satisfies."""
        holding = self._index.holding(message)
        return {
            neighbour: [
                disjunct
                for disjunct, roots in requested.items()
                if disjunct.scope == scope and disjunct.paths in holding and (isinstance(roots, str) or root in roots)
            ]
            for neighbour, requested in self._remote.items()
        }

    def statistics(self) -> dict[str, int]:
        """Returns counts and byte sizes."""
        counts = {
            "subscriptions": len(self._subscriptions),
            "local_disjuncts": len(self._local),
            "remote_disjuncts": sum(map(len, self._remote.values())),
            "announced_disjuncts": sum(len(each.announced) for each in self._announcements.values()),
            "widened_paths": self.widened,
        }
        return counts | {f"engine_{name}": count for name, count in self._index.statistics().items()}


def _seen_from_parents(trees: BroadcastTrees) -> dict[Address, _TreesFromParent]:
    roots: dict[Address, set[Root]] = {}
    through: dict[Address, dict[Address, set[Root]]] = {}
    for root, parent in trees.parent.items():
        roots.setdefault(parent, set()).add(root)
        passed_on = through.setdefault(parent, {})
        for child in trees.children.get(root, ()):
            passed_on.setdefault(child, set()).add(root)
    return {
        parent: _TreesFromParent(
            frozenset(roots[parent]), {child: frozenset(passed) for child, passed in through[parent].items()}
        )
        for parent in roots
    }
