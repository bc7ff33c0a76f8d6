//! Tables of waiting triggers against plain lists.

use std::num::NonZeroU32;

use super::key::{ATOMS_MAX, KeyMask, pack, pack_content, unpack};
use super::table::KeyTable;
use super::waiting::{KeyedTrigger, Waiting};
use crate::plan::Distance;

fn entry(n: u32) -> KeyedTrigger {
    let distance = if n.is_multiple_of(7) { Distance::Any } else { Distance::Up((n % 5) as u16) };
    KeyedTrigger {
        key: pack(distance, n / 3 + 1),
        waiting: Waiting {
            query: n,
            also: NonZeroU32::new(n % 2 * 77),
            below: NonZeroU32::new(n % 5 / 3 * n),
            trigger: n.is_multiple_of(3).then_some(2 * n),
        },
    }
}

fn check(table: &KeyTable, live: &[KeyedTrigger]) {
    for distance in (0..6).map(Distance::Up).chain([Distance::Any, Distance::Level(2)]) {
        for atom in 0..200 {
            let key = pack(distance, atom);
            let mut expected: Vec<_> = live.iter().filter(|e| e.key == key).map(|e| e.waiting).collect();
            let mut kept = vec![key];
            table.select(&mut kept);
            let mut found = Vec::new();
            for place in &kept {
                let list = table.get(place);
                found.extend(list.satisfied().map(|query| Waiting { query, also: None, below: None, trigger: None }));
                found.extend(list.others);
            }
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn every_trigger_is_found_under_its_key_and_no_other() {
    let mut live: Vec<_> = (0..500).map(entry).collect();
    let mut table = KeyTable::new(live.clone());
    check(&table, &live);
    let prefix = |distance| pack(distance, 0);
    let distances = table.distances();
    assert_eq!(*distances.prefixes(4, 1), [prefix(Distance::Up(4)), prefix(Distance::Any)]);
    assert_eq!(*distances.prefixes(5, 1), [prefix(Distance::Any)]);
    assert_eq!(*distances.prefixes(1_000, 1_000), [prefix(Distance::Any)]);
    assert!(!distances.is_own() && !distances.content());
    check(&KeyTable::default(), &[]);

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
    let long = |n| KeyedTrigger {
        key: pack(Distance::Up(u16::from(n % 50 == 0)), 5),
        waiting: Waiting { query: n, also: None, below: None, trigger: (n % 4 == 0).then_some(n) },
    };
    let mut table = KeyTable::default();
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
fn a_mask_holds_its_members_and_atoms_beyond_the_last_share_a_key_that_nothing_waits_for() {
    let mut mask = KeyMask::default();
    let keys: Vec<_> = (1..40).map(|n| pack(Distance::Up(n % 3), u32::from(n) * 31)).collect();
    keys.iter().for_each(|&key| mask.insert(key));
    assert!(keys.iter().all(|&key| mask.may_hold(key)));
    assert!((1000..2000).filter(|&atom| mask.may_hold(pack(Distance::Any, atom))).count() < 500);
    assert_eq!(pack(Distance::Up(3), u32::MAX), pack(Distance::Up(3), ATOMS_MAX));
    assert_eq!(unpack(pack(Distance::Level(3), 9)), (Distance::Level(3), 9));
    assert_eq!(unpack(pack_content(9)), (Distance::Up(0), 9));
}
