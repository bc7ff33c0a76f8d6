"""Rules of words over news: ``contains text`` beside Luwak, the same rules over the same messages in one run.

Words are as frequent as in texts of people: the one of rank *n* about *n* times rarer than the first. Rules ask for two
to five words, with ``ftand``, ``ftor`` and ``ftnot``; half of the words are as frequent in rules as they are in texts,
and half are any words alike, as names are. There are two populations:

- ``selective``: no rule asks for one of the thousand most frequent words. So do rules that people pay for: each names
  somebody or something, and most messages are about others.
- ``broad``: rules ask for all words but the fifty most frequent ones, so each message matches hundreds of rules.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from bisect import bisect
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from benchmarks.measure import Row, allocated_bytes, once, parse_with_expat, side_by_side
from benchmarks.real import Peers
from twigcast import SubscriptionSet

RULES: Final = (1_000, 10_000, 100_000)
FREQUENT: Final = {"selective": 1_000, "broad": 50}
"""The most frequent words, for which no rule of a population asks."""
MESSAGES: Final = 200
VOCABULARY: Final = 40_000
BYTES: Final = 4_000
SYLLABLES: Final = [a + b for a in "bdfghklmnprst" for b in "aeiou"]


class WordRule(NamedTuple):
    """A rule, in the language of each."""

    query: str
    lucene: str


def _vocabulary(r: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(r.choice(SYLLABLES) for _ in range(r.choice([1, 2, 2, 3, 3, 4])))] = None
    return list(words)


class News:
    """Texts and rules of one vocabulary."""

    def __init__(self, seed: int, frequent: int) -> None:
        self._random = random.Random(seed)
        self._words = _vocabulary(self._random)
        self._frequent = set(self._words[:frequent])
        self._sums = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))

    def _word(self) -> str:
        return self._words[bisect(self._sums, self._random.random() * self._sums[-1])]

    def message(self) -> bytes:
        """A message of about four kilobytes."""
        r = self._random
        paragraphs: list[str] = []
        while sum(map(len, paragraphs)) < BYTES - 200:
            words = [self._word() for _ in range(r.randrange(30, 90))]
            words = [word.capitalize() if r.random() < 0.15 else word for word in words]
            text = " ".join(word + r.choice(["", "", "", "", "", ",", "."]) for word in words)
            paragraphs.append(f"<p>{text}</p>")
        title = " ".join(self._word() for _ in range(8))
        return f"<news><title>{title}</title><body>{''.join(paragraphs)}</body></news>".encode()

    def rule(self) -> WordRule:
        """A rule of two to five words."""
        r = self._random

        def word() -> str:
            while True:
                found = self._word() if r.random() < 0.5 else r.choice(self._words)
                if found not in self._frequent:
                    return found

        a, b, c, d, e = (word() for _ in range(5))
        query, lucene = r.choice(
            [
                (f'"{a}" ftand "{b}"', f"+{a} +{b}"),
                (f'"{a}" ftand "{b}" ftand "{c}"', f"+{a} +{b} +{c}"),
                (f'"{a}" ftand ("{b}" ftor "{c}")', f"+{a} +({b} {c})"),
                (f'"{a}" ftand "{b}" ftand ftnot "{c}"', f"+{a} +{b} -{c}"),
                (f'("{a}" ftor "{b}") ftand ("{c}" ftor "{d}")', f"+({a} {b}) +({c} {d})"),
                (f'"{a}" ftand ("{b}" ftor "{c}" ftor "{d}") ftand ftnot "{e}"', f"+{a} +({b} {c} {d}) -{e}"),
            ]
        )
        return WordRule(f"/news contains text {query}", lucene)


def rows(quick: bool) -> list[tuple[str, str, str]]:
    """Returns the populations, the numbers of rules and those of messages that are measured, each apart."""
    messages = 20 if quick else MESSAGES
    return [(kind, str(count), str(messages)) for kind in FREQUENT for count in (RULES[:1] if quick else RULES)]


def measure(kind: str, number: str, news_count: str) -> Row:
    """Returns the row of one number of rules of a population."""
    count = int(number)
    news = News(count, FREQUENT[kind])
    messages = [news.message() for _ in range(int(news_count))]
    rules = [news.rule() for _ in range(count)]
    subscriptions, reader = SubscriptionSet(), SubscriptionSet()
    reader.add("none", '/news contains text "no" ftand "such"')
    before = allocated_bytes()
    adding = once(lambda: subscriptions.add_many((str(key), rule.query) for key, rule in enumerate(rules)))
    after = allocated_bytes()
    # The messages that covers are chosen by.
    for message in messages * 3:
        subscriptions.match(message)
    matched = sum(len(subscriptions.match(message)) for message in messages)
    feed = pa.array(messages, pa.large_binary())
    works: list[Callable[[], object]] = [
        lambda: parse_with_expat(messages),
        lambda: subscriptions.match_batch(feed),
        lambda: reader.match_batch(feed),
    ]
    unit, us, reading = (timing.median / len(messages) for timing in side_by_side(7, *works))
    row: Row = {
        "rules": kind,
        "count": count,
        "bytes": sum(map(len, messages)) // len(messages),
        "matches": round(matched / len(messages), 1),
        "E_us": round(unit * 1e6, 2),
        "us": round(us * 1e6, 1),
        "E": round(us / unit, 2),
        "read_E": round(reading / unit, 2),
        "rules_per_s": round(count / adding),
        "bytes_per_rule": None if before is None or after is None else round((after - before) / count),
    }
    if shutil.which("mvn") and shutil.which("java"):
        with tempfile.TemporaryDirectory() as folder:
            texts, lucene = [message.decode() for message in messages], [rule.lucene for rule in rules]
            micros, found = Peers(Path(folder)).run("LuwakWordsPeer", texts, lucene)
        assert found in (None, matched), f"Luwak finds {found} matches, the engine {matched}"
        if micros is not None:
            row |= {"luwak_us": round(micros, 1), "luwak_of_us": round(micros / 1e6 / us, 1)}
    else:
        print("no Luwak: Maven and Java are needed to run it", file=sys.stderr)
    return row


if __name__ == "__main__":
    for arguments in rows("--quick" in sys.argv):
        print(measure(*arguments))
