"""``geo:intersects()`` and the other functions of places, compared with shapely and with plain trigonometry."""

from __future__ import annotations

import math
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests import places_model as model
from tests.places_model import Pair
from tests.seeds import printed_seed
from twigcast import QueryError, SubscriptionSet, explain

pytestmark = pytest.mark.filterwarnings("ignore::twigcast.QueryWarning")

RELATIONS = ["intersects", "disjoint", "within", "contains"]
CAP = f"xmlns='{model.CAP}'"
NAMESPACES = {"cap": model.CAP, "g": model.RSS, "gml": model.GML, "k": model.KML}

# A multiple of the pairs in a soak run.
ROUNDS = int(os.environ.get("TWIGCAST_TEST_PLACES", "1"))


@pytest.fixture(scope="module")
def shapely() -> Any:
    return pytest.importorskip("shapely", reason="shapely is the oracle: requirements/dev.txt has it")


def polygon(text: str) -> str:
    return f"<m><polygon {CAP}>{text}</polygon></m>"


def matches(query: str, message: str) -> bool:
    alone = SubscriptionSet(namespaces=NAMESPACES)
    alone.add("it", query)
    return alone.match(message).keys == ["it"]


@pytest.mark.parametrize("turn", [0, 180, -177, 90])
def test_places_lie_as_shapely_says(shapely: Any, turn: int) -> None:
    r = random.Random(printed_seed() + turn)
    for _ in range(ROUNDS):
        regions = [model.place(r, shapely, is_region=True) for _ in range(20)]
        places = [model.place(r, shapely) for _ in range(40)]
        population = SubscriptionSet()
        for number, region in enumerate(regions):
            written = model.region(region.turned(turn))
            for relation in RELATIONS:
                population.add(f"{relation} {number}", f"/m[geo:{relation}(*, {written})]")
        shapes = [region.shape(shapely) for region in regions]
        for place in places:
            shape = place.shape(shapely)
            expected = {
                f"{relation} {number}"
                for number, region in enumerate(shapes)
                for relation in RELATIONS
                if getattr(shape, relation)(region)
            }
            message = model.written(place.turned(turn), r)
            found = set(population.match(message).keys)
            wrong = expected ^ found
            assert not wrong, (
                message,
                [(key, model.region(regions[int(key.split()[1])].turned(turn))) for key in wrong],
            )


def test_a_query_alone_says_what_it_says_among_many(shapely: Any) -> None:
    r = random.Random(printed_seed())
    for _ in range(15 * ROUNDS):
        region, place = model.place(r, shapely, is_region=True), model.place(r, shapely)
        written, message = model.region(region.turned(171)), model.written(place.turned(171), r)
        relation = r.choice(RELATIONS)
        expected = getattr(place.shape(shapely), relation)(region.shape(shapely))
        forms = [
            f"geo:{relation}(/m/*, {written})",
            f"boolean(/m/*[geo:{relation}(., {written})])",
            f"for $p in /m/* where geo:{relation}($p, {written}) return $p",
            f"/m[not(not(geo:{relation}(*, {written})))]",
        ]
        for query in forms:
            assert matches(query, message) == expected, (query, message)
            assert explain(query, message).matches == expected, (query, message)


def _star(r: random.Random, middle: Pair, size: float) -> list[Pair]:
    """A ring around a point, with corners that lie anywhere."""
    corners = r.randrange(3, 30)
    angles = [2 * math.pi * corner / corners for corner in range(corners)]
    reach = [size * r.uniform(0.4, 1.3) for _ in angles]
    ring = [(middle[0] + d * math.cos(a), middle[1] + d * math.sin(a)) for a, d in zip(angles, reach, strict=True)]
    return [*ring, ring[0]]


def _beside(r: random.Random, at: Pair) -> Pair:
    return at[0] + r.uniform(-1, 1), at[1] + r.uniform(-1, 1)


