"""Measuring the forms of messages between brokers: bytes on the wire, and the work at both ends (Diao 2005, 7.4.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from twigcast._core import NameDictionary, ParsedMessage
from twigcast.lab.experiments.framework.model import Measured, Point, Scale
from twigcast.lab.experiments.framework.timing import repeat
from twigcast.lab.experiments.framework.workloads import DOCUMENTS, SEED, preset_of, schema_of
from twigcast.overlay.onyx.wire.forms import Compression, compress, decompress
from twigcast.schema.model import Schema

SIZE = "wire_bytes"
"""Mean bytes of a message on the wire."""
DELAY = "delay_ms"
"""Work of sender and receiver for one message, in ms: write and compress, decompress and read."""

TEXT = "text"
STREAM = "element stream"
DICTIONARY = "dictionary"
ONCE = "element stream, names once"

ZLIB = " + zlib"
ZSTD = " + zstd"
PUBLISHED = tuple(form + packed for packed in ("", ZLIB) for form in (TEXT, STREAM, DICTIONARY))
"""The six forms of the publication."""

_PACKED = {"": Compression.NONE, ZLIB: Compression.ZLIB, ZSTD: Compression.ZSTD}


class Complexity(NamedTuple):
    """The complexity of a message: the generator's levels and its most repetitions of an element."""

    levels: int
    repeats: int

    def __str__(self) -> str:
        return f"({self.levels}, {self.repeats})"


COMPLEXITIES = tuple(
    Complexity(levels, repeats) for levels, repeats in ((4, 2), (6, 2), (6, 3), (8, 3), (10, 3), (10, 4))
)


def points(scale: Scale) -> list[Point]:
    """Returns a point for each complexity of a message."""
    common = {"dtd": "news", "documents": 5 * DOCUMENTS[scale]}
    return [Point(str(c), {**common, "message_levels": c.levels, "repeats": c.repeats}) for c in COMPLEXITIES]


class _Form(NamedTuple):
    """How to write a message that is in memory, and how to get it back there."""

    write: Callable[[ParsedMessage], bytes]
    read: Callable[[bytes], ParsedMessage]


def _forms(dictionary: NameDictionary) -> dict[str, _Form]:
    return {
        TEXT: _Form(ParsedMessage.text, ParsedMessage.from_text),
        STREAM: _Form(lambda message: message.stream(in_full=True), ParsedMessage.from_stream),
        DICTIONARY: _Form(
            lambda message: message.stream(dictionary), lambda body: ParsedMessage.from_stream(body, dictionary)
        ),
        ONCE: _Form(ParsedMessage.stream, ParsedMessage.from_stream),
    }


def _names_of(schema: Schema) -> tuple[str, ...]:
    """Returns the names of a schema's elements and attributes, and ``xmlns``, in alphabetical order."""
    names = {"xmlns"}
    for element in schema.elements.values():
        names.add(element.name)
        names.update(attribute.name for attribute in element.attributes)
    return tuple(sorted(names))


def measure(point: Point) -> list[Measured]:
    """Measures sizes and delays of all forms, at one complexity."""
    parameters = point.parameters
    schema = schema_of(parameters["dtd"])
    preset = replace(preset_of(parameters), max_repeats=parameters["repeats"])
    messages = [ParsedMessage.from_text(text) for text in preset.make(schema, parameters["documents"], SEED)]
    forms = _forms(NameDictionary(list(_names_of(schema))))
    measured = []
    for (name, form), (suffix, packed) in product(forms.items(), _PACKED.items()):
        series, x = name + suffix, point.x
        bodies = [compress(form.write(message), packed) for message in messages]
        size = sum(map(len, bodies)) / len(bodies)
        delay = repeat(_work(messages, bodies, form, packed), per=len(messages))
        measured.append(Measured(series, x, SIZE, (size,)))
        measured.append(Measured(series, x, DELAY, delay))
    return measured


def _work(
    messages: Sequence[ParsedMessage], bodies: Sequence[bytes], form: _Form, packed: Compression
) -> Callable[[], None]:
    largest = max(map(len, (message.text() for message in messages))) * 2

    def work() -> None:
        for message, body in zip(messages, bodies, strict=True):
            compress(form.write(message), packed)
            form.read(decompress(body, packed, largest))

    return work
