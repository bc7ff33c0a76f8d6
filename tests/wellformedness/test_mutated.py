"""Real and small messages with bytes deleted, inserted, exchanged and copied: the same answer and events as expat's."""

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.seeds import seed_or

SEED = seed_or(20_260_101)
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
MUTANTS = 40_000 if THOROUGH else 4_000
REAL_FILE_BYTES_MAX = 1 << 30 if THOROUGH else 40_000

SAMPLES = [
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE a PUBLIC "p" "s">\n<!-- c --><?p i?><a xmlns:n="u" xmlns="v" '
    b'b="&lt;\xc3\xa9">t&#x41;\xe2\x82\xac<n:b n:c="" c=""/><![CDATA[x]]]]><!-- c --><?p?>\r\n<b\t></b\n>]]</a>',
    b"<a xml:lang=\"x\" b='1'>x<b/>&amp;&#65;</a>",
    b'<r xmlns:p="u" xmlns:q="u2"><p:a p:b="" q:b=""/><q:a xmlns:q="u"/></r>',
    b'<!DOCTYPE a [<!ENTITY e "<b>1</b>"><!ATTLIST a d CDATA "2">]><a>&e;<b c="&e2;"/></a>',
    b'<!DOCTYPE a SYSTEM "x"><a>&e;</a>',
    '<?xml version="1.0" encoding="ISO-8859-1"?><a b="é">ü</a>'.encode("latin-1"),
    '\ufeff<?xml version="1.0" encoding="UTF-16"?><a b="é">日本</a>'.encode("utf-16le"),
    "<\u0221a/>".encode("utf-16le"),
]
PIECES = [
    *[b"<", b">", b"/", b'"', b"'", b"&", b";", b"#", b":", b"=", b" ", b"\n", b"\r", b"\t", b"!", b"?", b"-", b"--"],
    *[b"]]>", b"]", b"[", b"xml", b"xmlns", b'xmlns:p="u"', b"<![CDATA[", b"<!--", b"-->", b"?>", b"<?", b"&lt;"],
    *[b"&#0;", b"&#65;", b"&#x41;", b"\x00", b"\x01", b"\xff", b"\xc3", b"\xc3\xa9", b"\xef\xbf\xbe", b"\xef\xbb\xbf"],
    *[
        b"a",
        b"1",
        b".",
        b"\x7f",
        b"\xc2\x85",
        b"</a>",
        b"<a>",
        b"<a/>",
        b"standalone='yes'",
        b"DOCTYPE",
        b"\xed\xa0\x80",
    ],
]


def mutated(message: bytes, randomness: random.Random) -> bytes:
    result = bytearray(message)
    for _ in range(randomness.choice([1, 1, 1, 2, 3])):
        at = randomness.randrange(len(result) + 1)
        match randomness.randrange(5):
            case 0:
                del result[at : at + randomness.choice([1, 1, 2, 5])]
            case 1:
                result[at:at] = randomness.choice(PIECES)
            case 2:
                result[at : at + 1] = bytes([randomness.randrange(256)])
            case 3:
                result[at : at + randomness.choice([1, 2, 3])] = randomness.choice(PIECES)
            case _:
                start = randomness.randrange(len(result) + 1)
                result[at:at] = result[start : start + randomness.randrange(1, 12)]
    return bytes(result)


def test_mutated_samples_read_as_with_expat(same_reading: Callable[..., Any]) -> None:
    for number in range(MUTANTS):
        randomness = random.Random(SEED + number)
        same_reading(
            mutated(randomness.choice(SAMPLES), randomness), f"TWIGCAST_TEST_SEED={SEED + number}, first mutant:"
        )


def test_every_prefix_of_the_samples_reads_as_with_expat(same_reading: Callable[..., Any]) -> None:
    for sample in SAMPLES:
        for end in range(len(sample)):
            same_reading(sample[:end])


def real_files(shared_data: Path) -> Iterator[Path]:
    for folder in ("real", "real_more", "malformed"):
        for path in sorted((shared_data / folder).rglob("*.xml")):
            if path.stat().st_size <= REAL_FILE_BYTES_MAX:
                yield path


def test_real_files_read_as_with_expat(shared_data: Path, same_reading: Callable[..., Any]) -> None:
    accepted = 0
    for path in real_files(shared_data):
        reading = same_reading(path.read_bytes(), str(path))
        accepted += reading.accepted
        assert reading.accepted or path.parent.name == "malformed", f"{path}: {reading.reason}"
    assert accepted > 0


def test_mutated_real_files_read_as_with_expat(shared_data: Path, same_reading: Callable[..., Any]) -> None:
    messages = [data for path in real_files(shared_data) if len(data := path.read_bytes()) < 4_000]
    for number in range(MUTANTS // 2):
        randomness = random.Random(SEED + number)
        message = mutated(randomness.choice(messages), randomness)
        same_reading(message, f"first mutant of TWIGCAST_TEST_SEED={SEED + number}:")


def test_what_must_be_refused_is_refused(shared_data: Path, twigcast_reading: Callable[[bytes], Any]) -> None:
    folder = shared_data / "malformed"
    rows = [json.loads(line) for line in (folder / "reasons.jsonl").read_text().splitlines()]
    for row in rows:
        reading = twigcast_reading((folder / row["file"]).read_bytes())
        # What refers to external entities is refused too, although a parser need not read them.
        is_external = "is external (SYSTEM" in (reading.reason or "")
        assert is_external or reading.accepted != row["must_refuse"], row["file"]
        if row["must_refuse"]:
            assert reading.line is not None
            assert reading.column is not None
            assert reading.reason


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples_are_accepted(sample: bytes, twigcast_reading: Callable[[bytes], Any]) -> None:
    reading = twigcast_reading(sample)
    assert reading.accepted == (b"&e2;" not in sample and b'SYSTEM "x"><a>&e;' not in sample), reading.reason


@pytest.mark.parametrize("name", ["UTF-7", "unicode_escape", "raw-unicode-escape", "punycode"])
@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE a [<!ENTITY e "1">]>'])
def test_codecs_that_are_no_character_sets_are_refused_on_purpose(
    name: str, doctype: str, same_reading: Callable[..., Any]
) -> None:
    reading = same_reading(f'<?xml version="1.0" encoding="{name}"?>{doctype}<a>1</a>'.encode())
    assert not reading.accepted
    assert "documents cannot be in" in reading.reason


@pytest.mark.parametrize("name", ["p:0", ":a", "a:", "a:b:c"])
def test_names_of_document_types_are_qualified_names(name: str, same_reading: Callable[..., Any]) -> None:
    reading = same_reading(f"<!DOCTYPE {name} []><a/>".encode())
    assert not reading.accepted
    assert "name of the document type" in reading.reason


@pytest.mark.parametrize("target", ["xmlev rsion", "xml-stylesheet version", "xmlx"])
def test_a_processing_instruction_declares_no_encoding(target: str, same_reading: Callable[..., Any]) -> None:
    reading = same_reading(f'<?{target}="1.0" encoding="UTF-4"?><a/>'.encode())
    assert reading.accepted == (" " in target)
