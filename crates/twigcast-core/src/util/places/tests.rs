//! Places against what is known of them.

use std::sync::Arc;

use super::outline::{FormView, GeometryOutline, RegionForm, RegionOutline};
use super::outline_boxes::OutlineBox;
use super::reading::written_area;
use super::region::Region;
use super::shape::{PlaneShape, WrittenPosition};
use super::sphere::{Centre, Position, RADIUS_KM, angle_of};
use super::{Effort, Geometry, GeometryPart, RegionQuestion, RegionRelation, reading};
use crate::testing::Random;

fn area(text: &str) -> Geometry {
    Geometry::of(vec![reading::area(text).expect("an area")])
}

fn point(latitude: f64, longitude: f64) -> GeometryPart {
    GeometryPart::Point(Position::new(latitude, longitude).expect("a position"))
}

fn has(geometry: &Geometry, latitude: f64, longitude: f64) -> bool {
    let at = point(latitude, longitude);
    let effort = Effort::free();
    let touches = geometry.intersects(&at, &effort).expect("free");
    // Points on boundaries aside, these are the same.
    assert!(touches || !geometry.contains(&at, &effort).expect("free"));
    touches
}

#[test]
fn distances_are_those_of_the_sphere() {
    let at = |latitude, longitude| Position::new(latitude, longitude).expect("a position");
    let kilometres = |one: Position, other: Position| one.angle_to(other) * RADIUS_KM;
    // Zurich to New York, and half the way around.
    assert!((kilometres(at(47.3769, 8.5417), at(40.7128, -74.006)) - 6_323.8).abs() < 1.0);
    assert!((kilometres(at(0.0, 0.0), at(0.0, 180.0)) - 20_015.114).abs() < 0.001);
    assert!((kilometres(at(90.0, 12.0), at(-90.0, 70.0)) - 20_015.114).abs() < 0.001);
    assert!(kilometres(at(10.0, 180.0), at(10.0, -180.0)) == 0.0);
    assert!((kilometres(at(0.0, 179.999), at(0.0, -179.999)) - 0.2224).abs() < 0.001);
    assert!(at(90.0, 40.0) == at(90.0, -7.0));
}

#[test]
fn the_nearest_point_of_an_edge_is_found() {
    let mut random = Random(7);
    for _ in 0..400 {
        let mut within = |bound: f64| (random.bits() as f64 / u64::MAX as f64 * 2.0 - 1.0) * bound;
        let centre = Position::new(within(90.0), within(180.0)).expect("a position");
        let size = [0.001, 1.0, 30.0, 179.0][(within(2.0) + 2.0) as usize % 4];
        let a = Position::new(within(85.0), within(180.0)).expect("a position").coordinate();
        let b = super::bounds::Coordinate { x: a.x + within(size), y: (a.y + within(size)).clamp(-90.0, 90.0) };
        let found = angle_of(Centre::of(centre).least(a, b, 2.0));
        let farthest = angle_of(Centre::of(centre).greatest(a, b, -2.0));
        let along = (0..=1_000).map(|step| {
            let t = f64::from(step) / 1_000.0;
            let point = super::bounds::Coordinate { x: a.x + t * (b.x - a.x), y: a.y + t * (b.y - a.y) };
            angle_of(Centre::of(centre).half_chord(point))
        });
        let (least, greatest) = along.fold((9.0_f64, 0.0_f64), |(low, high), angle| (low.min(angle), high.max(angle)));
        let step = (b.x - a.x).hypot(b.y - a.y).to_radians() / 1_000.0;
        assert!(found <= least + 1e-12 && found >= least - step, "{centre:?} {a:?} {b:?}: {found} beside {least}");
        assert!(farthest >= greatest - 1e-7 && farthest <= greatest + step, "{farthest} beside {greatest}");
    }
}

#[test]
fn rings_cross_the_antimeridian() {
    let fiji = area("-20,177 -20,-178 -15,-178 -15,177 -20,177");
    assert!(has(&fiji, -17.0, 179.0) && has(&fiji, -17.0, -179.0) && has(&fiji, -17.0, 180.0));
    assert!(has(&fiji, -17.0, -180.0) && has(&fiji, -17.0, 177.0) && has(&fiji, -17.0, -178.0));
    assert!(!has(&fiji, -17.0, 176.9) && !has(&fiji, -17.0, -177.9) && !has(&fiji, -17.0, 0.0));
    let other = area("-18,-179 -18,-170 -16,-170 -16,-179 -18,-179");
    assert!(other.intersects(&fiji.parts()[0], &Effort::free()).expect("free"));
    let inner = area("-18,179 -18,-179 -16,-179 -16,179 -18,179");
    assert!(inner.is_within(&fiji.parts()[0], &Effort::free()).expect("free"));
    assert!(!fiji.is_within(&inner.parts()[0], &Effort::free()).expect("free"));
    assert!(fiji.contains(&inner.parts()[0], &Effort::free()).expect("free"));
}

