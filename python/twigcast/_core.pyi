"""The compiled matching core. Use :class:`twigcast.SubscriptionSet`; this module converts and nothing more.

Errors are those of :mod:`twigcast.errors`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

from twigcast.errors import RejectedMessage, TwigcastError, UndecidedSubscription
from twigcast.registration import ParameterValue, Params

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

@final
class PacketFrame:
    """A frame of a packet."""

    kind: int
    start: int
    """Where its fields begin in the packet."""
    end: int
    """Where its fields end."""

def packet_of(frames: list[bytes]) -> bytes:
    """Frames as one packet, with its sum."""

@final
class Engine:
    """A subscription population and the shared structures compiled from it. Safe to use from several threads."""

    def __new__(cls, limits: Mapping[str, int] = ...) -> Engine:
        """Make an empty engine. ``limits``: names and values as in ``twigcast.Limits``."""

    def add(
        self,
        key: str,
        query: str,
        namespaces: dict[str, str],
        dialect: str,
        replace: bool,
        group: str = "",
        params: Params | None = None,
    ) -> str | None:
        """Registers one query and returns a warning, if there is one.

        Raises ``UnicodeEncodeError`` for strings with half of a surrogate pair.

        ``dialect`` is ``"xpath"``, ``"legacy"``, ``"doubles"``, ``"native"`` for what the engine reads of XQuery by
        itself, or ``"xquery"`` for a query that another processor evaluates.
        """

    def add_many(self, items: list[Any], namespaces: dict[str, str], dialect: str, replace: bool) -> AddOutcome:
        """Registers many queries.

        ``items`` are ``twigcast.Subscription``, or tuples of key, query, perhaps namespaces, dialect, group, params.
        ``namespaces`` are those of all, ``dialect`` that of items that name none; queries in XQuery are
        tried as what the engine reads of it.
        """

    def remove(self, key: str) -> bool:
        """Removes a subscription and returns whether it was there."""

    def __len__(self) -> int: ...
    def __contains__(self, key: object) -> bool: ...
    def keys(self) -> list[str]:
        """Returns all keys, in slot order."""

    def query(self, key: str) -> StoredQuery | None:
        """Returns the query of a subscription."""

    def throttled(self) -> list[ThrottledSubscription]:
        """Returns the subscriptions that are set aside on the next message, in slot order."""

    @property
    def version(self) -> int:
        """A number that grows with each change of the population."""

    def key_table(self) -> KeyTable:
        """Returns the keys by slot; slots in no use have an empty one."""

    def slots_of(self, keys: Sequence[str]) -> list[int | None]:
        """Returns the slots of subscriptions by their keys; ``None`` where there is no such subscription."""

    def match(self, xml: bytes) -> list[int]:
        """Returns the slots of the matching subscriptions, ascending. Releases the GIL."""

    def answer(self, xml: bytes, published: int | None = None) -> Answer:
        """Returns the matching subscriptions, without looking up their keys. Releases the GIL.

        A message that its DOCTYPE changes is expanded, unless queries in XQuery read it too.

        ``published``: when the message was published, in microseconds since 1970; without it, the present.
        """

    def match_stream(self, stream: bytes, dictionary: NameDictionary | None = None) -> Answer:
        """Does the same for a message that comes as an element stream (``ParsedMessage.stream``)."""

    def nodes(self, xml: bytes, key: str, since: object = None, published: int | None = None) -> list[SelectedNode]:
        """Returns the nodes that a subscription selects, in document order.

        ``since``: an ``Answer``; raises ``SubscriptionChanged`` if the subscription is not the one of that moment.
        """

    def node_counts(self, xml: bytes, published: int | None = None) -> list[tuple[str, int]]:
        """Returns how many nodes each matching subscription selects, by key, in slot order."""

    @property
    def unread_count(self) -> int:
        """How often comparisons have read a value with an exponent as no number, as XPath 1.0 does."""

    def unread_numbers(self) -> list[tuple[str, str]]:
        """The paths to such values, and the first value of each; an empty path where it is not known."""

    @property
    def has_external(self) -> bool:
        """Whether there may be queries that another processor evaluates; matching is only necessary for these."""

    def share_results(self, share: bool) -> None:
        """Whether results of different queries are computed together, which is what one wants; for measuring."""

    def results(self, xml: bytes, published: int | None = None) -> Results:
        """Returns the deliveries of a message. They are expanded, and results written, when they are asked for."""

    def match_batch(
        self,
        offsets: bytes,
        data: bytes | memoryview,
        count: int,
        *,
        deliver: bool = False,
        nodes: bool = False,
        threads: int = 1,
        naming: Literal["slots", "keys", "groups"] = "keys",
        published: Sequence[int] | None = None,
        yields: bool = False,
    ) -> BatchResult:
        """Matches ``count`` messages laid out as an Arrow large-binary array (64-bit offsets). Releases the GIL.

        Of a slice, ``offsets`` are its own, and ``data`` begin where the first of them points. A view (of format ``B``)
        is copied once, into memory that the engine keeps; ``bytes`` are not copied.

        All are matched against the population as it is at one moment. ``naming`` says what the matches are: slots;
        positions in a table of keys; or positions in a table of lists of keys, one for each query. With ``yields`` a
        thread does it that leaves the processor to others, where the system has such threads.
        """

    def match_records(
        self, cutter: RecordCutter, chunk: bytes, *, last: bool = False
    ) -> tuple[
        int, list[tuple[int, list[str]]], list[tuple[int, RejectedMessage]], list[tuple[int, UndecidedSubscription]]
    ]:
        """Feeds a cutter the next bytes, in UTF-8, and matches the records that end in them, without copies of them.

        Returns how many these are; positions and keys of those that match; positions and errors, with their lines in
        the document, of those that cannot be used; and positions and errors of subscriptions that are undecided.
        External matches are not told apart.
        """

    def nearness(self, xml: bytes, keys: Sequence[str]) -> tuple[list[tuple[str, float]], list[UndecidedSubscription]]:
        """Returns how near a message in UTF-8 comes to subscriptions, and those that could not be decided.

        All share one reading of the message. Queries that only another processor understands are left out.
        """

    def save(self, path: str) -> None:
        """Writes a snapshot, atomically."""

    @staticmethod
    def load(path: str, limits: Mapping[str, int] = ...) -> Engine:
        """Reads a snapshot. Raises ``SnapshotError`` on a damaged file or one of another version."""

    def describe(self, key: str) -> QueryCheck:
        """Returns how a subscription runs."""

    def explain(
        self,
        xml: bytes,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        params: Params | None = None,
        published: int | None = None,
    ) -> str:
        """Returns why a query matches a message or not, as a JSON object (see ``twigcast.explain``)."""

    def statistics(self) -> dict[str, int]:
        """Returns counts and byte sizes of the shared structures."""

@final
class AddOutcome:
    """What the engine says of many subscriptions, each by its index."""

    refused: list[tuple[int, Exception]]
    """``TwigcastError`` of those refused, ``UnicodeEncodeError`` for strings with half of a surrogate pair."""
    warnings: list[tuple[int, str]]

@final
class StoredQuery:
    """A subscription's query as it was registered."""

    query: str
    namespaces: dict[str, str]
    dialect: str
    group: str
    params: dict[str, ParameterValue]

