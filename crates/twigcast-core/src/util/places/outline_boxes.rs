//! Boxes of outlines, with half the digits.

use super::bounds::{Bounds, Coordinate};

/// Degrees by which a coordinate of an outline may differ from the exact one, at the most.
pub(super) const INEXACT: f64 = 1e-5;
/// Degrees by which a distance in outlines may differ from that in the plane, at the most.
pub(super) const INEXACT_DISTANCE: f64 = 3.0 * INEXACT;

/// A box with half the digits: no smaller than the exact one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutlineBox {
    /// The least longitude.
    pub west: f32,
    /// The least latitude.
    pub south: f32,
    /// The greatest longitude.
    pub east: f32,
    /// The greatest latitude.
    pub north: f32,
}

impl OutlineBox {
    /// No box: it meets none.
    pub const NONE: Self =
        Self { west: f32::INFINITY, south: f32::INFINITY, east: f32::NEG_INFINITY, north: f32::NEG_INFINITY };

    /// Returns a box that has all of an exact one.
    #[inline]
    pub fn of(bounds: &Bounds) -> Self {
        Self {
            west: (bounds.west as f32).next_down(),
            south: (bounds.south as f32).next_down(),
            east: (bounds.east as f32).next_up(),
            north: (bounds.north as f32).next_up(),
        }
    }

    /// Returns whether two boxes have a point in common.
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        // Without branches: boxes beside each other are compared at once.
        (self.west <= other.east)
            & (other.west <= self.east)
            & (self.south <= other.north)
            & (other.south <= self.north)
    }

    /// Returns whether another box lies in this one.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        self.west <= other.west && other.east <= self.east && self.south <= other.south && other.north <= self.north
    }

    /// Extends the box by another one.
    #[inline]
    pub fn extend(&mut self, other: &Self) {
        self.west = self.west.min(other.west);
        self.south = self.south.min(other.south);
        self.east = self.east.max(other.east);
        self.north = self.north.max(other.north);
    }

    /// Returns twice the point in its middle.
    pub fn twice_middle(&self) -> (f32, f32) {
        (self.west + self.east, self.south + self.north)
    }

    /// Returns a box that the exact one has all of, and a little smaller than that.
    pub(super) fn without_rim(&self) -> Self {
        let rim = 1e-6;
        Self {
            west: self.west.next_up().next_up() + rim,
            south: self.south.next_up().next_up() + rim,
            east: self.east.next_down().next_down() - rim,
            north: self.north.next_down().next_down() - rim,
        }
    }

    pub(super) fn middle(&self) -> Coordinate {
        let mean = |a: f32, b: f32| 0.5 * (f64::from(a) + f64::from(b));
        Coordinate { x: mean(self.west, self.east), y: mean(self.south, self.north) }
    }
}

/// A box within another one, in 255ths of that one's sides, from its south-western corner: west, south, east, north.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InnerBox([u8; 4]);

impl InnerBox {
    /// No box.
    pub const NONE: Self = Self([1, 0, 0, 0]);

    /// Returns a box that is no larger than one within another.
    pub fn of(inner: &OutlineBox, outer: &OutlineBox) -> Self {
        let part =
            |from: f32, to: f32, at: f32| 255.0 * (f64::from(at) - f64::from(from)) / (f64::from(to) - f64::from(from));
        let across = |at: f32| part(outer.west, outer.east, at);
        let upwards = |at: f32| part(outer.south, outer.north, at);
        let (west, south) = (across(inner.west).ceil(), upwards(inner.south).ceil());
        let (east, north) = (across(inner.east).floor(), upwards(inner.north).floor());
        let is_box = 0.0 <= west && west < east && east <= 255.0 && 0.0 <= south && south < north && north <= 255.0;
        if is_box { Self([west as u8, south as u8, east as u8, north as u8]) } else { Self::NONE }
    }

    /// Returns the box, if there is one.
    #[inline]
    pub fn within(self, outer: &OutlineBox) -> Option<OutlineBox> {
        let [west, south, east, north] = self.0;
        if west >= east {
            return None;
        }
        let (width, height) = ((outer.east - outer.west) / 255.0, (outer.north - outer.south) / 255.0);
        Some(OutlineBox {
            west: outer.west + width * f32::from(west),
            south: outer.south + height * f32::from(south),
            east: outer.west + width * f32::from(east),
            north: outer.south + height * f32::from(north),
        })
    }
}
