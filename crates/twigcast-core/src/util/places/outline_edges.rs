//! Edges of outlines: which of them are near a box, and on which side of them a point is.

use super::bounds::{Bounds, Coordinate, edge_at};
use super::outline_boxes::{INEXACT, InnerBox, OutlineBox};
use super::outline_cells::OutlineCells;
use super::shape::PlaneShape;

/// Edges whose boxes are compared at once.
const BLOCK: usize = 16;
/// The most corners of a place that has an outline.
const CORNERS_MAX: usize = 1024;
/// The number of regions after which it is worth while to lay cells over a place.
const ASKED_MIN: u32 = 12;
/// What is nearer an edge is on no side of it, in degrees.
const RIM: f64 = 3.0 * INEXACT;

/// What boxes of inexact corners are larger.
const SLACK: f32 = INEXACT as f32;

/// An edge and its box, which is no smaller than the exact one.
#[derive(Clone, Copy, Debug)]
pub struct OutlineEdge {
    pub(super) a: Coordinate,
    pub(super) b: Coordinate,
    pub(super) bounds: OutlineBox,
}

impl OutlineEdge {
    /// Returns the edges of a list of corners, between whose rings stands one that is no number.
    pub(super) fn all_of(corners: &[[f32; 2]]) -> impl Iterator<Item = Self> + '_ {
        corners
            .windows(2)
            .filter(|pair| !pair[0][0].is_nan() && !pair[1][0].is_nan())
            .map(|pair| Self::between(pair[0], pair[1]))
    }

    #[inline]
    fn between([ax, ay]: [f32; 2], [bx, by]: [f32; 2]) -> Self {
        let bounds = OutlineBox {
            west: ax.min(bx) - SLACK,
            south: ay.min(by) - SLACK,
            east: ax.max(bx) + SLACK,
            north: ay.max(by) + SLACK,
        };
        let at = |x: f32, y: f32| Coordinate { x: f64::from(x), y: f64::from(y) };
        Self { a: at(ax, ay), b: at(bx, by), bounds }
    }

    /// Appends the edges of a list of corners whose boxes may meet another one.
    pub(super) fn append_clipped(corners: &[[f32; 2]], window: &OutlineBox, clipped: &mut Vec<Self>) {
        let (west, east) = (window.west - SLACK, window.east + SLACK);
        let (south, north) = (window.south - SLACK, window.north + SLACK);
        // Where both ends are beyond the same side, the edge is (Cohen and Sutherland).
        let beyond = |[x, y]: [f32; 2]| {
            u8::from(x < west) | u8::from(x > east) << 1 | u8::from(y < south) << 2 | u8::from(y > north) << 3
        };
        let Some((&first, rest)) = corners.split_first() else { return };
        let (mut last, mut last_beyond) = (first, beyond(first));
        for &corner in rest {
            let corner_beyond = beyond(corner);
            if last_beyond & corner_beyond == 0 && !last[0].is_nan() && !corner[0].is_nan() {
                clipped.push(Self::between(last, corner));
            }
            (last, last_beyond) = (corner, corner_beyond);
        }
    }

    /// Returns whether it has a point in common with a box around a point.
    #[inline]
    pub(super) fn meets_box(&self, centre: Coordinate, width: f64, height: f64) -> bool {
        let (dx, dy) = (self.b.x - self.a.x, self.b.y - self.a.y);
        let (mx, my) = (0.5 * (self.a.x + self.b.x) - centre.x, 0.5 * (self.a.y + self.b.y) - centre.y);
        mx.abs() <= width + 0.5 * dx.abs()
            && my.abs() <= height + 0.5 * dy.abs()
            && (dx * my - dy * mx).abs() <= height * dx.abs() + width * dy.abs()
    }

    /// Returns the length of the edge along both axes.
    fn span(&self) -> f64 {
        (self.b.x - self.a.x).abs() + (self.b.y - self.a.y).abs()
    }
}

/// Returns twice the area of a triangle, above 0 if the third point is to the left of the others.
#[inline]
fn side(a: Coordinate, b: Coordinate, point: Coordinate) -> f64 {
    (b.x - a.x) * (point.y - a.y) - (b.y - a.y) * (point.x - a.x)
}

