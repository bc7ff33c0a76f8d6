"""What a subscription set answers about one message: matches, selected nodes, deliveries.

The engine answers in *slots*, the small numbers of subscriptions; `twigcast.engine.key_tables` turns them into keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast, overload

from twigcast import _core
from twigcast.envelope import Envelope
from twigcast.errors import UndecidedSubscription
from twigcast.joined_payloads import JoinedPayloads

if TYPE_CHECKING:
    pass


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

    @property
    def markup(self) -> bytes:
        """The node as it stands in the message."""
        return self.message[self.start : self.end]


class Matching(Protocol):
    """The matching subscriptions of one message."""

    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def keys(self) -> list[str]:
        """Their keys."""


@dataclass(frozen=True, slots=True)
class Named:
    """Matching subscriptions of which the keys are known already."""

    named: list[str]

    def __len__(self) -> int:
        return len(self.named)

    def __contains__(self, key: object) -> bool:
        return key in self.named

    def keys(self) -> list[str]:
        """Their keys."""
        return self.named


class Match:
    """The subscriptions that one message matches. True when there is any.

    How many there are, and whether a certain one is among them, is known without looking up all keys: that is done when
    they are first asked for. They are those of the moment of matching, whatever changed in the set since.

    Args:
        matching: The matching subscriptions.
        undecided: Keys and reasons of the subscriptions that failed.
        find_nodes: Finds the nodes that a subscription's query selects, by key.
        count_nodes: Counts the nodes that each matching subscription selects.
    """

    __slots__ = ("_count_nodes", "_find_nodes", "_keys", "_matching", "_undecided")

    def __init__(
        self,
        matching: Matching,
        undecided: list[tuple[str, str]],
        find_nodes: Callable[[str], list[Node]],
        count_nodes: Callable[[], dict[str, int]],
    ) -> None:
        self._matching = matching
        self._undecided = undecided
        self._find_nodes = find_nodes
        self._count_nodes = count_nodes
        self._keys: list[str] | None = None

    @property
    def keys(self) -> list[str]:
        """Keys of the matching subscriptions."""
        if self._keys is None:
            self._keys = self._matching.keys()
        return self._keys

    @property
    def undecided(self) -> list[UndecidedSubscription]:
        """The subscriptions that could not be decided on this message, with the reason; nearly always none."""
        return [UndecidedSubscription(key, reason) for key, reason in self._undecided]

    def nodes(self, key: str) -> list[Node]:
        """The nodes that a subscription's query selects in this message, in document order.

        Empty where the subscription does not match. Evaluated when asked for, with the query that the key has then.

        Raises:
            UnknownKey: There is no such subscription.
            UndecidedSubscription: Evaluating the query took too long.
        """
        return self._find_nodes(key)

    def node_counts(self) -> dict[str, int]:
        """How many nodes each matching subscription selects, by key. Evaluated when asked for."""
        return self._count_nodes()

    def __bool__(self) -> bool:
        return len(self._matching) > 0

    def __len__(self) -> int:
        return len(self._matching)

    def __contains__(self, key: object) -> bool:
        return key in self._matching

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.keys[:5]))
        return f"Match([{shown}{', ...' if len(self) > 5 else ''}])"


class Delivery(NamedTuple):
    """What one subscriber gets of one message."""

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
    """By key, the queries of the matching subscriptions, if the envelope tells them."""

    def around(self, delivery: Delivery) -> Delivery:
        """A delivery in the envelope."""
        if not (delivery.rewritten or self.whole):
            return delivery
        put = self.envelope.around if delivery.rewritten else self.envelope.around_message
        query = self.queries.get(delivery.key, "")
        return delivery._replace(payload=put(delivery.payload, self.message_id, delivery.key, query))


class Told(Protocol):
    """Who gets which payload of one message."""

    def keys(self) -> Sequence[str]:
        """The keys of the matching subscriptions."""

    def numbers(self) -> memoryview:
        """For each the index of its payload, -1 for the message: 32-bit integers."""


_WHOLE: Final = -1
"""In place of the number of a payload: the message itself."""

_delivery: Final = cast("Callable[[tuple[str, bytes, bool]], Delivery]", partial(tuple.__new__, Delivery))
"""Of all its fields. There may be thousands a message, and any function in Python takes several times as long."""


class Deliveries(Sequence[Delivery]):
    """The deliveries of one message, as long as nothing is removed in the order in which subscriptions were added.

    They are made when they are looked at, and so are their payloads: until then it is only known who gets which.
    Subscriptions that get the same payload share one object. Where they are many, to have all payloads in one buffer
    and their numbers (:meth:`joined_payloads`, :attr:`numbers`) takes a small part of what an object for each takes.

    Args:
        message: The message, which is the payload of queries that rewrite nothing.
        count: How many deliveries there are.
        reported: Tells who gets which payload.
        payloads: The different payloads.
        undecided: The subscriptions that could not be decided on the message.
        wrapping: What to put around payloads when they are looked at.
    """

    __slots__ = ("_count", "_message", "_payloads", "_seen", "_told", "_wrapping", "undecided")

    def __init__(
        self,
        message: bytes,
        count: int,
        reported: Told,
        payloads: Sequence[bytes] | _core.Results,
        undecided: Sequence[UndecidedSubscription] = (),
        wrapping: DeliveryEnvelope | None = None,
    ) -> None:
        self._wrapping = wrapping
        self._message = message
        self._count = count
        self._told = reported
        self._seen: tuple[Sequence[str], list[int]] | None = None
        self._payloads = payloads
        self.undecided = list(undecided)
        """The subscriptions that could not be decided on this message, with the reason; nearly always none."""

    def _all(self) -> tuple[Sequence[str], list[int]]:
        if self._seen is None:
            self._seen = self._told.keys(), self._told.numbers().tolist()
        return self._seen

    def _made(self, key: str, number: int) -> Delivery:
        rewritten = number != _WHOLE
        delivery = _delivery((key, self._payloads[number] if rewritten else self._message, rewritten))
        return delivery if self._wrapping is None else self._wrapping.around(delivery)

    @overload
    def __getitem__(self, index: int) -> Delivery: ...
    @overload
    def __getitem__(self, index: slice) -> list[Delivery]: ...
    def __getitem__(self, index: int | slice) -> Delivery | list[Delivery]:
        keys, numbers = self._all()
        if isinstance(index, slice):
            return list(map(self._made, keys[index], numbers[index]))
        return self._made(keys[index], numbers[index])

    def __iter__(self) -> Iterator[Delivery]:
        keys, numbers = self._all()
        if self._wrapping is not None or _WHOLE in numbers:
            return map(self._made, keys, numbers)
        return map(_delivery, zip(keys, map(self._payloads.__getitem__, numbers), repeat(True)))

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deliveries | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:3]))
        return f"Deliveries([{shown}{', ...' if len(self) > 3 else ''}])"

    @property
    def keys(self) -> Sequence[str]:
        """The keys, delivery after delivery."""
        return self._all()[0]

    @property
    def numbers(self) -> memoryview:
        """As :attr:`payload_numbers`, in 32-bit integers without an object for each; -1 is the message itself.

        Look at the sign first: ``joined_payloads()[-1]`` is refused, but ``payloads[-1]`` is the last result, which is
        another subscriber's.
        """
        return self._told.numbers()

    @property
    def payload_numbers(self) -> Sequence[int | None]:
        """By delivery, the index of its payload in ``payloads``; ``None`` where the message itself is delivered."""
        return [None if number == _WHOLE else number for number in self._all()[1]]

    @property
    def payloads(self) -> Sequence[bytes]:
        """The different results, without envelope. Each is put together when it is looked at first.

        One that was over a limit is empty; no delivery has its number.
        """
        return self._payloads if isinstance(self._payloads, Sequence) else Payloads(self._payloads)

    def joined_payloads(self) -> JoinedPayloads:
        """All different results, without envelope, put together at once: one after the other in one buffer.

        They have the numbers that they have in :attr:`payloads`, and that :attr:`numbers` tells. Where there are many,
        this takes a small part of what looking at each takes. They are made anew each time this is called; those that
        were made already (of very large messages, and of queries in XQuery) are copied.

        The first call lays a small message out for this. That takes up to 256 KiB, which these deliveries hold as long
        as they live: keep the buffer rather than them where you keep many.

        Raises:
            MemoryError: There is no memory for all of them, and they are a gigabyte or more, or were made already. They
                can still be had one by one.
        """
        if isinstance(self._payloads, _core.Results):
            return JoinedPayloads(*self._payloads.joined())
        return JoinedPayloads.of(self._payloads)


class Payloads(Sequence[bytes]):
    """Results by number, put together by the engine when they are looked at."""

    __slots__ = ("_results",)

    def __init__(self, results: _core.Results) -> None:
        self._results = results

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self._results[number] for number in range(*index.indices(len(self)))]
        return self._results[index]

    def __len__(self) -> int:
        return len(self._results)

    def sizes(self) -> list[int]:
        """The bytes of each, without putting it together."""
        return list(map(self._results.size, range(len(self))))
