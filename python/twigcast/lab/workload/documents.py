"""Documents from a DTD, with the parameters of IBM's XML Generator that the publications use.

Source: Diao 2005, section 4.4.2.

An element's content is drawn particle by particle: ``?`` gives the part in half of the cases, ``*`` gives 0 to
``max_repeats`` of it and ``+`` 1 to ``max_repeats``, uniformly; a choice takes one alternative, uniformly. From level
``levels`` on (the root is level 0, as in that generator's ``numberLevels``) only what the DTD demands is made, and of a
choice the alternative that ends soonest. Mixed content starts with a text. Attributes occur with their probability.
Every document is valid against the DTD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

from twigcast.lab.workload.errors import WorkloadError
from twigcast.lab.workload.values import AttributeDomain, ValueDomains, below, draw_domains
from twigcast.schema import ElementGraph, Particle, Schema, read_dtd
from twigcast.schema.graph import needed_height

_ATTEMPTS = 100


def documents(
    dtd: Schema | str | Path,
    count: int,
    seed: int = 1,
    *,
    levels: int = 6,
    max_repeats: int = 3,
    repeats: Mapping[str, int] | None = None,
    max_value: int = 20,
    domains: ValueDomains | None = None,
    start: int = 0,
) -> Iterator[bytes]:
    """Makes documents, one after the other.

    Args:
        dtd: a schema, or the file of a DTD.
        count: how many.
        seed: document *i* depends on the seed and *i* only, not on ``count``.
        levels: how many levels have free content (D), the root being level 0; deeper only what the DTD demands.
        max_repeats: largest number of repetitions of a part under one parent (RP).
        repeats: the same per element name, where it differs from ``max_repeats``.
        max_value: largest size of a value domain (used if ``domains`` is not given).
        domains: the values; by default ``draw_domains(schema, seed, max_value=max_value)``, as in ``path_queries``.
        start: number of the first document (to make a set in parts).

    Raises:
        WorkloadError: the parameters make no sense, or the DTD has no finite document.
    """
    schema = dtd if isinstance(dtd, Schema) else read_dtd(dtd)
    if levels < 1 or max_repeats < 1:
        raise WorkloadError("levels and max_repeats must be at least 1")
    domains = domains or draw_domains(schema, seed, max_value=max_value)
    writer = _Writer(schema, domains, levels, max_repeats, repeats or {})
    for number in range(start, start + count):
        yield writer.write(Random(f"document {seed} {number}"))


class _Writer:
    """Writes documents of one schema with one set of parameters."""

    def __init__(
        self,
        schema: Schema,
        domains: ValueDomains,
        levels: int,
        max_repeats: int,
        repeats: Mapping[str, int],
    ) -> None:
        self._schema = schema
        self._domains = domains
        self._levels = levels
        self._max_repeats = max_repeats
        self._repeats = repeats
        self._heights = ElementGraph(schema).minimum_height
        if schema.root not in self._heights:
            raise WorkloadError(f"the DTD has no finite document: {schema.root!r} always contains itself")

    def write(self, random: Random) -> bytes:
        for _ in range(_ATTEMPTS):
            document = _Document(random)
            self._element(document, self._schema.root, 0)
            if document.resolve_references():
                return "".join(document.pieces).encode()
        raise WorkloadError(f"{_ATTEMPTS} documents in a row had an IDREF that must occur, but no ID to refer to")

    def _element(self, document: _Document, name: str, level: int) -> None:
        pieces = document.pieces
        pieces.append(f"<{name}")
        for domain in self._domains.attributes[name]:
            if document.random.random() < domain.probability:
                document.attribute(domain)
        position = len(pieces)
        pieces.append(">")
        content = self._schema.elements[name].content
        if content.kind == "any" or (content.kind == "choice" and content.children[0].kind == "text"):
            self._text(document, name)
        self._content(document, name, content, level)
        if len(pieces) == position + 1:
            pieces[position] = "/>"
        else:
            pieces.append(f"</{name}>")

    def _text(self, document: _Document, name: str) -> None:
        values = self._domains.text[name]
        document.pieces.append(values[below(document.random, len(values))])

    def _content(self, document: _Document, parent: str, particle: Particle, level: int) -> None:
        if particle.kind == "empty" or particle.kind == "any":
            return
        for _ in range(self._times(document.random, particle, level)):
            if particle.kind == "element":
                self._element(document, particle.name, level + 1)
            elif particle.kind == "text":
                self._text(document, parent)
            elif particle.kind == "sequence":
                for part in particle.children:
                    self._content(document, parent, part, level)
            else:
                self._content(document, parent, self._alternative(document.random, particle, level), level)

    def _times(self, random: Random, particle: Particle, level: int) -> int:
        low, high = particle.minimum, particle.maximum
        if low == high or level >= self._levels or needed_height(replace(particle, minimum=1), self._heights) is None:
            return low
        if high is None:
            high = max(low, self._repeats.get(particle.name, self._max_repeats))
        return low + below(random, high - low + 1)

    def _alternative(self, random: Random, particle: Particle, level: int) -> Particle:
        options = [part for part in particle.children if part.kind != "text"] or list(particle.children)
        ending = [part for part in options if self._height(part) is not None]
        if level >= self._levels:
            return min(ending, key=lambda part: self._height(part) or 0)
        return ending[below(random, len(ending))]

    def _height(self, particle: Particle) -> int | None:
        if particle.kind == "element" and particle.name not in self._heights:
            return None  # an element that always contains itself, or is not declared
        return needed_height(particle, self._heights)


class _Document:
    """A document being written. References are filled in at its end, when all identifiers are known."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.pieces: list[str] = []
        self._identifiers: dict[str, None] = {}
        self._references: list[tuple[int, AttributeDomain]] = []

    def attribute(self, domain: AttributeDomain) -> None:
        if domain.reference:
            self._references.append((len(self.pieces), domain))
            self.pieces.append("")
            return
        value = domain.values[below(self.random, len(domain.values))]
        if domain.identifier:
            if value in self._identifiers and domain.probability < 1:
                return  # identifiers are unique, and this one may be left out
            number = len(domain.values)
            while value in self._identifiers:
                number += 1
                value = f"n{number}"
            self._identifiers[value] = None
        self.pieces.append(f' {domain.name}="{value}"')

    def resolve_references(self) -> bool:
        """Fill in the references; whether all that must occur could be."""
        existing = list(self._identifiers)
        for position, domain in self._references:
            if existing:
                self.pieces[position] = f' {domain.name}="{existing[below(self.random, len(existing))]}"'
            elif domain.probability >= 1:
                return False
        return True
