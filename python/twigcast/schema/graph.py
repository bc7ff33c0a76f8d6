"""The element graph of a schema: an edge from each element to each element that may be its child.

Diao 2005, section 6.5: an element is *on a loop* iff it lies on a directed cycle; two elements are on the same loop iff
one cycle contains both. Both are decided with strongly connected components (Tarjan 1972).
"""

from __future__ import annotations

from functools import cached_property

from twigcast.schema.model import Particle, Schema


class ElementGraph:
    """The part of a schema that can be reached from its root element."""

    def __init__(self, schema: Schema) -> None:
        """Collects the elements below the root of the schema."""
        self.schema = schema
        self.root = schema.root
        self._children: dict[str, tuple[str, ...]] = {}
        pending = [self.root]
        while pending:
            name = pending.pop()
            if name not in self._children:
                self._children[name] = schema.children(name)
                pending.extend(reversed(self._children[name]))

    @property
    def names(self) -> tuple[str, ...]:
        """The reachable elements, root first, in the order of a depth-first walk."""
        return tuple(self._children)

    def __contains__(self, name: str) -> bool:
        """Returns whether an element can occur in a valid document."""
        return name in self._children

    def children(self, name: str) -> tuple[str, ...]:
        """Returns the possible children, none for an element that cannot occur."""
        return self._children.get(name, ())

    @cached_property
    def parents(self) -> dict[str, tuple[str, ...]]:
        """Possible parents of each element."""
        results: dict[str, list[str]] = {name: [] for name in self._children}
        for name, children in self._children.items():
            for child in children:
                results[child].append(name)
        return {name: tuple(parents) for name, parents in results.items()}

    # Loops

    @cached_property
    def _component(self) -> dict[str, int]:
        return _strong_components(self._children)

    @cached_property
    def _looping(self) -> frozenset[int]:
        sizes: dict[int, int] = {}
        for component in self._component.values():
            sizes[component] = sizes.get(component, 0) + 1
        looping = {component for component, size in sizes.items() if size > 1}
        looping |= {self._component[name] for name, children in self._children.items() if name in children}
        return frozenset(looping)

    def on_loop(self, name: str) -> bool:
        """Returns whether the element can contain itself, directly or not."""
        return self._component.get(name) in self._looping

    def on_same_loop(self, first: str, second: str) -> bool:
        """Returns whether one directed cycle contains both (for equal names: whether the element is on a loop)."""
        return self.on_loop(first) and self._component[first] == self._component.get(second)

    @property
    def recursive(self) -> tuple[str, ...]:
        """The elements on loops."""
        return tuple(name for name in self._children if self.on_loop(name))

    # Depth and paths

    @cached_property
    def maximum_depth(self) -> int | None:
        """Levels of the deepest valid document; ``None`` if there is no limit."""
        if self.recursive:
            return None
        height: dict[str, int] = {}
        for name in sorted(self._children, key=self._component.__getitem__):  # the components of children come first
            height[name] = 1 + max((height[child] for child in self._children[name]), default=0)
        return height[self.root]

    def only_path(self, above: str | None, below: str) -> tuple[str, ...] | None:
        """Returns the element names after ``above`` down to ``below`` if the graph has exactly one path between them.

        ``above`` is ``None`` for the document node. The result is ``None`` if there are several paths or none. It
        decides whether a ``//`` is superfluous (Diao 2005, section 6.6.1).
        """
        start: tuple[str, ...] = (self.root,) if above is None else self.children(above)
        if below not in self._children:
            return None
        leading = self._leading_to(below)
        path: list[str] = []
        options = [name for name in start if name in leading]
        while len(options) == 1:
            name = options[0]
            if self.on_loop(name):
                return None
            path.append(name)
            if name == below:
                return tuple(path)
            options = [child for child in self.children(name) if child in leading]
        return None

    def _leading_to(self, name: str) -> set[str]:
        results = {name}
        pending = [name]
        while pending:
            for parent in self.parents[pending.pop()]:
                if parent not in results:
                    results.add(parent)
                    pending.append(parent)
        return results

    def optional(self, parent: str, child: str) -> bool:
        """Returns whether an element may lack this child."""
        return self.schema.elements[parent].content.least(child) == 0

    def repeated(self, parent: str, child: str) -> bool:
        """Returns whether an element may have more than one child of this name."""
        most = self.schema.elements[parent].content.most(child)
        return most is None or most > 1

    @cached_property
    def minimum_height(self) -> dict[str, int]:
        """The least number of levels of each element, itself included: 1 if it may be empty.

        Elements that can never be complete (``<!ELEMENT a (a)>``) are missing.
        """
        height: dict[str, int] = {}
        changed = True
        while changed:
            changed = False
            for name in self._children:
                below = needed_height(self.schema.elements[name].content, height)
                if below is not None and height.get(name, below + 2) > below + 1:
                    height[name] = below + 1
                    changed = True
        return height


def needed_height(particle: Particle, heights: dict[str, int]) -> int | None:
    """Returns the least number of levels below the parent of a particle, or ``None`` if it may never be complete.

    `heights` are the least numbers of levels of elements.
    """
    if particle.minimum == 0 or particle.kind in ("empty", "any", "text"):
        return 0
    if particle.kind == "element":
        return heights.get(particle.name)
    parts = [needed_height(child, heights) for child in particle.children]
    existing = [part for part in parts if part is not None]
    if particle.kind == "choice":
        return min(existing, default=None)
    return max(existing, default=0) if len(existing) == len(parts) else None


def _strong_components(edges: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Returns the strongly connected component of each node. A component has a larger number than those it leads to."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    stack: list[str] = []
    count = 0
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            name, children = work[-1]
            child = next((c for c in children if c not in component), None)
            if child is None:
                work.pop()
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[name])
                if low[name] == index[name]:
                    while True:
                        member = stack.pop()
                        component[member] = count
                        if member == name:
                            break
                    count += 1
            elif child in index:
                low[name] = min(low[name], index[child])
            else:
                index[child] = low[child] = len(index)
                stack.append(child)
                work.append((child, iter(edges[child])))
    return component
