"""What a broker in the middle computes for a message: receive, route, send on; the forms of its body side by side.

Routing ends where all neighbours are known to want the message. So a second table has one that wants what is in no
message: then all of each message has to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pyexpat import ParserCreate

from benchmarks import workloads
from benchmarks.measure import Row, parse_with_expat, side_by_side
from twigcast._core import ConjunctionIndex, Engine, LabelRequest
from twigcast.overlay.onyx.lexicon import LexiconUpdate
from twigcast.overlay.onyx.messages import Hello, OverlayMessage, Span
from twigcast.overlay.onyx.network.frames import frame, messages_of, packet
from twigcast.overlay.onyx.wire import WireForm
from twigcast.overlay.onyx.wire.bodies import Bodies, DecodedBody
from twigcast.overlay.onyx.wire.exchange import Exchange

ROUNDS = 15
PATHS = 10_000
"""Linear paths of the routing table, one disjunct each."""
NEIGHBOURS = 4
NEVER = "/never/found"
FORMS = ("text", "stream", "dictionary", "text+zlib", "dictionary+zlib", "dictionary+zstd")


def feeds() -> list[str]:
    """The feeds to measure."""
    return ["news", "nitf"] if workloads.has_shared() else ["news"]


def measure(feed: str) -> list[Row]:
    """A row for each form: bytes, reading alone, routing, and all that forwarding takes."""
    messages = workloads.messages(feed)
    unreached, reached = (_table(feed, unreached) for unreached in (True, False))
    # One query that asks for an attribute and a text, and never matches: reading and nothing else.
    idle = Engine()
    idle.add("idle", "/none[@none = '1']/none = '1'", {}, "xpath", False)
    forms = [WireForm.named(name) for name in FORMS]
    links = [_Link(form, messages) for form in forms]

    def reading(link: _Link) -> Callable[[], None]:
        def work() -> None:
            for message in link.messages:
                opened = link.bodies.opened(message)
                if opened.is_stream:
                    idle.match_stream(opened.body, opened.dictionary)
                else:
                    idle.answer(opened.body)

        return work

    def routing(link: _Link, table: ConjunctionIndex, requested: LabelRequest) -> Callable[[], None]:
        def work() -> None:
            for message in link.messages:
                _route(table, link.bodies.opened(message), requested)

        return work

    works: list[Callable[[], None]] = []
    for link in links:
        works += [reading(link), routing(link, *reached), routing(link, *unreached), partial(link.forward, *reached)]
    unit, *timings = side_by_side(ROUNDS, lambda: parse_with_expat(messages), *works)
    rows: list[Row] = [{"feed": feed, "form": "text, by expat with handlers", **_expat(messages, unit.median)}]
    of_text = [timing.median for timing in timings[:4]]
    for index, (form, link) in enumerate(zip(forms, links, strict=True)):
        read, routed, looked_through, forwarded = (timing.median for timing in timings[4 * index : 4 * index + 4])
        rows.append(
            {
                "feed": feed,
                "form": str(form),
                "bytes": sum(len(message.body) for message in link.messages) // len(messages),
                "read_E": read / unit.median,
                "read_and_route_E": routed / unit.median,
                "of_text": routed / of_text[1],
                "all_looked_at_E": looked_through / unit.median,
                "all_looked_at_of_text": looked_through / of_text[2],
                "forward_us": forwarded / len(messages) * 1e6,
                "forward_of_text": forwarded / of_text[3],
            }
        )
    return rows


def _table(feed: str, unreached: bool) -> tuple[ConjunctionIndex, LabelRequest]:
    """A routing table, and what is asked of it."""
    table = ConjunctionIndex()
    for number, path in enumerate(workloads.queries(feed, "10k")[:PATHS]):
        table.add([(path, {})], [number % NEIGHBOURS])
    if unreached:
        table.add([(NEVER, {})], [NEIGHBOURS])
    return table, LabelRequest([(label, label) for label in range(NEIGHBOURS + unreached)])


def _route(table: ConjunctionIndex, opened: DecodedBody, requested: LabelRequest) -> int:
    """Returns the targets of a message, asked for as a broker does."""
    if opened.is_stream:
        return table.route_stream(opened.body, opened.dictionary, requested)
    return table.route(opened.body, requested)


class _Link:
    """A broker between two neighbours that speak one form.

    Args:
        form: It.
        texts: Messages.
    """

    def __init__(self, form: WireForm, texts: list[bytes]) -> None:
        hello = Hello(1, 1, (1, 0), (str(form),))
        before, self._comes, self._goes = (Exchange(Bodies(), (str(form), "text")) for _ in range(3))
        self.bodies = Bodies()
        for exchange in (before, self._comes, self._goes):
            exchange.on_hello(hello)
        self._packets: list[bytes] = []
        self.messages: list[OverlayMessage] = []
        for number, text in enumerate(texts, 1):
            message = OverlayMessage(7, number, "default", "feed", str(number), "application/xml", text, path=(7,))
            for each in before.outgoing(Span(7, number - 1, number, message)):
                if isinstance(each, LexiconUpdate):
                    self._comes.learn(each)
                    continue
                self._packets.append(packet([frame(each)]))
                # As it comes over the wire: with the dictionary that was learnt there.
                (arrived,) = messages_of(self._packets[-1], self._comes.agreed)
                received = self._comes.incoming(arrived).message
                assert received is not None
                self.messages.append(received)
        # Brokers send many more messages than they teach dictionaries.
        for message in self.messages:
            list(self._goes.outgoing(Span(7, 0, message.number, message)))

    def forward(self, table: ConjunctionIndex, requested: LabelRequest) -> None:
        """Receive all messages, find who wants them, send them on to one neighbour."""
        for data in self._packets:
            (received,) = messages_of(data, self._comes.agreed)
            span = self._comes.incoming(received)
            message = span.message
            _route(table, self.bodies.opened(message), requested)
            onward = message.passed_on(8)
            for each in self._goes.outgoing(Span(span.root, span.after, span.upto, onward)):
                packet([frame(each)])


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
