"""The options by which messages are read: the same ones for the library, the command line and the pipeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from twigcast._core import RecordCutter
from twigcast.errors import ReadOptionError
from twigcast.limits import Limits
from twigcast.reading.document_types import DocumentTypes, EntitySet

_NO_TYPES: Final = DocumentTypes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The way in which messages are made of what is in files.

    Raises:
        ReadOptionError: An option has no meaning, or none beside the others.
    """

    record: str | None = None
    """The elements at which each document is cut into messages: ``name`` (with any prefix), ``prefix:name`` as the
    document writes it, ``{namespace}name``, a path of these (``/feed/entry``, ``a/p``, ``/feed/*``), or several of all
    that with ``|`` between. Of nested elements, the outermost one is the record. ``None``: each document is one
    message."""

    documents: bool = False
    """Whether several documents follow each other in each file, each in the encoding that it declares itself. A broken
    one does not keep those from being read that begin on a later line."""

    inherit: tuple[str, ...] = ()
    """Names (or a single one) of attributes and elements that go from around a record into it: ``name``,
    ``prefix:name`` as the document writes it, ``{namespace}name``; with ``@`` before it attributes alone. An attribute
    is taken from the innermost element that has it, an element before the record and beside it, or beside an element
    around it, becomes its first child, and an element around the record stays around it without its other content.
    Several elements of one name go into it if they stand together; those behind a record replace those before it. What
    a record has itself, it keeps."""

    record_id: str | None = None
    """Where a record has its id: a path of child elements such as ``guid``, ``header/id`` or ``{namespace}guid``;
    ``@name`` for an attribute."""

    include: str | None = None
    """A pattern such as ``*.xml`` that names of files in folders and archives must match."""

    entities: EntitySet | None = None
    """``html``: the entities of HTML and ISO are declared in every message."""

    dtd: str | None = None
    """The file of a DTD for every message. Workers of a pipeline read it at this path."""

    tolerant: bool = False
    """Whether to repair what is seen often: see :mod:`twigcast.reading.repairs`."""

    def __post_init__(self) -> None:
        # What cannot be read is told before any file is opened.
        object.__setattr__(self, "inherit", _names(self.inherit))
        DocumentTypes(entities=self.entities)
        if self.cuts:
            self._cutter(Limits().message_bytes_max, _NO_TYPES)
            return
        for name, value in (("record_id", self.record_id), ("inherit", self.inherit)):
            if value:
                raise ReadOptionError(name, "there are no records: say with record which elements are")

    @property
    def cuts(self) -> bool:
        """``True`` if documents are cut into messages."""
        return self.record is not None or self.documents

    @property
    def types(self) -> DocumentTypes:
        """The document types that are known beside what messages declare.

        Raises:
            ReadOptionError: There are no such entities.
        """
        return DocumentTypes(entities=self.entities, dtd=self.dtd)

    @property
    def changes_messages(self) -> bool:
        """``True`` if messages may come otherwise than they were written."""
        return self.tolerant or self.types != _NO_TYPES

    @property
    def has_places(self) -> bool:
        """``True`` if it counts where messages were found, or what was repaired in them."""
        return self.cuts or self.tolerant

    def cutter(self, bytes_max: int) -> RecordCutter:
        """Returns what cuts one stream. Without ``record`` each document is a record.

        Raises:
            SourceError: The file of the DTD cannot be read.
        """
        return self._cutter(bytes_max, self.types)

    def _cutter(self, bytes_max: int, types: DocumentTypes) -> RecordCutter:
        external, sets = types.declarations()
        try:
            return RecordCutter(
                self.record,
                {"message_bytes_max": bytes_max},
                documents=self.documents,
                inherit=self.inherit,
                record_id=self.record_id,
                external=external,
                sets=sets,
                uses_sets=types.entities == "html",
            )
        except ValueError as error:
            option, reason = error.args
            raise ReadOptionError(option, reason) from None


def _names(inherit: object) -> tuple[str, ...]:
    """Returns the names in an option that may be a single one.

    Raises:
        ReadOptionError: It is none.
    """
    names = (inherit,) if isinstance(inherit, str) else tuple(inherit) if isinstance(inherit, Iterable) else (None,)
    if all(isinstance(name, str) for name in names):
        return names
    raise ReadOptionError("inherit", f"it must be names of attributes and elements, not {inherit!r}")
