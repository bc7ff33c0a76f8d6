"""Answers of a subscription set about one message: matches, selected nodes, deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, cast, overload

from twigcast._core import Answer, Results
from twigcast.arrow_types import DeliveryBatch
from twigcast.envelope import Envelope
from twigcast.errors import MissingExtra, UndecidedSubscription
from twigcast.message_nodes import MessageNodes
from twigcast.notebook import ROWS_MAX, html_table, html_xml


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a message that a query selects."""

    kind: str
    """``element``, ``attribute``, ``text``, ``comment``, ``processing-instruction``, ``document`` or ``namespace``."""

    name: str
    """As written in the message; empty for kinds without names."""

    start: int
    """Where its markup starts, in bytes from 0."""

    end: int
    """Where its markup ends."""

    line: int
    """Line of ``start``, from 1."""

    column: int
    """Column of ``start``, in characters from 1."""

    message: bytes = field(repr=False, compare=False, default=b"")
    """The message that the positions refer to; one in another encoding is converted to UTF-8."""

    nodes_of_message: MessageNodes | None = field(repr=False, compare=False, default=None)
    """The nodes of the message, which all nodes of one answer share; for paths and texts."""

    @property
    def markup(self) -> bytes:
        """The node as it stands in the message."""
        return self.message[self.start : self.end]

    @property
    def path(self) -> str:
        """An XPath that leads back to the node, such as ``/feed/entry[2]/@id``.

        Names that are in a namespace are written ``*:name``, as no path can declare prefixes; Twigcast reads this, and
        so does every processor of XPath 2.0. If the query that selected the node has a default namespace, all names are
        written so: the path can be added beside it. The first path of a message takes as long as reading it.
        """
        return self._nodes().path(self.kind, self.start, self.name)

    @property
    def text(self) -> str:
        """The string-value of the node: what it says, without markup, with references resolved."""
        return self._nodes().text(self.kind, self.start, self.name)

    def _repr_html_(self) -> str:
        return html_table(f"{self.path} ({self.kind})", ["markup"], [(html_xml(self.markup),)], 1)

    def _nodes(self) -> MessageNodes:
        return self.nodes_of_message or MessageNodes(self.message)


@dataclass(frozen=True, slots=True)
class FrozenAnswer:
    """The keys of a match that no longer needs the set; otherwise as ``_core.Answer``."""

    frozen_keys: tuple[str, ...]
    visits: int

    def keys(self) -> tuple[str, ...]:
        """Returns the keys."""
        return self.frozen_keys

    def __len__(self) -> int:
        return len(self.frozen_keys)

    def __contains__(self, key: object) -> bool:
        return key in self.frozen_keys


