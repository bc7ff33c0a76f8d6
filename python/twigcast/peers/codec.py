"""The form of the messages of the peer protocols as bytes: each class by the types of its fields.

A message is a tuple with names and types, and so is all that it carries. So its form follows from its class: the fields
one after the other, in the order of the class. A field that may hold several classes begins with the kind of the one
it holds. Kinds are numbers that never change (`kinds`). New fields and kinds need a new major version of the protocol.

Reading is bounded as for other frames: counts are compared with the number of bytes that are left before anything is
allocated, and the depth of nested values is limited.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx.network.fields import FLAG, REAL, Field, FrameReader, put_bytes, put_number, put_text

VALUES_MAX: Final = 1 << 22  #: Values of one sequence.
BYTES_MAX: Final = 64 << 20  #: Bytes of one value.
DEPTH_MAX: Final = 100  #: How deep values may be nested.
INTEGER_BITS_MAX: Final = 256  #: Size of an integer.


class ValueReader(FrameReader):
    """A reader of fields that knows how deep it is in nested values."""

    __slots__ = ("depth",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data, 0, len(data))
        self.depth = 0

    def nested(self, read: Callable[[], Any]) -> Any:
        """Reads a value inside of another one."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise FrameError(f"values are nested more than {DEPTH_MAX} deep")
        value = read()
        self.depth -= 1
        return value


def _put_integer(out: bytearray, value: int) -> None:
    folded = value << 1 if value >= 0 else ((-value) << 1) - 1
    put_bytes(out, folded.to_bytes((folded.bit_length() + 7) // 8))


def _read_integer(reader: FrameReader) -> int:
    folded = int.from_bytes(reader.bytes(INTEGER_BITS_MAX // 8))
    return -((folded + 1) >> 1) if folded & 1 else folded >> 1


_SIMPLE: Final[dict[Any, Field]] = {
    bool: FLAG,
    int: Field(_put_integer, _read_integer),
    float: REAL,
    str: Field(put_text, lambda reader: reader.text(BYTES_MAX)),
    bytes: Field(put_bytes, lambda reader: reader.bytes(BYTES_MAX)),
}


class MessageCodec:
    """The forms of the messages of a protocol.

    Args:
        kinds: By kind, the classes that a field of no certain class may hold, such as all messages.
        special: By class, forms that do not follow from the fields.
    """

    def __init__(self, kinds: Mapping[int, type], special: Mapping[type, Field] | None = None) -> None:
        self._kinds = dict(kinds)
        self._numbers = {kind: number for number, kind in kinds.items()}
        self._forms: dict[Any, Field] = {**_SIMPLE, **(special or {})}
        self._any = Field(self._put_any, self._read_any)
        for kind in kinds.values():
            self._form_of(kind)

    def forms(self, *hints: Any) -> list[Field]:
        """Returns the forms of fields of some types."""
        return [self._form_of(hint) for hint in hints]

    def encode(self, message: Any) -> bytes:
        """Returns a message as bytes.

        Raises:
            TypeError: Its class has no kind, or a value in it is not of the class of its field.
        """
        out = bytearray()
        self._put_any(out, message)
        return bytes(out)

    def decode(self, data: bytes) -> Any:
        """Returns the message in some bytes.

        Raises:
            FrameError: They hold none, or more.
        """
        reader = ValueReader(data)
        message = self._read_any(reader)
        reader.finish()
        return message

    def _put_any(self, out: bytearray, value: Any) -> None:
        number = self._numbers.get(type(value))
        if number is None:
            raise TypeError(f"{type(value).__name__} is no class of messages of this protocol")
        put_number(out, number)
        self._forms[type(value)].put(out, value)

    def _read_any(self, reader: FrameReader) -> Any:
        number = reader.number()
        kind = self._kinds.get(number)
        if kind is None:
            raise FrameError(f"kind {number} is unknown")
        return self._forms[kind].read(reader)

    def _form_of(self, hint: Any) -> Field:
        existing = self._forms.get(hint)
        if existing is None:
            existing = self._forms[hint] = self._new_form(hint)
        return existing

    def _new_form(self, hint: Any) -> Field:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any or hint is Hashable:
            return self._any
        if origin in (Union, UnionType):
            return self._choice(arguments)
        if origin is tuple and arguments[1:] == (...,):
            return self._sequence(arguments[0], tuple)
        if origin is tuple:
            return self._fixed([self._form_of(argument) for argument in arguments], tuple)
        if origin is frozenset:
            return self._sequence(arguments[0], frozenset)
        if isinstance(hint, type) and (hasattr(hint, "_fields") or is_dataclass(hint)):
            return self._record(hint)
        raise TypeError(f"{hint} has no form on a wire")

    def _choice(self, options: tuple[Any, ...]) -> Field:
        forms = [(option, _NOTHING if option is NoneType else self._form_of(option)) for option in options]

        def put(out: bytearray, value: Any) -> None:
            for number, (kind, form) in enumerate(forms):
                if isinstance(value, kind):
                    put_number(out, number)
                    form.put(out, value)
                    return
            # Where a real number may be, so may an integer.
            number = next(number for number, (kind, _) in enumerate(forms) if kind is float)
            put_number(out, number)
            forms[number][1].put(out, value)

        return Field(put, lambda reader: reader.choice(forms)[1].read(reader))

    def _sequence(self, item: Any, make: type) -> Field:
        form = self._form_of(item)

        def put(out: bytearray, values: Any) -> None:
            put_number(out, len(values))
            written = []
            for value in values:
                one = bytearray()
                form.put(one, value)
                written.append(bytes(one))
            # Sets in an order that does not depend on the process.
            out += b"".join(sorted(written) if make is frozenset else written)

        def read(reader: FrameReader) -> Any:
            return make(reader.several(lambda: form.read(reader), VALUES_MAX))

        return Field(put, read)

    def _fixed(self, forms: list[Field], make: Callable[[list[Any]], Any]) -> Field:
        def put(out: bytearray, values: Any) -> None:
            for form, value in zip(forms, values, strict=True):
                form.put(out, value)

        def read(reader: FrameReader) -> Any:
            assert isinstance(reader, ValueReader)
            return reader.nested(lambda: make([form.read(reader) for form in forms]))

        return Field(put, read)

    def _record(self, kind: Any) -> Field:
        # Found by its own fields, where a class nests itself.
        parts: list[Field] = []
        make: Callable[..., Any] = kind
        if is_dataclass(kind):
            names = [field.name for field in fields(kind)]
            whole = self._fixed(parts, lambda values: make(*values))
            form = whole._replace(put=lambda out, value: whole.put(out, [getattr(value, name) for name in names]))
        else:
            names = list(kind._fields)
            form = self._fixed(parts, partial(tuple.__new__, kind))
        self._forms[kind] = form
        hints = get_type_hints(kind)
        parts.extend(self._form_of(hints[name]) for name in names)
        return form


_NOTHING: Final = Field(lambda out, value: None, lambda reader: None)
