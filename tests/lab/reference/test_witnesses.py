"""What BFilter and GFilter tell beyond yes and no: the portion that proves a match, and the result tuples."""

from collections.abc import Iterator
from itertools import product

from lxml import etree

from tests.lab.reference.generator import Generator, generated, oracle
from twigcast.lab.reference.bfilter import BFilter
from twigcast.lab.reference.events import Element, build, read_events
from twigcast.lab.reference.gfilter import GFilter
from twigcast.lab.reference.language import LocationStep, path_query


def reduced(elements: list[Element], keep: tuple[int, ...]) -> bytes:
    """The message without anything but some elements and what they stand in."""
    kept = set(keep)
    for element in elements:
        if element.id in keep:
            kept |= {ancestor.id for ancestor in element.ancestors()}
    copies: dict[int, etree._Element] = {}
    for element in elements:
        if element.id in kept:
            assert element.parent is not None
            copy = etree.Element(element.name)
            if element.parent.id:
                copies[element.parent.id].append(copy)
            copies[element.id] = copy
    return etree.tostring(copies[1])


def test_the_matched_portion_matches_by_itself() -> None:
    portions = 0
    for queries, message in generated("twig", 5, population=150, messages=10):
        bfilter = BFilter()
        for query_id, query in queries.items():
            bfilter.add(query_id, query)
        bfilter.match(message)
        elements = build(read_events(message))
        for query_id, keep in bfilter.portions.items():
            alone = reduced(elements, keep)
            assert oracle(alone, {query_id: queries[query_id]}), (str(queries[query_id]), message, alone)
            portions += 1
    assert portions > 100


def rows(steps: tuple[LocationStep, ...], context: Element) -> Iterator[tuple[Element, ...]]:
    """All ways to satisfy some steps below an element, by definition."""
    step, rest = steps[0], steps[1:]
    below = context.children if step.axis == "/" else list(descendants(context))
    for element in below:
        if step.accepts(element) and step.conditions_hold(element):
            parts = [path.steps for path in step.nested_paths] + ([rest] if rest else [])
            for choice in product(*(list(rows(part, element)) for part in parts)):
                yield (element, *(e for row in choice for e in row))


def descendants(element: Element) -> Iterator[Element]:
    for child in element.children:
        yield child
        yield from descendants(child)


def test_result_tuples_are_all_and_only_those_of_the_definition() -> None:
    generator = Generator(9)
    tuples = 0
    for _ in range(500):
        query, message = generator.twig(values=True), generator.message()
        path = path_query(query)
        if len(str(path)) > 60:
            continue
        document = build(read_events(message))[0].parent
        assert document is not None
        expected = {tuple(e.id for e in row) for row in rows(path.steps, document)}
        results = {tuple(e.id for e in row) for row in GFilter().result_tuples(query, read_events(message))}
        assert results == expected, (str(query), message)
        tuples += len(results)
    assert tuples > 300
