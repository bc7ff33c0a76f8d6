"""Markdown tables, and events as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.events import Characters, Element, StartElement, Tree, read_events


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|") or " "


def code(text: object) -> str:
    """Returns text as code."""
    return f"`{text}`"


def listed(items: Iterable[object], empty: str = "-") -> str:
    """Returns ``a, b, c``; a dash for nothing."""
    return ", ".join(str(item) for item in items) or empty


def run(algorithm: Algorithm, message: bytes) -> Iterator[tuple[str, Element]]:
    """Runs a message through an algorithm, and yields each event after it has been handled.

    The document node stands for the beginning and the end.
    """
    tree = Tree()
    algorithm._start_document(tree.document)
    yield "start", tree.document
    for event in read_events(message):
        if isinstance(event, StartElement):
            element = tree.start(event)
            algorithm._start_element(element)
            yield f"<{element.name}>", element
        elif isinstance(event, Characters):
            tree.characters(event)
        else:
            element = tree.end()
            algorithm._end_element(element)
            yield f"</{element.name}>", element
    algorithm._end_document(tree.document)
    yield "end", tree.document


def run_table(
    algorithm: Algorithm,
    message: bytes,
    header: Sequence[str],
    show: Callable[[Element], Sequence[object]],
    *,
    ends: bool,
) -> str:
    """Returns a row for each start tag, or for each end tag too, with what ``show`` sees then."""
    rows = [
        (code(f"{event} {element.id}"), *show(element))
        for event, element in run(algorithm, message)
        if element.level and (ends or not event.startswith("</"))
    ]
    return table(("event", *header), rows)


def outcome(algorithm: Algorithm, message: bytes) -> str:
    """Returns the matching queries, as text."""
    return f"Matched: {listed(sorted(algorithm.match(message)), 'none')}."
