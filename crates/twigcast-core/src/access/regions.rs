//! Queries that wait for places, found by the boxes of their regions.
//!
//! R-trees that are filled at once are better than those that grow, so there are several, as of ranges of numbers (see
//! [`super::intervals`]): what comes is kept apart until it is much, and trees of like size are merged. What goes stays in its
//! tree until half of all is gone; its number is noted.
//!
//! A tree is packed: its boxes lie in rows, ordered in strips (Leutenegger et al., "STR: A Simple and Efficient Algorithm for
//! R-Tree Packing", 1997), and the outlines of its regions ([`crate::util::places::outline`]) in the same order. So regions that
//! are near each other on the Earth are so in memory, too, and most are decided without anything else being read.

use std::ops::Range;
use std::sync::Arc;

use super::entry::AccessEntry;
use crate::ids::ConditionId;
use crate::util::cow_map::CowMap;
use crate::util::places::outline::{BoxNeed, FormView, GeometryOutline, OutlineDisc, RegionForm, RegionOutline};
use crate::util::places::outline_boxes::{InnerBox, OutlineBox};
use crate::util::places::{Geometry, RegionQuestion};

/// Entries that are gone through one by one.
const RECENT_MAX: usize = 64;
/// A tree is merged with the one before unless that is so many times as large.
const MERGED_FACTOR: usize = 4;
/// Boxes that each level has one of, of the level below. With the regions of `benchmarks/places.py`, 16 took 5 % longer, and 8
/// took 10 %.
const FAN: usize = 32;

/// Corners in a cache line.
const LINE_CORNERS: usize = 8;

/// A query that waits for places of a region, and what decides most of them: half a cache line.
#[derive(Clone, Copy, Debug)]
struct RegionEntry {
    outer: OutlineBox,
    inner: InnerBox,
    entry: AccessEntry,
}

/// The rest of such an entry.
#[derive(Clone, Copy, Debug)]
struct RegionDetail {
    test: ConditionId,
    /// A number that each entry has for itself.
    serial: u32,
    needs: BoxNeed,
    form: StoredForm,
}

/// Where the form of an outline is kept.
#[derive(Clone, Copy, Debug)]
enum StoredForm {
    None,
    Disc(u32),
    Area(u32, u32),
}

/// Entries with their boxes, and a tree of these if they are many.
#[derive(Clone, Debug, Default)]
struct PackedRegions {
    entries: Vec<RegionEntry>,
    /// In the same order.
    details: Vec<RegionDetail>,
    discs: Vec<OutlineDisc>,
    corners: Vec<[f32; 2]>,
    /// Boxes of the boxes, the lowest level first.
    levels: Vec<Vec<OutlineBox>>,
}

/// A query that waits for a region.
#[derive(Clone, Copy, Debug)]
struct StoredRegion {
    /// The number of its first box; those of the others follow.
    serial: u32,
    /// How often it was added and not removed.
    times: u32,
}

/// An answer of the index: what is known of a query without its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearRegion {
    /// The query that waits for it.
    pub entry: AccessEntry,
    /// `true` if the test is passed; `false` if it has to be decided.
    pub is_sure: bool,
    /// Where the rest of the entry is.
    list: u32,
    index: u32,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct RegionIndex {
    /// Larger ones first.
    trees: Vec<Arc<PackedRegions>>,
    recent: PackedRegions,
    /// The numbers of what has gone since everything was put together.
    gone: CowMap<u32, ()>,
    /// What has not gone, by which it is found again: among regions that are equal, the tree finds none before the others.
    stored: CowMap<(ConditionId, AccessEntry), StoredRegion>,
    next_serial: u32,
    /// Entries that have not gone.
    len: usize,
}

