"""Random walks over the element graph: what all query generators have in common.

A walk starts below an element (or at the document node) and takes steps until it is as deep as it may be, or at an
element without children. A step goes to a child, chosen uniformly or by Zipf's law; with probability DS it is a ``//``
step and goes any number of levels down, uniformly from one to as many as are left (so does the YFilter release; half of
its ``//`` steps lead to a child). With probability W its test is ``*``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from twigcast.schema import ElementGraph


@dataclass(frozen=True, slots=True)
class WalkedStep:
    """A step of a walk: the axis, whether its test is ``*``, the element it stands at, and that element's depth."""

    descendant: bool
    wildcard: bool
    element: str
    depth: int


class Walker:
    """Random walks over one element graph with fixed probabilities."""

    def __init__(
        self, graph: ElementGraph, random: Random, *, wildcard: float = 0.0, descendant: float = 0.0, skew: float = 0.0
    ) -> None:
        """Prepares the graph for fast walking: elements become numbers, the document node is the last number."""
        self.names = list(graph.names)
        number = {name: position for position, name in enumerate(self.names)}
        self.children = [[number[child] for child in graph.children(name)] for name in self.names]
        self.children.append([number[graph.root]])
        self.document = len(self.names)
        self.number = number
        self.wildcard = wildcard
        self.descendant = descendant
        self.skew = skew
        self._weights = [zipf_cumulative(len(children), skew) for children in self.children]
        self._random = random.random

    def choose(self, node: int) -> int:
        """Returns a child of a node that has children."""
        children = self.children[node]
        if self.skew:
            weights = self._weights[node]
            return children[min(bisect_right(weights, self._random() * weights[-1]), len(children) - 1)]
        return children[int(self._random() * len(children))]

    def steps(self, start: str | None, levels: int, depth: int = 0) -> list[WalkedStep]:
        """Walks at most ``levels`` levels down from an element at this depth (``None``: from the document node)."""
        node = self.document if start is None else self.number[start]
        last = depth + levels
        steps: list[WalkedStep] = []
        random, children = self._random, self.children
        while depth < last and children[node]:
            descendant = random() < self.descendant
            jump = 1 + int(random() * (last - depth)) if descendant else 1
            while jump and children[node]:
                node = self.choose(node)
                depth += 1
                jump -= 1
            steps.append(WalkedStep(descendant, random() < self.wildcard, self.names[node], depth))
        return steps

    def path(self, levels: int) -> str:
        """Returns the text of a walk from the document node, rewritten: the fast method for a path without predicates.

        Takes the same random numbers as :meth:`steps` and gives the same text as :func:`path_text` of its result.
        """
        node, depth = self.document, 0
        random, children, names = self._random, self.children, self.names
        ds, w, skewed = self.descendant, self.wildcard, self.skew
        text = ""
        moved = after_moved = False
        while depth < levels:
            options = children[node]
            if not options:
                break
            if random() < ds:
                descendant = True
                jump = 1 + int(random() * (levels - depth))
            else:
                descendant = False
                jump = 1
            while jump:
                node = self.choose(node) if skewed else options[int(random() * len(options))]
                depth += 1
                jump -= 1
                options = children[node]
                if not options:
                    break
            if random() < w:
                if descendant:
                    if not after_moved:
                        text += "/*"
                    moved = after_moved = True
                else:
                    text += "/*"
                    after_moved = False
            else:
                text += f"//{names[node]}" if descendant or moved else f"/{names[node]}"
                moved = after_moved = False
        return text


def rewrite(steps: Sequence[WalkedStep]) -> list[WalkedStep]:
    """Applies the generator's three rewritings (Diao 2005, section 4.4.2).

    1. ``//*`` becomes ``/*//``, until there is none; 2. of several consecutive ``/*//`` the first is kept;
    3. a ``//`` at the end is dropped. The second changes what a query selects (``//*//*/a`` needs two elements above
    ``a``, ``/*//a`` for one): it belongs to the generator, it is no optimisation.
    """
    written: list[WalkedStep] = []
    moved = after_moved = False
    for step in steps:
        if step.wildcard:
            if not (step.descendant and after_moved):
                written.append(WalkedStep(False, True, step.element, step.depth))
            after_moved = step.descendant
            moved = moved or step.descendant
        else:
            written.append(WalkedStep(step.descendant or moved, False, step.element, step.depth))
            moved = after_moved = False
    return written


def path_text(steps: Sequence[WalkedStep], suffixes: Sequence[str] | None = None) -> str:
    """Returns an absolute path of these steps; ``suffixes``: the predicates of each, as text."""
    texts = [f"{'//' if s.descendant else '/'}{'*' if s.wildcard else s.element}" for s in steps]
    if suffixes is not None:
        texts = [text + suffix for text, suffix in zip(texts, suffixes, strict=True)]
    return "".join(texts)


def relative_text(steps: Sequence[WalkedStep]) -> str:
    """Returns the same path seen from the element it starts at: ``a/b``, ``.//a``."""
    text = path_text(steps)
    return f".{text}" if text.startswith("//") else text[1:]


def zipf_cumulative(count: int, theta: float) -> list[float]:
    """Returns cumulative weights of Zipf's law: the *i*-th of ``count`` items has weight 1 / i**theta."""
    return list(accumulate(1.0 / rank**theta for rank in range(1, count + 1)))
