"""A model of ``contains text``: XQuery and XPath Full Text 3.0 as its formal semantics say, by enumeration.

A *match* is a list of occurrences, each with its first and last word and its place in the query. ``ftand`` combines
each match of one side with each of the other; ``window``, ``distance`` and ``ordered`` keep some. Nothing is indexed,
shared or skipped, so texts have to be short.
"""

from __future__ import annotations

import itertools
import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Occurrence = tuple[int, int, int]
Stem = Callable[[str], str]

WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@dataclass(frozen=True)
class Options:
    """How words are compared."""

    case: bool = False
    diacritics: bool = False
    stemming: bool = False
    wildcards: bool = False

    def text(self) -> str:
        """The options as a query writes them."""
        named = {
            "case sensitive": self.case,
            "diacritics sensitive": self.diacritics,
            "stemming": self.stemming,
            "wildcards": self.wildcards,
        }
        return "".join(f" using {name}" for name, is_set in named.items() if is_set)

    def fold(self, word: str, stem: Stem | None) -> str:
        """The word in the form in which it is compared."""
        word = unicodedata.normalize("NFC", word)
        if not self.case:
            word = word.lower()
        if self.stemming and stem is not None:
            word = stem(word)
        if not self.diacritics:
            decomposed = unicodedata.normalize("NFD", word)
            word = unicodedata.normalize("NFC", "".join(c for c in decomposed if not unicodedata.combining(c)))
        return word


@dataclass(frozen=True)
class Text:
    """The words of a node, and how its language stems them."""

    words: list[str]
    stem: Stem | None = None


def words(text: str) -> list[str]:
    """The words of a text."""
    return WORD.findall(text)


@dataclass
class Phrase:
    """Words in a row."""

    words: list[str]
    options: Options
    place: int = 0

    def text(self) -> str:
        """The phrase as a query writes it."""
        return f'"{" ".join(self.words)}"{self.options.text()}'

    def matches(self, text: Text) -> Iterator[list[Occurrence]]:
        """Each place where it stands."""
        folded = [self.options.fold(word, text.stem) for word in text.words]
        plain = Options(self.options.case, self.options.diacritics)
        unstemmed = [plain.fold(word, None) for word in text.words]
        for start in range(len(folded) - len(self.words) + 1):
            if all(self._is(word, folded[at], unstemmed[at], text) for at, word in enumerate(self.words, start)):
                yield [(start, start + len(self.words) - 1, self.place)]

    def _is(self, word: str, folded: str, unstemmed: str, text: Text) -> bool:
        if self.options.wildcards and "." in word:
            plain = Options(self.options.case, self.options.diacritics)
            parts = re.split(r"(\.(?:[?*+]|\{\d+,\d+\})?)", word)
            pattern = "".join(part if part.startswith(".") else re.escape(plain.fold(part, None)) for part in parts)
            return re.fullmatch(pattern, unstemmed, re.DOTALL) is not None
        return self.options.fold(word, text.stem) == folded


@dataclass
class Combined:
    """``ftand``, ``ftor`` or ``ftnot``."""

    operator: str
    members: list[Selection] = field(default_factory=list)

    def text(self) -> str:
        """The selection as a query writes it."""
        if self.operator == "ftnot":
            return f"ftnot ({self.members[0].text()})"
        return f" {self.operator} ".join(f"({member.text()})" for member in self.members)

    def matches(self, text: Text) -> Iterator[list[Occurrence]]:
        """Each way in which it holds; of what has ``ftnot`` in it there is but one."""
        if self.operator == "ftnot":
            if not holds(self.members[0], text):
                yield []
        elif self.operator == "ftor":
            yield from itertools.chain.from_iterable(member.matches(text) for member in self.members)
        else:
            for chosen in itertools.product(*(list(member.matches(text)) for member in self.members)):
                yield list(itertools.chain.from_iterable(chosen))


