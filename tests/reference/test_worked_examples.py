"""The examples that the papers work through: the structures, and every step of the runs."""

import pytest

from tests.reference.generator import Generator
from twigcast.query import Path, child, descendant, parse
from twigcast.reference import ALGORITHMS, PUBLISHED, Algorithm, YFilterInline
from twigcast.reference.afilter import AFilter
from twigcast.reference.bfilter import BFilter, sub_queries
from twigcast.reference.bfilter_published import BFilterPublished
from twigcast.reference.boone import BooneHybrid
from twigcast.reference.events import StartElement, Tree, build, read_events
from twigcast.reference.gfilter import GFilter
from twigcast.reference.hybrid import DiaoHybrid, substrings
from twigcast.reference.language import PathQuery, path_query
from twigcast.reference.lazy_dfa import LazyDFA
from twigcast.reference.nfa import NFA, Entry, Run
from twigcast.reference.np_filter import NPFilter, decompose
from twigcast.reference.path_algorithm import StoredPath
from twigcast.reference.selection import PathMatch, UniformSelectivity, conditions_of, ends_at, path_matches_at
from twigcast.reference.xfilter import XFilter, path_nodes
from twigcast.reference.yfilter import YFilter


def fill(algorithm: Algorithm, *queries: str) -> None:
    for number, query in enumerate(queries, start=1):
        algorithm.add(f"Q{number}", parse(query))


def paths(query: str) -> PathQuery:
    return path_query(parse(query))


def names(match: PathMatch) -> str:
    return " ".join(map(repr, match))


# The event stream.


def test_tag_labels() -> None:
    labels = [(element.name, element.label) for element in build(read_events(b"<a><b><c/></b><b/></a>"))]
    assert labels == [("a", (1, 8, 1)), ("b", (2, 5, 2)), ("c", (3, 4, 3)), ("b", (6, 7, 2))]


def test_tag_labels_tell_ancestors() -> None:
    elements = build(read_events(b"<a><b><c/><c><b/></c></b><b/></a>"))
    for x in elements:
        for y in elements:
            contains = x.left < y.left and y.right < x.right
            assert contains == (x in y.ancestors())
            assert (contains and y.level == x.level + 1) == (y.parent is x)


def test_comments_and_instructions_split_text_nodes() -> None:
    a, b = build(read_events(b"<a>x&lt;y<!-- -->z<?p?><![CDATA[w]]><b>in</b>u</a>"))
    assert a.texts == ["x<y", "z", "w", "u"]
    assert a.string_value == "x<yzwinu"
    assert b.texts == ["in"]


# YFilter (Diao 2005, Figure 4.2 and section 4.3.3).

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


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_query_added_between_messages_is_seen_by_the_next(name: str) -> None:
    algorithm = ALGORITHMS[name]()
    fill(algorithm, "/a/b")
    message = b"<a><b/><c/></a>"
    assert algorithm.match(message) == {"Q1"}
    algorithm.add("Q2", parse("/a/c"))
    algorithm.add("Q3", parse("//c"))
    assert algorithm.match(message) == {"Q1", "Q2", "Q3"}
    algorithm.remove("Q1")
    assert algorithm.match(message) == {"Q2", "Q3"}


# Predicates (Diao 2005, section 5.1).


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


# Nested paths (Diao 2005, section 5.2).

TWIG = "/a[d]//b[e/f]/c"
WITH_A_WITNESS = b"<a><d/><b><e><f/></e></b><b><c/></b><b><e><f/></e><c/></b></a>"


def stores(operator: NPFilter, message: bytes) -> dict[PathQuery, list[PathMatch]]:
    return {
        path: [match for element in build(read_events(message)) for match in path_matches_at(path.steps, element)]
        for path in operator.paths()
    }


