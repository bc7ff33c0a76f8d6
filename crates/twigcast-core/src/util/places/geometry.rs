//! Places of any kind, and how they lie to each other, as OGC Simple Features defines it.

use std::f64::consts::PI;

use super::bounds::Bounds;
use super::shape::{Lies, PlaneShape};
use super::sphere::{Circle, Position, RADIUS_KM};
use super::{Effort, TooMuch, touching};

/// One piece of a place.
#[derive(Clone, Debug)]
pub enum GeometryPart {
    /// A point.
    Point(Position),
    /// A circle, which has a radius.
    Circle(Circle),
    /// A line or an area.
    Shape(PlaneShape),
}

/// A place: of some messages it has several parts.
#[derive(Clone, Debug)]
pub struct Geometry {
    parts: Box<[GeometryPart]>,
    boxes: Box<[Bounds]>,
}

impl GeometryPart {
    /// Returns the circle around a centre; one without a radius is a point.
    pub fn circle(centre: Position, kilometres: f64) -> Self {
        let circle = Circle::new(centre, kilometres);
        if circle.radius > 0.0 { Self::Circle(circle) } else { Self::Point(centre) }
    }

    /// Appends the boxes between -180 and 180 degrees in which it lies.
    pub fn append_boxes(&self, boxes: &mut Vec<Bounds>) {
        let bounds = match self {
            Self::Point(position) => {
                let at = position.coordinate();
                let is_everywhere = position.is_pole();
                let (west, east) = if is_everywhere { (-180.0, 180.0) } else { (at.x, at.x) };
                Bounds { west, east, south: at.y, north: at.y }
            }
            Self::Circle(circle) => circle.bounds(),
            Self::Shape(shape) => shape.bounds,
        };
        bounds.split(boxes);
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        if let Self::Shape(shape) = self { shape.bytes() } else { 0 }
    }

    /// Returns whether two parts have a point in common.
    pub fn intersects(&self, other: &Self, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        effort.charge(1)?;
        Ok(match (self, other) {
            (Self::Shape(one), Self::Shape(other)) => touching::intersect(one, other, effort)?,
            (Self::Shape(shape), Self::Point(position)) | (Self::Point(position), Self::Shape(shape)) => {
                shape.locate(*position, effort)? != Lies::Outside
            }
            (Self::Shape(shape), Self::Circle(circle)) | (Self::Circle(circle), Self::Shape(shape)) => {
                shape.has_edge_within(circle.centre, circle.radius, effort)?
                    || shape.is_area && shape.locate(circle.centre, effort)? != Lies::Outside
            }
            (one, other) => one.centre_angle(other) <= one.radius() + other.radius(),
        })
    }

    /// Returns the angle between the centres of two parts that are points or circles.
    fn centre_angle(&self, other: &Self) -> f64 {
        match (self.centre(), other.centre()) {
            (Some(one), Some(other)) => one.angle_to(other),
            _ => f64::INFINITY,
        }
    }

    fn centre(&self) -> Option<Position> {
        match self {
            Self::Point(position) => Some(*position),
            Self::Circle(circle) => Some(circle.centre),
            Self::Shape(_) => None,
        }
    }

    /// Returns the centre and the radius in kilometres of a point or a circle.
    pub fn circle_kilometres(&self) -> Option<(Position, f64)> {
        Some((self.centre()?, self.radius() * RADIUS_KM))
    }

    fn radius(&self) -> f64 {
        if let Self::Circle(circle) = self { circle.radius } else { 0.0 }
    }

