//! The questions that many queries ask of the places of a message, each with its own region.

use std::sync::Arc;

use super::bounds::Bounds;
use super::geometry::GeometryPart;
use super::region::Region;
use super::{Effort, Geometry, TooMuch};

/// A relation of a place to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegionRelation {
    /// They have a point in common.
    Intersects,
    /// The place lies in the region.
    Within,
    /// The region lies in the place.
    Contains,
    /// The place is so near the region, which is a point or a circle.
    Nearer {
        /// The distance in kilometres (bits of the `f64`).
        kilometres: u64,
        /// `true` if that distance itself is near enough.
        inclusive: bool,
    },
}

/// A relation and its region.
#[derive(Clone, Debug)]
pub struct RegionQuestion {
    /// The relation.
    pub relation: RegionRelation,
    /// The region.
    pub region: Arc<Region>,
    /// Boxes that meet one of those of each place of which it holds.
    boxes: Box<[Bounds]>,
}

impl PartialEq for RegionQuestion {
    fn eq(&self, other: &Self) -> bool {
        self.relation == other.relation && self.region == other.region
    }
}

impl RegionQuestion {
    /// Creates a question.
    pub fn new(relation: RegionRelation, region: Arc<Region>) -> Self {
        let mut boxes = Vec::new();
        if let RegionRelation::Nearer { kilometres, .. } = relation
            && let Some((centre, radius)) = region.part().circle_kilometres()
        {
            // Wider by more than the arithmetic is inexact.
            let reach = (f64::from_bits(kilometres).max(0.0) + radius) * (1.0 + 1e-9) + 1e-6;
            GeometryPart::circle(centre, reach).append_boxes(&mut boxes);
        } else {
            region.part().append_boxes(&mut boxes);
        }
        Self { relation, region, boxes: boxes.into() }
    }

    /// Returns boxes that meet one of those of each place of which it holds.
    pub fn boxes(&self) -> &[Bounds] {
        &self.boxes
    }

    /// Returns whether it holds of a place.
    pub fn holds(&self, place: &Geometry, effort: &Effort<'_>) -> Result<bool, TooMuch> {
        let region = self.region.part();
        Ok(match self.relation {
            RegionRelation::Intersects => place.intersects(region, effort)?,
            RegionRelation::Within => place.is_within(region, effort)?,
            RegionRelation::Contains => place.contains(region, effort)?,
            RegionRelation::Nearer { kilometres, inclusive } => {
                let limit = f64::from_bits(kilometres);
                let distance = place.kilometres_to(region, limit.max(0.0), effort)?;
                if inclusive { distance <= limit } else { distance < limit }
            }
        })
    }

    /// Returns the bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.region.bytes() + size_of_val(&*self.boxes)
    }
}
