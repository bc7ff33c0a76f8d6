"""Plain maps of a query's regions and a message's places: lines on a grid of degrees, without tiles from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

WIDTH: Final = 480.0
"""The width of a map; its height is between half of that and as much."""

MARGIN: Final = 0.12
"""The part of the width that is free around what is drawn, on each side."""

STEPS: Final = (90, 45, 30, 15, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Degrees between two lines of the grid."""

GRID_LINES_MIN: Final = 3

Point = tuple[float, float]
"""A longitude and a latitude."""


class MapShape(NamedTuple):
    """A shape on a map: a path, or the middle of a point."""

    kind: str
    """``region``, or ``place``."""
    path: str
    point: Point | None
    is_area: bool


class GridLine(NamedTuple):
    """A line of the grid, with its label."""

    x: float | None
    y: float | None
    label: str


@dataclass(frozen=True, slots=True)
class RegionMapView:
    """A map of one region and the places that were compared with it."""

    text: str
    height: float
    shapes: Sequence[MapShape]
    grid: Sequence[GridLine]
    drawn_count: int


def region_maps(details: Mapping[str, Any]) -> list[RegionMapView]:
    """Returns the maps that an explanation has."""
    return [_map(each) for each in details["maps"] if each["places"]]


def _map(part: Mapping[str, Any]) -> RegionMapView:
    west, _, east, _ = _bounds(_points(part["region"]))
    middle = (west + east) / 2
    drawings = [("region", part["region"]), *(("place", _beside(place, middle)) for place in part["places"])]
    bounds = _bounds([point for _, drawing in drawings for point in _points(drawing)])
    frame = _Frame.around(*bounds)
    shapes = [shape for kind, drawing in drawings for shape in frame.shapes(kind, drawing)]
    return RegionMapView(part["text"], round(frame.height, 1), shapes, list(frame.grid()), len(part["places"]))


def _points(drawing: Mapping[str, Any]) -> list[Point]:
    """Returns the points of a drawing that are on the Earth: some shapes end beyond the poles."""
    return [(max(-360.0, min(360.0, x)), max(-90.0, min(90.0, y))) for line in drawing["lines"] for x, y in line]


def _bounds(points: Sequence[Point]) -> tuple[float, float, float, float]:
    longitudes, latitudes = [x for x, _ in points], [y for _, y in points]
    return min(longitudes), min(latitudes), max(longitudes), max(latitudes)


def _beside(drawing: Mapping[str, Any], middle: float) -> Mapping[str, Any]:
    """Returns a drawing moved by whole turns, so that it is on the near side of the region."""
    west, _, east, _ = _bounds(_points(drawing))
    turn = 360 * round((middle - (west + east) / 2) / 360)
    return {**drawing, "lines": [[(x + turn, y) for x, y in line] for line in drawing["lines"]]}


@dataclass(frozen=True, slots=True)
class _Frame:
    """The part of the plane that a map shows."""

    west: float
    north: float
    degrees: float
    """Longitudes across."""
    narrowing: float
    """The length of a degree of longitude as a part of one of latitude."""
    height: float

    @classmethod
    def around(cls, west: float, south: float, east: float, north: float) -> _Frame:
        narrowing = max(0.1, math.cos(math.radians((south + north) / 2)))
        # Both in degrees of latitude.
        width, height = max((east - west) * narrowing, 0.002), max(north - south, 0.002)
        width, height = width * (1 + 2 * MARGIN), height * (1 + 2 * MARGIN)
        width = max(width, height)
        height = max(height, width / 2)
        degrees = width / narrowing
        return cls(
            (west + east - degrees) / 2, (south + north + height) / 2, degrees, narrowing, WIDTH * height / width
        )

    @property
    def scale(self) -> float:
        """Units of a degree of longitude."""
        return WIDTH / self.degrees

    def at(self, point: Point) -> Point:
        x, y = point
        return round((x - self.west) * self.scale, 1), round((self.north - y) * self.scale / self.narrowing, 1)

    def shapes(self, kind: str, drawing: Mapping[str, Any]) -> Iterator[MapShape]:
        lines = [[self.at((x, y)) for x, y in line] for line in drawing["lines"]]
        if len(lines) == 1 and len(lines[0]) == 1:
            yield MapShape(kind, "", lines[0][0], False)
            return
        is_area = drawing["is_area"]
        path = " ".join("M" + " ".join(f"{x:g},{y:g}" for x, y in line) + ("Z" if is_area else "") for line in lines)
        yield MapShape(kind, path, None, is_area)

    def grid(self) -> Iterator[GridLine]:
        step = next((step for step in STEPS if self.degrees / step >= GRID_LINES_MIN), STEPS[-1])
        for x in _multiples(self.west, self.west + self.degrees, step):
            yield GridLine(self.at((x, 0))[0], None, _degrees((x + 180) % 360 - 180, "E", "W"))
        south = self.north - self.height * self.narrowing / self.scale
        for y in _multiples(max(south, -90), min(self.north, 90), step):
            yield GridLine(None, self.at((0, y))[1], _degrees(y, "N", "S"))


def _multiples(start: float, end: float, step: float) -> list[float]:
    return [number * step for number in range(math.ceil(start / step), math.floor(end / step) + 1)]


def _degrees(value: float, positive: str, negative: str) -> str:
    rounded = round(value, 3)
    return f"{abs(rounded):g}°{positive if rounded > 0 else negative if rounded < 0 else ''}"