def test_np_filter_example() -> None:
    operator = decompose(paths(TWIG))
    assert [str(path) for path in operator.paths()] == ["/a//b/c", "/a/d", "/a//b/e/f"]
    assert [anchor for anchor, _ in operator.nested] == [0, 1]
    filled = stores(operator, WITH_A_WITNESS)
    assert [[tuple(e.id for e in match) for match in store] for store in filled.values()] == [
        [(1, 6, 7), (1, 8, 11)],
        [(1, 2)],
        [(1, 3, 4, 5), (1, 8, 9, 10)],
    ]
    survivors = list(operator.survivors(filled, YFilter().counters))
    assert [names(match) for match in survivors] == ["a1 b8 c11"]
    parts_apart = stores(operator, b"<a><d/><b><e><f/></e></b><b><c/></b></a>")
    assert all(parts_apart.values())
    assert not list(operator.survivors(parts_apart, YFilter().counters))


def test_np_filter_of_a_nested_nested_path() -> None:
    operator = decompose(paths("/a/b[c[d][@x=1]//e]/f"))
    ((anchor, inner),) = operator.nested
    assert (str(operator.path), anchor) == ("/a/b/f", 1)
    assert str(inner.path) == "/a/b/c//e"
    assert [condition.step_index for condition in inner.conditions] == [2]
    assert [(position, str(innermost.path)) for position, innermost in inner.nested] == [(2, "/a/b/c/d")]


def test_an_empty_store_decides_without_looking_further() -> None:
    yfilter = YFilter()
    fill(yfilter, "/a[@x=1][d]/b")
    assert yfilter.match(b"<a><b/><b/></a>") == set()
    assert yfilter.counters.predicate_evaluations == 0
    assert yfilter.counters.store_checks_failed == 1


# XFilter and Diao's Hybrid (Diao 2005, section 2.4, appendices A and B).


def test_path_nodes() -> None:
    nodes = path_nodes(StoredPath(paths("/a/*/b//c//*/d/*/*")))
    assert [(n.position, n.name, n.relative_pos, n.distance) for n in nodes] == [
        (1, "a", 1, 1),
        (2, "b", 2, 2),
        (3, "c", -1, 1),
        (4, "d", -1, 2),
        (5, "*", 2, 2),
    ]


def test_basic_placement_and_list_balance() -> None:
    basic, balanced = XFilter(list_balance=False), XFilter()
    for algorithm in (basic, balanced):
        fill(algorithm, "/a/b", "/a/c", "/a/b/c")
    lists = [{name: len(entries) for name, entries in x.candidates.items() if entries} for x in (basic, balanced)]
    assert lists == [{"a": 3}, {"a": 1, "b": 1, "c": 1}]
    for algorithm in (basic, balanced):
        assert algorithm.match(b"<a><b><c/></b></a>") == {"Q1", "Q3"}


def test_list_balance_does_not_begin_at_an_end_in_any_element() -> None:
    # Its list would be walked at every element; only a path without a name has no other.
    balanced = XFilter()
    fill(balanced, "/a/b", "/a/b/*", "//a/*/*", "//*/*")
    candidates = {name: len(entries) for name, entries in balanced.candidates.items() if entries}
    assert candidates == {"a": 2, "b": 1, "*": 1}
    assert balanced.match(b"<a><b><c/></b></a>") == {"Q1", "Q2", "Q3", "Q4"}


@pytest.mark.parametrize("seed", range(30_000, 30_003))
def test_the_check_of_a_prefix_is_whether_there_is_a_path_match(seed: int) -> None:
    generator = Generator(seed)
    ends = 0
    for _ in range(40):
        steps = path_query(generator.linear()).steps
        for element in build(read_events(generator.message())):
            found = next(path_matches_at(steps, element), None) is not None
            assert ends_at(steps, element) == found
            ends += found
    assert ends > 20


def test_recursive_elements_put_copies_of_one_node_in_a_list() -> None:
    xfilter = XFilter(list_balance=False)
    fill(xfilter, "//a/b")
    xfilter.match(b"<a><a><a><b/></a></a></a>")
    assert xfilter.counters.active_states_peak == 3


def test_substrings() -> None:
    cut = [(s.names, s.distance, s.exact) for s in substrings(paths("/a/b//c/d/*/e//*/*"))]
    assert cut == [(("a", "b"), 2, True), (("c", "d"), 2, False), (("e",), 2, True), (("*",), 2, False)]


