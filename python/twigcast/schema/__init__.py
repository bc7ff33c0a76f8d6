"""Schemas: which elements can occur below which, how often, and with which attributes.

- ``model``: a schema as plain data (elements, content particles, attributes)
- ``dtd``: reads a DTD into the model
- ``xsd``: validation by XML Schema, in processes whose program is ``xsd_worker``
- ``graph``: the element graph: parent and child, loops, paths that occur at most once
- ``satisfiability``: which queries no document of a schema matches
- ``statistics``: the characteristics that the publications tabulate

Matching and rewriting need no schema; validation, warnings about queries, the generators and the optimiser use it.
"""

from twigcast.schema.dtd import DtdValidator, SchemaError, read_dtd
from twigcast.schema.graph import ElementGraph
from twigcast.schema.model import AttributeDeclaration, ElementDeclaration, Particle, Schema
from twigcast.schema.satisfiability import Satisfiability
from twigcast.schema.statistics import SchemaStatistics, statistics, statistics_table

__all__ = [
    "AttributeDeclaration",
    "DtdValidator",
    "ElementDeclaration",
    "ElementGraph",
    "Particle",
    "Satisfiability",
    "Schema",
    "SchemaError",
    "SchemaStatistics",
    "read_dtd",
    "statistics",
    "statistics_table",
]
