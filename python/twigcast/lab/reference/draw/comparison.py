"""The counters of all algorithms on one workload. Unlike times, they are the same on every machine."""

from __future__ import annotations

import random

from twigcast.lab.reference import ALGORITHMS, OutsideFragment
from twigcast.lab.reference.draw.tables import table
from twigcast.query import Expr, Path, Step, attribute, child, descendant, equal, nested

CHILDREN = {
    "feed": ("item", "about"),
    "about": ("title", "person"),
    "item": ("title", "note", "tag", "item", "person"),
    "note": ("tag", "person"),
    "person": ("title", "tag"),
    "title": (),
    "tag": (),
}
"""A small schema in which item is recursive."""

QUERIES_COUNT = 250
MESSAGES_COUNT = 15


class Workload:
    """Random walks over the schema, as messages and as queries, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a workload, not a secret

    def message(self, name: str = "feed", level: int = 1) -> str:
        """Returns an element with up to four children, to level six."""
        attributes = f' lang="{self._random.choice("abc")}"' if self._random.random() < 0.5 else ""
        names = CHILDREN[name] if level < 6 else ()
        inner = "".join(
            self.message(self._random.choice(names), level + 1) for _ in range(self._random.randint(1, 4)) if names
        )
        return f"<{name}{attributes}>{inner}</{name}>"

    def query(self, *, conditions: float, twigs: float) -> Path:
        """Returns a walk from the root, with ``*`` and ``//`` one step in five, and as many predicates as requested."""
        steps: list[Step] = []
        name = "feed"
        for depth in range(self._random.randint(2, 5)):
            predicates: list[Expr] = []
            if self._random.random() < conditions:
                predicates.append(equal(attribute("lang"), self._random.choice("abc")))
            if CHILDREN[name] and self._random.random() < twigs:
                predicates.append(nested(child(self._random.choice(CHILDREN[name]))))
            make = descendant if self._random.random() < 0.2 else child
            steps.append(make("*" if depth and self._random.random() < 0.2 else name, *predicates))
            if not CHILDREN[name]:
                break
            name = self._random.choice(CHILDREN[name])
        return Path.absolute(*steps)


POPULATIONS = {
    "paths": {"conditions": 0.0, "twigs": 0.0},
    "paths with conditions": {"conditions": 0.3, "twigs": 0.0},
    "twigs": {"conditions": 0.1, "twigs": 0.4},
}


def figures() -> dict[str, str]:
    """Returns a table of counters for each kind of population."""
    return {f"comparison-{kind.replace(' ', '-')}": counted(**POPULATIONS[kind]) for kind in POPULATIONS}


def counted(conditions: float, twigs: float) -> str:
    """Returns the counters of every algorithm that takes the population."""
    workload = Workload(2005)
    queries = [workload.query(conditions=conditions, twigs=twigs) for _ in range(QUERIES_COUNT)]
    messages = [workload.message().encode() for _ in range(MESSAGES_COUNT)]
    rows = []
    for name, make in ALGORITHMS.items():
        algorithm = make()
        try:
            for number, query in enumerate(queries):
                algorithm.add(f"Q{number}", query)
        except OutsideFragment:
            continue
        matches = sum(len(algorithm.match(message)) for message in messages)
        counters = algorithm.counters
        rows.append(
            (
                name,
                *(
                    f"{value:,}"
                    for value in (
                        counters.states,
                        counters.transitions,
                        counters.active_states_peak,
                        counters.accepting_visits,
                        counters.path_matches,
                        counters.predicate_evaluations,
                        counters.candidates_peak,
                        matches,
                    )
                ),
            )
        )
    header = ("", "size", "steps", "active, peak", "accepting visits", "path matches", "conditions tested")
    return table((*header, "candidates, peak", "matches"), rows)
