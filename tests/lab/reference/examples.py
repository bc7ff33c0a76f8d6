"""What the tests of the worked examples share."""

from twigcast.lab.reference import Algorithm
from twigcast.lab.reference.language import PathQuery, path_query
from twigcast.lab.reference.selection import PathMatch
from twigcast.query import parse


def fill(algorithm: Algorithm, *queries: str) -> None:
    """Add queries as Q1, Q2, ..."""
    for number, query in enumerate(queries, start=1):
        algorithm.add(f"Q{number}", parse(query))


def paths(query: str) -> PathQuery:
    """A query in the form that the algorithms take."""
    return path_query(parse(query))


def names(match: PathMatch) -> str:
    """A path match as text."""
    return " ".join(map(repr, match))
