"""The notebooks of examples/: they run as they stand, and hold no outputs."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SHOWN = {
    "thousand-rules.ipynb": [
        "1000",
        "1-flood-aare.xml               ['006059 Flood Minor', '006059 Flood Moderate', '006059 Flood Severe']",
        "3-siren-test.xml               []",
        "['006111 Flood Minor', '006111 Flood Moderate', '006111 Flood Severe', '006111 Flood Extreme']",
        "typo: column ",
        "<line>The Aare floods the harbour</line>",
    ],
    "backtest-on-spark.ipynb": [
        "|new|    2|",
        "|old|    4|",
        "2-storm-ridge.xml",
        "3-siren-test.xml",
        "does not match",
    ],
    "why-not.ipynb": [
        "bind a prefix",
        "['floods']",
        "does not match: ",
        'is "Harbour"',
        "['floods', 'extreme floods', 'harbour'",
    ],
}
"""What is seen in the outputs of each."""


def test_each_notebook_is_tried() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.ipynb")) == sorted(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_hold_no_outputs(name: str) -> None:
    cells = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.spark] if "spark" in name else []) for name in SHOWN]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_notebooks_run(name: str) -> None:
    # Without types, or there only with them.
    nbclient: Any = importlib.import_module("nbclient")
    nbformat: Any = importlib.import_module("nbformat")
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)
    for part in SHOWN[name]:
        assert part in text, f"{part!r} is not in:\n{text}"


def test_feeds_are_what_the_page_says() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for name in re.findall(r"^\| `([^`]+)`", page, re.MULTILINE):
        assert (EXAMPLES / name).exists()