def test_many_regions_near_each_other_are_found_as_shapely_says(shapely: Any) -> None:
    # So many that cells are laid over each place. Some regions leave again.
    r = random.Random(printed_seed())
    for _ in range(ROUNDS):
        near = r.choice([(8.0, 47.0), (-120.0, -35.0), (0.0, 0.0), (170.0, 75.0)])
        rings = [_star(r, _beside(r, near), r.choice([0.02, 0.2, 0.5])) for _ in range(300)]
        population = SubscriptionSet()
        for number, ring in enumerate(rings):
            population.add(str(number), f"/m/polygon[geo:intersects(., geo:polygon('{model.lat_lon(ring)}'))]")
        gone = set(r.sample(range(300), 100))
        for number in gone:
            population.remove(str(number))
        shapes = [shapely.Polygon(ring) for ring in rings]
        for _ in range(40):
            places = [_star(r, _beside(r, near), r.choice([0.01, 0.3, 1.0])) for _ in range(r.choice([1, 1, 2]))]
            polygons = "".join(f"<polygon>{model.lat_lon(ring)}</polygon>" for ring in places)
            areas = [shapely.Polygon(ring) for ring in places]
            expected = {
                str(number)
                for number, shape in enumerate(shapes)
                if number not in gone and any(shape.intersects(area) for area in areas)
            }
            assert set(population.match(f"<m>{polygons}</m>").keys) == expected


def _circle(r: random.Random) -> tuple[Pair, float]:
    centre = r.uniform(-180, 180), r.choice([r.uniform(-90, 90), r.uniform(80, 90), r.uniform(-60, 60)])
    return centre, round(10 ** r.uniform(-1, 3.6), 3)


def _near(r: random.Random, centre: Pair, radius: float) -> Pair:
    angle, part = r.uniform(0, 2 * math.pi), radius / 111.2 * r.choice([0.3, 0.9, 1.0, 1.1, 2.5])
    y = max(-90.0, min(90.0, centre[1] + part * math.sin(angle)))
    x = centre[0] + part * math.cos(angle) / max(0.01, math.cos(math.radians(y)))
    return (x + 180) % 360 - 180, y


def test_circles_are_those_of_the_sphere() -> None:
    r = random.Random(printed_seed())
    for _ in range(6 * ROUNDS):
        circles = [_circle(r) for _ in range(25)]
        population = SubscriptionSet(namespaces=NAMESPACES)
        for number, ((lon, lat), radius) in enumerate(circles):
            region, point = f"geo:circle({lat!r}, {lon!r}, {radius})", f"geo:point({lat!r}, {lon!r})"
            population.add(f"circle {number}", f"//cap:circle[geo:intersects(., {region})]")
            population.add(f"within {number}", f"//cap:circle[geo:within(., {region})]")
            population.add(f"contains {number}", f"//cap:circle[geo:contains(., {region})]")
            population.add(f"near {number}", f"//cap:circle[geo:distance(., {point}) < {radius}]")
            population.add(f"far {number}", f"//cap:circle[geo:distance(., {point}) > {radius}]")
        for _ in range(20):
            centre, radius = r.choice(circles)
            (lon, lat) = _near(r, centre, radius)
            own = r.choice([0, 0, round(radius * r.uniform(0, 2.5), 3)])
            found = set(population.match(f"<m><circle {CAP}>{lat!r},{lon!r} {own}</circle></m>").keys)
            for number, (centre, radius) in enumerate(circles):
                distance = model.kilometres(centre, (lon, lat))
                margins = {
                    "circle": radius + own - distance,
                    "within": radius - own - distance,
                    "contains": own - radius - distance if own else -1,
                    "near": radius - (distance - own),
                    "far": max(0, distance - own) - radius,
                }
                for what, margin in margins.items():
                    if abs(margin) > 1e-6:
                        assert (f"{what} {number}" in found) == (margin > 0), (what, centre, radius, lon, lat, own)


