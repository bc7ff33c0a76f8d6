//! Lines and areas, laid out in the plane of longitude and latitude.
//!
//! A ring that goes around a pole is laid out several times, one after the other, and closed beyond the pole; so is a band
//! around the Earth. Others keep the longitudes that they are written with, but for whole turns, so that no edge is longer than
//! half a turn. Whether a point is in an area is counted by the edges beside it, so that rings in rings are holes.

use std::fmt;
use std::ops::ControlFlow;

use robust::{Coord, orient2d};

use super::bounds::{Bounds, Coordinate, EdgeTree};
use super::sphere::{Centre, Position, angle_of};
use super::{Effort, TooMuch};

/// Steps that the distance to an edge counts as.
const EDGE_STEPS: u64 = 4;
/// How far a shape that goes around the Earth is laid out to the east and to the west.
const END: f64 = 900.0;
/// Where rings around a pole are closed, and holes in them.
const BEYOND_POLE: f64 = 100.0;
const HOLE_BEYOND_POLE: f64 = 95.0;

/// The position of a point, or of a part of another place, to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lies {
    /// Some of it is outside.
    Outside,
    /// All of it is in the place, but only on the boundary.
    OnBoundary,
    /// All of it is in the place, and not only on the boundary.
    Inside,
}

/// A defect of the positions of an area.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Flaw {
    /// Fewer than three different points.
    FewPoints,
    /// All points are on one line.
    NoArea,
    /// A ring is wider than the Earth, or winds around it more than once.
    TooWide,
    /// A hole goes around the Earth, and the ring around it does not.
    HoleTooWide,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FewPoints => "a ring has three different points at least, and the first one again as the last",
            Self::NoArea => "all points of the ring are on one line, so it has no area",
            Self::TooWide => "the ring is wider than the Earth",
            Self::HoleTooWide => "a hole goes around the Earth, and the ring around it does not",
        })
    }
}

/// A line, or an area with its holes.
#[derive(Clone, Debug)]
pub struct PlaneShape {
    /// The points of all lines or rings; between these stands one that is no number. Rings end with their first point.
    pub(super) points: Box<[Coordinate]>,
    /// The places in the list where these begin.
    pub(super) starts: Box<[u32]>,
    pub(super) is_area: bool,
    /// `true` if it goes around the Earth and is laid out several times.
    pub(super) is_periodic: bool,
    pub(super) bounds: Bounds,
    pub(super) tree: EdgeTree,
}

/// A ring that is being laid out.
struct Ring {
    points: Vec<Laid>,
    /// It ends so many degrees beside its beginning.
    turn: f64,
}

/// Returns on which side of an edge a point is: above 0 for the left, below it for the right, 0 on the line. It is exact.
#[inline]
pub(super) fn side(a: Coordinate, b: Coordinate, point: Coordinate) -> f64 {
    let coord = |at: Coordinate| Coord { x: at.x, y: at.y };
    orient2d(coord(a), coord(b), coord(point))
}

/// A point that was laid out: its longitude as it is written, and whole turns. The sum is made once, so that equal points stay
/// equal wherever they are laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Laid {
    longitude: f64,
    turns: f64,
    y: f64,
}

impl Laid {
    fn x(self) -> f64 {
        self.longitude + self.turns
    }

    fn moved(self, by: f64) -> Self {
        Self { turns: self.turns + by, ..self }
    }

    fn coordinate(self) -> Coordinate {
        Coordinate { x: self.x(), y: self.y }
    }
}

/// Lays points out, so that each is at most half a turn beside the one before. A whole turn stays as it is written.
fn laid_out(written: &[WrittenPosition]) -> Vec<Laid> {
    let mut turns = 0.0;
    let mut points: Vec<Laid> = Vec::with_capacity(written.len());
    let mut before: Option<f64> = None;
    for at in written {
        turns += before.map_or(0.0, |before| turns_between(before, at.longitude));
        before = Some(at.longitude);
        let point = Laid { longitude: at.longitude, turns, y: at.position.latitude() };
        if points.last() != Some(&point) {
            points.push(point);
        }
    }
    points
}

/// Returns the turns by which a longitude is moved so that it is next to another one.
fn turns_between(before: f64, longitude: f64) -> f64 {
    let by = longitude - before;
    if by.abs() > 180.0 && by.abs() != 360.0 { -360.0 * (by / 360.0).round() } else { 0.0 }
}

