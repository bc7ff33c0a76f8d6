"""A synthetic feed: news stories, public alerts and auctions, a few of them malformed as in real feeds."""

import random
from collections.abc import Callable, Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from twigcast.demo.vocabulary import (
    AUTHORS,
    BIDDERS,
    CAP,
    CATEGORIES,
    CITIES,
    EVENTS,
    GOODS,
    LANGUAGES,
    PAYMENTS,
    SECTIONS,
    SEVERITIES,
    STATUSES,
    TOPICS,
    URGENCIES,
)

MESSAGES: Final = 500
"""Number of messages of a feed."""

BROKEN_EVERY: Final = 40
"""The distance between malformed messages."""


def feed(seed: int, count: int = MESSAGES) -> Iterator[tuple[str, bytes]]:
    """Yields the name (``family/number.xml``) and bytes of each message of a feed.

    Args:
        seed: The same seed gives the same feed.
        count: Number of messages.
    """
    chance = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    families: tuple[tuple[str, Callable[[random.Random, int], str]], ...] = (
        ("news", _story),
        ("alerts", _alert),
        ("auctions", _auction),
    )
    for number in range(1, count + 1):
        family, write = families[chance.choices((0, 1, 2), weights=(5, 2, 3))[0]]
        text = write(chance, number)
        data = _broken(chance, text, number // BROKEN_EVERY) if number % BROKEN_EVERY == 0 else _encoded(chance, text)
        yield f"{family}/{number:04d}.xml", data


def _encoded(chance: random.Random, text: str) -> bytes:
    """Returns a message in UTF-8 or, sometimes, in another encoding that it declares."""
    encoding = chance.choices(("utf-8", "iso-8859-1", "utf-16"), weights=(94, 4, 2))[0]
    return f'<?xml version="1.0" encoding="{encoding}"?>\n{text}\n'.encode(encoding)


def _broken(chance: random.Random, text: str, kind: int) -> bytes:
    """Returns a message with one of ten errors."""
    position = chance.randrange(len(text) // 3, 2 * len(text) // 3)
    end = text.rindex("</")
    breaks: tuple[Callable[[], bytes], ...] = (
        lambda: text[:position].encode(),  # the connection was cut
        lambda: f"{text[:end]}<p>Salt & vinegar</p>{text[end:]}".encode(),  # an ampersand as it is
        lambda: f"{text[:end]}<b><i>news</b></i>{text[end:]}".encode(),  # tags crossed
        lambda: f"{text[:end]}<geo:point>1 2</geo:point>{text[end:]}".encode(),  # a prefix from nowhere
        lambda: f"{text[:end]}<p>caf\xe9</p>{text[end:]}".encode("iso-8859-1", "replace"),  # not UTF-8
        lambda: f"{text[:end]}<p>\x0b</p>{text[end:]}".encode(),  # a character that XML does not allow
        lambda: b"",  # nothing at all
        lambda: (text + text).encode(),  # two messages in one
        lambda: f"{text[:end]}<p a='1' a='2'/>{text[end:]}".encode(),  # an attribute twice
        lambda: f"{text[:end]}<p>&nbsp;</p>{text[end:]}".encode(),  # an entity of HTML
    )
    return breaks[kind % len(breaks)]()


def _time(chance: random.Random) -> str:
    month, day = chance.randint(1, 12), chance.randint(1, 28)
    return f"2026-{month:02d}-{day:02d}T{chance.randint(0, 23):02d}:{chance.randint(0, 59):02d}:00Z"


def _story(chance: random.Random, number: int) -> str:
    city, country = chance.choice(CITIES)
    topics = chance.sample(TOPICS, chance.randint(1, 3))
    period = chance.choice(("week", "month", "year"))
    paragraphs = [f"<p>{escape(_sentence(chance, city, topics))}</p>" for _ in range(chance.randint(2, 6))]
    if chance.random() < 0.2:
        paragraphs.append("<p>See also <a href='/archive?topic=1&amp;page=2'>the archive</a>.</p>")
    paragraphs += [_photo(chance, city, topics) for _ in range(chance.choice((0, 0, 1, 2)))]
    return f"""<story id="n{number}" lang="{chance.choice(LANGUAGES)}" priority="{chance.randint(1, 9)}">
  <head>
    <title>{city}: {topics[0].capitalize()} and {chance.choice(TOPICS)} this {period}</title>
    <byline>{chance.choice(AUTHORS)}</byline>
    <published>{_time(chance)}</published>
    <section>{chance.choice(SECTIONS)}</section>
    <place country="{country}">{city}</place>
    <topics>{"".join(f"<topic>{topic}</topic>" for topic in topics)}</topics>
  </head>
  <body words="{chance.randint(80, 1500)}">{"".join(paragraphs)}</body>
</story>"""


def _photo(chance: random.Random, city: str, topics: list[str]) -> str:
    width = chance.choice((640, 1280, 1920))
    return f"<photo width='{width}'><caption>{city}, <em>{chance.choice(topics)}</em></caption></photo>"


def _sentence(chance: random.Random, city: str, topics: list[str]) -> str:
    topic = chance.choice(topics)
    return chance.choice(
        (
            f"Officials in {city} will discuss {topic} on {chance.choice(('Monday', 'Thursday', 'Friday'))}.",
            f"Spending on {topic} rose by {chance.randint(1, 30)}% < last year's {chance.randint(31, 60)}%.",
            f'"We expect more," said {chance.choice(AUTHORS)}.',
            f"Readers & guests met in {city} to talk about {topic}.",
        )
    )


def _alert(chance: random.Random, number: int) -> str:
    infos = "".join(_alert_info(chance) for _ in range(chance.choice((1, 1, 2))))
    return f"""<alert xmlns="{CAP}">
  <identifier>demo-{number}</identifier>
  <sender>warnings@{chance.choice(CITIES)[0].lower()}.example</sender>
  <sent>{_time(chance)}</sent>
  <status>{chance.choice(STATUSES)}</status>
  <msgType>{chance.choice(("Alert", "Alert", "Update", "Cancel"))}</msgType>
  <scope>Public</scope>{infos}
</alert>"""


def _alert_info(chance: random.Random) -> str:
    event = chance.choice(EVENTS)
    areas = "".join(
        f"""
    <area><areaDesc>{city}</areaDesc><geocode><valueName>country</valueName><value>{country}</value></geocode></area>"""
        for city, country in chance.sample(CITIES, chance.randint(1, 3))
    )
    level = chance.randint(1, 5)
    return f"""
  <info>
    <language>{chance.choice(LANGUAGES)}</language>
    <category>{"Geo" if event == "Earthquake" else "Met"}</category>
    <event>{event}</event>
    <urgency>{chance.choice(URGENCIES)}</urgency>
    <severity>{chance.choice(SEVERITIES)}</severity>
    <certainty>{chance.choice(("Observed", "Likely", "Possible"))}</certainty>
    <headline>{event} warning, level {level}</headline>
    <parameter><valueName>level</valueName><value>{level}</value></parameter>{areas}
  </info>"""


def _auction(chance: random.Random, number: int) -> str:
    category = chance.choice(CATEGORIES)
    price = float(chance.randint(5, 400))
    bids = []
    for _ in range(chance.randint(0, 6)):
        price += chance.randint(1, 60)
        bids.append(f"<bid by={quoteattr(chance.choice(BIDDERS))} at={quoteattr(_time(chance))}>{price:.2f}</bid>")
    city, country = chance.choice(CITIES)
    origin = chance.choice(("private house", "museum", "workshop"))
    reserve = f"\n  <reserve>{price + chance.randint(-80, 120):.2f}</reserve>" if chance.random() < 0.5 else ""
    return f"""<auction id="a{number}" status="{chance.choice(("open", "open", "closed", "cancelled"))}">
  <item category="{category}" condition="{chance.choice(("new", "good", "worn"))}">
    <name>{escape(chance.choice(GOODS[category]))}</name>
    <description>From a {origin} in <location country="{country}">{city}</location>, <!-- seen --> as is.</description>
  </item>
  <seller rating="{chance.randint(1, 50) / 10}">{chance.choice(BIDDERS)}</seller>{reserve}
  <payment>{" ".join(chance.sample(PAYMENTS, chance.randint(1, 3)))}</payment>
  <bids count="{len(bids)}">{"".join(bids)}</bids>
</auction>"""
