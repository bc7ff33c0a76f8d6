"""A schema as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

ParticleKind = Literal["empty", "any", "text", "element", "sequence", "choice"]

AttributeType = Literal[
    "cdata", "id", "idref", "idrefs", "entity", "entities", "nmtoken", "nmtokens", "enumeration", "notation"
]


@dataclass(frozen=True, slots=True)
class Particle:
    """A part of a content model.

    ``text`` allows character data; ``any`` allows all declared elements and text. ``maximum`` is ``None`` if there is
    no limit.
    """

    kind: ParticleKind
    name: str = ""
    children: tuple[Particle, ...] = ()
    minimum: int = 1
    maximum: int | None = 1

    def elements(self) -> Iterator[str]:
        """Yields the element names in it, in order, with repetitions."""
        if self.kind == "element":
            yield self.name
        for child in self.children:
            yield from child.elements()

    def most(self, name: str) -> int | None:
        """Returns the greatest possible number of elements of this name, or ``None`` without a limit."""
        if self.kind == "any":
            return None
        if self.kind == "element":
            once: int | None = int(self.name == name)
        else:
            counts = [child.most(name) for child in self.children]
            once = _most_of(self.kind, counts)
        if once == 0:
            return 0
        return None if once is None or self.maximum is None else once * self.maximum

    def least(self, name: str) -> int:
        """Returns the least possible number of elements of this name."""
        if self.kind == "element":
            return self.minimum * int(self.name == name)
        counts = [child.least(name) for child in self.children]
        once = min(counts, default=0) if self.kind == "choice" else sum(counts)
        return once * self.minimum


@dataclass(frozen=True, slots=True)
class AttributeDeclaration:
    """A declared attribute.

    ``required``: it must be present. ``fixed``: if present, it has the value ``default``. ``values``: those of an
    enumeration, otherwise empty.
    """

    name: str
    type: AttributeType = "cdata"
    required: bool = False
    fixed: bool = False
    default: str | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ElementDeclaration:
    """A declared element."""

    name: str
    content: Particle
    attributes: tuple[AttributeDeclaration, ...] = ()

    @property
    def has_text(self) -> bool:
        """Returns whether it may have character data as a child."""
        return _holds_text(self.content)


def _most_of(kind: ParticleKind, counts: list[int | None]) -> int | None:
    existing = [count for count in counts if count is not None]
    if len(existing) < len(counts):
        return None
    return max(existing, default=0) if kind == "choice" else sum(existing)


def _holds_text(particle: Particle) -> bool:
    return particle.kind in ("text", "any") or any(_holds_text(child) for child in particle.children)


@dataclass(frozen=True, slots=True)
class Schema:
    """The declared elements, in order of declaration, and the element that a document starts with."""

    root: str
    elements: Mapping[str, ElementDeclaration]
    name: str = field(default="", compare=False)

    def children(self, name: str) -> tuple[str, ...]:
        """Returns the distinct declared elements that may be children of an element, in order of first mention."""
        content = self.elements[name].content
        if content.kind == "any":
            return tuple(self.elements)
        return tuple(dict.fromkeys(child for child in content.elements() if child in self.elements))