def test_circles_and_areas_lie_as_points_of_the_edges_say(shapely: Any) -> None:
    r = random.Random(printed_seed())
    for _ in range(2 * ROUNDS):
        circles = []
        population = SubscriptionSet()
        shift = r.choice([0.0, 177.0])
        for number in range(10):
            at, radius = (r.uniform(-12, 12), r.uniform(-12, 12)), r.choice([1.0, 50.0, 300.0, 900.0, 2500.0])
            circles.append((at, radius))
            region = f"geo:circle({at[1]!r}, {(at[0] + shift + 180) % 360 - 180!r}, {radius})"
            for relation in ["intersects", "within", "contains"]:
                population.add(f"{relation} {number}", f"/m[geo:{relation}(*, {region})]")
        for _ in range(4):
            place = model.place(r, shapely)
            shape = place.shape(shapely)
            found = set(population.match(model.written(place.turned(shift), r)).keys)
            is_area = place.kind in ("box", "polygon")
            for number, (at, radius) in enumerate(circles):
                least, greatest, error = model.to_edges(at, place.rings)
                is_inside = is_area and shape.contains(shapely.Point(at))
                expected = {
                    "intersects": (is_inside or least < radius, abs(least - radius)),
                    "within": (greatest < radius, abs(greatest - radius)),
                    "contains": (is_inside and least > radius, abs(least - radius)),
                }
                for relation, (holds, margin) in expected.items():
                    if margin > error:
                        assert (f"{relation} {number}" in found) == holds, (relation, at, radius, place, shift)


def test_rings_around_the_poles() -> None:
    r = random.Random(printed_seed())
    for _ in range(6 * ROUNDS):
        sign = r.choice([1, -1])
        longitudes = sorted(r.sample(range(-180, 180), r.randrange(4, 12)))
        gaps = [b - a for a, b in zip(longitudes, [*longitudes[1:], longitudes[0] + 360], strict=True)]
        if max(gaps) >= 180:
            continue
        ring = [(x, sign * r.randrange(40, 85)) for x in longitudes]
        start = r.randrange(len(ring))
        turned = ring[start:] + ring[:start]
        text = model.lat_lon([*turned, turned[0]] if r.random() < 0.5 else [*turned, turned[0]][::-1])
        message = polygon(text)
        for _ in range(12):
            lon, lat = float(r.randrange(-180, 181)), sign * r.uniform(35, 90)
            before = max((at for at in ring if at[0] <= lon), default=(ring[-1][0] - 360, ring[-1][1]))
            after = min((at for at in ring if at[0] > lon), default=(ring[0][0] + 360, ring[0][1]))
            edge = before[1] + (lon - before[0]) / (after[0] - before[0]) * (after[1] - before[1])
            expected = abs(lat) > abs(edge)
            assert matches(f"/m[geo:contains(*, geo:point({lat!r}, {lon!r}))]", message) == expected, (text, lat, lon)
            assert matches(f"/m[geo:intersects(*, geo:circle({lat!r}, {lon!r}, 0.001))]", message) == expected
        assert matches(f"/m[geo:contains(*, geo:point({sign * 90}, 12))]", message)
        assert not matches(f"/m[geo:intersects(*, geo:point({-sign * 90}, 12))]", message)


FORMATS = {
    "cap:polygon": polygon("47,8 47,9 48,9 48,8 47,8"),
    "cap:circle": f"<m><circle {CAP}>47.5,8.5 20</circle></m>",
    "georss": f"<m xmlns:g='{model.RSS}'><g:point>47.5 8.5</g:point></m>",
    "georss circle in metres": f"<m xmlns:g='{model.RSS}'><g:circle>47.5 8.9 40000</g:circle></m>",
    "georss where": f"<m xmlns:g='{model.RSS}' xmlns:gml='{model.GML}'><g:where><gml:Point>"
    "<gml:pos>47.5 8.5</gml:pos></gml:Point></g:where></m>",
    "gml 2": f"<m xmlns='{model.GML}'><Polygon srsName='EPSG:4326'><outerBoundaryIs><LinearRing><coordinates>"
    "8,47 9,47 9,48 8,48 8,47</coordinates></LinearRing></outerBoundaryIs></Polygon></m>",
    "gml coord": f"<m xmlns='{model.GML}'><Point srsName='CRS84'><coord><X>8.5</X><Y>47.5</Y></coord></Point></m>",
    "gml multi": f"<m xmlns='{model.GML}'><MultiPoint srsName='urn:ogc:def:crs:OGC::CRS84'><pointMember><Point>"
    "<pos>1 1</pos></Point></pointMember><pointMember><Point><pos>8.5 47.5</pos></Point></pointMember></MultiPoint>"
    "</m>",
    "kml": f"<kml xmlns='{model.KML}'><Placemark><MultiGeometry><Point><coordinates>8.5,47.5,0</coordinates></Point>"
    "</MultiGeometry></Placemark></kml>",
    "basic": "<m xmlns:w='http://www.w3.org/2003/01/geo/wgs84_pos#'><w:Point><w:lat>47.5</w:lat><w:long>8.5</w:long>"
    "</w:Point></m>",
    "plain": "<m><where>47.5 8.5</where></m>",
    "plain circle": "<m><where>47.5,8.5 10</where></m>",
    "attribute": "<m at='47.5,8.5'/>",
    "attributes": "<m lat='47.5' lon='8.5'/>",
}


