"""NP-Filter (Diao 2005, section 5.2)."""

from tests.lab.reference.examples import fill, names, paths
from twigcast.lab.reference.events import build, read_events
from twigcast.lab.reference.language import PathQuery
from twigcast.lab.reference.np_filter import NPFilter, decompose
from twigcast.lab.reference.selection import PathMatch, path_matches_at
from twigcast.lab.reference.yfilter import YFilter

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
