//! Positions, distances between them, and circles.
//!
//! Distances are haversine ones on a sphere of the mean radius of the Earth (IUGG: 6371.0088 km). They differ from those on
//! the ellipsoid of WGS 84 by 0.56 % at most.

use std::f64::consts::PI;

use super::bounds::{Bounds, Coordinate};

/// The mean radius of the Earth, in kilometres.
pub const RADIUS_KM: f64 = 6_371.008_8;
/// The least half-chord squared by which places differ, far below a millimetre.
const LEAST: f64 = 1e-22;
/// The part of it by which a computed one may differ from the exact one.
const PART: f64 = 1e-13;

/// A position on the Earth: its longitude is from -180 to below 180 degrees, and 0 at the poles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Position {
    latitude: f64,
    longitude: f64,
}

impl Position {
    /// Returns a position; `None` if the latitude is not from -90 to 90, or the longitude not from -360 to 360.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        if !(-90.0..=90.0).contains(&latitude) || !(-360.0..=360.0).contains(&longitude) {
            return None;
        }
        let longitude = match longitude {
            _ if latitude.abs() == 90.0 => 0.0,
            180.0.. => longitude - 360.0,
            -180.0..180.0 => longitude,
            _ => longitude + 360.0,
        };
        Some(Self { latitude: latitude + 0.0, longitude: if longitude == 180.0 { -180.0 } else { longitude + 0.0 } })
    }

    /// Returns the latitude.
    #[inline]
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// Returns the longitude.
    #[inline]
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Returns whether it is a pole.
    pub fn is_pole(self) -> bool {
        self.latitude.abs() == 90.0
    }

    /// Returns the position in the plane.
    #[inline]
    pub fn coordinate(self) -> Coordinate {
        Coordinate { x: self.longitude, y: self.latitude }
    }

    /// Returns the position on the other side of the Earth.
    #[must_use]
    pub fn antipode(self) -> Self {
        let longitude = if self.longitude < 0.0 { self.longitude + 180.0 } else { self.longitude - 180.0 };
        Self { latitude: -self.latitude, longitude: if self.is_pole() { 0.0 } else { longitude } }
    }

    /// Returns the distance to another position, as an angle.
    pub fn angle_to(self, other: Self) -> f64 {
        angle_of(Centre::of(self).half_chord(other.coordinate()))
    }
}

/// A circle on the sphere: all positions that are no farther from its centre than its radius.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Circle {
    /// The centre.
    pub centre: Position,
    /// The radius, as an angle from 0 to half a turn.
    pub radius: f64,
}

impl Circle {
    /// Returns the circle of a radius in kilometres; one that goes beyond the other side of the Earth is all of it.
    pub fn new(centre: Position, kilometres: f64) -> Self {
        Self { centre, radius: (kilometres / RADIUS_KM).clamp(0.0, PI) }
    }

    /// Returns the box of the circle, which may reach beyond 180 degrees.
    pub fn bounds(&self) -> Bounds {
        // Wider by more than the arithmetic is inexact.
        let margin = 1e-9;
        let angle = self.radius.to_degrees() + margin;
        let (south, north) = (self.centre.latitude - angle, self.centre.latitude + angle);
        let width = if south <= -90.0 || north >= 90.0 {
            180.0
        } else {
            let sine = self.radius.sin() / self.centre.latitude.to_radians().cos();
            sine.min(1.0).asin().to_degrees() * (1.0 + 1e-9) + margin
        };
        let (west, east) = (self.centre.longitude - width, self.centre.longitude + width);
        Bounds { west, east, south: south.max(-90.0), north: north.min(90.0) }
    }
}

/// Returns the angle of a half-chord squared.
pub fn angle_of(half_chord: f64) -> f64 {
    2.0 * half_chord.clamp(0.0, 1.0).sqrt().asin()
}

/// Returns the half-chord squared of an angle.
pub fn half_chord_of(angle: f64) -> f64 {
    let sine = (0.5 * angle).sin();
    sine * sine
}

