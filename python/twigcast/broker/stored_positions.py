"""Explains queries on stored messages, with positions in the message as subscribers get it.

A query is evaluated on a stored message with the ID attributes that it declared, in a short DOCTYPE that subscribers do
not get. Positions behind this DOCTYPE are moved back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from twigcast.answers import Node
from twigcast.broker.model import StoredMessage
from twigcast.explanation import Explanation, explain
from twigcast.limits import Limits
from twigcast.registration import Dialect, Params

_LINE_END: Final = re.compile("\r\n|\r|\n")


def explain_stored(
    query: str,
    message: StoredMessage,
    *,
    namespaces: Mapping[str, str],
    dialect: Dialect,
    limits: Limits,
    params: Params,
) -> Explanation:
    """Returns why a query matches a stored message or not: see :func:`twigcast.explain`."""
    xml = message.with_ids
    result = explain(query, xml, namespaces=namespaces, dialect=dialect, limits=limits, params=params)
    return replace(result, details=_Shift(message).moved(result.details)) if message.id_types else result


def nodes_of_stored(nodes: Sequence[Node], message: StoredMessage) -> list[Node]:
    """Returns nodes of :attr:`StoredMessage.with_ids` as nodes of the message as subscribers get it."""
    return [_Shift(message).node(node) for node in nodes] if message.id_types else list(nodes)


class _Shift:
    """Converts positions in a message with its ID attributes to those in the message without them."""

    def __init__(self, message: StoredMessage) -> None:
        id_types = message.id_types or b""
        self._message = message.xml
        self._start, self._bytes = message.id_types_start, len(id_types)
        *lines, line = _LINE_END.split(message.xml[: self._start].decode())
        self._line, self._column, self._characters = len(lines) + 1, len(line) + 1, len(id_types.decode())

    def node(self, node: Node) -> Node:
        return replace(
            node,
            start=self._offset(node.start),
            end=self._offset(node.end),
            column=self._moved_column(node.line, node.column),
            message=self._message,
            nodes_of_message=None,
        )

    def moved(self, value: Any) -> Any:
        """Returns plain values with all positions converted."""
        if isinstance(value, Mapping):
            plain = {name: self.moved(one) for name, one in value.items()}
            line, column = plain.get("line"), plain.get("column")
            if isinstance(line, int) and isinstance(column, int):
                plain["column"] = self._moved_column(line, column)
            return plain
        return [self.moved(one) for one in value] if isinstance(value, list) else value

    def _offset(self, at: int) -> int:
        return at if at <= self._start else at - self._bytes

    def _moved_column(self, line: int, column: int) -> int:
        return column - self._characters if line == self._line and column > self._column else column