impl PackedRegions {
    fn len(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, entry: RegionEntry, detail: RegionDetail, form: FormView<'_>) {
        let form = match form {
            FormView::None => StoredForm::None,
            FormView::Disc(disc) => {
                self.discs.push(*disc);
                StoredForm::Disc(self.discs.len() as u32 - 1)
            }
            FormView::Area(corners) => {
                let start = self.corners.len() as u32;
                self.corners.extend_from_slice(corners);
                StoredForm::Area(start, self.corners.len() as u32)
            }
        };
        self.entries.push(entry);
        self.details.push(RegionDetail { form, ..detail });
    }

    fn form(&self, index: usize) -> FormView<'_> {
        match self.details[index].form {
            StoredForm::None => FormView::None,
            StoredForm::Disc(disc) => FormView::Disc(&self.discs[disc as usize]),
            StoredForm::Area(start, end) => FormView::Area(&self.corners[start as usize..end as usize]),
        }
    }

    /// Reads a little of the forms of some entries. Reads that do not depend on each other wait for memory together; the
    /// comparisons that follow would wait for each by itself.
    fn read_ahead(&self, indexes: &[u32]) {
        let mut read = 0.0;
        for &index in indexes {
            match self.details[index as usize].form {
                StoredForm::None => {}
                StoredForm::Disc(disc) => read += self.discs[disc as usize].scale(),
                StoredForm::Area(start, end) => {
                    let line = &self.corners[start as usize..end as usize];
                    read += line.iter().step_by(LINE_CORNERS).map(|corner| f64::from(corner[0])).sum::<f64>();
                }
            }
        }
        std::hint::black_box(read);
    }

    /// Packs entries of several lists.
    fn packed(lists: &[&Self], is_there: impl Fn(&RegionDetail) -> bool) -> Self {
        let mut order: Vec<(f32, f32, u32, u32)> = Vec::new();
        for (list, number) in lists.iter().zip(0..) {
            let there = (0..list.len()).filter(|&index| is_there(&list.details[index]));
            order.extend(there.map(|index| {
                let (x, y) = list.entries[index].outer.twice_middle();
                (x, y, number, index as u32)
            }));
        }
        order.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let groups = order.len().div_ceil(FAN);
        let strip = FAN * (groups as f64).sqrt().ceil().max(1.0) as usize;
        order.chunks_mut(strip).for_each(|strip| strip.sort_unstable_by(|one, other| one.1.total_cmp(&other.1)));
        let mut packed = Self::default();
        for (_, _, list, index) in order {
            let (list, index) = (lists[list as usize], index as usize);
            packed.push(list.entries[index], list.details[index], list.form(index));
        }
        packed.build_levels();
        packed
    }

    fn build_levels(&mut self) {
        let mut boxes: Vec<OutlineBox> = self.entries.iter().map(|entry| entry.outer).collect();
        while boxes.len() > FAN {
            let of_group = |group: &[OutlineBox]| {
                let mut all = OutlineBox::NONE;
                group.iter().for_each(|bounds| all.extend(bounds));
                all
            };
            boxes = boxes.chunks(FAN).map(of_group).collect();
            self.levels.push(boxes.clone());
        }
    }

    /// Calls back with the index of each entry whose box meets another one.
    fn visit(&self, sought: &OutlineBox, found: &mut impl FnMut(usize)) {
        match self.levels.len() {
            0 => self.visit_entries(0..self.entries.len(), sought, found),
            levels => self.visit_level(levels - 1, 0..self.levels[levels - 1].len(), sought, found),
        }
    }

    fn visit_level(&self, level: usize, boxes: Range<usize>, sought: &OutlineBox, found: &mut impl FnMut(usize)) {
        for index in boxes {
            if !self.levels[level][index].meets(sought) {
                continue;
            }
            let below = index * FAN..(index + 1) * FAN;
            match level.checked_sub(1) {
                Some(level) => {
                    self.visit_level(level, below.start..below.end.min(self.levels[level].len()), sought, found);
                }
                None => self.visit_entries(below.start..below.end.min(self.entries.len()), sought, found),
            }
        }
    }

    fn visit_entries(&self, indexes: Range<usize>, sought: &OutlineBox, found: &mut impl FnMut(usize)) {
        for (entry, index) in self.entries[indexes.clone()].iter().zip(indexes) {
            if entry.outer.meets(sought) {
                found(index);
            }
        }
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<RegionEntry>()
            + self.details.capacity() * size_of::<RegionDetail>()
            + self.discs.capacity() * size_of::<OutlineDisc>()
            + self.corners.capacity() * size_of::<[f32; 2]>()
            + self.levels.iter().map(|level| level.capacity() * size_of::<OutlineBox>()).sum::<usize>()
    }
}