#[test]
fn rings_go_around_poles() {
    for sign in [1.0, -1.0] {
        let ring = |latitude: f64| {
            let at = |longitude| format!("{},{longitude} ", sign * latitude);
            [0, 90, 180, -90, 0].map(at).concat()
        };
        let cap = area(&ring(60.0));
        assert!(has(&cap, sign * 90.0, 0.0) && has(&cap, sign * 70.0, 180.0) && has(&cap, sign * 60.5, -90.5));
        assert!(!has(&cap, sign * 59.0, 10.0) && !has(&cap, -sign * 90.0, 0.0) && !has(&cap, 0.0, 0.0));
        // The same, closed along the parallel of the pole as maps draw it.
        let drawn = format!("{0},-180 {0},0 {0},180 {1},180 {1},-180 {0},-180", sign * 60.0, sign * 90.0);
        let drawn = area(&drawn);
        let inner = area(&ring(70.0));
        for outer in [&cap, &drawn] {
            assert!(has(outer, sign * 65.0, 179.9) && has(outer, sign * 90.0, 3.0) && !has(outer, sign * 50.0, 180.0));
            assert!(inner.is_within(&outer.parts()[0], &Effort::free()).expect("free"));
            assert!(!outer.is_within(&inner.parts()[0], &Effort::free()).expect("free"));
            assert!(outer.intersects(&inner.parts()[0], &Effort::free()).expect("free"));
        }
        let rings = [ring(60.0), ring(80.0)].map(|ring| {
            let numbers = reading::numbers(&ring).expect("numbers");
            reading::positions(&numbers, reading::AxisOrder::LatitudeFirst, 2).expect("positions")
        });
        let band = Geometry::of(vec![written_area(&rings).expect("an area")]);
        assert!(has(&band, sign * 70.0, -170.0) && !has(&band, sign * 90.0, 0.0) && !has(&band, sign * 85.0, 3.0));
        let circle = Region::circle(sign * 89.0, 0.0, 500.0).expect("a circle");
        assert!(cap.contains(circle.part(), &Effort::free()).expect("free"));
        assert!(!band.intersects(circle.part(), &Effort::free()).expect("free"));
    }
}

#[test]
fn bands_and_all_of_the_earth_have_no_seam() {
    let all = Region::between(-90.0, -180.0, 90.0, 180.0).expect("a box");
    let tropics = area("-23,-180 -23,180 23,180 23,-180 -23,-180");
    let fiji = area("-20,177 -20,-178 -15,-178 -15,177 -20,177");
    for geometry in [&tropics, &fiji, &Geometry::of(vec![point(90.0, 0.0)])] {
        assert!(geometry.is_within(all.part(), &Effort::free()).expect("free"));
    }
    assert!(fiji.is_within(&tropics.parts()[0], &Effort::free()).expect("free"));
    assert!(tropics.is_within(&tropics.parts()[0], &Effort::free()).expect("free"));
    assert!(!Geometry::of(vec![all.part().clone()]).is_within(&tropics.parts()[0], &Effort::free()).expect("free"));
}

#[test]
fn touching_is_not_overlapping() {
    let square = area("0,0 0,4 4,4 4,0 0,0");
    let question = |text: &str| {
        let other = reading::plain(text).expect("a place");
        let effort = Effort::free();
        let all = Geometry::of(vec![other.clone()]);
        (
            square.intersects(&other, &effort).expect("free"),
            square.contains(&other, &effort).expect("free"),
            all.contains(&square.parts()[0], &effort).expect("free"),
        )
    };
    assert_eq!(question("0,4 0,8 4,8 4,4 0,4"), (true, false, false), "a neighbour");
    assert_eq!(question("4,4 4,5 5,5 5,4 4,4"), (true, false, false), "a corner in common");
    assert_eq!(question("0,0 0,4 4,4 4,0 0,0"), (true, true, true), "itself");
    assert_eq!(question("0,0 0,2 2,2 2,0 0,0"), (true, true, false), "a part with edges in common");
    assert_eq!(question("0,0 4,4"), (true, true, false), "a diagonal");
    assert_eq!(question("0,0 0,4"), (true, false, false), "an edge");
    assert_eq!(question("0,0 0,3 5,3"), (true, false, false), "a line that leaves");
    assert_eq!(question("0,2"), (true, false, false), "a point of the boundary");
    assert_eq!(question("2,2"), (true, true, false), "a point");
    assert_eq!(question("5,5 6,6 7,5 5,5"), (false, false, false), "far away");
    assert_eq!(question("-1,-1 -1,9 9,9 9,-1 -1,-1"), (true, false, true), "all around");
    let hole = Region::polygon(&["0,0 0,9 9,9 9,0 0,0", "2,2 2,5 5,5 5,2 2,2"]).expect("a region");
    let in_hole = |text: &str| {
        let other = Geometry::of(vec![reading::plain(text).expect("a place")]);
        let effort = Effort::free();
        (other.intersects(hole.part(), &effort).expect("free"), other.is_within(hole.part(), &effort).expect("free"))
    };
    assert_eq!(in_hole("2,2 2,5 5,5 5,2 2,2"), (true, false), "the hole");
    assert_eq!(in_hole("3,3 3,4 4,4 4,3 3,3"), (false, false), "in the hole");
    assert_eq!(in_hole("1,1 1,8 8,8 8,1 1,1"), (true, false), "around the hole");
    assert_eq!(in_hole("0,0 0,9 9,9 9,0 0,0"), (true, false), "without the hole");
    assert_eq!(in_hole("6,6 6,8 8,8 8,6 6,6"), (true, true), "beside the hole");
    assert_eq!(in_hole("2,2 2,5 1,5 1,2 2,2"), (true, true), "with an edge of the hole");
}

