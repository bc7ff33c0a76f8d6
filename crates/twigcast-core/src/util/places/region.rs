//! The regions that queries write: `geo:circle(47.37, 8.54, 20)` and the like.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::geometry::GeometryPart;
use super::reading::{AxisOrder, numbers, positions};
use super::shape::{Lies, PlaneShape, WrittenPosition};
use super::sphere::RADIUS_KM;
use super::touching::crossing_in;
use super::{Effort, TooMuch};
use crate::util::number;

/// A function that makes a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionKind {
    /// `geo:point(latitude, longitude)`.
    Point,
    /// `geo:circle(latitude, longitude, kilometres)`.
    Circle,
    /// `geo:box(south, west, north, east)`.
    Box,
    /// `geo:polygon('lat,lon lat,lon ...', holes...)`.
    Polygon,
}

/// An argument of such a function.
#[derive(Clone, Debug)]
pub enum RegionArgument {
    /// A number.
    Number(f64),
    /// A text.
    Text(Box<str>),
}

/// A region, and how a query writes it.
#[derive(Clone, Debug)]
pub struct Region {
    kind: RegionKind,
    arguments: Box<[RegionArgument]>,
    text: Box<str>,
    part: GeometryPart,
}

impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Region {}

impl Hash for Region {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl RegionKind {
    /// Returns the name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Self::Point => "geo:point",
            Self::Circle => "geo:circle",
            Self::Box => "geo:box",
            Self::Polygon => "geo:polygon",
        }
    }
}

impl fmt::Display for RegionArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(value) => f.write_str(&number::format(*value)),
            Self::Text(text) => write!(f, "'{text}'"),
        }
    }
}

/// Returns a latitude and a longitude as a position, or what is wrong with them.
fn position(latitude: f64, longitude: f64) -> Result<WrittenPosition, String> {
    let shown = number::format;
    if !(-90.0..=90.0).contains(&latitude) {
        let swapped = if (-90.0..=90.0).contains(&longitude) && (-180.0..=180.0).contains(&latitude) {
            "; the latitude comes first, then the longitude"
        } else {
            ""
        };
        return Err(format!("the latitude {} is not from -90 to 90{swapped}", shown(latitude)));
    }
    if !(-180.0..=180.0).contains(&longitude) {
        return Err(format!("the longitude {} is not from -180 to 180", shown(longitude)));
    }
    WrittenPosition::new(latitude, longitude)
        .ok_or_else(|| format!("{} {} is no position", shown(latitude), shown(longitude)))
}

impl Region {
    fn new(kind: RegionKind, arguments: Vec<RegionArgument>, part: GeometryPart) -> Self {
        let written: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        let text = format!("{}({})", kind.name(), written.join(", "));
        Self { kind, arguments: arguments.into(), text: text.into(), part }
    }

    fn of_numbers(kind: RegionKind, numbers: &[f64], part: GeometryPart) -> Self {
        Self::new(kind, numbers.iter().map(|&number| RegionArgument::Number(number)).collect(), part)
    }

    /// Returns a point, or what is wrong with it.
    pub fn point(latitude: f64, longitude: f64) -> Result<Self, String> {
        let at = position(latitude, longitude)?;
        Ok(Self::of_numbers(RegionKind::Point, &[latitude, longitude], GeometryPart::Point(at.position)))
    }

    /// Returns a circle, or what is wrong with it.
    pub fn circle(latitude: f64, longitude: f64, kilometres: f64) -> Result<Self, String> {
        let at = position(latitude, longitude)?;
        let greatest = std::f64::consts::PI * RADIUS_KM;
        if kilometres.is_nan() || kilometres <= 0.0 || kilometres > greatest {
            return Err(format!(
                "the radius {} is not above 0 and at most {} kilometres, half the way around the Earth",
                number::format(kilometres),
                greatest as u32
            ));
        }
        let part = GeometryPart::circle(at.position, kilometres);
        Ok(Self::of_numbers(RegionKind::Circle, &[latitude, longitude, kilometres], part))
    }

