"""Twigcast delivers XML messages to the people and programs that subscribe to them.

What lives where:

- ``subscriptions``, ``registration``, ``answers``: :class:`SubscriptionSet`, the public face of the matching engine
- ``query_check``: what is known of a query without a message
- ``envelope``: an element around each delivery
- ``limits``: what keeps hostile messages and queries from exhausting a machine
- ``errors``: every error and warning
- ``subscription_files``, ``subscription_formats``, ``subscription_items``: subscriptions from files, tables and records
- ``message_nodes``: paths to nodes, and their texts; ``arrow_types``: types of what pyarrow returns
- ``notebook``, ``markup``, ``progress``: what notebooks and terminals show
- ``engine``: the session, through which all others call the compiled engine; Arrow batches; external queries
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
from twigcast.errors import QueryError, QueryWarning, RejectedMessage, TwigcastError
from twigcast.explanation.explainer import Explanation, explain
from twigcast.limits import Limits
from twigcast.query_check import QueryReport, check
from twigcast.registration import AddReport, RefusedSubscription, Subscription, SubscriptionWarning
from twigcast.subscriptions import EngineStatistics, SubscriptionSet

__version__ = VERSION

__all__ = [
    "AddReport",
    "Deliveries",
    "Delivery",
    "EngineStatistics",
    "Envelope",
    "Explanation",
    "Limits",
    "Match",
    "Node",
    "QueryError",
    "QueryReport",
    "QueryWarning",
    "RefusedSubscription",
    "RejectedMessage",
    "Subscription",
    "SubscriptionSet",
    "SubscriptionWarning",
    "TwigcastError",
    "__version__",
    "check",
    "explain",
]