#[test]
fn what_has_no_area_is_what_it_is_drawn_as() {
    let kinds = ["1,1 1,1 1,1 1,1", "1,1 2,2 3,3 1,1", "1,1 1,3 3,3 1,1", "1,1 1,2", "1,1"];
    let kind = |text: &str| match reading::area(text) {
        Some(GeometryPart::Point(_)) => "point",
        Some(GeometryPart::Shape(shape)) if shape.is_area => "area",
        Some(GeometryPart::Shape(_)) => "line",
        Some(GeometryPart::Circle(_)) => "circle",
        None => "nothing",
    };
    assert_eq!(kinds.map(kind), ["point", "line", "area", "line", "point"]);
    for text in ["", "1", "1 2 3", "91,0 0,0 1,1 91,0", "a,b c,d", "1,2;3,4", "nan,1 1,1", "1,inf"] {
        assert!(reading::area(text).is_none() && reading::plain(text).is_none(), "{text}");
    }
    assert!(matches!(reading::plain("47.4,8.5 20"), Some(GeometryPart::Circle(_))));
    assert!(matches!(reading::circle("47.4,8.5 0", false), Some(GeometryPart::Point(_))));
    assert!(reading::plain("47.4 8.5 20").is_none() && reading::circle("47.4,8.5 -1", false).is_none());
}

#[test]
fn regions_say_what_is_wrong_with_them() {
    let polygon = |rings: &[&str]| Region::polygon(rings).expect_err("something is wrong");
    assert!(Region::point(91.0, 8.0).expect_err("no").contains("latitude 91 is not from -90 to 90"));
    assert!(Region::point(120.0, 8.0).expect_err("no").contains("the latitude comes first"));
    assert!(Region::point(9.0, 181.0).expect_err("no").contains("longitude 181"));
    assert!(Region::circle(9.0, 8.0, 0.0).expect_err("no").contains("the radius 0"));
    assert!(Region::circle(9.0, 8.0, 30_000.0).expect_err("no").contains("at most 20015"));
    assert!(Region::between(9.0, 8.0, 8.0, 9.0).expect_err("no").contains("geo:box(south, west, north, east)"));
    assert!(polygon(&["1,1 1,2 2,2"]).contains("3 points"));
    assert!(polygon(&["1,1 1,2 2,2 2"]).contains("7 numbers"));
    assert!(polygon(&["1,1 1,2 2,2 2,1"]).contains("not closed"));
    assert!(polygon(&["1,1 1,2 2,x 1,1"]).contains("no number"));
    assert!(polygon(&["1,1 2,2 3,3 1,1"]).contains("on one line"));
    assert!(polygon(&["1,1 1,1 1,1 1,1"]).contains("three different points"));
    assert!(polygon(&["0,0 2,2 0,2 2,0 0,0"]).contains("cross each other near 1,1"));
    assert!(polygon(&["0,0 0,9 9,9 9,0 0,0", "1,1 1,20 2,20 1,1"]).contains("hole 1: 1,20 is outside"));
    assert_eq!(Region::circle(47.5, -8.0, 2e1).expect("a circle").text(), "geo:circle(47.5, -8, 20)");
}