def test_the_hybrid_shares_substrings_wherever_they_stand() -> None:
    hybrid = DiaoHybrid()
    fill(hybrid, "/a/b//c/d", "//c/d/*/a/b", "/*/c/d")
    assert len(hybrid.root.children) == 2  # a-b and c-d
    assert hybrid.match(b"<a><b><c><d><x><a><b/></a></x></d></c></b></a>") == {"Q1", "Q2"}


@pytest.mark.parametrize(("query", "message"), [("/*//b", b"<b/>"), ("/a//*/b", b"<a><b/></a>")])
@pytest.mark.parametrize("name", ["xfilter-published", "hybrid-diao-published"])
def test_level_checks_as_published_lose_the_minimum_distance(name: str, query: str, message: bytes) -> None:
    for algorithm, expected in ((PUBLISHED[name](), {"Q1"}), (XFilter(), set()), (DiaoHybrid(), set())):
        fill(algorithm, query)
        assert algorithm.match(message) == expected


def test_positions_as_in_the_release_of_yfilter() -> None:
    message = b"<r><a/><b><x/></b><c/><b><y/></b></r>"
    for query, exact, released in (
        ("/r/*[3]", True, False),
        ("/r/*[1]", True, True),
        ("/r/b[2]/y", True, True),
        ("/r/*[2]/y", False, True),
        ("/r[b[2]/y]", True, True),
        ("/r/b[1]/y", False, False),
    ):
        for algorithm, expected in ((YFilter(), exact), (PUBLISHED["yfilter-1.0"](), released)):
            fill(algorithm, query)
            assert algorithm.match(message) == ({"Q1"} if expected else set()), (query, algorithm.title)


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ("/a[@p=1][2]", "a position together with another predicate"),
        ("/a[b[@p<1]]", "an attribute compared by anything but ="),
        ("/a[b[c]]", "a nested path within a nested path"),
    ],
)
def test_what_the_release_of_yfilter_refuses(query: str, construct: str) -> None:
    release = PUBLISHED["yfilter-1.0"]()
    with pytest.raises(ValueError, match=f"YFilter 1.0: {construct}"):
        fill(release, query)
    assert len(release) == 0
    assert release.counters.states == 0


# AFilter (Dai 2009, section 2.3.3) and Boone's hybrid (section 2.3.4).

FOUR = ("//d//a//b", "//a//b//a//b", "//a//b/c", "/a/*/c")


def test_axis_view() -> None:
    afilter = AFilter()
    fill(afilter, *FOUR)
    numbers = {stored.path: number for number, stored in enumerate(afilter._paths_by_stored, start=1)}
    view = {
        f"{source}→{target or 'root'}": {
            f"q{numbers[a.path.stored.path]},{a.step}{'||' if a.is_descendant else '|'}{'↑' if a.is_trigger else ''}"
            for a in edge.assertions
        }
        for source, edges in afilter.axis_view.items()
        for target, edge in edges.items()
    }
    assert view == {
        "d→root": {"q1,0||"},
        "a→root": {"q2,0||", "q3,0||", "q4,0|"},
        "a→d": {"q1,1||"},
        "b→a": {"q1,2||↑", "q2,1||", "q2,3||↑", "q3,1||"},
        "a→b": {"q2,2||"},
        "c→b": {"q3,2|↑"},
        "c→*": {"q4,2|↑"},
        "*→a": {"q4,1|"},
    }


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("clustering", [False, True])
def test_afilter_run(caching: bool, clustering: bool) -> None:
    afilter = AFilter(prefix_caching=caching, suffix_clustering=clustering)
    fill(afilter, *FOUR)
    assert afilter.match(b"<a><d><a><b><c/></b></a></d></a>") == {"Q1", "Q3"}
    assert afilter.counters.active_states_peak == 10  # one object for each name and one for `*`


