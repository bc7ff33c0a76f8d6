"""Twigcast delivers XML messages to the people and programs that asked for them.

What lives where:

- ``subscriptions``, ``registration``, ``answers``, ``joined_payloads``: :class:`SubscriptionSet`, the public face of
  the matching engine
- ``query_check``: is it a query, and how would it run
- ``envelope``: an element around each delivery
- ``limits``: what keeps hostile messages and queries from exhausting a machine
- ``errors``: every error and warning
- ``subscription_files``: reading subscriptions
- ``engine``: key tables, Arrow batches and external results around the compiled engine
- ``reading``: from bytes to messages
- ``query``: queries as data; ``schema``: DTDs; ``explanation``: why a query matches; ``xquery``: the Saxon process
- ``spark``: the pipeline on Apache Spark
- ``overlay``: networks of brokers; ``broker``: the service; ``client``: its HTTP client
- ``cli``: the command line; ``demo``: a small feed
- ``lab``: reference algorithms, workloads, simulations and experiments; the rest does not need it
- ``_core``: the compiled engine; internal
"""

from twigcast._core import VERSION
from twigcast.answers import Deliveries, Delivery, Match, Node
from twigcast.envelope import Envelope
from twigcast.joined_payloads import JoinedPayloads
from twigcast.limits import Limits
from twigcast.query_check import QueryReport, check
from twigcast.registration import RefusedSubscription, Subscription
from twigcast.subscriptions import SubscriptionSet

__version__ = VERSION

__all__ = [
    "Deliveries",
    "Delivery",
    "Envelope",
    "JoinedPayloads",
    "Limits",
    "Match",
    "Node",
    "QueryReport",
    "RefusedSubscription",
    "Subscription",
    "SubscriptionSet",
    "__version__",
    "check",
]