class Match:
    """The subscriptions that one message matches. It is true if there is any.

    Their number, and whether a key is among them, is known without looking up all keys; these are looked up when they
    are first read. They are the keys of the moment of matching, whatever changed in the set since.

    Args:
        answer: The answer of the engine.
        dropped: Keys in ``answer`` that do not match after all.
        undecided: Keys and reasons of the subscriptions that could not be decided.
        find_nodes: Finds the nodes that a subscription's query selects, by key.
        count_nodes: Counts the nodes that each matching subscription selects.
        freeze: Makes the frozen match; ``None`` in that.

    It can be pickled, as what :meth:`freeze` returns.
    """

    __slots__ = ("_answer", "_count_nodes", "_dropped", "_find_nodes", "_freeze", "_keys", "_named", "_undecided")

    def __init__(
        self,
        answer: Answer | FrozenAnswer,
        dropped: frozenset[str],
        undecided: Sequence[tuple[str, str]],
        find_nodes: Callable[[str], list[Node]],
        count_nodes: Callable[[], dict[str, int]],
        freeze: Callable[[], Match] | None = None,
    ) -> None:
        self._answer = answer
        self._dropped = dropped
        self._undecided = undecided
        self._find_nodes = find_nodes
        self._count_nodes = count_nodes
        self._freeze = freeze
        self._named: tuple[str, ...] | None = None
        self._keys: list[str] | None = None

    @property
    def keys(self) -> list[str]:
        """The keys of the matching subscriptions."""
        if self._keys is None:
            self._keys = list(self._name())
        return self._keys

    def _name(self) -> tuple[str, ...]:
        """Returns the keys, which other matches may share."""
        if self._named is None:
            named = self._answer.keys()
            self._named = tuple(key for key in named if key not in self._dropped) if self._dropped else named
        return self._named

    @property
    def visits(self) -> int:
        """The cost of evaluating queries on this message, as :attr:`Limits.message_visits_max` counts it.

        Queries that are looked up by a value cost next to nothing.
        """
        return self._answer.visits

    @property
    def undecided(self) -> list[UndecidedSubscription]:
        """The subscriptions that could not be decided on this message, with the reason; nearly always none."""
        return [UndecidedSubscription(key, reason) for key, reason in self._undecided]

    def nodes(self, key: str) -> list[Node]:
        """Returns the nodes that a subscription's query selects in this message, in document order.

        The list is empty if the subscription does not match. The query is evaluated when this is called.

        Raises:
            UnknownKey: There is no such subscription. (A match that was frozen or pickled knows no others than those
                that match: it has no nodes for them.)
            SubscriptionChanged: It was replaced or removed since the message was matched; see :meth:`freeze`.
            UndecidedSubscription: Evaluating the query took too long.
        """
        return self._find_nodes(key)

    def node_counts(self) -> dict[str, int]:
        """Returns how many nodes each matching subscription selects, by key, as the set is when this is called."""
        return self._count_nodes()

    def freeze(self) -> Match:
        """Returns this match without the set that it is from: nothing that changes there changes anything in it.

        It keeps the message and the queries of its subscriptions, so :meth:`nodes` and :meth:`node_counts` go by the
        queries that it was matched with. Freeze it before these change: of a subscription that was replaced or removed
        already, only the key is kept.
        """
        return self if self._freeze is None else self._freeze()

    def __reduce__(self) -> tuple[Any, ...]:
        frozen = self.freeze()
        arguments = (frozen._answer, frozen._dropped, frozen._undecided, frozen._find_nodes, frozen._count_nodes)
        return Match, arguments

    def __bool__(self) -> bool:
        return len(self) > 0

    def __len__(self) -> int:
        return len(self._answer) - len(self._dropped)

    def __contains__(self, key: object) -> bool:
        return key in self._answer and key not in self._dropped

    def __iter__(self) -> Iterator[str]:
        return iter(self._name())

    def _repr_html_(self) -> str:
        rows = [*((key, "matches") for key in self._name()[:ROWS_MAX]), *self._undecided]
        caption = f"{len(self):,} {'subscription matches' if len(self) == 1 else 'subscriptions match'}"
        return html_table(caption, ["key", ""], rows, len(self) + len(self._undecided))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._name()[:5]))
        return f"Match([{shown}{', ...' if len(self) > 5 else ''}])"


class Delivery(NamedTuple):
    """A payload of one message for one subscriber."""

    key: str

    payload: bytes
    """The result of a For-Where-Return query; of any other, the message itself."""

    rewritten: bool = False
    """Whether the payload is a result of the query."""


@dataclass(frozen=True, slots=True)
class DeliveryEnvelope:
    """An envelope around the deliveries of one message."""

    envelope: Envelope
    message_id: str
    whole: bool
    """Whether to put it around messages that are delivered as they are, too."""

    queries: Mapping[str, str] = field(default_factory=dict)
    """By key, the queries of the matching subscriptions, if the envelope has an attribute for them."""

    def around(self, delivery: Delivery) -> Delivery:
        """Returns a delivery in the envelope."""
        if not (delivery.rewritten or self.whole):
            return delivery
        put = self.envelope.around if delivery.rewritten else self.envelope.around_message
        query = self.queries.get(delivery.key, "")
        return delivery._replace(payload=put(delivery.payload, self.message_id, delivery.key, query))


@dataclass(frozen=True, slots=True)
class ListedResults:
    """Results that are lists of Python, where some come from another processor; as ``_core.Results`` else."""

    listed_keys: list[str]
    listed_indices: list[int | None]
    payloads: list[bytes]

    @property
    def delivery_count(self) -> int:
        """The number of deliveries."""
        return len(self.listed_keys)

    def keys(self) -> list[str]:
        """Returns the keys, delivery after delivery."""
        return self.listed_keys

    def payload_indices(self) -> list[int | None]:
        """Returns the index of each delivery's payload; ``None`` is the message itself."""
        return self.listed_indices

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, index: int) -> bytes:
        return self.payloads[index]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        import pyarrow as pa

        indices = pa.array(self.listed_indices, pa.int32())
        payloads = pa.DictionaryArray.from_arrays(indices, pa.array(self.payloads, pa.large_binary()))
        keys = pa.array(self.listed_keys, pa.string()).dictionary_encode()
        batch = pa.RecordBatch.from_arrays([keys, payloads], names=["key", "payload"])
        return cast("tuple[object, object]", batch.__arrow_c_array__(requested_schema))


_delivery: Final = cast("Callable[[tuple[str, bytes, bool]], Delivery]", partial(tuple.__new__, Delivery))
"""Makes a delivery of all its fields. There may be thousands a message, and a function in Python takes far longer."""