/// Returns whether an exact edge and one of an outline have a point in common; `None` if that is not sure.
pub(super) fn meeting(exact: &OutlineEdge, other: &OutlineEdge) -> Option<bool> {
    let (of_c, of_d) = (side(exact.a, exact.b, other.a), side(exact.a, exact.b, other.b));
    let rim = 2.0 * INEXACT * exact.span();
    if of_c > rim && of_d > rim || of_c < -rim && of_d < -rim {
        return Some(false);
    }
    let (of_a, of_b) = (side(other.a, other.b, exact.a), side(other.a, other.b, exact.b));
    // Both ends of the other edge may lie elsewhere; the ends of the exact one are no farther from these than both are long.
    let other_rim = 4.0 * INEXACT * (exact.span() + 2.0 * other.span() + INEXACT);
    if of_a > other_rim && of_b > other_rim || of_a < -other_rim && of_b < -other_rim {
        return Some(false);
    }
    let is_crossing = of_c.abs() > rim && of_d.abs() > rim && of_a.abs() > other_rim && of_b.abs() > other_rim;
    is_crossing.then_some(true)
}

/// Counts the edges to the right of a point.
struct RayCount {
    at: Coordinate,
    is_inside: bool,
    is_near: bool,
}

impl RayCount {
    fn new(at: Coordinate) -> Self {
        Self { at, is_inside: false, is_near: false }
    }

    #[inline]
    fn count(&mut self, a: Coordinate, b: Coordinate) {
        let at = self.at;
        let (low, high) = if a.y <= b.y { (a, b) } else { (b, a) };
        if at.y < low.y - RIM || at.y > high.y + RIM || at.x > a.x.max(b.x) + RIM {
            return;
        }
        let side = side(low, high, at);
        let is_beside = at.x >= a.x.min(b.x) - RIM;
        self.is_near |= is_beside && side.abs() <= RIM * ((b.x - a.x).abs() + (b.y - a.y).abs() + RIM);
        self.is_inside ^= low.y <= at.y && at.y < high.y && side > 0.0;
    }

    fn answer(&self) -> Option<bool> {
        (!self.is_near).then_some(self.is_inside)
    }
}

/// Returns whether a point is in an area that an outline shows; `None` if that is not sure.
pub(super) fn locate_in_ring(corners: &[[f32; 2]], at: Coordinate) -> Option<bool> {
    let mut count = RayCount::new(at);
    for pair in corners.windows(2) {
        let [[ax, ay], [bx, by]] = [pair[0], pair[1]];
        if !ax.is_nan() && !bx.is_nan() {
            let at = |x: f32, y: f32| Coordinate { x: f64::from(x), y: f64::from(y) };
            count.count(at(ax, ay), at(bx, by));
        }
    }
    count.answer()
}

/// Some edges of a place in a row, and their boxes by side.
#[derive(Debug)]
struct EdgeBlock {
    all: OutlineBox,
    west: [f32; BLOCK],
    south: [f32; BLOCK],
    east: [f32; BLOCK],
    north: [f32; BLOCK],
    edges: Vec<OutlineEdge>,
}

/// The edges of a line or an area of a message, with all digits.
#[derive(Debug)]
pub(super) struct GeometryEdges {
    blocks: Vec<EdgeBlock>,
    first: Coordinate,
    is_area: bool,
    bounds: Bounds,
    /// Cells over these, once it has been asked for several regions.
    cells: Option<Box<OutlineCells>>,
    asked: u32,
}

impl EdgeBlock {
    fn of(edges: &[OutlineEdge]) -> Self {
        let mut all = OutlineBox::NONE;
        let [mut west, mut south] = [[f32::INFINITY; BLOCK]; 2];
        let [mut east, mut north] = [[f32::NEG_INFINITY; BLOCK]; 2];
        for (index, edge) in edges.iter().enumerate() {
            let bounds = edge.bounds;
            all.extend(&bounds);
            (west[index], south[index]) = (bounds.west, bounds.south);
            (east[index], north[index]) = (bounds.east, bounds.north);
        }
        Self { all, west, south, east, north, edges: edges.to_vec() }
    }

