"""Generated queries: well-formed, distinct where asked for, reproducible, with the published distributions."""

import re
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from twigcast.lab.workload import (
    PRESETS,
    WorkloadError,
    WorkloadExhaustedError,
    bundled_dtd,
    flwr_parts,
    flwr_queries,
    loosen,
    path_queries,
    population,
)
from twigcast.lab.workload.walks import WalkedStep, Walker, path_text, rewrite
from twigcast.schema import ElementGraph, read_dtd

NITF = Path(__file__).parents[3].parent / "shared" / "data" / "nitf" / "nitf-2-5.dtd"
NEWS = bundled_dtd("news")


def steps(query: str) -> list[tuple[str, str]]:
    return re.findall(r"(//?)([^/\[\]]+)", re.sub(r"\[[^\]]*\]", "", query))


def test_plain_walks_follow_the_graph() -> None:
    graph = ElementGraph(NEWS)
    for query in path_queries(NEWS, 500, wildcard=0, descendant=0, depth=8):
        names = query[1:].split("/")
        assert names[0] == graph.root
        assert all(below in graph.children(above) for above, below in pairwise(names))
        assert len(names) == 8 or not graph.children(names[-1])


@pytest.mark.parametrize("predicates", [0, 1, 3])
@pytest.mark.parametrize("nested", [0, 1, 3])
def test_predicates_and_nested_paths(predicates: int, nested: int) -> None:
    queries = path_queries(NEWS, 300, predicates=predicates, nested=nested, operators=("=", "!=", "<", ">="))
    assert len(set(queries)) == 300
    for query in queries:
        etree.XPath(query)
        parts = re.findall(r"\[([^\]]*)\]", query)
        values = [part for part in parts if re.match(r"(@[\w-]+|text\(\))(=|!=|<|>=)", part)]
        assert (len(values), len(parts) - len(values)) == (predicates, nested)


def test_depth_holds_for_nested_paths_too() -> None:
    for query in path_queries(NEWS, 500, depth=4, nested=2, descendant=0):
        for match in re.finditer(r"\[([^\]]*)\]", query):
            anchor = len(steps(query[: match.start()]))
            assert anchor + len(match.group(1).split("/")) <= 4


def test_nested_paths_apart() -> None:
    queries = path_queries(NEWS, 300, depth=3, nested=5, nested_apart=True)
    assert max(query.count("[") for query in queries) == 2
    assert not any("][" in query for query in queries)


def test_queries_are_reproducible_and_prefixes_are_stable() -> None:
    sets: list[dict[str, Any]] = [{}, {"predicates": 2}, {"nested": 1}, {"skew": 0.7}]
    for parameters in sets:
        queries = path_queries(NEWS, 200, 9, **parameters)
        assert path_queries(NEWS, 80, 9, **parameters) == queries[:80]
        assert path_queries(NEWS, 200, 10, **parameters) != queries


def test_the_sequence_never_changes() -> None:
    """Workloads are cited by seed: a change of these texts breaks published figures."""
    assert path_queries(NEWS, 3) == FIRST_PATHS
    assert path_queries(NEWS, 1, predicates=1, nested=1) == FIRST_TWIG
    assert flwr_queries(bundled_dtd("library"), 1) == FIRST_FLWR


FIRST_PATHS = ["/dispatch//keynote", "/*/*/topic/*", "/dispatch/copy/*//reading-list"]
FIRST_TWIG = ['/dispatch[*/*/bullets/*/link]//keynote[@id="n1"]']
FIRST_FLWR = [
    "for $x in /library where $x/volume/press = 1 return <result>{ $x/volume//name } { $x/volume/cost }</result>"
]


def test_fast_and_general_way_agree() -> None:
    for skew in (0.0, 0.8):
        graph = ElementGraph(NEWS)
        fast = Walker(graph, Random("x"), wildcard=0.4, descendant=0.4, skew=skew)
        general = Walker(graph, Random("x"), wildcard=0.4, descendant=0.4, skew=skew)
        for _ in range(3000):
            assert fast.path(8) == path_text(rewrite(general.steps(None, 8)))


WALKED = st.lists(
    st.builds(WalkedStep, st.booleans(), st.booleans(), st.sampled_from("abc"), st.just(0)), min_size=1, max_size=7
)


@given(WALKED)
def test_rewriting(walked: list[WalkedStep]) -> None:
    text = path_text(rewrite(walked))
    assert "//*" not in text
    assert not text.endswith("/")
    assert [name for _, name in steps(text) if name != "*"] == [step.element for step in walked if not step.wildcard]
    if not any(step.wildcard for step in walked):
        assert text == path_text(walked)


@pytest.mark.parametrize(
    ("before", "after"),
    [("//*/a", "/*//a"), ("//*//*/a", "/*//a"), ("/a//*", "/a/*"), ("//*/*/a", "/*/*//a"), ("/a//*//*", "/a/*")],
)
def test_rewriting_examples(before: str, after: str) -> None:
    walked = [WalkedStep(axis == "//", name == "*", name, 0) for axis, name in steps(before)]
    assert path_text(rewrite(walked)) == after


def test_skew_prefers_early_children() -> None:
    def first_children(skew: float) -> Counter[str]:
        created = path_queries(NEWS, 4000, wildcard=0, descendant=0, depth=3, skew=skew, distinct=False)
        return Counter(query.split("/")[3] for query in created if query.count("/") == 3)

    even, skewed = first_children(0), first_children(1)
    assert skewed["heading"] > 1.5 * even["heading"]
    assert skewed["change"] < even["change"]


