"""The exchange over HTTP: the parts of a request, the meaning of its answer, retries, and Server-Sent Events."""

from __future__ import annotations

import json
import random
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import httpx2

from twigcast.client.calls import ApiRequest, BrokerApi
from twigcast.client.errors import UnknownProblem, Unreachable, error_of_problem
from twigcast.client.values import Delivery
from twigcast.errors import TwigcastError

T = TypeVar("T")

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 30.0
_SILENCE_SECONDS: Final = 45.0
"""The silence after which a stream counts as broken. The broker sends three signs of life in this time."""

_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429
_WAIT_SECONDS_MAX: Final = 20.0
_DOUBLINGS_MAX: Final = 30
_NOT_READY: Final = range(502, 505)
"""The statuses with which a broker that stops, or a proxy in front of one that is down, answers."""


@dataclass(frozen=True, slots=True)
class Retries:
    """The number and the times of the attempts at a request that may be repeated.

    Args:
        attempts: The number of attempts, including the first one.
        first_wait: The most seconds before the second attempt, doubled before each further one. Waits are randomised.
        longest_wait: The most seconds of a wait.
    """

    attempts: int = 4
    first_wait: float = 0.2
    longest_wait: float = _WAIT_SECONDS_MAX

    @classmethod
    def for_addresses(cls, count: int) -> Retries:
        """Returns the usual retries: with several addresses they go on until another broker has taken over."""
        return cls() if count == 1 else cls(attempts=40, first_wait=0.1, longest_wait=1.0)

    def wait(self, failed: int, asked: float | None) -> float:
        """Returns the seconds to wait after ``failed`` attempts: at least what the broker asked for."""
        longest = min(self.first_wait * 2 ** min(failed - 1, _DOUBLINGS_MAX), self.longest_wait)
        return max(random.uniform(longest / 2, longest), min(asked or 0.0, _WAIT_SECONDS_MAX))  # noqa: S311 - no secret


class Attempts(Generic[T]):
    """The attempts at one request, at one address after the other if there are several."""

    def __init__(self, api: BrokerApi, request: ApiRequest[T], retries: Retries) -> None:
        self._api = api
        self._address = api.url
        self._request = request
        self._retries = retries
        self._failed = 0
        self.arguments: dict[str, Any] = {
            "method": request.method,
            "url": api.url + request.path,
            "params": dict(request.params),
            "headers": dict(request.headers),
            "timeout": httpx2.Timeout(_ANSWER_SECONDS + request.seconds, connect=_CONNECT_SECONDS),
        }
        """The arguments for httpx."""
        if request.content is not None:
            self.arguments["content"] = request.content
        elif request.body is not None:
            self.arguments["json"] = request.body

    def is_final(self, response: httpx2.Response) -> bool:
        """Returns whether another attempt cannot change the response."""
        if response.status_code == _TOO_MANY:
            # A request over the rate was certainly not carried out.
            return False
        if _is_standby(response):
            # Nor was one to a broker that is not active.
            return False
        return not (self._request.is_repeatable and response.status_code == _UNAVAILABLE)

    def wait_after(self, response: httpx2.Response) -> float:
        """Returns the seconds until the next attempt after a response that is not final; raises without one left."""
        if response.status_code == _UNAVAILABLE:
            self._turn()
        return self._wait(problem(response, self._request.query), _retry_after(response))

    def wait_after_failure(self, failure: httpx2.TransportError) -> float:
        """Returns the seconds until the next attempt after one without an answer.

        Raises Unreachable if none is left, or the request may have been carried out and is not repeatable.
        """
        error = unreachable(self._address, failure)
        self._turn()
        if not (self._request.is_repeatable or isinstance(failure, httpx2.ConnectError)):
            raise error from failure
        return self._wait(error, None)

    def _turn(self) -> None:
        """Lets the next attempt go to another address, if there is one."""
        self._api.turn_from(self._address)
        self._address = self._api.url
        self.arguments["url"] = self._address + self._request.path

    def _wait(self, error: TwigcastError, asked: float | None) -> float:
        self._failed += 1
        if self._failed >= self._retries.attempts:
            raise error
        # With several addresses the next attempt is at another broker, which asked for nothing.
        return self._retries.wait(self._failed, asked if len(self._api.addresses) == 1 else None)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The ways in which the deliveries of a stream count as done."""

    automatic: bool = False
    """Whether the broker counts as done what it has sent."""
    acknowledge: bool = True
    """Whether the client says what is done."""
    in_flight: int | None = None
    """Deliveries of a shared queue that it has at a time."""
    visibility: float | None = None
    """Seconds of a lease in a shared queue."""


def stream_arguments(api: BrokerApi, subscriber: str, last: str | None, options: StreamOptions) -> dict[str, Any]:
    """Returns the arguments for httpx of a stream that continues after the delivery ``last``."""
    params: dict[str, Any] = {"subscriber": subscriber, "ack": "auto" if options.automatic else "explicit"}
    for name in ("in_flight", "visibility"):
        if (value := getattr(options, name)) is not None:
            params[name] = value
    headers = dict(api.headers)
    if last and options.acknowledge:
        headers["Last-Event-ID"] = last
    elif last:
        # The header would count as an acknowledgement.
        params["after"] = last
    return {
        "method": "GET",
        "url": f"{api.url}/deliveries/stream",
        "params": params,
        "headers": headers,
        "timeout": httpx2.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS),
    }


def read_answer(request: ApiRequest[T], response: httpx2.Response) -> T:
    """Returns what a request reads from its answer; raises the problem that it describes."""
    if not response.is_success:
        raise problem(response, request.query)
    if request.raw:
        return request.read(response.content)
    if not response.content:
        return request.read(None)
    try:
        document = response.json()
    except ValueError:
        raise UnknownProblem(f"the answer was {response.status_code} and is no JSON", {}) from None
    return request.read(document)


def problem(response: httpx2.Response, query: str | None = None) -> TwigcastError:
    """Returns the error that a response describes. ``query`` is the query of the request."""
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, Mapping) or "code" not in document:
        # Something between client and broker answered.
        elsewhere = f", which leads to {response.headers['location']}" if response.has_redirect_location else ""
        return UnknownProblem(f"the answer was {response.status_code} {response.reason_phrase}{elsewhere}", {})
    return error_of_problem(document, query, _retry_after(response))


def _is_standby(response: httpx2.Response) -> bool:
    """Returns whether a response is that of a broker that is not active."""
    return response.status_code == _UNAVAILABLE and b'"code":"standby"' in response.content


def stream_problem(api: BrokerApi, response: httpx2.Response) -> TwigcastError:
    """Returns the error of a stream that was not opened: that the broker cannot be reached if it may be soon."""
    error = problem(response)
    if response.status_code not in _NOT_READY:
        return error
    address = api.url
    api.turn_from(address)
    return Unreachable(f"{address} is not ready: {error}")


def _retry_after(response: httpx2.Response) -> float | None:
    """Returns the seconds that a response asks the client to wait."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def unreachable(broker_url: str, failure: httpx2.TransportError) -> Unreachable:
    """Returns the error for a request without an answer."""
    return Unreachable(f"{broker_url} did not answer: {str(failure) or type(failure).__name__}")


