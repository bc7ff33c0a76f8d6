"""The forms of messages between brokers (Diao 2005, section 7.4.2).

There are three structures: the ``text`` of the message; the element stream, parsed once, with numbered names; and
the ``dictionary`` stream, whose names are numbered by a dictionary that both brokers have: a lexicon that grows with
the messages of a source and is sent over each link. Each can be compressed by zlib (as published) or Zstandard.

A stream keeps the content of a message, but not white space inside tags, CDATA sections, the XML declaration and the
DOCTYPE. Text arrives byte for byte. So links carry text unless their brokers are configured otherwise.

``forms``: names of forms, the choice for a link, compression; ``lexicons``: the lexicons of sources;
``bodies``: conversion of message bodies; ``exchange``: what the two ends of a link agree on.
"""

from twigcast.overlay.onyx.wire.forms import FORMS, Compression, Structure, WireForm, choose

__all__ = ["FORMS", "Compression", "Structure", "WireForm", "choose"]
