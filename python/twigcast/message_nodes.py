"""Finds paths to the nodes of a message, and their texts: at the first request, for all nodes at once."""

from __future__ import annotations

import gc
from array import array
from collections import Counter
from typing import Any, Final, NamedTuple

from twigcast._core import scan_nodes

_ROOT: Final = -1
"""In place of the parent of a child of the document."""

_XML: Final = "http://www.w3.org/XML/1998/namespace"


class MessageNodes:
    """The paths to the nodes of one message and their texts; the message is read a second time, at the first request.

    A path leads back to its node, and to no other, in every processor that knows ``*:name`` of XPath 2.0, as Twigcast
    does: names in a namespace are written so, since a path cannot declare prefixes.

    Args:
        message: The message, in UTF-8, as the engine has read it.
        has_default: Whether paths are to be read where names without a prefix are in a default namespace: then names
            in no namespace are written ``*:name``, too.
    """

    def __init__(self, message: bytes, *, has_default: bool = False) -> None:
        self._message = message
        self._has_default = has_default
        self._nodes: _PositionedNodes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _message_nodes, (self._message, self._has_default)

    def path(self, kind: str, start: int, name: str) -> str:
        """Returns the path to a node.

        Args:
            kind: Its kind, as of :class:`twigcast.Node`.
            start: Where its markup starts, in bytes from 0.
            name: Its name as written.

        Raises:
            ValueError: No such node begins there.
        """
        if kind == "document":
            return "/"
        nodes = self._positioned()
        if kind == "attribute":
            return nodes.attribute_path(start, name)
        if kind == "namespace":
            step = f"namespace::{name}" if name else "namespace::*[name() = '']"
            return f"{nodes.path(start)}/{step}"
        return nodes.path(start)

    def text(self, kind: str, start: int, name: str) -> str:
        """Returns the string-value of a node: what it says, without markup, with references resolved.

        Args:
            kind: Its kind.
            start: Where its markup starts.
            name: Its name as written.

        Raises:
            ValueError: There is no such node.
        """
        nodes = self._positioned()
        if kind == "document":
            return nodes.whole_text()
        if kind == "attribute":
            return nodes.attribute(start).value
        return nodes.namespace(start, name) if kind == "namespace" else nodes.text(start)

    def _positioned(self) -> _PositionedNodes:
        if self._nodes is None:
            # There are several objects for each node, none of them garbage: looking for it takes longer than the rest.
            is_enabled = gc.isenabled()
            gc.disable()
            try:
                self._nodes = _PositionedNodes(self._message, has_default=self._has_default)
            finally:
                if is_enabled:
                    gc.enable()
        return self._nodes


def _message_nodes(message: bytes, has_default: bool) -> MessageNodes:
    return MessageNodes(message, has_default=has_default)


class _Attribute(NamedTuple):
    """An attribute, and the position of its element among the nodes."""

    element: int
    uri: str
    local: str
    value: str


class _PositionedNodes:
    """The nodes of a message by their first byte, each with its parent, the step that leads to it, and its position."""

    def __init__(self, message: bytes, *, has_default: bool) -> None:
        self._ends = array("q")
        """By node, the position behind its last descendant."""
        self._parents = array("q")
        self._positions = array("q")
        self._steps: list[str] = []
        self._alike: Counter[tuple[int, str]] = Counter()
        self._by_start: dict[int, int] = {}
        self._texts: dict[int, str] = {}
        """The values of texts, in document order."""
        self._values: dict[int, str] = {}
        """Those of comments and processing instructions."""
        self._attributes: dict[int, _Attribute] = {}
        """By the first byte."""
        self._names: Counter[tuple[int, str]] = Counter()
        """By element and local name, the number of its attributes that have it, in whatever namespace."""
        self._declared: dict[int, dict[str, str]] = {}
        """By element, the namespaces that it declares."""
        parent = _ROOT
        for index, (kind, start, end, name, value, attributes, namespaces) in enumerate(scan_nodes(message)):
            while parent != _ROOT and self._ends[parent] <= index:
                parent = self._parents[parent]
            self._by_start[start] = index
            self._ends.append(end)
            self._parents.append(parent)
            self._add(parent, kind, *name, has_default=has_default)
            if value is not None:
                (self._texts if kind == "text" else self._values)[index] = value
            for first, uri, local, content in attributes:
                self._attributes[first] = _Attribute(index, uri, local, content)
                self._names[index, local] += 1
            if namespaces:
                self._declared[index] = dict(namespaces)
            if kind == "element":
                parent = index

    def _add(self, parent: int, kind: str, uri: str, local: str, *, has_default: bool) -> None:
        """Adds the step that leads to a node from its parent."""
        step = f"{kind}()"
        if kind == "element":
            step = f"*:{local}" if uri or has_default else local
            if step == local:
                self._alike[parent, f"*:{local}"] += 1  # for its siblings of the same name
        elif kind == "processing-instruction":
            step = f"processing-instruction('{local}')"
        self._alike[parent, step] += 1
        self._positions.append(self._alike[parent, step])
        self._steps.append(step)

    # Paths ------------------------------------------------------------------------------------------------------------

    def path(self, start: int) -> str:
        """Returns the path to the node that begins at a byte."""
        return self._path_of(self._index(start))

    def _index(self, start: int) -> int:
        index = self._by_start.get(start)
        if index is None:
            raise ValueError(f"no node begins at byte {start} of the message")
        return index

    def _path_of(self, index: int) -> str:
        steps = []
        while index != _ROOT:
            parent, step = self._parents[index], self._steps[index]
            is_alone = self._alike[parent, step] == 1
            steps.append(step if is_alone else f"{step}[{self._positions[index]}]")
            index = parent
        return "/" + "/".join(reversed(steps))

    def attribute_path(self, start: int, name: str) -> str:
        """Returns the path to the attribute that begins at a byte."""
        attribute = self.attribute(start)
        element = self._path_of(attribute.element)
        if not attribute.uri or attribute.uri == _XML:
            return f"{element}/@{name}"
        is_alone = self._names[attribute.element, attribute.local] == 1
        which = "" if is_alone else f"[name() = '{name}']"
        return f"{element}/@*:{attribute.local}{which}"

    def attribute(self, start: int) -> _Attribute:
        """Returns the attribute that begins at a byte."""
        attribute = self._attributes.get(start)
        if attribute is None:
            raise ValueError(f"no attribute begins at byte {start} of the message")
        return attribute

    # Texts ------------------------------------------------------------------------------------------------------------

    def whole_text(self) -> str:
        """Returns the text of the document."""
        return "".join(self._texts.values())

    def text(self, start: int) -> str:
        """Returns the text of the node that begins at a byte."""
        index = self._index(start)
        value = self._values.get(index)
        if value is not None:
            return value
        texts = map(self._texts.get, range(index, self._ends[index]))
        return "".join(text for text in texts if text is not None)

    def namespace(self, start: int, prefix: str) -> str:
        """Returns the namespace of a prefix at the element that begins at a byte."""
        index = self._index(start)
        while index != _ROOT:
            if prefix in self._declared.get(index, ()):
                return self._declared[index][prefix]
            index = self._parents[index]
        if prefix == "xml":
            return _XML
        raise ValueError(f"the prefix {prefix!r} is not declared at byte {start} of the message")
