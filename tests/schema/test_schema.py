"""The DTD reader, the element graph and the table of characteristics."""

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from twigcast.lab.workload import DTD_NAMES, bundled_dtd
from twigcast.schema import DtdValidator, ElementGraph, SchemaError, read_dtd, statistics, statistics_table

SHARED = Path(__file__).parents[2].parent / "shared" / "data"

LOOPS = b"""
<!ELEMENT digest (item+, note?)>
<!ELEMENT item (head, (item | pic)*, mark)>
<!ATTLIST item id ID #REQUIRED prio (high | low) "low" lang CDATA #FIXED "en">
<!ELEMENT head (#PCDATA)>
<!ELEMENT pic (cap, cap2?)>
<!ELEMENT cap (#PCDATA | b)*>
<!ELEMENT cap2 (#PCDATA)>
<!ELEMENT b (i?)>
<!ELEMENT i (b*)>
<!ELEMENT note ANY>
<!ELEMENT mark EMPTY>
"""


def graph(text: bytes) -> ElementGraph:
    return ElementGraph(read_dtd(text))


def test_reads_content_models_and_attributes() -> None:
    schema = read_dtd(LOOPS)
    assert schema.root == "digest"
    item = schema.elements["item"]
    assert [particle.kind for particle in item.content.children] == ["element", "choice", "element"]
    assert item.content.children[1].maximum is None
    assert not item.has_text
    assert schema.elements["cap"].has_text
    identifier, language, priority = item.attributes
    assert (identifier.type, identifier.required) == ("id", True)
    assert (priority.values, priority.default, priority.fixed) == (("high", "low"), "low", False)
    assert (language.fixed, language.default) == (True, "en")


def test_flattens_long_groups_but_keeps_nested_ones() -> None:
    content = read_dtd(b"<!ELEMENT a (b, c, (d, e)?, (f | (g | h)+))> <!ELEMENT b EMPTY>").elements["a"].content
    assert [particle.kind for particle in content.children] == ["element", "element", "sequence", "choice"]
    assert list(content.elements()) == list("bcdefgh")
    assert content.children[3].children[1].maximum is None


@pytest.mark.parametrize(("text", "root"), [(b"", None), (b"<!ELEMENT a (b>", None), (b"<!ELEMENT a (b)>", "c")])
def test_refuses_what_is_no_dtd(text: bytes, root: str | None) -> None:
    with pytest.raises(SchemaError):
        read_dtd(text, root=root)


@pytest.mark.parametrize("way", ["SYSTEM", 'PUBLIC "something"'])
@pytest.mark.parametrize("url", ["{path}", "file://{path}", "beside.dtd", "http://127.0.0.1:9/beside.dtd", "/dev/zero"])
def test_a_text_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, url: str) -> None:
    """Whoever sends one would learn what lies on this machine, or keep it busy."""
    (tmp_path / "beside.dtd").write_bytes(b"<!ELEMENT secret EMPTY>")
    monkeypatch.chdir(tmp_path)
    where = url.format(path=tmp_path / "beside.dtd")
    text = f'<!ENTITY % x {way} "{where}"> %x; <!ELEMENT a EMPTY>'
    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(SchemaError) as refused:
            read_dtd(text.encode(encoding))
        assert "secret" not in str(refused.value)
    # What is declared but not asked for is nobody's business.
    declared = f'<!ENTITY picture {way} "{where}"> <!ELEMENT a EMPTY>'
    assert list(read_dtd(declared.encode()).elements) == ["a"]
    # A file may have others beside it.
    (tmp_path / "main.dtd").write_text('<!ENTITY % x SYSTEM "beside.dtd"> %x; <!ELEMENT a (secret)>')
    assert set(read_dtd(tmp_path / "main.dtd").elements) == {"secret", "a"}


def test_a_text_that_expands_without_end_is_refused() -> None:
    levels = "".join(f'<!ENTITY % e{n} "{f"%e{n - 1};" * 10}">' for n in range(1, 10))
    with pytest.raises(SchemaError):
        read_dtd(f'<!ENTITY % e0 "xxxxxxxxxx">{levels}<!ELEMENT a EMPTY> %e9;'.encode())


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_dtd(tmp_path / "none.dtd")


def test_loops() -> None:
    g = graph(LOOPS.replace(b"ANY", b"EMPTY"))
    assert set(g.recursive) == {"item", "b", "i"}
    assert g.on_same_loop("b", "i")
    assert g.on_same_loop("item", "item")
    assert not g.on_same_loop("item", "b")
    assert not g.on_same_loop("pic", "pic")
    assert g.maximum_depth is None


def test_any_leads_everywhere() -> None:
    g = graph(LOOPS)
    assert g.on_same_loop("note", "digest")
    assert "pic" in g.children("note")


def test_counts_of_children() -> None:
    g = graph(LOOPS)
    assert not g.optional("item", "head")
    assert g.optional("item", "pic")
    assert g.repeated("digest", "item")
    assert not g.repeated("pic", "cap")


