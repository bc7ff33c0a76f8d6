"""Each recipe notices a place that is forgotten: in a small repository in which everything is there but for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.architecture import python_sources, recipe_rules, rust_sources

PACKAGE = "python/twigcast"
CORE = "crates/twigcast-core/src"
FUNCTIONS = "tests/corpus/xpath/functions.toml"
REPOSITORY = {
    f"{CORE}/query/ast.rs": "pub enum Function { Last, StartsWith }",
    f"{CORE}/query/functions.rs": 'const TABLE: [Row; 2] = [row("last"), row("starts-with")];',
    f"{CORE}/eval/functions.rs": "fn call(f: Function) { match f { F::Last => 1, Function::StartsWith => 2 } }",
    FUNCTIONS: (
        "[[case]]\nquery = \"/a[last() = starts-with(b, 'c')]\"\nmatches = true\n"
        '[[case]]\nquery = "starts-with(last(), 2)"\nnodes = []\n'
        '[[case]]\nquery = "last(1)"\nerror = { code = "query" }\n'
    ),
    "docs/reference/query-language.md": "`last()`, `starts-with(string, prefix)`",
    f"{PACKAGE}/broker/delivery/channel.py": "class Channel(Protocol):\n    def send(self): ...",
    f"{PACKAGE}/broker/delivery/mail.py": "class MailChannel:\n    def send(self, subscription, deliveries): ...",
    f"{PACKAGE}/broker/delivery/channels.py": "CHANNELS = {'mail': MailChannel}\nif kind == 'mail': ...",
    f"{PACKAGE}/broker/hub.py": "CHANNELS[kind]",
    "docs/how-to/mail.md": "",
    "tests/broker/delivery/test_mail_channel.py": "",
    f"{PACKAGE}/spark/sources/__init__.py": "SOURCES = [FolderSource]",
    f"{PACKAGE}/spark/sources/folder.py": "class FolderSource: ...",
    f"{PACKAGE}/spark/sinks/__init__.py": "SINKS = [ParquetSink]",
    f"{PACKAGE}/spark/sinks/parquet.py": "class ParquetSink: ...",
    "tests/spark/sources/test_folder.py": "",
    "tests/spark/sinks/test_parquet.py": "",
    f"{PACKAGE}/overlay/core.py": "",
    f"{PACKAGE}/overlay/gossip/node.py": "from urllib.parse import quote",
    f"{PACKAGE}/overlay/gossip/network/driver.py": "import socket",
    f"{PACKAGE}/lab/overlays/gossip/scenario.py": "",
    f"{PACKAGE}/lab/overlays/options.py": "class GossipOptions: ...\nTABLE = {'gossip': GossipOptions}",
    f"{PACKAGE}/lab/overlays/gossip/simulate.py": "def simulate(options): ...",
    "tests/lab/overlays/gossip/test_node.py": "",
    f"{PACKAGE}/lab/experiments/framework/registry.py": 'PACKAGES = (\n    "twigcast.lab.experiments.knuth",\n)\n',
    f"{PACKAGE}/lab/experiments/knuth/figure.py": (
        "from twigcast.lab.experiments.knuth.runs import run\nEXPERIMENTS = (Experiment(id='K-1', claims=(claim,)),)"
    ),
    f"{PACKAGE}/lab/experiments/knuth/runs.py": "def run(): ...",
    f"{PACKAGE}/errors.py": (
        '"""Errors: TwigcastError, QueryError, OutputError."""\n'
        '__all__ = ["OutputError", "QueryError", "TwigcastError"]\n'
        'class TwigcastError(Exception):\n    code = "error"\n\n'
        'class QueryError(TwigcastError):\n    code = "query"\n\n'
        'class OutputError(TwigcastError):\n    """Text."""\n\n    code: ClassVar[str] = "output"\n'
    ),
    "tests/test_errors.py": "errors.OutputError('x')",
}

RULES: dict[str, Callable[[], list[str]]] = {
    "functions": recipe_rules.xpath_functions,
    "channels": recipe_rules.delivery_channels,
    "kinds": recipe_rules.kinds_of_delivery,
    "spark": recipe_rules.spark_sources_and_sinks,
    "overlays": recipe_rules.overlay_protocols,
    "input": recipe_rules.protocols_with_input,
    "figures": recipe_rules.published_figures,
    "errors": recipe_rules.errors_with_cases,
}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    """Makes the rules read a repository of these files."""
    package, crates, tests = tmp_path / PACKAGE, tmp_path / "crates", tmp_path / "tests"
    monkeypatch.setattr(python_sources, "PACKAGE_FOLDER", package)
    monkeypatch.setattr(rust_sources, "CRATES_FOLDER", crates)
    monkeypatch.setattr(python_sources, "package_files", python_sources.package_files.__wrapped__)
    monkeypatch.setattr(rust_sources, "crate_files", rust_sources.crate_files.__wrapped__)
    monkeypatch.setattr(recipe_rules, "_test_texts", recipe_rules._test_texts.__wrapped__)
    monkeypatch.setattr(recipe_rules, "TESTS", tests)
    monkeypatch.setattr(recipe_rules, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(recipe_rules, "CORPUS_OF_FUNCTIONS", tests / "corpus" / "xpath" / "functions.toml")

    def write_all(files: dict[str, str]) -> None:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write_all


@pytest.mark.parametrize("rule", RULES)
def test_a_complete_repository_passes(rule: str, write: Callable[[dict[str, str]], None]) -> None:
    write(REPOSITORY)
    assert RULES[rule]() == []


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        ("functions", f"{CORE}/query/ast.rs", ""),
        ("functions", f"{CORE}/query/functions.rs", 'row("last")'),
        ("functions", f"{CORE}/eval/functions.rs", "fn call() { F::Last }"),
        ("functions", FUNCTIONS, REPOSITORY[FUNCTIONS].replace("matches = true", "matches = false")),
        ("functions", FUNCTIONS, REPOSITORY[FUNCTIONS].replace("nodes = []", "nodes = ['/a[1]']")),
        ("functions", FUNCTIONS, REPOSITORY[FUNCTIONS].replace("nodes = []", 'error = { code = "query" }')),
        ("functions", FUNCTIONS, REPOSITORY[FUNCTIONS].replace("starts-with(last(), 2)", "last()")),
        ("functions", "docs/reference/query-language.md", "`last()`"),
        ("channels", f"{PACKAGE}/broker/delivery/mail.py", ""),
        ("channels", f"{PACKAGE}/broker/delivery/channels.py", ""),
        ("channels", f"{PACKAGE}/broker/delivery/channels.py", None),
        ("channels", "docs/how-to/mail.md", None),
        ("channels", "tests/broker/delivery/test_mail_channel.py", None),
        ("kinds", f"{PACKAGE}/broker/hub.py", "if kind == 'mail': ..."),
        ("kinds", f"{PACKAGE}/broker/hub.py", "if kind in ('web', 'pull'): ..."),
        ("kinds", f"{PACKAGE}/broker/hub.py", "match kind:\n    case 'mail': ..."),
        ("spark", f"{PACKAGE}/spark/sources/__init__.py", ""),
        ("spark", f"{PACKAGE}/spark/sources/folder.py", ""),
        ("spark", f"{PACKAGE}/spark/sinks/__init__.py", None),
        ("spark", "tests/spark/sources/test_folder.py", None),
        ("spark", "tests/spark/sinks/test_parquet.py", None),
        ("overlays", f"{PACKAGE}/lab/overlays/gossip/scenario.py", None),
        ("overlays", f"{PACKAGE}/lab/overlays/other/scenario.py", ""),
        ("overlays", f"{PACKAGE}/lab/overlays/options.py", "class GossipOptions: ..."),
        ("overlays", f"{PACKAGE}/lab/overlays/gossip/simulate.py", "def other(options): ..."),
        ("overlays", "tests/lab/overlays/gossip/test_node.py", None),
        ("input", f"{PACKAGE}/overlay/gossip/node.py", "import asyncio.tasks"),
        ("input", f"{PACKAGE}/overlay/gossip/node.py", "from time import time"),
        ("figures", f"{PACKAGE}/lab/experiments/framework/registry.py", "PACKAGES = ()"),
        ("figures", f"{PACKAGE}/lab/experiments/knuth/figure.py", "EXPERIMENTS = (Experiment(id='K-1', claims=()),)"),
        ("figures", f"{PACKAGE}/lab/experiments/knuth/figure.py", "from twigcast.lab.experiments.knuth import runs"),
        ("figures", f"{PACKAGE}/lab/experiments/knuth/more.py", "EXPERIMENTS = (Experiment(id='K-1', claims=x),)"),
        ("errors", f"{PACKAGE}/errors.py", REPOSITORY[f"{PACKAGE}/errors.py"].replace('"output"', '"query"')),
        ("errors", f"{PACKAGE}/errors.py", REPOSITORY[f"{PACKAGE}/errors.py"].replace(", OutputError.", ".")),
        ("errors", f"{PACKAGE}/errors.py", REPOSITORY[f"{PACKAGE}/errors.py"].replace('"OutputError", ', "")),
        ("errors", "tests/test_errors.py", ""),
        ("errors", FUNCTIONS, ""),
    ],
)
def test_what_is_forgotten_is_noticed(
    rule: str, path: str, text: str | None, write: Callable[[dict[str, str]], None]
) -> None:
    write({name: content for name, content in {**REPOSITORY, path: text}.items() if content is not None})
    assert RULES[rule]() != []


def test_pages_of_recipes_are_noticed(write: Callable[[dict[str, str]], None]) -> None:
    everything = " ".join(recipe_rules.RECIPES.values())
    write({"docs/extending/all.md": everything})
    assert recipe_rules.recipe_pages() == []
    write({"docs/extending/all.md": everything.replace("spark/sinks", "")})
    assert recipe_rules.recipe_pages() == ["a Spark sink"]
