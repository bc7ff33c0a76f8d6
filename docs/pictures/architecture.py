"""Draws ``architecture.svg``, the picture of the page on the architecture.

Run ``python docs/pictures/architecture.py`` after a change of the lists below. ``--png FILE`` draws a bitmap to look at
as well. A test holds that the SVG in the repository is what this file draws, that each folder in it exists, and that no
label overprints another or leaves its box.

The drawing needs matplotlib only. Text stays text in the SVG, so that it can be searched and read aloud. It is laid out
for DejaVu Sans, which is wider than the fonts that browsers use in its place.
"""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon
from matplotlib.text import Text

SVG: Final = Path(__file__).with_suffix(".svg")
WIDTH: Final = 1160
HEIGHT: Final = 880
"""Size of the drawing in units; 100 are an inch. The origin is at the top left."""

STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "twigcast",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
}

FILLS: Final = {
    "python": "#e8f0fa",
    "rust": "#fbeade",
    "lab": "#eceff1",
    "outside": "#ffffff",
    "frame": "#fafbfc",
}
EDGES: Final = {
    "python": "#3b6fb6",
    "rust": "#c46a1b",
    "lab": "#78909c",
    "outside": "#8a8f98",
    "frame": "#b4bac2",
}
COLOURS: Final = {"message": "#1f2937", "query": "#2e7d4f", "routing": "#a3328f"}
DASHES: Final[dict[str, str | tuple[int, tuple[int, ...]]]] = {
    "message": "solid",
    "query": (0, (5, 2)),
    "routing": (0, (1, 2)),
}


@dataclass(frozen=True)
class Box:
    """A part of the house: a folder, a file, or something outside.

    Attributes:
        left, top, width, height: Where it stands.
        name: In bold: folders or files, from the frame around the box, ``python/twigcast`` or ``crates``.
        text: What it does, a line each.
        kind: A key of `FILLS`.
    """

    left: float
    top: float
    width: float
    height: float
    name: str
    text: tuple[str, ...] = ()
    kind: str = "python"


@dataclass(frozen=True)
class Frame:
    """A folder or crate around its parts.

    Attributes:
        left, top, width, height: Where it stands.
        name: As for boxes.
        indent: Where the name begins, from the left.
    """

    left: float
    top: float
    width: float
    height: float
    name: str
    indent: float = 14

    def holds(self, box: Box) -> bool:
        """Returns whether a box lies in the frame."""
        inside_across = self.left < box.left and box.left + box.width < self.left + self.width
        return inside_across and self.top < box.top and box.top + box.height < self.top + self.height


@dataclass(frozen=True)
class Arrow:
    """The line from one part to another.

    Attributes:
        points: From where to where, along straight lines.
        trip: A key of `COLOURS`: what goes along it.
        both: Whether it goes in both directions.
    """

    points: tuple[tuple[float, float], ...]
    trip: str = "message"
    both: bool = False


FRAMES: Final = (
    Frame(20, 330, 690, 380, "crate twigcast-core", 190),
    Frame(740, 20, 400, 422, "broker/"),
    Frame(740, 462, 400, 288, "overlay/", 310),
)

