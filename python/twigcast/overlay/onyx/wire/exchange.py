"""The agreement of two neighbours on the forms of messages and the dictionaries of their link.

Both greet with the names of their forms (:class:`~twigcast.overlay.onyx.messages.Hello`), the best first. Each then
sends in the first of its own forms that the other has named too, or in text. When a link ends, all of this is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from twigcast.overlay.errors import ImpossibleSetting, WireError
from twigcast.overlay.onyx.lexicon import LEXICON_NAMES_MAX, Lexicon, LexiconUpdate
from twigcast.overlay.onyx.messages import Hello, OverlayMessage, Recovered, Span
from twigcast.overlay.onyx.wire.bodies import TEXT, Bodies, in_other_form
from twigcast.overlay.onyx.wire.forms import FORMS, Structure, WireForm, choose

T = TypeVar("T")

TAUGHT_MAX: Final = 64  #: Dictionaries of one direction of a link. With one more, both sides drop the oldest.


@dataclass(frozen=True, slots=True)
class FormPreferences:
    """The forms in which a broker sends and reads messages, the best first. Text is always one."""

    general: tuple[str, ...] = ()
    #: By name of a neighbour, forms in place of the general ones.
    by_peer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, settings: Sequence[str]) -> FormPreferences:
        """Returns the preferences of a list of ``FORM`` and ``NEIGHBOUR=FORM``.

        Raises:
            ImpossibleSetting: There is no such form.
        """
        general: list[str] = []
        by_peer: dict[str, list[str]] = {}
        for setting in settings:
            peer, separator, name = setting.rpartition("=")
            if separator and not peer:
                raise ImpossibleSetting("wire form", setting, "a form, or the name of a neighbour, = and a form")
            chosen = by_peer.setdefault(peer, []) if separator else general
            chosen.append(str(WireForm.named(name)))
        return cls(tuple(general), {peer: tuple(names) for peer, names in by_peer.items()})

    def of(self, peer: str) -> tuple[str, ...]:
        """Returns the forms for a neighbour, with text."""
        preferred = self.by_peer.get(peer, self.general)
        return preferred if TEXT in preferred else (*preferred, TEXT)


class Exchange:
    """The agreement on one side of a link.

    Args:
        bodies: Converts bodies.
        forms: Names of the forms for this neighbour, the best first, with text.
    """

    def __init__(self, bodies: Bodies, forms: Sequence[str] = (TEXT,)) -> None:
        self._bodies = bodies
        self._forms = tuple(forms)
        self._sent: dict[int, Lexicon] = {}  #: By id, the dictionaries that were sent, in order.
        self._learnt: dict[int, Lexicon] = {}  #: By id, the dictionaries that were received, in order.
        #: By form of received messages with the id of its dictionary, the form and the lexicon; read by the core.
        self.agreed: dict[str, tuple[str, Lexicon | None]] = {}
        self._sends = TEXT
        self.sends = WireForm.named(TEXT)  #: The form of sent messages.
        self.receives = WireForm.named(TEXT)  #: The form of received messages, as it follows from the greetings.
        #: Sent (`taught`) and received (`learnt`) dictionaries; messages sent and received in another form than text.
        self.counts: dict[str, int] = {"taught": 0, "learnt": 0, "sent": 0, "received": 0}

    # Sending.

    def outgoing(self, message: Any) -> Sequence[Any]:
        """Returns what is sent for a message: a dictionary if it is new, and the message in the agreed form."""
        carried = _carried(message)
        if carried is None:
            return (message._replace(forms=self._forms) if isinstance(message, Hello) else message,)
        form, lexicon = carried.form, carried.lexicon
        if form == self._sends and (lexicon is None or self._sent.get(lexicon.id) is lexicon):
            if form != TEXT:
                self.counts["sent"] += 1
            return (message,)
        sent = carried if form == self._sends else self._bodies.in_form(carried, self.sends)
        if sent.form != TEXT:
            self.counts["sent"] += 1
        onward = message if sent is carried else _carrying(message, sent)
        lexicon = sent.lexicon
        if lexicon is None:
            return (onward,)
        if _is_same(self._sent.get(lexicon.id), lexicon.names):
            # Replaced by the same object, so that names are compared once and not with each message.
            self._sent[lexicon.id] = lexicon
            return (onward,)
        return (self._introduce(lexicon), onward)

    def _introduce(self, lexicon: Lexicon) -> LexiconUpdate:
        self.counts["taught"] += 1
        base = None if lexicon.base is None else self._sent.get(lexicon.base)
        update = lexicon.update(_is_same(base, lexicon.names[: lexicon.base_size]))
        _remember(self._sent, lexicon.id, lexicon)
        return update

    # Receiving.

    def on_hello(self, hello: Hello) -> None:
        """Chooses the forms after the greeting of the neighbour."""
        self.sends = choose(self._forms, hello.forms)
        self._sends = str(self.sends)
        existing = [name for name in hello.forms if name in FORMS]
        self.receives = choose(existing, self._forms)

    def learn(self, update: LexiconUpdate) -> None:
        """Adds a received dictionary.

        Raises:
            WireError: It contradicts itself, or its predecessor is unknown.
        """
        base: Lexicon | None = None
        if update.base is not None:
            base = self._learnt.get(update.base)
            if base is None:
                raise WireError(Structure.DICTIONARY, f"a dictionary grows from {update.base:016x}, never taught here")
        names = update.names if base is None else base.names + update.names
        if len(names) > LEXICON_NAMES_MAX:
            raise WireError(
                Structure.DICTIONARY, f"a dictionary of {len(names):,} names, {LEXICON_NAMES_MAX:,} at most"
            )
        try:
            lexicon = Lexicon(names) if base is None else base.grown(update.names)
        except ValueError as error:
            raise WireError(Structure.DICTIONARY, f"a dictionary that is none: {error}") from error
        if lexicon.id != update.dictionary:
            raise WireError(
                Structure.DICTIONARY,
                f"a dictionary called {update.dictionary:016x} whose names say {lexicon.id:016x}",
            )
        self.counts["learnt"] += 1
        self.agreed.clear()
        _remember(self._learnt, lexicon.id, lexicon)

    def incoming(self, message: Any) -> Any:
        """Returns a received message, with the dictionary that its body needs.

        Raises:
            WireError: Its form was not agreed on, or its dictionary was never sent.
        """
        carried = _carried(message)
        if carried is None or carried.form == TEXT:
            return message
        self.counts["received"] += 1
        if carried.lexicon is not None:
            # The core has checked it against `agreed`.
            return message
        agreed = self.agreed.get(carried.form)
        if agreed is None:
            agreed = self.agreed[carried.form] = self._agree(carried.form)
        form, lexicon = agreed
        return message if lexicon is None else _carrying(message, in_other_form(carried, form, lexicon))

    def _agree(self, form: str) -> tuple[str, Lexicon | None]:
        name, _, dictionary = form.partition(":")
        if name not in self._forms:
            raise WireError(name[:40], f"this broker does not take it; it takes {', '.join(self._forms)}")
        lexicon = None
        if (FORMS[name].structure is Structure.DICTIONARY) != bool(dictionary):
            raise WireError(name, "a dictionary is named where none belongs, or the other way round")
        if dictionary:
            lexicon = self._lexicon(name, dictionary)
        return name, lexicon

    def _lexicon(self, name: str, dictionary: str) -> Lexicon:
        for lexicon in self._learnt.values():
            if lexicon.name == dictionary:
                return lexicon
        raise WireError(name, f"the dictionary {dictionary[:16]} was never taught on this link")


def _is_same(reported: Lexicon | None, names: tuple[str, ...]) -> bool:
    """Returns whether a dictionary has these names. Another one may have the same id, and replaces it."""
    return reported is not None and (reported.names is names or reported.names == names)


def _remember(existing: dict[int, T], number: int, what: T) -> None:
    """Adds a dictionary. Both sides of a link drop the oldest ones in the same order."""
    existing.pop(number, None)
    existing[number] = what
    if len(existing) > TAUGHT_MAX:
        del existing[next(iter(existing))]


def _carried(message: Any) -> OverlayMessage | None:
    """Returns the XML message that a message between brokers carries, if any."""
    kind = type(message)
    if kind is Span:
        carried: OverlayMessage | None = message.message
        return carried
    return message.span.message if kind is Recovered else None


def _carrying(message: Any, carried: OverlayMessage) -> Any:
    if isinstance(message, Recovered):
        return message._replace(span=_carrying(message.span, carried))
    return Span(message.root, message.after, message.upto, carried)
