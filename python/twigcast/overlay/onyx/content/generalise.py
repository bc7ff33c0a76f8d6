"""Content generalisation (Diao 2005, section 7.3.2): smaller routing queries that let more messages pass.

For every generalisation *G*, *r* implies *G(r)*, so no message is lost. Rules 1 to 6 widen one conjunction
(:mod:`twigcast.overlay.onyx.content.widening`). To these come: 7. what all disjuncts have in common, which follows from
dropping paths; 8. absorption: disjuncts that imply another are left out, which loses nothing
(:func:`twigcast.overlay.onyx.content.implication_index.kept_without_implied`); 9. a budget of *boxes*, that is
conjunctions and distinct paths, which is met greedily (:func:`generalise`).

The greedy choice is among groups: all disjuncts that one rule turns into the same wider disjunct, or that differ only
in constants. Replacing a group by the wider disjunct saves boxes and costs filtering power, since messages satisfy it
that satisfied nothing before. The cheapest group comes first; of equal costs, the one whose wider disjunct is least
wider than the group. Shares of messages are measured on a sample if there is one, and otherwise estimated from the
paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast._core import ConjunctionIndex
from twigcast.errors import QueryError
from twigcast.overlay.onyx.content.implication import without_implied
from twigcast.overlay.onyx.content.implication_index import kept_without_implied, order_of
from twigcast.overlay.onyx.content.linear import Steps, path_of, steps_of
from twigcast.overlay.onyx.content.widening import allowed_by, covering, wider, without_constants
from twigcast.overlay.onyx.messages import Disjunct, LinearPath
from twigcast.query import ANY, Compare, Operator

#: Part of the excess that is saved before the next choice among new groups.
_SAVED_AT_ONCE = 0.5
#: Excess, in boxes per disjunct, that is saved without a further choice.
_LITTLE = 0.2
#: Rounds of choice before each scope becomes one disjunct that is always true.
_ROUNDS_MAX = 30
#: With more disjuncts than this multiple of the budget, crude steps come first, since choosing would take too long.
_CRUDE_FROM = 20
_Standing: TypeAlias = dict[Disjunct, Disjunct]
_Crude: TypeAlias = Callable[[Iterable[Disjunct]], dict[Disjunct, Disjunct]]


def boxes(disjuncts: Iterable[Disjunct]) -> int:
    """Returns the number of conjunctions and distinct paths, the size of a routing query in a table."""
    distinct = set(disjuncts)
    return len(distinct) + len({path for disjunct in distinct for path in disjunct.paths})


class Selectivity:
    """The share of messages that satisfies each disjunct, measured on a sample or estimated."""

    def __init__(self, sample: Sequence[bytes] = ()) -> None:
        """Takes the sample. If it is empty, shares are estimated.

        Raises:
            RejectedMessage: A message is malformed.
        """
        self._sample = list(sample)
        self._bits: dict[frozenset[LinearPath], int] = {}

    def measure(self, disjuncts: Iterable[Disjunct]) -> None:
        """Measures many disjuncts at once."""
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
                # A refused path always holds (see `routing_index`).
                self._bits[paths] = (1 << len(self._sample)) - 1
        for index, message in enumerate(self._sample):
            for number in table.holding(message):
                self._bits[numbers[number]] |= 1 << index

    def bits(self, disjuncts: Iterable[Disjunct]) -> int:
        """Returns the messages of the sample, as bits, that satisfy at least one of some measured disjuncts."""
        return reduce(lambda bits, disjunct: bits | self._bits.get(disjunct.paths, 0), disjuncts, 0)

    def share(self, disjuncts: Iterable[Disjunct]) -> float:
        """Returns the share of messages that satisfy at least one disjunct."""
        existing = list(disjuncts)
        if not self._sample:
            return 1 - reduce(lambda missed, disjunct: missed * (1 - estimate(disjunct)), existing, 1.0)
        return self.bits(existing).bit_count() / len(self._sample)

    def loss(self, wide: Disjunct, members: Sequence[Disjunct], passing: int) -> tuple[float, float, float]:
        """Returns the cost of replacing a group by a wider disjunct.

        Args:
            wide: The wider disjunct, which all members imply.
            members: The group.
            passing: The messages of the sample, as bits, that satisfy any disjunct.

        Returns:
            The number of sample messages that satisfied nothing before; of those that satisfied no member; and an
            estimate of how much wider it is than the widest member.
        """
        more = self.bits([wide])
        estimated = estimate(wide) - max(map(estimate, members))
        return (more & ~passing).bit_count(), (more & ~self.bits(members)).bit_count(), estimated


def estimate(disjunct: Disjunct) -> float:
    """Returns an estimate of the share of messages that satisfy a disjunct. Only the order of estimates matters."""
    return reduce(lambda share, path: share * _estimate_path(steps_of(path)), sorted(disjunct.paths), 1.0)


def _estimate_path(steps: Steps) -> float:
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
    """A group and the disjunct that may replace it; sorts by cost."""

    cost: tuple[float, float, float]
    saved: int
    order: tuple[str, list[LinearPath]]
    wide: Disjunct
    members: list[Disjunct]


def generalise(
    disjuncts: Iterable[Disjunct], boxes_max: int, selectivity: Selectivity | None = None
) -> dict[Disjunct, Disjunct]:
    """Returns, for each disjunct, the one that replaces it, so that few boxes are left (rule 9).

    If the budget cannot be met, each scope becomes one disjunct that is always true.

    Args:
        disjuncts: The routing query.
        boxes_max: Most conjunctions and distinct paths that may be left.
        selectivity: Measures widths; by default they are estimated.
    """
    selectivity = selectivity or Selectivity()
    originals = list(disjuncts)
    stands_for = kept_without_implied(originals)
    current = set(stands_for.values())
    for crude in _CRUDE:
        if len(current) <= _CRUDE_FROM * boxes_max:
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
    """Applies replacements, then drops disjuncts that imply another. Returns what is left."""
    left = {chosen.get(disjunct, disjunct) for disjunct in current}
    absorbed = kept_without_implied(left)
    for disjunct, standing in stands_for.items():
        stands_for[disjunct] = absorbed[chosen.get(standing, standing)]
    return set(absorbed.values())


def _choose(
    current: set[Disjunct], excess: int, selectivity: Selectivity, existing: dict[Disjunct, list[Disjunct]]
) -> dict[Disjunct, Disjunct]:
    """Returns replacements of the cheapest groups, which save a part of the excess.

    `existing` caches the wider disjuncts of each disjunct, and is extended.
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
        _Choice(selectivity.loss(wide, members, passing), -gain, order_of(wide), wide, members)
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


def _gain(wide: Disjunct, members: Sequence[Disjunct], uses: Counter[LinearPath]) -> int:
    """Returns the number of boxes saved by replacing the members by `wide`."""
    own = Counter(path for member in members for path in member.paths)
    gone = sum(uses[path] == count for path, count in own.items())
    new = sum(path not in uses or uses[path] == own[path] for path in wide.paths)
    return len(members) - 1 + gone - new


def _groups(current: Iterable[Disjunct], existing: dict[Disjunct, list[Disjunct]]) -> dict[Disjunct, list[Disjunct]]:
    """Returns wider disjuncts, each with the disjuncts that one rule generalises to it."""
    groups: dict[Disjunct, list[Disjunct]] = {}
    for disjunct in current:
        if disjunct not in existing:
            existing[disjunct] = list(dict.fromkeys(wider(disjunct)))
        for wide in existing[disjunct]:
            groups.setdefault(wide, []).append(disjunct)
    for disjunct, wide in _by_constants(current).items():
        groups.setdefault(wide, []).append(disjunct)
    return groups


# Crude steps for very many disjuncts. The first loses least.


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
    """Returns, for disjuncts that differ only in constants, the one that covers their group."""
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
