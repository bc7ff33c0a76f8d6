"""The message factory: constant tags around copies of the nodes that the groups list (Diao 2005, section 6.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from twigcast.lab.reference.events import Element
from twigcast.lab.transform.operators import Groups
from twigcast.lab.transform.query import TransformQuery


def result(query: TransformQuery, groups: Groups, nodes: Sequence[Element]) -> str:
    """Returns the result of a query: its return clause once per group, in binding order, inside the wrapper."""
    pieces = [query.wrapper[0]]
    for _, lists in groups:
        for part in query.template:
            if isinstance(part, str):
                pieces.append(part)
            else:
                for node in lists[part]:
                    pieces.extend(_copy(nodes[node]))
    pieces.append(query.wrapper[1])
    return "".join(pieces)


def _copy(element: Element) -> Iterator[str]:
    name, declaration = _tag_name(element.name)
    attributes = "".join(
        f" {_attribute(key, value, number)}" for number, (key, value) in enumerate(element.attributes.items())
    )
    if not element.content:
        yield f"<{name}{declaration}{attributes}/>"
        return
    yield f"<{name}{declaration}{attributes}>"
    for part in element.content:
        if isinstance(part, str):
            yield escape(part)
        else:
            yield from _copy(part)
    yield f"</{name}>"


def _tag_name(name: str) -> tuple[str, str]:
    """The name as written in the tag, and the declaration of its namespace; Clark notation comes in."""
    if not name.startswith("{"):
        return name, ""
    namespace, _, local = name[1:].partition("}")
    return f"n:{local}", f" xmlns:n={quoteattr(namespace)}"


def _attribute(name: str, value: str, number: int) -> str:
    if not name.startswith("{"):
        return f"{name}={quoteattr(value)}"
    namespace, _, local = name[1:].partition("}")
    if namespace == "http://www.w3.org/XML/1998/namespace":
        return f"xml:{local}={quoteattr(value)}"
    return f"xmlns:a{number}={quoteattr(namespace)} a{number}:{local}={quoteattr(value)}"
