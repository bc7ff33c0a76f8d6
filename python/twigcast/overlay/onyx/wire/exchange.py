"""What two neighbours agree on: in which forms messages go over their link, and which names have numbers there.

Both greet with the names of the forms that they take part in (:class:`~twigcast.overlay.onyx.messages.Hello`), the
dearest first. Each then sends in the first of its own that the other has named too, in text if there is none. Of a link
that breaks, nothing is remembered: forms are agreed on anew, and dictionaries taught anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.lexicon import LEXICON_NAMES_MAX, Lexicon, LexiconUpdate
from twigcast.overlay.onyx.messages import Hello, OverlayMessage, Recovered, Span
from twigcast.overlay.onyx.wire.bodies import TEXT, Bodies, in_other_form
from twigcast.overlay.onyx.wire.errors import WireError
from twigcast.overlay.onyx.wire.forms import FORMS, Structure, WireForm, choose

T = TypeVar("T")

TAUGHT_MAX: Final = 64
"""Dictionaries that are known on a link in one direction; with one more, both sides forget the one taught first."""


@dataclass(frozen=True, slots=True)
class FormPreferences:
    """In which forms a broker sends and reads messages, the dearest first; text always."""

    general: tuple[str, ...] = ()
    by_peer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """In place of these, for neighbours of these names."""

    @classmethod
    def parse(cls, settings: Sequence[str]) -> FormPreferences:
        """From a list of ``FORM`` and ``NEIGHBOUR=FORM``.

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
        """Those for a neighbour, text among them."""
        wished = self.by_peer.get(peer, self.general)
        return wished if TEXT in wished else (*wished, TEXT)


class Exchange:
    """One side of a link.

    Args:
        bodies: Brings bodies into forms.
        forms: Names of the forms for this neighbour, the dearest first; text among them.
    """

    def __init__(self, bodies: Bodies, forms: Sequence[str] = (TEXT,)) -> None:
        self._bodies = bodies
        self._forms = tuple(forms)
        self._sent: dict[int, Lexicon] = {}
        """Dictionaries that the neighbour has been taught, by their ids, in order."""
        self._learnt: dict[int, Lexicon] = {}
        """What the neighbour has taught, in order."""
        self.agreed: dict[str, tuple[str, Lexicon | None]] = {}
        """Forms in which messages have come, with their dictionaries' ids, and what they mean: for who reads them."""
        self._sends = TEXT
        self.sends = WireForm.named(TEXT)
        """The form in which messages go to the neighbour."""
        self.receives = WireForm.named(TEXT)
        """That in which they come, as both sides know it from the greetings."""
        self.counts: dict[str, int] = {"taught": 0, "learnt": 0, "sent": 0, "received": 0}
        """Dictionaries, and messages in another form than text."""

    # What goes out

    def outgoing(self, message: Any) -> Sequence[Any]:
        """What is to be sent for a message: what is to be taught before, and it in the form agreed on."""
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
        # The name of the lexicon goes behind that of the form.
        lexicon = sent.lexicon
        if lexicon is None:
            return (onward,)
        if _is_same(self._sent.get(lexicon.id), lexicon.names):
            # In its place, so that names are compared once and not with each message.
            self._sent[lexicon.id] = lexicon
            return (onward,)
        return (self._teach(lexicon), onward)

    def _teach(self, lexicon: Lexicon) -> LexiconUpdate:
        self.counts["taught"] += 1
        base = None if lexicon.base is None else self._sent.get(lexicon.base)
        teaching = lexicon.update(_is_same(base, lexicon.names[: lexicon.base_size]))
        _remember(self._sent, lexicon.id, lexicon)
        return teaching

    # What comes in

    def on_hello(self, hello: Hello) -> None:
        """The neighbour has greeted."""
        self.sends = choose(self._forms, hello.forms)
        self._sends = str(self.sends)
        existing = [name for name in hello.forms if name in FORMS]
        self.receives = choose(existing, self._forms)

    def learn(self, teaching: LexiconUpdate) -> None:
        """The neighbour teaches a dictionary.

        Raises:
            WireError: What it says does not fit together.
        """
        base: Lexicon | None = None
        if teaching.base is not None:
            base = self._learnt.get(teaching.base)
            if base is None:
                raise WireError(
                    Structure.DICTIONARY, f"a dictionary grows from {teaching.base:016x}, never taught here"
                )
        names = teaching.names if base is None else base.names + teaching.names
        if len(names) > LEXICON_NAMES_MAX:
            raise WireError(
                Structure.DICTIONARY, f"a dictionary of {len(names):,} names, {LEXICON_NAMES_MAX:,} at most"
            )
        try:
            lexicon = Lexicon(names) if base is None else base.grown(teaching.names)
        except ValueError as error:
            raise WireError(Structure.DICTIONARY, f"a dictionary that is none: {error}") from error
        if lexicon.id != teaching.dictionary:
            raise WireError(
                Structure.DICTIONARY,
                f"a dictionary called {teaching.dictionary:016x} whose names say {lexicon.id:016x}",
            )
        self.counts["learnt"] += 1
        self.agreed.clear()
        _remember(self._learnt, lexicon.id, lexicon)

    def incoming(self, message: Any) -> Any:
        """A message that has come, with the dictionary that its body needs.

        Raises:
            WireError: It comes in a form that was not agreed on, or with a dictionary that was never taught.
        """
        carried = _carried(message)
        if carried is None or carried.form == TEXT:
            return message
        self.counts["received"] += 1
        if carried.lexicon is not None:
            # Whoever has read it has seen what was agreed on.
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
    """Whether a dictionary that was taught has these names. Others of the same id can be made, and take its place."""
    return reported is not None and (reported.names is names or reported.names == names)


def _remember(existing: dict[int, T], number: int, what: T) -> None:
    """Add to what both sides of a link remember: they forget in the same order."""
    existing.pop(number, None)
    existing[number] = what
    if len(existing) > TAUGHT_MAX:
        del existing[next(iter(existing))]


def _carried(message: Any) -> OverlayMessage | None:
    """The message that a message between brokers carries."""
    kind = type(message)
    if kind is Span:
        carried: OverlayMessage | None = message.message
        return carried
    return message.span.message if kind is Recovered else None


def _carrying(message: Any, carried: OverlayMessage) -> Any:
    if isinstance(message, Recovered):
        return message._replace(span=_carrying(message.span, carried))
    return Span(message.root, message.after, message.upto, carried)
