"""The characteristics of a schema that the publications tabulate (Diao 2005, table 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twigcast.schema.graph import ElementGraph
from twigcast.schema.model import Schema


@dataclass(frozen=True, slots=True)
class SchemaStatistics:
    """Counts of one schema. ``nesting`` is the deepest possible level, ``None`` if there is no limit."""

    name: str
    elements: int
    attributes: int
    recursive_elements: int
    nesting: int | None
    edges: int
    text_elements: int
    largest_fan_out: int


def statistics(schema: Schema) -> SchemaStatistics:
    """Counts what a schema declares: all element names and all (element, attribute) pairs."""
    graph = ElementGraph(schema)
    fan_outs = [len(graph.children(name)) for name in graph.names]
    return SchemaStatistics(
        name=schema.name,
        elements=len(schema.elements),
        attributes=sum(len(element.attributes) for element in schema.elements.values()),
        recursive_elements=len(graph.recursive),
        nesting=graph.maximum_depth,
        edges=sum(fan_outs),
        text_elements=sum(element.has_text for element in schema.elements.values()),
        largest_fan_out=max(fan_outs),
    )


def statistics_table(rows: Iterable[SchemaStatistics]) -> str:
    """Renders the counts as a text table with a line per schema."""
    header = ("schema", "elements", "attributes", "recursive", "nesting", "edges", "with text", "largest fan-out")
    lines: list[tuple[str, ...]] = [header]
    for row in rows:
        nesting = "unlimited" if row.nesting is None else str(row.nesting)
        counts = (row.elements, row.attributes, row.recursive_elements, nesting, row.edges, row.text_elements)
        lines.append((row.name, *map(str, counts), str(row.largest_fan_out)))
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
