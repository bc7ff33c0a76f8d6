"""The operators of the post-processing plans (Diao 2005, section 6.4), on lists of path tuples.

Fields are counted from 1, as in the source. *Merge* variants need their inputs ordered by the join field, *scan*
variants by the field that duplicates are decided on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TypeAlias

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import ValuePredicate
from twigcast.lab.transform.query import NavigationPath, StepCondition, WherePath
from twigcast.lab.transform.streams import PathTuple, Stream, search

Group: TypeAlias = tuple[int, tuple[tuple[int, ...], ...]]
"""A surviving binding, and per return path the list of matching nodes in document order."""
Groups: TypeAlias = list[Group]
"""groupSequence-listSequence: the groups of one query on one message, in binding order (Diao 2005, section 6.4)."""


def selection(stream: Stream, conditions: Sequence[StepCondition], nodes: Sequence[Element]) -> Stream:
    """Returns the tuples whose elements satisfy all conditions."""
    return [t for t in stream if all(c.predicate.holds(nodes[t[c.step]]) for c in conditions)]


def selection_on_last(stream: Stream, predicate: ValuePredicate, nodes: Sequence[Element]) -> Stream:
    """Returns the tuples whose last element satisfies a predicate: the value test of a predicate path."""
    return [t for t in stream if predicate.holds(nodes[t[-1]])]


def scan_dup_elim(stream: Stream) -> Stream:
    """Returns the first tuple per value of the last field. The stream is ordered on it.

    Comes after Selection: a duplicate may differ in a field that is tested.
    """
    kept: Stream = []
    last = 0
    for t in stream:
        if t[-1] != last:
            kept.append(t)
            last = t[-1]
    return kept


def hash_pair_dup_elim(stream: Stream, field: int) -> Stream:
    """Returns the first tuple per pair of (``field``, last field)."""
    kept: dict[tuple[int, int], PathTuple] = {}
    for t in stream:
        kept.setdefault((t[field - 1], t[-1]), t)
    return list(kept.values())


def scan_pair_dup_elim(stream: Stream, field: int) -> Stream:
    """Returns the same for a stream ordered on ``field`` too: sorted within a run, duplicates stand together."""
    kept: Stream = []
    seen: set[int] = set()
    current = 0
    for t in stream:
        if t[field - 1] != current:
            current = t[field - 1]
            seen.clear()
        if t[-1] not in seen:
            seen.add(t[-1])
            kept.append(t)
    return kept


def where_filter(stream: Stream, where: Sequence[WherePath], nodes: Sequence[Element]) -> Stream:
    """Returns the tuples whose bound node has, by tree search, a node for every predicate path."""
    return [t for t in stream if all(_satisfies(nodes[t[-1]], condition) for condition in where)]


def _satisfies(bound: Element, condition: WherePath) -> bool:
    return any(condition.predicate is None or condition.predicate.holds(n) for n in search(bound, condition.path))


def return_select(stream: Stream, returns: Sequence[NavigationPath], nodes: Sequence[Element]) -> Groups:
    """Returns a group per tuple, filled by tree search."""
    return [
        (t[-1], tuple(tuple(sorted({n.id for n in search(nodes[t[-1]], path)})) for path in returns)) for t in stream
    ]


def hash_semijoin(left: Stream, right: Stream, field: int) -> Stream:
    """Returns the left tuples (bound node last) with a right partner (bound node at ``field``), in left order."""
    partners = {t[field - 1] for t in right}
    return [t for t in left if t[-1] in partners]


def merge_semijoin(left: Stream, right: Stream, field: int) -> Stream:
    """Returns the same without a hash table. Both streams are ordered by the bound node."""
    kept: Stream = []
    column = field - 1
    rest = iter(right)
    partner = next(rest, None)
    for t in left:
        bound = t[-1]
        while partner is not None and partner[column] < bound:
            partner = next(rest, None)
        if partner is None:
            break
        if partner[column] == bound:
            kept.append(t)
    return kept


def hash_outer_join_select(left: Stream, rights: Sequence[Stream], field: int) -> Groups:
    """Returns a group per left tuple: per right stream the last fields of its partners, or an empty list."""
    tables: list[dict[int, list[int]]] = []
    for right in rights:
        table: dict[int, list[int]] = {}
        for t in right:
            table.setdefault(t[field - 1], []).append(t[-1])
        tables.append(table)
    return [(t[-1], tuple(tuple(table.get(t[-1], ())) for table in tables)) for t in left]


def merge_outer_join_select(left: Stream, rights: Sequence[Stream], field: int) -> Groups:
    """Returns the same without hash tables. All streams are ordered by the bound node, which ``left`` has once."""
    columns = [_merged(left, right, field - 1) for right in rights]
    lists = zip(*columns, strict=True) if columns else repeat((), len(left))
    return [(t[-1], own) for t, own in zip(left, lists, strict=True)]


def _merged(left: Stream, right: Stream, column: int) -> list[tuple[int, ...]]:
    """Per left tuple the last fields of its partners in one right stream: one walk along both."""
    lists = []
    rest = iter(right)
    partner = next(rest, None)
    for t in left:
        bound = t[-1]
        while partner is not None and partner[column] < bound:
            partner = next(rest, None)
        own = []
        while partner is not None and partner[column] == bound:
            own.append(partner[-1])
            partner = next(rest, None)
        lists.append(tuple(own))
    return lists


def group_by(stream: Stream, field: int) -> dict[int, tuple[int, ...]]:
    """Returns the last fields of a return stream by bound node, without duplicates, for all queries that use it."""
    table: dict[int, dict[int, None]] = {}
    for t in stream:
        table.setdefault(t[field - 1], {})[t[-1]] = None
    return {bound: tuple(nodes) for bound, nodes in table.items()}


def join(left: Stream, right: Stream, field: int, *, merge: bool) -> list[tuple[PathTuple, PathTuple]]:
    """Returns pairs of a left tuple and a right tuple with the same bound node, in left order. All fields are kept."""
    if merge:
        return _merge_join(left, right, field)
    table: dict[int, Stream] = {}
    for t in right:
        table.setdefault(t[field - 1], []).append(t)
    return [(t, partner) for t in left for partner in table.get(t[-1], ())]


def _merge_join(left: Stream, right: Stream, field: int) -> list[tuple[PathTuple, PathTuple]]:
    pairs: list[tuple[PathTuple, PathTuple]] = []
    start, end, column = 0, len(right), field - 1
    for t in left:
        bound = t[-1]
        while start < end and right[start][column] < bound:
            start += 1
        position = start  # left tuples may repeat a bound node: do not move past its partners
        while position < end and right[position][column] == bound:
            pairs.append((t, right[position]))
            position += 1
    return pairs
