"""Schemas as the rest of Twigcast needs them: which element can stand where, how often, with which attributes.

- ``model``: a schema as plain data (elements, content particles, attributes)
- ``dtd``: reads a DTD into it
- ``graph``: the element graph: parent and child, loops, paths that occur at most once
- ``statistics``: the characteristics that the publications tabulate

A schema is never needed to match or rewrite messages; it serves the generators and the optimiser.
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
