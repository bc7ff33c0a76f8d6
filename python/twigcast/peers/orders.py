"""The orders of a user to a peer: JSON objects, one a line. The member `do` names the action."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from twigcast.overlay.documents import Document, read_document
from twigcast.overlay.errors import MessageTooLarge, OrderError, UndistributableQuery
from twigcast.query import Path, parse
from twigcast.subscription_items import checked_namespaces

#: Bytes of a message. A peer reads it at each of its nodes, during which it answers nobody.
DOCUMENT_BYTES_MAX: Final = 1 << 20
#: Messages that others have not acknowledged beyond which a peer reads no orders.
UNACKNOWLEDGED_MAX: Final = 1_000
#: Bytes that may be under way to another peer.
WINDOW_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """An order."""

    what: str  #: Its kind.
    values: Mapping[str, Any]

    @classmethod
    def read(cls, line: str) -> Order:
        """Returns the order in a line.

        Raises:
            OrderError: There is none.
        """
        try:
            values = json.loads(line)
        except ValueError as error:
            raise OrderError(f"an order is a JSON object in one line: {error}") from None
        if not isinstance(values, dict) or not isinstance(values.get("do"), str):
            raise OrderError('an order is a JSON object that says what to "do"')
        return cls(values["do"], values)

    def document(self) -> Document:
        """Returns the message to publish.

        Raises:
            OrderError: There is none.
            MessageTooLarge: It is over the bound.
            MalformedMessage: It is not well-formed.
        """
        name, xml = self.text("name"), self.text("xml").encode()
        if len(xml) > DOCUMENT_BYTES_MAX:
            raise MessageTooLarge(len(xml), DOCUMENT_BYTES_MAX, f"message {name}")
        return read_document(name, xml)

    def path(self) -> Path:
        """Returns the query to subscribe to.

        Raises:
            OrderError: There is none, or its namespaces are no texts by prefix.
            QueryError: It is none.
            UndistributableQuery: It cannot be distributed.
        """
        namespaces = self.values.get("namespaces", {})
        if not isinstance(namespaces, dict) or not all(isinstance(uri, str) for uri in namespaces.values()):
            raise OrderError('"namespaces" are an object with a text for each prefix')
        return path_of(self.text("query"), namespaces)

    def text(self, name: str) -> str:
        """Returns a value, which must be a text that UTF-8 can write.

        Raises:
            OrderError: The value is missing, or is no text.
        """
        value = self.values.get(name)
        if not isinstance(value, str) or not value:
            raise OrderError(f'to {self.what}, a "{name}" is needed, as a text')
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise OrderError(f'"{name}" holds half of a surrogate pair at character {error.start + 1}') from None
        return value


def order_name(line: str) -> dict[str, str]:
    """Returns the members that identify an order, as far as the line can be read."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: values[name] for name in ("do", "key", "name") if isinstance(values.get(name), str)}


def path_of(query: str, namespaces: Mapping[str, str] | None = None) -> Path:
    """Returns a query that can be distributed, so far as its kind says.

    Raises:
        InvalidContext: A prefix cannot stand for its namespace.
        UndistributableQuery: It is no path.
        QueryError: It is no query.
    """
    path = parse(query, checked_namespaces(namespaces))
    if not isinstance(path, Path):
        raise UndistributableQuery(query, "only absolute location paths can be distributed")
    return path
