//! Outlines: what decides most questions about regions at a glance, without the exact shapes.
//!
//! A region keeps a box that lies within it, and its corners with half the digits. What follows from these is sure whatever
//! the digits are that were left out; all else is left to the exact shapes. Outlines know nothing of poles and the antimeridian:
//! what comes near these has none.

use super::bounds::{Bounds, Coordinate};
use super::geometry::GeometryPart;
use super::outline_boxes::{INEXACT_DISTANCE, InnerBox, OutlineBox};
use super::outline_edges::{GeometryEdges, OutlineEdge, locate_in_ring, meeting};
use super::question::{RegionQuestion, RegionRelation};
use super::sphere::{Position, RADIUS_KM};

/// Outlines of circles have radii of so many degrees at the most, and end before such latitudes.
const RADIUS_MAX: f64 = 10.0;
const LATITUDE_MAX: f64 = 85.0;
/// The most corners of the outline of a region.
const CORNERS_MAX: usize = 256;

/// A circle as it looks in the plane, or a point. Squares of distances are in degrees, those of longitudes times `scale`.
#[derive(Clone, Copy, Debug)]
pub struct OutlineDisc {
    centre: Coordinate,
    radius: f64,
    cosine: f64,
    scale: f64,
    /// What is nearer is in the circle; what is farther is not.
    hit_below: f64,
    miss_above: f64,
}

/// The form of a region's outline.
#[derive(Clone, Debug)]
pub enum RegionForm {
    /// None: only the exact shape decides.
    None,
    /// A circle, or a point.
    Disc(OutlineDisc),
    /// The corners of an area; between its rings stands one that is no number.
    Area(Box<[[f32; 2]]>),
}

/// The outline of a region, as a question asks of it.
#[derive(Clone, Debug)]
pub struct RegionOutline {
    /// A box within the region.
    pub inner: InnerBox,
    /// Its form.
    pub form: RegionForm,
    /// The relation of boxes without which the question does not hold.
    pub needs: BoxNeed,
}

/// A relation of boxes without which a question does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxNeed {
    /// They meet.
    Meeting,
    /// The box of the place lies in that of the region.
    GeometryWithin,
    /// The box of the region lies in that of the place.
    RegionWithin,
}

