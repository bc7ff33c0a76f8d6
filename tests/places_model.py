"""Places for tests: how formats write them, and what is true of them.

What is true is said by shapely in the plane, and by plain trigonometry on the sphere.
Corners lie on a grid of whole degrees, so that edges and corners touch often and everything is exact. A place may be
turned around the Earth, across the antimeridian, which changes nothing of how places lie to each other.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

RADIUS_KM: Final = 6371.0088
CAP: Final = "urn:oasis:names:tc:emergency:cap:1.2"
RSS: Final = "http://www.georss.org/georss"
GML: Final = "http://www.opengis.net/gml"
KML: Final = "http://www.opengis.net/kml/2.2"

Pair = tuple[float, float]
"""A longitude and a latitude."""


@dataclass(frozen=True)
class Place:
    """A place: ``point``, ``line``, ``box`` or ``polygon`` with the rings of its holes."""

    kind: str
    rings: tuple[tuple[Pair, ...], ...]

    def shape(self, shapely: Any) -> Any:
        """The place in the plane."""
        first = self.rings[0]
        if self.kind == "point":
            return shapely.Point(first[0])
        if self.kind == "line":
            return shapely.LineString(first)
        return shapely.Polygon(first, self.rings[1:])

    def turned(self, by: float) -> Place:
        """The place turned to the east, with longitudes from -180 to 180."""
        turn = [tuple((_longitude(x + by), y) for x, y in ring) for ring in self.rings]
        return Place(self.kind, tuple(turn))


def _longitude(x: float) -> float:
    x = math.fmod(x, 360)
    return x - 360 if x > 180 else x + 360 if x < -180 else x


def _number(value: float) -> str:
    return f"{value:g}" if value == round(value, 3) else repr(value)


def lat_lon(ring: Sequence[Pair], comma: str = ",") -> str:
    """A ring as text, latitudes first."""
    return " ".join(f"{_number(y)}{comma}{_number(x)}" for x, y in ring)


def lon_lat(ring: Sequence[Pair], rest: str = "") -> str:
    """A ring as text, longitudes first."""
    return " ".join(f"{_number(x)},{_number(y)}{rest}" for x, y in ring)


def _corners(place: Place) -> tuple[Pair, Pair]:
    ring = place.rings[0]
    return ring[0], ring[2]


def cap(place: Place) -> str | None:
    """The place as CAP writes it, if it can."""
    if place.kind not in ("polygon", "box") or len(place.rings) > 1:
        return None
    return f"<polygon xmlns='{CAP}'>{lat_lon(place.rings[0])}</polygon>"


def georss(place: Place) -> str | None:
    """The place as GeoRSS Simple writes it, if it can."""
    if len(place.rings) > 1:
        return None
    text = lat_lon(_corners(place) if place.kind == "box" else place.rings[0], " ")
    return f"<g:{place.kind} xmlns:g='{RSS}'>{text}</g:{place.kind}>"


def gml(place: Place, r: random.Random) -> str:
    """The place as GML writes it, in one of its systems of coordinates."""
    system, is_swapped = r.choice(
        [
            ("", False),
            (" srsName='urn:ogc:def:crs:EPSG::4326'", False),
            (" srsName='http://www.opengis.net/def/crs/EPSG/0/4326'", False),
            (" srsName='EPSG:4326'", True),
            (" srsName='urn:ogc:def:crs:OGC:1.3:CRS84'", True),
            (" srsName='http://www.opengis.net/gml/srs/epsg.xml#4326'", True),
        ]
    )
    height = r.random() < 0.3

    def numbers(ring: Sequence[Pair]) -> str:
        text = lon_lat(ring) if is_swapped else lat_lon(ring)
        pairs = text.split(" ")
        return " ".join(pair.replace(",", " ") + (" 123.5" if height else "") for pair in pairs)

    dimension = " srsDimension='3'" if height else ""
    if place.kind == "point":
        inner = f"<Point{system}><pos>{numbers(place.rings[0])}</pos></Point>"
    elif place.kind == "line":
        inner = f"<LineString{system}{dimension}><posList>{numbers(place.rings[0])}</posList></LineString>"
    elif place.kind == "box":
        low, high = _corners(place)
        corners = f"<lowerCorner>{numbers([low])}</lowerCorner><upperCorner>{numbers([high])}</upperCorner>"
        inner = f"<Envelope{system}>{corners}</Envelope>"
    else:

        def ring(name: str, points: Sequence[Pair]) -> str:
            if r.random() < 0.3:
                listed = "".join(f"<pos>{numbers([point])}</pos>" for point in points)
            else:
                listed = f"<posList>{numbers(points)}</posList>"
            return f"<{name}><LinearRing>{listed}</LinearRing></{name}>"

        rings = ring("exterior", place.rings[0]) + "".join(ring("interior", hole) for hole in place.rings[1:])
        inner = f"<Polygon{system}{dimension}>{rings}</Polygon>"
    return inner.replace("<", f"<where xmlns='{GML}'><", 1) + "</where>"


def kml(place: Place, r: random.Random) -> str:
    """The place as KML writes it."""
    height = r.choice(["", ",0", ",417.5"])

    def coordinates(ring: Sequence[Pair]) -> str:
        return f"<coordinates>\n {lon_lat(ring, height)}\n</coordinates>"

    if place.kind == "point":
        inner = f"<Point>{coordinates(place.rings[0])}</Point>"
    elif place.kind == "line":
        inner = f"<LineString>{coordinates(place.rings[0])}</LineString>"
    else:
        names = ["outerBoundaryIs"] + ["innerBoundaryIs"] * (len(place.rings) - 1)
        pairs = zip(names, place.rings, strict=True)
        rings = "".join(f"<{n}><LinearRing>{coordinates(ring)}</LinearRing></{n}>" for n, ring in pairs)
        inner = f"<Polygon>{rings}</Polygon>"
    return f"<Placemark xmlns='{KML}'><name>a place</name>{inner}</Placemark>"


def written(place: Place, r: random.Random) -> str:
    """The place as one of the formats writes it."""
    texts = [cap(place), georss(place), gml(place, r), kml(place, r)]
    return f"<m>{r.choice([text for text in texts if text is not None])}</m>"


def region(place: Place) -> str:
    """The place as a query writes it; a line has no such form."""
    if place.kind == "point":
        (x, y) = place.rings[0][0]
        return f"geo:point({_number(y)}, {_number(x)})"
    if place.kind == "box":
        (west, south), (east, north) = _corners(place)
        return f"geo:box({_number(south)}, {_number(west)}, {_number(north)}, {_number(east)})"
    rings = ", ".join(f"'{lat_lon(ring)}'" for ring in place.rings)
    return f"geo:polygon({rings})"


def _grid(r: random.Random, size: int) -> Pair:
    return float(r.randrange(-size, size + 1)), float(r.randrange(-size, size + 1))


def _box(r: random.Random, size: int) -> tuple[Pair, ...]:
    (x, y), (w, h) = _grid(r, size), (float(r.randrange(1, 8)), float(r.randrange(1, 8)))
    return (x, y), (x + w, y), (x + w, y + h), (x, y + h), (x, y)


def _polygon(r: random.Random, size: int, shapely: Any) -> tuple[Pair, ...]:
    while True:
        corners = [_grid(r, size) for _ in range(r.randrange(3, 8))]
        middle = (sum(x for x, _ in corners) / len(corners), sum(y for _, y in corners) / len(corners))
        corners.sort(key=lambda at: math.atan2(at[1] - middle[1], at[0] - middle[0]))
        if r.random() < 0.5:
            corners.reverse()
        ring = (*corners, corners[0])
        if len(set(corners)) >= 3 and shapely.Polygon(ring).is_valid and shapely.Polygon(ring).area > 0:
            return ring


def place(r: random.Random, shapely: Any, *, is_region: bool = False, size: int = 9) -> Place:
    """Any place near the middle of the plane."""
    kinds = ["point", "box", "box", "polygon", "polygon", "polygon"] + ([] if is_region else ["line", "line"])
    kind = r.choice(kinds)
    if kind == "point":
        return Place(kind, ((_grid(r, size),),))
    if kind == "line":
        line = [_grid(r, size)]
        while len(line) < 2 or r.random() < 0.5:
            line.append(_grid(r, size))
        distinct = [at for at, before in zip(line, [None, *line], strict=False) if at != before]
        if len(distinct) < 2 or not shapely.LineString(distinct).is_simple:
            return place(r, shapely, is_region=is_region, size=size)
        return Place(kind, (tuple(distinct),))
    if kind == "box":
        return Place(kind, (_box(r, size),))
    rings = [_polygon(r, size, shapely)]
    for _ in range(20):
        if r.random() < 0.4:
            hole = _box(r, size) if r.random() < 0.5 else _polygon(r, size, shapely)
            if shapely.Polygon(rings[0], [*rings[1:], hole]).is_valid:
                rings.append(hole)
    return Place(kind, tuple(rings))


# On the sphere --------------------------------------------------------------------------------------------------------


def kilometres(one: Pair, other: Pair) -> float:
    """The distance between two positions."""
    (lon_1, lat_1), (lon_2, lat_2) = (tuple(map(math.radians, at)) for at in (one, other))
    across, along = math.sin((lat_1 - lat_2) / 2), math.sin((lon_1 - lon_2) / 2)
    return 2 * RADIUS_KM * math.asin(math.sqrt(min(1, across**2 + math.cos(lat_1) * math.cos(lat_2) * along**2)))


def to_edges(centre: Pair, rings: Sequence[Sequence[Pair]], steps: int = 150) -> tuple[float, float, float]:
    """The least and the greatest distance to points of the edges, and how far these are from what the edges have."""
    found, error = [], 0.0
    for ring in rings:
        for (x1, y1), (x2, y2) in itertools.pairwise(ring):
            points = [(x1 + (x2 - x1) * t / steps, y1 + (y2 - y1) * t / steps) for t in range(steps + 1)]
            found += [kilometres(centre, at) for at in points]
            error = max(error, math.hypot(x2 - x1, y2 - y1) * 111.2 / steps)
        if len(ring) == 1:
            found.append(kilometres(centre, ring[0]))
    return min(found), max(found), error