fn coordinates(points: &[Laid], by: f64) -> impl Iterator<Item = Coordinate> + '_ {
    points.iter().map(move |point| point.moved(by).coordinate())
}

fn width(points: &[Laid]) -> f64 {
    let bounds = bounds_of(coordinates(points, 0.0));
    bounds.east - bounds.west
}

fn bounds_of(points: impl Iterator<Item = Coordinate>) -> Bounds {
    points.filter(|point| !point.x.is_nan()).fold(Bounds::NONE, |mut bounds, point| {
        bounds.extend(Bounds::of(point, point));
        bounds
    })
}

/// A position as it is written: its longitude may be 180, and tells at a pole which way a ring goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WrittenPosition {
    /// The position.
    pub position: Position,
    /// The longitude, from -180 to 180.
    longitude: f64,
}

impl WrittenPosition {
    /// Returns a position as it is written; `None` if it is none.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        let position = Position::new(latitude, longitude)?;
        let is_plain = (-180.0..=180.0).contains(&longitude);
        Some(Self { position, longitude: if is_plain { longitude + 0.0 } else { position.longitude() } })
    }

    /// Returns the longitude, from -180 to 180.
    pub fn longitude(self) -> f64 {
        self.longitude
    }
}

impl Ring {
    fn of(written: &[WrittenPosition]) -> Result<Self, Flaw> {
        let mut points = laid_out(written);
        let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return Err(Flaw::FewPoints) };
        if written.first() != written.last() {
            // It is closed as the next edge would go.
            let turns = last.turns + turns_between(last.longitude, first.longitude);
            points.push(Laid { turns, ..first });
        }
        let turn = points.last().map_or(0.0, |last| last.turns - first.turns);
        if (turn != 0.0 || width(&points) == 360.0)
            && let Some(around) = without_pole(&points)
        {
            return Ok(around);
        }
        if turn.abs() > 360.0 || turn == 0.0 && width(&points) > 360.0 {
            return Err(Flaw::TooWide);
        }
        points.dedup();
        let mut different: Vec<Coordinate> = Vec::new();
        for point in coordinates(&points, 0.0) {
            if different.len() < 3 && !different.contains(&point) {
                different.push(point);
            }
        }
        if different.len() < 3 {
            return Err(Flaw::FewPoints);
        }
        if turn == 0.0 && coordinates(&points, 0.0).all(|point| side(different[0], different[1], point) == 0.0) {
            return Err(Flaw::NoArea);
        }
        Ok(Self { points, turn })
    }

    /// Returns the sine of the mean latitude, by which a ring around the Earth tells its pole.
    fn mean_sine(&self) -> f64 {
        let sine = |point: Laid| point.y.to_radians().sin();
        let parts = self.points.windows(2);
        parts.map(|pair| 0.5 * (sine(pair[0]) + sine(pair[1])) * (pair[1].x() - pair[0].x())).sum::<f64>() / self.turn
    }

    /// Lays a ring around a pole out so many times to each side, and closes it beyond that pole.
    fn around(mut self, pole: f64, times: i32) -> Vec<Coordinate> {
        if self.turn < 0.0 {
            self.points.reverse();
        }
        let (Some(&first), Some((&last, once))) = (self.points.first(), self.points.split_last()) else {
            return Vec::new();
        };
        let mut points = Vec::with_capacity(once.len() * (2 * times as usize + 1) + 4);
        for turn in -times..=times {
            points.extend(coordinates(once, 360.0 * f64::from(turn)));
        }
        let start = first.moved(-360.0 * f64::from(times)).coordinate();
        let end = last.moved(360.0 * f64::from(times)).coordinate();
        points.extend([end, Coordinate { x: end.x, y: pole }, Coordinate { x: start.x, y: pole }, start]);
        points
    }
}

