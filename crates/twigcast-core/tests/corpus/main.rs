//! The cases of `tests/corpus`, each run by every way into the core. A new one adds a function here.

mod cases;
mod checks;
mod engines;

use std::collections::BTreeMap;

use twigcast_core::engine::{Engine, Matcher};
use twigcast_core::limits::Limits;
use twigcast_core::stream::encode::NameEncoding;

use cases::{Case, CaseQuery};
use checks::{Answer, Runner};
use engines::Reads;

fn no_answer(case: &Case) -> Option<&'static str> {
    if case.message.is_none() {
        return Some("the core reads UTF-8");
    }
    if case.matches.is_none() && case.error.is_none() {
        return Some("the query is refused, whichever way it would run");
    }
    None
}

/// Cases with the same limits: their subscriptions go into one engine, under keys that begin with the case's number.
struct Group<'a> {
    limits: Limits,
    cases: Vec<&'a Case>,
}

impl<'a> Group<'a> {
    fn subscriptions(&self) -> Vec<(String, &'a CaseQuery)> {
        let keyed = |(number, case): (usize, &&'a Case)| {
            case.accepted().map(move |query| (format!("{number} {}", query.key), query)).collect::<Vec<_>>()
        };
        self.cases.iter().enumerate().flat_map(keyed).collect()
    }

    /// Asks once about each message, and notes what that says of each case.
    fn ask(&self, runner: &mut Runner, mut answer_to: impl FnMut(&[u8]) -> Answer) {
        let mut by_message: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (number, case) in self.cases.iter().enumerate() {
            by_message.entry(case.message.as_deref().expect("UTF-8")).or_default().push(number);
        }
        for (message, numbers) in by_message {
            let answer = answer_to(message);
            for number in numbers {
                runner.answer(self.cases[number], &answer.part(number));
            }
        }
    }
}

fn groups<'a>(
    runner: &mut Runner,
    cases: &'a [Case],
    reason: impl Fn(&Case) -> Option<&'static str>,
) -> Vec<Group<'a>> {
    let mut by_limits: BTreeMap<&BTreeMap<String, usize>, Vec<&'a Case>> = BTreeMap::new();
    for case in cases {
        if runner.takes(case, &reason) {
            by_limits.entry(&case.limits).or_default().push(case);
        }
    }
    by_limits.into_iter().map(|(limits, cases)| Group { limits: engines::limits(limits), cases }).collect()
}

#[test]
fn each_case_by_itself() {
    let mut runner = Runner::new("core");
    for case in &cases::all() {
        if !runner.takes(case, no_answer) {
            continue;
        }
        let message = case.message.as_deref().expect("UTF-8");
        let mut engine = Engine::new(engines::limits(&case.limits));
        for query in case.accepted() {
            engines::add(&mut engine, &query.key, query).unwrap_or_else(|refusal| panic!("{}: {refusal:?}", case.id));
        }
        let mut matcher = Matcher::new();
        let asked: Vec<String> = case.nodes.keys().cloned().collect();
        runner.answer(case, &engines::match_keys(&engine, &mut matcher, message));
        runner.answer(case, &engines::count(&engine, &mut matcher, message, &asked));
        runner.answer(case, &engines::deliver(&engine, &mut matcher, message));
    }
    runner.finish();
}

#[test]
fn refusals() {
    let mut runner = Runner::new("core-refusals");
    for case in &cases::all() {
        if !runner.takes(case, |_| None) {
            continue;
        }
        let mut engine = Engine::new(engines::limits(&case.limits));
        let mut faults = Vec::new();
        for query in &case.queries {
            match (engines::add(&mut engine, &query.key, query), &query.error) {
                (Ok(()), None) => {}
                (Ok(()), Some(_)) => faults.push(format!("{} is not refused", query.text)),
                (Err(refusal), None) => faults.push(format!("{} is refused: {refusal:?}", query.text)),
                (Err(refusal), Some(expected)) => {
                    let limit_differs = expected.limit.as_deref().is_some_and(|limit| refusal.limit != Some(limit));
                    if refusal.code != expected.code
                        || limit_differs
                        || expected.column.is_some_and(|column| refusal.column != Some(column))
                        || !refusal.message.contains(&expected.contains)
                    {
                        faults.push(format!("{} is refused: {refusal:?}, expected {expected:?}", query.text));
                    }
                }
            }
        }
        runner.add(case, faults);
    }
    runner.finish();
}

