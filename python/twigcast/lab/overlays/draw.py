"""Drawings of overlays as SVG: a ring with fingers, a tree, and how the load is spread. No library is needed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

#: Colour of nodes without load, and of the most heavily loaded ones.
_COLD, _HOT = (225, 232, 240), (196, 60, 48)
_LINE = "#8a97a6"
_TEXT = "#26323f"


class Spot(NamedTuple):
    """A node in a drawing."""

    x: float
    y: float
    load: float
    label: str


def _shade(share: float) -> str:
    share = math.sqrt(max(0.0, min(1.0, share)))
    parts = (round(cold + (hot - cold) * share) for cold, hot in zip(_COLD, _HOT, strict=True))
    return "#" + "".join(f"{part:02x}" for part in parts)


def _page(width: float, height: float, title: str, body: Iterable[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="11" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="100%" height="100%" fill="#ffffff"/><text x="12" y="20" font-size="14" '
            f'fill="{_TEXT}">{escape(title)}</text>',
            *body,
            "</svg>\n",
        ]
    )


def _spots(spots: Sequence[Spot], radius: float) -> Iterable[str]:
    most = max((spot.load for spot in spots), default=0.0) or 1.0
    for spot in spots:
        yield (
            f'<circle cx="{spot.x:.1f}" cy="{spot.y:.1f}" r="{radius:.1f}" fill="{_shade(spot.load / most)}" '
            f'stroke="{_LINE}"><title>{escape(spot.label)}</title></circle>'
        )


def _line(start: Spot, end: Spot, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return f'<line x1="{start.x:.1f}" y1="{start.y:.1f}" x2="{end.x:.1f}" y2="{end.y:.1f}" stroke="{_LINE}"{dash}/>'


def draw_ring(
    positions: Sequence[float],
    loads: Sequence[float],
    links: Iterable[tuple[int, int]],
    *,
    title: str,
    labels: Sequence[str] = (),
) -> str:
    """Draws a ring of nodes at their positions, shaded by load, with some links across it.

    Args:
        positions: Place of every node on the circle, from 0 to 1, clockwise from the top.
        loads: Load of every node.
        links: Pairs of node numbers, for instance the fingers of one node.
        title: Heading.
        labels: What to say of every node when it is pointed at; written beside it where there are few.
    """
    size, radius = 520.0, 205.0
    center = size / 2 + 10
    names = labels or [f"node {number}" for number in range(len(positions))]
    spots = []
    for position, load, name in zip(positions, loads, names, strict=True):
        angle = 2 * math.pi * position - math.pi / 2
        spots.append(Spot(center + radius * math.cos(angle), center + radius * math.sin(angle), load, name))
    body = [f'<circle cx="{center}" cy="{center}" r="{radius}" fill="none" stroke="{_LINE}"/>']
    body += [_line(spots[a], spots[b], dashed=True) for a, b in links]
    body += _spots(spots, 11 if len(spots) <= 40 else 4)
    if len(spots) <= 40:
        for spot in spots:
            away = 1 + 26 / radius
            x, y = center + (spot.x - center) * away, center + (spot.y - center) * away
            body.append(
                f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="{_TEXT}">{escape(spot.label)}</text>'
            )
    return _page(size + 20, size + 20, title, body)


def draw_tree(parents: Mapping[int, int], loads: Mapping[int, float], *, root: int, title: str) -> str:
    """Draws a tree, layer by layer, shaded by load.

    Args:
        parents: Parent of every node but the root.
        loads: Load of every node, for instance its overhead.
        root: The root.
        title: Heading.
    """
    children: dict[int, list[int]] = {}
    for node, parent in sorted(parents.items()):
        children.setdefault(parent, []).append(node)
    leaves = _leaves(children, root)
    step = max(6.0, min(40.0, 1100.0 / max(1, leaves)))
    spots: dict[int, Spot] = {}
    _position(children, root, 0, [20.0], step, loads, spots)
    body = [_line(spots[parent], spots[node]) for node, parent in parents.items() if node in spots and parent in spots]
    body += _spots(list(spots.values()), max(3.0, min(10.0, step / 2.5)))
    width = max(spot.x for spot in spots.values()) + 30
    height = max(spot.y for spot in spots.values()) + 30
    return _page(max(width, 240), height, title, body)


def _leaves(children: Mapping[int, Sequence[int]], root: int) -> int:
    count, frontier = 0, [root]
    while frontier:
        below = children.get(frontier.pop(), ())
        count += not below
        frontier.extend(below)
    return count


def _position(
    children: Mapping[int, Sequence[int]],
    node: int,
    depth: int,
    cursor: list[float],
    step: float,
    loads: Mapping[int, float],
    spots: dict[int, Spot],
) -> float:
    """Leaves from left to right; a parent in the middle above its children."""
    below = children.get(node, ())
    if below:
        xs = [_position(children, child, depth + 1, cursor, step, loads, spots) for child in below]
        x = (xs[0] + xs[-1]) / 2
    else:
        x = cursor[0]
        cursor[0] += step
    load = loads.get(node, 0.0)
    spots[node] = Spot(x, 50 + 60 * depth, load, f"node {node}: {load:.3g}")
    return x


def draw_load(curves: Mapping[str, Sequence[float]], *, title: str, unit: str = "share of the load") -> str:
    """Draws the loads of all nodes, heaviest first, one curve each.

    Args:
        curves: Loads by name.
        title: Heading.
        unit: What the vertical axis shows.
    """
    width, height, left, top = 560.0, 320.0, 60.0, 40.0
    colours = ("#2f5d8a", "#c43c30", "#3f8f5f", "#8a5fa8", "#b8862b")
    ranked = {name: sorted(loads, reverse=True) for name, loads in curves.items()}
    most = max((loads[0] for loads in ranked.values() if loads), default=1.0) or 1.0
    body = [
        f'<path d="M{left} {top} V{height} H{width}" fill="none" stroke="{_TEXT}"/>',
        f'<text x="{left - 6}" y="{top + 4}" text-anchor="end" fill="{_TEXT}">{most:.3g}</text>',
        f'<text x="{left - 6}" y="{height}" text-anchor="end" fill="{_TEXT}">0</text>',
        f'<text x="{width}" y="{height + 18}" text-anchor="end" fill="{_TEXT}">nodes, heaviest first</text>',
        f'<text x="{left}" y="{height + 18}" fill="{_TEXT}">{escape(unit)}</text>',
    ]
    for number, (name, loads) in enumerate(ranked.items()):
        colour = colours[number % len(colours)]
        span = max(1, len(loads) - 1)
        points = " ".join(
            f"{left + (width - left) * rank / span:.1f},{height - (height - top) * load / most:.1f}"
            for rank, load in enumerate(loads)
        )
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        body.append(f'<text x="{width - 170}" y="{top + 14 * number}" fill="{colour}">{escape(name)}</text>')
    return _page(width + 20, height + 30, title, body)


def draw_map(
    positions: Sequence[tuple[float, float]],
    loads: Sequence[float],
    flows: Mapping[tuple[int, int], float],
    *,
    title: str,
    marked: Collection[int] = (),
) -> str:
    """Draws nodes on a map, and what flows over their links.

    Args:
        positions: Of the nodes, on the unit square.
        loads: Of the nodes.
        flows: By link; the more, the broader it is drawn.
        title: Heading.
        marked: Nodes to be told apart.
    """
    side, left, top = 560.0, 30.0, 50.0
    points = [(left + side * x, top + side * y) for x, y in positions]
    most = max(flows.values(), default=0.0) or 1.0
    body = []
    for (one, other), flow in sorted(flows.items()):
        (x1, y1), (x2, y2) = points[one], points[other]
        body.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_TEXT}" '
            f'stroke-width="{0.4 + 5 * flow / most:.2f}" stroke-opacity="{0.25 if not flow else 0.7}"/>'
        )
    radius = max(2.5, min(9.0, 60 / max(1, len(points)) ** 0.5))
    body += [
        f'<circle cx="{points[node][0]:.1f}" cy="{points[node][1]:.1f}" r="{radius + 4:.1f}" fill="none" '
        f'stroke="#c43c30" stroke-width="1.6"/>'
        for node in sorted(marked)
    ]
    spots = [
        Spot(x, y, load, f"node {n}: {load:.3g}") for n, ((x, y), load) in enumerate(zip(points, loads, strict=True))
    ]
    body += _spots(spots, radius)
    return _page(side + 2 * left, side + top + 30, title, body)
