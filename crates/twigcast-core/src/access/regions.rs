//! Tests for regions, found by the boxes of places.
//!
//! R-trees that are filled at once are better than those that grow, so there are several, as of ranges of numbers (see
//! [`super::intervals`]): what comes is kept apart until it is much, and trees of like size are merged. What goes stays in its
//! tree until half of all is gone; a table says which entry of a test is its last one.

use std::sync::Arc;

use rstar::{AABB, RTree, RTreeObject};

use crate::ids::ConditionId;
use crate::util::cow_map::CowMap;
use crate::util::places::Bounds;

/// Entries that are gone through one by one.
const RECENT_MAX: usize = 64;
/// A tree is merged with the one before unless that is so many times as large.
const MERGED_FACTOR: usize = 4;

/// A box of a region, and the test.
#[derive(Clone, Copy, Debug)]
struct RegionBox {
    bounds: Bounds,
    test: ConditionId,
    /// A number that a test has anew each time that it comes.
    serial: u32,
}

impl RTreeObject for RegionBox {
    type Envelope = AABB<[f64; 2]>;

    fn envelope(&self) -> Self::Envelope {
        envelope(&self.bounds)
    }
}

fn envelope(bounds: &Bounds) -> AABB<[f64; 2]> {
    AABB::from_corners([bounds.west, bounds.south], [bounds.east, bounds.north])
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionIndex {
    /// Larger ones first.
    trees: Vec<Arc<RTree<RegionBox>>>,
    recent: Vec<RegionBox>,
    /// The serial numbers of the tests that there are.
    serials: CowMap<ConditionId, u32>,
    next_serial: u32,
    /// Tests that have gone since everything was put together.
    gone: usize,
}

impl RegionIndex {
    /// Adds a test.
    pub(super) fn insert(&mut self, test: ConditionId, boxes: &[Bounds]) {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1);
        self.serials.insert(test, serial);
        self.recent.extend(boxes.iter().map(|&bounds| RegionBox { bounds, test, serial }));
        if self.recent.len() > RECENT_MAX {
            let mut boxes = std::mem::take(&mut self.recent);
            while let Some(smallest) = self.trees.pop_if(|tree| tree.size() < MERGED_FACTOR * boxes.len()) {
                boxes.extend(smallest.iter().copied());
            }
            boxes.retain(|entry| self.is_there(entry));
            self.trees.push(Arc::new(RTree::bulk_load(boxes)));
        }
    }

    /// Removes a test.
    pub(super) fn remove(&mut self, test: ConditionId) {
        if self.serials.remove(&test).is_none() {
            return;
        }
        self.gone += 1;
        if self.gone > self.serials.len() + RECENT_MAX {
            self.rebuild();
        }
    }

    fn rebuild(&mut self) {
        let trees = std::mem::take(&mut self.trees);
        let mut boxes = std::mem::take(&mut self.recent);
        trees.iter().for_each(|tree| boxes.extend(tree.iter().copied()));
        boxes.retain(|entry| self.is_there(entry));
        self.gone = 0;
        if boxes.len() > RECENT_MAX {
            self.trees.push(Arc::new(RTree::bulk_load(boxes)));
        } else {
            self.recent = boxes;
        }
    }

    fn is_there(&self, entry: &RegionBox) -> bool {
        self.serials.get(&entry.test) == Some(&entry.serial)
    }

    /// Appends the tests of which a box meets one of these; some of them more than once.
    pub(super) fn append_of(&self, boxes: &[Bounds], tests: &mut Vec<ConditionId>) {
        for bounds in boxes {
            let sought = envelope(bounds);
            for tree in &self.trees {
                let found = tree.locate_in_envelope_intersecting(&sought).filter(|entry| self.is_there(entry));
                tests.extend(found.map(|entry| entry.test));
            }
            let found = self.recent.iter().filter(|entry| entry.bounds.meets(bounds) && self.is_there(entry));
            tests.extend(found.map(|entry| entry.test));
        }
    }

    /// Returns the bytes on the heap, by estimate.
    pub(super) fn bytes(&self) -> usize {
        let boxes = self.trees.iter().map(|tree| tree.size()).sum::<usize>() + self.recent.capacity();
        // Inner nodes take about a sixth more.
        boxes * (size_of::<RegionBox>() + 16) * 7 / 6 + self.serials.capacity() * size_of::<(ConditionId, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Tests come and go at random, under numbers that are used again. Those are found that a look at each of them finds.
    #[test]
    fn regions_are_found_by_the_boxes_that_they_meet() {
        for seed in 1..6_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (mut index, mut live): (RegionIndex, Vec<(ConditionId, Bounds)>) = Default::default();
            let mut kept: Vec<(RegionIndex, Vec<(ConditionId, Bounds)>)> = Vec::new();
            for _ in 0..1_200 {
                let mut corner = |size: u64| {
                    let (west, south) = (random.below(100) as f64, random.below(100) as f64);
                    Bounds {
                        west,
                        south,
                        east: west + random.below(size) as f64,
                        north: south + random.below(size) as f64,
                    }
                };
                let (bounds, sought) = (corner(20), corner(30));
                let test = ConditionId::from_u32(random.below(500) as u32);
                match live.iter().position(|(existing, _)| *existing == test) {
                    Some(position) => {
                        live.swap_remove(position);
                        index.remove(test);
                    }
                    None => {
                        live.push((test, bounds));
                        index.insert(test, &[bounds]);
                    }
                }
                let found = |index: &RegionIndex| {
                    let mut tests = Vec::new();
                    index.append_of(&[sought], &mut tests);
                    tests.sort_unstable();
                    tests
                };
                let expected = |live: &[(ConditionId, Bounds)]| {
                    let mut tests: Vec<_> =
                        live.iter().filter(|(_, bounds)| bounds.meets(&sought)).map(|(test, _)| *test).collect();
                    tests.sort_unstable();
                    tests
                };
                assert_eq!(found(&index), expected(&live));
                if let Some((index, live)) = kept.last() {
                    assert_eq!(found(index), expected(live), "a clone has what it had");
                }
                if random.below(100) == 0 {
                    kept.push((index.clone(), live.clone()));
                }
            }
        }
    }
}