/// Returns the ring around a pole that a ring is which is closed along the parallel of the pole, as maps draw it.
fn without_pole(points: &[Laid]) -> Option<Ring> {
    let is_pole = |point: &Laid| point.y.abs() == 90.0;
    let ring = &points[..points.len() - 1];
    let at_pole = ring.iter().filter(|point| is_pole(point)).count();
    if at_pole == 0 || at_pole + 2 > ring.len() {
        return None;
    }
    // It begins where it leaves the pole. What comes after its end goes on from there.
    let turn = points[ring.len()].turns - points[0].turns;
    let start = (0..ring.len()).find(|&index| is_pole(&ring[index]) && !is_pole(&ring[(index + 1) % ring.len()]))?;
    let at = |by: usize| match start + by {
        index if index < ring.len() => ring[index],
        index => ring[index - ring.len()].moved(turn),
    };
    let rotated: Vec<_> = (1..=ring.len()).map(at).collect();
    let (rest, poles) = rotated.split_at(ring.len() - at_pole);
    let (first, last) = (rest.first()?, rest.last()?);
    let around = last.x() - first.x();
    if around.abs() != 360.0 || last.y != first.y || !poles.iter().all(is_pole) || rest.iter().any(is_pole) {
        return None;
    }
    Some(Ring { points: rest.to_vec(), turn: around })
}

impl PlaneShape {
    fn of(points: Vec<Coordinate>, is_area: bool, is_periodic: bool) -> Self {
        let bounds = bounds_of(points.iter().copied());
        let tree = EdgeTree::of(&points);
        let after = points.iter().enumerate().filter(|(_, point)| point.x.is_nan()).map(|(index, _)| index as u32 + 1);
        let starts = std::iter::once(0).chain(after).collect();
        Self { points: points.into(), starts, is_area, is_periodic, bounds, tree }
    }

    /// Returns an area: a ring, and the rings of its holes. Rings that are not closed are.
    pub fn area(rings: &[Vec<WrittenPosition>]) -> Result<Self, Flaw> {
        let (outer, holes) = rings.split_first().ok_or(Flaw::FewPoints)?;
        let outer = Ring::of(outer)?;
        if outer.turn == 0.0
            && let Some(band) = band_of(&outer.points)
        {
            return Ok(if holes.is_empty() { band } else { band.with_holes(holes, None)? });
        }
        if outer.turn == 0.0 {
            return Self::of(coordinates(&outer.points, turns_home(&outer.points)).collect(), true, false)
                .with_holes(holes, None);
        }
        let pole = if outer.mean_sine() >= 0.0 { 1.0 } else { -1.0 };
        Self::of(outer.around(pole * BEYOND_POLE, 2), true, true).with_holes(holes, Some(pole))
    }

    fn with_holes(self, holes: &[Vec<WrittenPosition>], pole: Option<f64>) -> Result<Self, Flaw> {
        if holes.is_empty() {
            return Ok(self);
        }
        let no_number = Coordinate { x: f64::NAN, y: f64::NAN };
        let mut points = self.points.into_vec();
        for hole in holes {
            let ring = match Ring::of(hole) {
                Ok(ring) => ring,
                // A hole without an area takes nothing out.
                Err(Flaw::FewPoints | Flaw::NoArea) => continue,
                Err(flaw) => return Err(flaw),
            };
            if ring.turn != 0.0 {
                let pole = pole.ok_or(Flaw::HoleTooWide)?;
                points.push(no_number);
                points.extend(ring.around(pole * HOLE_BEYOND_POLE, 1));
                continue;
            }
            let centre = middle(&ring.points);
            let wanted = 0.5 * (self.bounds.west + self.bounds.east);
            let nearest = 360.0 * ((wanted - centre) / 360.0).round();
            let turns = if self.is_periodic { -2..=2 } else { 0..=0 };
            for turn in turns {
                let by = nearest + 360.0 * f64::from(turn);
                points.push(no_number);
                points.extend(coordinates(&ring.points, by));
            }
        }
        Ok(Self::of(points, true, self.is_periodic))
    }

    /// Returns a line through some points; `None` if they are all the same.
    pub fn line(written: &[WrittenPosition]) -> Option<Self> {
        let points = laid_out(written);
        if points.len() < 2 || width(&points) > 360.0 {
            return None;
        }
        Some(Self::of(coordinates(&points, turns_home(&points)).collect(), false, false))
    }

    /// Returns the area between two latitudes and two longitudes, to the east of the first one; `None` if it has none.
    pub fn between(south: f64, west: f64, north: f64, east: f64) -> Option<Self> {
        let east = if east < west { east + 360.0 } else { east };
        if east - west >= 360.0 {
            return Some(Self::band(south, north));
        }
        if south >= north || east == west {
            return None;
        }
        let by = if 0.5 * (west + east) >= 180.0 { -360.0 } else { 0.0 };
        let (west, east) = (west + by, east + by);
        let corners = [(west, south), (east, south), (east, north), (west, north), (west, south)];
        Some(Self::of(corners.map(|(x, y)| Coordinate { x, y }).to_vec(), true, false))
    }