/// Asks engines made of the groups of all cases: which subscriptions match, how many nodes they select, who gets what.
fn check_groups(name: &'static str, cases_max: usize, make: impl Fn(&[(String, &CaseQuery)], Limits) -> Engine) {
    let cases = cases::all();
    let mut runner = Runner::new(name);
    let groups = groups(&mut runner, &cases, no_answer);
    let parts =
        groups.iter().flat_map(|group| group.cases.chunks(cases_max).map(|cases| (&group.limits, cases.to_vec())));
    for (limits, cases) in parts {
        let group = Group { limits: limits.clone(), cases };
        let engine = make(&group.subscriptions(), group.limits.clone());
        let mut matcher = Matcher::new();
        group.ask(&mut runner, |message| engines::match_keys(&engine, &mut matcher, message));
        group.ask(&mut runner, |message| engines::count(&engine, &mut matcher, message, &[]));
        group.ask(&mut runner, |message| engines::deliver(&engine, &mut matcher, message));
    }
    runner.finish();
}

#[test]
fn all_cases_in_the_main_segment() {
    check_groups("core-main", usize::MAX, engines::at_once);
}

#[test]
fn all_cases_in_the_recent_segment() {
    // With more subscriptions they would be merged into the main segment.
    let recent = std::cell::Cell::new(0);
    check_groups("core-recent", 200, |subscriptions, limits| {
        let engine = engines::recent(subscriptions, limits);
        recent.set(recent.get() + engines::recent_count(&engine));
        engine
    });
    assert!(recent.get() > 1_000, "only {} queries were in the recent segment", recent.get());
}

#[test]
fn without_memory_for_automata() {
    check_groups("core-nfa", usize::MAX, |subscriptions, limits| {
        engines::at_once(subscriptions, Limits { cache_bytes_max: 1, ..limits })
    });
}

#[test]
fn after_a_snapshot() {
    check_groups("core-snapshot", usize::MAX, |subscriptions, limits| {
        engines::from_snapshot(&engines::at_once(subscriptions, limits), &subscriptions.len().to_string())
    });
}

#[test]
fn results_query_by_query() {
    check_groups("core-interpreter", usize::MAX, |subscriptions, limits| {
        let mut engine = engines::at_once(subscriptions, limits);
        engine.share_results(false);
        engine
    });
}

#[test]
fn results_put_together_when_asked_for() {
    let cases = cases::all();
    let mut runner = Runner::new("core-prepared");
    for group in groups(&mut runner, &cases, no_answer) {
        let engine = engines::at_once(&group.subscriptions(), group.limits.clone());
        let mut matcher = Matcher::new();
        group.ask(&mut runner, |message| engines::prepare(&engine, &mut matcher, message));
    }
    runner.finish();
}

#[test]
fn element_streams() {
    let cases = cases::all();
    let mut runner = Runner::new("core-stream");
    let reason = |case: &Case| match case.limits.contains_key("message_bytes_max") {
        true => Some("a stream has another length than its message"),
        false => no_answer(case),
    };
    for group in groups(&mut runner, &cases, reason) {
        let engine = engines::at_once(&group.subscriptions(), group.limits.clone());
        let mut matcher = Matcher::new();
        for names in [NameEncoding::InFull, NameEncoding::Once] {
            group.ask(&mut runner, |message| engines::match_stream(&engine, &mut matcher, message, names));
        }
    }
    runner.finish();
}

/// The evaluator alone, on messages that were read in different ways.
fn check_evaluator(name: &'static str, reads: Reads) {
    let mut runner = Runner::new(name);
    for case in &cases::all() {
        let reason = |case: &Case| match &case.error {
            Some(_) => Some("messages are refused before they are evaluated"),
            None => no_answer(case),
        };
        if !runner.takes(case, reason) {
            continue;
        }
        let (message, expected) = (case.message.as_deref().expect("UTF-8"), case.matches.as_ref().expect("an answer"));
        for query in case.accepted() {
            match engines::evaluate(query, message, reads) {
                Ok(None) => runner.skip(case, "results are made by other parts of the core".to_owned()),
                Ok(Some(truth)) if truth == expected.contains(&query.key) => runner.add(case, Vec::new()),
                Ok(Some(truth)) => runner.add(case, vec![format!("{} is {truth}", query.text)]),
                Err(error) => runner.answer(case, &Answer::refused(error)),
            }
        }
    }
    runner.finish();
}

#[test]
fn the_evaluator_by_itself() {
    check_evaluator("core-evaluator", Reads::AtOnce);
}

#[test]
fn element_streams_item_by_item() {
    check_evaluator("core-items", Reads::ItemByItem);
}
