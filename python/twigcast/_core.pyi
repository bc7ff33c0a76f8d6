"""The compiled matching core. Use :class:`twigcast.SubscriptionSet`; this module converts and nothing more.

Errors are those of :mod:`twigcast.errors`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, final

from twigcast.errors import TwigcastError

VERSION: str
"""Version of the compiled module; equals that of the package."""

PACKET_FORM: int
"""Version of the form of packets between brokers."""
PACKET_BYTES_MAX: int
"""The largest packet that is read: one message with the largest body fits."""
PACKET_FRAMES_MAX: int
"""Most frames in one packet."""
BODY_BYTES_MAX: int
"""Most bytes of a message's body in a frame."""

def packet_frames(packet: bytes) -> list[tuple[int, int, int]]:
    """The frames of a packet: of each its kind, where its fields begin, and where they end.

    Raises ``ValueError`` where it is damaged, cut off, of another form or beyond a bound.
    """

def packet_of(frames: list[bytes]) -> bytes:
    """Frames as one packet, with its sum."""

@final
class Engine:
    """A subscription population and the shared structures compiled from it. Safe to use from several threads."""

    def __new__(cls, limits: Mapping[str, int] = ...) -> Engine:
        """Make an empty engine. ``limits``: names and values as in ``twigcast.Limits``."""

    def add(self, key: str, query: str, namespaces: Mapping[str, str], dialect: str, replace: bool) -> list[str]:
        """Register one query; returns warnings. ``dialect`` is ``"xpath"``, ``"legacy"`` or ``"xquery"``."""

    def add_many(
        self,
        keys: Sequence[str],
        queries: Sequence[str],
        namespaces: Sequence[Mapping[str, str]],
        dialect: str,
        replace: bool,
    ) -> list[tuple[int, TwigcastError]]:
        """Register many. Returns (index, error) of the refused ones.

        ``namespaces`` holds one mapping per query, or exactly one for all.
        """

    def add_pairs(
        self, pairs: list[Any], namespaces: Mapping[str, str], dialect: str, replace: bool
    ) -> list[tuple[int, TwigcastError]] | None:
        """``add_many`` of a list of tuples of key and query. ``None``: some are not just that; nothing was added."""

    def remove(self, key: str) -> bool:
        """Remove a subscription; whether it was there."""

    def __len__(self) -> int: ...
    def __contains__(self, key: str) -> bool: ...
    def keys(self) -> list[str]:
        """All keys, in slot order."""

    def query(self, key: str) -> tuple[str, dict[str, str], str] | None:
        """The text, namespaces and dialect of a subscription."""

    def rewrites(self, key: str) -> bool:
        """Whether the subscription is a For-Where-Return query (it delivers a payload of its own)."""

    @property
    def version(self) -> int:
        """Grows with each change of the population."""

    @property
    def keys_at(self) -> tuple[int, int]:
        """The version of the keys, and how many slots there are.

        As long as the version stays, a slot keeps its key, unless it comes into no use. Further slots may come.
        """

    def key_table(self, known: tuple[int, int, int] = ...) -> tuple[int, int, bytes, bytes]:
        """The version of the keys, and the keys by slot as an Arrow string array: 32-bit offsets and text.

        Slots are what ``match`` and ``match_batch`` answer with; those in no use have an empty key. ``known`` is a
        table that the caller has: the version of its keys, how many there are, and the bytes of their text. If it is
        right, what is answered goes behind it. The second number is that of the first slot: 0, or how many are known.
        """

    def group_table(self) -> tuple[int, bytes, bytes, bytes]:
        """The version, and the keys by query, as an Arrow array of lists of strings.

        That is: where each query's keys begin and end among all keys, and offsets and text of these. Queries stand for
        their subscriptions in a ``grouped`` answer of ``match_batch``.
        """

    def slots_of(self, keys: Sequence[str]) -> list[int | None]:
        """The slots of subscriptions by their keys (``None``: there is no such one), to keep a table after changes."""

    def match(self, xml: bytes) -> list[int]:
        """Slots of the matching subscriptions, ascending. Releases the GIL."""

    def match_with_failures(self, xml: bytes) -> tuple[list[int], list[tuple[int, str]]]:
        """Like ``match``, with (slot, reason) of the subscriptions that could not be decided on this message."""

    def answer(self, xml: bytes) -> tuple[Answer, list[tuple[str, str]]]:
        """The matching subscriptions, without a look at their keys yet, and (key, reason) of those not decided.

        Releases the GIL.
        """

    def match_stream(
        self, stream: bytes, dictionary: NameDictionary | None = None
    ) -> tuple[list[int], list[tuple[int, str]]]:
        """Like ``match_with_failures``, for a message that comes as an element stream (``ParsedMessage.stream``)."""

    def nodes(self, xml: bytes, key: str) -> list[tuple[str, str, int, int, int, int]]:
        """The nodes that a subscription selects: (kind, name, start, end, line, column).

        ``start`` and ``end`` are bytes from 0, line and column count from 1.
        """

    @property
    def has_external(self) -> bool:
        """Whether there may be queries that another processor evaluates; matching is only necessary for these."""

    def share_results(self, share: bool) -> None:
        """Whether results of different queries are computed together, which is what one wants; for measuring."""

    def external(self) -> list[tuple[int, str, str, dict[str, str]]]:
        """The subscriptions to such queries: slot, key, query and namespaces."""

    def deliver(self, xml: bytes) -> tuple[list[int], list[int | None], list[bytes], list[tuple[str, str]]]:
        """What one message is delivered as: matching slots, number of the payload for each, payloads, and failures.

        The number is ``None`` where the message itself is delivered. Subscriptions that get the same payload share it.
        Failures are (key, reason).
        """

    def results(self, xml: bytes) -> tuple[Results, list[tuple[str, str]]]:
        """As ``deliver``, but with deliveries and results that are made when they are asked for; and failures."""

    def match_batch(
        self,
        offsets: bytes,
        data: bytes | memoryview,
        count: int,
        validity: bytes | None,
        deliver: bool,
        nodes: bool,
        threads: int,
        known: tuple[int, int, int] | None = None,
        grouped: bool = False,
    ) -> BatchResult:
        """Match ``count`` messages laid out as an Arrow large-binary array (64-bit offsets). Releases the GIL.

        Of a slice, ``offsets`` are its own, and ``data`` begin where the first of them points. A view (of format ``B``)
        is copied once, into memory that the engine keeps; ``bytes`` are not copied.

        All are matched against the population as it is at one moment. Unless the caller's table of keys, ``known``
        (see ``key_table``), is right for that, the answer brings the keys that it needs, or what is missing at the end
        of the table; ``None``: it never does. ``grouped``: the answer is in queries rather than slots, and the first
        number of ``known`` is the version of the group table.
        """

    def save(self, path: str) -> None:
        """Write a snapshot, atomically."""

    @staticmethod
    def load(path: str, limits: Mapping[str, int] = ...) -> Engine:
        """Read a snapshot. Raises ``SnapshotError`` on a damaged file or one of another version."""

    def describe(self, key: str) -> dict[str, str]:
        """How a subscription runs: ``route``, ``normal_form``, ``reason``.

        A route is ``automaton``, ``twig``, ``keyed`` or ``verified``.
        """

    def explain(self, xml: bytes, query: str, namespaces: Mapping[str, str], dialect: str) -> str:
        """Why a query matches a message or not, as a JSON object (see ``twigcast.explain``)."""

    def statistics(self) -> dict[str, int]:
        """Counts and byte sizes of the shared structures."""