    /// Returns the region between two latitudes and two longitudes, or what is wrong with them.
    pub fn between(south: f64, west: f64, north: f64, east: f64) -> Result<Self, String> {
        position(south, west)?;
        position(north, east)?;
        if south >= north {
            return Err(format!(
                "the box ends at {} in the north, and begins at {} in the south: write geo:box(south, west, north, east)",
                number::format(north),
                number::format(south)
            ));
        }
        match PlaneShape::between(south, west, north, east) {
            Some(shape) => {
                Ok(Self::of_numbers(RegionKind::Box, &[south, west, north, east], GeometryPart::Shape(shape)))
            }
            None => Err("the box begins and ends at the same longitude, so it has no area".to_owned()),
        }
    }

    /// Returns the region within a ring and outside of others, or what is wrong with them.
    pub fn polygon(rings: &[&str]) -> Result<Self, String> {
        let mut read = Vec::new();
        for (index, ring) in rings.iter().enumerate() {
            let what = if index == 0 { "the ring".to_owned() } else { format!("hole {index}") };
            read.push(ring_of(ring).map_err(|reason| format!("{what}: {reason}"))?);
        }
        let (outer, holes) = read.split_first().ok_or("there is no ring")?;
        let shape = PlaneShape::area(&read).map_err(|flaw| flaw.to_string())?;
        if !holes.is_empty() {
            check_holes(outer, holes)?;
        }
        if let Some(at) = crossing_in(&shape, &Effort::free()).map_err(too_much)? {
            let (latitude, longitude) = (number::format(at.y), number::format(at.x));
            return Err(format!("its edges cross each other near {latitude},{longitude}"));
        }
        let text = |ring: &&str| {
            let points = ring.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            RegionArgument::Text(points.into())
        };
        Ok(Self::new(RegionKind::Polygon, rings.iter().map(text).collect(), GeometryPart::Shape(shape)))
    }

    /// Returns the function that makes the region.
    pub fn kind(&self) -> RegionKind {
        self.kind
    }

    /// Returns the arguments of the function.
    pub fn arguments(&self) -> &[RegionArgument] {
        &self.arguments
    }

    /// Returns the region as queries write it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the place that it is.
    pub fn part(&self) -> &GeometryPart {
        &self.part
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        let texts = self.arguments.iter().map(|argument| match argument {
            RegionArgument::Number(_) => 0,
            RegionArgument::Text(text) => text.len(),
        });
        texts.sum::<usize>() + self.text.len() + self.part.bytes() + size_of::<Self>()
    }
}

fn too_much(_: TooMuch) -> String {
    "it has too many points".to_owned()
}

/// Checks that holes are areas within a ring, or returns what is wrong with them.
fn check_holes(outer: &Vec<WrittenPosition>, holes: &[Vec<WrittenPosition>]) -> Result<(), String> {
    let without_holes = PlaneShape::area(std::slice::from_ref(outer)).map_err(|flaw| flaw.to_string())?;
    for (index, hole) in (1..).zip(holes) {
        PlaneShape::area(std::slice::from_ref(hole)).map_err(|flaw| format!("hole {index}: {flaw}"))?;
        for at in hole {
            if without_holes.locate(at.position, &Effort::free()).map_err(too_much)? == Lies::Outside {
                let (latitude, longitude) = (at.position.latitude(), at.position.longitude());
                return Err(format!(
                    "hole {index}: {},{} is outside of the ring",
                    number::format(latitude),
                    number::format(longitude)
                ));
            }
        }
    }
    Ok(())
}

/// Returns the positions of a ring, or what is wrong with it.
fn ring_of(text: &str) -> Result<Vec<WrittenPosition>, String> {
    let form = "write 'lat,lon lat,lon ...', with the first point again as the last";
    let Some(numbers) = numbers(text) else { return Err(format!("`{text}` has something that is no number; {form}")) };
    if numbers.len() % 2 != 0 {
        return Err(format!("it has {} numbers, and each point has two; {form}", numbers.len()));
    }
    if numbers.len() < 8 {
        return Err(format!("it has {} points, and a ring has four at least; {form}", numbers.len() / 2));
    }
    for pair in numbers.chunks_exact(2) {
        position(pair[0], pair[1])?;
    }
    let ring = positions(&numbers, AxisOrder::LatitudeFirst, 2).ok_or_else(|| form.to_owned())?;
    if ring.first().map(|at| at.position) != ring.last().map(|at| at.position) {
        return Err(format!("it is not closed: its last point is not its first one; {form}"));
    }
    Ok(ring)
}