impl RegionIndex {
    /// Lets a query wait for places as a question asks.
    pub fn insert(&mut self, test: ConditionId, question: &RegionQuestion, entry: AccessEntry) {
        if let Some(stored) = self.stored.get_mut(&(test, entry)) {
            stored.times += 1;
            return;
        }
        self.stored.insert((test, entry), StoredRegion { serial: self.next_serial, times: 1 });
        let outline = RegionOutline::of(question);
        let form = match &outline.form {
            RegionForm::None => FormView::None,
            RegionForm::Disc(disc) => FormView::Disc(disc),
            RegionForm::Area(corners) => FormView::Area(corners),
        };
        for bounds in question.boxes() {
            let serial = self.next_serial;
            self.next_serial = serial.wrapping_add(1);
            let detail = RegionDetail { test, serial, needs: outline.needs, form: StoredForm::None };
            self.recent.push(RegionEntry { outer: OutlineBox::of(bounds), inner: outline.inner, entry }, detail, form);
            self.len += 1;
        }
        if self.recent.len() > RECENT_MAX {
            let recent = std::mem::take(&mut self.recent);
            let mut merged = vec![Arc::new(recent)];
            let mut size = merged[0].len();
            while let Some(smallest) = self.trees.pop_if(|tree| tree.len() < MERGED_FACTOR * size) {
                size += smallest.len();
                merged.push(smallest);
            }
            self.put_together(&merged);
        }
    }

    fn put_together(&mut self, lists: &[Arc<PackedRegions>]) {
        let lists: Vec<&PackedRegions> = lists.iter().map(|list| &**list).collect();
        let is_there = |detail: &RegionDetail| self.is_there(detail);
        let packed = PackedRegions::packed(&lists, is_there);
        if !self.gone.is_empty() {
            lists.iter().flat_map(|list| &list.details).for_each(|detail| _ = self.gone.remove(&detail.serial));
        }
        if packed.len() > 0 {
            self.trees.push(Arc::new(packed));
        }
    }

    /// Removes what [`Self::insert`] added.
    pub fn remove(&mut self, test: ConditionId, question: &RegionQuestion, entry: AccessEntry) {
        let Some(stored) = self.stored.get_mut(&(test, entry)) else { return };
        stored.times -= 1;
        if stored.times > 0 {
            return;
        }
        let mut serial = stored.serial;
        self.stored.remove(&(test, entry));
        for _ in question.boxes() {
            self.gone.insert(serial, ());
            serial = serial.wrapping_add(1);
            self.len -= 1;
        }
        if self.gone.len() > self.len + RECENT_MAX || self.len == 0 {
            let mut lists = std::mem::take(&mut self.trees);
            lists.push(Arc::new(std::mem::take(&mut self.recent)));
            self.put_together(&lists);
        }
    }

    fn lists(&self) -> impl Iterator<Item = &PackedRegions> {
        self.trees.iter().map(|tree| &**tree).chain([&self.recent])
    }

    #[inline]
    fn is_there(&self, detail: &RegionDetail) -> bool {
        self.gone.get(&detail.serial).is_none()
    }

