"""Declarations from outside of messages: external DTDs that the user names, and the entities of HTML and ISO.

A message cannot cause a file to be read: only DTDs that the user names are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from twigcast._core import Declarations, expand
from twigcast.errors import ReadOptionError

EntitySet = Literal["html"]
"""Entities that can be asked for by name: those of HTML, which include the sets of ISO."""


@dataclass(frozen=True, slots=True)
class DocumentTypes:
    """The document types that are known when messages are read, apart from what these say themselves."""

    entities: EntitySet | None = None
    """``html``: the entities of HTML and ISO are declared in every message. They are anyway where its DOCTYPE or a
    parameter entity has a public identifier that stands for them."""

    dtd: str | None = None
    """The file of a DTD that is taken for the external DTD of every message."""

    def __post_init__(self) -> None:
        if self.entities not in (None, "html"):
            raise ReadOptionError("entities", f"it must be 'html' or None, not {self.entities!r}")

    def declarations(self) -> tuple[Declarations | None, Declarations]:
        """Returns what the DTD declares, if there is one, and the entities of HTML and ISO.

        Raises:
            SourceError: The file of the DTD cannot be read.
        """
        return None if self.dtd is None else read_dtd(self.dtd), _html_and_iso()

    def declares(self, name: str) -> bool:
        """Returns whether an entity is declared, whatever the message says.

        Raises:
            SourceError: The file of the DTD cannot be read.
        """
        return self.entities is not None or (self.dtd is not None and name in _read_dtd(self.dtd)[1])

    def expanded(self, utf8: bytes, bytes_max: int) -> tuple[bytes, int, int]:
        """Returns a message with its entities expanded, and where its DOCTYPE stood: see :func:`twigcast._core.expand`.

        Raises:
            MalformedMessage: The DOCTYPE is malformed, or an entity is external or not declared.
            MessageLimitExceeded: Entities expand without measure, or the answer has more than ``bytes_max`` bytes.
            SourceError: The file of the DTD cannot be read.
        """
        external, sets = self.declarations()
        return expand(
            utf8,
            {"message_bytes_max": bytes_max},
            external=external,
            sets=sets,
            uses_sets=self.entities == "html",
        )


@lru_cache(maxsize=1)
def _html_and_iso() -> Declarations:
    """Returns the entities of HTML and ISO. Where HTML 4 and its successor differ, documents of a DTD mean HTML 4."""
    from html.entities import html5, name2codepoint

    values = {name[:-1]: value for name, value in html5.items() if name.endswith(";")}
    values |= {name: chr(code) for name, code in name2codepoint.items()}
    # Replacement texts are parsed as content, so markup characters in them have to be references.
    texts = [(name, value.replace("&", "&#38;").replace("<", "&#60;")) for name, value in values.items()]
    return Declarations(texts, [], [])


def read_dtd(path: str) -> Declarations:
    """Returns what the DTD in a file declares. Parts of it that it names by paths are read, those elsewhere are not.

    Raises:
        SourceError: The file, or a part of it, cannot be read or is no DTD.
    """
    return _read_dtd(path)[0]


@lru_cache(maxsize=16)
def _read_dtd(path: str) -> tuple[Declarations, frozenset[str]]:
    """Returns what the DTD in a file declares, and the names of its entities."""
    # With expat, which no message is read with.
    from pathlib import Path

    from twigcast.reading.external_dtds import DtdReader

    reader = DtdReader(Path(path))
    reader.read()
    names = frozenset(name for name, _ in (*reader.texts, *reader.external))
    return Declarations(reader.texts, reader.external, reader.attributes), names