/// The tree finds the edges that a look at each of them finds.
#[test]
fn trees_of_edges_leave_nothing_out() {
    let mut random = Random(3);
    for count in [3, 17, 18, 64, 65, 600] {
        let mut within = |bound: f64| (random.bits() as f64 / u64::MAX as f64 * 2.0 - 1.0) * bound;
        let line: Vec<_> = (0..count).filter_map(|_| WrittenPosition::new(within(5.0), within(5.0))).collect();
        let shape = PlaneShape::line(&line).expect("a line");
        for _ in 0..50 {
            let centre = Position::new(within(9.0), within(9.0)).expect("a position");
            let found = shape.angle_from(centre, 9.0, &Effort::free()).expect("free");
            let edges = shape.points.windows(2).map(|edge| Centre::of(centre).least(edge[0], edge[1], 1.0));
            assert!((found - angle_of(edges.fold(1.0, f64::min))).abs() < 1e-12);
        }
    }
}

/// A ring around a point, whose corners lie on a grid for some.
fn ring(random: &mut Random, near: (f64, f64), is_on_grid: bool) -> String {
    let part = |random: &mut Random| random.below(1_000_000) as f64 / 1e6;
    let (corners, size) = (3 + random.below(12), 0.05 + part(random));
    let (y, x) = (near.0 + part(random) * 2.0 - 1.0, near.1 + part(random) * 2.0 - 1.0);
    let mut at: Vec<String> = (0..corners)
        .map(|corner| {
            let angle = std::f64::consts::TAU * corner as f64 / corners as f64;
            let reach = size * (0.5 + part(random));
            let (y, x) = (y + reach * angle.sin(), x + reach * angle.cos());
            let rounded = |value: f64| if is_on_grid { (value * 8.0).round() / 8.0 } else { value };
            format!("{},{}", rounded(y), rounded(x))
        })
        .collect();
    at.push(at[0].clone());
    at.join(" ")
}

/// What an outline is sure of is what the exact shapes say, of areas that often touch, too; and it is sure of most.
#[test]
fn outlines_are_sure_of_what_is_true() {
    let (mut asked, mut sure) = (0, 0);
    for seed in 1..8_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let near = [(47.0, 8.0), (0.0, 0.0), (-79.0, 170.0), (60.0, -150.0)][random.below(4) as usize];
        let is_on_grid = random.below(2) == 0;
        let region = |random: &mut Random| {
            let (y, x) = (near.0 + random.below(32) as f64 / 16.0 - 1.0, near.1 + random.below(32) as f64 / 16.0 - 1.0);
            let text = ring(random, near, is_on_grid);
            match random.below(5) {
                0 => Region::circle(y, x, 0.5 + random.below(100) as f64).ok(),
                1 => Region::point(y, x).ok(),
                2 => Region::between(y, x, y + 0.5, x + 0.25).ok(),
                _ => Region::polygon(&[&text]).ok(),
            }
        };
        for _ in 0..700 {
            let (Some(one), Some(other)) = (region(&mut random), region(&mut random)) else { continue };
            let bits = (random.below(120) as f64).to_bits();
            let relation = match random.below(5) {
                0 => RegionRelation::Within,
                1 => RegionRelation::Contains,
                2 if other.part().circle_kilometres().is_some() => {
                    RegionRelation::Nearer { kilometres: bits, inclusive: random.below(2) == 0 }
                }
                _ => RegionRelation::Intersects,
            };
            let mut parts = vec![one.part().clone()];
            if let (0, Some(second)) = (random.below(4), region(&mut random)) {
                parts.push(second.part().clone());
            }
            let place = Geometry::of(parts);
            let question = RegionQuestion::new(relation, Arc::new(other));
            let outline = RegionOutline::of(&question);
            let form = match &outline.form {
                RegionForm::None => FormView::None,
                RegionForm::Disc(disc) => FormView::Disc(disc),
                RegionForm::Area(corners) => FormView::Area(corners),
            };
            let mut of_place = GeometryOutline::of(place.parts(), place.boxes()).expect("it is far from the poles");
            let outer = OutlineBox::of(&question.boxes()[0]);
            let found = of_place.holds(outline.needs, &outer, outline.inner, form);
            let expected = question.holds(&place, &Effort::free()).expect("free");
            assert!(found.is_none_or(|found| found == expected), "{place:?} {question:?}: {found:?}");
            // Cells are laid over a place once it has been asked for several regions. They say something of one box of a region.
            let by_cells = (0..20).filter_map(|_| of_place.meets_by_cells(&outer, outline.inner)).last();
            let is_whole = question.boxes().len() == 1;
            assert!(by_cells.is_none_or(|found| found == expected || !is_whole), "{place:?} {question:?}");
            if relation == RegionRelation::Intersects && !is_on_grid {
                asked += 1;
                sure += i32::from(found.is_some());
            }
        }
    }
    assert!(sure * 10 > asked * 9 && asked > 500, "{sure} of {asked}");
}
