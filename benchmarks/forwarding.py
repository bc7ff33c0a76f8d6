"""What a broker computes to send a message on: read it, route it; the forms of its body side by side."""

from __future__ import annotations

from collections.abc import Callable
from pyexpat import ParserCreate

from benchmarks import workloads
from benchmarks.measure import Row, parse_with_expat, side_by_side
from twigcast._core import Engine, RoutingTable
from twigcast.experiments.variants import DTD
from twigcast.overlay.onyx.wire import Coder, Dictionaries, Form, names_of
from twigcast.schema import read_dtd
from twigcast.workload import bundled_dtd

ROUNDS = 15
PATHS = 10_000
"""Linear paths of the routing table, one disjunct each."""
NEIGHBOURS = 4
FORMS = ("text", "stream", "dictionary", "text+zlib", "dictionary+zlib", "dictionary+zstd")


def feeds() -> list[str]:
    """The feeds to measure."""
    return ["news", "nitf"] if workloads.has_shared() else ["news"]


def measure(feed: str) -> list[Row]:
    """A row for each form: bytes, reading alone, and reading with routing."""
    messages = workloads.messages(feed)
    schema = bundled_dtd("news") if feed == "news" else read_dtd(workloads.SHARED / "nitf" / DTD)
    dictionaries = Dictionaries()
    dictionary = dictionaries.learn(names_of(schema))
    coder = Coder(dictionaries)
    table = RoutingTable()
    for number, path in enumerate(workloads.queries(feed, "10k")[:PATHS]):
        table.add([(path, {})], [number % NEIGHBOURS])
    wanted = [(label, label) for label in range(NEIGHBOURS)]
    # One query that asks for an attribute and a text, and never matches: reading and nothing else.
    idle = Engine()
    idle.add("idle", "/none[@none = '1']/none = '1'", {}, "xpath", False)

    def reading(bodies: list[bytes], form: Form) -> Callable[[], None]:
        def work() -> None:
            for body in bodies:
                opened = coder.open(body, form)
                if opened.is_stream:
                    idle.match_stream(opened.body, opened.dictionary)
                else:
                    idle.match_with_failures(opened.body)

        return work

    def routing(bodies: list[bytes], form: Form) -> Callable[[], None]:
        def work() -> None:
            for body in bodies:
                coder.open(body, form).route(table, wanted)

        return work

    forms = [Form.named(name) for name in FORMS]
    bodies = [[coder.write(message, form, dictionary) for message in messages] for form in forms]
    works = [make(body, form) for body, form in zip(bodies, forms, strict=True) for make in (reading, routing)]
    unit, *timings = side_by_side(ROUNDS, lambda: parse_with_expat(messages), *works)
    rows: list[Row] = [{"feed": feed, "form": "text, by expat with handlers", **_expat(messages, unit.median)}]
    for index, (form, body) in enumerate(zip(forms, bodies, strict=True)):
        read, routed = (timing.median for timing in timings[2 * index : 2 * index + 2])
        rows.append(
            {
                "feed": feed,
                "form": str(form),
                "bytes": sum(map(len, body)) // len(body),
                "read_E": read / unit.median,
                "read_and_route_E": routed / unit.median,
                "route_us": routed / len(messages) * 1e6,
            }
        )
    return rows


def _expat(messages: list[bytes], unit: float) -> Row:
    """A parser that hands its events to Python, as a broker without a core of its own would have."""

    def work() -> None:
        for message in messages:
            parser = ParserCreate(namespace_separator=" ")
            events: list[object] = []
            parser.StartElementHandler = lambda name, attributes, take=events.append: take((name, attributes))
            parser.EndElementHandler = events.append
            parser.CharacterDataHandler = events.append
            parser.Parse(message, True)

    [timing] = side_by_side(3, work)
    return {"bytes": sum(map(len, messages)) // len(messages), "read_E": timing.median / unit}