    /// Returns how this part lies in another.
    pub fn lies_in(&self, outer: &Self, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
        effort.charge(1)?;
        let inside = |is_inside: bool| if is_inside { Lies::Inside } else { Lies::Outside };
        Ok(match (self, outer) {
            (Self::Shape(inner), Self::Shape(outer)) => touching::lies_in(inner, outer, effort)?,
            (Self::Point(position), Self::Shape(shape)) => shape.locate_in(*position, effort)?,
            (Self::Point(position), Self::Point(other)) => inside(position == other),
            (Self::Point(position), Self::Circle(circle)) => {
                let angle = position.angle_to(circle.centre);
                match angle.total_cmp(&circle.radius) {
                    _ if circle.radius >= PI => Lies::Inside,
                    std::cmp::Ordering::Less => Lies::Inside,
                    std::cmp::Ordering::Equal => Lies::OnBoundary,
                    std::cmp::Ordering::Greater => Lies::Outside,
                }
            }
            (Self::Circle(_) | Self::Shape(_), Self::Point(_)) => Lies::Outside,
            (Self::Circle(inner), Self::Circle(outer)) => {
                inside(outer.radius >= PI || inner.centre.angle_to(outer.centre) + inner.radius <= outer.radius)
            }
            (Self::Circle(inner), Self::Shape(outer)) => inside(
                outer.is_area
                    && outer.locate(inner.centre, effort)? == Lies::Inside
                    && outer.angle_to_edges(inner.centre, inner.radius, effort)? >= inner.radius,
            ),
            (Self::Shape(inner), Self::Circle(outer)) => inside(
                outer.radius >= PI
                    || inner.edges_are_within(outer.centre, outer.radius, effort)?
                        && (!inner.is_area || inner.locate(outer.centre.antipode(), effort)? == Lies::Outside),
            ),
        })
    }

    /// Returns the angle from a position; something above `limit` if that is farther.
    fn angle_from(&self, position: Position, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        effort.charge(1)?;
        match self {
            Self::Point(point) => Ok(position.angle_to(*point)),
            Self::Circle(circle) => Ok((position.angle_to(circle.centre) - circle.radius).max(0.0)),
            Self::Shape(shape) => shape.angle_from(position, limit, effort),
        }
    }

    /// Returns the distance between two parts in kilometres. That of two shapes is measured at their corners, and may be a little
    /// less where edges are long.
    fn kilometres_to(&self, other: &Self, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        if let (Self::Shape(one), Self::Shape(other)) = (self, other) {
            let limit = (limit / RADIUS_KM).min(PI);
            let of_one = one.angle_to_corners(other, limit, effort)?;
            return Ok(other.angle_to_corners(one, limit.min(of_one), effort)?.min(of_one) * RADIUS_KM);
        }
        let Some(centre) = other.centre() else { return other.kilometres_to(self, limit, effort) };
        let limit = (limit / RADIUS_KM).min(PI) + other.radius();
        let angle = self.angle_from(centre, limit, effort)? - other.radius();
        Ok(angle.max(0.0) * RADIUS_KM)
    }
}

impl Geometry {
    /// Creates a place of some parts.
    pub fn of(parts: Vec<GeometryPart>) -> Self {
        let mut boxes = Vec::new();
        parts.iter().for_each(|part| part.append_boxes(&mut boxes));
        Self { parts: parts.into(), boxes: boxes.into() }
    }

    /// Returns the parts.
    pub fn parts(&self) -> &[GeometryPart] {
        &self.parts
    }

    /// Returns the boxes between -180 and 180 degrees in which it lies.
    pub fn boxes(&self) -> &[Bounds] {
        &self.boxes
    }

    /// Returns whether it has a point in common with a part.
    pub fn intersects(&self, other: &GeometryPart, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        for part in &self.parts {
            if part.intersects(other, effort)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether no point of it is outside of a part, and some point within.
    pub fn is_within(&self, other: &GeometryPart, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        let mut is_inside = false;
        for part in &self.parts {
            match part.lies_in(other, effort)? {
                Lies::Outside => return Ok(false),
                Lies::Inside => is_inside = true,
                Lies::OnBoundary => {}
            }
        }
        Ok(is_inside)
    }

    /// Returns whether one of its parts has all of another part.
    pub fn contains(&self, other: &GeometryPart, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        for part in &self.parts {
            if other.lies_in(part, effort)? == Lies::Inside {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the distance to a part in kilometres; something above `limit` if that is farther.
    pub fn kilometres_to(&self, other: &GeometryPart, limit: f64, effort: &Effort<'_>) -> Result<f64, TooMuch> {
        let mut least = f64::INFINITY;
        for part in &self.parts {
            least = least.min(part.kilometres_to(other, limit.min(least), effort)?);
        }
        Ok(least)
    }
}
