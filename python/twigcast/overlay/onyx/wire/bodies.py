"""Bodies of messages that pass a broker: conversion between forms, to the input of the engine, and to text."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from typing import Final, NamedTuple

from twigcast._core import NameDictionary, ParsedMessage
from twigcast.errors import MalformedMessage, MessageLimitExceeded, NeedsConversion, RejectedMessage
from twigcast.limits import Limits
from twigcast.overlay.errors import WireError
from twigcast.overlay.onyx.lexicon import Lexicon
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.wire.forms import FORMS, Compression, Structure, WireForm, compress, decompress
from twigcast.overlay.onyx.wire.lexicons import Lexicons
from twigcast.reading.conversion import to_utf8

logger = logging.getLogger(__name__)

TEXT: Final = str(WireForm(Structure.TEXT))
#: Forms without compression, and whether they are streams.
_PLAIN: Final = {
    str(form): form.structure is not Structure.TEXT for form in FORMS.values() if form.compression is Compression.NONE
}
_DOCTYPE: Final = b"<!DOCTYPE"
_new = tuple.__new__
_FORM: Final = OverlayMessage._fields.index("form")
#: How many times longer than a text its stream may be, and the text of that stream: `&` of a CDATA section becomes
#: `&amp;`, and a header comes first.
_GROWTH_MAX: Final = 16
_REMEMBERED_MAX: Final = 8  #: Conversions that are cached, since a message goes to all neighbours one after the other.


class DecodedBody(NamedTuple):
    """A body as the engine takes it."""

    body: bytes  #: The bytes, not compressed.
    is_stream: bool  #: Whether they are an element stream.
    dictionary: NameDictionary | None = None  #: The dictionary with which the stream was written.


def in_other_form(message: OverlayMessage, form: str, lexicon: Lexicon | None) -> OverlayMessage:
    """Returns a message with another name of its form. `_replace` would take three times as long for each message."""
    return OverlayMessage._make((*message[:_FORM], form, *message[_FORM + 1 : -1], lexicon))


class Bodies:
    """A converter of message bodies. Conversions belong to one thread; `opened` and `text` may be called in any.

    Args:
        limits: Of messages.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._limits_by_name = self._limits.as_dict()
        self._bytes_max = self._limits.message_bytes_max
        self._lexicons = Lexicons()
        self._remembered: OrderedDict[tuple[int, str], tuple[bytes, OverlayMessage]] = OrderedDict()
        #: `transcoded`: converted bodies; `damaged`: bodies that could not be converted; `left_as_text`: bodies that
        #: are within the limits only as text, or declare ID attributes.
        self.counts: Counter[str] = Counter()

    def opened(self, message: OverlayMessage) -> DecodedBody:
        """Returns a body as the engine takes it. It is decompressed at most.

        Raises:
            WireError: It cannot be decompressed.
        """
        plain, lexicon = message.body, message.lexicon
        dictionary = None if lexicon is None else lexicon.dictionary
        is_stream = _PLAIN.get(message.form)
        if is_stream is None or len(plain) > self._bytes_max:
            form = WireForm.named(message.form)
            is_stream = form.structure is not Structure.TEXT
            plain = decompress(plain, form.compression, self._bytes_max)
        return _new(DecodedBody, (plain, is_stream, dictionary))

    def text(self, message: OverlayMessage) -> bytes:
        """Returns the text of a message: its own bytes if it came as text, else written from the stream.

        Raises:
            RejectedMessage: The body cannot be decompressed, is damaged, no message, or over a limit.
        """
        try:
            opened = self.opened(message)
        except WireError as error:
            raise MalformedMessage(1, 1, str(error)) from error
        return self._parsed(opened).text() if opened.is_stream else opened.body

    def in_form(self, message: OverlayMessage, form: WireForm) -> OverlayMessage:
        """Returns a message in another form.

        A message that cannot be converted, or would be over a limit in that form, stays text, byte for byte. If it is
        malformed, each broker with a matching subscription stores it as rejected.
        """
        if message.form == str(form):
            return message
        key = id(message.body), str(form)
        remembered = self._remembered.get(key)
        if remembered is None or remembered[0] is not message.body:
            remembered = message.body, self._changed(message, form)
            self._remembered[key] = remembered
            if len(self._remembered) > _REMEMBERED_MAX:
                self._remembered.popitem(last=False)
        result = remembered[1]
        return message._replace(body=result.body, form=result.form, lexicon=result.lexicon)

    def _changed(self, message: OverlayMessage, form: WireForm) -> OverlayMessage:
        before, as_it_is = WireForm.named(message.form), message.body
        try:
            opened = self.opened(message)
            if not opened.is_stream:
                as_it_is = opened.body
            body, lexicon = opened.body, message.lexicon
            if before.structure is not form.structure:
                parsed = self._parsed(opened)
                fitting = self._fitting(message, opened, parsed, form.structure)
                if fitting is None:
                    self.counts["left_as_text"] += 1
                    return message._replace(body=as_it_is, form=TEXT, lexicon=None)
                body, lexicon = fitting
        except (RejectedMessage, WireError) as error:
            self.counts["damaged"] += 1
            logger.warning(
                "message %d of broker %d cannot be brought from the form %s into %s: %s",
                message.number,
                message.root,
                message.form,
                form,
                error,
            )
            return message._replace(body=as_it_is, form=TEXT, lexicon=None)
        self.counts["transcoded"] += 1
        return message._replace(body=compress(body, form.compression), form=str(form), lexicon=lexicon)

    def _fitting(
        self, message: OverlayMessage, opened: DecodedBody, parsed: ParsedMessage, structure: Structure
    ) -> tuple[bytes, Lexicon | None] | None:
        """Returns a body in another structure, or ``None`` if it would be over a limit there or lose its IDs."""
        if not opened.is_stream and _DOCTYPE in opened.body:
            # Of what a DOCTYPE declares only ID attributes are left in a body, and streams cannot say which these are.
            return None
        body, lexicon = self._restructured(message, parsed, structure)
        if not opened.is_stream and _GROWTH_MAX * max(len(opened.body), len(body)) > self._bytes_max:
            # The receiver reads it under the same limit.
            dictionary = None if lexicon is None else lexicon.dictionary
            try:
                self._parsed(DecodedBody(body, is_stream=True, dictionary=dictionary)).text()
            except MessageLimitExceeded:
                return None
        return body, lexicon

    def _restructured(
        self, message: OverlayMessage, parsed: ParsedMessage, structure: Structure
    ) -> tuple[bytes, Lexicon | None]:
        match structure:
            case Structure.TEXT:
                return parsed.text(), None
            case Structure.STREAM:
                return parsed.stream(), None
            case Structure.DICTIONARY:
                return self._lexicons.write((message.scope, message.source), parsed)

    def _parsed(self, opened: DecodedBody) -> ParsedMessage:
        if opened.is_stream:
            return ParsedMessage.from_stream(opened.body, opened.dictionary, self._limits_by_name)
        try:
            return ParsedMessage.from_text(opened.body, self._limits_by_name)
        except NeedsConversion:
            return ParsedMessage.from_text(to_utf8(opened.body, self._bytes_max), self._limits_by_name)
