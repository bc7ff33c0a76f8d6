"""AFilter (Dai 2009, section 2.3.3) and Boone's hybrid (section 2.3.4)."""

import pytest

from tests.lab.reference.examples import fill
from twigcast.lab.reference.afilter import AFilter
from twigcast.lab.reference.boone import BooneHybrid

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
