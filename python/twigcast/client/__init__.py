"""A typed client of the broker, for programs that block and for event loops.

::

    from twigcast.client import Client

    with Client("http://127.0.0.1:8080", token) as client:
        client.subscribe("floods", "//alert[event = 'Flood']")
        client.publish("<alert><event>Flood</event></alert>")
        for delivery in client.deliveries("floods", wait=1):
            print(delivery.xml)

Modules: ``sync`` and ``asynchronous`` (the two clients), ``calls`` (the requests, with parameters and documentation for
both), ``transport`` (the exchange over HTTP, Server-Sent Events), ``values`` (parameters and results), ``errors``
(problems of the broker).
"""

from importlib.util import find_spec

from twigcast.errors import MissingExtra

if find_spec("httpx2") is None:
    raise MissingExtra("httpx2", "broker")

from twigcast.client.asynchronous import AsyncClient
from twigcast.client.errors import UnknownProblem, Unreachable
from twigcast.client.sync import Client
from twigcast.client.transport import Retries
from twigcast.client.values import (
    Accepted,
    Clock,
    Consumer,
    DeadLetter,
    Delivery,
    Explanation,
    Extended,
    Identity,
    Imported,
    LookupTable,
    Message,
    MessageLifecycle,
    Messages,
    NewToken,
    PollRefusal,
    PollReport,
    Publication,
    QueryReport,
    Refused,
    RefusedLine,
    Rejected,
    Source,
    Subscription,
    Tenant,
    Token,
    Webhook,
    WindowKey,
)

__all__ = [
    "Accepted",
    "AsyncClient",
    "Client",
    "Clock",
    "Consumer",
    "DeadLetter",
    "Delivery",
    "Explanation",
    "Extended",
    "Identity",
    "Imported",
    "LookupTable",
    "Message",
    "MessageLifecycle",
    "Messages",
    "NewToken",
    "PollRefusal",
    "PollReport",
    "Publication",
    "QueryReport",
    "Refused",
    "RefusedLine",
    "Rejected",
    "Retries",
    "Source",
    "Subscription",
    "Tenant",
    "Token",
    "UnknownProblem",
    "Unreachable",
    "Webhook",
    "WindowKey",
]
