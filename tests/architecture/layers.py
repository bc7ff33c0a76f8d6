"""Reads ``layers.txt``: which files form which layer, and what a layer may import."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LAYERS_FILE = Path(__file__).with_name("layers.txt")


@dataclass(frozen=True)
class Layer:
    """One line of the list: a layer with its entries and what narrows its imports."""

    name: str
    height: int
    entries: tuple[str, ...]
    up_to: str | None = None
    excluded: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    also: tuple[str, ...] = ()


@dataclass
class Layers:
    """All layers of one language, lowest first."""

    layers: list[Layer] = field(default_factory=list)
    inside: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    """By layer, for each part of it: the other parts that it may import."""
    importers_of_lab: dict[str, tuple[str, ...]] = field(default_factory=dict)
    circles: list[frozenset[str]] = field(default_factory=list)

    def layer_of(self, path: str) -> Layer | None:
        """Returns the layer with the most specific entry that matches a file."""
        best: tuple[int, Layer] | None = None
        for layer in self.layers:
            for entry in layer.entries:
                if matches(entry, path) and (best is None or len(entry) > best[0]):
                    best = len(entry), layer
        return None if best is None else best[1]

    def objection(self, importer: str, imported: str) -> str | None:
        """Returns why a file must not import another, or ``None`` if it may. Both belong to layers."""
        source, target = self.layer_of(importer), self.layer_of(imported)
        if source is None or target is None:
            return None
        if target is source:
            return self._objection_inside(source, importer, imported)
        if matches_any(source.also, imported):
            return None
        if source.only:
            return None if matches_any(source.only, imported) else f"{source.name} may not import it"
        if target.height > source.height:
            return f"{source.name} lies below {target.name}"
        if any(target.name.startswith(prefix) for prefix in source.excluded):
            return f"{source.name} may not import {target.name}"
        if source.up_to is not None and target.height > self._height(source.up_to):
            return f"{source.name} imports only up to {source.up_to}, and {target.name} lies above it"
        return None

    def _objection_inside(self, layer: Layer, importer: str, imported: str) -> str | None:
        parts = self.inside.get(layer.name)
        if parts is None:
            return None
        source, target = _part(parts, importer), _part(parts, imported)
        if source == target or (source is not None and matches_any(parts[source], imported)):
            return None
        return f"inside {layer.name}, {source} may not import {target}"

    def _height(self, name: str) -> int:
        return next(layer.height for layer in self.layers if layer.name == name)


def matches(entry: str, path: str) -> bool:
    """Returns whether an entry names a file: ``folder/`` all below it, ``name`` that file or folder."""
    if entry.endswith("/"):
        return path.startswith(entry)
    return path == entry or path == f"{entry}.rs" or path.startswith(f"{entry}/")


def matches_any(entries: Iterable[str], path: str) -> bool:
    """Returns whether one of the entries names a file."""
    return any(matches(entry, path) for entry in entries)


def _part(parts: Mapping[str, tuple[str, ...]], path: str) -> str | None:
    return next((part for part in parts if matches(part, path)), None)


def _expanded(text: str) -> Iterator[str]:
    for word in text.split():
        braces = re.fullmatch(r"(.*)\{(.*)\}(.*)", word)
        if braces is None:
            yield word
        else:
            head, choices, tail = braces.groups()
            yield from (f"{head}{choice}{tail}" for choice in choices.split(","))


def _read_layer(line: str, height: int) -> Layer:
    first, *columns = line.split("|")
    name, _, entries = first.partition(" ")
    rules: dict[str, tuple[str, ...]] = {}
    for column in columns:
        word, _, operands = column.strip().removeprefix("up ").partition(" ")
        if word not in {"to", "not", "only", "and"}:
            raise ValueError(f"{LAYERS_FILE.name}: unknown column {column!r}")
        rules[word] = tuple(_expanded(operands))
    return Layer(
        name,
        height,
        tuple(_expanded(entries)),
        up_to=rules["to"][0] if "to" in rules else None,
        excluded=rules.get("not", ()),
        only=rules.get("only", ()),
        also=rules.get("and", ()),
    )


def read_layers(text: str) -> dict[str, Layers]:
    """Reads the list: the layers of ``python`` and of ``rust``."""
    languages = {"python": Layers(), "rust": Layers()}
    python, rust = languages["python"], languages["rust"]
    section = ""
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif section in languages:
            layers = languages[section].layers
            layers.append(_read_layer(line, len(layers)))
        elif section == "rust circles":
            rust.circles.append(frozenset(_expanded(line)))
        elif section == "lab importers" or section.startswith("inside "):
            source, _, targets = line.partition("->")
            if section == "lab importers":
                rules = python.importers_of_lab
            else:
                rules = python.inside.setdefault(section.removeprefix("inside "), {})
            rules[source.strip()] = tuple(_expanded(targets))
        else:
            raise ValueError(f"{LAYERS_FILE.name}: unknown section [{section}]")
    return languages


@functools.cache
def layers() -> Mapping[str, Layers]:
    """Returns the layers of the project, by language."""
    return read_layers(LAYERS_FILE.read_text(encoding="utf-8"))