@final
class ThrottledSubscription:
    """A subscription that is set aside, since it overran on several messages."""

    key: str
    overruns: int
    messages: int
    """After so many messages it is tried again."""

@final
class SelectedNode:
    """A node that a query selects; ``start`` and ``end`` are bytes from 0, line and column count from 1."""

    kind: str
    name: str
    start: int
    end: int
    line: int
    column: int

@final
class QueryCheck:
    """What is known of a query without any message."""

    query: str
    normal_form: str
    route: str
    """``automaton``, ``twig``, ``keyed`` or ``verified``; ``xquery`` for a query of another processor."""
    reason: str
    cover: str | None
    """What leads to it, such as ``looked up by //a[@k = 'x']``."""
    cost: str
    """What it costs on a message, in words."""
    warnings: list[str]

@final
class ExternalMatch:
    """A match that another processor decides."""

    row: int
    """Row of the message."""
    position: int
    """Position among all matches."""
    key: str
    query: str
    namespaces: dict[str, str]
    params: dict[str, ParameterValue]
    is_condition: bool
    """Whether only the truth of the query matters."""

@final
class Answer:
    """The subscriptions that one message matched at one moment. What changes later changes nothing in it."""

    visits: int
    """What it cost to evaluate queries on the message: nodes looked at, and texts in proportion to their length."""
    undecided: list[tuple[str, str]]
    """Keys and reasons of the subscriptions that could not be decided."""
    external: list[ExternalMatch]

    def __len__(self) -> int:
        """Returns how many there are, which is known beforehand."""

    def __contains__(self, key: object) -> bool:
        """Returns whether a subscription matched; the others are not looked at."""

    def keys(self) -> tuple[str, ...]:
        """Returns the keys. Answers with the same queries may share the tuple."""

    def queries(self) -> list[tuple[str, StoredQuery | None]]:
        """Returns the keys with their queries; ``None`` for a subscription that was replaced or removed since."""

