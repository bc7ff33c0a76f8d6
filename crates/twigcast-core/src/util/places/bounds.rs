//! Boxes of longitudes and latitudes, and a tree of them over the edges of a shape.

use std::ops::ControlFlow;

use super::{Effort, TooMuch};

/// A point of the plane: `x` is a longitude, which may lie beyond 180 degrees, `y` a latitude.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinate {
    /// The longitude.
    pub x: f64,
    /// The latitude.
    pub y: f64,
}

/// A box of the plane, its edges included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The least longitude.
    pub west: f64,
    /// The least latitude.
    pub south: f64,
    /// The greatest longitude.
    pub east: f64,
    /// The greatest latitude.
    pub north: f64,
}

impl Bounds {
    /// No box yet.
    pub const NONE: Self =
        Self { west: f64::INFINITY, south: f64::INFINITY, east: f64::NEG_INFINITY, north: f64::NEG_INFINITY };

    /// Returns the box of two points.
    #[inline]
    pub fn of(a: Coordinate, b: Coordinate) -> Self {
        Self { west: a.x.min(b.x), south: a.y.min(b.y), east: a.x.max(b.x), north: a.y.max(b.y) }
    }

    /// Extends the box by another one.
    #[inline]
    pub fn extend(&mut self, other: Self) {
        self.west = self.west.min(other.west);
        self.south = self.south.min(other.south);
        self.east = self.east.max(other.east);
        self.north = self.north.max(other.north);
    }

    /// Returns whether two boxes have a point in common.
    #[inline]
    pub fn meets(&self, other: &Self) -> bool {
        self.west <= other.east && other.west <= self.east && self.south <= other.north && other.south <= self.north
    }

    /// Returns whether another box lies in this one.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        self.west <= other.west && other.east <= self.east && self.south <= other.south && other.north <= self.north
    }

    /// Returns the box moved to the east.
    #[must_use]
    pub fn moved(self, by: f64) -> Self {
        Self { west: self.west + by, east: self.east + by, ..self }
    }

    /// Appends the boxes that this one is between -180 and 180 degrees.
    pub fn split(self, boxes: &mut Vec<Self>) {
        let (south, north) = (self.south.max(-90.0), self.north.min(90.0));
        if self.east - self.west >= 360.0 {
            boxes.push(Self { west: -180.0, east: 180.0, south, north });
            return;
        }
        for by in [-360.0, 0.0, 360.0] {
            let Self { west, east, .. } = self.moved(by);
            if west <= 180.0 && east >= -180.0 {
                boxes.push(Self { west: west.max(-180.0), east: east.min(180.0), south, north });
            }
        }
    }
}

/// Boxes that each level has one of, of the level below.
const FAN: usize = 8;

/// A tree of boxes over the edges of a list of points: each box is that of eight edges, or boxes, in a row.
#[derive(Clone, Debug, Default)]
pub struct EdgeTree {
    /// The lowest level first; none if there are few edges.
    levels: Vec<Box<[Bounds]>>,
}

/// Returns the edge that begins at a point of a list, if one does: between lists of points stands one that is no number.
#[inline]
pub fn edge_at(points: &[Coordinate], index: usize) -> Option<(Coordinate, Coordinate)> {
    let (a, b) = (*points.get(index)?, *points.get(index + 1)?);
    if a.x.is_nan() || b.x.is_nan() { None } else { Some((a, b)) }
}

impl EdgeTree {
    /// Builds the tree of the edges of a list of points.
    pub fn of(points: &[Coordinate]) -> Self {
        let edges = points.len().saturating_sub(1);
        if edges <= 2 * FAN {
            return Self::default();
        }
        let of_group = |group: usize| {
            let mut bounds = Bounds::NONE;
            for index in group * FAN..((group + 1) * FAN).min(edges) {
                if let Some((a, b)) = edge_at(points, index) {
                    bounds.extend(Bounds::of(a, b));
                }
            }
            bounds
        };
        let mut levels: Vec<Box<[Bounds]>> = vec![(0..edges.div_ceil(FAN)).map(of_group).collect()];
        while let Some(last) = levels.last().filter(|level| level.len() > FAN) {
            let joined = |group: &[Bounds]| {
                group.iter().fold(Bounds::NONE, |mut all, bounds| {
                    all.extend(*bounds);
                    all
                })
            };
            let next = last.chunks(FAN).map(joined).collect();
            levels.push(next);
        }
        Self { levels }
    }

    /// Calls back with the index of each edge whose box `is_sought`, until it breaks off.
    pub fn visit<B>(
        &self,
        points: &[Coordinate],
        effort: &Effort<'_>,
        is_sought: &dyn Fn(&Bounds) -> bool,
        found: &mut dyn FnMut(usize, Coordinate, Coordinate) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooMuch> {
        let edges = points.len().saturating_sub(1);
        let mut search = Search { tree: self, points, edges, effort, is_sought, found };
        match self.levels.len() {
            0 => search.edges(0..edges),
            levels => search.level(levels - 1, 0..self.levels[levels - 1].len()),
        }
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.levels.iter().map(|level| size_of_val(&**level)).sum()
    }
}

/// A search in a tree.
struct Search<'s, B> {
    tree: &'s EdgeTree,
    points: &'s [Coordinate],
    edges: usize,
    effort: &'s Effort<'s>,
    is_sought: &'s dyn Fn(&Bounds) -> bool,
    found: &'s mut dyn FnMut(usize, Coordinate, Coordinate) -> ControlFlow<B>,
}

impl<B> Search<'_, B> {
    fn level(&mut self, level: usize, boxes: std::ops::Range<usize>) -> Result<ControlFlow<B>, TooMuch> {
        self.effort.charge(1)?;
        for index in boxes {
            if !(self.is_sought)(&self.tree.levels[level][index]) {
                continue;
            }
            let below = index * FAN..(index + 1) * FAN;
            let flow = match level.checked_sub(1) {
                Some(level) => self.level(level, below.start..below.end.min(self.tree.levels[level].len()))?,
                None => self.edges(below.start..below.end.min(self.edges))?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn edges(&mut self, indexes: std::ops::Range<usize>) -> Result<ControlFlow<B>, TooMuch> {
        self.effort.charge(1 + indexes.len() as u64 / 4)?;
        for index in indexes {
            let Some((a, b)) = edge_at(self.points, index) else { continue };
            if (self.is_sought)(&Bounds::of(a, b)) {
                let flow = (self.found)(index, a, b);
                if flow.is_break() {
                    return Ok(flow);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