@dataclass
class Near:
    """``window``, ``distance`` or ``ordered``."""

    selection: Selection
    ordered: bool
    kind: str
    least: int = 0
    most: int = 0

    def text(self) -> str:
        """The selection as a query writes it."""
        order = " ordered" if self.ordered else ""
        what = {
            "": "",
            "window": f" window {self.most} words",
            "at most": f" distance at most {self.most} words",
            "at least": f" distance at least {self.least} words",
            "exactly": f" distance exactly {self.most} words",
            "from": f" distance from {self.least} to {self.most} words",
        }[self.kind]
        return f"{self.selection.text()}{order}{what}"

    def matches(self, text: Text) -> Iterator[list[Occurrence]]:
        """The matches that are near enough, each as one occurrence."""
        for match in self.selection.matches(text):
            if self.ordered and not all(
                (a[0] <= b[0] and a[2] <= b[2]) or (a[0] >= b[0] and a[2] >= b[2])
                for a, b in itertools.combinations(match, 2)
            ):
                continue
            if self.kind == "":
                yield match
                continue
            first, last = min(o[0] for o in match), max(o[1] for o in match)
            gaps = [b[0] - a[1] - 1 for a, b in itertools.pairwise(sorted(match))]
            fits = {
                "window": last - first < self.most,
                "at most": all(gap <= self.most for gap in gaps),
                "at least": all(gap >= self.least for gap in gaps),
                "exactly": all(gap == self.most for gap in gaps),
                "from": all(self.least <= gap <= self.most for gap in gaps),
            }[self.kind]
            if fits:
                yield [(first, last, min(o[2] for o in match))]


Selection = Phrase | Combined | Near


def holds(selection: Selection, text: Text) -> bool:
    """Whether a text is as a selection asks."""
    if isinstance(selection, Combined) and selection.operator != "ftnot":
        quantifier = any if selection.operator == "ftor" else all
        return quantifier(holds(member, text) for member in selection.members)
    return next(selection.matches(text), None) is not None


def generated(r: random.Random, vocabulary: list[str], depth: int = 3, *, positive: bool = False) -> Selection:
    """A selection of words of a vocabulary."""
    kind = r.random() if depth else 0.0
    if kind < 0.35:
        options = Options(r.random() < 0.15, r.random() < 0.15, r.random() < 0.25, r.random() < 0.15)
        chosen = [r.choice(vocabulary) for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
        if options.wildcards:
            chosen = [_wild(r, word) for word in chosen]
        return Phrase(chosen, options)
    count = r.choice([2, 2, 3])
    if kind < 0.75:
        operators = ["ftand", "ftor"] if positive else ["ftand", "ftor", "ftnot"]
        operator = r.choice(operators)
        members = [generated(r, vocabulary, depth - 1, positive=positive) for _ in range(count)]
        return Combined(operator, members[:1] if operator == "ftnot" else members)
    # What is only ordered cannot be inside of it.
    inner = _near_members(r, vocabulary, depth - 1, count)
    near = r.choice(["", "window", "window", "at most", "at most", "at least", "exactly", "from"])
    least = r.randrange(4)
    most = r.randrange(1, 12) if near == "window" else least + r.randrange(6)
    selection = Near(inner, near == "" or r.random() < 0.4, near, least, most)
    if near == "" and positive:
        return inner
    return selection


def _near_members(r: random.Random, vocabulary: list[str], depth: int, count: int) -> Selection:
    members = [generated(r, vocabulary, min(depth, 1), positive=True) for _ in range(count)]
    return Combined(r.choice(["ftand", "ftand", "ftor"]), members)


def _wild(r: random.Random, word: str) -> str:
    at = r.randrange(1, len(word) + 1)
    return r.choice([word[:at] + ".*", word[:at] + ".?", f".{{0,3}}{word[1:]}", word[: at - 1] + "." + word[at:], word])


def numbered(selection: Selection) -> Selection:
    """The selection with the places of its phrases in the query."""
    counter = itertools.count()

    def number(part: Selection) -> None:
        if isinstance(part, Phrase):
            part.place = next(counter)
        elif isinstance(part, Near):
            number(part.selection)
        else:
            for member in part.members:
                number(member)

    number(selection)
    return selection
