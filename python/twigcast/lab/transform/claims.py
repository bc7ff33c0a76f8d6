"""Five claims on path tuples that need no duplicate elimination and no hashing (Diao 2005, section 6.5, appendix E).

A navigation path with m steps gives a stream of path tuples, one for each way to match it, with fields 1..m, in the
order in which elements are accepted, so that the last field never falls. Two tuples with the same last field first
differ at some step that must be a ``//`` onto a recursive element, and join again at a later ``//``; disorder on a
field i needs two nested elements for step i. Where the path, or the DTD, rules that out, an operator can be dropped or
made cheaper.

The claims are sufficient, not necessary. Those that use the DTD hold for messages that conform to it. They assume name
tests: ``*`` stands for every element, so a ``//*`` step counts as being on a loop with everything.
"""

from __future__ import annotations

from twigcast.lab.reference.language import LocationStep
from twigcast.lab.transform.query import NavigationPath
from twigcast.schema import ElementGraph


def _descendant_steps(path: NavigationPath) -> list[int]:
    return [number for number, step in enumerate(path) if step.axis == "//"]


def _on_loop(graph: ElementGraph, name: str) -> bool:
    return name == "*" or graph.on_loop(name)


def _on_same_loop(graph: ElementGraph, first: str, second: str) -> bool:
    return "*" in (first, second) or graph.on_same_loop(first, second)


def claim_1(path: NavigationPath) -> bool:
    """Checks claim 1. At most one ``//``: no two tuples agree on the last field."""
    return len(_descendant_steps(path)) <= 1


def claim_2(path: NavigationPath, graph: ElementGraph) -> bool:
    """Checks claim 2. Several ``//``, but none of the elements of all but the last is on a loop: the same."""
    steps = _descendant_steps(path)
    return len(steps) > 1 and not any(_on_loop(graph, path[number].name) for number in steps[:-1])


def claim_3(path: NavigationPath, field: int, graph: ElementGraph | None = None) -> bool:
    """Checks claim 3. Claim 1 or 2 holds up to ``field`` and for the rest: no two tuples agree on it and the last."""
    return no_duplicates(path[:field], graph) and no_duplicates(path[field:], graph)


def claim_4(path: NavigationPath, field: int) -> bool:
    """Checks claim 4. No ``//`` up to ``field``: the stream is increasing on it."""
    return not _descendant_steps(path[:field])


def claim_5(path: NavigationPath, field: int, graph: ElementGraph) -> bool:
    """Checks claim 5. No ``//`` step up to ``field`` is on a loop together with the element of ``field``: the same.

    For ``field`` itself, if it is a ``//`` step: its element is on no loop.
    """
    element = path[field - 1].name
    return not any(_on_same_loop(graph, path[number].name, element) for number in _descendant_steps(path[:field]))


def no_duplicates(path: NavigationPath, graph: ElementGraph | None = None) -> bool:
    """Returns whether, by claim 1, or by claim 2 with a DTD, no two tuples agree on the last field."""
    return claim_1(path) or (graph is not None and claim_2(path, graph))


def ordered(path: NavigationPath, field: int, graph: ElementGraph | None = None) -> bool:
    """Returns whether, by claim 4, or by claim 5 with a DTD, the stream never falls on ``field`` (counted from 1)."""
    if field == len(path):
        return True  # streams are ordered on their last field anyway
    return claim_4(path, field) or (graph is not None and claim_5(path, field, graph))


def canonical(path: NavigationPath, graph: ElementGraph, above: str | None = None) -> NavigationPath:
    """Replaces every superfluous ``//`` by the child steps that it stands for (Diao 2005, section 6.6.1).

    A ``//`` is superfluous if the DTD has exactly one path from the element before it (``above`` for the first step;
    ``None``: the document node) to the element after it.
    """
    rewritten: list[LocationStep] = []
    previous = above
    for step in path:
        between = None
        if step.axis == "//" and step.name != "*" and previous != "*":
            between = graph.only_path(previous, step.name)
        if between is None:
            rewritten.append(step)
        else:
            rewritten.extend(LocationStep("/", name) for name in between)
        previous = step.name
    return tuple(rewritten)
