"""Announcements: the interests that a broker has sent to one neighbour, and their changes.

Each interest, a disjunct with the roots for whose messages it holds, is *carried* by one announced disjunct: itself,
one that it implies, or a generalisation. Its roots are among those of its carrier. An announced disjunct that no longer
carries an interest is withdrawn. So an announcement is never narrower than the interests. After removals it may be
wider until it is tightened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from twigcast.overlay.onyx.content.generalise import boxes
from twigcast.overlay.onyx.content.implication_index import ImplicationIndex, kept_without_implied
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, Root

#: The roots for whose messages an interest holds; `EVERYWHERE`: all.
Roots: TypeAlias = frozenset[Root] | str

#: Returns, for each disjunct, the wider one to announce in its place, so that few are left.
Generalise: TypeAlias = Callable[[Iterable[Disjunct], int], dict[Disjunct, Disjunct]]

#: Part of the limit to which an announcement that exceeds it is reduced, so that this is not due again at once.
_REDUCED_TO = 0.8
#: Interests that get another carrier at once when theirs is withdrawn; more wait until the announcement is tightened.
_CARRIED_ANEW_MAX = 1_000
#: Greatest number of interests with which an announcement without a limit is tightened.
_TIGHTENED_AT_ONCE_MAX = 200_000


class AnnouncementDelta(NamedTuple):
    """The changes of an announcement."""

    interests: dict[Disjunct, Roots]  #: Disjuncts that are new or hold for other roots.
    unwanted: tuple[Disjunct, ...]  #: Withdrawn disjuncts.


def covers(wide: Roots, narrow: Roots) -> bool:
    """Returns whether `wide` holds all roots of `narrow`."""
    if isinstance(wide, str):
        return True
    return not isinstance(narrow, str) and narrow <= wide


def joined(one: Roots, other: Roots) -> Roots:
    """Returns the union of two sets of roots."""
    if isinstance(one, str) or isinstance(other, str):
        return EVERYWHERE
    return one | other


class InterestCover:
    """A cached cover of a set of interests by those that others imply. Neighbours are often sent the same set."""

    def __init__(self) -> None:
        self._interests: dict[Disjunct, Roots] = {}
        self._stands_for: dict[Disjunct, Disjunct] = {}

    def __call__(self, interests: Mapping[Disjunct, Roots]) -> dict[Disjunct, Disjunct]:
        """Returns, for each interest, one that it implies and whose roots cover its own."""
        if interests != self._interests:
            self._interests = dict(interests)
            self._stands_for = kept_without_implied(
                interests, lambda carrier, disjunct: covers(interests[carrier], interests[disjunct])
            )
        return dict(self._stands_for)


class Announcement:
    """The announcement to one neighbour."""

    def __init__(
        self,
        boxes_max: int | None = None,
        generalise: Generalise | None = None,
        cover: InterestCover | None = None,
    ) -> None:
        """Begins empty.

        Args:
            boxes_max: Most conjunctions and distinct paths (content generalisation); `None`: any number.
            generalise: Makes it smaller.
            cover: The cover of interests, shared by several announcements.
        """
        self._cover = cover or InterestCover()
        self.announced: dict[Disjunct, Roots] = {}  #: What the neighbour was sent, with all changes that were returned.
        self._boxes_max = boxes_max
        self._generalise = generalise
        self._interests: dict[Disjunct, Roots] = {}
        self._carrier: dict[Disjunct, Disjunct] = {}
        self._carried: dict[Disjunct, dict[Disjunct, None]] = {}
        self._carriers = ImplicationIndex()
        self._path_uses: dict[LinearPath, int] = {}
        self._before: dict[Disjunct, Roots | None] = {}
        self._interests_when_tight = 0
        self._is_loose = False

    @property
    def boxes(self) -> int:
        """The size of the announcement in boxes: its conjunctions and distinct paths (see `generalise`)."""
        return len(self.announced) + len(self._path_uses)

    @property
    def interests(self) -> Mapping[Disjunct, Roots]:
        """The exact interests."""
        return self._interests

    def update(self, interests: Mapping[Disjunct, Roots]) -> AnnouncementDelta:
        """Changes interests, given the roots of each; without roots, it is removed. Returns what to send."""
        if not self.announced and len(interests) > _CARRIED_ANEW_MAX:
            # Together, in the order that finds most carriers.
            self._interests.update((disjunct, roots) for disjunct, roots in interests.items() if roots)
            self._tighten()
            return self._changes()
        waiting = dict(interests)
        while waiting:
            disjunct, roots = waiting.popitem()
            for other in self._set_down(disjunct, roots):
                waiting.setdefault(other, self._interests[other])
            if roots:
                self._interests[disjunct] = roots
                self._carry(disjunct, roots)
        if self._boxes_max is not None and self._generalise is not None and self.boxes > self._boxes_max:
            self._widen(self._generalise(self.announced, int(self._boxes_max * _REDUCED_TO)))
        elif self._is_loose and self._is_to_be_tightened():
            # Disjuncts that were generalised may become exact again.
            self._tighten()
        return self._changes()

    def _is_to_be_tightened(self) -> bool:
        if self._boxes_max is None:
            # The carrier of very many interests is gone, such as the request for everything after a start. Unchanged,
            # the announcement would still let everything pass. With too many interests, tightening takes too long.
            return len(self._interests) <= _TIGHTENED_AT_ONCE_MAX
        return len(self._interests) <= self._interests_when_tight // 2

    def _set_down(self, disjunct: Disjunct, roots: Roots) -> list[Disjunct]:
        """Removes an interest. Returns the others that need another carrier."""
        if self._interests.pop(disjunct, None) is None:
            return []
        carrier = self._carrier.pop(disjunct, None)
        if carrier is None:
            return []
        carried = self._carried[carrier]
        carried.pop(disjunct, None)
        if carrier == disjunct and carried and not covers(roots, self.announced[carrier]):
            if len(carried) > _CARRIED_ANEW_MAX:
                self._is_loose = True
                return []
            for other in carried:
                del self._carrier[other]
            self._withdraw(carrier)
            return list(carried)
        if not carried:
            self._withdraw(carrier)
        return []

    def _carry(self, disjunct: Disjunct, roots: Roots) -> None:
        for carrier in self._carriers.implied_by(disjunct):
            if covers(self.announced[carrier], roots):
                self._attach(disjunct, carrier)
                return
        existing = self.announced.get(disjunct)
        # Interests that it still carries keep the roots that they need.
        self._announce(disjunct, roots if existing is None else joined(existing, roots))
        self._attach(disjunct, disjunct)

    def _attach(self, disjunct: Disjunct, carrier: Disjunct) -> None:
        self._carrier[disjunct] = carrier
        self._carried.setdefault(carrier, {})[disjunct] = None

    def _announce(self, disjunct: Disjunct, roots: Roots) -> None:
        existing = self.announced.get(disjunct)
        self._before.setdefault(disjunct, existing)
        self.announced[disjunct] = roots
        if existing is None:
            self._carriers.add(disjunct)
            for path in disjunct.paths:
                self._path_uses[path] = self._path_uses.get(path, 0) + 1

    def _withdraw(self, disjunct: Disjunct) -> None:
        self._before.setdefault(disjunct, self.announced[disjunct])
        del self.announced[disjunct], self._carried[disjunct]
        self._carriers.remove(disjunct)
        for path in disjunct.paths:
            self._path_uses[path] -= 1
            if not self._path_uses[path]:
                del self._path_uses[path]

    def _changes(self) -> AnnouncementDelta:
        before, self._before = self._before, {}
        now = {disjunct: self.announced.get(disjunct) for disjunct in before}
        return AnnouncementDelta(
            {disjunct: roots for disjunct, roots in now.items() if roots is not None and roots != before[disjunct]},
            tuple(disjunct for disjunct, roots in now.items() if roots is None and before[disjunct] is not None),
        )

    # Tightening.

    def _widen(self, wider: Mapping[Disjunct, Disjunct]) -> None:
        """Replaces announced disjuncts by wider ones."""
        self._is_loose = True
        self._interests_when_tight = max(self._interests_when_tight, len(self._interests))
        for narrow, wide in wider.items():
            if narrow == wide:
                continue
            roots, carried = self.announced[narrow], self._carried[narrow]
            self._withdraw(narrow)
            self._announce(wide, joined(self.announced.get(wide, roots), roots))
            for interest in carried:
                self._attach(interest, wide)

    def _tighten(self) -> None:
        stands_for = self._cover(self._interests)
        carriers = dict.fromkeys(stands_for.values())
        limit = self._boxes_max
        self._is_loose = False
        if limit is not None and self._generalise is not None and boxes(carriers) > limit:
            wider = self._generalise(carriers, int(limit * _REDUCED_TO))
            stands_for = {disjunct: wider[carrier] for disjunct, carrier in stands_for.items()}
            self._is_loose = True
        for carrier in list(self.announced):
            self._withdraw(carrier)
        self._carrier.clear()
        requested: dict[Disjunct, Roots] = {}
        for disjunct, carrier in stands_for.items():
            roots = self._interests[disjunct]
            requested[carrier] = joined(requested[carrier], roots) if carrier in requested else roots
            self._attach(disjunct, carrier)
        for carrier, roots in requested.items():
            self._announce(carrier, roots)
        self._interests_when_tight = len(self._interests)
