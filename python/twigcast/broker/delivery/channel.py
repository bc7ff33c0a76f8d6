"""The protocol of delivery channels, and the settings that a subscriber chooses.

A channel sends in any way it likes. The parts that channels over HTTP share are here too: the POST request, the meaning
of its response, and the media types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol
from xml.parsers import expat

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.http_client import HttpClient, HttpResponse, RequestFailed, parse_retry_after
from twigcast.broker.errors import Invalid, UrlRefused
from twigcast.broker.model import DeliverySettings, QueuedDelivery, StoredSubscription
from twigcast.reading.text import NO_CHARACTER, half_pair

XML: Final = "application/xml"
XML_FRAGMENT: Final = "application/xml-external-parsed-entity"
"""The media type of results that are not one document: several elements, or text (RFC 7303, section 3)."""

_RESPONSE_BYTES_MAX: Final = 16 << 10
"""Bytes read of a response. Its body does not matter, but reading it keeps the connection usable."""


def _checked_text(value: str) -> str:
    if half_pair(value) is not None:
        raise ValueError(NO_CHARACTER)
    return value


Text = Annotated[str, AfterValidator(_checked_text)]
"""Text without unpaired surrogates, which JSON strings may contain."""

Url = Annotated[Text, StringConstraints(min_length=1, max_length=2_000)]


_NOT_OPTIONS: Final = {"kind", "url", "secret", "previous_secret", "secret_left_out"}


class ChannelSettings(BaseModel):
    """The settings of one kind of delivery, as API and console accept them.

    A setting named ``url`` is an HTTP address, checked against the policy of the broker. One named ``secret`` is never
    shown, nor is ``previous_secret``. All others are stored as JSON.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str

    def refusal(self) -> str | None:
        """Returns why these settings cannot be used as they are; ``None`` if they can."""
        return None

    async def checked(self, policy: UrlPolicy) -> DeliverySettings:
        """Returns the settings as the broker stores them.

        Raises Invalid if something is missing, and UrlRefused if the policy forbids the address.
        """
        if (reason := self.refusal()) is not None:
            raise Invalid(reason)
        options = self.model_dump(mode="json", exclude=_NOT_OPTIONS)
        if options.get("order") == "publication":
            # As where there is no such choice.
            del options["order"]
        url, secret = getattr(self, "url", None), getattr(self, "secret", None)
        return DeliverySettings(
            self.kind,
            None if url is None else await policy.check(url),
            secret,
            options=options,
            previous_secret=getattr(self, "previous_secret", None),
        )


def shown_settings(stored: DeliverySettings) -> dict[str, Any]:
    """Returns the settings of a subscription under their names in the API, without the secret."""
    address = {} if stored.url is None else {"url": stored.url}
    return {"kind": stored.kind, **address, **stored.options}


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that did not deliver."""

    reason: str
    retry_after: float | None = None
    """Seconds that the receiver asked to wait."""
    gone: bool = False
    """Whether the receiver says that it does not accept deliveries any more."""
    reached: bool | None = True
    """Whether the host works, whatever it answered this subscriber; ``None`` if it was not asked."""


@dataclass(frozen=True, slots=True)
class SendBounds:
    """The bounds of what is sent to a subscriber."""

    group_max: int = 1
    """Deliveries in one request."""
    in_flight_max: int = 1
    """Requests at one time; with more than one the order of deliveries is not kept."""


class Channel(Protocol):
    """A way of pushing deliveries to a subscriber."""

    def bounds(self, settings: DeliverySettings) -> SendBounds:
        """Returns how many deliveries are sent together, and how many such requests are made at one time."""

    async def send(self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]) -> Failure | None:
        """Sends deliveries, and returns ``None`` once the receiver has them all, or why it does not have them."""


async def post(client: HttpClient, url: str, headers: Mapping[str, str], body: bytes) -> Failure | None:
    """Sends a POST request, and returns what its failure means, or ``None``. Redirects are failures."""
    try:
        response = await client.request(
            "POST", url, headers=headers, body=body, answer_bytes_max=_RESPONSE_BYTES_MAX, cut=True
        )
    except UrlRefused as error:
        return Failure(error.reason, reached=None)
    except RequestFailed as error:
        return Failure(error.reason, reached=False)
    return _failure(response)


def _failure(response: HttpResponse) -> Failure | None:
    status = response.status
    if response.is_success:
        return None
    return Failure(
        f"the server answered with status {status}",
        retry_after=parse_retry_after(response.headers.get("retry-after")) if status in (429, 503) else None,
        gone=status == 410,
        reached=status < 500 and status != 429,
    )


def content_type(delivery: QueuedDelivery) -> str:
    """Returns the media type of a delivery's body. The body itself declares its encoding."""
    return XML if delivery.payload is None or is_document(delivery.payload) else XML_FRAGMENT


def is_document(payload: bytes) -> bool:
    """Returns whether a result is a well-formed document of its own."""
    parser = expat.ParserCreate(namespace_separator=" ")
    try:
        parser.Parse(payload, True)
    except expat.ExpatError:
        return False
    return True