    /// Returns whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Visits all that waits; what waits for several boxes more than once.
    pub fn for_each(&self, mut visit: impl FnMut(AccessEntry)) {
        let entries = self.lists().flat_map(|list| list.entries.iter().zip(&list.details));
        entries.filter(|(_, detail)| self.is_there(detail)).for_each(|(stored, _)| visit(stored.entry));
    }

    /// Appends what waits for a place or has to be compared with it exactly, of what is open; some of it more than once. Returns
    /// the steps that this took.
    pub fn append_near(
        &self,
        place: &Geometry,
        is_open: impl Fn(AccessEntry) -> bool,
        near: &mut Vec<NearRegion>,
    ) -> u64 {
        let mut outline = GeometryOutline::of(place.parts(), place.boxes());
        let all_are_there = self.gone.is_empty();
        let mut visited = 0;
        let mut undecided: Vec<u32> = Vec::new();
        for bounds in place.boxes() {
            let sought = OutlineBox::of(bounds);
            for (list, number) in self.lists().zip(0..) {
                let of_index = |index: u32, is_sure| {
                    let entry = list.entries[index as usize].entry;
                    NearRegion { entry, is_sure, list: number, index }
                };
                undecided.clear();
                list.visit(&sought, &mut |index| {
                    let stored = &list.entries[index];
                    visited += 1;
                    let by_cells = match &mut outline {
                        Some(outline) => outline.meets_by_cells(&stored.outer, stored.inner),
                        None => None,
                    };
                    if by_cells != Some(false)
                        && is_open(stored.entry)
                        && (all_are_there || self.is_there(&list.details[index]))
                    {
                        match by_cells {
                            None => undecided.push(index as u32),
                            _ => near.push(of_index(index as u32, true)),
                        }
                    }
                });
                let Some(outline) = &mut outline else {
                    near.extend(undecided.iter().map(|&index| of_index(index, false)));
                    continue;
                };
                list.read_ahead(&undecided);
                for &index in &undecided {
                    let (stored, detail) = (&list.entries[index as usize], &list.details[index as usize]);
                    let form = list.form(index as usize);
                    let holds = outline.holds(detail.needs, &stored.outer, stored.inner, form);
                    if holds != Some(false) {
                        near.push(of_index(index, holds.is_some()));
                    }
                }
            }
        }
        visited + outline.map_or(0, |mut outline| outline.take_steps())
    }

    /// Returns the test that an answer of [`Self::append_near`] is about.
    pub fn test_of(&self, near: &NearRegion) -> Option<ConditionId> {
        let list = self.trees.get(near.list as usize).map_or(&self.recent, |tree| &**tree);
        list.details.get(near.index as usize).map(|detail| detail.test)
    }

    /// Returns the bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        self.lists().map(PackedRegions::bytes).sum::<usize>()
            + self.gone.capacity() * size_of::<(u32, ())>()
            + self.stored.capacity() * size_of::<((ConditionId, AccessEntry), StoredRegion)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;
    use crate::util::places::{Effort, GeometryPart, Region, RegionRelation};

    type Live = Vec<(ConditionId, RegionQuestion, AccessEntry)>;

    fn question(random: &mut Random) -> RegionQuestion {
        let at = |random: &mut Random, size: u64| random.below(size) as f64 * 0.5;
        let (south, west) = (at(random, 100) - 25.0, at(random, 100) - 25.0);
        let region = match random.below(3) {
            0 => Region::point(south, west),
            1 => Region::circle(south, west, 1.0 + at(random, 1_000)),
            _ => Region::between(south, west, south + 0.5 + at(random, 20), west + 0.5 + at(random, 20)),
        };
        let relation = match random.below(4) {
            0 => RegionRelation::Within,
            1 => RegionRelation::Contains,
            _ => RegionRelation::Intersects,
        };
        RegionQuestion::new(relation, Arc::new(region.expect("a region")))
    }

