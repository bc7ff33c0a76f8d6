"""Schemas: which elements can occur below which, how often, and with which attributes.

- ``model``: a schema as plain data (elements, content particles, attributes)
- ``dtd``: reads a DTD into the model
- ``graph``: the element graph: parent and child, loops, paths that occur at most once
- ``statistics``: the characteristics that the publications tabulate

Matching and rewriting need no schema; the generators and the optimiser use it.
"""

from twigcast.schema.dtd import SchemaError, read_dtd
from twigcast.schema.graph import ElementGraph
from twigcast.schema.model import AttributeDeclaration, ElementDeclaration, Particle, Schema
from twigcast.schema.statistics import SchemaStatistics, statistics, statistics_table

__all__ = [
    "AttributeDeclaration",
    "ElementDeclaration",
    "ElementGraph",
    "Particle",
    "Schema",
    "SchemaError",
    "SchemaStatistics",
    "read_dtd",
    "statistics",
    "statistics_table",
]
