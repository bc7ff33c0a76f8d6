"""The values in documents and predicates (Diao 2005, section 4.4.2).

Every attribute has a probability of occurrence, drawn uniformly from [0, 1] or narrower bounds; every attribute and
every element with text has a number of distinct values, drawn uniformly from 1..``max_value``. Values are the numbers
1..n. Documents and queries use the same draw, so that predicates test values of documents. Same schema and seed,
same draw, on every version of Python: only ``Random.random`` is used, whose sequence is guaranteed not to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from twigcast.lab.workload.errors import WorkloadError
from twigcast.schema import AttributeDeclaration, Schema

_UNSUPPORTED = ("entity", "entities", "notation")


@dataclass(frozen=True, slots=True)
class AttributeDomain:
    """The frequency of an attribute, and its values.

    ``reference``: its values are identifiers of the same document (IDREF), so there is nothing to draw from.
    """

    name: str
    probability: float
    values: tuple[str, ...]
    identifier: bool = False
    reference: bool = False


@dataclass(frozen=True, slots=True)
class ValueDomains:
    """The values of a workload: per element of its text (if it can have any), and of its attributes."""

    text: Mapping[str, tuple[str, ...]]
    attributes: Mapping[str, tuple[AttributeDomain, ...]]


def below(random: Random, limit: int) -> int:
    """Returns a whole number from 0..limit-1, uniformly."""
    return int(random.random() * limit)


def draw_domains(
    schema: Schema,
    seed: int = 1,
    *,
    min_value: int = 1,
    max_value: int = 20,
    draw_sizes: bool = True,
    occurrence: tuple[float, float] = (0.0, 1.0),
) -> ValueDomains:
    """Draws the values of a workload.

    Args:
        schema: whose elements and attributes.
        seed: the same seed gives the same domains.
        min_value: the smallest size of a domain.
        max_value: the largest size of a domain.
        draw_sizes: draw every size from ``min_value``..``max_value``; otherwise all domains have ``max_value`` values.
        occurrence: between which bounds the probability of an attribute is drawn; those that the DTD requires always
            occur.

    Raises:
        WorkloadError: the bounds make no sense, or an attribute that must occur has a type without values of its own
            (ENTITY, NOTATION).
    """
    if not 1 <= min_value <= max_value:
        raise WorkloadError(f"sizes of value domains must be between 1 and max_value, not {min_value} to {max_value}")
    least, most = occurrence
    if not 0 <= least <= most <= 1:
        raise WorkloadError(f"the occurrence of attributes must be between 0 and 1, not {least} to {most}")
    random = Random(f"values {seed}")

    def size() -> int:
        return min_value + below(random, max_value - min_value + 1) if draw_sizes else max_value

    def probability() -> float:
        return least + (most - least) * random.random()

    text: dict[str, tuple[str, ...]] = {}
    attributes: dict[str, tuple[AttributeDomain, ...]] = {}
    for element in schema.elements.values():
        numbers = _numbers(size())
        if element.has_text:
            text[element.name] = numbers
        drawn = [_attribute(element.name, item, probability(), size()) for item in element.attributes]
        attributes[element.name] = tuple(domain for domain in drawn if domain is not None)
    return ValueDomains(text, attributes)


def _numbers(count: int, prefix: str = "") -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(1, count + 1))


def _attribute(element: str, attribute: AttributeDeclaration, probability: float, size: int) -> AttributeDomain | None:
    if attribute.type in _UNSUPPORTED:
        if attribute.required:
            raise WorkloadError(
                f"{element}/@{attribute.name} must occur, but values of type {attribute.type} cannot be made"
            )
        return None
    if attribute.required:
        probability = 1.0
    if attribute.fixed and attribute.default is not None:
        return AttributeDomain(attribute.name, probability, (attribute.default,))
    if attribute.type in ("idref", "idrefs"):
        return AttributeDomain(attribute.name, probability, (), reference=True)
    if attribute.type == "id":
        return AttributeDomain(attribute.name, probability, _numbers(size, "n"), identifier=True)
    return AttributeDomain(attribute.name, probability, attribute.values or _numbers(size))
