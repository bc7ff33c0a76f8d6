//! Searches for texts in the text of the message: remembered where a query searches often.

use super::evaluator::Evaluator;
use super::grams::Grams;
use super::text::{BYTES_PER_VISIT, BorrowedText};
use super::texts::MessageText;
use super::value::{BarePath, EvalError, bare};
use crate::query::ast::{Axis, Expr, Function, NodeTest, Path, PathStart, Step};

/// What is worth finding all occurrences of a text: their number times its length, in bytes.
const OCCURRENCES_COST: usize = 1 << 24;

/// How many times the message has been searched when the table is made.
const SEARCHES_MIN: u64 = 4;

/// Shorter messages are searched at once.
const SEARCHED_MIN: u64 = 1 << 16;

impl<'a> Evaluator<'a> {
    /// Does a text contain another one, which the query gives as `part`? Where it occurs in the message is remembered, if
    /// many overlapping parts of that are asked.
    pub(super) fn contains(
        &self,
        reading: &BorrowedText<'_>,
        part: &'a Expr,
        expected: &str,
    ) -> Result<bool, EvalError> {
        let Some(range) = &reading.range else {
            self.charge_text(reading.text.len())?;
            self.note_search(reading.text.len());
            return Ok(reading.text.contains(expected));
        };
        let is_fixed = matches!(part, Expr::Literal(_)) && !expected.is_empty();
        if is_fixed
            && self.is_worth_tables()
            && let Some(texts) = self.texts()?
        {
            let cached = self.cache.borrow().occurs_within(part, range, expected.len());
            if let Some(Some(occurs)) = cached {
                return Ok(occurs);
            }
            // Once or twice, it is found faster than all its occurrences.
            if cached.is_none() && self.cache.borrow_mut().is_frequent(part) {
                let most = OCCURRENCES_COST / (expected.len() + BYTES_PER_VISIT);
                let result = texts.occurrences(expected, most);
                self.charge_text(texts.bytes())?;
                self.charge(result.as_ref().map_or(most, |result| result.len()) as u64)?;
                let mut cache = self.cache.borrow_mut();
                cache.keep_occurrences(part, result);
                if let Some(Some(occurs)) = cache.occurs_within(part, range, expected.len()) {
                    return Ok(occurs);
                }
            }
        }
        self.charge_text(reading.text.len())?;
        self.note_search(reading.text.len());
        Ok(reading.text.contains(expected))
    }

    /// Counts bytes that have been searched for a text.
    pub(super) fn note_search(&self, bytes: usize) {
        let searched = self.searched.get() + bytes as u64;
        self.searched.set(searched);
        let source = self.message.source.len() as u64;
        if searched >= SEARCHED_MIN.max(SEARCHES_MIN * source) && self.grams.get().is_none() {
            self.grams.get_or_init(|| self.build_grams());
        }
    }

    fn build_grams(&self) -> Option<Grams> {
        let texts: &MessageText = self.texts_now()?;
        let text = texts.all();
        let fits = self.cache.borrow_mut().admit_bytes(Grams::bytes_at_most(text.len()));
        fits.then(|| Grams::of(text))
    }

    /// Returns `true` if the pieces of the message's text are collected.
    pub(super) fn has_grams(&self) -> bool {
        self.grams.get().is_some_and(Option::is_some)
    }

    /// Returns `true` if a constant text of the query certainly does not occur in the value of an expression.
    pub(super) fn is_nowhere(&self, part: &Expr, text: &Expr, context_is_tree: bool) -> bool {
        let Some(Some(grams)) = self.grams.get() else { return false };
        matches!(part, Expr::Literal(part) if !grams.may_contain(part)) && is_of_tree(text, context_is_tree)
    }
}

/// Returns whether a step leads only to nodes whose string-values are parts of the message's text.
fn leads_to_tree(step: &Step) -> bool {
    match step.test {
        NodeTest::Name(_) => !matches!(step.axis, Axis::Attribute | Axis::Namespace),
        NodeTest::Text => true,
        NodeTest::Node | NodeTest::Comment | NodeTest::ProcessingInstruction(_) => false,
    }
}

/// Returns whether the string that an expression stands for is a part of the message's text.
fn is_of_tree(text: &Expr, context_is_tree: bool) -> bool {
    match text {
        Expr::Call { function: Function::String, arguments } => {
            arguments.first().map_or(context_is_tree, |argument| is_of_tree(argument, context_is_tree))
        }
        Expr::Path(path) => match bare(path) {
            Some(BarePath::Expression(primary)) => is_of_tree(primary, context_is_tree),
            Some(BarePath::Variable(_)) => false,
            None => path_is_of_tree(path, context_is_tree),
        },
        _ => false,
    }
}

fn path_is_of_tree(path: &Path, context_is_tree: bool) -> bool {
    match (path.steps.last(), &path.start) {
        (Some(step), _) => {
            leads_to_tree(step)
                || is_self(step) && path.steps.len() == 1 && path.start == PathStart::Context && context_is_tree
        }
        (None, PathStart::Root) => true,
        (None, PathStart::Context) => context_is_tree,
        (None, PathStart::Variable(_) | PathStart::Filter { .. }) => false,
    }
}

/// Returns whether a step is `.`, however it is written.
fn is_self(step: &Step) -> bool {
    step.axis == Axis::SelfAxis && step.test == NodeTest::Node
}
