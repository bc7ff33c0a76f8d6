//! Tests with the published example, and of the NFA shrinking again.

use super::*;
use crate::ids::ItemId;
use crate::ids::{LocalId, NamespaceId};

fn step(descendant: bool, test: NameTest) -> LinearStep {
    LinearStep { descendant, test }
}

fn name(local: u32) -> Name {
    Name { namespace: NamespaceId::NONE, local: LocalId::from_u32(local) }
}

const A: u32 = 1;
const B: u32 = 2;
const C: u32 = 3;

/// The worked example of Diao 2005, section 4.3: eight queries share thirteen states.
#[test]
fn the_published_example_shares_thirteen_states() {
    let named = |descendant, local| step(descendant, NameTest::Name(name(local)));
    let star = step(false, NameTest::Any);
    let queries = [
        vec![named(false, A), named(false, B)],
        vec![named(false, A), named(false, C)],
        vec![named(false, A), named(false, B), named(false, C)],
        vec![named(false, A), named(true, B), named(false, C)],
        vec![named(false, A), star, named(false, C)],
        vec![named(false, A), named(true, C)],
        vec![named(false, A), star, star, named(false, C)],
        vec![named(false, A), named(false, B), named(false, C)],
    ];
    let mut nfa = Nfa::new();
    let items: Vec<ItemId> =
        (0..).zip(&queries).map(|(i, path)| insert(&mut nfa, path, AcceptItem::Accept(i))).collect();
    assert_eq!(nfa.state_count(), 13);

    for path in &queries {
        let state = nfa.find(path).expect("a path that was inserted");
        assert_eq!(nfa.path_of(state), *path);
    }
    assert_eq!(nfa.find(&[named(true, A)]), None);

    // All but the second and the seventh query match <a><b><c/></b></a>.
    let mut matched = Vec::new();
    let mut active = vec![INITIAL];
    for local in [A, B, C] {
        let mut target = Vec::new();
        nfa.step(&active, name(local), &mut target);
        for &state in &target {
            matched.extend(nfa.items(state));
        }
        active = target;
    }
    let mut numbers: Vec<u32> =
        matched.into_iter().map(|item| if let AcceptItem::Accept(n) = item { n } else { 99 }).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [0, 2, 3, 4, 5, 7]);

    for item in &items[1..] {
        nfa.remove(*item);
    }
    assert_eq!(nfa.state_count(), 3);
    let again = insert(&mut nfa, &queries[2], AcceptItem::Accept(2));
    assert_eq!(nfa.state_count(), 4);
    nfa.remove(again);
    nfa.remove(items[0]);
    assert_eq!(nfa.state_count(), 1);
    assert!(nfa.edges.is_empty());
}

fn insert(nfa: &mut Nfa, path: &[LinearStep], item: AcceptItem) -> ItemId {
    let state = nfa.state_of(path);
    nfa.insert_item(state, item)
}

/// With more additions than are kept, one who follows often gets all of them, and one who does not gets `None`.
#[test]
fn additions_reach_those_who_follow_often() {
    let mut nfa = Nfa::new();
    let path = [LinearStep { descendant: false, test: NameTest::Any }];
    let (first, mut position) = (nfa.position(), nfa.position());
    let mut received = Vec::new();
    for query in 0..3 * ADDED_MAX as u32 {
        let state = nfa.state_of(&path);
        nfa.insert_item(state, AcceptItem::Accept(query));
        if query % 1_000 == 0 {
            received.extend(nfa.added_since(position).expect("few additions are kept").iter().map(|&(_, item)| item));
            position = nfa.position();
        }
    }
    assert!(received.into_iter().eq((0..=3 * ADDED_MAX as u32 / 1_000 * 1_000).map(AcceptItem::Accept)));
    assert!(nfa.added_since(first).is_none());
    let item = nfa.insert_item(StateId::from_u32(1), AcceptItem::Accept(0));
    nfa.remove(item);
    assert!(nfa.added_since(position).is_none(), "something was removed");
}