    /// The entries for which a place is as asked: those that are sure, and of the others those whose question holds.
    fn found(index: &RegionIndex, live: &Live, place: &Geometry) -> Vec<AccessEntry> {
        let mut near = Vec::new();
        index.append_near(place, |_| true, &mut near);
        let holds = |near: &&NearRegion| {
            let test = index.test_of(near).expect("it has a test");
            let is_it = |(of, _, entry): &&(_, RegionQuestion, _)| (*of, *entry) == (test, near.entry);
            let question = &live.iter().find(is_it).expect("what is found is there").1;
            near.is_sure || question.holds(place, &Effort::free()).expect("free")
        };
        let mut entries: Vec<_> = near.iter().filter(holds).map(|near| near.entry).collect();
        entries.sort_unstable();
        entries.dedup();
        entries
    }

    fn expected(live: &Live, place: &Geometry) -> Vec<AccessEntry> {
        let holds = |question: &RegionQuestion| question.holds(place, &Effort::free()).expect("free");
        let mut entries: Vec<_> =
            live.iter().filter(|(_, question, _)| holds(question)).map(|(_, _, entry)| *entry).collect();
        entries.sort_unstable();
        entries
    }

    /// Queries come and go at random, under numbers that are used again. Those are found that a look at each of them finds, also
    /// in copies that have what there was when they were made.
    #[test]
    fn regions_are_found_by_the_boxes_that_they_meet() {
        for seed in 1..4_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (mut index, mut live): (RegionIndex, Live) = Default::default();
            let mut copies: Vec<(RegionIndex, Live)> = Vec::new();
            for _ in 0..900 {
                let number = random.below(300) as u32;
                let (test, entry) =
                    (ConditionId::from_u32(number / 2), AccessEntry { residual: ConditionId::NONE, query: number });
                match live.iter().position(|(_, _, existing)| *existing == entry) {
                    Some(position) => {
                        let (_, question, _) = live.swap_remove(position);
                        index.remove(test, &question, entry);
                    }
                    None => {
                        // Those with the same test ask the same.
                        let same = live.iter().find(|(of, ..)| *of == test).map(|(_, question, _)| question.clone());
                        let question = same.unwrap_or_else(|| question(&mut random));
                        index.insert(test, &question, entry);
                        live.push((test, question, entry));
                    }
                }
                assert_eq!(index.is_empty(), live.is_empty());
                let place = Geometry::of(vec![question(&mut random).region.part().clone()]);
                assert_eq!(found(&index, &live, &place), expected(&live, &place));
                if let Some((index, live)) = copies.last() {
                    assert_eq!(found(index, live, &place), expected(live, &place), "a clone has what it had");
                }
                if random.below(100) == 0 {
                    copies.push((index.clone(), live.clone()));
                }
            }
        }
    }

    #[test]
    fn most_regions_are_decided_by_their_outlines() {
        let mut random = Random(5);
        let mut index = RegionIndex::default();
        for number in 0..2_000 {
            let (y, x) = (random.below(1_000) as f64 * 0.01 + 40.0, random.below(1_000) as f64 * 0.01);
            let region = Region::circle(y, x, 5.0 + random.below(40) as f64).expect("a circle");
            let question = RegionQuestion::new(RegionRelation::Intersects, Arc::new(region));
            let entry = AccessEntry { residual: ConditionId::NONE, query: number };
            index.insert(ConditionId::from_u32(number + 1), &question, entry);
        }
        let area = Region::polygon(&["44,4 44.5,4.1 45,4 45.2,4.9 44.8,5.6 44,5 44,4"]).expect("an area");
        let part: GeometryPart = area.part().clone();
        let mut near = Vec::new();
        index.append_near(&Geometry::of(vec![part]), |_| true, &mut near);
        let unsure = near.iter().filter(|near| !near.is_sure).count();
        assert!(near.len() > 50 && unsure * 10 < near.len(), "{unsure} of {}", near.len());
    }
}