def test_prefix_caching_and_suffix_clustering_save_pointers() -> None:
    message = b"<x><a>" + b"<b>" * 12 + b"<c/><c/><d/>" + b"</b>" * 12 + b"</a></x>"
    followed = {}
    for caching in (False, True):
        for clustering in (False, True):
            afilter = AFilter(prefix_caching=caching, suffix_clustering=clustering)
            fill(afilter, "/y//a//b//b//c", "/z//a//b//b//c", "/y//a//b//b//d")
            assert afilter.match(message) == set()
            followed[caching, clustering] = afilter.counters.transitions
    assert followed[False, False] > followed[False, True] > followed[True, True]
    assert followed[False, False] > followed[True, False]


def test_prefix_labels_are_given_up_with_their_paths() -> None:
    afilter = AFilter(prefix_caching=True)
    fill(afilter, *FOUR)
    for number in (2, 3, 1, 4):
        afilter.remove(f"Q{number}")
    assert not afilter._prefix_numbers
    assert not afilter._suffixes


def test_nothing_happens_before_the_last_label() -> None:
    afilter = AFilter()
    fill(afilter, *FOUR)
    afilter.match(b"<a><d><a/></d><a/></a>")
    assert afilter.counters.transitions == 0


def test_boone_splits_by_wildcards() -> None:
    boone = BooneHybrid()
    fill(boone, "/a/b", "/a/b/c", "/a//b", "/a/*/c", "/a/b[c]/d")
    assert {name: len(triggers) for name, triggers in boone.triggers.items()} == {"b": 1, "c": 1}
    assert boone.match(b"<a><b><c/><d/></b></a>") == {"Q1", "Q2", "Q3", "Q4", "Q5"}


# GFilter (Dai 2009, section 2.3.5).


def test_result_tuples() -> None:
    message = read_events(b"<A><B><D/><B><D/><B/><C/><C/></B></B></A>")
    rows = GFilter().result_tuples(parse("//A//B[D]//C"), message)
    assert {names(row) for row in rows} == {"A1 B2 D3 C7", "A1 B2 D3 C8", "A1 B4 D5 C7", "A1 B4 D5 C8"}


def test_suffixes_are_shared() -> None:
    gfilter = GFilter()
    fill(gfilter, "//A//B//C", "/x/B//C", "//y[B//C]/C")
    labels = sorted(str(node.step)[1:] for node in gfilter.suffix_nodes())
    assert labels == ["A", "B", "C", "x", "y"]
    assert sorted(str(n.step)[1:] for n in gfilter.suffix_nodes() if n.is_marked) == ["A", "x", "y"]
    assert gfilter.match(b"<y><B><z><C/></z></B><C/></y>") == {"Q3"}


def test_equal_nested_elements_cost_one_look_each() -> None:
    """Once for each element, not once for each combination."""
    gfilter, depth = GFilter(), 30
    fill(gfilter, "//b//b//b//b/c")
    assert gfilter.match(b"<b>" * depth + b"<c/>" + b"</b>" * depth) == {"Q1"}
    assert gfilter.counters.transitions <= 4 * depth + 1


# BFilter (Dai 2009, chapter 3).

BRANCHING = b"<a><b><c><d/></c><e/></b></a>"


def test_bfilter_published_example() -> None:
    bfilter = BFilterPublished(tracing=True)
    fill(bfilter, "/a/b/e", "/a/b[c]/e", "/a//c[e]/d", "/a/*[b]/c")
    assert bfilter.match(BRANCHING) == {"Q1", "Q2"}
    assert [f"</{element.name}> {sub_query} {outcome}" for element, sub_query, outcome in bfilter.trace] == [
        "</c> Q{Q3,1} cancelled",
        "</b> Q{Q2,1} matched",
        "</b> Q{Q4,1} failed",
        "</a> Q{Q1,0} matched",
        "</a> Q{Q2,0} matched",
        "</a> Q{Q3,0} failed",
        "</a> Q{Q4,0} failed",
    ]
    corrected = BFilter()
    fill(corrected, "/a/b/e", "/a/b[c]/e", "/a//c[e]/d", "/a/*[b]/c")
    assert corrected.match(BRANCHING) == {"Q1", "Q2"}


