"""Drawings of overlays as SVG, by matplotlib: rings with fingers, trees, maps, and how the load is spread."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LINE, _TEXT, _MARK = "#8a97a6", "#26323f", "#c43c30"
#: Nodes are shaded from light to dark, by the square root of their load: many have little, few have much.
_SHADES = "YlOrRd"
#: Nodes of a ring up to which each has its label.
_LABELLED_MAX = 40
#: Equal drawings have equal texts: no date, no random ids, and text as text.
_STYLE = {"svg.hashsalt": "twigcast", "svg.fonttype": "none", "font.size": 9, "text.color": _TEXT}


def _page(width: float, height: float, title: str) -> tuple[Figure, Axes]:
    """Returns a figure of so many inches with one pair of axes, which are hidden."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, fontsize=10)
    axes.set_axis_off()
    return figure, axes


def _svg(figure: Figure) -> str:
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are literals
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    # Without the spaces at the ends of lines.
    return "\n".join(line.rstrip() for line in text[text.index("<svg") :].splitlines()) + "\n"


def _nodes(axes: Axes, points: Sequence[tuple[float, float]], loads: Sequence[float], unit: str, **more: Any) -> None:
    """Draws nodes shaded by load, with the scale of the shades."""
    from matplotlib.colors import PowerNorm

    most = more.pop("most", None) or max(loads, default=0.0) or 1.0
    xs, ys = zip(*points, strict=True)
    nodes = axes.scatter(
        xs, ys, c=loads, cmap=_SHADES, norm=PowerNorm(0.5, 0.0, most), edgecolors=_TEXT, linewidths=0.6, **more
    )
    nodes.set(gid="nodes", zorder=3)
    axes.figure.colorbar(nodes, ax=axes, shrink=0.6, label=unit, format="%.4g")


def _lines(axes: Axes, lines: Sequence[tuple[tuple[float, float], tuple[float, float]]], **more: Any) -> None:
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(lines, **{"colors": _LINE, "linewidths": 0.8, **more}))


def draw_ring(
    positions: Sequence[float],
    loads: Sequence[float],
    links: Iterable[tuple[int, int]],
    *,
    title: str,
    labels: Sequence[str] = (),
    unit: str = "load",
) -> str:
    """Draws a ring of nodes at their positions, shaded by load, with some links across it.

    Args:
        positions: Position of each node on the circle, from 0 to 1, clockwise from the top.
        loads: Load of each node.
        links: Pairs of node numbers, for instance the fingers of one node.
        title: Heading.
        labels: Labels of the nodes, written beside them if there are at most 40.
        unit: What is shaded.
    """
    from matplotlib.patches import Circle

    figure, axes = _page(6.4, 5.6, title)
    axes.set_aspect("equal")
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=_LINE, linewidth=0.8))
    points = [_at(position) for position in positions]
    _lines(axes, [(points[one], points[other]) for one, other in links], linestyles="dashed")
    _nodes(axes, points, loads, unit, s=90 if len(points) <= _LABELLED_MAX else 20)
    if len(points) <= _LABELLED_MAX:
        for point, label, apart in zip(points, labels, _spread(positions), strict=False):
            x, y = _at(apart, 1.2)
            _lines(axes, [(_at(apart, 1.13), point)], linewidths=0.4)
            axes.text(x, y, label, ha="center", va="center")
    return _svg(figure)


def _at(position: float, radius: float = 1.0) -> tuple[float, float]:
    angle = 2 * math.pi * position
    return radius * math.sin(angle), radius * math.cos(angle)


def _spread(positions: Sequence[float]) -> list[float]:
    """Returns positions for labels, near those of the nodes but far enough from each other to be read."""
    order = sorted(range(len(positions)), key=lambda number: positions[number])
    places = [positions[number] for number in order]
    least = min(0.024, 0.95 / max(1, len(places)))
    for _ in range(500):
        for index in range(len(places)):
            following = (index + 1) % len(places)
            missing = least - (places[following] - places[index] + (following == 0))
            if missing > 1e-6:
                places[index] -= missing / 2
                places[following] += missing / 2
    spread = [0.0] * len(positions)
    for number, place in zip(order, places, strict=True):
        spread[number] = place
    return spread


