"""Selection Postponed, Inline and predicate sorting (Diao 2005, section 5.1)."""

import pytest

from tests.lab.reference.examples import fill, names, paths
from twigcast.lab.reference import YFilterInline
from twigcast.lab.reference.events import StartElement, Tree
from twigcast.lab.reference.nfa import NFA, Entry, Run
from twigcast.lab.reference.selection import UniformSelectivity, conditions_of
from twigcast.lab.reference.yfilter import YFilter


def test_path_matches_drop_loops() -> None:
    """Section 5.1.2: the state sequences that end in state 5 are 2, 3, 5 and 3, 4, 5."""
    nfa: NFA[None] = NFA()
    nfa.insert(paths("//a//b").steps)
    tree = Tree()
    run = Run(nfa, tree.document, YFilter().counters)
    active: list[Entry[None]] = []
    for level, name in enumerate("aab", start=1):
        active = run.start_element(tree.start(StartElement(name, {}, level)))
    (accepting,) = [entry for entry in active if entry.state.id == 5]
    sequences = {
        (outer.state.id, inner.state.id, accepting.state.id)
        for inner in accepting.predecessors
        for outer in inner.predecessors
        if outer.predecessors
    }
    assert sequences == {(2, 3, 5), (3, 4, 5)}
    assert [names(match) for match in accepting.path_matches()] == ["a2 b3", "a1 b3"]


def test_selection_postponed_stops_at_the_first_match_that_passes() -> None:
    yfilter = YFilter()
    fill(yfilter, '//a[@a1="v2"]//b')
    assert yfilter.match(b'<a a1="v1"><a a1="v2"><b/><b/></a></a>') == {"Q1"}
    assert yfilter.counters.predicate_evaluations == 1
    assert (yfilter.counters.accepting_visits, yfilter.counters.path_matches) == (2, 2)


def test_text_conditions_wait_for_the_end_tag() -> None:
    yfilter = YFilter()
    fill(yfilter, '//a[text()="x"]/b[@p=1]')
    assert yfilter.match(b'<a><b p="1"/>x</a>') == {"Q1"}
    assert yfilter.match(b'<a><b p="2"/>x</a>') == set()
    assert yfilter.match(b'<r>x<a><b p="1"/></a>x</r>') == set()


def test_inline_as_published_forgets_the_path() -> None:
    wrong = b'<a x="1"><a x="2"><b/></a></a>'
    for inline, expected in ((YFilterInline(published=True), {"Q1"}), (YFilterInline(), set())):
        fill(inline, "//a[@x=1]/b", "//a[@x=1][@x=2]/b")
        assert inline.match(wrong) == expected


def test_inline_undoes_at_end_tags() -> None:
    """Only open elements count, in the published rule too."""
    for inline in (YFilterInline(published=True), YFilterInline()):
        fill(inline, "//a[@x=1]/b")
        assert inline.match(b'<r><a x="1"/><a x="2"><b/></a></r>') == set()


def test_inline_evaluates_where_selection_postponed_does_not_have_to() -> None:
    """Why SP wins: Inline tests at every step of every run, SP only where the whole path is."""
    inline, postponed = YFilterInline(), YFilter()
    message = b"<a>" + b'<b p="1"/>' * 20 + b'<b p="1"><c/></b></a>'
    for algorithm in (inline, postponed):
        fill(algorithm, "/a/b[@p=1]/c")
        assert algorithm.match(message) == {"Q1"}
    assert (inline.counters.predicate_evaluations, postponed.counters.predicate_evaluations) == (21, 1)


def test_predicate_sorting_puts_the_most_selective_first() -> None:
    """Section 5.1.3, and the operators derived there."""
    statistics = UniformSelectivity(
        {("a", "p"): 0.5, ("b", "q"): 0.8, ("b", "p"): 0.1}, {("a", "p"): 10, ("b", "q"): 4}
    )
    estimate = {
        "[@p]": 0.5,
        "[@p=3]": 0.05,
        "[@p!=3]": 0.45,
        "[@p<3]": 0.1,
        "[@p<=3]": 0.15,
        "[@p>3]": 0.35,
        "[@p>=3]": 0.4,
        "[@p>99]": 0,
        "[4]": 0.25,
    }
    for predicate, expected in estimate.items():
        assert statistics(paths(f"/a{predicate}").steps[0], 0) == pytest.approx(expected), predicate
    assert statistics(paths("/*[@p]").steps[0], 0) == pytest.approx(0.3)
    ordered = conditions_of(paths("/a[@p]/b[@q=1]/a[@p=1]"), statistics)
    assert [condition.step_index for condition in ordered] == [2, 1, 0]
    plain, sorted_ = YFilter(), YFilter(statistics)
    for algorithm in (plain, sorted_):
        fill(algorithm, "/r/a[@p][@p>0][@p=7]")
        assert algorithm.match(b"<r>" + b'<a p="3"/>' * 10 + b"</r>") == set()
    assert (plain.counters.predicate_evaluations, sorted_.counters.predicate_evaluations) == (30, 10)