    /// Returns the area between two latitudes.
    fn band(south: f64, north: f64) -> Self {
        let south = if south <= -90.0 { -BEYOND_POLE } else { south };
        let north = if north >= 90.0 { BEYOND_POLE } else { north };
        let corners = [(-END, south), (END, south), (END, north), (-END, north), (-END, south)];
        Self::of(corners.map(|(x, y)| Coordinate { x, y }).to_vec(), true, true)
    }

    /// Returns where a position lies.
    pub fn locate(&self, position: Position, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
        if position.is_pole() && !self.is_periodic {
            let touched = if position.latitude() > 0.0 { self.bounds.north } else { self.bounds.south };
            return Ok(if touched == position.latitude() { Lies::OnBoundary } else { Lies::Outside });
        }
        for by in [0.0, 360.0, -360.0] {
            let at = Coordinate { x: position.longitude() + by, y: position.latitude() };
            let is_there = at.x >= self.bounds.west && at.x <= self.bounds.east;
            if !is_there || self.is_periodic && by != 0.0 {
                continue;
            }
            let lies = self.locate_point(at, effort)?;
            if lies != Lies::Outside {
                return Ok(lies);
            }
        }
        Ok(Lies::Outside)
    }

    /// Returns how a position lies in it, of whose lines only the ends are boundary.
    pub fn locate_in(&self, position: Position, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
        let lies = self.locate(position, effort)?;
        if self.is_area || lies == Lies::Outside {
            return Ok(lies);
        }
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        let is_at = |end: Coordinate| Position::new(end.y, end.x) == Some(position);
        let is_end = first != last && (is_at(first) || is_at(last));
        Ok(if is_end { Lies::OnBoundary } else { Lies::Inside })
    }

