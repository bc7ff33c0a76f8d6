"""The examples on predicates and nested paths: Selection Postponed, Inline, NP-Filter, GFilter, BFilter, Dai."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from twigcast.lab.reference.bfilter import BFilter, Branch, SubQuery, sub_queries
from twigcast.lab.reference.bfilter_published import BFilterPublished
from twigcast.lab.reference.dai import DaiHybrid
from twigcast.lab.reference.draw import svg
from twigcast.lab.reference.draw.tables import code, listed, outcome, run, table
from twigcast.lab.reference.gfilter import GFilter, SuffixNode, Tables
from twigcast.lab.reference.language import path_query
from twigcast.lab.reference.np_filter import decompose
from twigcast.lab.reference.selection import PathMatch, conditions_of
from twigcast.lab.reference.yfilter import YFilter
from twigcast.lab.reference.yfilter_inline import TableEntry, YFilterInline
from twigcast.query import parse

CONDITIONAL = '//item[@lang="no"]/note'
CONDITIONAL_MESSAGE = b'<feed><item lang="no"><item lang="sv"><note/></item><note/></item></feed>'

TWIGS = {"T1": "//item[tag/hot]/note", "T2": "/feed/item[tag]//note", "T3": "//item[.//hot][note]/tag"}
TWIG_MESSAGE = (
    b"<feed><item><tag/><item><tag><hot/></tag></item><note/></item><item><tag><hot/></tag><note/></item></feed>"
)


def figures() -> dict[str, str]:
    """Returns tables (Markdown) and pictures (names that end in ``.svg``)."""
    return {
        "selection": selection(),
        "inline": inline(),
        "np-decomposition": decomposition(),
        "np-filter": np_filter(),
        **gfilter(),
        **bfilter(),
        "dai": dai(),
    }


def names(match: PathMatch) -> str:
    """Shows a path match as element names with numbers."""
    return f"({listed(match)})"


# Value-based predicates.


def selection() -> str:
    """Shows the path matches of each accepting visit, and the results of the conditions."""
    algorithm = YFilter()
    algorithm.add("Q", parse(CONDITIONAL))
    conditions = conditions_of(path_query(parse(CONDITIONAL)))
    rows = [
        (
            code(f"{event} {element.id}"),
            names(match),
            listed("holds" if c.holds(match) else "fails" for c in conditions),
        )
        for event, element in run(algorithm, CONDITIONAL_MESSAGE)
        if event.startswith("<") and not event.startswith("</")
        for entry in algorithm._run.stack[-1]
        if entry.state.outputs
        for match in entry.path_matches()
    ]
    text = f"Query {code(CONDITIONAL)} on {code(CONDITIONAL_MESSAGE.decode())}:"
    result = table(("accepting visit", "path match", code('[@lang="no"]')), rows)
    return f"{text}\n\n{result}\n\n{outcome(algorithm, CONDITIONAL_MESSAGE)}"


def inline() -> str:
    """Shows the satisfied set while the message streams by, and the verdict of both rules."""
    published, exact = YFilterInline(published=True), YFilterInline()
    message = CONDITIONAL_MESSAGE.replace(b"<note/></item></feed>", b"</item></feed>")
    for algorithm in (published, exact):
        algorithm.add("Q", parse(CONDITIONAL))
    (line,) = published._stored["Q"].conditions
    assert isinstance(line, TableEntry)
    rows = [
        (code(f"{event} {element.id}"), "{" + ", ".join(map(str, sorted(line.satisfied))) + "}")
        for event, element in run(published, message)
        if element.level
    ]
    verdicts = f"As published: {listed(published.match(message), 'no match')}. Exact: "
    return (
        f"Query {code(CONDITIONAL)} on {code(message.decode())}:\n\n"
        f"{table(('event', 'elements that satisfy the condition'), rows)}\n\n"
        f"{verdicts}{listed(exact.match(message), 'no match')}."
    )


# Nested paths by decomposition.


def decomposition() -> str:
    """Shows the constituent paths of the example twigs."""
    rows = []
    for query_id, query in TWIGS.items():
        operator = decompose(path_query(parse(query)))
        nested = [f"{code(inner.path)}, anchor step {anchor + 1}" for anchor, inner in operator.nested]
        rows.append((query_id, code(query), code(operator.path), "; ".join(nested)))
    return table(("query", "twig", "main path", "extended nested paths"), rows)


def np_filter() -> str:
    """Shows the stores of T1 at the end of the message, the filter, and what survives."""
    algorithm = YFilter()
    algorithm.add("T1", parse(TWIGS["T1"]))
    matched = algorithm.match(TWIG_MESSAGE)
    operator = decompose(path_query(parse(TWIGS["T1"])))
    stores = [(code(path), listed(map(names, algorithm._stores[path]))) for path in operator.paths()]
    ((anchor, inner),) = operator.nested
    keep = sorted({match[anchor].id for match in inner.survivors(algorithm._stores, algorithm.counters)})
    tested = [
        (names(match), match[anchor], "survives" if match[anchor].id in keep else "evicted")
        for match in algorithm._stores[operator.path]
    ]
    return (
        f"Message: {code(TWIG_MESSAGE.decode())}\n\n{table(('path', 'store at the end of the message'), stores)}\n\n"
        f"Filter of the nested path: {{{listed(keep)}}}.\n\n"
        f"{table(('match of the main path', 'at the anchor step', ''), tested)}\n\nMatched: {listed(matched, 'none')}."
    )


# GFilter.


def gfilter() -> dict[str, str]:
    """Shows the forest of suffix nodes, and the tables at each end tag."""
    algorithm = GFilter()
    for query_id, query in TWIGS.items():
        algorithm.add(query_id, parse(query))
    roots = [algorithm._roots[query_id] for query_id in TWIGS]
    rows: list[Sequence[object]] = []
    for event, element in run(algorithm, TWIG_MESSAGE):
        if event.startswith("</"):
            above = algorithm._stack[-1]
            rows.append((code(f"{event} {element.id}"), *_tables(above)))
    steps = table(("event", "PCTable of the parent", "ADTable of the parent"), rows)
    return {
        "gfilter-forest.svg": svg.layered(roots, _continuations, _suffix_node, "Suffix nodes, shared by the queries"),
        "gfilter-run": f"{steps}\n\n{outcome(algorithm, TWIG_MESSAGE)}",
    }


def _continuations(item: Hashable) -> Sequence[tuple[str, Hashable]]:
    return cast(SuffixNode, item).continuations


def _suffix_node(item: Hashable) -> svg.Node:
    node = cast(SuffixNode, item)
    begins = [f"{axis} {query_id}" for axis, queries in node.queries.items() for query_id in queries]
    return svg.Node(str(node.step)[1:], f"{node.number} {listed(begins, '')}".strip(), strong=node.is_marked)


def _tables(tables: Tables) -> tuple[str, str]:
    return (
        listed(sorted(node.number for node in tables.pc)),
        listed(sorted(node.number for node in tables.ad)),
    )


# BFilter.


def bfilter() -> dict[str, str]:
    """Shows the tree of sub-queries, the portions, and the errors of the published procedure."""
    algorithm = BFilter()
    for query_id, query in TWIGS.items():
        algorithm.add(query_id, parse(query))
    return {
        "bfilter-sub-queries.svg": _sub_query_picture(),
        "bfilter-run": f"{_portions(algorithm)}\n\n{outcome(algorithm, TWIG_MESSAGE)}",
        "bfilter-witnesses": table(
            ("query", "elements that prove it"),
            [(query_id, listed(elements)) for query_id, elements in sorted(algorithm.portions.items())],
        ),
        "bfilter-published": _published(),
    }


def _sub_query_picture() -> str:
    roots = [sub_queries(query_id, path_query(parse(query)))[0] for query_id, query in TWIGS.items()]

    def children(item: Hashable) -> Sequence[tuple[str, Hashable]]:
        if isinstance(item, Branch):
            return []
        return [
            ("".join(map(str, branch.steps)), branch.child if branch.child is not None else branch)
            for branch in cast(SubQuery, item).branches
        ]

    def node(item: Hashable) -> svg.Node:
        if isinstance(item, SubQuery):
            return svg.Node(item.root.name, str(item), strong=True)
        return svg.Node("")

    return svg.layered(roots, children, node, "Sub-queries and their branches")


def _portions(algorithm: BFilter) -> str:
    rows = []
    open_before: list[tuple[str, str]] = []
    for event, element in run(algorithm, TWIG_MESSAGE):
        if event.startswith("</"):
            rows.append(
                (
                    code(f"{event} {element.id}"),
                    listed(line for root, line in open_before if root == str(element)),
                    listed(sorted(algorithm.portions)),
                )
            )
        open_before = [
            (str(portion.root), f"{portion.sub_query}: {len(portion.candidates)} of {len(portion.sub_query.branches)}")
            for portions in algorithm._open_portions.values()
            for portion in portions.values()
        ]
    return table(("event", "portions that end, with the branches that have a candidate", "matched so far"), rows)


COUNTER_EXAMPLES = (
    ("//b/c", b"<a><b><c/></b></a>", "the root of a simple query inside the message"),
    ("//b[c/d]/c/e", b"<a><b><c><d/><e/></c></b></a>", "both branches through one child"),
    ("//a[x]//b[c]/d", b"<a><x/><a><b><c/><d/></b></a></a>", "the inner a fails and takes b's success along"),
    ("//a[x]/b[c]/d", b"<a><b><c/><d/></b><a><x/><y/></a></a>", "the flags do not remember which a"),
)


def _published() -> str:
    rows = []
    for query, message, why in COUNTER_EXAMPLES:
        verdicts = []
        for algorithm in (BFilterPublished(), BFilter()):
            algorithm.add("Q", parse(query))
            verdicts.append("match" if algorithm.match(message) else "no match")
        rows.append((code(query), code(message.decode()), *verdicts, why))
    return table(("query", "message", "as published", "corrected", "why"), rows)


def dai() -> str:
    """Shows the engine that each query goes to."""
    algorithm = DaiHybrid()
    rows = []
    for query_id, query in {"Q1": "/feed/item/tag", "Q2": CONDITIONAL, **TWIGS}.items():
        algorithm.add(query_id, parse(query))
        rows.append((query_id, code(query), "YFilter" if query_id in algorithm.simple else "BFilter"))
    return f"{table(('query', '', 'engine'), rows)}\n\n{outcome(algorithm, TWIG_MESSAGE)}"