@pytest.mark.parametrize("name", FORMATS)
def test_all_formats_are_read(name: str) -> None:
    places = {
        "attribute": "//@at",
        "attributes": "concat(/m/@lat, ' ', /m/@lon)",
        "plain": "//where",
        "plain circle": "//where",
    }
    place = places.get(name, "/*")
    assert matches(f"geo:intersects({place}, geo:circle(47.5, 8.5, 5))", FORMATS[name])
    assert not matches(f"geo:intersects({place}, geo:circle(44.5, 8.5, 5))", FORMATS[name])
    assert matches(f"geo:distance({place}, geo:point(47.5, 8.4)) < 8", FORMATS[name])


NO_PLACES = [
    *[
        "47",
        "91,8 47,9 48,9 91,8",
        "47,8 47,9 48",
        "a,b c,d e,f a,b",
        "",
        "  ",
        "47;8",
        "NaN,8 47,9 48,9 NaN,8",
        "1e999,1",
    ],
    *["47,8 47,541 48,9 47,8", "<b/>"],
]


@pytest.mark.parametrize("text", NO_PLACES)
def test_what_is_no_place_is_no_match_and_no_error(text: str) -> None:
    for relation in RELATIONS:
        answer = SubscriptionSet([("a", f"//*[geo:{relation}(., geo:circle(47, 8, 20000))]")]).match(polygon(text))
        assert answer.keys == []
        assert not answer.undecided
    assert matches("string(geo:distance(//*[not(*)], geo:point(1, 2))) = 'NaN'", polygon(text))


def test_other_systems_of_coordinates_have_no_places() -> None:
    for system in ["EPSG:2056", "urn:ogc:def:crs:EPSG::3857", "nonsense", ""]:
        message = f"<m xmlns='{model.GML}'><Point srsName='{system}'><pos>47 8</pos></Point></m>"
        assert not matches("geo:intersects(/*, geo:box(-90, -180, 90, 180))", message)


