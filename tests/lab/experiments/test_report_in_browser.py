"""The report in a real Chromium: nothing is fetched, nothing sticks out, nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.broker.console.chromium import DESKTOP, PHONE, chromium
from tests.lab.experiments.test_framework import stored_sample
from twigcast.lab.experiments.framework import registry, store
from twigcast.lab.experiments.reporting.report import write_report

WIDTHS = {"desktop": DESKTOP, "phone": PHONE}

STICKING_OUT = """() => [...document.querySelectorAll('main *')].filter(element => {
    const inScroller = element.closest('.scroll, .wide');
    const box = element.getBoundingClientRect();
    return !inScroller && box.width && box.right > document.documentElement.clientWidth + 1;
}).map(element => element.outerHTML.slice(0, 120))"""

OVERLAPPING = """() => {
    const found = [];
    for (const svg of document.querySelectorAll('.panel svg')) {
        const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
        for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
            const [a, b] = [boxes[i][1], boxes[j][1]];
            const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (width > 1 && height > 2) found.push([boxes[i][0], boxes[j][0]]);
        }
    }
    return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as result:
        yield result


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    stored_sample(folder)
    page = folder / "report.html"
    write_report(page, registry.experiments(), store.load_all(folder), registry.illustrations())
    return page


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    context = browser.new_context(viewport=WIDTHS[request.param])  # type: ignore[arg-type]
    shown = context.new_page()
    asked: list[str] = []
    shown.on("request", lambda asked_for: asked.append(asked_for.url))
    shown.goto(report.as_uri())
    assert asked == [report.as_uri()]
    yield shown
    context.close()


def test_nothing_sticks_out(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert page.evaluate(STICKING_OUT) == []


def test_texts_of_figures_do_not_overlap(page: Page) -> None:
    assert page.locator(".panel svg").count() == 4
    assert page.evaluate(OVERLAPPING) == []


def test_panels_stand_side_by_side_where_there_is_room(page: Page) -> None:
    first, second = (box["y"] for box in (page.locator(".panel").nth(n).bounding_box() for n in (0, 1)) if box)
    assert (first == second) == (page.viewport_size == DESKTOP)
