"""XFilter and Diao's Hybrid (Diao 2005, section 2.4, appendices A and B), and the release of YFilter."""

import pytest

from tests.lab.reference.examples import fill, paths
from tests.lab.reference.generator import Generator
from twigcast.lab.reference import PUBLISHED
from twigcast.lab.reference.events import build, read_events
from twigcast.lab.reference.hybrid import DiaoHybrid, substrings
from twigcast.lab.reference.language import path_query
from twigcast.lab.reference.path_algorithm import StoredPath
from twigcast.lab.reference.selection import ends_at, path_matches_at
from twigcast.lab.reference.xfilter import XFilter, path_nodes
from twigcast.lab.reference.yfilter import YFilter


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
            result = next(path_matches_at(steps, element), None) is not None
            assert ends_at(steps, element) == result
            ends += result
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
