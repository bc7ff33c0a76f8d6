"""``twigcast generate``."""

import json
from pathlib import Path

from lxml import etree
from typer.testing import CliRunner

from twigcast.lab.workload import bundled_dtd, documents, draw_domains, flwr_queries, path_queries
from twigcast.lab.workload.commands import app

RUN = CliRunner()


def test_documents(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["documents", "library", "-o", str(tmp_path / "out"), "-n", "3", "--repeats", "volume=2"])
    assert result.exit_code == 0, result.output
    written = [(tmp_path / "out" / f"d{number}.xml").read_bytes() for number in (1, 2, 3)]
    assert written == list(documents(bundled_dtd("library"), 3, repeats={"volume": 2}))


def test_queries(tmp_path: Path) -> None:
    out = tmp_path / "queries.txt"
    result = RUN.invoke(app, ["queries", "news", "-n", "20", "--depth", "8", "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_text().splitlines() == path_queries(bundled_dtd("news"), 20, depth=8)
    flwr = RUN.invoke(app, ["queries", "library", "-n", "2", "--flwr", "--predicates", "1"])
    assert [line.startswith("for $x in ") for line in flwr.output.splitlines()] == [True, True]


def test_parameters_of_rewriting_queries_and_of_values(tmp_path: Path) -> None:
    manual = bundled_dtd("manual")
    options = ["--binding-depth", "3", "--path-depth", "1", "--full-bindings", "--returns", "1", "--predicates", "1"]
    created = RUN.invoke(app, ["queries", "manual", "-n", "20", "--flwr", "--max-value", "9", *options])
    assert created.output.splitlines() == flwr_queries(
        manual,
        20,
        binding_depth=3,
        path_depth=1,
        return_paths=1,
        full_bindings=True,
        domains=draw_domains(manual, 1, max_value=9),
    )
    out = tmp_path / "full"
    bounds = ["--occurrence-min", "1", "--min-value", "5", "--max-value", "5"]
    written = RUN.invoke(app, ["documents", "manual", "-n", "4", "-o", str(out), *bounds])
    assert written.exit_code == 0, written.output
    trees = [etree.parse(out / f"d{number}.xml") for number in range(1, 5)]
    for tree in trees:
        for element in tree.iter("*"):
            assert len(element.attrib) == len(manual.elements[str(element.tag)].attributes)
    refused = RUN.invoke(
        app, ["documents", "manual", "-o", str(out), "--occurrence-min", "0.9", "--occurrence-max", "0.1"]
    )
    assert refused.exit_code == 2
    assert refused.stderr.startswith("twigcast: the occurrence of attributes")


def test_population(tmp_path: Path) -> None:
    result = RUN.invoke(app, ["population", "news", "-n", "5", "--share", "path=1"])
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line["key"] for line in lines] == ["s1", "s2", "s3", "s4", "s5"]
    assert all(etree.XPath(line["query"]) for line in lines)


def test_statistics_of_a_file(tmp_path: Path) -> None:
    dtd = tmp_path / "small.dtd"
    dtd.write_text("<!ELEMENT a (b*)><!ELEMENT b EMPTY>")
    result = RUN.invoke(app, ["statistics", str(dtd)])
    assert result.output.splitlines()[1].split() == ["small", "2", "0", "0", "2", "1", "0", "1"]


def test_errors_are_sentences(tmp_path: Path) -> None:
    for arguments in (["queries", "nosuch.dtd"], ["queries", "library", "-n", "999", "--wildcard", "0"]):
        result = RUN.invoke(app, arguments)
        assert result.exit_code == 2
        assert result.stderr.startswith("twigcast: ")
    assert RUN.invoke(app, ["population", "news", "--share", "path"]).exit_code == 2
