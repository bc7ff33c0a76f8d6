"""From how many subscriptions on a `SubscriptionSet` is worth it: against a loop over compiled XPaths of lxml.

Both get bytes and say who wants them. The loop parses once and asks every query, as people write it. The answers are
compared before timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lxml import etree

from benchmarks import workloads
from benchmarks.measure import Row, side_by_side
from twigcast import SubscriptionSet

COUNTS = (1, 2, 3, 5, 10, 20, 50, 100, 1_000)
MESSAGES = 100
ROUNDS = 9
_SEVERITIES = ("Minor", "Moderate", "Severe", "Extreme")
_EVENTS = ("Flood", "Storm", "Fire", "Heat", "Frost", "Snow", "Landslide", "Avalanche")


def _alert(number: int) -> bytes:
    """Returns a small alert, of some 500 bytes."""
    event, severity = _EVENTS[number % len(_EVENTS)], _SEVERITIES[number % len(_SEVERITIES)]
    return (
        f"<alert><identifier>a{number}</identifier><status>Actual</status><info><event>{event}</event>"
        f"<severity>{severity}</severity><headline>{event} in county {number % 97}</headline>"
        f"<description>{'Take care and listen to the radio. ' * 6}</description>"
        f"<area><areaDesc>County {number % 97}</areaDesc><code>{number % 97}</code></area></info></alert>"
    ).encode()


def _alert_queries() -> list[str]:
    plain = [
        f"/alert/info[event = '{event}'][severity = '{severity}']" for event in _EVENTS for severity in _SEVERITIES
    ]
    return plain + [f"/alert/info[area/code = '{n}'][event = '{_EVENTS[n % len(_EVENTS)]}']" for n in range(1_000)]


def _in_a_loop(queries: Sequence[str], messages: Sequence[bytes]) -> Callable[[], list[list[int]]]:
    compiled = [etree.XPath(query) for query in queries]

    def run() -> list[list[int]]:
        answers = []
        for message in messages:
            tree = etree.fromstring(message)
            answers.append([number for number, query in enumerate(compiled) if query(tree)])
        return answers

    return run


def _in_a_set(queries: Sequence[str], messages: Sequence[bytes]) -> Callable[[], list[list[str]]]:
    subscriptions = SubscriptionSet({str(number): query for number, query in enumerate(queries)})
    return lambda: [subscriptions.match(message).keys for message in messages]


def measure(quick: bool = False) -> list[Row]:
    """All rows."""
    feeds = {
        "alerts": ([_alert(number) for number in range(MESSAGES)], _alert_queries()),
        "news": (workloads.messages("news")[:MESSAGES], workloads.queries("news", "1k")),
    }
    rows: list[Row] = []
    for feed, (messages, queries) in feeds.items():
        size = sum(map(len, messages)) // len(messages)
        for count in COUNTS[: 2 if quick else None]:
            loop, together = _in_a_loop(queries[:count], messages), _in_a_set(queries[:count], messages)
            if [sorted(map(int, keys)) for keys in together()] != loop():
                raise SystemExit(f"{feed}, {count} queries: the answers differ from libxml2's")
            theirs, ours = (1e6 * timing.median / len(messages) for timing in side_by_side(ROUNDS, loop, together))
            rows.append(
                {
                    "feed": feed,
                    "bytes": size,
                    "queries": count,
                    "loop_us": theirs,
                    "set_us": ours,
                    "loop_of_set": theirs / ours,
                }
            )
    return rows