@final
class KeyTable:
    """The keys by slot, or lists of keys by query, at one moment."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the table as an Arrow array of strings, or of lists of strings."""

    def arrow(self) -> Any:
        """Returns the table as an array of pyarrow, always the same one."""

@final
class NumberBuffer:
    """Numbers of 32 or 64 bits, or bytes, little-endian: a buffer of bytes, to be read only.

    The memory is used again once nobody looks at it.
    """

    def __len__(self) -> int:
        """Returns how many numbers or bytes there are."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class BatchResult:
    """The answers to one batch, as Arrow buffers."""

    match_offsets: NumberBuffer
    """``count + 1`` 32-bit offsets into ``matches``."""
    matches: NumberBuffer
    """32-bit slots, or positions in ``keys``, of all matches, message after message."""
    keys: KeyTable | None
    """What the matches are positions in, unless they are slots."""
    match_counts: NumberBuffer
    """32-bit number of matching subscriptions per message, where the answer is in groups."""
    node_counts: NumberBuffer
    """32-bit number of selected nodes per match; empty unless asked for."""
    payload_indices: NumberBuffer
    """32-bit index of the payload per match, -1 where it is the message itself; empty unless asked for."""
    payload_validity: NumberBuffer
    """A bit per match, set where it has a payload; empty where all have one."""
    payload_offsets: NumberBuffer
    """64-bit offsets into ``payloads``, one more than there are different payloads."""
    payloads: NumberBuffer
    """All different payloads, one after the other."""
    external: list[ExternalMatch]
    """The matches that another processor decides; empty where the answer is in groups."""
    errors: list[tuple[int, TwigcastError]]
    """Rows and errors of the messages that were rejected."""
    failures: list[tuple[int, TwigcastError]]
    """Rows and ``UndecidedSubscription`` of subscriptions that failed on a message; its other answers stand."""
    needs_conversion: list[int]
    """Rows to convert to plain UTF-8 (``twigcast.reading.conversion.to_utf8``) and match again."""

    def merge(self, replies: Mapping[int, bytes | None], failures: list[tuple[int, TwigcastError]]) -> BatchResult:
        """Returns the answer with the results of external matches.

        ``replies``: results by position of the match; without a result it is no match, without an entry it stays as
        it is. ``failures`` are added.
        """

@final
class SpanCodec:
    """Reads and writes the fields of spans. Use :mod:`twigcast.overlay.onyx.network.frames`.

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
    ) -> tuple[list[Any], list[PacketFrame]]:
        """The spans that a packet begins with, and where the frames behind the last of them lie.

        ``kind``: that of spans. Raises ``ValueError`` for what is no packet, or no span.
        """

    def fields(self, span: tuple[Any, ...]) -> bytes:
        """The fields of a span: of a message with a lexicon, the name of this behind that of the form.

        Raises ``ValueError`` for numbers out of range.
        """

    def frame(self, kind: int, span: tuple[Any, ...]) -> bytes:
        """The same as a frame."""

@final
class LabelRequest:
    """What many messages ask of a conjunction index: labels, and the target, below 64, that each stands for."""

    def __new__(cls, labels: Sequence[tuple[int, int]]) -> LabelRequest:
        """These labels."""

    def __len__(self) -> int: ...