    /// Returns where a point of the plane lies. Of a line all is boundary.
    pub(super) fn locate_point(&self, at: Coordinate, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
        if at.y < self.bounds.south || at.y > self.bounds.north {
            return Ok(Lies::Outside);
        }
        let mut is_inside = false;
        let is_area = self.is_area;
        let is_beside = |bounds: &Bounds| {
            bounds.south <= at.y && at.y <= bounds.north && bounds.east >= at.x && (is_area || bounds.west <= at.x)
        };
        let flow = self.tree.visit(&self.points, effort, &is_beside, &mut |_, a, b| {
            let (low, high) = if a.y <= b.y { (a, b) } else { (b, a) };
            if low.y == high.y {
                return if at.x >= a.x.min(b.x) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            let side = side(low, high, at);
            if side == 0.0 {
                return ControlFlow::Break(());
            }
            // Each edge has its lower end, and not its upper one.
            is_inside ^= at.y < high.y && side > 0.0;
            ControlFlow::Continue(())
        })?;
        Ok(match flow {
            ControlFlow::Break(()) => Lies::OnBoundary,
            ControlFlow::Continue(()) if is_inside && is_area => Lies::Inside,
            ControlFlow::Continue(()) => Lies::Outside,
        })
    }

    /// Returns whether an edge is there on the Earth, rather than closing what goes around it.
    pub(super) fn is_real(&self, a: Coordinate, b: Coordinate) -> bool {
        !self.is_periodic
            || a.y.abs() <= 90.0 && b.y.abs() <= 90.0 && !(a.x.abs() >= END && b.x.abs() >= END && a.x == b.x)
    }

    /// Returns the angle from a position to the nearest point; something above `limit` if that is farther.
    pub fn angle_from(&self, position: Position, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        if self.is_area && self.locate(position, effort)? != Lies::Outside {
            return Ok(0.0);
        }
        self.angle_to_edges(position, limit, effort)
    }

    /// Returns the angle to the nearest corner of another shape; something above `limit` if that is farther.
    pub fn angle_to_corners(&self, other: &Self, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        let mut least = limit.next_up();
        for at in other.points.iter().filter(|at| at.y.abs() <= 90.0) {
            if let Some(position) = Position::new(at.y, at.x) {
                least = least.min(self.angle_from(position, least, effort)?);
            }
        }
        Ok(least)
    }

    /// Returns the angle from a position to the nearest point of an edge; something above `limit` if that is farther.
    pub fn angle_to_edges(&self, position: Position, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        let centre = Centre::of(position);
        let beyond = limit.next_up() + 1e-15;
        let best = std::cell::Cell::new((beyond, super::sphere::half_chord_of(beyond)));
        let is_sought = |bounds: &Bounds| self.is_on_earth(bounds) && centre.least_angle_to(bounds) <= best.get().0;
        let flow = self.tree.visit(&self.points, effort, &is_sought, &mut |_, a, b| {
            if self.is_real(a, b) {
                if let Err(error) = effort.charge(EDGE_STEPS) {
                    return ControlFlow::Break(error);
                }
                let least = centre.least(a, b, best.get().1);
                if least < best.get().1 {
                    best.set((angle_of(least), least));
                }
            }
            ControlFlow::Continue(())
        })?;
        match flow {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(best.get().0),
        }
    }

    /// Returns whether an edge is within an angle of a position.
    pub fn has_edge_within(&self, position: Position, angle: f64, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        let centre = Centre::of(position);
        let limit = super::sphere::half_chord_of(angle);
        let is_sought = |bounds: &Bounds| self.is_on_earth(bounds) && centre.least_angle_to(bounds) <= angle;
        let is_within = |a, b| centre.half_chord(a) <= limit || centre.least(a, b, limit.next_up()) <= limit;
        self.has_edge(&is_sought, &is_within, effort)
    }

    /// Returns whether some edge that is there on the Earth is as asked, of those whose box `is_sought`.
    fn has_edge(
        &self,
        is_sought: &dyn Fn(&Bounds) -> bool,
        is_so: &dyn Fn(Coordinate, Coordinate) -> bool,
        effort: &Effort<'_>,
    ) -> Result<bool, TooMuch> {
        let flow = self.tree.visit(&self.points, effort, is_sought, &mut |_, a, b| {
            if !self.is_real(a, b) {
                return ControlFlow::Continue(());
            }
            match effort.charge(EDGE_STEPS) {
                Err(error) => ControlFlow::Break(Err(error)),
                Ok(()) if is_so(a, b) => ControlFlow::Break(Ok(true)),
                Ok(()) => ControlFlow::Continue(()),
            }
        })?;
        match flow {
            ControlFlow::Break(found) => found,
            ControlFlow::Continue(()) => Ok(false),
        }
    }

    /// Returns whether a box holds edges that matter: what is laid out several times counts once.
    pub(super) fn is_on_earth(&self, bounds: &Bounds) -> bool {
        !self.is_periodic || bounds.west <= 180.0 && bounds.east >= -180.0
    }

    /// Returns whether all edges are within an angle of a position.
    pub fn edges_are_within(&self, position: Position, angle: f64, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        let centre = Centre::of(position);
        let limit = super::sphere::half_chord_of(angle);
        let is_beyond = |a, b| centre.half_chord(a) > limit || centre.greatest(a, b, limit) > limit;
        Ok(!self.has_edge(&|bounds| self.is_on_earth(bounds), &is_beyond, effort)?)
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.points) + size_of_val(&*self.starts) + self.tree.bytes()
    }
}

/// Returns the longitude in the middle of some points.
fn middle(points: &[Laid]) -> f64 {
    let bounds = bounds_of(coordinates(points, 0.0));
    0.5 * (bounds.west + bounds.east)
}

/// Returns the turns that bring the middle of some points to between -180 and 180 degrees.
fn turns_home(points: &[Laid]) -> f64 {
    -360.0 * ((middle(points) + 180.0) / 360.0).floor()
}

/// Returns the band around the Earth that a ring is which is as wide as the Earth and has four corners.
fn band_of(points: &[Laid]) -> Option<PlaneShape> {
    let bounds = bounds_of(coordinates(points, 0.0));
    let is_corner = |point: Coordinate| {
        (point.x == bounds.west || point.x == bounds.east) && (point.y == bounds.south || point.y == bounds.north)
    };
    let is_band = bounds.east - bounds.west == 360.0 && points.len() == 5 && coordinates(points, 0.0).all(is_corner);
    is_band.then(|| PlaneShape::band(bounds.south, bounds.north))
}
