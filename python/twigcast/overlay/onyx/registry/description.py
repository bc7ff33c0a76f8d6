"""The description of a broker, as the text in its link state.

The text is a name and an address, then words of the form ``key=value``. Unknown words are ignored, as from a newer
broker. No part contains a space.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from urllib.parse import quote, unquote

from twigcast.overlay.onyx.registry.catalogue import Location


class Description(NamedTuple):
    """The description of a broker."""

    name: str
    where: str = ""  #: Host and port for other brokers; empty: they cannot dial.
    url: str = ""  #: URL for clients; empty: unknown.
    location: Location = (0.0, 0.0)  #: A point on any map with meaningful distances.
    capacity: float = 0.0  #: Bytes per second that it can take from sources.
    holders: tuple[str, ...] = ()  #: Names of the holders of the registry, if it is configured with them.

    def __str__(self) -> str:
        words = [self.name, self.where]
        if self.url:
            words.append(f"url={quote(self.url, safe=':/')}")
        if self.location != (0.0, 0.0):
            words.append("place={!r},{!r}".format(*self.location))
        if self.capacity:
            words.append(f"capacity={self.capacity!r}")
        if self.holders:
            words.append(f"registry={','.join(quote(name, safe='') for name in self.holders)}")
        return " ".join(words).strip()

    @property
    def label(self) -> str:
        """Name and address, for reports."""
        return f"{self.name} {self.where}".strip()


def read_description(text: str) -> Description:
    """Returns the description in a text. Faulty words count as absent."""
    name, *words = text.split(" ")
    where = words.pop(0) if words and "=" not in words[0] else ""
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    holders = tuple(filter(None, map(unquote, fields.get("registry", "").split(","))))
    position = [_number(part) for part in fields.get("place", "").split(",")]
    return Description(
        name,
        where,
        unquote(fields.get("url", "")),
        (position[0], position[1]) if len(position) == 2 else (0.0, 0.0),
        max(0.0, _number(fields.get("capacity", ""))),
        holders,
    )


def _number(text: str) -> float:
    try:
        result = float(text)
    except ValueError:
        return 0.0
    return result if math.isfinite(result) else 0.0
