//! Places as lines of a map.

use super::bounds::Coordinate;
use super::geometry::GeometryPart;
use super::sphere::Circle;

/// Corners that a circle is drawn with.
const CIRCLE_CORNERS: u32 = 64;
/// The most corners of a line: of longer ones some are left out.
const CORNERS_MAX: usize = 400;

/// A part of a place as it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Lines or rings; of a point, that point alone.
    pub lines: Vec<Vec<Coordinate>>,
    /// The lines are rings around an area.
    pub is_area: bool,
}

impl Drawing {
    /// Returns a part of a place as it is drawn.
    pub fn of(part: &GeometryPart) -> Self {
        match part {
            GeometryPart::Point(at) => Self { lines: vec![vec![at.coordinate()]], is_area: false },
            GeometryPart::Circle(circle) => Self { lines: vec![ring_of(circle)], is_area: true },
            GeometryPart::Shape(shape) => {
                let rings = shape.points.split(|point| point.x.is_nan());
                Self { lines: rings.map(thinned).collect(), is_area: shape.is_area }
            }
        }
    }
}

fn thinned(line: &[Coordinate]) -> Vec<Coordinate> {
    let step = line.len().div_ceil(CORNERS_MAX).max(1);
    let last = line.len().saturating_sub(1);
    line.iter().enumerate().filter(|(index, _)| index % step == 0 || *index == last).map(|(_, point)| *point).collect()
}

/// Returns positions at the distance of the radius around the centre.
fn ring_of(circle: &Circle) -> Vec<Coordinate> {
    let centre = circle.centre.coordinate();
    let (latitude, radius) = (centre.y.to_radians(), circle.radius);
    let at = |corner: u32| {
        let bearing = std::f64::consts::TAU * f64::from(corner % CIRCLE_CORNERS) / f64::from(CIRCLE_CORNERS);
        let sine = latitude.sin() * radius.cos() + latitude.cos() * radius.sin() * bearing.cos();
        let across = bearing.sin() * radius.sin() * latitude.cos();
        let along = across.atan2(radius.cos() - latitude.sin() * sine);
        Coordinate { x: centre.x + along.to_degrees(), y: sine.clamp(-1.0, 1.0).asin().to_degrees() }
    };
    (0..=CIRCLE_CORNERS).map(at).collect()
}
