//! Tests that equal branches are kept once and freed.

use std::collections::BTreeMap;

use super::*;
use crate::limits::Limits;
use crate::query::{self, Dialect, ParseOptions, Query, normal};
use crate::testing::Random;
use crate::vocabulary::Vocabulary;

/// Returns a condition of up to six nested paths, which may have nested paths themselves.
fn condition(random: &mut Random, depth: usize) -> String {
    let parts = 1 + random.below(6);
    let part = |random: &mut Random| {
        let mut path = format!("{}{}", ["", ".//"][random.below(2)], ["a", "b", "c", "d", "e", "*"][random.below(6)]);
        if random.below(3) == 0 {
            path += ["/a", "//b", "/*"][random.below(3)];
        }
        path
    };
    let parts = (0..parts).map(|_| {
        let path = part(random);
        if depth > 0 && random.below(3) == 0 { format!("{path}[{}]", condition(random, depth - 1)) } else { path }
    });
    parts.collect::<Vec<_>>().join(" and ")
}

/// Random conditions are acquired and released: equal ones are the same branches, none changes, and in the end nothing is
/// left of them.
#[test]
fn branches_come_and_go() {
    for seed in 1..=20_u64 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let namespaces = BTreeMap::<String, String>::new();
        let limits = Limits::default();
        let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
        let mut vocabulary = Vocabulary::new();
        let mut branches = Branches::default();
        let mut held: Vec<(Expr, BranchConjunction)> = Vec::new();
        let mut widest = 0;
        for _ in 0..400 {
            if random.below(5) < 2 && !held.is_empty() {
                let (_, all) = held.swap_remove(random.below(held.len()));
                branches.release(all);
                continue;
            }
            let text = format!("/x[{}]", condition(&mut random, 2));
            let Ok(Query::XPath(expr)) = query::parse(&text, &options, &mut vocabulary) else { panic!("{text}") };
            let Expr::Path(path) = normal::normalise(expr) else { panic!("{text} is no path") };
            let expr = Expr::And(path.steps[0].predicates.clone());
            let all = branches.acquire(&expr).expect("a conjunction of paths");
            widest = widest.max(branches.rest(&all).len());
            held.push((expr, all));
            for (expr, all) in &held {
                let again = branches.acquire(expr).expect("it was one before");
                let both = [all, &again].map(|all| branches.members(all).collect::<Vec<_>>());
                assert_eq!(both[0], both[1], "{expr:?}");
                branches.release(again);
            }
        }
        assert!(widest > 2, "no list was needed");
        held.into_iter().for_each(|(_, all)| branches.release(all));
        assert!(branches.is_empty() && branches.iter().next().is_none());
        assert_eq!(branches.free_lists.len(), branches.lists.len());
        assert!(branches.lists.iter().all(|list| list.is_empty()));
    }
}
