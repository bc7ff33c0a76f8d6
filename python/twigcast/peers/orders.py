"""The orders of a user to a peer: JSON objects, one a line, with what is to be done under `do`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twigcast.overlay.errors import OrderError, UndistributableQuery
from twigcast.query import Path, parse


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

    def text(self, name: str) -> str:
        """Returns a value, which must be a text that UTF-8 can write.

        Raises:
            OrderError: It is not there, or is none.
        """
        value = self.values.get(name)
        if not isinstance(value, str) or not value:
            raise OrderError(f'to {self.what}, a "{name}" is needed, as a text')
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise OrderError(f'"{name}" holds half of a surrogate pair at character {error.start + 1}') from None
        return value


def path_of(query: str) -> Path:
    """Returns a query that can be distributed, so far as its kind says.

    Raises:
        UndistributableQuery: It is no path.
        QueryError: It is no query.
    """
    path = parse(query)
    if not isinstance(path, Path):
        raise UndistributableQuery(query, "only absolute location paths can be distributed")
    return path