@final
class Answer:
    """The subscriptions that one message matched when it was asked. What changes later changes nothing in it."""

    def __len__(self) -> int:
        """How many there are: known beforehand."""

    def __contains__(self, key: object) -> bool:
        """Whether a subscription matched; the others are not looked at."""

    def keys(self) -> list[str]:
        """The keys, looked up now."""

@final
class Numbers:
    """32-bit numbers, in memory that is used again once nobody looks at them: a buffer of bytes, to be read only."""

    def __len__(self) -> int:
        """How many numbers there are."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Bytes:
    """Bytes, in memory that is used again once nobody looks at them: a buffer, to be read only."""

    def __len__(self) -> int:
        """How many bytes there are."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class BatchResult:
    """Answers to one batch, as raw little-endian Arrow buffers."""

    @property
    def key_offsets(self) -> bytes:
        """``count + 1`` 32-bit offsets into ``found``."""

    @property
    def slots(self) -> bytes:
        """32-bit slots of all matches, message after message; where there are ``keys``, places in these.

        Copied when asked for, from ``found``.
        """

    @property
    def found(self) -> Numbers:
        """The slots; where the answer is grouped, the same for queries: places in the group table, or in ``groups``."""

    @property
    def match_counts(self) -> bytes:
        """32-bit number of matching subscriptions per message, where the answer is grouped."""

    @property
    def groups(self) -> tuple[bytes, bytes, bytes] | None:
        """The keys of the matching subscriptions by query, as in a group table."""

    @property
    def keys(self) -> tuple[bytes, bytes] | None:
        """What ``slots`` are places in, as an Arrow string array: 32-bit offsets and text.

        The keys of the matching subscriptions, each once; where matches are many, the keys by slot as in a key table.
        """

    @property
    def more_keys(self) -> tuple[bytes, bytes] | None:
        """The keys of the slots behind those of the caller's table, as an Arrow string array to be put behind that."""

    @property
    def node_counts(self) -> bytes:
        """32-bit number of selected nodes per match; empty unless asked for."""

    @property
    def payload_numbers(self) -> Numbers:
        """32-bit number of the payload per match, -1 where there is none; empty unless asked for."""

    @property
    def payload_validity(self) -> bytes:
        """A bit per match, set where it has a payload; empty where all have one."""

    @property
    def payload_offsets(self) -> bytes:
        """64-bit offsets into ``payloads``, one more than there are different payloads."""

    @property
    def payloads(self) -> Bytes:
        """All different payloads, one after the other."""

    @property
    def errors(self) -> list[tuple[int, TwigcastError]]:
        """(row, error) of the messages that were rejected."""

    @property
    def failures(self) -> list[tuple[int, TwigcastError]]:
        """(row, UndecidedSubscription) of the subscriptions that failed on a message; its other answers stand."""

    @property
    def needs_conversion(self) -> list[int]:
        """Rows to convert to plain UTF-8 (``twigcast.reading.conversion.to_utf8``) and match again."""

