"""An index that finds, among many disjuncts, those that one disjunct implies, without comparing it with each.

If *d* implies *e*, each path of *e* is implied by some path of *d*. Each *e* is filed under its longest path. For each
path of *d*, the likely wider paths are generated: its prefixes with all, some or none of their conditions, and their
suffixes behind a `//`. Disjuncts filed under one of these are compared in full. Wider paths of other kinds (with `*` in
place of a name) are also filed under their last name, and a few of each name are tried. So some implications are
missed. This costs space, but never a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeAlias

from twigcast.overlay.onyx.content.implication import disjunct_implies
from twigcast.overlay.onyx.content.linear import LinearStep, path_of, steps_of
from twigcast.overlay.onyx.messages import Disjunct, LinearPath

#: Prefixes of a path that are tried, from the shortest, and suffixes of each.
_STEPS_MAX = 6
#: Most steps of the infixes that are tried.
_BETWEEN_MAX = 2
#: Wider paths of other kinds that are tried for one name.
_UNUSUAL_MAX = 4

# A step as text: separator, name test, conditions. Nested brackets are left to the parser.
_CONDITION = re.compile(r"""\[(?:[^\[\]"']|"[^"]*"|'[^']*')*\]""")
_STEP = re.compile(rf"""(//?)([^/\[\]"']+)((?:{_CONDITION.pattern})*)""")


#: A path as a key; without namespaces, its text.
_Key: TypeAlias = str | LinearPath
_Filed: TypeAlias = dict[tuple[str, _Key], dict[Disjunct, None]]

#: The key of disjuncts without paths; no path has this text.
_ALWAYS = ""


class ImplicationIndex:
    """An index of disjuncts by what implies them."""

    def __init__(self) -> None:
        self._by_path: _Filed = {}
        self._by_name: _Filed = {}

    def add(self, disjunct: Disjunct) -> None:
        """Adds a disjunct."""
        home = _home(disjunct)
        self._by_path.setdefault((disjunct.scope, _key(home)), {})[disjunct] = None
        if _is_unusual(home):
            self._by_name.setdefault((disjunct.scope, _last_name(home)), {})[disjunct] = None

    def remove(self, disjunct: Disjunct) -> None:
        """Removes a disjunct."""
        home = _home(disjunct)
        _discard(self._by_path, (disjunct.scope, _key(home)), disjunct)
        if _is_unusual(home):
            _discard(self._by_name, (disjunct.scope, _last_name(home)), disjunct)

    def implied_by(self, disjunct: Disjunct) -> Iterator[Disjunct]:
        """Yields indexed disjuncts that a disjunct implies, without itself."""
        scope, by_path = disjunct.scope, self._by_path
        yield from by_path.get((scope, _ALWAYS), ())
        for path in sorted(disjunct.paths):
            for key in _wider(path):
                for candidate in by_path.get((scope, key), ()):
                    # The path under which it is filed is implied.
                    if candidate != disjunct and (len(candidate.paths) == 1 or disjunct_implies(disjunct, candidate)):
                        yield candidate
        if self._by_name:
            yield from self._unusual(disjunct)

    def _unusual(self, disjunct: Disjunct) -> Iterator[Disjunct]:
        names = {name for path in disjunct.paths for name in _names(path)} | {"*"}
        for name in sorted({_last_name(path) for path in disjunct.paths} | {"*"}):
            filed = self._by_name.get((disjunct.scope, name), ())
            for candidate in islice(filed, _UNUSUAL_MAX):
                existing = all(names.issuperset(_names(path)) for path in candidate.paths)
                if existing and candidate != disjunct and disjunct_implies(disjunct, candidate):
                    yield candidate


def _discard(filed: _Filed, key: tuple[str, _Key], disjunct: Disjunct) -> None:
    position = filed[key]
    del position[disjunct]
    if not position:
        del filed[key]


def _home(disjunct: Disjunct) -> LinearPath:
    return max(disjunct.paths, key=lambda path: (len(path.text), path), default=LinearPath(_ALWAYS))


def _key(path: LinearPath) -> _Key:
    return path if path.namespaces else path.text


def _is_unusual(path: LinearPath) -> bool:
    """Returns whether a path is not a part of a path without `*` and `//`."""
    return "*" in path.text or "//" in path.text[1:]


@lru_cache(maxsize=1 << 14)
def _names(path: LinearPath) -> tuple[str, ...]:
    return tuple(match[2] for match in _STEP.finditer(path.text))


def _last_name(path: LinearPath) -> str:
    names = _names(path)
    return names[-1] if names else "*"


@lru_cache(maxsize=1 << 12)
def _wider(path: LinearPath) -> tuple[_Key, ...]:
    """Returns likely paths that a path implies, with itself."""
    steps = _step_texts(path)
    wider = map(_key, _from_steps(path)) if steps is None else _from_text(steps)
    return tuple(dict.fromkeys((_key(path), *wider)))


class _StepText(NamedTuple):
    """A step as text."""

    separator: str
    name: str
    conditions: tuple[str, ...]


def _step_texts(path: LinearPath) -> list[_StepText] | None:
    """Returns the steps as text, or `None` if the path has to be parsed."""
    if path.namespaces:
        # The prefix of a namespace depends on the steps before.
        return None
    results = list(_STEP.finditer(path.text))
    if sum(len(match[0]) for match in results) != len(path.text):
        return None
    return [_StepText(match[1], match[2], tuple(_CONDITION.findall(match[3]))) for match in results]


def _from_text(steps: list[_StepText]) -> Iterator[str]:
    whole = [separator + name + "".join(conditions) for separator, name, conditions in steps]
    bare = [separator + name for separator, name, _ in steps]
    for start, end in _windows(len(steps)):
        last = end - 1
        above = "".join(bare[start:end])
        bodies = [above, "".join(whole[start:end]), "".join(whole[start:last]) + bare[last]]
        conditions = steps[last].conditions
        if conditions:
            bodies += [above + condition for condition in conditions]
            bodies.append(above + "".join(conditions))
        # A `//` in place of the leading `/`.
        if steps[start].separator == "/":
            yield from ("/" + body for body in bodies)
        if start == 0 or steps[start].separator != "/":
            yield from bodies


def _windows(length: int) -> Iterator[tuple[int, int]]:
    """Yields the bounds of prefixes, suffixes and short infixes."""
    shown = min(length, _STEPS_MAX)
    for end in range(1, shown + 1):
        yield from ((start, end) for start in range(end) if start == 0 or end == shown or end - start <= _BETWEEN_MAX)


def _from_steps(path: LinearPath) -> Iterator[LinearPath]:
    steps = steps_of(path)
    bare = tuple(LinearStep(step.descendant, step.test) for step in steps)
    for start, end in _windows(len(steps)):
        last = steps[end - 1]
        above = bare[start : end - 1]
        of_last = [(), last.conditions, *((condition,) for condition in last.conditions)]
        variants = [steps[start:end], (*steps[start : end - 1], bare[end - 1])]
        variants += [(*above, last._replace(conditions=conditions)) for conditions in of_last]
        for variant in variants:
            yield path_of((variant[0]._replace(descendant=True), *variant[1:]))
            if start == 0:
                yield path_of(variant)


def _any_may(_carrier: Disjunct, _disjunct: Disjunct) -> bool:
    return True


def kept_without_implied(
    disjuncts: Iterable[Disjunct], may_carry: Callable[[Disjunct, Disjunct], bool] = _any_may
) -> dict[Disjunct, Disjunct]:
    """Returns, for each disjunct, the one that stands for it: itself, or one that it implies (absorption).

    The result does not depend on the order.

    Args:
        disjuncts: The disjuncts.
        may_carry: Returns whether the first may stand for the second, which implies it.
    """
    carriers = ImplicationIndex()
    stands_for: dict[Disjunct, Disjunct] = {}
    for disjunct in sorted(disjuncts, key=_generality):
        implied = carriers.implied_by(disjunct)
        carrier = next((candidate for candidate in implied if may_carry(candidate, disjunct)), disjunct)
        stands_for[disjunct] = carrier
        if carrier == disjunct:
            carriers.add(disjunct)
    return stands_for


def order_of(disjunct: Disjunct) -> tuple[str, list[LinearPath]]:
    """Returns a sort key of disjuncts that is the same in every process."""
    return disjunct.scope, sorted(disjunct.paths)


def _generality(disjunct: Disjunct) -> tuple[int, int, str, list[LinearPath]]:
    """Returns a sort key by which disjuncts that others are likely to imply come first."""
    size = sum(len(path.text) for path in disjunct.paths)
    return (len(disjunct.paths), size, disjunct.scope, sorted(disjunct.paths))
