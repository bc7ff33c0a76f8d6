"""The examples on linear paths: XFilter, Diao's Hybrid, YFilter, the lazy DFA, AFilter, Boone's hybrid."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import cast

from twigcast.lab.reference.afilter import AFilter, StackObject
from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.boone import BooneHybrid, TrieState
from twigcast.lab.reference.draw import svg
from twigcast.lab.reference.draw.tables import code, listed, outcome, run, run_table, table
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.hybrid import DiaoHybrid, TrieNode, substrings
from twigcast.lab.reference.language import path_query
from twigcast.lab.reference.lazy_dfa import LazyDFA
from twigcast.lab.reference.nfa import NFA, State
from twigcast.lab.reference.path_algorithm import StoredPath
from twigcast.lab.reference.xfilter import Candidate, PathNode, XFilter, path_nodes
from twigcast.lab.reference.yfilter import YFilter
from twigcast.query import parse

QUERIES = {
    "Q1": "/feed/item/tag",
    "Q2": "//item/tag",
    "Q3": "/feed/*/tag",
    "Q4": "//item//tag",
    "Q5": "/feed/item/note",
}
MESSAGE = b"<feed><item><item><tag/></item><note/></item></feed>"


def filled(algorithm: Algorithm, queries: dict[str, str] = QUERIES) -> Algorithm:
    """Returns an algorithm with the example's queries."""
    for query_id, query in queries.items():
        algorithm.add(query_id, parse(query))
    return algorithm


def figures() -> dict[str, str]:
    """Returns tables (Markdown) and pictures (names that end in ``.svg``)."""
    return {
        "population": population(),
        **xfilter(),
        **hybrid(),
        **yfilter(),
        "lazy-dfa": lazy_dfa(),
        **afilter(),
        **boone(),
    }


def population() -> str:
    """Shows the queries and the message of the examples."""
    rows = [(query_id, code(query)) for query_id, query in QUERIES.items()]
    return f"{table(('query', 'path'), rows)}\n\nMessage: {code(MESSAGE.decode())}"


def users(stored: StoredPath) -> str:
    """Returns the queries that are a path, as text."""
    return listed(sorted(stored.plain))


# XFilter.


def xfilter() -> dict[str, str]:
    """Shows path nodes, the index for both placements, and a run."""
    basic, balanced = XFilter(list_balance=False), XFilter()
    filled(basic)
    filled(balanced)
    return {
        "xfilter-nodes": _path_nodes(),
        "xfilter-index": _index(basic, balanced),
        "xfilter-run": f"{_xfilter_run(basic)}\n\n{outcome(basic, MESSAGE)}",
    }


def _path_nodes() -> str:
    rows = [
        (query_id, node.position, code(node.name), node.relative_pos, f"{'=' if node.exact else '≥'} {node.distance}")
        for query_id, query in QUERIES.items()
        for node in path_nodes(StoredPath(path_query(parse(query))))
    ]
    return table(("query", "position", "name", "RelativePos", "distance kept"), rows)


def _node(node: PathNode) -> str:
    return f"{users(node.stored)}-{node.position}"


def _index(*indexes: XFilter) -> str:
    rows = []
    for name in ("feed", "item", "tag", "note"):
        cells: list[str] = [code(name)]
        for index in indexes:
            cells.append(listed(_node(candidate.node) for candidate in index.candidates.get(name, ())))
            cells.append(listed(_node(node) for node in index.waiting.get(name, ())))
        rows.append(cells)
    return table(("name", "candidates, basic", "waiting, basic", "candidates, balanced", "waiting, balanced"), rows)


def _xfilter_run(index: XFilter) -> str:
    def promoted(element: Element) -> Sequence[object]:
        copies = index._promoted[-1]
        return listed(map(_candidate, copies)), listed(sorted(index._selection.matched))

    return run_table(index, MESSAGE, ("copies made, with their levels", "matched so far"), promoted, ends=False)


def _candidate(candidate: Candidate) -> str:
    return f"{_node(candidate.node)} at {'' if candidate.node.exact else '≥ '}{candidate.level}"


# Diao's Hybrid.


def hybrid() -> dict[str, str]:
    """Shows substrings, their trie, and a run."""
    algorithm = DiaoHybrid()
    filled(algorithm)
    cuts = [
        (query_id, listed(f"{code('/'.join(s.names))} {'=' if s.exact else '≥'} {s.distance}" for s in cut))
        for query_id, query in QUERIES.items()
        for cut in [substrings(path_query(parse(query)))]
    ]
    return {
        "hybrid-substrings": table(
            ("query", "substrings, each with the distance from the end of the one before"), cuts
        ),
        "hybrid-trie.svg": svg.tree(algorithm.root, _trie_children, _trie_node, "The trie of all substrings"),
        "hybrid-run": f"{_hybrid_run(algorithm)}\n\n{outcome(algorithm, MESSAGE)}",
    }


def _trie_children(item: Hashable) -> Sequence[tuple[str, Hashable]]:
    return list(cast(TrieNode, item).children.items())


def _trie_node(item: Hashable) -> svg.Node:
    node = cast(TrieNode, item)
    first = listed((users(c.node.stored) for c in node.candidates), "")
    return svg.Node("", f"first: {first}" if first else "", strong=node.users > 0)


