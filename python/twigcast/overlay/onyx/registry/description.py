"""What a broker says of itself to all others, as the text that goes with its link state.

A name and an address, then words of the form ``key=value``; words that are not known are passed over, as from a newer
broker. None of it holds a space.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from urllib.parse import quote, unquote

from twigcast.overlay.onyx.registry.catalogue import Location


class Description(NamedTuple):
    """A broker, for others.

    Attributes:
        name: Its name.
        where: Host and port at which brokers reach it; empty: they do not.
        url: At which clients reach it; empty: it does not say.
        location: Where it is, on any map on which distances mean something.
        capacity: Bytes a second that it can take from sources.
        holders: Names of the brokers that hold the registry, as far as it was told.
    """

    name: str
    where: str = ""
    url: str = ""
    location: Location = (0.0, 0.0)
    capacity: float = 0.0
    holders: tuple[str, ...] = ()

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
        """Name and address, for people."""
        return f"{self.name} {self.where}".strip()


def read_description(text: str) -> Description:
    """What a text says; what it says wrongly counts as not said."""
    name, *words = text.split(" ")
    where = words.pop(0) if words and "=" not in words[0] else ""
    said = dict(word.split("=", 1) for word in words if "=" in word)
    holders = tuple(filter(None, map(unquote, said.get("registry", "").split(","))))
    position = [_number(part) for part in said.get("place", "").split(",")]
    return Description(
        name,
        where,
        unquote(said.get("url", "")),
        (position[0], position[1]) if len(position) == 2 else (0.0, 0.0),
        max(0.0, _number(said.get("capacity", ""))),
        holders,
    )


def _number(text: str) -> float:
    try:
        result = float(text)
    except ValueError:
        return 0.0
    return result if math.isfinite(result) else 0.0
