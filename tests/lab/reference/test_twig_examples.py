"""GFilter (Dai 2009, section 2.3.5) and BFilter (chapter 3)."""

import pytest

from tests.lab.reference.examples import fill, names, paths
from twigcast.lab.reference.bfilter import BFilter, sub_queries
from twigcast.lab.reference.bfilter_published import BFilterPublished
from twigcast.lab.reference.events import read_events
from twigcast.lab.reference.gfilter import GFilter
from twigcast.lab.reference.yfilter import YFilter
from twigcast.query import parse


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