BOXES: Final = (
    # Who calls the engine.
    Box(20, 20, 150, 62, "cli/", ("command line",)),
    Box(200, 20, 220, 62, "subscriptions.py", ("SubscriptionSet: the library",)),
    Box(450, 20, 260, 62, "spark/", ("pipeline: sources, tasks, output",)),
    # What converts and asks.
    Box(20, 150, 230, 82, "reading/", ("files and records;", "any encoding to UTF-8")),
    Box(290, 150, 230, 82, "engine/", ("EngineSession: converts, asks,", "merges; Arrow batches")),
    Box(560, 150, 150, 82, "xquery/", ("Saxon, in a process", "of its own")),
    Box(20, 264, 690, 44, "twigcast-python", ("crate: converts arguments, releases the GIL, maps errors",), "rust"),
    # The core: from queries to shared structures, from messages to results.
    Box(40, 370, 150, 72, "query/", ("text to algebra,", "normal form"), "rust"),
    Box(210, 370, 180, 72, "plan/  analysis/", ("routes; what holds", "without a message"), "rust"),
    Box(410, 370, 280, 72, "engine/", ("subscribers, slots, query index:", "main and recent segment"), "rust"),
    Box(40, 490, 150, 82, "scan/  stream/", ("bytes or element", "stream to document"), "rust"),
    Box(210, 490, 150, 82, "automaton/", ("NFA of all paths,", "run as a lazy DFA"), "rust"),
    Box(380, 490, 150, 82, "predicate/  twig/", ("shared values and", "nested paths"), "rust"),
    Box(550, 490, 140, 82, "engine/decide/", ("what is left", "open"), "rust"),
    Box(
        40, 620, 320, 72, "eval/", ("full XPath on one document,", "where the shared structures leave it open"), "rust"
    ),
    Box(380, 620, 310, 72, "rewrite/", ("For-Where-Return: program, interpreter,", "batch rewriter"), "rust"),
    # The broker.
    Box(770, 54, 340, 56, "api/  console/", ("HTTP: publish, pull, stream, administer",)),
    Box(770, 132, 340, 48, "broker.py", ("class Broker: what API and console call",)),
    Box(770, 204, 160, 56, "hub/", ("commits, engine",)),
    Box(950, 204, 160, 56, "queues/", ("live queues, leases",)),
    Box(770, 284, 160, 56, "store/", ("SQLite, PostgreSQL",)),
    Box(950, 284, 160, 56, "delivery/", ("channels, retries",)),
    Box(770, 366, 160, 56, "overlay/", ("hub to node, back",)),
    Box(950, 366, 160, 56, "sources/", ("feeds to poll",)),
    # The protocols between brokers.
    Box(770, 500, 160, 72, "onyx/protocol/", ("the node: links,", "trees, streams")),
    Box(950, 500, 170, 72, "onyx/content/", ("routing queries,", "routing table")),
    Box(770, 600, 160, 52, "onyx/network/", ("links over gRPC",)),
    Box(770, 684, 160, 46, "twigcast-packets", ("crate: frames, spans",), "rust"),
    Box(950, 600, 170, 52, "onyx/wire/", ("forms, dictionaries",)),
    Box(950, 684, 170, 46, "chord/  codd/", ("further protocols",)),
    # Around it.
    Box(
        20,
        774,
        690,
        60,
        "lab/",
        ("published algorithms, workloads, experiments, simulator; the product never imports it",),
        "lab",
    ),
    Box(740, 774, 190, 60, "client/", ("HTTP client",)),
    Box(950, 774, 190, 60, "other brokers", (), "outside"),
)

ARROWS: Final = (
    # Callers.
    Arrow(((95, 82), (95, 150))),
    Arrow(((170, 51), (200, 51))),
    Arrow(((340, 82), (340, 150)), "query"),
    Arrow(((390, 82), (390, 150))),
    Arrow(((580, 82), (580, 112), (440, 112), (440, 150))),
    Arrow(((770, 232), (724, 232), (724, 130), (490, 130), (490, 150))),
    Arrow(((250, 191), (290, 191))),
    Arrow(((520, 191), (560, 191)), both=True),
    # Into the core and back.
    Arrow(((340, 232), (340, 264)), "query"),
    Arrow(((390, 232), (390, 264))),
    Arrow(((470, 264), (470, 232))),
    Arrow(((115, 308), (115, 370)), "query"),
    Arrow(((20, 286), (8, 286), (8, 531), (40, 531))),
    Arrow(((690, 531), (726, 531), (726, 286), (710, 286))),
    # Queries.
    Arrow(((190, 406), (210, 406)), "query"),
    Arrow(((390, 406), (410, 406)), "query"),
    Arrow(((440, 442), (440, 466), (285, 466), (285, 490)), "query"),
    Arrow(((485, 442), (485, 490)), "query"),
    # Messages.
    Arrow(((190, 531), (210, 531))),
    Arrow(((360, 531), (380, 531))),
    Arrow(((530, 531), (550, 531))),
    Arrow(((590, 572), (590, 596), (200, 596), (200, 620)), both=True),
    Arrow(((640, 572), (640, 620))),
    Arrow(((690, 656), (726, 656), (726, 531))),
    # The broker.
    Arrow(((830, 110), (830, 132))),
    Arrow(((1050, 132), (1050, 110))),
    Arrow(((830, 180), (830, 204))),
    Arrow(((1050, 204), (1050, 180))),
    Arrow(((930, 232), (950, 232))),
    Arrow(((850, 260), (850, 284))),
    Arrow(((1030, 260), (1030, 284))),
    Arrow(((770, 246), (754, 246), (754, 394), (770, 394)), both=True),
    Arrow(((1110, 394), (1126, 394), (1126, 156), (1110, 156))),
    # Between brokers.
    Arrow(((810, 422), (810, 500)), both=True),
    Arrow(((880, 422), (880, 500)), "routing"),
    Arrow(((930, 536), (950, 536)), "routing", both=True),
    Arrow(((810, 572), (810, 600)), both=True),
    Arrow(((880, 572), (880, 600)), "routing", both=True),
    Arrow(((930, 626), (950, 626)), both=True),
    Arrow(((850, 652), (850, 684)), both=True),
    Arrow(((850, 730), (850, 762), (1045, 762), (1045, 774)), both=True),
)

