//! Tests that the lazy DFA is at each element where the NFA is.

use super::super::nfa::AcceptItem;
use super::*;
use crate::access::table::AccessTable;
use crate::ids::{AccessId, LocalId, NamespaceId, TriggerId, TwigId};
use crate::plan::LinearStep;
use crate::predicate::waiters::IndexedTrigger;
use crate::query::ast::NameTest;
use crate::testing::Random;

fn random_name(random: &mut Random, names: u32) -> Name {
    Name { namespace: NamespaceId::from_u32(random.below(2) * 3), local: LocalId::from_u32(1 + random.below(names)) }
}

fn random_path(random: &mut Random, names: u32) -> Vec<LinearStep> {
    let step = |random: &mut Random| {
        let name = random_name(random, names);
        let test = match random.below(8) {
            0 | 1 => NameTest::Any,
            2 => NameTest::Local(name.local),
            3 => NameTest::Namespace(name.namespace),
            _ => NameTest::Name(name),
        };
        LinearStep { descendant: random.below(3) == 0, test }
    };
    (0..1 + random.below(5)).map(|_| step(random)).collect()
}

struct NoKeys;

impl TriggerConditions for NoKeys {
    fn keyed(&self, _: TriggerId) -> Option<IndexedTrigger> {
        None
    }

    fn insert_access(&self, _: AccessId, _: &mut AccessTable) {}

    fn branching(&self, _: TwigId) -> Option<IndexedTrigger> {
        None
    }
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort_unstable();
    list
}

/// Returns the queries that a DFA state accepts and the triggers that wait there, sorted.
fn of_dfa(dfa: &LazyDfa, id: DfaId) -> (Vec<u32>, Vec<TriggerId>) {
    let acceptance = dfa.acceptance(id);
    let candidates = acceptance
        .undecided()
        .and_then(|index| dfa.undecided(index).unindexed.as_ref())
        .map(|others| others.candidates.clone());
    (sorted(dfa.accepts(acceptance).to_vec()), sorted(candidates.unwrap_or_default()))
}

/// Returns the same for a set of NFA states.
fn of_nfa(nfa: &Nfa, active: &[StateId]) -> (Vec<u32>, Vec<TriggerId>) {
    let items = || active.iter().flat_map(|&state| nfa.items(state));
    let accepts = items().filter_map(|item| if let AcceptItem::Accept(query) = item { Some(query) } else { None });
    let triggers = items().filter_map(|item| if let AcceptItem::Trigger(number) = item { Some(number) } else { None });
    (sorted(accepts.collect()), sorted(triggers.collect()))
}

#[test]
fn random_walks_meet_the_same_states() {
    for seed in 1..40 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let names = 2 + random.below(12);
        let mut nfa = Nfa::new();
        let mut items = Vec::new();
        let mut dfa = LazyDfa::new();
        for round in 0..30 {
            for number in 0..random.below(40) {
                let query = round * 40 + number;
                let state = nfa.state_of(&random_path(&mut random, names));
                let item = if random.below(4) == 0 {
                    AcceptItem::Trigger(TriggerId::from_u32(query))
                } else {
                    AcceptItem::Accept(query)
                };
                items.push(nfa.insert_item(state, item));
            }
            for _ in 0..random.below(20).min(items.len() as u32) {
                let item = items.swap_remove(random.below(items.len() as u32) as usize);
                nfa.remove(item);
            }
            if !dfa.is_of(&nfa) {
                dfa.clear();
            }
            dfa.prepare(&nfa, &NoKeys);
            for _ in 0..30 {
                let (mut id, mut active) = (START, vec![INITIAL]);
                for _ in 0..1 + random.below(12) {
                    // Sometimes a name that no query mentions.
                    let name = if random.below(9) == 0 { Name::UNKNOWN } else { random_name(&mut random, names) };
                    id = dfa.next(&nfa, &NoKeys, id, name, usize::MAX).expect("no limit");
                    let mut target = Vec::new();
                    nfa.step(&active, name, &mut target);
                    assert_eq!(of_dfa(&dfa, id), of_nfa(&nfa, &target));
                    assert_eq!(id == DEAD, target.is_empty());
                    active = target;
                }
            }
        }
    }
}

/// Where elements of one name are nested, the number of states depends on the length of the paths, not on the depth of
/// the message.
#[test]
fn recursion_makes_few_states() {
    let mut random = Random(7);
    let mut nfa = Nfa::new();
    for query in 0..300 {
        let path = random_path(&mut random, 3);
        let state = nfa.state_of(&path);
        nfa.insert_item(state, AcceptItem::Accept(query));
    }
    let mut dfa = LazyDfa::new();
    dfa.prepare(&nfa, &NoKeys);
    let mut id = START;
    for depth in 0..3_000 {
        let name = Name { namespace: NamespaceId::NONE, local: LocalId::from_u32(1 + depth % 2) };
        id = dfa.next(&nfa, &NoKeys, id, name, usize::MAX).expect("no limit");
    }
    assert!(dfa.state_count() < 40, "{}", dfa.state_count());
}

#[test]
fn a_full_cache_says_so() {
    let mut nfa = Nfa::new();
    let name = |number| Name { namespace: NamespaceId::NONE, local: LocalId::from_u32(number) };
    for number in 1..50 {
        let step = LinearStep { descendant: true, test: NameTest::Name(name(number)) };
        let state = nfa.state_of(&[step, LinearStep { descendant: false, ..step }]);
        nfa.insert_item(state, AcceptItem::Accept(number));
    }
    let mut dfa = LazyDfa::new();
    dfa.prepare(&nfa, &NoKeys);
    let budget = dfa.bytes() + 2_000;
    let full = (1..50).map(|number| dfa.next(&nfa, &NoKeys, START, name(number), budget)).filter(Result::is_err);
    assert!(full.count() > 0);
    assert!(dfa.bytes() < budget + 2_000);
}
