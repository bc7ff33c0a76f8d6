"""In which bytes messages travel between brokers (Diao 2005, section 7.4.2).

Three structures: the ``text`` of the message itself; the element ``stream``, parsed once and for all, names by number;
the ``dictionary`` stream, whose names have their numbers from a dictionary that both brokers know: a lexicon that grows
with the messages of a source and is taught on each link, or the names of a DTD. Each plain or compressed, by zlib (as
published) or Zstandard.

A stream says what the message says, not how: white space inside tags, CDATA sections, the XML declaration and the
DOCTYPE do not come back. Text comes back byte for byte. So links carry text unless their brokers were told otherwise.

What lives where: ``forms``: names of forms, and which one a link carries; ``dictionaries``: names with numbers;
``lexicons``: the dictionaries that grow with the messages of sources; ``compression``; ``coding``: bodies from one form
to another, and to what the engine takes; ``bodies``: the same for messages on their way; ``exchange``: what the two
ends of a link agree on.
"""

from twigcast.overlay.onyx.wire.coding import BodyCodec
from twigcast.overlay.onyx.wire.dictionaries import Dictionaries, names_of
from twigcast.overlay.onyx.wire.forms import FORMS, Compression, Structure, WireForm, choose

__all__ = ["FORMS", "BodyCodec", "Compression", "Dictionaries", "Structure", "WireForm", "choose", "names_of"]