def draw_tree(
    parents: Mapping[int, int],
    loads: Mapping[int, float],
    *,
    root: int,
    title: str,
    unit: str = "overhead",
    most: float | None = None,
) -> str:
    """Draws a tree, layer by layer, shaded by load.

    Args:
        parents: Parent of each node but the root.
        loads: Load of each node, for instance its overhead.
        root: The root.
        title: Heading.
        unit: What is shaded.
        most: The load with the darkest shade, so that several trees can be compared; by default the greatest one.
    """
    children: dict[int, list[int]] = {}
    for node, parent in sorted(parents.items()):
        children.setdefault(parent, []).append(node)
    points: dict[int, tuple[float, float]] = {}
    leaves = _position(children, root, 0, 0, points)
    depth = -min(y for _, y in points.values())
    figure, axes = _page(max(4.0, min(14.0, 1.5 + 0.22 * leaves)), 1.3 + 0.7 * depth, title)
    axes.margins(0.05, 0.1)
    links = [(points[parent], points[node]) for node, parent in parents.items() if node in points and parent in points]
    _lines(axes, links)
    shades = [loads.get(node, 0.0) for node in points]
    _nodes(axes, list(points.values()), shades, unit, most=most, s=max(8.0, min(90.0, 4_000 / max(1, leaves))))
    return _svg(figure)


def _position(
    children: Mapping[int, Sequence[int]], node: int, depth: int, leaves: int, points: dict[int, tuple[float, float]]
) -> int:
    """Positions leaves from left to right, and a parent in the middle above its children. Returns the leaves so far."""
    below = children.get(node, ())
    for child in below:
        leaves = _position(children, child, depth + 1, leaves, points)
    x = (points[below[0]][0] + points[below[-1]][0]) / 2 if below else float(leaves)
    points[node] = (x, -float(depth))
    return leaves + (not below)


def draw_load(curves: Mapping[str, Sequence[float]], *, title: str, unit: str = "share of the load") -> str:
    """Draws the loads of all nodes, heaviest first, one curve each.

    Args:
        curves: Loads by name.
        title: Heading.
        unit: What the vertical axis shows.
    """
    figure, axes = _page(6.4, 3.8, title)
    axes.set_axis_on()
    for name, loads in curves.items():
        axes.plot(range(1, len(loads) + 1), sorted(loads, reverse=True), label=name)
    axes.set(xlabel="nodes, heaviest first", ylabel=unit)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return _svg(figure)


def draw_map(
    positions: Sequence[tuple[float, float]],
    loads: Sequence[float],
    flows: Mapping[tuple[int, int], float],
    *,
    title: str,
    marked: Collection[int] = (),
    unit: str = "messages received",
) -> str:
    """Draws nodes on a map, and what flows over their links.

    Args:
        positions: Of the nodes, on the unit square.
        loads: Of the nodes.
        flows: By link; the more, the broader it is drawn.
        title: Heading.
        marked: Sources, which get a ring.
        unit: What is shaded.
    """
    figure, axes = _page(6.4, 5.6, title)
    axes.set_aspect("equal")
    axes.margins(0.05)
    most = max(flows.values(), default=0.0) or 1.0
    links = sorted(flows)
    _lines(
        axes,
        [(positions[one], positions[other]) for one, other in links],
        colors=[_LINE if flows[link] else "#d5dbe2" for link in links],
        linewidths=[0.5 + 6 * flows[link] / most for link in links],
    )
    _nodes(axes, positions, loads, unit, s=max(15.0, min(90.0, 3_000 / max(1, len(positions)))))
    if marked:
        xs, ys = zip(*(positions[node] for node in sorted(marked)), strict=True)
        axes.scatter(xs, ys, s=260, facecolors="none", edgecolors=_MARK, linewidths=1.6, label="source")
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), frameon=False)
    return _svg(figure)
