"""YFilter and the lazy DFA as the thesis works them through (Diao 2005, figure 4.2 and section 4.3.3)."""

import pytest

from tests.lab.reference.examples import fill
from twigcast.lab.reference.events import StartElement, Tree
from twigcast.lab.reference.lazy_dfa import LazyDFA
from twigcast.lab.reference.nfa import Run
from twigcast.lab.reference.yfilter import YFilter
from twigcast.query import Path, child

EIGHT = ("/a/b", "/a/c", "/a/b/c", "/a//b/c", "/a/*/c", "/a//c", "/a/*/*/c", "/a/b/c")


def test_yfilter_states_are_those_of_the_paper() -> None:
    yfilter = YFilter()
    fill(yfilter, *EIGHT)
    table = {
        state.id: (
            {symbol: target.id for symbol, target in state.edges.items()},
            sorted(query_id for stored in state.outputs for query_id in stored.plain),
        )
        for state in yfilter.nfa.states()
    }
    assert table == {
        1: ({"a": 2}, []),
        2: ({"b": 3, "c": 4, "ε": 6, "*": 9}, []),
        3: ({"c": 5}, ["Q1"]),
        4: ({}, ["Q2"]),
        5: ({}, ["Q3", "Q8"]),
        6: ({"b": 7, "c": 11}, []),
        7: ({"c": 8}, []),
        8: ({}, ["Q4"]),
        9: ({"c": 10, "*": 12}, []),
        10: ({}, ["Q5"]),
        11: ({}, ["Q6"]),
        12: ({"c": 13}, []),
        13: ({}, ["Q7"]),
    }
    assert [state.id for state in yfilter.nfa.states() if state.is_descendant_child] == [6]
    assert yfilter.counters.states == 13


def test_yfilter_run_of_the_paper() -> None:
    yfilter = YFilter()
    fill(yfilter, *EIGHT)
    tree = Tree()
    run = Run(yfilter.nfa, tree.document, yfilter.counters)
    pushed = [
        [entry.state.id for entry in run.start_element(tree.start(StartElement(name, {}, level)))]
        for level, name in enumerate("abc", start=1)
    ]
    assert pushed == [[2], [3, 9, 7, 6], [5, 10, 12, 8, 11, 6]]
    assert yfilter.match(b"<a><b><c/></b></a>") == {"Q1", "Q3", "Q4", "Q5", "Q6", "Q8"}


def test_yfilter_deletion_takes_the_branch_away() -> None:
    yfilter = YFilter()
    fill(yfilter, *EIGHT)
    for query_id, states in (("Q3", 13), ("Q8", 12), ("Q7", 10), ("Q4", 8), ("Q6", 6), ("Q1", 5)):
        yfilter.remove(query_id)
        assert yfilter.counters.states == states, query_id
    assert yfilter.match(b"<a><b><c/></b><c/></a>") == {"Q2", "Q5"}


def test_lazy_deletion_keeps_the_machine_until_garbage_is_collected() -> None:
    yfilter = YFilter(lazy_deletion=True)
    fill(yfilter, *EIGHT)
    yfilter.remove("Q4")
    assert "Q4" not in yfilter
    assert (len(yfilter), yfilter.counters.states) == (7, 13)
    assert "Q4" not in yfilter.match(b"<a><b><c/></b></a>")
    with pytest.raises(KeyError):
        yfilter.remove("no such query")
    assert yfilter.collect_garbage() == 1
    assert (len(yfilter), yfilter.counters.states) == (7, 11)
    yfilter.remove("Q1")
    yfilter.add("Q1", Path.absolute(child("z")))
    assert yfilter.match(b"<z/>") == {"Q1"}
    assert yfilter.collect_garbage() == 0


def test_lazy_dfa_makes_only_the_states_that_a_message_leads_to() -> None:
    dfa = LazyDFA()
    fill(dfa, *EIGHT)
    message = b"<a><b><c/></b><b><c/></b><d><c/></d></a>"
    assert dfa.match(message) == {"Q1", "Q3", "Q4", "Q5", "Q6", "Q8"}
    assert dfa.deterministic_states == 6  # start, {2}, {3 6 7 9}, {5 6 8 10 11 12}, {6 9}, {6 10 11 12}
    dfa.counters.reset()
    dfa.match(message)
    assert dfa.counters.transitions == 7  # one look-up for each element
    tiny = LazyDFA(states_max=2)
    fill(tiny, *EIGHT)
    assert tiny.match(message) == dfa.match(message)
    assert tiny.flushes == 1
