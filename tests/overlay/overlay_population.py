"""Random small messages and queries for the overlay tests, and the oracle: libxml2's XPath."""

from __future__ import annotations

import random
from functools import cache

from lxml import etree

from twigcast.overlay.documents import Document, read_document
from twigcast.query import Expr, Path, Step, attribute, child, compare, descendant, itself, nested, position, text

NAMES = "abcde"

_SOURCES: dict[str, bytes] = {}


def random_xml(generator: random.Random, depth: int = 5, width: int = 3) -> bytes:
    """A random message over five names, with attributes and text."""

    def element(level: int) -> str:
        name = generator.choice(NAMES)
        attributes = "".join(f' {key}="{generator.randint(1, 4)}"' for key in ("x", "y") if generator.random() < 0.4)
        content = str(generator.randint(1, 4)) if generator.random() < 0.4 else ""
        if level < depth:
            content += "".join(element(level + 1) for _ in range(generator.randint(0, width)))
        return f"<{name}{attributes}>{content}</{name}>"

    return element(1).encode()


def message(name: str, xml: bytes) -> Document:
    """A message that the oracle knows."""
    _SOURCES[name] = xml
    return read_document(name, xml)


def source(name: str) -> bytes:
    """The text of a message that the oracle knows."""
    return _SOURCES[name]


def random_messages(seed: int, count: int, prefix: str = "m") -> list[Document]:
    """Random messages that the oracle knows."""
    generator = random.Random(f"messages {seed}")
    return [message(f"{prefix}{seed}-{number}", random_xml(generator)) for number in range(count)]


def random_query(generator: random.Random, branching: bool = True) -> Path:
    """A random query of the overlay's subset."""
    return Path.absolute(*_steps(generator, generator.randint(1, 4), 2 if branching else 0))


def _steps(generator: random.Random, count: int, nesting: int) -> list[Step]:
    steps = []
    for _ in range(count):
        make = descendant if generator.random() < 0.35 else child
        steps.append(make(generator.choice(NAMES) if generator.random() < 0.8 else "*", *_tests(generator, nesting)))
    return steps


def _tests(generator: random.Random, nesting: int) -> list[Expr]:
    tests: list[Expr] = []
    operator = generator.choice(["=", "!=", "<", "<=", ">", ">="])
    value: str | float = generator.randint(1, 4) if generator.random() < 0.5 else str(generator.randint(1, 4))
    if generator.random() < 0.12:
        tests.append(position(generator.choice(["=", "<=", ">"]), generator.randint(1, 3)))
    if generator.random() < 0.15:
        tests.append(compare(attribute(generator.choice("xy")), operator, value))
    if generator.random() < 0.08:
        tests.append(compare(generator.choice([text(), itself()]), operator, value))
    if nesting and generator.random() < 0.2:
        path = nested(*_steps(generator, generator.randint(1, 2), nesting - 1))
        tests.append(path if generator.random() < 0.6 else compare(path, operator, value))
    return tests


def random_queries(seed: int, count: int, branching: bool = True) -> list[Path]:
    """Random queries."""
    generator = random.Random(f"queries {seed}")
    return [random_query(generator, branching) for _ in range(count)]


@cache
def _tree(name: str) -> etree._Element:
    return etree.fromstring(_SOURCES[name])


@cache
def _answer(query: str, name: str) -> bool:
    return bool(_tree(name).getroottree().xpath(query))


def matches(query: Path, document: Document) -> bool:
    """Whether libxml2 finds anything."""
    return _answer(str(query), document.name)