def test_exhaustion_is_reported() -> None:
    with pytest.raises(WorkloadExhaustedError) as caught:
        path_queries(bundled_dtd("library"), 500, wildcard=0, descendant=0)
    assert caught.value.produced == 8
    assert "500 wanted" in str(caught.value)


@pytest.mark.parametrize(
    "parameters", [{"depth": 0}, {"wildcard": 1.5}, {"descendant": -0.1}, {"predicates": -1}, {"skew": -1.0}]
)
def test_senseless_parameters_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(WorkloadError):
        path_queries(NEWS, 1, **parameters)


# YFilter's generator on NITF 2.5, D=6, W=DS=0.2, 100,000 random queries: shares of 1..6 steps (measured on its files).
YFILTER_LENGTHS = [0.087, 0.123, 0.301, 0.255, 0.091, 0.143]


@pytest.mark.parametrize("dtd", ["news", "nitf"])
def test_random_queries_look_like_yfilters(dtd: str) -> None:
    if dtd == "nitf" and not NITF.exists():
        pytest.skip("the real NITF DTD is not part of this repository")
    schema = NEWS if dtd == "news" else read_dtd(NITF)
    queries = path_queries(schema, 50_000, distinct=False)
    lengths = Counter(len(steps(query)) for query in queries)
    assert [lengths[n] / len(queries) for n in range(1, 7)] == pytest.approx(YFILTER_LENGTHS, abs=0.01)
    # Diao 2005, table 3 grows from 0.53 to 15.7 thousand distinct among 1 and 100 thousand.
    assert len(set(queries[:1000])) == pytest.approx(530, rel=0.2)
    assert len(set(queries)) < 0.35 * len(queries)


def test_average_depths_are_near_the_published_ones() -> None:
    """Diao 2005, table 4: 5.05, 5.70, 6.09, 6.35, 6.53 steps for D = 6..10."""
    for depth, published in {6: 5.05, 8: 6.09, 10: 6.53}.items():
        queries = path_queries(NEWS, 50_000, depth=depth)
        assert sum(len(steps(query)) for query in queries) / len(queries) == pytest.approx(published, rel=0.06)


def test_generation_is_fast() -> None:
    """A million distinct queries in a minute is 60 microseconds each; measured 25. Slow machines get 180."""
    started = time.process_time()
    path_queries(NEWS, 20_000, depth=8)
    assert time.process_time() - started < 20_000 * 180e-6


def test_loosening_changes_the_same_places() -> None:
    base = path_queries(NEWS, 500, wildcard=0, descendant=0, depth=10)
    assert loosen(base) == base
    stars = [sum(name == "*" for query in loosen(base, 2, wildcard=w) for _, name in steps(query)) for w in (0.2, 0.4)]
    assert 0 < stars[0] < stars[1]
    few, many = loosen(base, 2, descendant=0.2), loosen(base, 2, descendant=0.6)
    assert len(few) <= 500
    assert sum(query.count("//") for query in few) < sum(query.count("//") for query in many)


def test_queries_and_documents_share_their_values() -> None:
    """Of queries with one predicate a good part matches some document: the domains are the same."""
    schema, preset = bundled_dtd("library"), PRESETS["library"]
    domains = preset.domains(schema)
    queries = path_queries(schema, 200, depth=4, predicates=1, domains=domains)
    trees = [etree.fromstring(document) for document in preset.make(schema, 20)]
    matching = sum(any(etree.XPath(f"boolean({query})")(tree) for tree in trees) for query in queries)
    assert matching > 150


def test_flwr_parameters_are_kept() -> None:
    schema = bundled_dtd("manual")
    created = flwr_parts(schema, 400, binding_depth=3, predicate_paths=2, return_paths=3, descendant=0.3)
    assert len({query.identity for query in created}) == 400
    for query in created:
        assert len(query.where) == 2
        assert len(set(query.returns)) == 3
        assert 1 <= len(steps(query.binding)) <= 3
        assert all(1 <= len(steps(path)) <= 2 for path in query.returns)
        assert all("*" not in path for path in (query.binding, *query.returns))
    assert created[0].text.startswith(f"for $x in {created[0].binding} where $x")


def test_flwr_without_predicates() -> None:
    assert " where " not in flwr_queries(bundled_dtd("library"), 1, predicate_paths=0)[0]


def test_flwr_exhaustion() -> None:
    with pytest.raises(WorkloadExhaustedError):
        flwr_queries(bundled_dtd("library"), 300, descendant=0, max_value=2, return_paths=1)


def test_population_has_the_shares() -> None:
    created = list(population(NEWS, 1000, shares={"path": 5, "twig": 3, "flwr": 2}, distinct=True))
    assert [item.key for item in created[:2]] == ["s1", "s2"]
    kinds = Counter("flwr" if "return" in q.query else "twig" if "[" in q.query else "path" for q in created)
    assert kinds == {"path": 500, "twig": 300, "flwr": 200}
    assert list(population(NEWS, 1000, shares={"path": 5, "twig": 3, "flwr": 2}, distinct=True)) == created


@pytest.mark.parametrize("shares", [{}, {"paths": 1.0}, {"path": -1.0, "twig": 2.0}])
def test_senseless_shares_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(WorkloadError):
        list(population(NEWS, 10, shares=shares))
