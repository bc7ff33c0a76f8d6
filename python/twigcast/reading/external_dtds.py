"""Reading of DTDs from files that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from xml.parsers import expat

from twigcast.errors import SourceError

_FILES_MAX: Final = 1_000
"""Files that one DTD may consist of."""


class DtdReader:
    """Expat, reading a DTD and its parts, with lists of what they declare."""

    def __init__(self, path: Path) -> None:
        self.texts: list[tuple[str, str]] = []
        self.external: list[tuple[str, str]] = []
        self.attributes: list[tuple[str, str, str, str | None]] = []
        self._path = path
        self._files = 0
        self._open: list[tuple[expat.XMLParserType, Path]] = []

    def read(self) -> None:
        """Reads the DTD.

        Raises:
            SourceError: The file, or a part of it, cannot be read or is no DTD.
        """
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
