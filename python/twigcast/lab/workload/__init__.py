"""Workloads: documents, queries and populations from a DTD, as the publications made theirs.

- ``values``: the value domains that documents and queries share
- ``documents``: documents, with the parameters of IBM's XML Generator
- ``walks``: random walks over the element graph, the base of all query generators
- ``queries``: path queries, with the parameters of YFilter's generator
- ``flwr``: For-Where-Return queries
- ``population``: subscriptions of mixed kinds
- ``presets``: the DTDs that come with Twigcast, with the published parameters
- ``distributed``: the same on Spark, for millions
- ``commands``: ``twigcast generate``; ``dtds``: the files of the DTDs; ``errors``: the errors of all these

Everything is a function of its arguments and a seed, on every version of Python.
"""

from twigcast.lab.workload.documents import documents
from twigcast.lab.workload.errors import WorkloadError, WorkloadExhaustedError
from twigcast.lab.workload.flwr import FlwrQuery, flwr_parts, flwr_queries
from twigcast.lab.workload.population import GeneratedSubscription, population
from twigcast.lab.workload.presets import DTD_NAMES, PRESETS, DocumentPreset, bundled_dtd
from twigcast.lab.workload.queries import loosen, path_queries
from twigcast.lab.workload.values import AttributeDomain, ValueDomains, draw_domains

__all__ = [
    "DTD_NAMES",
    "PRESETS",
    "AttributeDomain",
    "DocumentPreset",
    "FlwrQuery",
    "GeneratedSubscription",
    "ValueDomains",
    "WorkloadError",
    "WorkloadExhaustedError",
    "bundled_dtd",
    "documents",
    "draw_domains",
    "flwr_parts",
    "flwr_queries",
    "loosen",
    "path_queries",
    "population",
]
