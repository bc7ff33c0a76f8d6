"""Planning For-Where-Return queries: the published plans, readable (Diao 2005, chapter 6).

For work use :class:`twigcast.SubscriptionSet`, whose compiled engine rewrites messages at the speed of the parser; this
package is for reading next to the thesis, for checking the engine, and for reproducing the published figures.

- ``query``: For-Where-Return queries in the form that plans take
- ``claims``: when duplicate elimination and hashing can be left out; the canonical form of paths under a DTD
- ``streams``: shared path matching, which gives a stream of path tuples per distinct path
- ``operators``: selection, duplicate elimination, semijoins, outer joins on such streams
- ``plans``: PathSharing-F, -FW and -FWR
- ``sharing``: PlanSharing, post-processing shared between queries
- ``factory``: results as XML
"""

from twigcast.lab.transform.operators import Group, Groups
from twigcast.lab.transform.plans import Optimization, PathSharing, Pushed
from twigcast.lab.transform.query import TransformQuery, WherePath, transform_query
from twigcast.lab.transform.sharing import PlanSharing

__all__ = [
    "Group",
    "Groups",
    "Optimization",
    "PathSharing",
    "PlanSharing",
    "Pushed",
    "TransformQuery",
    "WherePath",
    "transform_query",
]
