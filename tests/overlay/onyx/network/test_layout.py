"""The bytes of a frame of each kind, and of element streams, as brokers of this version of the protocol write them.

Brokers of one major version must understand each other. So where something here changes, `PROTOCOL` has to
change too, the major number of it, and these bytes are written down anew: `python -m
tests.overlay.onyx.network.test_layout`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twigcast._core import NameDictionary, ParsedMessage
from twigcast.overlay.onyx import messages
from twigcast.overlay.onyx.lexicon import LexiconUpdate
from twigcast.overlay.onyx.network import frames
from twigcast.overlay.onyx.network.greeting import GoAway, Greeting, Ping, Pong, Ready

LAYOUT = Path(__file__).with_name("layout.json")
PATH = messages.LinearPath("/feed/item[@area = 'p:x']", (("p", "urn:p"),))
DISJUNCT = messages.Disjunct("default", frozenset({PATH}))
MESSAGE = messages.OverlayMessage(
    1 << 61, 300, "default", "feed", "m-1", "application/xml", b"<a/>", "stream", (5, 1 << 61), 1.5, "part"
)
SPAN = messages.Span(1 << 61, 299, 300, MESSAGE)
EXAMPLES = (
    # The greeting says the version: what lies behind it may differ, it and the name may not.
    Greeting((3, 0), "north", bytes(range(16)), 7, "north:7400", 2.5, "twigcast"),
    Ready(),
    GoAway("version", "it speaks another one"),
    Ping(12),
    Pong(12, 0.25),
    LexiconUpdate(77, 76, ("a", "b")),
    SPAN,
    messages.Span(9, -1, 200, None),
    messages.Hello(9, 2, (3, 0), ("stream", "text")),
    messages.LinkState(9, 2, 3, ((8, 4), (7, 1)), "somewhere"),
    messages.RoutingDelta(4, ((DISJUNCT, frozenset({9, 8})), (DISJUNCT, messages.EVERYWHERE)), (DISJUNCT,)),
    messages.Attach(9, 3, 2),
    messages.Attached(9, 3, -1),
    messages.Detach(9),
    messages.Recover(9, 4, 8, frozenset({DISJUNCT}), (3, 2)),
    messages.Recovered(SPAN, (2, 3), True, False),
    messages.StoredReport(9, 130, 4),
    messages.SourceEntry("feed", 2, 9, "<!ELEMENT a ANY>", 0.5, 2_000, False, "ab"),
    messages.ServiceMessage(9, 8, 1, b"said"),
    messages.SetProjection((("default", "part"),), True),
    messages.PeerMessage(b"of a peer"),
)


def layout() -> dict[str, str]:
    """The frames of the examples."""
    written = {}
    for number, example in enumerate(EXAMPLES):
        written[f"{number} {type(example).__name__}"] = frames.frame(example).hex()
    return written


TEXT = b"<a y='1' xmlns='urn:x' xmlns:p='urn:y' p:q='2'><b>t</b><!--c--><b y='&amp;'/><?p i?></a>"
NAMES = NameDictionary(["a", "b", "xmlns"])


def streams() -> dict[str, str]:
    """The streams of one message."""
    message = ParsedMessage.from_text(TEXT)
    written = {"once": message.stream(), "in full": message.stream(in_full=True), "by number": message.stream(NAMES)}
    return {names: stream.hex() for names, stream in written.items()}


def test_frames_and_streams_are_those_of_this_version() -> None:
    reported = json.loads(LAYOUT.read_text(encoding="ascii"))
    assert reported["version"] == list(messages.PROTOCOL), "another version: write the layout anew"
    assert layout() == reported["frames"], "frames have changed: raise the major version of messages.PROTOCOL"
    assert streams() == reported["streams"], (
        "element streams have changed: raise the major version of messages.PROTOCOL"
    )


def test_streams_are_read() -> None:
    reported = json.loads(LAYOUT.read_text(encoding="ascii"))["streams"]
    texts = {ParsedMessage.from_stream(bytes.fromhex(stream), NAMES).text() for stream in reported.values()}
    assert texts == {b'<a xmlns="urn:x" xmlns:p="urn:y" y="1" p:q="2"><b>t</b><!--c--><b y="&amp;"/><?p i?></a>'}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_they_are_read(example: object) -> None:
    assert frames.read_packet(frames.packet([frames.frame(example)])) == [example]


def test_there_is_one_of_each_kind() -> None:
    assert {type(example) for example in EXAMPLES} == set(frames.CODECS)


if __name__ == "__main__":
    text = json.dumps({"version": messages.PROTOCOL, "frames": layout(), "streams": streams()}, indent=2)
    LAYOUT.write_text(text + "\n", encoding="ascii")
