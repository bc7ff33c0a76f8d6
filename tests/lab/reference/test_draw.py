"""The drawn examples: up to date in the pages, and well-formed."""

import re
import shutil
from pathlib import Path

import pytest
from lxml import etree

from twigcast.lab.reference.draw import redraw
from twigcast.lab.reference.draw.pages import figures

PAGES = "docs/algorithms"


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return figures()


def test_the_pages_are_what_the_code_draws(repository: Path) -> None:
    stale = redraw(repository / PAGES, write=False)
    assert not stale, f"run: python -m twigcast.lab.reference.draw {PAGES}"


def test_everything_drawn_is_shown_and_every_link_leads_somewhere(repository: Path, drawn: dict[str, str]) -> None:
    pages = {page.name: page.read_text(encoding="utf-8") for page in (repository / PAGES).glob("*.md")}
    shown = {name for text in pages.values() for name in re.findall(r"<!-- drawn: ([\w-]+) -->", text)}
    shown |= {name for text in pages.values() for name in re.findall(r"\(figures/([\w.-]+)\)", text)}
    assert shown == set(drawn)
    linked = {target for text in pages.values() for target in re.findall(r"\]\(([\w-]+\.md)\)", text)}
    assert linked <= set(pages)
    assert linked == set(pages) - {"index.md"}


def test_pictures_are_well_formed_and_inside_their_frame(drawn: dict[str, str]) -> None:
    pictures = {name: text for name, text in drawn.items() if name.endswith(".svg")}
    assert len(pictures) == 6
    for name, text in pictures.items():
        root = etree.fromstring(text)
        _, _, width, height = map(float, root.get("viewBox", "").split())
        circles = root.findall("{*}circle")
        assert circles, name
        for circle in circles:
            x, y, radius = (float(circle.get(key, "nan")) for key in ("cx", "cy", "r"))
            assert radius <= x <= width - radius, name
            assert radius <= y <= height - radius, name


def test_a_stale_page_is_found_and_redrawn(repository: Path, tmp_path: Path) -> None:
    shutil.copytree(repository / PAGES, tmp_path / "pages")
    folder = tmp_path / "pages"
    page = folder / "yfilter.md"
    good = page.read_text(encoding="utf-8")
    page.write_text(good.replace("| `<feed> 1` |", "| `<feed> 2` |"), encoding="utf-8")
    (folder / "figures" / "boone-trie.svg").unlink()
    expected = ["figures/boone-trie.svg", "yfilter.md"]
    assert sorted(redraw(folder, write=False)) == expected
    assert sorted(redraw(folder, write=True)) == expected
    assert page.read_text(encoding="utf-8") == good
    assert redraw(folder, write=False) == []
