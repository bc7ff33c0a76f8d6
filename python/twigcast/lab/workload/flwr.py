"""For-Where-Return queries from a DTD, with the parameters of Diao 2005, section 6.7.1 and table 7."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from twigcast.lab.workload.errors import WorkloadError, WorkloadExhaustedError
from twigcast.lab.workload.queries import TRIES_PER_QUERY, comparable_items, literal
from twigcast.lab.workload.values import ValueDomains, below, draw_domains
from twigcast.lab.workload.walks import Walker, path_text
from twigcast.schema import ElementGraph, Schema, read_dtd


@dataclass(frozen=True, slots=True)
class FlwrQuery:
    """A For-Where-Return query in parts: paths as text, the relative ones starting with ``/`` or ``//``.

    ``where`` holds (path, literal) pairs, all compared with ``=``.
    """

    binding: str
    where: tuple[tuple[str, str], ...]
    returns: tuple[str, ...]

    @property
    def text(self) -> str:
        """The query as it is registered."""
        conditions = " and ".join(f"$x{path} = {value}" for path, value in self.where)
        clause = f" where {conditions}" if conditions else ""
        items = " ".join(f"{{ $x{path} }}" for path in self.returns)
        return f"for $x in {self.binding}{clause} return <result>{items}</result>"

    @property
    def identity(self) -> tuple[object, ...]:
        """The part that queries share if they differ in the order of predicates or return paths only."""
        return self.binding, tuple(sorted(self.where)), tuple(sorted(self.returns))


def flwr_queries(
    dtd: Schema | str | Path,
    count: int,
    seed: int = 1,
    *,
    binding_depth: int = 2,
    predicate_paths: int = 1,
    return_paths: int = 2,
    path_depth: int = 2,
    descendant: float = 0.2,
    max_value: int = 10,
    domains: ValueDomains | None = None,
    full_bindings: bool = False,
) -> list[str]:
    """Makes different For-Where-Return queries, as texts. See :func:`flwr_parts`."""
    parts = flwr_parts(
        dtd,
        count,
        seed,
        binding_depth=binding_depth,
        predicate_paths=predicate_paths,
        return_paths=return_paths,
        path_depth=path_depth,
        descendant=descendant,
        max_value=max_value,
        domains=domains,
        full_bindings=full_bindings,
    )
    return [query.text for query in parts]


def flwr_parts(
    dtd: Schema | str | Path,
    count: int,
    seed: int = 1,
    *,
    binding_depth: int = 2,
    predicate_paths: int = 1,
    return_paths: int = 2,
    path_depth: int = 2,
    descendant: float = 0.2,
    max_value: int = 10,
    domains: ValueDomains | None = None,
    full_bindings: bool = False,
) -> list[FlwrQuery]:
    """Makes different For-Where-Return queries, in parts.

    Two queries count as equal if they differ only in the order of their predicates or of their return paths.

    Args:
        dtd: a schema, or the file of a DTD.
        count: how many (Q).
        seed: the same seed gives the same queries.
        binding_depth: maximum depth of binding paths (D1).
        predicate_paths: predicate paths per query (PP), all different.
        return_paths: return paths per query (RP), all different.
        path_depth: maximum depth of predicate and return paths (D2).
        descendant: probability of ``//`` at any step (DS).
        max_value: size of all value domains (used if ``domains`` is not given).
        domains: the values; by default every domain has ``max_value`` values, as in ``documents`` with
            ``draw_domains(schema, seed, max_value=max_value, draw_sizes=False)``.
        full_bindings: whether binding paths go as deep as they may, as the walks of path queries do, rather than to a
            depth drawn uniformly. The publication does not say; its figure 6.8 (116 matches among 5,000 queries with
            three predicate paths) is met by the former: 77 on ``library``, against 911 by the latter.

    Raises:
        WorkloadError: the parameters make no sense.
        WorkloadExhaustedError: there are not that many different queries.
    """
    schema = dtd if isinstance(dtd, Schema) else read_dtd(dtd)
    if min(binding_depth, path_depth, return_paths) < 1 or predicate_paths < 0 or not 0 <= descendant <= 1:
        raise WorkloadError("depths and return_paths must be at least 1, and descendant between 0 and 1")
    domains = domains or draw_domains(schema, seed, max_value=max_value, draw_sizes=False)
    random = Random(f"flwr {seed}")
    walker = Walker(ElementGraph(schema), random, descendant=descendant)
    maker = _Maker(walker, random, domains, binding_depth, path_depth, full_bindings)
    results: dict[tuple[object, ...], FlwrQuery] = {}
    limit = TRIES_PER_QUERY * (count + 100)
    for _ in range(limit):
        if len(results) == count:
            return list(results.values())
        query = maker.make(predicate_paths, return_paths)
        if query is not None:
            results.setdefault(query.identity, query)
    raise WorkloadExhaustedError(count, len(results), limit)


class _Maker:
    def __init__(
        self,
        walker: Walker,
        random: Random,
        domains: ValueDomains,
        binding_depth: int,
        path_depth: int,
        full_bindings: bool,
    ) -> None:
        self._walker = walker
        self._random = random
        self._comparable = comparable_items(domains)
        self._binding_depth = binding_depth
        self._path_depth = path_depth
        self._full_bindings = full_bindings

    def make(self, predicate_paths: int, return_paths: int) -> FlwrQuery | None:
        """A query, or ``None`` if the element bound offers too little below it."""
        deepest = self._binding_depth
        steps = self._walker.steps(None, deepest if self._full_bindings else 1 + below(self._random, deepest))
        bound = steps[-1].element
        where: dict[str, str] = {}
        returns: dict[str, None] = {}
        for _ in range(4 * predicate_paths):
            condition = self._condition(bound) if len(where) < predicate_paths else None
            if condition is not None:
                where.setdefault(*condition)
        for _ in range(4 * return_paths):
            path = self._relative(bound)[0] if len(returns) < return_paths else ""
            if path:
                returns[path] = None
        if len(where) < predicate_paths or len(returns) < return_paths:
            return None
        return FlwrQuery(path_text(steps), tuple(where.items()), tuple(returns))

    def _relative(self, bound: str) -> tuple[str, str]:
        steps = self._walker.steps(bound, 1 + below(self._random, self._path_depth))
        return path_text(steps), steps[-1].element if steps else bound

    def _condition(self, bound: str) -> tuple[str, str] | None:
        path, element = self._relative(bound)
        items = self._comparable[element]
        if not items:
            return None
        item, values = items[below(self._random, len(items))]
        if item == "text()" and not path:
            return None
        value = literal(values[below(self._random, len(values))])
        return (path if item == "text()" else f"{path}/{item}"), value
