//! Residuals: the rest to be verified at an element that an index has led to, as conditions that queries can share.

use std::rc::Rc;

use super::condition::is_structural;
use super::formula::{Formula, PathPattern, PatternStep, conjunction};
use super::operand::{Relation, ValueTest};
use super::residual_condition::Condition;
use super::route::Frequencies;
use crate::query::ast::{Expr, LinearStep, NameTest};

/// Returns all of some conditions; `None` if there are none.
pub(super) fn all(mut conditions: Vec<Rc<Condition>>) -> Option<Rc<Condition>> {
    if conditions.len() > 1 { Some(Rc::new(Condition::All(conditions))) } else { conditions.pop() }
}

/// Makes conditions of formulas.
#[derive(Clone, Copy)]
pub(super) struct Residuals<'f> {
    /// Which values are rare.
    pub frequencies: &'f dyn Frequencies,
}

impl Residuals<'_> {
    /// Returns the condition that a formula is.
    pub(super) fn of(self, formula: &Formula<'_>) -> Rc<Condition> {
        Rc::new(match formula {
            Formula::Any(alternatives) => Condition::Any(alternatives.iter().map(|list| self.of_list(list)).collect()),
            Formula::Not(list) => Condition::Not(self.of_list(list)),
            Formula::Test(test) => return of_test(test),
            Formula::Path(pattern) => return self.of_path(pattern),
            Formula::Implied(_) => Condition::All(Vec::new()),
            Formula::Opaque(expr) => match ValueTest::of_match(expr) {
                Some(test) => match test.needed_parts() {
                    parts if parts.is_empty() => Condition::Test(test),
                    parts => Condition::All(
                        parts.into_iter().chain([test]).map(|test| Rc::new(Condition::Test(test))).collect(),
                    ),
                },
                None => Condition::Expr(expr.clone().into_owned()),
            },
        })
    }

    fn of_list(self, list: &[Formula<'_>]) -> Rc<Condition> {
        all(self.of_all_but(list, None)).unwrap_or_else(|| Rc::new(Condition::All(Vec::new())))
    }

    /// Returns the conditions that a list is, but for one that is left out, and those that others imply.
    pub(super) fn of_all_but(self, list: &[Formula<'_>], left_out: Option<usize>) -> Vec<Rc<Condition>> {
        let kept = list
            .iter()
            .enumerate()
            .filter(|(index, formula)| Some(*index) != left_out && !matches!(formula, Formula::Implied(_)));
        kept.map(|(_, formula)| self.of(formula)).collect()
    }

    /// Returns the condition that an expression is.
    pub(super) fn of_expr(self, expr: &Expr) -> Rc<Condition> {
        self.of_list(&conjunction([expr]))
    }

    /// Returns a path as a condition. If a value decides at its end, that is an operand whose path is shared by all
    /// queries that ask for other values there; else each element on it is asked for a condition of its own.
    fn of_path(self, pattern: &PathPattern<'_>) -> Rc<Condition> {
        if !pattern.asks_much_of_last()
            && let Some(test) = pattern.as_test(|operand, text| self.frequencies.equality(operand, text))
        {
            return Rc::new(Condition::Test(test));
        }
        let whole = pattern.whole();
        if is_structural(&whole) {
            return Rc::new(Condition::Structure(whole));
        }
        let is_walk = |element: &PatternStep<'_>| !element.step.descendant && element.positional.is_none();
        if !pattern.elements.iter().all(is_walk) {
            return Rc::new(Condition::Expr(whole));
        }
        let mut below: Option<Rc<Condition>> = None;
        for element in pattern.elements.iter().rev() {
            let mut conditions = self.of_all_but(&element.conditions, None);
            conditions.extend(below);
            let condition = all(conditions).unwrap_or_else(|| Rc::new(Condition::All(Vec::new())));
            below = Some(Rc::new(Condition::Child(element.step.test, condition)));
        }
        below.unwrap_or_else(|| Rc::new(Condition::All(Vec::new())))
    }
}

/// Returns the condition that a test is. That a text has none of some words is said of each word, since these are known of the
/// text already.
fn of_test(test: &ValueTest) -> Rc<Condition> {
    let Relation::NoneEquals(texts) = &test.relation else { return Rc::new(Condition::Test(test.clone())) };
    if test.operand.words_of().is_none() {
        return Rc::new(Condition::Test(test.clone()));
    }
    let equality = |text: &str| {
        Rc::new(Condition::Test(ValueTest { operand: test.operand.clone(), relation: Relation::Equals(text.into()) }))
    };
    let mut words: Vec<_> = texts.iter().map(|text| equality(text)).collect();
    let some = match words.len() {
        1 => words.swap_remove(0),
        _ => Rc::new(Condition::Any(words)),
    };
    Rc::new(Condition::Not(some))
}

/// An element on the way from the document node to the one that an index leads to.
#[derive(Clone, Debug)]
pub(super) struct ChainStep {
    /// Its relation to the one before.
    pub step: LinearStep,
    /// The conditions that it has to satisfy.
    pub conditions: Vec<Rc<Condition>>,
    /// The conditions say all of the elements above as well.
    pub is_closed: bool,
}

/// Returns what the last element of a chain has to satisfy, and those above it, where the automaton has found that names and
/// levels are right.
pub(super) fn condition_of(chain: &[ChainStep]) -> Option<Rc<Condition>> {
    let last = chain.last()?;
    let mut conditions = last.conditions.clone();
    if !last.is_closed {
        conditions.extend(above(chain));
    }
    all(conditions)
}

/// Returns what the elements above the last one of a chain have to satisfy, as a condition on the last.
fn above(chain: &[ChainStep]) -> Option<Rc<Condition>> {
    let last = chain.len() - 1;
    let asked = chain[..last].iter().rposition(|step| !step.conditions.is_empty())?;
    // Down to the last `//`, the element of each step is the parent of the next one's; which one it is above that, names
    // have to tell again.
    match chain[asked + 1..].iter().rposition(|step| step.step.descendant) {
        None => {
            let condition = condition_of(&chain[..=asked])?;
            Some(Rc::new(Condition::Above((last - asked) as u16, condition)))
        }
        Some(index) => {
            let descendant = asked + 1 + index;
            let ancestor = Rc::new(Condition::Ancestor(named(&chain[..descendant])));
            let levels = last - descendant;
            Some(if levels == 0 { ancestor } else { Rc::new(Condition::Above(levels as u16, ancestor)) })
        }
    }
}

/// Returns what [`condition_of`] does, and the names and levels that the chain asks for, as one condition.
fn named(chain: &[ChainStep]) -> Rc<Condition> {
    let mut conditions = names(chain);
    conditions.extend(condition_of(chain));
    all(conditions).unwrap_or_else(|| Rc::new(Condition::All(Vec::new())))
}

/// Returns the names and levels that a chain asks for.
fn names(chain: &[ChainStep]) -> Vec<Rc<Condition>> {
    let Some((last, before)) = chain.split_last() else { return Vec::new() };
    let mut conditions = Vec::new();
    if last.step.test != NameTest::Any {
        conditions.push(Rc::new(Condition::Named(last.step.test)));
    }
    match (last.step.descendant, before.is_empty()) {
        (true, true) => {}
        (false, true) => conditions.push(Rc::new(Condition::IsRoot)),
        (is_descendant, false) => {
            let above = all(names(before)).unwrap_or_else(|| Rc::new(Condition::All(Vec::new())));
            conditions.push(Rc::new(match is_descendant {
                true => Condition::Ancestor(above),
                false => Condition::Above(1, above),
            }));
        }
    }
    conditions
}
