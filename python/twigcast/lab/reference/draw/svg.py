"""Trees, layered graphs and circular graphs as SVG, without any other program."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_STYLE = """<style>
text { font: 13px sans-serif; fill: #1f2328; text-anchor: middle; dominant-baseline: central }
.small { font-size: 11px; fill: #57606a }
.edge { stroke: #57606a; fill: none; stroke-width: 1.2 }
.node { stroke: #1f2328; fill: #f6f8fa; stroke-width: 1.4 }
.strong { fill: #ddf4ff; stroke: #0969da }
.halo { stroke: #ffffff; stroke-width: 5; paint-order: stroke; stroke-linejoin: round }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .small { fill: #9198a1 } .edge { stroke: #9198a1 }
.node { stroke: #e6edf3; fill: #212830 } .strong { fill: #10283f; stroke: #58a6ff } .halo { stroke: #0d1117 }
}
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L8 4 L0 8 z" fill="#57606a"/></marker></defs>"""

_RADIUS = 18


@dataclass(slots=True)
class Node:
    """A circle with a label; ``note`` is written under it."""

    label: str
    note: str = ""
    strong: bool = False
    """Accepting, or marked: filled, with a double line."""
    looped: bool = False
    """With a loop on every name."""
    x: float = 0
    y: float = 0


@dataclass(slots=True)
class Picture:
    """A drawing: nodes with positions, and edges between them."""

    width: float
    height: float
    title: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Returns the SVG document."""
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(self.width)} {_n(self.height)}" '
            f'width="{_n(self.width)}" height="{_n(self.height)}" role="img">',
            f"<title>{escape(self.title)}</title>",
            _STYLE,
            *self.edges,
            *(_circle(node) for node in self.nodes),
            "</svg>",
        ]
        return "\n".join(parts) + "\n"


def tree(
    root: Hashable,
    children: Callable[[Hashable], Sequence[tuple[str, Hashable]]],
    draw: Callable[[Hashable], Node],
    title: str,
) -> str:
    """Draws a tree from left to right.

    Args:
        root: The root.
        children: Edge label and child, for each child.
        draw: What a node looks like.
        title: For those who cannot see it.
    """
    return layered([root], children, draw, title)


def layered(
    roots: Iterable[Hashable],
    children: Callable[[Hashable], Sequence[tuple[str, Hashable]]],
    draw: Callable[[Hashable], Node],
    title: str,
) -> str:
    """Draws a forest from left to right. Nodes may be shared: a shared node stands right of all its users."""
    layout = _Layout(children, draw)
    roots = list(roots)
    for root in roots:
        layout.measure(root, 0)
    for root in roots:
        if root not in layout.placed:
            layout.lay_out(root)
    return layout.picture(title).text()


class _Layout:
    """A forest in columns by depth; leaves take rows in the order they are met."""

    def __init__(
        self, children: Callable[[Hashable], Sequence[tuple[str, Hashable]]], draw: Callable[[Hashable], Node]
    ) -> None:
        self._children = children
        self._draw = draw
        self._columns: dict[Hashable, int] = {}
        self._edges: list[tuple[Hashable, str, Hashable]] = []
        self._rows = 0
        self.placed: dict[Hashable, Node] = {}

    def measure(self, item: Hashable, column: int) -> None:
        self._columns[item] = max(self._columns.get(item, 0), column)
        for _, child in self._children(item):
            self.measure(child, column + 1)

    def lay_out(self, item: Hashable) -> None:
        node = self.placed[item] = self._draw(item)
        node.x = 40 + self._columns[item] * 105
        below = self._children(item)
        self._edges.extend((item, label, child) for label, child in below)
        own = [child for _, child in below if child not in self.placed]
        for child in own:
            if child not in self.placed:
                self.lay_out(child)
        if own:
            rows = [self.placed[child].y for child in own]
            node.y = (min(rows) + max(rows)) / 2
        else:
            node.y = 30 + self._rows * 64
            self._rows += 1

    def picture(self, title: str) -> Picture:
        width = max(node.x + 25 + 3.5 * len(node.note) for node in self.placed.values())
        picture = Picture(width, self._rows * 64 + 6, title, list(self.placed.values()))
        for source, label, target in self._edges:
            ends = self.placed[source], self.placed[target]
            others = [node for node in self.placed.values() if node not in ends]
            picture.edges.append(_line(*ends, label, _clear_bend(*ends, others)))
        return picture


def circular(names: Sequence[str], edges: Sequence[tuple[str, str, str]], title: str) -> str:
    """Draws a graph with its nodes on a circle; an edge is source, label, target."""
    radius = 16 * max(3, len(names)) + 40
    nodes = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        nodes[name] = Node(
            name, x=radius * math.cos(angle) * 1.35 + radius * 1.35 + 40, y=radius * math.sin(angle) + radius + 28
        )
    picture = Picture(radius * 2.7 + 80, radius * 2 + 56, title, list(nodes.values()))
    picture.edges = [_line(nodes[source], nodes[target], label, 28) for source, label, target in edges]
    return picture.text()


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _circle(node: Node) -> str:
    kind = "node strong" if node.strong else "node"
    parts = [f'<circle class="{kind}" cx="{_n(node.x)}" cy="{_n(node.y)}" r="{_RADIUS}"/>']
    if node.strong:
        parts.append(f'<circle class="{kind}" cx="{_n(node.x)}" cy="{_n(node.y)}" r="{_RADIUS - 3}"/>')
    if node.looped:
        x, top = node.x, node.y - _RADIUS
        parts.append(
            f'<path class="edge" marker-end="url(#tip)" d="M{_n(x - 7)} {_n(top + 2)} '
            f'C{_n(x - 18)} {_n(top - 19)} {_n(x + 18)} {_n(top - 19)} {_n(x + 7)} {_n(top + 1)}"/>'
        )
    parts.append(f'<text x="{_n(node.x)}" y="{_n(node.y)}">{escape(node.label)}</text>')
    if node.note:
        parts.append(f'<text class="small" x="{_n(node.x)}" y="{_n(node.y + _RADIUS + 10)}">{escape(node.note)}</text>')
    return "\n".join(parts)


def _middle(source: Node, target: Node, bend: float) -> tuple[float, float]:
    """The point that a curve is pulled towards: off the middle, to the left of the direction."""
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy) or 1
    return (source.x + target.x) / 2 + dy / length * bend, (source.y + target.y) / 2 - dx / length * bend


def _clear_bend(source: Node, target: Node, others: Sequence[Node]) -> float:
    """The smallest bend that keeps an edge away from the other nodes."""

    def clearance(bend: float) -> float:
        mx, my = _middle(source, target, bend)
        points = [
            (u * u * source.x + 2 * u * v * mx + v * v * target.x, u * u * source.y + 2 * u * v * my + v * v * target.y)
            for u, v in ((1 - step / 20, step / 20) for step in range(21))
        ]
        return min((math.hypot(x - node.x, y - node.y) for x, y in points for node in others), default=math.inf)

    bends = (0.0, -40.0, 40.0, -80.0, 80.0)
    return next((bend for bend in bends if clearance(bend) > _RADIUS + 6), max(bends, key=clearance))


def _line(source: Node, target: Node, label: str, bend: float) -> str:
    """An edge with its label; bent to the left, so that edges in both directions stay apart."""
    mx, my = _middle(source, target, bend)
    sx, sy = _towards(source, mx, my, _RADIUS)
    tx, ty = _towards(target, mx, my, _RADIUS + 2)
    lx, ly = (mx + (source.x + target.x) / 2) / 2, (my + (source.y + target.y) / 2) / 2
    return (
        f'<path class="edge" marker-end="url(#tip)" d="M{_n(sx)} {_n(sy)} Q{_n(mx)} {_n(my)} {_n(tx)} {_n(ty)}"/>'
        f'<text class="halo" x="{_n(lx)}" y="{_n(ly)}">{escape(label)}</text>'
        f'<text x="{_n(lx)}" y="{_n(ly)}">{escape(label)}</text>'
    )


def _towards(node: Node, x: float, y: float, distance: float) -> tuple[float, float]:
    dx, dy = x - node.x, y - node.y
    length = math.hypot(dx, dy) or 1
    return node.x + dx / length * distance, node.y + dy / length * distance
