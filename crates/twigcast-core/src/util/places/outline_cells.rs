//! The cells of a grid over a place: which of them are within it, and which are not.

use super::bounds::{Bounds, Coordinate};
use super::outline_boxes::{INEXACT, OutlineBox};

/// Cells across, and upwards. With the regions of `benchmarks/places.py`, 8 and 32 took a little longer.
const CELLS: usize = 16;
/// What is nearer an edge than that, in degrees, is in no cell beside it.
const RIM: f64 = 3.0 * INEXACT;

/// Counts of cells in each rectangle that begins in the south-western corner.
type Sums = [[u16; CELLS + 1]; CELLS + 1];

/// A grid over a place. A cell that an edge comes near is neither within the place nor outside.
#[derive(Debug)]
pub(super) struct OutlineCells {
    west: f64,
    south: f64,
    /// Cells of a degree.
    across: f64,
    upwards: f64,
    within: Sums,
    not_outside: Sums,
}

fn summed(cells: &[[bool; CELLS]; CELLS]) -> Sums {
    let mut sums = [[0; CELLS + 1]; CELLS + 1];
    for row in 0..CELLS {
        let mut count = 0;
        for column in 0..CELLS {
            count += u16::from(cells[row][column]);
            sums[row + 1][column + 1] = sums[row][column + 1] + count;
        }
    }
    sums
}

impl OutlineCells {
    /// Lays a grid over the edges of a line or an area with a box.
    pub(super) fn of(bounds: &Bounds, edges: impl Iterator<Item = (Coordinate, Coordinate)>, is_area: bool) -> Self {
        let (west, south) = (bounds.west - RIM, bounds.south - RIM);
        let across = CELLS as f64 / (bounds.east + RIM - west);
        let upwards = CELLS as f64 / (bounds.north + RIM - south);
        let [mut near, mut turns] = [[[false; CELLS]; CELLS]; 2];
        let column = |x: f64| (((x - west) * across).max(0.0) as usize).min(CELLS - 1);
        let row = |y: f64| (((y - south) * upwards).max(0.0) as usize).min(CELLS - 1);
        for (a, b) in edges {
            let (low, high) = if a.y <= b.y { (a, b) } else { (b, a) };
            let height = high.y - low.y;
            let at = |y: f64| low.x + (y.clamp(low.y, high.y) - low.y) / height * (high.x - low.x);
            for row in row(low.y - RIM)..=row(high.y + RIM) {
                let (bottom, top) = (south + row as f64 / upwards, south + (row + 1) as f64 / upwards);
                let (one, other) = if height > RIM { (at(bottom - RIM), at(top + RIM)) } else { (low.x, high.x) };
                let columns = column(one.min(other) - RIM)..=column(one.max(other) + RIM);
                near[row][columns].fill(true);
                let middle = 0.5 * (bottom + top);
                if is_area && low.y <= middle && middle < high.y {
                    turns[row][column(at(middle))] ^= true;
                }
            }
        }
        let [mut within, mut not_outside] = [[[false; CELLS]; CELLS]; 2];
        for row in 0..CELLS {
            // An edge that goes through the middle of a row is in a cell that it is near, so the cells before and after it differ.
            let mut is_inside = false;
            for column in 0..CELLS {
                is_inside ^= turns[row][column];
                within[row][column] = is_inside && !near[row][column];
                not_outside[row][column] = is_inside || near[row][column];
            }
        }
        Self { west, south, across, upwards, within: summed(&within), not_outside: summed(&not_outside) }
    }

    fn count(&self, sums: &Sums, bounds: &OutlineBox) -> u16 {
        // Numbers are cut off towards 0, below which no cells are. A box that ends where a cell does meets the next one as well.
        let first = |cells: f64| (cells as i32).clamp(0, CELLS as i32) as usize;
        let end = |cells: f64| ((cells + 1.0) as i32).clamp(0, CELLS as i32) as usize;
        let (west, east) = (f64::from(bounds.west) - self.west, f64::from(bounds.east) - self.west);
        let (south, north) = (f64::from(bounds.south) - self.south, f64::from(bounds.north) - self.south);
        let (left, right) = (first(west * self.across), end(east * self.across));
        let (bottom, top) = (first(south * self.upwards), end(north * self.upwards));
        (sums[top][right] + sums[bottom][left]) - (sums[bottom][right] + sums[top][left])
    }

    /// Returns whether a box meets a cell within the place.
    pub(super) fn has_within(&self, bounds: &OutlineBox) -> bool {
        self.count(&self.within, bounds) > 0
    }

    /// Returns whether a point is in the place; `None` if its cell does not say that.
    pub(super) fn locate(&self, at: Coordinate) -> Option<bool> {
        let (x, y) = ((at.x - self.west) * self.across, (at.y - self.south) * self.upwards);
        let is_beside = |cells: f64| cells < 0.0 || cells >= CELLS as f64;
        if is_beside(x) || is_beside(y) {
            return Some(false);
        }
        let (column, row) = (x as usize, y as usize);
        let has =
            |sums: &Sums| sums[row + 1][column + 1] + sums[row][column] > sums[row][column + 1] + sums[row + 1][column];
        if has(&self.within) {
            Some(true)
        } else if has(&self.not_outside) {
            None
        } else {
            Some(false)
        }
    }

    /// Returns whether all cells that a box meets are outside of the place.
    pub(super) fn is_outside(&self, bounds: &OutlineBox) -> bool {
        self.count(&self.not_outside, bounds) == 0
    }
}
