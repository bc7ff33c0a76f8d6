"""Content generalisation (Diao 2005, section 7.3.2): smaller routing queries that let more messages pass.

Every generalisation *G* satisfies *r* implies *G(r)*, so nothing is lost by it. On top of the ways to widen one
conjunction (:mod:`twigcast.overlay.onyx.content.widening`, rules 1 to 6) there are here: 7. what all disjuncts have in
common (:func:`common_conjuncts`); 8. absorption, which loses nothing (:func:`absorb`); 9. a budget of *boxes*,
conjunctions and distinct paths, met greedily (:func:`generalise`).

The greedy choice looks at groups: all disjuncts from which one rule makes the same wider disjunct, or that differ in
constants alone. Putting the wider one in the place of the group saves boxes and costs filtering power: messages that
satisfied nothing satisfy it. The group that costs least goes first; between equal costs, the one whose wider disjunct
is least wider than the group. The shares are measured on a sample of messages where there is one, else guessed from
what the paths say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast._core import ConjunctionIndex
from twigcast.errors import QueryError
from twigcast.overlay.onyx.content.implication import without_implied
from twigcast.overlay.onyx.content.implication_index import kept_without_implied
from twigcast.overlay.onyx.content.linear import Steps, path_of, steps_of
from twigcast.overlay.onyx.content.widening import allowed_by, covering, wider, without_constants
from twigcast.overlay.onyx.messages import Disjunct, LinearPath, RoutingQuery
from twigcast.query import ANY, Compare, Operator

#: Part of what is too much that is saved before the next choice among new groups.
_SAVED_AT_ONCE = 0.5
#: Excess, in boxes a disjunct, that is saved without a further choice.
_LITTLE = 0.2
#: Rounds of choice before everything of a scope becomes one.
_ROUNDS_MAX = 30
#: With more disjuncts than so many times what is allowed, crude ways come first: choosing would take too long.
_CROWDED = 20
_Standing: TypeAlias = dict[Disjunct, Disjunct]
_Crude: TypeAlias = Callable[[Iterable[Disjunct]], dict[Disjunct, Disjunct]]


def common_conjuncts(query: RoutingQuery) -> RoutingQuery:
    """Rule 7: one disjunct a scope, of the paths that all disjuncts have in common; always true if there are none."""
    common: dict[str, frozenset[LinearPath]] = {}
    for disjunct in query:
        existing = common.get(disjunct.scope)
        common[disjunct.scope] = disjunct.paths if existing is None else existing & disjunct.paths
    return frozenset(Disjunct(scope, paths) for scope, paths in common.items())


def absorb(query: Iterable[Disjunct]) -> RoutingQuery:
    """Rule 8: without the disjuncts that imply another."""
    return frozenset(kept_without_implied(query).values())


def boxes(disjuncts: Iterable[Disjunct]) -> int:
    """Conjunctions and distinct paths, which is what a routing query takes in a table."""
    distinct = set(disjuncts)
    return len(distinct) + len({path for disjunct in distinct for path in disjunct.paths})


class Selectivity:
    """What share of messages satisfies a disjunct: measured on a sample, guessed where the sample cannot tell."""

    def __init__(self, sample: Sequence[bytes] = ()) -> None:
        """Measure on a sample of messages, or guess if there are none.

        Raises:
            RejectedMessage: A message is malformed.
        """
        self._sample = list(sample)
        self._bits: dict[frozenset[LinearPath], int] = {}

    def measure(self, disjuncts: Iterable[Disjunct]) -> None:
        """Measure many disjuncts at once."""
        new = {disjunct.paths for disjunct in disjuncts} - self._bits.keys()
        if not self._sample or not new:
            return
        table = ConjunctionIndex()
        numbers: dict[int, frozenset[LinearPath]] = {}
        for paths in new:
            self._bits[paths] = 0
            try:
                numbers[table.add([(path.text, dict(path.namespaces)) for path in paths], [])] = paths
            except QueryError:
                # What the engine refuses holds always (see `routing_index`).
                self._bits[paths] = (1 << len(self._sample)) - 1
        for index, message in enumerate(self._sample):
            for number in table.holding(message):
                self._bits[numbers[number]] |= 1 << index

    def bits(self, disjuncts: Iterable[Disjunct]) -> int:
        """The messages of the sample, as bits, that satisfy at least one of these, all of which were measured."""
        return reduce(lambda bits, disjunct: bits | self._bits.get(disjunct.paths, 0), disjuncts, 0)

    def share(self, disjuncts: Iterable[Disjunct]) -> float:
        """The share of messages that satisfy at least one of these."""
        existing = list(disjuncts)
        if not self._sample:
            return 1 - reduce(lambda missed, disjunct: missed * (1 - guess(disjunct)), existing, 1.0)
        return self.bits(existing).bit_count() / len(self._sample)

    def loss(self, wide: Disjunct, members: Sequence[Disjunct], passing: int) -> tuple[float, float, float]:
        """What it costs to put `wide` in the place of the members.

        Returns:
            Messages of the sample that satisfied nothing so far; those that satisfied none of the members; and a guess
            of how much wider it is than the widest member.

        Args:
            wide: What the members imply.
            members: The group.
            passing: The messages of the sample that satisfy anything at all, as bits.
        """
        more = self.bits([wide])
        guessed = guess(wide) - max(map(guess, members))
        return (more & ~passing).bit_count(), (more & ~self.bits(members)).bit_count(), guessed


def guess(disjunct: Disjunct) -> float:
    """The share of messages that satisfy a disjunct, guessed from what it says."""
    return reduce(lambda share, path: share * _guess_path(steps_of(path)), disjunct.paths, 1.0)


def _guess_path(steps: Steps) -> float:
    share = 1.0
    for step in steps:
        share *= 0.95 if step.test == ANY else 0.7 if step.descendant else 0.65
        for condition in step.conditions:
            if allowed_by(condition) is None:
                share *= 0.6
            else:
                equal = isinstance(condition, Compare) and condition.operator is Operator.EQUAL
                share *= 0.1 if equal else 0.4
    return share


class _Choice(NamedTuple):
    """A group and what may stand in its place; sorts by cost."""

    cost: tuple[float, float, float]
    saved: int
    order: tuple[str, list[LinearPath]]
    wide: Disjunct
    members: list[Disjunct]


def generalise(
    disjuncts: Iterable[Disjunct], boxes_max: int, selectivity: Selectivity | None = None
) -> dict[Disjunct, Disjunct]:
    """Rule 9: at most so many boxes, or one always true disjunct a scope if even these are more.

    Args:
        disjuncts: What to make smaller.
        boxes_max: Conjunctions and distinct paths that may be left.
        selectivity: How widths are measured; by default they are guessed.

    Returns:
        Each disjunct with the one that is to stand in its place, which it implies.
    """
    selectivity = selectivity or Selectivity()
    originals = list(disjuncts)
    stands_for = kept_without_implied(originals)
    current = set(stands_for.values())
    for crude in _CRUDE:
        if len(current) <= _CROWDED * boxes_max:
            break
        current = _replace(stands_for, current, crude(current))
    existing: dict[Disjunct, list[Disjunct]] = {}
    for _ in range(_ROUNDS_MAX):
        excess = boxes(current) - boxes_max
        if excess <= 0:
            break
        chosen = _choose(current, excess, selectivity, existing)
        if not chosen:
            break
        current = _replace(stands_for, current, chosen)
    if boxes(current) > boxes_max:
        stands_for = {disjunct: Disjunct(disjunct.scope, frozenset()) for disjunct in originals}
    return stands_for


def _replace(stands_for: _Standing, current: set[Disjunct], chosen: Mapping[Disjunct, Disjunct]) -> set[Disjunct]:
    """Put the wider ones in their places, then drop what implies another."""
    left = {chosen.get(disjunct, disjunct) for disjunct in current}
    absorbed = kept_without_implied(left)
    for disjunct, standing in stands_for.items():
        stands_for[disjunct] = absorbed[chosen.get(standing, standing)]
    return set(absorbed.values())


def _choose(
    current: set[Disjunct], excess: int, selectivity: Selectivity, existing: dict[Disjunct, list[Disjunct]]
) -> dict[Disjunct, Disjunct]:
    """Groups to put together now, the cheapest first.

    Args:
        current: All disjuncts.
        excess: Boxes to save; a part of it is saved now.
        selectivity: How widths are measured.
        existing: What disjuncts were widened to before; is added to.
    """
    uses = Counter(path for disjunct in current for path in disjunct.paths)
    saving: list[tuple[Disjunct, list[Disjunct], int]] = []
    for wide, members in _groups(current, existing).items():
        gain = _gain(wide, members, uses)
        if gain > 0:
            saving.append((wide, members, gain))
    selectivity.measure([*current, *(wide for wide, _, _ in saving)])
    passing = selectivity.bits(current)
    choices = [
        _Choice(selectivity.loss(wide, members, passing), -gain, _order(wide), wide, members)
        for wide, members, gain in saving
    ]
    quota = excess if excess < _LITTLE * len(current) else max(1, int(excess * _SAVED_AT_ONCE))
    replaced: dict[Disjunct, Disjunct] = {}
    saved = 0
    for choice in sorted(choices, key=lambda choice: choice[:3]):
        left = [member for member in choice.members if member not in replaced]
        gain = _gain(choice.wide, left, uses)
        if gain <= 0 or choice.wide in replaced:
            continue
        replaced.update((member, choice.wide) for member in left)
        saved += gain
        if saved >= quota:
            break
    return replaced


def _order(disjunct: Disjunct) -> tuple[str, list[LinearPath]]:
    return disjunct.scope, sorted(disjunct.paths)


def _gain(wide: Disjunct, members: Sequence[Disjunct], uses: Counter[LinearPath]) -> int:
    """Boxes saved by putting `wide` in the place of the members."""
    own = Counter(path for member in members for path in member.paths)
    gone = sum(uses[path] == count for path, count in own.items())
    new = sum(path not in uses or uses[path] == own[path] for path in wide.paths)
    return len(members) - 1 + gone - new


def _groups(current: Iterable[Disjunct], existing: dict[Disjunct, list[Disjunct]]) -> dict[Disjunct, list[Disjunct]]:
    """Wider disjuncts and those from which one rule makes them."""
    groups: dict[Disjunct, list[Disjunct]] = {}
    for disjunct in current:
        if disjunct not in existing:
            existing[disjunct] = list(dict.fromkeys(wider(disjunct)))
        for wide in existing[disjunct]:
            groups.setdefault(wide, []).append(disjunct)
    for disjunct, wide in _by_constants(current).items():
        groups.setdefault(wide, []).append(disjunct)
    return groups


# Crude ways for crowds, the first of which loses least.


def _each(widen: Callable[[Disjunct], frozenset[LinearPath]]) -> _Crude:
    return lambda current: {disjunct: disjunct._replace(paths=widen(disjunct)) for disjunct in current}


def _bare(disjunct: Disjunct) -> frozenset[LinearPath]:
    steps = map(steps_of, disjunct.paths)
    return without_implied(path_of(tuple(step._replace(conditions=()) for step in path)) for path in steps)


def _longest(disjunct: Disjunct) -> frozenset[LinearPath]:
    return frozenset(sorted(disjunct.paths, key=lambda path: (-len(steps_of(path)), path))[:1])


def _cut(length: int) -> _Crude:
    return _each(lambda disjunct: without_implied(path_of(steps_of(path)[:length]) for path in disjunct.paths))


def _by_constants(current: Iterable[Disjunct]) -> dict[Disjunct, Disjunct]:
    """Those that differ in constants alone, each with what covers all of its group."""
    return _grouped(current, lambda members: Disjunct(members[0][0].scope, _covering(members)))


def _covering(members: list[tuple[Disjunct, list[LinearPath]]]) -> frozenset[LinearPath]:
    return frozenset(covering(parallel) for parallel in zip(*(paths for _, paths in members), strict=True))


def _grouped(
    current: Iterable[Disjunct], cover: Callable[[list[tuple[Disjunct, list[LinearPath]]]], Disjunct]
) -> dict[Disjunct, Disjunct]:
    groups: dict[tuple[str, ...], list[tuple[Disjunct, list[LinearPath]]]] = {}
    for disjunct in current:
        shapes = sorted((without_constants(path), path) for path in disjunct.paths)
        key = (disjunct.scope, *(shape for shape, _ in shapes))
        groups.setdefault(key, []).append((disjunct, [path for _, path in shapes]))
    results: dict[Disjunct, Disjunct] = {}
    for members in groups.values():
        if len(members) > 1:
            wide = cover(members)
            results.update((disjunct, wide) for disjunct, _ in members)
    return results


_CRUDE: tuple[_Crude, ...] = (_by_constants, _each(_bare), _each(_longest), *map(_cut, (4, 3, 2, 1)))
