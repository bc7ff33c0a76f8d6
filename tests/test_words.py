"""``contains text``, compared with a model of its formal semantics."""

from __future__ import annotations

import random
from xml.sax.saxutils import escape, quoteattr

import pytest
import snowballstemmer  # type: ignore[import-untyped]

from tests.full_text_model import Selection, Stem, Text, generated, holds, numbered, words
from tests.seeds import printed_seed
from twigcast import SubscriptionSet

VOCABULARY = [
    *["flood", "floods", "Flood", "flooding", "warning", "warnings", "river", "rivers", "Bern", "BERN", "rain"],
    *["café", "Cafe", "cafés", "Zürich", "zurich", "can't", "Haus", "Häuser", "häusern", "storm", "storms"],
    *["and", "the", "of", "7", "42", "2026"],
]
SEPARATORS = [" "] * 4 + ["  ", ", ", ". ", " \N{EN DASH} ", "\n", "! ", " (", ") ", "<b>", "</b><i>x</i>", "<!-- -->"]


def stem_of(language: str) -> Stem | None:
    """How a language stems words, by Snowball's own program for Python."""
    names = {"en": "english", "de": "german", "fr-CH": "french"}
    return snowballstemmer.stemmer(names[language]).stemWord if language in names else None


def message(r: random.Random) -> tuple[str, list[tuple[str, str, str | None]]]:
    """A message of some items, and of each its title, its text and its language."""
    items: list[tuple[str, str, str | None]] = []
    parts = []
    for _ in range(r.randrange(1, 4)):
        language = r.choice(["en", "de", "fr-CH", "xx", "", "none"])
        title = " ".join(r.choice(VOCABULARY) for _ in range(r.randrange(6)))
        body, plain = "", ""
        opened = False
        for _ in range(r.randrange(1, 16)):
            word = r.choice(VOCABULARY)
            separator = r.choice(SEPARATORS)
            body += escape(word)
            plain += word
            if separator == "<b>":
                body += "</b>" if opened else "<b>"
                opened = not opened
                plain += " "
            elif separator == "</b><i>x</i>":
                body += "<i>x</i>"
                plain += " x "
            elif separator == "<!-- -->":
                body += "<!-- - --> "
                plain += " "
            else:
                body += separator
                plain += separator
        if opened:
            body += "</b>"
        attribute = f" xml:lang={quoteattr(language)}" if language != "none" else ""
        parts.append(
            f"<item kind={quoteattr(title)}{attribute}><title>{escape(title)}</title><text>{body}</text></item>"
        )
        items.append((title, plain, None if language in ("none", "xx", "") else language))
    return f"<news>{''.join(parts)}</news>", items


PLACES = {
    "//item/text contains text {}": lambda title, body: body,
    "//item contains text {}": lambda title, body: f"{title} {body}",
    "//item[title contains text {}]": lambda title, body: title,
    "//item/@kind contains text {}": lambda title, body: title,
    "//item[string(title) contains text {}]": None,
    "for $i in //item where $i/text contains text {} return $i/title": lambda title, body: body,
}


def expected(place: str, selection: Selection, items: list[tuple[str, str, str | None]]) -> bool:
    """Whether one of the items is as the selection asks."""
    for title, body, language in items:
        read = PLACES[place]
        stem = stem_of(language) if language and read is not None else None
        if holds(selection, Text(words(title if read is None else read(title, body)), stem)):
            return True
    return False


def queries(r: random.Random, count: int) -> list[tuple[str, str, Selection]]:
    """Queries with their places and selections; those are left out that the language refuses."""
    made: list[tuple[str, str, Selection]] = []
    while len(made) < count:
        selection = numbered(generated(r, VOCABULARY))
        place = r.choice(list(PLACES))
        made.append((place.format(selection.text()), place, selection))
    return made


def test_stems_are_those_of_snowball() -> None:
    for language in ["en", "de", "fr-CH"]:
        stem = stem_of(language)
        assert stem is not None
        for word in VOCABULARY:
            query = f"/t contains text \"{word}\" using stemming using language '{language}' using diacritics sensitive"
            stemmed = [other for other in VOCABULARY if stem(other.lower()) == stem(word.lower())]
            found = [other for other in VOCABULARY if SubscriptionSet([("q", query)]).match(f"<t>{other}</t>")]
            assert found == stemmed, (language, word)


@pytest.mark.slow
def test_alone_each_query_decides_as_the_model_says() -> None:
    r = random.Random(printed_seed())
    messages = [message(r) for _ in range(25)]
    for query, place, selection in queries(r, 150):
        subscriptions = SubscriptionSet([("q", query)])
        for text, items in messages:
            assert bool(subscriptions.match(text).keys) == expected(place, selection, items), (query, text)


@pytest.mark.slow
def test_many_queries_decide_as_the_model_says_while_they_come_and_go() -> None:
    r = random.Random(printed_seed())
    population = {f"q{number}": made for number, made in enumerate(queries(r, 10_000))}
    waiting = list(population)
    r.shuffle(waiting)
    subscriptions = SubscriptionSet()
    present: set[str] = set()
    for step in range(12):
        added = [waiting.pop() for _ in range(min(len(waiting), 5_000 if step == 0 else 900))]
        report = subscriptions.add_many([(key, population[key][0]) for key in added])
        assert not report.refused, report.refused
        present.update(added)
        for key in r.sample(sorted(present), 300):
            subscriptions.remove(key)
            present.discard(key)
        text, items = message(r)
        found = set(subscriptions.match(text).keys)
        right = {key for key in present if expected(population[key][1], population[key][2], items)}
        assert found == right, [(population[key][0], text) for key in sorted(found ^ right)[:3]]
