"""Refuses parameters that an operation does not have.

A misspelt parameter that is passed over looks like one that was obeyed: a page without its filter, a pull without its
lease. The names are those of the routes, from which the OpenAPI description is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final
from urllib.parse import parse_qsl

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request

from twigcast.broker.api.problems import Problem

_SHOWN_MAX: Final = 100

_TOLERANT: Final = ("/health", "/ready", "/metrics", "/feeds/")
"""Beginnings of the paths that programs ask for which add parameters of their own: probes, scrapers, feed readers."""


async def check_parameters(request: Request) -> None:
    """Raises Problem if a request has a parameter that its route does not have: a dependency of all routes."""
    query_string: bytes = request.scope["query_string"]
    if query_string and _is_strict(request.scope["route"]):
        names = [name for name, _ in parse_qsl(query_string.decode("latin-1"), keep_blank_values=True)]
        refuse_unknown(names, _names_of(request.scope["route"]))


def _is_strict(route: APIRoute) -> bool:
    return route.include_in_schema and not route.path.startswith(_TOLERANT)


_names_by_endpoint: Final[dict[Callable[..., Any], frozenset[str]]] = {}


def _names_of(route: APIRoute) -> frozenset[str]:
    names = _names_by_endpoint.get(route.endpoint)
    if names is None:
        names = _names_by_endpoint[route.endpoint] = frozenset(_names_in(route.dependant))
    return names


def _names_in(dependant: Dependant) -> Iterator[str]:
    """Yields the parameters that a function and its dependencies have."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for dependency in dependant.dependencies:
        yield from _names_in(dependency)


def refuse_unknown(names: Iterable[str], supported: Collection[str]) -> None:
    """Raises Problem for the first of some names that is not supported, with the one that was probably meant."""
    name = next((name for name in names if name not in supported), None)
    if name is None:
        return
    # Imported where something is wrong: it takes a while, and most brokers never meet that.
    import difflib

    near = difflib.get_close_matches(name[:_SHOWN_MAX].lower(), supported, n=1)
    if near:
        advice = f"did you mean {near[0]!r}?"
    else:
        advice = f"there are {', '.join(sorted(supported))}" if supported else "this operation has none"
    field = name[:_SHOWN_MAX]
    reason = f"there is no such parameter; {advice}"
    mistake = {"in": "query", "field": field, "reason": reason}
    raise Problem(422, "invalid", f"{field}: {reason}", {"errors": [mistake]})
