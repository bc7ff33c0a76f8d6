"""Messages as the options of reading want them: repaired, and with the entities that they do not declare themselves."""

from __future__ import annotations

from twigcast.reading.conversion import both_forms, expands, to_document
from twigcast.reading.options import ReadOptions
from twigcast.reading.repair_counts import RepairCounts


def prepared(data: bytes, options: ReadOptions, bytes_max: int, repairs: RepairCounts) -> bytes:
    """Returns a message as it is to be matched. Lines and columns stay, up to what changes.

    Args:
        data: The message, as it came.
        options: Whether to repair it, and what is known of document types.
        bytes_max: Bytes that the answer may have.
        repairs: Counts the repairs.

    Raises:
        RejectedMessage: The message cannot be converted: see :func:`~twigcast.reading.conversion.to_utf8`.
        SourceError: The file of the DTD cannot be read.
    """
    return prepared_forms(data, options, bytes_max, repairs)[0]


def prepared_forms(
    data: bytes, options: ReadOptions, bytes_max: int, repairs: RepairCounts
) -> tuple[bytes, bytes | None]:
    """Returns a message as :func:`prepared` does, and as it is delivered, if more was done than to repair it.

    Raises:
        RejectedMessage: As for :func:`prepared`.
        SourceError: As for :func:`prepared`.
    """
    if options.tolerant:
        from twigcast.reading.repairs import repaired  # its patterns are compiled where somebody asks for repairs

        data = repaired(data, repairs, options.types.declares)
    return both_forms(data, bytes_max, options.types) if expands(data, options.types) else (data, None)


def delivered(data: bytes, options: ReadOptions, bytes_max: int) -> bytes:
    """Returns a message as it is delivered: as it came, but repaired, and without DOCTYPE if it has one.

    Raises:
        RejectedMessage: As for :func:`prepared`.
        SourceError: As for :func:`prepared`.
    """
    if options.tolerant:
        from twigcast.reading.repairs import repaired  # as in `prepared`

        data = repaired(data, RepairCounts(), options.types.declares)
    return to_document(data, bytes_max, options.types) if expands(data, options.types) else data