def test_repetition_counts_across_a_sequence_but_not_a_choice() -> None:
    g = graph(
        b"<!ELEMENT r (a, b, a)> <!ELEMENT a (c | (d, c))> <!ELEMENT b (c?)+> <!ELEMENT c EMPTY> <!ELEMENT d EMPTY>"
    )
    assert g.repeated("r", "a")
    assert not g.repeated("a", "c")
    assert not g.optional("a", "c")
    assert g.repeated("b", "c")
    assert g.optional("b", "c")


def test_only_path() -> None:
    g = graph(LOOPS.replace(b"ANY", b"EMPTY"))
    assert g.only_path(None, "digest") == ("digest",)
    assert g.only_path("pic", "cap") == ("cap",)
    assert g.only_path("item", "cap") is None
    assert g.only_path(None, "item") is None
    assert g.only_path("pic", "item") is None
    assert g.only_path("pic", "i") is None


def test_heights() -> None:
    g = graph(b"<!ELEMENT a (b, (c | d))> <!ELEMENT b (e)> <!ELEMENT c (c)> <!ELEMENT d EMPTY> <!ELEMENT e (#PCDATA)>")
    assert g.minimum_height == {"a": 3, "b": 2, "d": 1, "e": 1}


def brute_paths(edges: dict[str, list[str]], above: str, below: str, limit: int) -> list[tuple[str, ...]]:
    """All paths of at most ``limit`` steps: with ``limit`` over twice the nodes, a loop on the way shows as many."""
    results: list[tuple[str, ...]] = []
    pending: list[tuple[str, ...]] = [(child,) for child in edges[above]]
    while pending:
        path = pending.pop()
        if path[-1] == below:
            results.append(path)
        if len(path) < limit:
            pending.extend((*path, child) for child in edges[path[-1]])
    return results


@pytest.mark.parametrize("seed", range(60))
def test_graph_against_brute_force(seed: int) -> None:
    random = Random(seed)
    names = list("abcde")
    edges = {name: [other for other in names if random.random() < 0.25] for name in names}
    text = "".join(f"<!ELEMENT {n} ({'|'.join(c)})*>" if c else f"<!ELEMENT {n} EMPTY>" for n, c in edges.items())
    g = ElementGraph(read_dtd(text.encode(), root="a"))
    reach = {name: {path[-1] for other in names for path in brute_paths(edges, name, other, 5)} for name in g.names}
    for first in g.names:
        assert g.on_loop(first) == (first in reach[first])
        for second in g.names:
            same = first in reach[second] and second in reach[first]
            assert g.on_same_loop(first, second) == same
            paths = brute_paths(edges, first, second, 10)
            assert g.only_path(first, second) == (paths[0] if len(paths) == 1 else None), (first, second, edges)


def test_bundled_dtds_have_the_published_sizes() -> None:
    by_name = {name: statistics(bundled_dtd(name)) for name in DTD_NAMES}
    assert (by_name["news"].elements, by_name["news"].recursive_elements) == (123, 26)
    assert abs(by_name["news"].attributes - 510) <= 5
    assert (by_name["auction"].elements, by_name["auction"].attributes) == (77, 16)
    assert (by_name["papers"].elements, by_name["papers"].attributes) == (36, 14)
    assert by_name["library"].nesting == 4
    assert by_name["manual"].nesting is None


def test_table_lines_up() -> None:
    lines = statistics_table(statistics(bundled_dtd(name)) for name in DTD_NAMES).splitlines()
    assert len(lines) == 1 + len(DTD_NAMES)
    assert all(len(a) - len(b) < 10 for a, b in pairwise(lines))
    assert "unlimited" in lines[1]


@pytest.mark.parametrize(
    ("path", "counts"),
    [("nitf/nitf-2-5.dtd", (123, 513, 26)), ("xmark/auction.dtd", (77, 16, 5)), ("usecases/book.dtd", (7, 5, 1))],
)
def test_real_dtds(path: str, counts: tuple[int, int, int]) -> None:
    if not (SHARED / path).exists():
        pytest.skip("the real DTDs are not part of this repository")
    row = statistics(read_dtd(SHARED / path))
    assert (row.elements, row.attributes, row.recursive_elements) == counts


def test_a_validator_needs_deterministic_models() -> None:
    ambiguous = b"<!ELEMENT a (b, (c | b)*, b?, (b | c)+)><!ELEMENT b EMPTY><!ELEMENT c EMPTY>"
    assert set(read_dtd(ambiguous).elements) == {"a", "b", "c"}
    with pytest.raises(SchemaError, match="Content model of a is not deterministic"):
        DtdValidator(ambiguous)
    check = DtdValidator(b"<!ELEMENT p:a (b?)><!ATTLIST p:a xmlns:p CDATA #IMPLIED><!ELEMENT b (#PCDATA)>")
    assert check.fault(b'<p:a xmlns:p="urn:p"><b>1</b></p:a>') is None
    assert check.fault(b'<p:a xmlns:p="urn:p"><b/><b/></p:a>') is not None