@final
class SpanCodec:
    """Reads and writes the fields of spans. Use :mod:`twigcast.overlay.onyx.network.packets`.

    Both classes are named tuples: a span of (root, after, upto, message or ``None``), a message as in
    :class:`twigcast.overlay.onyx.messages.OverlayMessage`.
    """

    def __new__(cls, span: type, message: type) -> SpanCodec:
        """A codec that makes spans and messages of these classes."""

    def read(
        self,
        data: bytes,
        start: int,
        end: int,
        agreed: dict[str, tuple[str, Any]] | None = None,
    ) -> tuple[Any, int]:
        """The span that begins at ``start``, in a frame that ends at ``end``; and where the span ends.

        ``agreed``: for forms of messages as they are written, the form and the lexicon that are put in their place.
        Raises ``ValueError``, saying what is wrong.
        """

    def packet(
        self, kind: int, packet: bytes, agreed: dict[str, tuple[str, Any]] | None = None
    ) -> tuple[list[Any], list[tuple[int, int, int]]]:
        """The spans that a packet begins with, and where the frames behind the last of them lie (``packet_frames``).

        ``kind``: that of spans. Raises ``ValueError`` for what is no packet, or no span.
        """

    def fields(self, span: tuple[Any, ...]) -> bytes:
        """The fields of a span: of a message with a lexicon, the name of this behind that of the form.

        Raises ``ValueError`` for numbers out of range.
        """

    def frame(self, kind: int, span: tuple[Any, ...]) -> bytes:
        """The same as a frame."""

@final
class WantedLabels:
    """What many messages ask of a routing table: labels, and the target, below 64, that each stands for."""

    def __new__(cls, labels: Sequence[tuple[int, int]]) -> WantedLabels:
        """These labels."""

    def __len__(self) -> int: ...

@final
class RoutingTable:
    """Conjunctions of linear paths, each path matched once for all of them.

    Use :mod:`twigcast.overlay.onyx.content.routing_table`.

    A conjunction has *labels*, small numbers; each message says which labels count and for which target each stands. A
    conjunction holds when all its paths match, wherever they do; one without paths always holds.
    """

    def __new__(cls, limits: Mapping[str, int] = ...) -> RoutingTable:
        """Make an empty table. ``limits``: names and values as in ``twigcast.Limits``."""

    def add(self, paths: Sequence[tuple[str, Mapping[str, str]]], labels: Sequence[int]) -> int:
        """Add a conjunction of paths, each with its namespaces; returns its number. Raises ``QueryError``."""

    def set_labels(self, conjunction: int, labels: Sequence[int]) -> bool:
        """Give a conjunction other labels; whether it is there."""

    def remove(self, conjunction: int) -> bool:
        """Remove a conjunction; whether it was there."""

    def __len__(self) -> int: ...
    def route(self, xml: bytes, wanted: WantedLabels | Sequence[tuple[int, int]]) -> int:
        """The targets of a message, as bits. ``wanted``: labels and the target, below 64, that each stands for.

        Targets that are reached are not looked for again; a path that cannot be decided counts as matching. Releases
        the GIL. Where no path has to be looked at, the message is not even scanned.
        """

    def route_stream(
        self, stream: bytes, dictionary: NameDictionary | None, wanted: WantedLabels | Sequence[tuple[int, int]]
    ) -> int:
        """Like ``route``, for a message that comes as an element stream (``ParsedMessage.stream``)."""

    def holding(self, xml: bytes) -> list[int]:
        """The conjunctions that hold on a message, whatever their labels, ascending."""

    def statistics(self) -> dict[str, int]:
        """Counts and byte sizes of the shared structures."""