def _hybrid_run(algorithm: DiaoHybrid) -> str:
    def copies(element: Element) -> Sequence[object]:
        created = algorithm._copies[-1]
        described = [
            f"{users(c.node.stored)}-{c.node.position} at {'' if c.node.exact else '≥ '}{c.level}" for c in created
        ]
        reached = [_trie_path(node) for node in algorithm._searches[-1]]
        return listed(map(code, reached)), listed(described), listed(sorted(algorithm._selection.matched))

    header = ("trie nodes reached", "candidates made, with their levels", "matched so far")
    return run_table(algorithm, MESSAGE, header, copies, ends=False)


def _trie_path(node: TrieNode) -> str:
    above = _trie_path(node.parent) if node.parent is not None and node.parent.name else ""
    return f"{above}/{node.name}" if above else node.name


# YFilter and the lazy DFA.


def machine(nfa: NFA[StoredPath], title: str) -> str:
    """Draws an automaton."""

    def children(item: Hashable) -> Sequence[tuple[str, Hashable]]:
        return list(cast(State[StoredPath], item).edges.items())

    def node(item: Hashable) -> svg.Node:
        state = cast(State[StoredPath], item)
        accepts = listed((users(stored) for stored in state.outputs), "")
        return svg.Node(str(state.id), accepts, strong=bool(state.outputs), looped=state.is_descendant_child)

    return svg.tree(nfa.initial, children, node, title)


def yfilter() -> dict[str, str]:
    """Shows the machine, and the stack of active-state sets."""
    algorithm = YFilter()
    filled(algorithm)

    def active(element: Element) -> Sequence[object]:
        states = [entry.state.id for entry in algorithm._run.stack[-1]]
        return "{" + ", ".join(map(str, states)) + "}", listed(sorted(algorithm._selection.matched))

    steps = run_table(algorithm, MESSAGE, ("active states on top of the stack", "matched so far"), active, ends=True)
    return {
        "yfilter-machine.svg": machine(algorithm.nfa, "One automaton for the paths of all queries"),
        "yfilter-run": f"{steps}\n\n{outcome(algorithm, MESSAGE)}",
    }


def lazy_dfa() -> str:
    """Shows the deterministic states after one message."""
    algorithm = LazyDFA()
    filled(algorithm)
    algorithm.match(MESSAGE)
    numbers = {state: number for number, state in enumerate(algorithm._table.values())}
    rows = [
        (
            f"D{number}",
            "{" + ", ".join(str(member.id) for member in sorted(state.members, key=lambda s: s.id)) + "}",
            listed(f"{code(name)} → D{numbers[target]}" for name, target in state.transitions.items()),
            listed(users(stored) for stored in state.outputs),
        )
        for state, number in numbers.items()
    ]
    return table(("state", "set of automaton states", "transitions found so far", "accepts"), rows)


# AFilter and Boone's hybrid.


def afilter() -> dict[str, str]:
    """Shows AxisView, and the stacks."""
    algorithm = AFilter()
    filled(algorithm)
    edges = [
        (
            source,
            listed(
                f"{users(a.path.stored)},{a.step}{'‖' if a.is_descendant else '|'}{'↑' if a.is_trigger else ''}"
                for a in edge.assertions
            ),
            target or "root",
        )
        for source, targets in algorithm.axis_view.items()
        for target, edge in targets.items()
    ]
    names = ["root", *algorithm.axis_view]

    def objects(element: Element) -> Sequence[object]:
        new = algorithm._opened[-1]
        return listed(map(_object, new)), listed(sorted(algorithm._selection.matched))

    steps = run_table(
        algorithm, MESSAGE, ("objects pushed, with their pointers", "matched so far"), objects, ends=False
    )
    return {
        "afilter-edges": table(("edge", "assertions"), [(f"{s} → {t}", label) for s, label, t in edges]),
        "afilter-view.svg": svg.circular(names, [(s, "", t) for s, _, t in edges], "AxisView: labels and axes"),
        "afilter-run": f"{steps}\n\n{outcome(algorithm, MESSAGE)}",
    }


def _object(created: StackObject) -> str:
    pointers = [f"{target or 'root'}{pointed.element.level}" for target, pointed in created.pointers.items()]
    return f"{created.label}{created.element.level} → {listed(pointers, 'nothing')}"


def boone() -> dict[str, str]:
    """Shows the part that each path goes to, and a run."""
    algorithm = BooneHybrid()
    filled(algorithm)

    def children(item: Hashable) -> Sequence[tuple[str, Hashable]]:
        return list(cast(TrieState, item).children.items())

    def node(item: Hashable) -> svg.Node:
        state = cast(TrieState, item)
        return svg.Node("", listed(map(users, state.accepts), ""), strong=bool(state.accepts))

    triggers = [(code(label), listed(map(users, paths))) for label, paths in algorithm.triggers.items()]
    active = [
        (code(event), "none" if state is None else code(_trie_state(state)))
        for event, element in run(algorithm, MESSAGE)
        if element.level and not event.startswith("</")
        for state in [algorithm._active[-1]]
    ]
    return {
        "boone-trie.svg": svg.tree(algorithm.root, children, node, "The trie of the paths without * and //"),
        "boone-triggers": table(("last label", "verified backwards"), triggers),
        "boone-run": f"{table(('event', 'active trie node'), active)}\n\n{outcome(algorithm, MESSAGE)}",
    }


def _trie_state(state: TrieState) -> str:
    return f"{_trie_state(state.parent) if state.parent and state.parent.name else ''}/{state.name}"
