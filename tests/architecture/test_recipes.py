"""What the pages in ``docs/extending/`` tell to add is complete, for all that is there now."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture import exceptions
from tests.architecture.python_sources import PACKAGE_FOLDER, REPOSITORY, package_files
from tests.architecture.rules import HINTS, RECIPES, RULES
from tests.architecture.rust_sources import crate_files


@pytest.fixture(scope="module", autouse=True)
def sources() -> None:
    """Reads all sources once, before the first recipe."""
    package_files()
    crate_files()


@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_forgotten(recipe: str) -> None:
    exceptions.check(recipe, HINTS[recipe], RULES[recipe]())


def _abstract_methods(file: str, name: str) -> set[str]:
    tree = ast.parse((PACKAGE_FOLDER / file).read_text(encoding="utf-8"))
    (definition,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {
        method.name
        for method in definition.body
        if isinstance(method, ast.FunctionDef)
        and any(isinstance(item, ast.Name) and item.id == "abstractmethod" for item in method.decorator_list)
    }


@pytest.mark.parametrize(
    ("heading", "file", "name"),
    [
        ("## 1. The source", "spark/sources/source.py", "MessageSource"),
        ("## A sink", "spark/sinks/sink.py", "Sink"),
    ],
)
def test_the_recipe_lists_every_method_to_write(heading: str, file: str, name: str) -> None:
    page = (REPOSITORY / "docs" / "extending" / "spark-source-or-sink.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^{heading}.*?(?=^## )", page, re.MULTILINE | re.DOTALL)
    listed = re.findall(r"^\| `(\w+)\(", section, re.MULTILINE)
    assert sorted(listed) == sorted(_abstract_methods(file, name))