@final
class NameDictionary:
    """Names of elements and attributes as written, known to both ends of a link, for element streams."""

    def __new__(cls, names: Sequence[str]) -> NameDictionary:
        """A dictionary of these names, in this order. Raises ``ValueError`` for what is no name or stands twice."""

    @property
    def id(self) -> int:
        """A hash of the names: 64 bits, the same on every machine."""

    def __len__(self) -> int: ...

@final
class ParsedMessage:
    """A message that was parsed once, to be written in any form. A stream says what a message says, not how."""

    @staticmethod
    def from_text(xml: bytes, limits: Mapping[str, int] = ...) -> ParsedMessage:
        """Parse a UTF-8 message. Raises ``RejectedMessage``, of these ``NeedsConversion`` where another form is due."""

    @staticmethod
    def from_stream(
        stream: bytes, dictionary: NameDictionary | None = None, limits: Mapping[str, int] = ...
    ) -> ParsedMessage:
        """Read an element stream.

        Raises ``RejectedMessage`` for damaged bytes, a wrong dictionary, and what is no message.
        """

    def text(self) -> bytes:
        """Its text, without XML declaration and DOCTYPE.

        Raises ``MessageLimitExceeded``: a stream that spells out a long name once may stand for a text many times its
        size.
        """

    def stream(self, dictionary: NameDictionary | None = None, in_full: bool = False) -> bytes:
        """Its element stream: its structure, its names by number, its texts.

        ``in_full``: each name in full wherever it stands, as published (Diao 2005, section 7.4.2).
        """

    def stream_and_names(self, dictionary: NameDictionary) -> tuple[bytes, list[str]]:
        """Its element stream by a dictionary, and the names that the dictionary does not have, in their order."""

def parse_tree(query: str, namespaces: Mapping[str, str], dialect: str) -> str:
    """The algebra of a query as JSON (see ``twigcast.query``)."""

def condition_tree(query: str, namespaces: Mapping[str, str], dialect: str) -> str:
    """The condition under which a query may match, as JSON: XPath in normal form, to be true at the document node.

    For a For-Where-Return query that is its matching path, or, where that is no XPath, something it cannot match
    without.
    """

def truth_without_nodes(expression: str, namespaces: Mapping[str, str]) -> bool | None:
    """Returns the truth of an XPath expression on messages where none of its paths selects a node.

    Where it is false, one of the paths must select a node for the expression to be true. ``None``: it is not known.
    """

@final
class XPathFunction:
    """The facts of one core function of XPath 1.0: a row of the core's table."""

    name: str
    usage: str
    """How to call it, such as ``contains(string, part)``."""
    result_type: str
    """``"node-set"``, ``"boolean"``, ``"number"`` or ``"string"``."""
    arguments_min: int
    arguments_max: int | None
    """``None``: any number."""
    takes_node_set: bool
    """The first argument must be a node-set."""
    has_implicit_context: bool
    """It works on the context node if it has no argument."""
    without_nodes: bool | float | str | None
    """The value on an empty node-set, whatever the other arguments are; ``None`` if it depends on these."""
    uses_first_node: bool
    """Of a node-set it uses no more than the first node."""
    is_positional: bool
    """It depends on the context position or size."""
    looks_elsewhere: bool
    """It reads parts of the message other than its arguments and the context node."""

def functions() -> list[XPathFunction]:
    """Returns the rows of all core functions, in the order of the Recommendation."""

def check(query: str, namespaces: Mapping[str, str], dialect: str) -> dict[str, object]:
    """Parse a query alone: ``normal_form``, ``route``, ``reason``, ``warnings``."""

def scan_events(xml: bytes, limits: Mapping[str, int] = ...) -> list[tuple[str, ...]]:
    """The events of a message, for tests.

    ``("start", uri, local, [(uri, local, value)...])``, ``("text", value)``, ``("end",)``, ...
    """

@final
class Results:
    """The results of one message, by number. Their bytes are put together when they are looked at first.

    Those over the limit are nobody's, and empty.
    """

    delivery_count: int
    keys_version: int
    """The first of :attr:`Engine.keys_at` when the answer was given."""

    def keys(self, first: int = 0) -> list[str]:
        """The keys of the matching slots as they were then, in the order of the slots, but for the first so many."""

    def deliveries(self, *, in_order: bool = False) -> tuple[bytes, bytes]:
        """Matching slots and the numbers of their results, as 32-bit integers.

        The number is -1 where the message itself is delivered. Slots are in no order, unless it is asked for.
        """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes: ...
    def size(self, index: int) -> int:
        """How many bytes a result has, without putting it together."""

    def joined(self) -> tuple[Bytes, bytes]:
        """All results, put together now, one after the other; and 64-bit offsets into them, one more than there are.

        Releases the GIL. Raises ``MemoryError`` if there is no memory for all of them.
        """
