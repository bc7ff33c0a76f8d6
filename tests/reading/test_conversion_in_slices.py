"""Large messages are converted in slices: the answer is that of one call, wherever the slices end."""

from __future__ import annotations

import random
import re

import pytest

from tests.seeds import printed_seed
from twigcast.errors import MalformedMessage
from twigcast.reading import conversion
from twigcast.reading.conversion import all_forms, recoded

CODECS = ("utf-8", "utf-16-le", "utf-16-be", "latin-1", "shift_jis", "gb18030", "euc_kr", "iso2022_jp", "cp1252")
CHARACTERS = "aé\n\r<>&;ßж漢字가\U0001f300 "


def texts(source: random.Random, codec: str) -> bytes:
    """Text in an encoding, perhaps with some bytes that are wrong."""
    text = "".join(source.choices(CHARACTERS, k=source.randrange(200)))
    data = bytearray(text.encode(codec, "ignore"))
    for _ in range(source.randrange(3)):
        data[source.randrange(len(data) + 1) :][:0] = bytes([source.randrange(256)])
        if data and source.random() < 0.5:
            data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


def outcome(data: bytes, codec: str) -> tuple[bytes, int | None, int | None] | bytes:
    """What is made of bytes, and for those that mean nothing where they are."""
    try:
        return conversion._in_utf8(data, codec)
    except MalformedMessage as error:
        return b"", error.line, error.column


@pytest.mark.parametrize("codec", CODECS)
def test_the_ends_of_slices_change_nothing(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(printed_seed())
    for _ in range(60):
        data = texts(source, codec)
        monkeypatch.setattr(conversion, "_SLICE", 1 << 20)
        expected = outcome(data, codec)
        if isinstance(expected, bytes):
            assert expected == data.decode(codec).encode()
        monkeypatch.setattr(conversion, "_SLICE", source.randrange(1, 30))
        found = outcome(data, codec)
        if codec == "iso2022_jp" and isinstance(found, tuple):
            # Bytes that begin no sequence and end with a slice have no place in this codec.
            assert isinstance(expected, tuple)
        else:
            assert found == expected, (codec, data)


def test_a_doctype_is_found_wherever_the_slices_end(monkeypatch: pytest.MonkeyPatch) -> None:
    message = b"<!-- a long comment --><!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"
    for size in range(1, 40):
        monkeypatch.setattr(conversion, "_SLICE", size)
        assert all_forms(message)[1] == b"<!-- a long comment --><a>x</a>"
        assert all_forms(message.replace(b"DOCTYPE", b"DOCTYP"))[2] is None


def test_the_place_of_a_wrong_byte_counts_lines_and_characters() -> None:
    lines = "é\r\nß\rж\n漢字".encode() + b"\xff"
    with pytest.raises(MalformedMessage) as error:
        conversion._in_utf8(lines, "utf-8")
    assert (error.value.line, error.value.column) == (4, 3)


@pytest.mark.parametrize("codec", ["utf-16", "latin-1", "utf-8"])
def test_a_declared_encoding_gives_way_to_spaces(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"<?xml version='1.0' encoding='{codec}'?><a>é</a>"
    monkeypatch.setattr(conversion, "_SLICE", 7)
    assert recoded(text.encode(codec)).decode() == re.sub(" encoding='.*?'", lambda m: " " * len(m[0]), text) or (
        codec == "utf-8"
    )
