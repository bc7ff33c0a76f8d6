"""What a DOCTYPE costs: each message beside the same one with everything in place, and without a DOCTYPE."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from benchmarks.measure import Row, parse_with_expat, side_by_side
from twigcast import SubscriptionSet

ROUNDS: Final = 15
TARGET_E: Final = 0.2
_SEED: Final = 22
_RECORDS: Final = "item|other|entry"


class Pair(NamedTuple):
    """A message with a DOCTYPE, and what it means."""

    declared: bytes
    plain: bytes


def _words(randomness: random.Random, count: int) -> str:
    return " ".join(f"w{number}" for number in randomness.choices(range(2_000), k=count))


def _pair(subset: str, declared: str, plain: str) -> Pair:
    return Pair(f"<!DOCTYPE r [{subset}]><r>{declared}</r>".encode(), f"<r>{plain}</r>".encode())


def _references(
    texts: list[str], count: int, replaced: Callable[[str], str] = escape, *, in_attributes: bool = False
) -> Pair:
    """Returns a message of elements with some words and a reference each."""
    randomness = random.Random(_SEED)
    subset = "".join(f'<!ENTITY e{number} "{text}">' for number, text in enumerate(texts))
    declared, plain = list[str](), list[str]()
    for number in range(count):
        words, chosen = _words(randomness, 6), randomness.randrange(len(texts))
        form = '<item id="%d" v="%s">%s</item>' if in_attributes else '<item id="%d"><p>%s</p>%s</item>'
        first, second = ("%s", words) if in_attributes else (words, "%s more")
        for out, text in ((declared, f"&e{chosen};"), (plain, replaced(texts[chosen]))):
            out.append(form % ((number, first % text, second) if in_attributes else (number, first, second % text)))
    return _pair(subset, "".join(declared), "".join(plain))


def _dictionary() -> Pair:
    """Returns a dictionary like JMdict: many short entities, of which each entry refers to a few, and long texts."""
    randomness = random.Random(_SEED)
    texts = {f"ent-{number}": f"noun or verb of the kind {number} (archaic)" for number in range(250)}
    subset = "".join(f"<!ELEMENT x{number} (#PCDATA)>" for number in range(60))
    subset += '<!ATTLIST gloss xml:lang CDATA "eng"><!ATTLIST gloss g_gend CDATA #IMPLIED>'
    subset += "".join(f'<!ENTITY {name} "{text}">' for name, text in texts.items())
    declared, plain = list[str](), list[str]()
    for number in range(30_000):
        head = f"<entry>\n<ent_seq>{1_000_000 + number}</ent_seq>\n<k_ele><keb>明{number}白</keb></k_ele>\n<sense>\n"
        names = randomness.choices(list(texts), k=2)
        glosses = [_words(randomness, 3) for _ in range(3)]
        for out, languages in ((declared, ""), (plain, ' xml:lang="eng"')):
            parts = [f"&{name};" if out is declared else texts[name] for name in names]
            out.append(head + "".join(f"<pos>{part}</pos>\n" for part in parts))
            out.append("".join(f"<gloss{languages}>{gloss}</gloss>\n" for gloss in glosses) + "</sense>\n</entry>\n")
    return _pair(subset, "".join(declared), "".join(plain))


def _attributes(subset: str, written: str, meant: str, count: int, every: int = 1) -> Pair:
    """Returns a message of elements, of which some are written otherwise than they are meant."""
    randomness = random.Random(_SEED)
    declared, plain = list[str](), list[str]()
    for number in range(count):
        words = _words(randomness, 6)
        name = "item" if number % every == 0 else "other"
        for out, attributes in ((declared, written), (plain, meant)):
            out.append(f'<{name} id="{number}"{attributes if name == "item" else ""}><p>{words}</p></{name}>')
    return _pair(subset, "".join(declared), "".join(plain))


def _at_end(subset: str, declared: str, plain: str) -> Pair:
    """Returns a message of which only the last element changes."""
    randomness = random.Random(_SEED)
    items = "".join(f'<item id="{number}"><p>{_words(randomness, 6)}</p></item>' for number in range(100_000))
    return _pair(subset, items + declared, items + plain)


def _unused(subset: str) -> Pair:
    randomness = random.Random(_SEED)
    items = "".join(f'<item id="{number}"><p>{_words(randomness, 8)}</p></item>' for number in range(60_000))
    return _pair(subset, items, items)


_DEFAULT: Final = '<!ATTLIST item lang CDATA "en">'
_TOKENS: Final = "<!ATTLIST item kinds NMTOKENS #IMPLIED>"

KINDS: Final[dict[str, Callable[[], Pair]]] = {
    "references to short texts": lambda: _references([f"text {number}" for number in range(20)], 180_000),
    "references to 500 texts": lambda: _references([f"text {number}" for number in range(500)], 180_000),
    "references to markup": lambda: _references(
        [f"<b>bold</b> {number} <i/>" for number in range(20)], 180_000, lambda text: text
    ),
    "references in attributes": lambda: _references(
        [f"text {number}" for number in range(20)], 180_000, in_attributes=True
    ),
    "a dictionary": _dictionary,
    "a default on each element": lambda: _attributes(_DEFAULT, "", ' lang="en"', 100_000),
    "a default on one element of a hundred": lambda: _attributes(_DEFAULT, "", ' lang="en"', 100_000, 100),
    "a default that all have": lambda: _attributes(_DEFAULT, ' lang="de"', ' lang="de"', 100_000),
    "tokens to normalise": lambda: _attributes(_TOKENS, ' kinds=" a  bc "', ' kinds="a bc"', 100_000),
    "tokens as they should be": lambda: _attributes(_TOKENS, ' kinds="a bc"', ' kinds="a bc"', 100_000),
    "a reference at the end": lambda: _at_end('<!ENTITY e "text">', "<last>&e;</last>", "<last>text</last>"),
    "a default at the end": lambda: _at_end('<!ATTLIST last lang CDATA "en">', "<last/>", '<last lang="en"/>'),
    "tokens at the end": lambda: _at_end(_TOKENS, '<item kinds=" a  bc "/>', '<item kinds="a bc"/>'),
    "an empty subset": lambda: _unused(""),
    "200 kB of unused entities": lambda: _unused(
        "".join(f'<!ENTITY name{number} "the text of entity {number}">' for number in range(4_600))
    ),
    "200 kB of unused declarations": lambda: _unused(
        "".join(
            f"<!ELEMENT x{number} (a|b)*><!ATTLIST x{number} a CDATA #IMPLIED b (c|d) 'c'>" for number in range(3_000)
        )
    ),
}
"""What DOCTYPEs change in messages."""


def _deliver(subscriptions: SubscriptionSet) -> Callable[[bytes], object]:
    """Returns a task that reads all payloads, which are made when they are looked at."""
    return lambda message: [delivery.payload for delivery in subscriptions.deliver(message)]


def _tasks() -> dict[str, Callable[[bytes], object]]:
    numbers = [number * 700 for number in range(100)]
    plain = SubscriptionSet((f"k{number}", f"//item[@id = '{number}']/p") for number in numbers)
    rewriting = SubscriptionSet(
        (f"k{number}", f"for $i in //item where $i/@id = '{number}' return <hit>{{ $i/p }}</hit>") for number in numbers
    )
    return {
        "match": lambda message: plain.match(message).keys,
        "deliver": _deliver(plain),
        "rewrite": _deliver(rewriting),
        "records": lambda message: [
            (record.number, record.keys) for record in plain.match_records(io.BytesIO(message), _RECORDS)
        ],
        "batch": lambda message: rewriting.match_batch([message], deliver=True),
    }


def measure(kind: str) -> Row:
    """Measures one kind, in turn with the message that it means, and with expat reading either."""
    pair = KINDS[kind]()
    tasks = _tasks()
    for name in ("match", "rewrite", "records"):
        if tasks[name](pair.declared) != tasks[name](pair.plain):
            raise SystemExit(f"{kind}: the messages differ")
    works = [partial(task, message) for task in tasks.values() for message in pair]
    expats = [partial(parse_with_expat, [message]) for message in (pair.plain, pair.declared)]
    unit, own_unit, *timings = side_by_side(ROUNDS, *expats, *works)
    # A small difference of two times: the middle ones would hold what else the machine did in one of them.
    costs = [timing.best / unit.best for timing in timings]
    pairs = zip(costs[::2], costs[1::2], strict=True)
    above = {name: declared - plain for name, (declared, plain) in zip(tasks, pairs, strict=True)}
    return {
        "kind": kind,
        "MB": len(pair.declared) / 1e6,
        "plain_MB": len(pair.plain) / 1e6,
        "plain_E": costs[1],
        "E": costs[0],
        "expat_E": own_unit.best / unit.best,
        "above_E": above["match"],
        **{f"{name}_above_E": cost for name, cost in above.items() if name != "match"},
        "above_own_E": max(cost for name, cost in above.items() if name != "records") * unit.best / own_unit.best,
        "target_E": TARGET_E,
    }
