//! Places on the Earth: points, lines, areas with holes and circles, and how they lie to each other.
//!
//! Latitudes and longitudes are degrees of WGS 84. A line from one point to the next is straight in the plane of longitude
//! and latitude, as geographic information systems read it; between longitudes that are more than 180 degrees apart it takes
//! the shorter way, across the antimeridian. Distances are those on a sphere of the mean radius of the Earth.
//!
//! - [`sphere`]: distances, and circles
//! - [`bounds`]: boxes of longitudes and latitudes, and a tree of them over the edges of a shape
//! - [`shape`]: lines and areas, laid out in the plane, around the poles too
//! - [`touching`]: what two shapes have in common
//! - [`geometry`]: all of these, and the questions that are asked of them
//! - [`drawing`]: places as lines of a map
//! - [`reading`]: numbers of a text as positions
//! - [`region`]: the regions that queries write
//! - [`question`]: a relation to such a region, as many queries ask it
//! - [`outline`]: what decides most of these questions at a glance; [`outline_boxes`], [`outline_edges`]:
//!   their boxes and edges; [`outline_cells`]: cells over these
//!
//! ```
//! use twigcast_core::util::places::{Effort, Geometry, GeometryPart, Position};
//! use twigcast_core::util::places::region::Region;
//!
//! let region = Region::circle(47.37, 8.54, 20.0).expect("a circle");
//! let winterthur = Geometry::of(vec![GeometryPart::Point(Position::new(47.50, 8.72).expect("a point"))]);
//! assert!(winterthur.is_within(region.part(), &Effort::free()).expect("it is little"));
//! ```

pub mod bounds;
pub mod drawing;
pub mod geometry;
pub mod outline;
pub mod outline_boxes;
mod outline_cells;
mod outline_edges;
pub mod question;
pub mod reading;
pub mod region;
pub mod shape;
pub mod sphere;
#[cfg(test)]
mod tests;
pub mod touching;

pub use bounds::Bounds;
pub use geometry::{Geometry, GeometryPart};
pub use question::{RegionQuestion, RegionRelation};
pub use region::Region;
pub use sphere::{Circle, Position};

/// An error: what was asked takes more than there is left for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// A bound on what questions about places may cost.
pub struct Effort<'c> {
    charge: &'c dyn Fn(u64) -> bool,
}

impl<'c> Effort<'c> {
    /// Creates the effort that `charge` counts, which returns whether there is some left.
    pub fn new(charge: &'c dyn Fn(u64) -> bool) -> Self {
        Self { charge }
    }

    /// Creates an effort without bounds.
    pub fn free() -> Self {
        Self { charge: &|_| true }
    }

    /// Counts some steps.
    ///
    /// # Errors
    /// No more are left.
    #[inline]
    pub fn charge(&self, steps: u64) -> Result<(), TooMuch> {
        if (self.charge)(steps) { Ok(()) } else { Err(TooMuch) }
    }
}
