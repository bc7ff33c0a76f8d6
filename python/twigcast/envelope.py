"""Envelopes: an element around each delivery that names the message and the subscription."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from twigcast.errors import EnvelopeError
from twigcast.reading.prolog import without_prolog

ESCAPES: Final = {'"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
"""The escapes in an attribute, besides ``&amp;``, ``&lt;`` and ``&gt;``."""

_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", **ESCAPES})

_START: Final = (
    "A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)


@cache
def plain_name() -> re.Pattern[str]:
    """Returns what a name without a colon is. Compiling such character classes takes milliseconds."""
    return re.compile(rf"[{_START}][{_START}\-.0-9\u00b7\u0300-\u036f\u203f-\u2040]*")


@cache
def no_character() -> re.Pattern[str]:
    """Returns the characters that XML cannot hold."""
    return re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Envelope:
    """An element around a delivery, with attributes for the id of the message, the key and perhaps the query.

    The element declares at most its own prefix, so its content keeps its namespaces.

    Args:
        name: The element's name, perhaps with a prefix.
        namespace: The namespace of the prefix; needed with a prefix, and only then.
        message: The name of the attribute for the message's id.
        key: The name of the attribute for the subscription's key.
        query: The name of an attribute for the subscription's query as it was written; if ``None``, there is none.
            The queries of all matches are looked up together, which takes a microsecond or two each, and changes of
            the set wait for it; a task of a pipeline looks up those of all subscriptions first.

    Raises:
        EnvelopeError: A name is not an XML name, or the prefix and the namespace do not fit.
    """

    name: str
    namespace: str | None = None
    message: str = "message"
    key: str = "key"
    query: str | None = None

    def __post_init__(self) -> None:
        prefix, colon, local = self.name.rpartition(":")
        attributes = [self.message, self.key, *([] if self.query is None else [self.query])]
        for name in (*attributes, local, *([prefix] if colon else [])):
            if not plain_name().fullmatch(name) or name == "xmlns":
                raise EnvelopeError(name, "it is no name")
        for index, name in enumerate(attributes):
            if name in attributes[:index]:
                raise EnvelopeError(name, "two attributes cannot have one name")
        if prefix in ("xml", "xmlns"):
            raise EnvelopeError(self.name, f"the prefix {prefix} is taken")
        if bool(colon) != bool(self.namespace):
            reason = "its prefix stands for no namespace" if colon else "a name in a namespace needs a prefix"
            raise EnvelopeError(self.name, reason)

    @classmethod
    def named(cls, name: str, namespaces: Mapping[str, str], query: str | None = None) -> Self:
        """Returns an envelope whose prefix, if it has one, is declared in ``namespaces``.

        Raises:
            EnvelopeError: The prefix is not declared, or the name is not an XML name.
        """
        prefix, colon, _ = name.rpartition(":")
        return cls(name, namespaces.get(prefix) if colon else None, query=query)

    def around(self, payload: bytes, message_id: str, key: str, query: str = "") -> bytes:
        """Returns a result in its envelope. The query is left out if the envelope has no attribute for it."""
        return self.start(message_id, key, query).encode() + payload + self.end.encode()

    def around_message(self, message: bytes, message_id: str, key: str, query: str = "") -> bytes:
        """Returns a whole message in its envelope, as UTF-8, without XML declaration and document type."""
        return self.around(without_prolog(message), message_id, key, query)

    def start(self, message_id: str, key: str, query: str = "") -> str:
        """Returns the start tag."""
        asked = "" if self.query is None else f"{self.before_query}{attribute_text(query)}"
        return f'{self.opening}{attribute_text(message_id)}{self.between}{attribute_text(key)}{asked}">'

    @property
    def opening(self) -> str:
        """The start tag up to the message's id."""
        prefix, colon, _ = self.name.rpartition(":")
        declared = f' xmlns:{prefix}="{attribute_text(self.namespace or "")}"' if colon else ""
        return f'<{self.name}{declared} {self.message}="'

    @property
    def between(self) -> str:
        """The start tag between the message's id and the key."""
        return f'" {self.key}="'

    @property
    def before_query(self) -> str:
        """The start tag between the key and the query."""
        return f'" {self.query}="'

    @property
    def end(self) -> str:
        """The end tag."""
        return f"</{self.name}>"


def attribute_text(value: str) -> str:
    """Returns a text as it stands in an attribute."""
    # A character that XML cannot hold becomes the replacement character.
    return no_character().sub("\N{REPLACEMENT CHARACTER}", value).translate(_ESCAPED)