def test_bfilter_case_study_every_part_matches_but_not_the_twig() -> None:
    message = b"<a><b><e><f/><c/></e><c><d/></c></b><c><b><e><g/></e></b></c></a>"
    for bfilter in (BFilter(), BFilterPublished()):
        fill(bfilter, "/a//b[c/d]/e[g]/f")
        assert bfilter.match(message) == set()
    yfilter = YFilter()
    fill(yfilter, "/a//b/e/f", "/a//b/c/d", "/a//b/e/g")
    assert yfilter.match(message) == {"Q1", "Q2", "Q3"}


@pytest.mark.parametrize(
    ("query", "message", "matches"),
    [
        ("//b/c", b"<a><b><c/></b></a>", True),
        ("//b[c/d]/c/e", b"<a><b><c><d/><e/></c></b></a>", True),
        ("//b[.//c]/d", b"<a><b><d><c/></d></b></a>", True),
        ("//a[x]//b[c]/d", b"<a><x/><a><b><c/><d/></b></a></a>", True),
        ("//*[c]/c", b"<d><c/><c/></d>", True),
        ("//a[x]/b[c]/d", b"<a><b><c/><d/></b><a><x/><y/></a></a>", False),
    ],
)
def test_bfilter_as_published_is_wrong_where_it_is_known_to_be(query: str, message: bytes, matches: bool) -> None:
    published, corrected = BFilterPublished(), BFilter()
    for bfilter in (published, corrected):
        fill(bfilter, query)
    assert corrected.match(message) == ({"Q1"} if matches else set())
    assert published.match(message) == (set() if matches else {"Q1"})


def test_the_tree_of_sub_queries() -> None:
    parts = sub_queries("m", paths("/a//b[c[d][e]/f]/g[@x=1]"))
    described = [
        (str(part), str(part.root)[:2], [("".join(map(str, b.steps)), str(b.child or "")) for b in part.branches])
        for part in parts
    ]
    assert described == [
        ("Q{m,0}", "/a", [("//b", "Q{m,1}")]),
        ("Q{m,1}", "//", [("/c", "Q{m,2}"), ("/g[@x = 1]", "")]),
        ("Q{m,2}", "/c", [("/d", ""), ("/e", ""), ("/f", "")]),
    ]
    assert [part.needs_branching for part in parts] == [False, True, True]


def test_matched_portions() -> None:
    bfilter = BFilter()
    fill(bfilter, "//b[c/d]/e", "//e", "//z")
    bfilter.match(b"<a><b><c/><e/></b><x/><b><c/><c><d/></c><q/><e/></b></a>")
    assert bfilter.portions == {"Q1": (6, 8, 9, 11), "Q2": (4,)}


def test_candidates_live_only_while_their_root_is_open() -> None:
    bfilter = BFilter()
    fill(bfilter, "//b[c][d]/e")
    bfilter.match(b"<a>" + b"<b><c/><d/></b>" * 50 + b"</a>")
    assert bfilter.counters.candidates_peak == 3


def test_bfilter_as_published_has_one_level_of_nesting() -> None:
    with pytest.raises(ValueError, match="a nested path within a nested path"):
        fill(BFilterPublished(), "/a[b[c]]")


def test_conditions_on_a_transit_branch_as_published() -> None:
    published = BFilterPublished()
    fill(published, "/a/b[@x=1]/c[d]/e")
    assert published.match(b'<a><b x="1"><c><d/><e/></c></b></a>') == {"Q1"}
    assert published.match(b'<a><b x="2"><c><d/><e/></c></b></a>') == set()


def test_unsupported_query_names_the_construct() -> None:
    with pytest.raises(ValueError, match=r"Inline: a nested path is not supported: /a\[b\]"):
        YFilterInline().add("Q", Path.absolute(child("a", Path.relative(child("b")))))
    with pytest.raises(ValueError, match="a path that ends in"):
        XFilter(published=True).add("Q", Path.absolute(descendant("a"), child("*")))