class Deliveries(Sequence[Delivery]):
    """The deliveries of one message, in the order in which subscriptions were added unless some were removed.

    They can be pickled, with all payloads.

    Deliveries and payloads are made when they are first looked at; until then only who gets which is known.
    Subscriptions that get the same payload share one object. Where there are many, :meth:`arrow` has them all in one
    buffer, in a small part of the time that an object for each takes.

    Args:
        message: The message, the payload of queries that rewrite nothing, or what makes it when it is looked at.
        results: The different payloads, and who gets which.
        undecided: Keys and reasons of the subscriptions that could not be decided on the message.
        envelope: What to put around payloads when deliveries are looked at.
    """

    __slots__ = ("_envelope", "_message", "_results", "_rows", "undecided")

    def __init__(
        self,
        message: bytes | Callable[[], bytes],
        results: Results | ListedResults,
        undecided: Sequence[tuple[str, str]] = (),
        envelope: DeliveryEnvelope | None = None,
    ) -> None:
        self._message = message
        self._results = results
        self._envelope = envelope
        self._rows: tuple[list[str], list[int | None]] | None = None
        self.undecided = [UndecidedSubscription(key, reason) for key, reason in undecided]
        """The subscriptions that could not be decided on this message, with the reason; nearly always none."""

    def _all(self) -> tuple[list[str], list[int | None]]:
        if self._rows is None:
            self._rows = self._results.keys(), self._results.payload_indices()
        return self._rows

    def _one(self, key: str, index: int | None) -> Delivery:
        rewritten = index is not None
        delivery = _delivery((key, self.message if index is None else self._results[index], rewritten))
        return delivery if self._envelope is None else self._envelope.around(delivery)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        keys, indices = self._all()
        if isinstance(index, slice):
            return list(map(self._one, keys[index], indices[index]))
        return self._one(keys[index], indices[index])

    def __iter__(self) -> Iterator[Delivery]:
        keys, indices = self._all()
        if self._envelope is not None or None in indices:
            return map(self._one, keys, indices)
        payloads = map(self._results.__getitem__, cast("list[int]", indices))
        return map(_delivery, zip(keys, payloads, repeat(True)))

    def __len__(self) -> int:
        return self._results.delivery_count

    def __reduce__(self) -> tuple[Any, ...]:
        results = ListedResults(self.keys, self.payload_indices, list(self.payloads))
        undecided = [(error.key, error.reason) for error in self.undecided]
        return Deliveries, (self.message, results, undecided, self._envelope)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deliveries | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        rows = [
            (delivery.key, html_xml(delivery.payload) if delivery.rewritten else "the message")
            for delivery in self[:ROWS_MAX]
        ]
        rows += [(error.key, error.reason) for error in self.undecided]
        caption = f"{len(self):,} {'delivery' if len(self) == 1 else 'deliveries'}"
        return html_table(caption, ["key", "payload"], rows, len(self) + len(self.undecided))

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"Deliveries([{shown}{', ...' if len(self) > 3 else ''}])"

    @property
    def message(self) -> bytes:
        """The message as those get it whose queries rewrite nothing."""
        if not isinstance(self._message, bytes):
            self._message = self._message()
        return self._message

    @property
    def keys(self) -> list[str]:
        """The keys, delivery after delivery."""
        return self._all()[0]

    @property
    def payload_indices(self) -> list[int | None]:
        """By delivery, the index of its payload in ``payloads``; ``None`` where the message itself is delivered."""
        return self._all()[1]

    @property
    def payloads(self) -> Sequence[bytes]:
        """The different results, without envelope. Each is written when it is first looked at.

        A result over a limit is empty, and no delivery has its index.
        """
        return _Payloads(self._results)

    def arrow(self) -> DeliveryBatch:
        """Returns the deliveries as a record batch, with all results in one buffer, without envelope.

        The columns are ``key``, a ``dictionary<int32, string>``, and ``payload``, a
        ``dictionary<int32, large_binary>``: its indices are those of :attr:`payload_indices`, and null stands for the
        message itself. The results are written anew with each call. The first call lays a small message out for
        this; the deliveries hold up to 256 KiB for it as long as they live, so where you keep many, keep the batches.

        Raises:
            MemoryError: There is no memory for all results at once. They can still be had one by one.
            MissingExtra: pyarrow is not installed.
        """
        try:
            import pyarrow as pa
        except ImportError as missing:
            raise MissingExtra("pyarrow", "arrow") from missing
        batch: DeliveryBatch = pa.record_batch(self._results)
        return batch

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the columns of :meth:`arrow` to any library that reads Arrow."""
        return self._results.__arrow_c_array__(requested_schema)


class _Payloads(Sequence[bytes]):
    """The results of a message, by index."""

    __slots__ = ("_results",)

    def __init__(self, results: Results | ListedResults) -> None:
        self._results = results

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self._results[number] for number in range(*index.indices(len(self)))]
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)
