"""Twigcast delivers XML messages to the people and programs that asked for them.

What lives where:

- ``subscriptions``, ``answers``, ``joined_payloads``, ``batches``: :class:`SubscriptionSet`, the public face of the
  matching engine
- ``query_check``: is it a query, and how would it run
- ``envelope``: an element around each delivery
- ``limits``: what keeps hostile messages and queries from exhausting a machine
- ``errors``: every error and warning
- ``messages``, ``records``, ``subscription_files``: reading messages and subscriptions
- ``conversion``: messages in other encodings or with entities, as plain UTF-8
- ``query``: queries as data
- ``spark``: the pipeline on Apache Spark
- ``cli``: the command line
- ``_core``: the compiled engine; internal
"""

from twigcast._core import VERSION
from twigcast.answers import Deliveries, Delivery, Match, Node
from twigcast.envelope import Envelope
from twigcast.joined_payloads import JoinedPayloads
from twigcast.limits import Limits
from twigcast.query_check import QueryReport, check
from twigcast.subscriptions import Refused, Subscription, SubscriptionSet

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
    "Refused",
    "Subscription",
    "SubscriptionSet",
    "__version__",
    "check",
]
