//! Numbers of a text as positions. A text that is not as it has to be has no place.

use super::geometry::GeometryPart;
use super::shape::{Flaw, PlaneShape, WrittenPosition};
use super::sphere::Position;

/// Which number of a position comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisOrder {
    /// The latitude.
    LatitudeFirst,
    /// The longitude.
    LongitudeFirst,
}

/// Kilometres of a metre.
const METRE: f64 = 0.001;

/// Returns the numbers of a text, between which stand white space and commas.
pub fn numbers(text: &str) -> Option<Vec<f64>> {
    let is_separator = |character: char| character.is_ascii_whitespace() || character == ',';
    let parts = text.split(is_separator).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok().filter(|number: &f64| number.is_finite())).collect()
}

/// Returns positions of so many numbers each, of which the first two count.
pub fn positions(numbers: &[f64], order: AxisOrder, dimension: usize) -> Option<Vec<WrittenPosition>> {
    if numbers.is_empty() || dimension < 2 || !numbers.len().is_multiple_of(dimension) {
        return None;
    }
    let position = |numbers: &[f64]| match order {
        AxisOrder::LatitudeFirst => WrittenPosition::new(numbers[0], numbers[1]),
        AxisOrder::LongitudeFirst => WrittenPosition::new(numbers[1], numbers[0]),
    };
    numbers.chunks_exact(dimension).map(position).collect()
}

/// Returns the positions of a text of tuples: between their numbers stand commas, and between tuples white space. There may
/// be white space after the commas, too.
pub fn tuples(text: &str, order: AxisOrder) -> Option<Vec<WrittenPosition>> {
    let mut all = Vec::new();
    let mut tuple = String::new();
    for part in text.split_ascii_whitespace() {
        let goes_on = tuple.is_empty() || tuple.ends_with(',') || part.starts_with(',');
        if !goes_on {
            all.push(one_tuple(&tuple, order)?);
            tuple.clear();
        }
        tuple.push_str(part);
    }
    all.push(one_tuple(&tuple, order)?);
    Some(all)
}

fn one_tuple(text: &str, order: AxisOrder) -> Option<WrittenPosition> {
    let numbers: Option<Vec<f64>> = text.split(',').map(|part| part.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| (2..=3).contains(&numbers.len()))?;
    positions(&numbers[..2], order, 2)?.pop()
}

/// Returns the point of a text of two numbers.
pub fn point(text: &str) -> Option<GeometryPart> {
    let numbers = numbers(text).filter(|numbers| numbers.len() == 2)?;
    Some(GeometryPart::Point(Position::new(numbers[0], numbers[1])?))
}

/// Returns the line of a text of latitudes and longitudes.
pub fn line(text: &str) -> Option<GeometryPart> {
    written_line(&positions(&numbers(text)?, AxisOrder::LatitudeFirst, 2)?)
}

/// Returns the area of a text of latitudes and longitudes.
pub fn area(text: &str) -> Option<GeometryPart> {
    written_area(&[positions(&numbers(text)?, AxisOrder::LatitudeFirst, 2)?])
}

/// Returns the area of a text with its southern latitude, western longitude, northern latitude and eastern longitude.
pub fn corners(text: &str) -> Option<GeometryPart> {
    let numbers = numbers(text).filter(|numbers| numbers.len() == 4)?;
    between(WrittenPosition::new(numbers[0], numbers[1])?, WrittenPosition::new(numbers[2], numbers[3])?)
}

/// Returns the area between two corners: what has no area is the line or the point that it is drawn as.
pub fn between(low: WrittenPosition, high: WrittenPosition) -> Option<GeometryPart> {
    let (south, north) = (low.position.latitude(), high.position.latitude());
    if south > north {
        return None;
    }
    match PlaneShape::between(south, low.longitude(), north, high.longitude()) {
        Some(shape) => Some(GeometryPart::Shape(shape)),
        None => written_line(&[low, high]),
    }
}

/// Returns the circle of a text with latitude, longitude and radius, which is in kilometres or in metres.
pub fn circle(text: &str, in_metres: bool) -> Option<GeometryPart> {
    let numbers = numbers(text).filter(|numbers| numbers.len() == 3 && numbers[2] >= 0.0)?;
    let kilometres = if in_metres { numbers[2] * METRE } else { numbers[2] };
    Some(GeometryPart::circle(Position::new(numbers[0], numbers[1])?, kilometres))
}

/// Returns the place of a text that says no more of what it is: a point, a circle written as `47.4,8.5 20`, an area, of which
/// the last point is the first one again, or else a line. Latitudes come first.
pub fn plain(text: &str) -> Option<GeometryPart> {
    let mut words = text.split_ascii_whitespace();
    if let (Some(centre), Some(_), None) = (words.next(), words.next(), words.next())
        && centre.contains(',')
        && numbers(text)?.len() == 3
    {
        return circle(text, false);
    }
    let positions = positions(&numbers(text)?, AxisOrder::LatitudeFirst, 2)?;
    match positions.as_slice() {
        [only] => Some(GeometryPart::Point(only.position)),
        [first, _, _, .., last] if first.position == last.position => written_area(&[positions]),
        _ => written_line(&positions),
    }
}

/// Returns the area of some rings as a message writes it: what has no area is the line or the point that it is drawn as.
pub fn written_area(rings: &[Vec<WrittenPosition>]) -> Option<GeometryPart> {
    match PlaneShape::area(rings) {
        Ok(shape) => Some(GeometryPart::Shape(shape)),
        Err(Flaw::FewPoints | Flaw::NoArea) => written_line(rings.first()?),
        Err(Flaw::TooWide | Flaw::HoleTooWide) => None,
    }
}

/// Returns a line as a message writes it: one without a length is the point that it is drawn as.
pub fn written_line(line: &[WrittenPosition]) -> Option<GeometryPart> {
    let first = line.first()?;
    match PlaneShape::line(line) {
        Some(shape) => Some(GeometryPart::Shape(shape)),
        None if line.iter().all(|at| at.position == first.position) => Some(GeometryPart::Point(first.position)),
        None => None,
    }
}