FILL_LEGEND: Final = (("python", "Python package"), ("rust", "Rust"), ("lab", "research wing"))
TRIP_LEGEND: Final = (("message", "messages, matches, results"), ("query", "queries"), ("routing", "routing updates"))

_LINE: Final = 17
"""From line to line."""
_NAME: Final[dict[str, Any]] = {"weight": "bold", "va": "center", "color": "#111827"}
_TEXT: Final[dict[str, Any]] = {"va": "center", "color": "#374151"}


def draw() -> Figure:
    """Draws the picture."""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(HEIGHT, 0)
    axes.axis("off")
    for frame in FRAMES:
        _draw_outline(axes, frame, "frame")
        axes.text(frame.left + frame.indent, frame.top + 19, frame.name, fontsize=11, **_NAME)
    for box in BOXES:
        _draw_outline(axes, box, box.kind)
        middle = box.left + box.width / 2
        first = box.top + box.height / 2 - _LINE / 2 * len(box.text)
        axes.text(middle, first, box.name, fontsize=10.5, ha="center", **_NAME)
        for number, line in enumerate(box.text, 1):
            axes.text(middle, first + _LINE * number, line, fontsize=9, ha="center", **_TEXT)
    for arrow in ARROWS:
        _draw_arrow(axes, arrow)
    _draw_legend(axes)
    return figure


def _draw_outline(axes: Axes, part: Box | Frame, kind: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (part.left, part.top),
            part.width,
            part.height,
            boxstyle="round,pad=0,rounding_size=8",
            facecolor=FILLS[kind],
            edgecolor=EDGES[kind],
            linewidth=1.2,
        )
    )


def _draw_arrow(axes: Axes, arrow: Arrow) -> None:
    colour = COLOURS[arrow.trip]
    across, down = zip(*arrow.points, strict=True)
    axes.plot(across, down, color=colour, linestyle=DASHES[arrow.trip], linewidth=1.4)
    _draw_head(axes, arrow.points[-2], arrow.points[-1], colour)
    if arrow.both:
        _draw_head(axes, arrow.points[1], arrow.points[0], colour)


def _draw_head(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """Draws the head of an arrow at ``end``, which is solid whatever the line is."""
    (x, y), (to_x, to_y) = start, end
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
    along_x, along_y = 8 * (to_x - x) / length, 8 * (to_y - y) / length
    corners = [
        (to_x, to_y),
        (to_x - along_x - along_y / 2, to_y - along_y + along_x / 2),
        (to_x - along_x + along_y / 2, to_y - along_y - along_x / 2),
    ]
    axes.add_patch(Polygon(corners, closed=True, facecolor=colour, edgecolor=colour, linewidth=0.5))


def _draw_legend(axes: Axes) -> None:
    left, middle = 24.0, HEIGHT - 22.0
    for kind, text in FILL_LEGEND:
        _draw_outline(axes, Box(left, middle - 8, 26, 16, ""), kind)
        axes.text(left + 36, middle, text, fontsize=9, **_TEXT)
        left += 58 + 7.4 * len(text)
    for trip, text in TRIP_LEGEND:
        _draw_arrow(axes, Arrow(((left, middle), (left + 34, middle)), trip))
        axes.text(left + 42, middle, text, fontsize=9, **_TEXT)
        left += 62 + 7.4 * len(text)


def texts(figure: Figure) -> list[Text]:
    """Returns the labels of a drawing."""
    return list(figure.axes[0].texts)


def svg() -> str:
    """Returns the picture as the text of an SVG file."""
    out = io.StringIO()
    metadata = {"Creator": None, "Date": None, "Title": "The architecture of Twigcast"}
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        draw().savefig(out, format="svg", metadata=metadata)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def main() -> None:
    """Writes the SVG, and the bitmap that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", type=Path)
    arguments = parser.parse_args()
    SVG.write_text(svg(), encoding="utf-8")
    if arguments.png is not None:
        with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
            draw().savefig(arguments.png, format="png")


if __name__ == "__main__":
    main()
