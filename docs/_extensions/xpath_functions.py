"""The directive ``xpath-functions``: a table of the core functions, from the rows that parser and planner read."""

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive

from twigcast._core import XPathFunction
from twigcast.query.functions import FUNCTIONS


def _without_nodes(row: XPathFunction) -> str:
    """Returns the value on an empty node-set as XPath writes it."""
    value = row.without_nodes
    if row.arguments_max == 0:
        return "-"
    if value is None:
        return "depends"
    if isinstance(value, bool):
        return str(value).lower()
    if value == ():
        return "no value"
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else f"{value:g}"
    return f"'{value}'"


def _row(cells: Iterable[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


class XPathFunctions(Directive):
    """A table of all functions: how to call them, what they return, and what they return on an empty node-set."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Returns the table."""
        columns = ("call", "returns", "on an empty node-set")
        head = nodes.thead("", _row(nodes.Text(column) for column in columns))
        body = nodes.tbody()
        for row in FUNCTIONS.values():
            value = _without_nodes(row)
            body += _row((nodes.literal("", row.usage), nodes.Text(row.result_type), nodes.literal("", value)))
        group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in columns), head, body, cols=len(columns))
        return [nodes.table("", group)]


def setup(app: Any) -> dict[str, bool]:
    """Registers the directive with Sphinx."""
    app.add_directive("xpath-functions", XPathFunctions)
    return {"parallel_read_safe": True}