    /// Returns which edges have boxes that meet another one, as bits.
    #[inline]
    fn near(&self, outer: &OutlineBox) -> u32 {
        let mut bits = 0;
        for index in 0..BLOCK {
            let bounds = OutlineBox {
                west: self.west[index],
                south: self.south[index],
                east: self.east[index],
                north: self.north[index],
            };
            bits |= u32::from(bounds.meets(outer)) << index;
        }
        bits
    }
}

impl GeometryEdges {
    /// Returns the edges of a line or an area; `None` if they are too many, or lie around the Earth.
    pub(super) fn of(shape: &PlaneShape) -> Option<Self> {
        if shape.is_periodic || shape.points.len() > CORNERS_MAX {
            return None;
        }
        let edge = |(a, b): (Coordinate, Coordinate)| OutlineEdge { a, b, bounds: OutlineBox::of(&Bounds::of(a, b)) };
        let edges = (0..shape.points.len()).filter_map(|index| edge_at(&shape.points, index).map(edge));
        let edges: Vec<OutlineEdge> = edges.collect();
        let blocks = edges.chunks(BLOCK).map(EdgeBlock::of).collect();
        let (first, is_area, bounds) = (shape.points[0], shape.is_area, shape.bounds);
        Some(Self { blocks, first, is_area, bounds, cells: None, asked: 0 })
    }

    /// Returns whether it meets a region with a box around it and one within, as far as cells say that.
    #[inline]
    pub(super) fn meets_by_cells(&mut self, outer: &OutlineBox, inner: InnerBox) -> Option<bool> {
        let Some(cells) = &self.cells else {
            self.asked += 1;
            if self.asked > ASKED_MIN {
                let edges = self.blocks.iter().flat_map(|block| &block.edges).map(|edge| (edge.a, edge.b));
                self.cells = Some(Box::new(OutlineCells::of(&self.bounds, edges, self.is_area)));
            }
            return None;
        };
        if inner.within(outer).is_some_and(|inner| cells.has_within(&inner)) {
            return Some(true);
        }
        cells.is_outside(outer).then_some(false)
    }

    /// Returns its first point.
    pub(super) fn first(&self) -> Coordinate {
        self.first
    }

    /// Returns the steps that a look at all edges counts as.
    pub(super) fn effort(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// Appends the edges whose boxes meet another one.
    pub(super) fn append_near(&self, outer: &OutlineBox, near: &mut Vec<OutlineEdge>) {
        for block in self.blocks.iter().filter(|block| block.all.meets(outer)) {
            let mut bits = block.near(outer);
            while bits != 0 {
                near.push(block.edges[bits.trailing_zeros() as usize]);
                bits &= bits - 1;
            }
        }
    }

    /// Returns whether all edges may lie in a box.
    pub(super) fn lie_within(&self, outer: &OutlineBox) -> bool {
        f64::from(outer.west) <= self.bounds.west
            && self.bounds.east <= f64::from(outer.east)
            && f64::from(outer.south) <= self.bounds.south
            && self.bounds.north <= f64::from(outer.north)
    }

    /// Returns whether a point is in the area; `None` if that is not sure. In a line is no point.
    pub(super) fn locate(&self, at: Coordinate) -> Option<bool> {
        if !self.is_area {
            return Some(false);
        }
        if let Some(is_inside) = self.cells.as_ref().and_then(|cells| cells.locate(at)) {
            return Some(is_inside);
        }
        let mut count = RayCount::new(at);
        let (x, y) = (at.x as f32, at.y as f32);
        let right = OutlineBox {
            west: (x - RIM as f32).next_down(),
            south: (y - RIM as f32).next_down(),
            east: f32::INFINITY,
            north: (y + RIM as f32).next_up(),
        };
        for block in self.blocks.iter().filter(|block| block.all.meets(&right)) {
            block.edges.iter().for_each(|edge| count.count(edge.a, edge.b));
        }
        count.answer()
    }
}
