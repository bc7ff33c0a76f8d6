"""Parts of messages as texts: how brokers tell each other what is taken, and what was taken."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import orjson

from twigcast.errors import TwigcastError
from twigcast.overlay.onyx.projection import Part, part_of, query_of
from twigcast.query import NameTest

#: Of a part's text; what is longer is taken for the whole message.
PART_CHARACTERS_MAX: Final = 64 << 10


@lru_cache(4_096)
def write_part(part: Part | None) -> str:
    """A part as a text; empty: the whole message, or it cannot be told."""
    if part is None:
        return ""
    query = query_of(part._replace(children=None))
    children = None if part.children is None else sorted((test.local, test.namespace) for test in part.children)
    text = orjson.dumps([query.text, query.namespaces, children]).decode()
    if len(text) > PART_CHARACTERS_MAX or not _is_same(part, text):
        return ""
    return text


@lru_cache(4_096)
def read_part(text: str) -> Part | None:
    """The part that a text tells; `None`: the whole message, or a text of a newer broker."""
    if not text or len(text) > PART_CHARACTERS_MAX:
        return None
    try:
        query, namespaces, children = orjson.loads(text)
        part = part_of(query, dict(namespaces))
        tests = None if children is None else frozenset(NameTest(local, space) for local, space in children)
    except (ValueError, TypeError, TwigcastError):
        return None
    return None if part is None else part._replace(children=tests)


def _is_same(part: Part, text: str) -> bool:
    """Whether a text says of a part what it is: a condition in which nothing is lost on the way."""
    return read_part(text) == part
