"""Projections as text, for messages between brokers."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import orjson

from twigcast.errors import TwigcastError
from twigcast.overlay.onyx.content.projection import Projection, part_of, query_of
from twigcast.query import NameTest

#: Greatest length of the text of a part; a longer one stands for the whole message.
PART_CHARACTERS_MAX: Final = 64 << 10


@lru_cache(4_096)
def write_part(part: Projection | None) -> str:
    """Returns a part as text. An empty text stands for the whole message, and for a part that cannot be expressed."""
    if part is None:
        return ""
    query = query_of(part._replace(children=None, dropped=frozenset()))
    names = [sorted((test.local, test.namespace) for test in some) for some in (part.children or (), part.dropped)]
    children = None if part.children is None else names[0]
    text = orjson.dumps([query.text, query.namespaces, children, names[1]]).decode()
    if len(text) > PART_CHARACTERS_MAX or not _is_same(part, text):
        return ""
    return text


@lru_cache(4_096)
def read_part(text: str) -> Projection | None:
    """Returns the part of a text, or `None` for the whole message and for texts of newer brokers."""
    if not text or len(text) > PART_CHARACTERS_MAX:
        return None
    try:
        query, namespaces, children, dropped = orjson.loads(text)
        part = part_of(query, dict(namespaces))
        tests = None if children is None else _names(children)
        without = _names(dropped)
    except (ValueError, TypeError, TwigcastError):
        return None
    return None if part is None else part._replace(children=tests, dropped=without)


def _names(pairs: list[list[str]]) -> frozenset[NameTest]:
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise TypeError("a name is no text")
    return frozenset(NameTest(local, namespace) for local, namespace in pairs)


def _is_same(part: Projection, text: str) -> bool:
    """Returns whether reading a text gives the part again."""
    return read_part(text) == part
