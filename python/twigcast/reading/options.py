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
    """The options by which files are read into messages.

    Raises:
        ReadOptionError: An option has no meaning, or none beside the others.
    """

    record: str | None = None
    """The elements at which each document is cut into messages: ``name`` (with any prefix), ``prefix:name`` as the
    document writes it, ``{namespace}name``, a path of these (``/feed/entry``, ``a/p``, ``/feed/*``), or several of all
    that with ``|`` between. Of nested elements, the outermost one is the record. ``None``: each document is one
    message."""

    documents: bool = False
    """Whether each file holds several documents, one after the other, each in the encoding that it declares. A broken
    document does not prevent documents that begin on a later line from being read."""

    inherit: tuple[str, ...] = ()
    """Names (or a single one) of attributes and elements outside of a record that it inherits: ``name``,
    ``prefix:name`` as the document writes it, ``{namespace}name``; with ``@`` before it attributes alone. An attribute
    is taken from the innermost element around the record that has it. An element becomes the first child of the record
    if it is an earlier sibling of the record, or of an element around it; an element around the record stays around it,
    without its other content. Several elements of one name are inherited together if they follow each other; later ones
    replace those that earlier records inherited. Attributes and elements that a record has already stay as they are."""

    record_id: str | None = None
    """The path to the id of a record: child elements such as ``guid``, ``header/id`` or ``{namespace}guid``;
    ``@name`` for an attribute."""

    include: str | None = None
    """A pattern such as ``*.xml`` that names of files in folders and archives must match."""

    entities: EntitySet | None = None
    """``html``: the entities of HTML and ISO are declared in every message."""

    dtd: str | None = None
    """The file of a DTD for every message. Workers of a pipeline read it at this path."""

    tolerant: bool = False
    """Whether to repair frequent faults: see :mod:`twigcast.reading.repairs`."""

    def __post_init__(self) -> None:
        # Options that are wrong are refused before any file is opened.
        object.__setattr__(self, "inherit", _names(self.inherit))
        DocumentTypes(entities=self.entities)
        if self.cuts:
            self._cutter(Limits().message_bytes_max, _NO_TYPES)
            return
        for name, value in (("record_id", self.record_id), ("inherit", self.inherit)):
            if value:
                raise ReadOptionError(name, "there are no records: the option `record` says which elements are")

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
        """``True`` if reading may change messages."""
        return self.tolerant or self.types != _NO_TYPES

    @property
    def has_places(self) -> bool:
        """``True`` if it counts where messages were found, or what was repaired in them."""
        return self.cuts or self.tolerant

    def cutter(self, bytes_max: int) -> RecordCutter:
        """Returns a cutter for one stream. Without ``record`` each document is a record.

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