/// A position from which distances are measured. They are compared as the squares of half-chords of the unit sphere, which are
/// exact where positions are near each other.
#[derive(Clone, Copy)]
pub struct Centre {
    latitude: f64,
    longitude: f64,
    cosine: f64,
    sine: f64,
}

impl Centre {
    /// Returns a position as a centre.
    pub fn of(position: Position) -> Self {
        let (latitude, longitude) = (position.latitude.to_radians(), position.longitude.to_radians());
        Self { latitude, longitude, cosine: latitude.cos(), sine: latitude.sin().abs() }
    }

    /// Returns the half-chord squared to a point of the plane.
    pub fn half_chord(&self, to: Coordinate) -> f64 {
        self.half_chord_to(to.y.to_radians(), to.x.to_radians())
    }

    fn half_chord_to(&self, latitude: f64, longitude: f64) -> f64 {
        let (across, along) = (0.5 * (latitude - self.latitude), 0.5 * (longitude - self.longitude));
        let (across, along) = (across.sin(), along.sin());
        (across * across + self.cosine * latitude.cos() * along * along).min(1.0)
    }

    /// Returns the least half-chord squared to an edge, if that is below `limit`; else something not below it.
    pub fn least(&self, a: Coordinate, b: Coordinate, limit: f64) -> f64 {
        self.extreme(a, b, limit, 1.0)
    }

    /// Returns the greatest half-chord squared to an edge, if that is above `limit`; else something not above it.
    pub fn greatest(&self, a: Coordinate, b: Coordinate, limit: f64) -> f64 {
        -self.extreme(a, b, -limit, -1.0)
    }

    /// Searches the least value of `sign` times the half-chord squared. Between two points of an edge it is nowhere below the
    /// lesser value by more than its curvature allows, so that whole pieces are left out.
    fn extreme(&self, a: Coordinate, b: Coordinate, limit: f64, sign: f64) -> f64 {
        let (from, by) = ((a.y.to_radians(), a.x.to_radians()), ((b.y - a.y).to_radians(), (b.x - a.x).to_radians()));
        let at = |t: f64| sign * self.half_chord_to(from.0 + t * by.0, from.1 + t * by.1);
        // A bound on the second derivative, divided by 8.
        let curvature = (self.cosine * (by.0 * by.0 + by.1 * by.1) + self.sine * by.0 * by.0) / 16.0;
        let (first, last) = (at(0.0), at(1.0));
        let mut best = limit.min(first).min(last);
        // Most edges are done with their first piece, so nothing is allocated for these.
        let mut pieces = Vec::new();
        let mut next = Some((0.0, 1.0, first, last));
        while let Some((start, end, at_start, at_end)) = next.take().or_else(|| pieces.pop()) {
            let width: f64 = end - start;
            let bound = at_start.min(at_end) - curvature * width * width;
            if bound >= best - LEAST - PART * best.abs() {
                continue;
            }
            let middle = 0.5 * (start + end);
            let value = at(middle);
            best = best.min(value);
            // The better half is looked at first.
            let halves = ((start, middle, at_start, value), (middle, end, value, at_end));
            let (better, other) = if at_start < at_end { halves } else { (halves.1, halves.0) };
            pieces.push(other);
            next = Some(better);
        }
        best
    }

    /// Returns an angle that no point of a box is nearer by.
    pub fn least_angle_to(&self, bounds: &Bounds) -> f64 {
        let latitude = self.latitude.to_degrees();
        let across = (bounds.south - latitude).max(latitude - bounds.north).max(0.0).to_radians();
        let longitude = self.longitude.to_degrees();
        let aside = [-360.0, 0.0, 360.0]
            .map(|by| (bounds.west + by - longitude).max(longitude - bounds.east - by).max(0.0))
            .into_iter()
            .fold(f64::INFINITY, f64::min);
        let along = if aside >= 90.0 { self.cosine.asin() } else { (self.cosine * aside.to_radians().sin()).asin() };
        // Less by more than the arithmetic is inexact.
        (across.max(along) - 1e-12).max(0.0)
    }
}
