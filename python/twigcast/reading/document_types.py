"""Declarations that do not stand in a message: external DTDs that the user names, and the entities of HTML and ISO.

Nothing here follows what a message says: a DTD is read because the user named its file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html.entities import html5, name2codepoint
from pathlib import Path
from typing import Final, Literal
from xml.parsers import expat

from twigcast._core import Declarations, expand
from twigcast.errors import ReadOptionError, SourceError

EntitySet = Literal["html"]
"""Entities that can be asked for by name: those of HTML, which include the sets of ISO."""

_FILES_MAX: Final = 1_000
"""Files that one DTD may consist of."""


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
    values = {name[:-1]: value for name, value in html5.items() if name.endswith(";")}
    values |= {name: chr(code) for name, code in name2codepoint.items()}
    # Replacement texts are read as content: what is markup there has to be a reference.
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
    reader = _DtdReader(Path(path))
    reader.read()
    names = frozenset(name for name, _ in (*reader.texts, *reader.external))
    return Declarations(reader.texts, reader.external, reader.attributes), names


class _DtdReader:
    """Expat, reading a DTD and its parts, with lists of what they declare."""

    def __init__(self, path: Path) -> None:
        self.texts: list[tuple[str, str]] = []
        self.external: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str, str | None]] = []
        self._path = path
        self._files = 0
        self._open: list[tuple[expat.XMLParserType, Path]] = []

    def read(self) -> None:
        parser = expat.ParserCreate()
        parser.UseForeignDTD(True)
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.EntityDeclHandler = self._on_entity
        parser.AttlistDeclHandler = self._on_attribute
        parser.ExternalEntityRefHandler = self._on_part
        self._open.append((parser, self._path))
        parser.Parse(b"<x/>", True)

    def _on_part(self, context: str, _base: str | None, system: str | None, public: str | None) -> int:
        outer, here = self._open[-1]
        path = self._path if system is None else here.parent / system
        if system is not None and ":" in system.partition("/")[0]:
            reason = (
                f"it is made of other files too, of which {public or system!r} is not a path, and nothing is fetched"
            )
            raise SourceError(str(self._path), f"{reason}: store that part beside it, and name it there by its path")
        self._files += 1
        if self._files > _FILES_MAX:
            raise SourceError(str(self._path), f"it is made of more than {_FILES_MAX:,} files")
        parser = outer.ExternalEntityParserCreate(context)
        self._open.append((parser, path))
        try:
            parser.Parse(path.read_bytes(), True)
        except OSError as error:
            raise SourceError(str(path), f"it cannot be read: {error.strerror}") from None
        except expat.ExpatError as error:
            reason = f"it is not a DTD: line {error.lineno}, column {error.offset + 1}: {expat.ErrorString(error.code)}"
            raise SourceError(str(path), reason) from None
        finally:
            self._open.pop()
        return 1

    def _on_entity(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        _base: str | None,
        system: str | None,
        _public: str | None,
        notation: str | None,
    ) -> None:
        if is_parameter:
            return
        if value is not None:
            self.texts.append((name, value))
        elif notation is None:
            self.external.append((name, system or ""))

    def _on_attribute(self, element: str, name: str, kind: str, default: str | None, _required: bool) -> None:
        self.attributes.append((element, name, kind, default))
