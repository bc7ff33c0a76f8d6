"""Bodies from one form to another, and to what the engine takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from twigcast._core import ConjunctionIndex, LabelRequest, NameDictionary, ParsedMessage
from twigcast.errors import NeedsConversion
from twigcast.limits import Limits
from twigcast.overlay.onyx.wire.compression import compress, decompress
from twigcast.overlay.onyx.wire.dictionaries import Dictionaries
from twigcast.overlay.onyx.wire.forms import Compression, Structure, WireForm
from twigcast.reading.conversion import to_utf8


class DecodedBody(NamedTuple):
    """A body as the engine takes it.

    Attributes:
        body: The plain bytes.
        is_stream: They are an element stream.
        dictionary: The dictionary that it was written with.
    """

    body: bytes
    is_stream: bool
    dictionary: NameDictionary | None = None

    def route(self, table: ConjunctionIndex, requested: LabelRequest | Sequence[tuple[int, int]]) -> int:
        """The targets of the message, see :meth:`twigcast._core.ConjunctionIndex.route`."""
        if self.is_stream:
            return table.route_stream(self.body, self.dictionary, requested)
        return table.route(self.body, requested)


class BodyCodec:
    """Reads and writes bodies.

    Args:
        dictionaries: Those that this broker knows; may grow later.
        limits: Of messages: a body that unpacks to more is refused.
    """

    def __init__(self, dictionaries: Dictionaries | None = None, limits: Limits | None = None) -> None:
        self.dictionaries = dictionaries if dictionaries is not None else Dictionaries()
        self._limits = limits or Limits()
        self._limits_by_name = self._limits.as_dict()

    def write(self, text: bytes, form: WireForm, dictionary: NameDictionary | None = None) -> bytes:
        """A message, given as text in any encoding, in another form.

        Args:
            text: The message.
            form: What to write.
            dictionary: That of the message's source; without one, a dictionary stream is written as a stream.

        Raises:
            RejectedMessage: The text is no message or over a limit; text as such is not looked at.
        """
        if form.structure is Structure.TEXT:
            return compress(text, form.compression)
        stream = self.parse(text).stream(dictionary if form.structure is Structure.DICTIONARY else None)
        return compress(stream, form.compression)

    def parse(self, text: bytes) -> ParsedMessage:
        """A message, given as text in any encoding, parsed; to be written in several forms.

        Raises:
            RejectedMessage: The text is no message or over a limit.
        """
        try:
            return ParsedMessage.from_text(text, self._limits_by_name)
        except NeedsConversion:
            return ParsedMessage.from_text(to_utf8(text, self._limits.message_bytes_max), self._limits_by_name)

    def open(self, body: bytes, form: WireForm) -> DecodedBody:
        """A body as the engine takes it, which is not more than unpacking it.

        Raises:
            WireError: It does not unpack.
            UnknownDictionary: Its dictionary is not known here.
        """
        plain = decompress(body, form.compression, self._limits.message_bytes_max)
        if form.structure is Structure.TEXT:
            return DecodedBody(plain, is_stream=False)
        return DecodedBody(plain, is_stream=True, dictionary=self.dictionaries.of(plain))

    def read(self, body: bytes, form: WireForm) -> bytes:
        """The text of a message: byte for byte where it travelled as text, else what the stream says.

        Raises:
            WireError: It does not unpack.
            UnknownDictionary: Its dictionary is not known here.
            RejectedMessage: The stream is damaged, or what it says is no message or over a limit.
        """
        opened = self.open(body, form)
        if not opened.is_stream:
            return opened.body
        return ParsedMessage.from_stream(opened.body, opened.dictionary, self._limits_by_name).text()

    def repack(self, body: bytes, form: WireForm, compression: Compression) -> bytes:
        """The same structure, compressed in another way.

        Raises:
            WireError: It does not unpack.
        """
        if form.compression is compression:
            return body
        return compress(decompress(body, form.compression, self._limits.message_bytes_max), compression)