/// The form of a region's outline, wherever its corners are kept.
#[derive(Clone, Copy, Debug)]
pub enum FormView<'r> {
    /// See [`RegionForm::None`].
    None,
    /// See [`RegionForm::Disc`].
    Disc(&'r OutlineDisc),
    /// See [`RegionForm::Area`].
    Area(&'r [[f32; 2]]),
}

/// The outline of a place of a message.
#[derive(Debug)]
pub struct GeometryOutline {
    parts: Vec<PartOutline>,
    bounds: OutlineBox,
    /// Steps that questions have taken since they were counted last.
    steps: u64,
    near: Vec<OutlineEdge>,
    clipped: Vec<OutlineEdge>,
}

#[derive(Debug)]
enum PartOutline {
    Disc(OutlineDisc),
    Edges(GeometryEdges),
}

/// Returns whether a box is away from the poles and the antimeridian.
fn is_plain(bounds: &Bounds) -> bool {
    bounds.west > -180.0 && bounds.east < 180.0 && bounds.south > -90.0 && bounds.north < 90.0
}

impl OutlineDisc {
    fn new(centre: Position, radius: f64) -> Option<Self> {
        let (at, degrees) = (centre.coordinate(), radius.to_degrees());
        if degrees > RADIUS_MAX || at.y.abs() + degrees > LATITUDE_MAX {
            return None;
        }
        let cosine = at.y.to_radians().cos();
        let (near, far) = ((at.y.abs() - degrees).max(0.0), at.y.abs() + degrees);
        let (most, least) = (near.to_radians().cos(), far.to_radians().cos());
        // No point of the circle is farther beside its centre.
        let width = (radius.sin() / cosine).min(1.0).asin() + 1e-9;
        if at.x.abs() + width.to_degrees() >= 180.0 {
            return None;
        }
        // The sine of half an angle is less than that half, and its square not by more than a twelfth of that of the angle.
        let hit = degrees * (1.0 - radius * radius / 12.0).sqrt() - INEXACT_DISTANCE;
        let flatness = least / most * (1.0 - width.max(radius).powi(2) / 12.0);
        let miss = degrees / flatness.sqrt() + INEXACT_DISTANCE;
        let hit_below = if hit > 0.0 { hit * hit } else { -1.0 };
        Some(Self { centre: at, radius, cosine, scale: cosine * most, hit_below, miss_above: miss * miss })
    }

    /// Returns the factor by which squares of longitudes count.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns the square of the distance to an edge.
    fn square_to(&self, edge: &OutlineEdge) -> f64 {
        let (ux, uy) = (edge.b.x - edge.a.x, edge.b.y - edge.a.y);
        let (wx, wy) = (self.centre.x - edge.a.x, self.centre.y - edge.a.y);
        let (dot, length) = (uy * wy + self.scale * ux * wx, uy * uy + self.scale * ux * ux);
        let part = if length > 0.0 { (dot / length).clamp(0.0, 1.0) } else { 0.0 };
        let (dx, dy) = (wx - part * ux, wy - part * uy);
        dy * dy + self.scale * dx * dx
    }

    /// Returns whether it meets some of these edges; `None` if that is not sure.
    fn meets_edges(&self, edges: impl Iterator<Item = OutlineEdge>) -> Option<bool> {
        let mut is_missed = true;
        for edge in edges {
            let square = self.square_to(&edge);
            if square < self.hit_below {
                return Some(true);
            }
            is_missed &= square > self.miss_above;
        }
        is_missed.then_some(false)
    }

    fn meets_disc(&self, other: &Self) -> Option<bool> {
        let (dx, dy) = (self.centre.x - other.centre.x, self.centre.y - other.centre.y);
        let square = dy * dy + self.cosine * other.cosine * dx * dx;
        let (reach, angle) = (self.radius + other.radius, dx.abs().max(dy.abs()).to_radians());
        let degrees = reach.to_degrees();
        if square < degrees * degrees * (1.0 - reach * reach / 12.0) * (1.0 - 1e-9) {
            return Some(true);
        }
        let is_apart = square * (1.0 - angle * angle / 12.0) > degrees * degrees * (1.0 + 1e-9) + 1e-18;
        is_apart.then_some(false)
    }

    /// Returns a box within it.
    fn inner(&self) -> OutlineBox {
        if self.hit_below <= 0.0 {
            return OutlineBox::NONE;
        }
        let height = 0.7 * self.hit_below.sqrt();
        let width = height / self.scale.sqrt();
        shrunk(self.centre, width, height)
    }
}

/// Returns a box that is a little smaller than one around a point; none if nothing is left.
fn shrunk(centre: Coordinate, width: f64, height: f64) -> OutlineBox {
    let (width, height) = (width - INEXACT_DISTANCE, height - INEXACT_DISTANCE);
    if width <= 0.0 || height <= 0.0 {
        return OutlineBox::NONE;
    }
    OutlineBox {
        west: (centre.x - width) as f32,
        south: (centre.y - height) as f32,
        east: (centre.x + width) as f32,
        north: (centre.y + height) as f32,
    }
}

impl RegionOutline {
    /// Creates the outline of a question's region.
    pub fn of(question: &RegionQuestion) -> Self {
        let needs = match question.relation {
            RegionRelation::Within => BoxNeed::GeometryWithin,
            RegionRelation::Contains => BoxNeed::RegionWithin,
            RegionRelation::Intersects | RegionRelation::Nearer { .. } => BoxNeed::Meeting,
        };
        let none = Self { inner: InnerBox::NONE, form: RegionForm::None, needs };
        let [bounds] = question.boxes() else { return Self { needs: BoxNeed::Meeting, ..none } };
        if !is_plain(bounds) {
            return Self { needs: BoxNeed::Meeting, ..none };
        }
        let outer = OutlineBox::of(bounds);
        let disc = |centre, radius| match OutlineDisc::new(centre, radius) {
            Some(disc) => Self { inner: InnerBox::of(&disc.inner(), &outer), form: RegionForm::Disc(disc), needs },
            None => none.clone(),
        };
        let part = question.region.part();
        match (question.relation, part) {
            (RegionRelation::Within | RegionRelation::Contains, _) => none,
            (RegionRelation::Nearer { kilometres, .. }, _) => match part.circle_kilometres() {
                Some((centre, radius)) if f64::from_bits(kilometres) >= 0.0 => {
                    disc(centre, (f64::from_bits(kilometres) + radius) / RADIUS_KM)
                }
                _ => none,
            },
            (RegionRelation::Intersects, GeometryPart::Point(at)) => disc(*at, 0.0),
            (RegionRelation::Intersects, GeometryPart::Circle(circle)) => disc(circle.centre, circle.radius),
            (RegionRelation::Intersects, GeometryPart::Shape(shape)) => {
                if !shape.is_area || shape.is_periodic || shape.points.len() > CORNERS_MAX {
                    return none;
                }
                let corners: Box<[_]> = shape.points.iter().map(|at| [at.x as f32, at.y as f32]).collect();
                Self {
                    inner: InnerBox::of(&inner_box(&corners, &outer), &outer),
                    form: RegionForm::Area(corners),
                    needs,
                }
            }
        }
    }
}

/// Returns a box within an area, as large as a few steps find it.
fn inner_box(corners: &[[f32; 2]], outer: &OutlineBox) -> OutlineBox {
    let real = || corners.iter().filter(|corner| !corner[0].is_nan());
    let count = real().count().max(1) as f64;
    let sum = real().fold((0.0, 0.0), |(x, y), at| (x + f64::from(at[0]), y + f64::from(at[1])));
    let mean = Coordinate { x: sum.0 / count, y: sum.1 / count };
    let edges: Vec<OutlineEdge> = OutlineEdge::all_of(corners).collect();
    let is_free = |&[west, south, east, north]: &[f64; 4]| {
        let centre = Coordinate { x: 0.5 * (west + east), y: 0.5 * (south + north) };
        edges.iter().all(|edge| !edge.meets_box(centre, 0.5 * (east - west), 0.5 * (north - south)))
    };
    let middle = outer.middle();
    let centre = [mean, middle].into_iter().find(|&centre| locate_in_ring(corners, centre) == Some(true));
    let Some(centre) = centre else { return OutlineBox::NONE };
    let limits = [outer.west, outer.south, outer.east, outer.north].map(f64::from);
    let start = [centre.x, centre.y, centre.x, centre.y];
    // All sides together first, and then each as far as it goes.
    let mut best = start;
    for sides in [0b1111, 0b0001, 0b0010, 0b0100, 0b1000] {
        let from = best;
        let grown = |part: f64| {
            let mut grown = from;
            for side in (0..4).filter(|side| sides >> side & 1 == 1) {
                grown[side] += part * (limits[side] - from[side]);
            }
            grown
        };
        let (mut least, mut most) = (0.0, 1.0);
        for _ in 0..6 {
            let part = 0.5 * (least + most);
            *(if is_free(&grown(part)) { &mut least } else { &mut most }) = part;
        }
        best = grown(least);
    }
    let [west, south, east, north] = best;
    let centre = Coordinate { x: 0.5 * (west + east), y: 0.5 * (south + north) };
    shrunk(centre, 0.5 * (east - west), 0.5 * (north - south))
}

impl GeometryOutline {
    /// Creates the outline of a place with these parts and boxes; `None` if it has none.
    pub fn of(parts: &[GeometryPart], boxes: &[Bounds]) -> Option<Self> {
        if !boxes.iter().all(is_plain) || boxes.len() != parts.len() {
            return None;
        }
        let outline = |part: &GeometryPart| match part {
            GeometryPart::Point(at) => OutlineDisc::new(*at, 0.0).map(PartOutline::Disc),
            GeometryPart::Circle(circle) => OutlineDisc::new(circle.centre, circle.radius).map(PartOutline::Disc),
            GeometryPart::Shape(shape) => GeometryEdges::of(shape).map(PartOutline::Edges),
        };
        let parts = parts.iter().map(outline).collect::<Option<Vec<_>>>()?;
        let mut bounds = OutlineBox::NONE;
        boxes.iter().for_each(|part| bounds.extend(&OutlineBox::of(part)));
        Some(Self { parts, bounds, steps: 0, near: Vec::new(), clipped: Vec::new() })
    }

    /// Returns the steps that questions have taken since it was asked last.
    pub fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }

    /// Returns whether a place of one part meets a region with a box around it and one within, as far as cells say that.
    #[inline]
    pub fn meets_by_cells(&mut self, outer: &OutlineBox, inner: InnerBox) -> Option<bool> {
        self.steps += 1;
        match self.parts.as_mut_slice() {
            [PartOutline::Edges(edges)] => edges.meets_by_cells(outer, inner),
            _ => None,
        }
    }

    /// Returns whether a question with a region's outline holds of the place; `None` if the exact shapes have to decide.
    pub fn holds(&mut self, needs: BoxNeed, outer: &OutlineBox, inner: InnerBox, form: FormView<'_>) -> Option<bool> {
        let may_hold = match needs {
            BoxNeed::Meeting => true,
            BoxNeed::GeometryWithin => outer.covers(&self.bounds.without_rim()),
            BoxNeed::RegionWithin => self.bounds.covers(&outer.without_rim()),
        };
        if !may_hold {
            return Some(false);
        }
        if matches!(form, FormView::None) {
            return None;
        }
        let mut holds = Some(false);
        for index in 0..self.parts.len() {
            match self.part_meets(index, outer, inner, form) {
                Some(true) => return Some(true),
                Some(false) => {}
                None => holds = None,
            }
        }
        holds
    }

    fn part_meets(&mut self, index: usize, outer: &OutlineBox, inner: InnerBox, form: FormView<'_>) -> Option<bool> {
        let Self { parts, near, clipped, steps, .. } = self;
        let edges = match (&parts[index], form) {
            (_, FormView::None) => return None,
            (PartOutline::Disc(one), FormView::Disc(other)) => return one.meets_disc(other),
            (PartOutline::Disc(disc), FormView::Area(corners)) => {
                *steps += corners.len() as u64;
                return match disc.meets_edges(OutlineEdge::all_of(corners)) {
                    Some(false) => locate_in_ring(corners, disc.centre),
                    met => met,
                };
            }
            (PartOutline::Edges(edges), _) => edges,
        };
        *steps += edges.effort();
        near.clear();
        edges.append_near(outer, near);
        if near.is_empty() {
            // All of its box is on one side.
            return edges.locate(outer.middle());
        }
        if let Some(inner) = inner.within(outer) {
            let centre = inner.middle();
            let (width, height) = (f64::from(inner.east) - centre.x, f64::from(inner.north) - centre.y);
            if near.iter().any(|edge| edge.meets_box(centre, width, height)) || edges.locate(centre) == Some(true) {
                return Some(true);
            }
        }
        match form {
            FormView::None => None,
            FormView::Disc(disc) => match disc.meets_edges(near.iter().copied()) {
                Some(false) => edges.locate(disc.centre),
                met => met,
            },
            FormView::Area(corners) => {
                let mut window = OutlineBox::NONE;
                near.iter().for_each(|edge| window.extend(&edge.bounds));
                clipped.clear();
                OutlineEdge::append_clipped(corners, &window, clipped);
                *steps += (corners.len() + near.len() * clipped.len()) as u64;
                let mut meets = Some(false);
                for one in &*near {
                    for other in clipped.iter().filter(|other| one.bounds.meets(&other.bounds)) {
                        match meeting(one, other) {
                            Some(true) => return Some(true),
                            Some(false) => {}
                            None => meets = None,
                        }
                    }
                }
                meets?;
                let first = Coordinate { x: f64::from(corners[0][0]), y: f64::from(corners[0][1]) };
                match edges.locate(first)? {
                    true => Some(true),
                    false if !edges.lie_within(outer) => Some(false),
                    false => locate_in_ring(corners, edges.first()),
                }
            }
        }
    }
}
