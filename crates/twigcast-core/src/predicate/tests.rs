//! Tables of waiting triggers against plain lists.

use std::num::NonZeroU32;

use super::packed::{ATOMS_MAX, pack, pack_content, unpack};
use super::shape_lists::ShapeWaitLists;
use super::trigger_table::TriggerTable;
use super::waiters::{IndexedTrigger, Waiter};
use crate::ids::{AtomId, BranchId, ShapeId};
use crate::plan::Distance;
use crate::testing::Random;

fn entry(n: u32) -> IndexedTrigger {
    let distance = if n.is_multiple_of(7) { Distance::Level(3) } else { Distance::Up((n % 5) as u16) };
    IndexedTrigger {
        condition: pack(distance, AtomId::from_u32(n / 3 + 1)),
        waiting: Waiter {
            query: n,
            also: NonZeroU32::new(n % 2 * 77),
            below: BranchId::from_u32(n % 5 / 3 * n),
            trigger: n.is_multiple_of(3).then_some(2 * n),
        },
    }
}

fn check(table: &TriggerTable, live: &[IndexedTrigger]) {
    for distance in (0..6).map(Distance::Up).chain([Distance::Level(3), Distance::Level(2)]) {
        for atom in 0..200 {
            let condition = pack(distance, AtomId::from_u32(atom));
            let mut expected: Vec<_> = live.iter().filter(|e| e.condition == condition).map(|e| e.waiting).collect();
            let mut kept = vec![condition];
            table.select(&mut kept);
            let mut atoms = Vec::new();
            for position in &kept {
                let list = table.get(position);
                atoms.extend(list.satisfied().map(|query| Waiter {
                    query,
                    also: None,
                    below: BranchId::NONE,
                    trigger: None,
                }));
                atoms.extend(list.multi_condition);
            }
            expected.sort_unstable();
            atoms.sort_unstable();
            assert_eq!(atoms, expected);
        }
    }
}

#[test]
fn every_trigger_is_found_under_its_key_and_no_other() {
    let mut live: Vec<_> = (0..500).map(entry).collect();
    let mut table = TriggerTable::new(live.clone());
    check(&table, &live);
    let prefix = |distance| pack(distance, AtomId::NONE);
    let distances = table.distances();
    assert_eq!(*distances.prefixes(4, 1), [prefix(Distance::Up(4))]);
    assert_eq!(*distances.prefixes(5, 3), [prefix(Distance::Level(3))]);
    assert_eq!(*distances.prefixes(1_000, 1_000), []);
    assert!(!distances.is_own() && !distances.content());
    check(&TriggerTable::default(), &[]);

    // Entries go and come in an order unlike that of their making.
    for n in (0..500).rev().filter(|n| n % 3 != 1) {
        assert!(table.remove(entry(n)) && !table.remove(entry(n)));
    }
    live.retain(|e| e.waiting.query % 3 == 1);
    check(&table, &live);
    for n in (0..500).filter(|n| n % 3 == 2) {
        table.insert(entry(n));
        live.push(entry(n));
    }
    check(&table, &live);
    for e in &live {
        assert!(table.remove(*e));
    }
    assert!(table.is_empty());
}

#[test]
fn long_lists_grow_and_shrink_within_their_memory() {
    let long = |n| IndexedTrigger {
        condition: pack(Distance::Up(u16::from(n % 50 == 0)), AtomId::from_u32(5)),
        waiting: Waiter { query: n, also: None, below: BranchId::NONE, trigger: (n % 4 == 0).then_some(n) },
    };
    let mut table = TriggerTable::default();
    let mut sizes = Vec::new();
    for _ in 0..3 {
        (0..1_000).for_each(|n| table.insert(long(n)));
        check(&table, &(0..1_000).map(long).collect::<Vec<_>>());
        sizes.push(table.bytes());
        for n in (0..1_000).filter(|n| n % 10 != 0) {
            assert!(table.remove(long(n)));
        }
        check(&table, &(0..1_000).filter(|n| n % 10 == 0).map(long).collect::<Vec<_>>());
        for n in (0..1_000).filter(|n| n % 10 == 0) {
            assert!(table.remove(long(n)));
        }
        assert!(table.is_empty());
    }
    assert_eq!(sizes[1], sizes[2], "free blocks are used again");
}

#[test]
fn atoms_beyond_the_last_share_a_key_that_nothing_waits_for() {
    assert_eq!(pack(Distance::Up(3), AtomId::from_u32(u32::MAX)), pack(Distance::Up(3), ATOMS_MAX));
    assert_eq!(unpack(pack(Distance::Level(3), AtomId::from_u32(9))), (Distance::Level(3), AtomId::from_u32(9)));
    assert_eq!(unpack(pack_content(AtomId::from_u32(9))), (Distance::Up(0), AtomId::from_u32(9)));
}

/// What is left of a list at elements of a shape is what a look at each entry leaves, as long as the table does not change.
#[test]
fn lists_are_narrowed_down_to_what_holds() {
    for seed in 1..30_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut table = TriggerTable::default();
        let mut narrowed = ShapeWaitLists::default();
        let mut live: Vec<IndexedTrigger> = Vec::new();
        let mut existing = 0;
        for query in 0..600 {
            let mut some = |of: u32| NonZeroU32::new(if random.below(2) == 0 { 1 + random.below(of) } else { 0 });
            let waiting = Waiter {
                query,
                also: some(9).filter(|n| n.get() > 5),
                below: BranchId::from_u32(some(8).map_or(0, NonZeroU32::get)),
                trigger: some(20).map(u32::from),
            };
            let waiting = Waiter { trigger: waiting.trigger.filter(|&number| number > 15), ..waiting };
            live.push(IndexedTrigger {
                condition: pack(Distance::Up(0), AtomId::from_u32(1 + random.below(4))),
                waiting,
            });
            table.insert(live[live.len() - 1]);
            if random.below(3) == 0 {
                assert!(table.remove(live.swap_remove(random.below(live.len() as u64) as usize)));
            }
            let shape = random.below(3);
            let conditions: Vec<_> = (1..6)
                .filter(|_| random.below(2) == 0)
                .map(|atom| pack(Distance::Up(0), AtomId::from_u32(atom)))
                .collect();
            // Of shape 0 nothing holds, of the others some of the branches.
            let holds = |branch: BranchId| shape > 0 && branch.as_u32().is_multiple_of(shape + 2);
            for _ in 0..2 {
                let mut positions = conditions.clone();
                table.select(&mut positions);
                let sought = (&table, &conditions[..], ShapeId::from_u32(shape));
                let hash = narrowed.hash(sought);
                let candidate = narrowed.candidate(hash);
                let start = candidate
                    .and_then(|candidate| narrowed.find(sought, hash, candidate))
                    .or_else(|| narrowed.insert(sought, &positions, holds));
                let Some(start) = start else { continue };
                existing += 1;
                let list = narrowed.get(start);
                let mut atoms: Vec<_> = list
                    .satisfied()
                    .map(|query| Waiter { query, also: None, below: BranchId::NONE, trigger: None })
                    .collect();
                atoms.extend(list.multi_condition);
                let here = live.iter().filter(|entry| conditions.contains(&entry.condition)).map(|entry| entry.waiting);
                let mut expected: Vec<_> = here
                    .filter(|waiting| waiting.below == BranchId::NONE || holds(waiting.below))
                    .map(|waiting| Waiter { below: BranchId::NONE, ..waiting })
                    .collect();
                atoms.sort_unstable();
                expected.sort_unstable();
                assert_eq!(atoms, expected);
            }
        }
        assert!(existing > 400, "{existing}");
    }
}