REFUSED = {
    "geo:intersects(., geo:circle(95, 8, 1))": "geo:circle(): the latitude 95 is not from -90 to 90",
    "geo:intersects(., geo:circle(8, 195, 1))": "the longitude 195 is not from -180 to 180",
    "geo:intersects(., geo:point(147, 8))": "the latitude comes first, then the longitude",
    "geo:intersects(., geo:circle(47, 8, -1))": "the radius -1",
    "geo:intersects(., geo:box(48, 8, 47, 9))": "write geo:box(south, west, north, east)",
    "geo:intersects(., geo:polygon('47,8 47,9 48,9 48,8'))": "it is not closed",
    "geo:intersects(., geo:polygon('47,8 48,9 47,9 48,8 47,8'))": "its edges cross each other near",
    "geo:intersects(., geo:polygon('47,8 47,9 x'))": "has something that is no number",
    "geo:intersects(., geo:polygon('0,0 0,9 9,9 0,0', '20,20 20,21 21,21 20,20'))": "hole 1: 20,20 is outside",
    "geo:intersects(., //b)": "one argument of geo:intersects() is a region",
    "geo:intersects(geo:point(1, 2), geo:point(1, 2))": "compares two regions",
    "geo:intersects(12, geo:point(1, 2))": "takes nodes, or a text",
    "geo:distance(., geo:box(1, 2, 3, 4)) < 5": "geo:distance() is measured from geo:point() or geo:circle()",
    "geo:intersects(., geo:point(@lat, @lon))": "a region is written with literals or parameters",
    "geo:intersects(.)": "geo:intersects() has 1 argument here",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_is_wrong_is_said_when_a_subscription_is_added(query: str) -> None:
    with pytest.raises(QueryError) as refused:
        SubscriptionSet([("a", f"//m[{query}]")])
    assert REFUSED[query] in str(refused.value)


def test_regions_are_written_with_parameters() -> None:
    shops = SubscriptionSet()
    query = "//g[geo:intersects(., geo:circle($lat, $lon, $km))]"
    shops.add("here", query, params={"lat": 47.5, "lon": -8.5, "km": 20})
    shops.add("there", query, params={"lat": 40, "lon": -8.5, "km": 20})
    shops.add("area", "//g[geo:within(., geo:polygon($ring))]", params={"ring": "47,-9 47,-8 48,-8 48,-9 47,-9"})
    assert shops.match("<m><g>47.4 -8.4</g></m>").keys == ["here", "area"]


def test_both_orders_of_arguments_mean_the_same() -> None:
    message = polygon("0,0 0,9 9,9 9,0 0,0")
    assert matches("geo:contains(//*, geo:point(1, 1))", message)
    assert matches("geo:within(geo:point(1, 1), //*)", message)
    assert not matches("geo:within(//*, geo:point(1, 1))", message)
    assert matches("geo:contains(geo:box(-1, -1, 10, 10), //cap:polygon)", message)
    assert matches("geo:distance(geo:point(1, 10), //cap:polygon) < 120", message)


def test_populations_change() -> None:
    r = random.Random(printed_seed())
    population, live = SubscriptionSet(), {}
    for step in range(800):
        key = str(r.randrange(150))
        lat, lon, km = r.uniform(40, 50), r.uniform(5, 15), r.uniform(10, 200)
        query = f"//where[geo:intersects(., geo:circle({lat!r}, {lon!r}, {km!r}))]"
        if key not in live:
            population.add(key, query)
            live[key] = (lon, lat), km
        elif r.random() < 0.4:
            population.replace(key, query)
            live[key] = (lon, lat), km
        else:
            population.remove(key)
            del live[key]
        if step % 5 == 0:
            at = r.uniform(5, 15), r.uniform(40, 50)
            found = population.match(f"<m><where>{at[1]!r} {at[0]!r}</where></m>").keys
            assert sorted(found) == sorted(k for k, (centre, km) in live.items() if model.kilometres(centre, at) <= km)


def test_snapshots_batches_and_deliveries(tmp_path: Path) -> None:
    query = "//where[geo:intersects(., geo:polygon('47,8 47,9 48,9 48,8 47,8'))]"
    population = SubscriptionSet([("a", query), ("b", "//where[geo:distance(., geo:point(47, 8)) <= 10]")])
    population.add("result", f"for $w in {query} return <at>{{ $w/text() }}</at>")
    population.save(tmp_path / "set")
    inside, outside = "<m><where>47.5 8.5</where></m>", "<m><where>49 8.5</where></m>"
    for one in (population, SubscriptionSet.load(tmp_path / "set")):
        assert one.match(inside).keys == ["a", "result"]
        assert one.match_batch([inside, outside]).column("keys").to_pylist() == [["a", "result"], []]
        assert [delivery.key for delivery in one.deliver(inside)] == ["a", "result"]
        assert "geo:intersects" in str(one.describe("a"))


def test_the_dialect_xquery_has_places_too() -> None:
    population = SubscriptionSet(dialect="xquery")
    population.add("a", "for $w in //where where geo:distance($w, geo:point(47, 8)) < 10 return $w")
    assert population.match("<m><where>47.01 8.01</where></m>").keys == ["a"]
    with pytest.raises(QueryError, match="places are asked for by the engine"):
        population.add(
            "b",
            "for $w in //where let $f := function($x) { $x } where geo:intersects($f($w), geo:point(1, 2)) return $w",
        )


def test_an_explanation_says_how_far_away_a_region_is() -> None:
    message = polygon("47,8 47,9 48,9 48,8 47,8")
    far = explain("//cap:polygon[geo:intersects(., geo:circle(40, 8.5, 20))]", message, namespaces=NAMESPACES)
    assert not far.matches
    assert "758.4 km away" in str(far), str(far)
    outside = explain("//cap:polygon[geo:within(., geo:box(47.5, 8, 49, 9))]", message, namespaces=NAMESPACES)
    assert "only a part of it is within" in str(outside), str(outside)
    nothing = explain(
        "//cap:polygon[geo:within(., geo:box(47, 8, 49, 9))]", polygon("47,8 95,9 47,8"), namespaces=NAMESPACES
    )
    assert "no place can be read" in str(nothing), str(nothing)


@pytest.mark.slow
def test_hostile_places_stay_within_the_budget_of_a_message() -> None:
    population = SubscriptionSet()
    population.add_many(
        (str(n), f"//where[geo:intersects(., geo:circle({-60 + n % 97}, {-170 + n % 331}, {1 + n % 13}))]")
        for n in range(3_000)
    )
    population.add("cheap", "//where[@kind = 'x']")
    # Up and down over all latitudes: each line from west to east crosses all edges.
    edges = 50_000
    ring = [(-179 + 358 * n / edges, 80 if n % 2 else -80) for n in range(edges)]
    text = " ".join(f"{y},{x:.5f}" for x, y in [*ring, (179, 85), (-179, 85), ring[0]])
    answer = population.match(f"<m><where kind='x'>{text}</where></m>")
    assert "cheap" in answer.keys
    assert len(answer.keys) + len(answer.undecided) > 1


def test_many_threads_ask_at_once() -> None:
    population = SubscriptionSet()
    population.add_many(
        (str(n), f"//where[geo:intersects(., geo:circle({40 + n % 10}, {5 + n % 7}, {10 + n}))]") for n in range(300)
    )
    messages = [f"<m><where>{40 + n / 7} {5 + n / 9}</where></m>" for n in range(60)]
    expected = [population.match(message).keys for message in messages]
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(m for m, keys in zip(messages, expected, strict=True) if population.match(m).keys != keys)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
def test_real_alerts_lie_as_shapely_says(shapely: Any) -> None:
    folder = Path(os.environ.get("TWIGCAST_TEST_ALERTS", "no folder"))
    files = sorted(folder.rglob("*.xml")) if folder.is_dir() else []
    if not files:
        pytest.skip("TWIGCAST_TEST_ALERTS names no folder of CAP alerts")
    etree = pytest.importorskip("lxml.etree")
    compared = 0
    for file in files:
        try:
            tree = etree.fromstring(file.read_bytes())
        except etree.XMLSyntaxError:
            continue
        for element in tree.iter("{*}polygon"):
            numbers = [float(n) for n in (element.text or "").replace(",", " ").split()]
            ring = list(zip(numbers[1::2], numbers[::2], strict=True))
            if len(ring) < 4 or ring[0] != ring[-1] or not shapely.Polygon(ring).is_valid:
                continue
            shape = shapely.Polygon(ring)
            (west, south, east, north) = shape.bounds
            message = f"<m><polygon {CAP}>{element.text}</polygon></m>"
            population = SubscriptionSet()
            expected = set()
            for n in range(30):
                x, y = west + (east - west) * (n % 6) / 5, south + (north - south) * (n // 6) / 4
                w, h = (east - west) / 4, (north - south) / 4
                population.add(f"box {n}", f"//*[geo:intersects(., geo:box({y!r}, {x!r}, {y + h!r}, {x + w!r}))]")
                population.add(f"point {n}", f"//*[geo:contains(., geo:point({y!r}, {x!r}))]")
                if shape.intersects(shapely.box(x, y, x + w, y + h)):
                    expected.add(f"box {n}")
                if shape.contains(shapely.Point(x, y)):
                    expected.add(f"point {n}")
            assert set(population.match(message).keys) == expected, file
            compared += 60
    print(f"{compared} pairs of {len(files)} files")
    assert compared