@final
class ConjunctionIndex:
    """Conjunctions of linear paths, each path matched once for all of them.

    Use :mod:`twigcast.overlay.onyx.content.routing_table`.

    A conjunction has *labels*, small numbers; each message says which labels count and for which target each stands. A
    conjunction holds when all its paths match, wherever they do; one without paths always holds.
    """

    def __new__(cls, limits: Mapping[str, int] = ...) -> ConjunctionIndex:
        """Make an empty table. ``limits``: names and values as in ``twigcast.Limits``."""

    def add(self, paths: Sequence[tuple[str, Mapping[str, str]]], labels: Sequence[int]) -> int:
        """Add a conjunction of paths, each with its namespaces; returns its number. Raises ``QueryError``."""

    def set_labels(self, conjunction: int, labels: Sequence[int]) -> bool:
        """Give a conjunction other labels; whether it is there."""

    def remove(self, conjunction: int) -> bool:
        """Remove a conjunction; whether it was there."""

    def __len__(self) -> int: ...
    def route(self, xml: bytes, wanted: LabelRequest | Sequence[tuple[int, int]]) -> int:
        """The targets of a message, as bits. ``wanted``: labels and the target, below 64, that each stands for.

        Targets that are reached are not looked for again; a path that cannot be decided counts as matching. Releases
        the GIL. Where no path has to be looked at, the message is not even scanned.
        """

    def route_stream(
        self, stream: bytes, dictionary: NameDictionary | None, wanted: LabelRequest | Sequence[tuple[int, int]]
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

def parse_tree(query: str, namespaces: Mapping[str, str], dialect: str, params: Params | None = None) -> str:
    """The algebra of a query as JSON (see ``twigcast.query``)."""

def condition_tree(query: str, namespaces: Mapping[str, str], dialect: str, params: Params | None = None) -> str:
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
    """The facts of one function: a row of the core's table."""

    name: str
    usage: str
    """How to call it, such as ``contains(string, part)``."""
    result_type: str
    """``"node-set"``, ``"boolean"``, ``"number"``, ``"string"``, ``"version"``, or a type such as ``"xs:date"``."""
    arguments_min: int
    arguments_max: int | None
    """``None``: any number."""
    takes_node_set: bool
    """The first argument must be a node-set."""
    has_implicit_context: bool
    """It works on the context node if it has no argument."""
    without_nodes: bool | float | str | tuple[()] | None
    """The value on an empty node-set, whatever the other arguments are; ``None`` if it depends on these."""
    uses_first_node: bool
    """Of a node-set it uses no more than the first node."""
    is_positional: bool
    """It depends on the context position or size."""
    looks_elsewhere: bool
    """It reads parts of the message other than its arguments and the context node."""
    is_of_xpath_1: bool
    """It is one of XPath 1.0; the others have the names and the meaning of XPath 3.1."""

def functions() -> list[XPathFunction]:
    """Returns the rows of all functions: first those of XPath 1.0, in the order of the Recommendation."""

def check(
    query: str,
    namespaces: Mapping[str, str],
    dialect: str,
    params: Params | None = None,
    limits: Mapping[str, int] = ...,
) -> QueryCheck:
    """Parses and plans a query alone."""

@final
class Declarations:
    """What a DTD outside of messages declares."""

    def __new__(
        cls,
        texts: list[tuple[str, str]],
        external: list[tuple[str, str]],
        attributes: list[tuple[str, str, str, str | None]],
    ) -> Declarations:
        """Keeps declarations; of two with one name, the first counts.

        Args:
            texts: Entities and their replacement texts.
            external: External entities and their system identifiers.
            attributes: Element, attribute, type as the DTD writes it, default value.
        """

def expand(
    xml: bytes,
    limits: Mapping[str, int],
    *,
    external: Declarations | None = None,
    sets: Declarations | None = None,
    uses_sets: bool = False,
) -> tuple[bytes, int, int]:
    """Returns a message in UTF-8 with its entities expanded and the attributes that its DOCTYPE declares.

    Spaces stand where the DOCTYPE stood, or a short one that declares ID attributes. Where these begin and where the
    next markup does are returned too: without what is between, the message has no DOCTYPE.

    Args:
        xml: The message.
        limits: ``message_bytes_max`` holds for the answer.
        external: What the external DTD declares, if it was read.
        sets: The entities of HTML and ISO, used where the message names a public identifier for which they are known.
        uses_sets: Whether they are used everywhere.
    """

@final
class RecordCutter:
    """Cuts documents into records, while they arrive: see :mod:`twigcast.reading.records`."""

    def __new__(
        cls,
        record: str | None,
        limits: Mapping[str, int],
        *,
        documents: bool,
        inherit: Sequence[str],
        record_id: str | None,
        external: Declarations | None,
        sets: Declarations | None,
        uses_sets: bool,
    ) -> RecordCutter:
        """Creates a cutter.

        Raises:
            ValueError: An option cannot be read. Its arguments are the name of the option and the reason.
        """

    @property
    def pending(self) -> int:
        """How many bytes it has taken that mean nothing without more."""

    @property
    def position(self) -> tuple[int, int]:
        """Line and column in the document of what it will take next."""

    @property
    def is_halted(self) -> bool:
        """Whether it waits before a document.

        That is one that has to be decoded first, or the one behind the only one that was to be read. What it has taken
        of it has to be taken back.
        """

    @property
    def inherited(self) -> list[int]:
        """The names of ``inherit``, by index, of which records have inherited something."""

    def take_back(self, *, is_alone: bool) -> bytes:
        """Returns the beginning of the document before which it is halted, as it was fed.

        ``is_alone``: of what is fed next, only the first document is to be read.
        """

    def abandon(self, reason: str) -> None:
        """Notes that the document cannot be read on, which the answer to the next bytes says."""

    def feed(
        self, chunk: bytes, *, last: bool = False
    ) -> tuple[NumberBuffer, NumberBuffer, list[tuple[int, RejectedMessage]], list[str | None], NumberBuffer]:
        """Takes the next bytes, in UTF-8, and returns the records that end in them.

        They are their bytes one after the other; the offsets there of each and of the end, as 64-bit integers; the
        errors that make some useless, by index; the ids that they give themselves, or nothing; and five columns of
        64-bit integers, one after the other: the lines, the columns, how many characters the cutter has put into the
        start of each, the bytes of the document before each, and its bytes there.
        """

    def skim(self, chunk: bytes, every: int, *, last: bool = False) -> list[tuple[int, int, int, int, bytes]]:
        """Takes the next bytes, and returns places where another cutter can begin, at least ``every`` bytes apart.

        They are starts of records: the bytes and the records before each, its line and column, and what the other
        cutter has to know of the document. A cutter does either this or :meth:`feed`.
        """

    def resume(self, offset: int, records: int, line: int, column: int, around: bytes) -> None:
        """Begins at a place that :meth:`skim` has found, before any byte is fed."""

def yielded_seconds() -> float:
    """The processor time that threads which leave the processor to others have used for the thread that asks."""

def scan_nodes(
    xml: bytes,
) -> list[
    tuple[
        str,
        int,
        int,
        tuple[str, str],
        str | None,
        list[tuple[int, str, str, str]],
        list[tuple[str, str]],
    ]
]:
    """The nodes of a message below the document, in document order, whatever its size.

    Each is ``(kind, start, end, name, value, attributes, namespaces)``: ``start`` is the first byte of its markup,
    ``end`` the position in the list behind its last descendant. The name is ``(uri, local)``; the value is that of
    what is no element. Attributes are ``(start, uri, local, value)``, namespaces that it declares ``(prefix, uri)``.

    Raises:
        RejectedMessage: The message is malformed, or has to be converted first.
    """

def scan_events(xml: bytes, limits: Mapping[str, int] = ...) -> list[tuple[str, ...]]:
    """The events of a message, for tests.

    ``("start", uri, local, [(uri, local, value)...])``, ``("text", value)``, ``("end",)``, ...
    """

@final
class Results:
    """The different results of one message, by index, and who gets which. A result is written when it is looked at.

    A result over the limit is empty, and nobody gets it.
    """

    undecided: list[tuple[str, str]]
    """Keys and reasons of the subscriptions that could not be decided, or whose result is over the limit."""
    external: list[ExternalMatch]

    @property
    def delivery_count(self) -> int:
        """How many deliveries there are."""

    def document(self) -> bytes:
        """Returns the message as those get it whose queries rewrite nothing: as it came, or without its DOCTYPE."""

    def keys(self) -> list[str]:
        """Returns the keys of the deliveries, in the order of the slots, as they were when the message was matched."""

    def payload_indices(self) -> list[int | None]:
        """Returns the index of each delivery's result; ``None`` is the message itself."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports ``key`` and ``payload`` of all deliveries as an Arrow struct, all results in one buffer.

        Raises ``MemoryError`` if there is no memory for all of them.
        """
