"""Start tags around the sixteen and thirty-two bytes that the scanner looks at in one go: read as by expat.

Names and values of such lengths are written in all the ways a tag allows, with what stops a search at each offset, and
so that the message ends shortly behind.
"""

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.seeds import seed_or

SEED = seed_or(20_260_101)
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
TAGS = 200_000 if THOROUGH else 3_000

NAMES = [
    *["a", "a", "b", "_x.-9", "é", "aé", "p:a", "q:a", "p:" + "n" * 14],
    *["xmlns", "xmlns:p", "xmlns:q", "xmlnsx", "xml:a"],
]
BAD_NAMES = ["a:b:c", ":a", "a:", "1a", "-a", "xmlns:xml", "o:a"]
VALUES = [
    *["", "v", "a>b", "a/>", "a\tb", "a\nb", "a\r\nb", "a]]>b", "a'b", 'a"b'],
    *["&amp;", "&#65;", "é", "urn:x", "urn:y"],
]
BAD_VALUES = ["<", "a&b", "&e;", "\x01", "\x1f", "\ufffe"]
STOPS = ['"', "'", ">", "/", "<", "&", "=", ":", " ", "\t", "é", "]", "x", "\x00", "\x1f", "\x7f"]


class Tags:
    """Messages with one start tag to be looked at, most of them well-formed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def _one_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def _attribute(self) -> str:
        choice = self.random.choice
        name = choice(BAD_NAMES) if self._one_in(40) else choice(NAMES)
        if self._one_in(3):
            name = "n" * self.random.randrange(1, 36)
        value = choice(BAD_VALUES) if self._one_in(40) else choice(VALUES)
        if self._one_in(2):
            value = "w" * self.random.randrange(34) + value
        quote = "'" if '"' in value or self._one_in(4) else '"'
        equals = choice(["=", "=", "=", "=", " =", "= ", "\t=\n"])
        space = "" if self._one_in(60) else choice([" ", " ", " ", " ", "\n", "  ", "\t", " \r\n"])
        return f"{space}{name}{equals}{quote}{value}{quote}"

    def message(self) -> str:
        choice = self.random.choice
        name = choice(["e", "p:e", "é", "e" * self.random.randrange(1, 36)])
        attributes = "".join(self._attribute() for _ in range(choice([0, 1, 1, 2, 2, 3, 5, 14])))
        end = choice(["/>", " />", f">t</{name}>", f"\n></{name} >", f">t</{name}x>" if self._one_in(10) else "/>"])
        tag = f"<{name}{attributes}{end}"
        if self._one_in(4):
            return tag
        behind = choice(["", "t" * self.random.randrange(40), "<z/>" * self.random.randrange(8)])
        return f"<r xmlns:p='urn:x' xmlns:q='urn:{choice('xy')}'>{tag}{behind}</r>"


def test_start_tags_read_as_with_expat(same_reading: Callable[..., Any]) -> None:
    for number in range(TAGS):
        message = Tags(SEED + number).message()
        same_reading(message.encode(), hint=f"seed {SEED + number}")


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize("lengths", [(1, 0), (1, 13), (13, 1), (14, 14), (15, 0), (16, 14), (17, 3), (3, 28), (31, 2)])
def test_what_stands_at_each_offset_reads_as_with_expat(
    lengths: tuple[int, int], quote: str, same_reading: Callable[..., Any]
) -> None:
    name, value = "n" * lengths[0], "v" * lengths[1]
    for behind in ("/>", ' n="1"/>', f"><{name}/></e>"):
        message = f"<e {name}={quote}{value}{quote}{behind}"
        for offset in range(len(message) + 1):
            same_reading(message[:offset].encode(), hint=f"{message!r} up to {offset}")
            for stop in STOPS:
                for end in (offset, offset + 1):
                    changed = message[:offset] + stop + message[end:]
                    same_reading(changed.encode(), hint=f"{message!r} with {stop!r} at {offset}")
