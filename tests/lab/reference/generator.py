"""Small recursive messages, queries of the papers' language that have a fair chance on them, and libxml2's answers."""

import random
from collections.abc import Callable, Iterator

from lxml import etree

from twigcast.query import (
    Expr,
    Operator,
    Path,
    Step,
    attribute,
    child,
    compare,
    descendant,
    itself,
    nested,
    position,
    text,
)

NAMES = "abc"
OPERATORS = [*"=<>", "!=", "<=", ">="]


class Generator:
    """Small recursive messages over few names, and queries that have a fair chance on them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def message(self) -> bytes:
        return self._element(1).encode()

    def _element(self, level: int) -> str:
        name = self.random.choice(NAMES)
        attributes = "".join(
            f' {key}="{self.random.choice(["1", "2", "03", "x"])}"' for key in "pq" if self.random.random() < 0.35
        )
        parts: list[str] = []
        for _ in range(self.random.choice([0, 1, 1, 2, 3]) if level < 6 else 0):
            parts.append(self._text())
            parts.append(self._element(level + 1))
        parts.append(self._text())
        return f"<{name}{attributes}>{''.join(parts)}</{name}>"

    def _text(self) -> str:
        return self.random.choice(["", "", "", "1", "2", "x", "<!--c-->", "1<!--c-->2", "<![CDATA[x]]>1"])

    def linear(self) -> Path:
        return Path.absolute(*(self._step(()) for _ in range(self.random.randint(1, 5))))

    def conditional(self) -> Path:
        return Path.absolute(*(self._step(self._conditions()) for _ in range(self.random.randint(1, 4))))

    def twig(self, *, values: bool) -> Path:
        return Path.absolute(*self._twig_steps(0, values))

    def _twig_steps(self, depth: int, values: bool) -> list[Step]:
        steps = []
        for _ in range(self.random.randint(1, 3 if depth < 2 else 2)):
            predicates: list[Expr] = list(self._conditions()) if values and self.random.random() < 0.3 else []
            while depth < 2 and self.random.random() < 0.35:
                path = nested(*self._twig_steps(depth + 1, values))
                value = values and self.random.random() < 0.2
                predicates.append(compare(path, self._operator(), self._value()) if value else path)
            steps.append(self._step(tuple(predicates)))
        return steps

    def _step(self, predicates: tuple[Expr, ...]) -> Step:
        name = "*" if self.random.random() < 0.2 else self.random.choice(NAMES)
        return (descendant if self.random.random() < 0.35 else child)(name, *predicates)

    def _conditions(self) -> tuple[Expr, ...]:
        return tuple(self._condition() for _ in range(self.random.choice([0, 0, 1, 1, 2])))

    def _condition(self) -> Expr:
        kind = self.random.random()
        if kind < 0.15:
            return attribute(self.random.choice("pq"))
        if kind < 0.55:
            return compare(attribute(self.random.choice("pq")), self._operator(), self._value())
        if kind < 0.7:
            return compare(text(), self._operator(), self._value())
        if kind < 0.8:
            return compare(itself(), self._operator(), self._value())
        return position(self._operator(), self.random.randint(1, 3))

    def _operator(self) -> Operator:
        return Operator(self.random.choice(OPERATORS))

    def _value(self) -> str | float:
        values: list[str | float] = ["1", "x", 1.0, 2.0, 3.0]
        return self.random.choice(values)


KINDS: dict[str, Callable[[Generator], Path]] = {
    "linear": Generator.linear,
    "conditional": Generator.conditional,
    "twig": lambda generator: generator.twig(values=False),
    "twig with values": lambda generator: generator.twig(values=True),
}


def oracle(message: bytes, queries: dict[str, Path]) -> set[str]:
    document = etree.fromstring(message).getroottree()
    return {query_id for query_id, query in queries.items() if document.xpath(str(query))}


def generated(kind: str, seed: int, population: int, messages: int) -> Iterator[tuple[dict[str, Path], bytes]]:
    generator = Generator(seed)
    queries = {f"Q{number}": KINDS[kind](generator) for number in range(population)}
    for _ in range(messages):
        yield queries, generator.message()