_REMEMBERED: Final = 20_000
"""The most ids of deliveries that are kept to recognise repeated ones."""

IN_FLIGHT: Final = 100
"""Deliveries of a shared queue that the broker sends at a time, unless it is asked for another number."""

_ACKNOWLEDGED_SECONDS: Final = 1.0
_ACKNOWLEDGED_COUNT: Final = 500
"""A stream acknowledges after at most so many seconds or deliveries."""


class EventParser:
    """A parser that cuts a stream of bytes into events. Lines end with a line feed, as the broker writes them.

    Where the broker says that the stream begins anew, nothing counts as received any more.
    """

    def __init__(self, received: ReceivedEvents) -> None:
        self._received = received
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Delivery | None]:
        """Yields the deliveries that ``data`` completes, and ``None`` for other events, such as a sign of life."""
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            lines = event.split(b"\n")
            if b": restart" in lines:
                self._received.clear()
            result = next((line[6:] for line in lines if line.startswith(b"data: ")), None)
            yield None if result is None else Delivery.of(json.loads(result))


class ReceivedEvents:
    """The deliveries of a stream that a subscriber has received, over all its connections."""

    def __init__(self, last: str | None) -> None:
        self.last = last
        """The id of the last delivery that is done."""
        self._ids: OrderedDict[str, None] = OrderedDict()

    def is_new(self, delivery: Delivery) -> bool:
        """Returns whether a delivery comes for the first time, and remembers it."""
        # In a shared queue it comes again when its lease has ended, with another receipt.
        name = delivery.receipt or delivery.id
        if name in self._ids:
            return False
        self._ids[name] = None
        if len(self._ids) > _REMEMBERED:
            self._ids.popitem(last=False)
        return True

    def clear(self) -> None:
        """Treats all deliveries as not received, since the broker delivers them anew."""
        self.last = None
        self._ids.clear()

    def forget(self, delivery: Delivery) -> None:
        """Treats a delivery that was yielded and not done as not received."""
        self._ids.pop(delivery.receipt or delivery.id, None)


class Acknowledgements:
    """The deliveries of one connection that are done and not yet acknowledged; none if that is not for the client."""

    def __init__(self, received: ReceivedEvents, options: StreamOptions) -> None:
        self._received = received
        self._is_due = options.acknowledge and not options.automatic
        # A worker may have few at a time, and gets no more before some are acknowledged.
        self._count_max = min(_ACKNOWLEDGED_COUNT, max(1, (options.in_flight or IN_FLIGHT) // 2))
        self._count = 0
        self._receipts: list[str] = []
        self._flushed = time.monotonic()

    def add(self, delivery: Delivery) -> None:
        """Adds a delivery that is done."""
        if delivery.receipt is not None:
            self._receipts.append(delivery.receipt)
        else:
            self._received.last = delivery.id
            self._count += 1

    def take_due(self) -> str | list[str] | None:
        """Returns what to acknowledge, if it is much or the last time is long ago."""
        is_due = (
            self._count >= _ACKNOWLEDGED_COUNT
            or len(self._receipts) >= self._count_max
            or time.monotonic() - self._flushed >= _ACKNOWLEDGED_SECONDS
        )
        return self.take() if is_due else None

    def take(self) -> str | list[str] | None:
        """Returns what to acknowledge: all up to a delivery, or single ones of a shared queue; ``None`` for nothing."""
        count, self._count, self._flushed = self._count, 0, time.monotonic()
        receipts, self._receipts = self._receipts, []
        if not self._is_due:
            return None
        return receipts or (self._received.last if count else None)
