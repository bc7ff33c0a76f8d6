"""Regions of subscribers over CAP alerts: ``geo:intersects()`` beside a loop with shapely, in one run.

Regions lie where people live: around 300 towns of an area as large as the United States. Circles are of 2 to 40 km, and
polygons have 6 to 40 corners, as counties have. An alert has one to three polygons of 8 to 30 corners, some tens of
kilometres wide, and the texts that alerts have besides.

The loop parses with lxml, and finds the polygons that meet each alert's with shapely's own tree. To shapely, a circle
is a polygon of 64 corners in the plane, so its number of matches differs a little; for polygons alone the numbers are
compared.
"""

from __future__ import annotations

import importlib
import math
import random
import sys
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from benchmarks.measure import Row, once, parse_with_expat, resident_bytes, side_by_side
from twigcast import SubscriptionSet

REGIONS: Final = 100_000
MESSAGES: Final = 200
TOWNS: Final = 300
CAP: Final = "urn:oasis:names:tc:emergency:cap:1.2"
KM_OF_DEGREE: Final = 111.2

Ring = list[tuple[float, float]]
"""Latitudes and longitudes."""


class Country:
    """Alerts and regions of one country."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._towns = [(self.random.uniform(26, 48), self.random.uniform(-122, -70)) for _ in range(TOWNS)]

    def _near_town(self, km: float) -> tuple[float, float]:
        r = self.random
        latitude, longitude = r.choice(self._towns)
        return latitude + r.gauss(0, km / KM_OF_DEGREE), longitude + r.gauss(0, km / KM_OF_DEGREE)

    def ring(self, corners: int, km: float) -> Ring:
        """A closed ring of about this radius, without crossings."""
        r = self.random
        latitude, longitude = self._near_town(60)
        ring = []
        for corner in range(corners):
            reach = km / KM_OF_DEGREE * r.uniform(0.6, 1.3)
            angle = 2 * math.pi * corner / corners
            y = latitude + reach * math.sin(angle)
            x = longitude + reach * math.cos(angle) / math.cos(math.radians(latitude))
            ring.append((round(y, 4), round(x, 4)))
        return [*ring, ring[0]]

    def circle(self) -> tuple[float, float, float]:
        """A circle: latitude, longitude, kilometres."""
        latitude, longitude = self._near_town(40)
        return round(latitude, 4), round(longitude, 4), round(self.random.uniform(2, 40), 1)

    def alert(self) -> bytes:
        """An alert of about two kilobytes."""
        r = self.random
        rings = [self.ring(r.randrange(8, 30), r.uniform(8, 40)) for _ in range(r.choice([1, 1, 2, 3]))]
        words = [
            "warning",
            "of",
            "heavy",
            "rain",
            "until",
            "evening",
            "move",
            "to",
            "higher",
            "ground",
            "do",
            "not",
            "drive",
        ]
        text = " ".join(r.choice(words) for _ in range(150))
        areas = "".join(
            f"<area><areaDesc>County {n}</areaDesc><polygon>{_text(ring)}</polygon>"
            f"<geocode><valueName>SAME</valueName><value>0{n}6{n:03d}</value></geocode></area>"
            for n, ring in enumerate(rings)
        )
        return (
            f"<alert xmlns='{CAP}'><identifier>urn:x:{r.random()}</identifier><sender>w@example.org</sender>"
            "<sent>2026-11-30T06:20:00-00:00</sent><status>Actual</status><msgType>Alert</msgType><scope>Public</scope>"
            f"<info><category>Met</category><event>Flood</event><urgency>Immediate</urgency><severity>Severe</severity>"
            f"<certainty>Likely</certainty><headline>{text[:80]}</headline><description>{text}</description>{areas}"
            "</info></alert>"
        ).encode()


def _text(ring: Ring) -> str:
    return " ".join(f"{y},{x}" for y, x in ring)


def _shapely_loop(regions: list[Ring], messages: list[bytes]) -> tuple[Any, int]:
    """Work that finds the regions of each message with shapely, and how many it finds."""
    shapely, etree = importlib.import_module("shapely"), importlib.import_module("lxml.etree")
    tree = shapely.STRtree([shapely.Polygon([(x, y) for y, x in ring]) for ring in regions])

    def run() -> int:
        found = 0
        for message in messages:
            matches: set[int] = set()
            for polygon in etree.fromstring(message).iter(f"{{{CAP}}}polygon"):
                pairs = [pair.split(",") for pair in polygon.text.split()]
                area = shapely.Polygon([(float(x), float(y)) for y, x in pairs])
                matches.update(tree.query(area, predicate="intersects").tolist())
            found += len(matches)
        return found

    return run, run()


def _as_ring(latitude: float, longitude: float, km: float) -> Ring:
    angles = [2 * math.pi * corner / 64 for corner in range(64)]
    reach, narrow = km / KM_OF_DEGREE, math.cos(math.radians(latitude))
    ring = [(latitude + reach * math.sin(a), longitude + reach * math.cos(a) / narrow) for a in angles]
    return [*ring, ring[0]]


def rows(quick: bool) -> list[tuple[str, str, str]]:
    """Returns the kinds of regions, the numbers of these and the numbers of alerts that are measured, each apart."""
    counts = [REGIONS // 100] if quick else [REGIONS // 10, REGIONS]
    messages = 20 if quick else MESSAGES
    return [(kind, str(count), str(messages)) for kind in ("circles", "polygons", "both") for count in counts]


def _divided(matches: int, messages: list[bytes]) -> list[Callable[[], object]]:
    """Work on the same alerts with less to do: one region that is far away, or with as many matches without regions."""
    far = SubscriptionSet(namespaces={"cap": CAP})
    far.add("far", "//cap:polygon[geo:intersects(., geo:circle(-40, 60, 1))]")
    named = SubscriptionSet(namespaces={"cap": CAP})
    named.add_many((str(n), f"//cap:category[. = 'Met'][not(. = 'not {n}')]") for n in range(matches))
    feed = pa.array(messages, pa.large_binary())
    return [lambda: far.match_batch(feed), lambda: named.match_batch(feed)]


def measure(kind: str, number: str, alerts: str) -> Row:
    """Returns the row of one kind of regions."""
    count = int(number)
    country = Country(count)
    messages = [country.alert() for _ in range(int(alerts))]
    queries, rings = [], []
    for index in range(count):
        if kind == "circles" or (kind == "both" and index % 2):
            circle = country.circle()
            region = "geo:circle({}, {}, {})".format(*circle)
            rings.append(_as_ring(*circle))
        else:
            rings.append(country.ring(country.random.randrange(6, 40), country.random.uniform(10, 40)))
            region = f"geo:polygon('{_text(rings[-1])}')"
        queries.append((str(index), f"//cap:polygon[geo:intersects(., {region})]"))
    before = resident_bytes()
    subscriptions = SubscriptionSet(namespaces={"cap": CAP})
    added = once(lambda: subscriptions.add_many(queries))
    grown = resident_bytes() - before
    matched = sum(len(subscriptions.match(message)) for message in messages)
    feed = pa.array(messages, pa.large_binary())
    works: list[Callable[[], object]] = [
        lambda: parse_with_expat(messages),
        lambda: subscriptions.match_batch(feed),
        *_divided(round(matched / len(messages)), messages),
    ]
    found: int | None = None
    try:
        loop, found = _shapely_loop(rings, messages)
        works.append(loop)
    except ImportError:
        print("no shapely or lxml to compare with", file=sys.stderr)
    unit, *timings = (timing.median / len(messages) for timing in side_by_side(5, *works))
    us = timings[0]
    row: Row = {
        "regions": kind,
        "count": count,
        "bytes": sum(map(len, messages)) // len(messages),
        "matches": round(matched / len(messages), 1),
        "E_us": round(unit * 1e6, 1),
        "us": round(us * 1e6, 1),
        "E": round(us / unit, 2),
        "read_E": round(timings[1] / unit, 2),
        "reported_E": round(timings[2] / unit, 2),
        "queries_per_s": round(count / added),
        "bytes_per_query": round(grown / count),
    }
    if found is not None:
        assert kind != "polygons" or found == matched, f"shapely finds {found}, the engine {matched}"
        row |= {"shapely_matches": round(found / len(messages), 1), "shapely_us": round(timings[3] * 1e6, 1)}
        row["shapely_of_us"] = round(timings[3] / us, 1)
    return row
