//! The notes that the parser makes.

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::flwr::{BindingClause, ComputedName, ItemExpr};
use super::functions::ExprType;
use super::lexer::Token;
use super::notes::{NoteKind, QueryNote};
use super::parser::Parser;
use super::position::is_positional;
use crate::util::number;

/// Integers below this are all held exactly.
const EXACT_MAX: f64 = (1_u64 << 53) as f64;
/// Digits that a number keeps in any case, and those after which none is kept for sure.
const DIGITS_KEPT: usize = 17;

impl Parser<'_, '_> {
    /// Makes a note; the first one of a query is kept.
    fn note(&self, kind: NoteKind, offset: usize) {
        if self.note.get().is_none() {
            self.note.set(Some(QueryNote { kind, column: self.column(offset) }));
        }
    }

    /// Notes a comparison by order with a text in quotes.
    pub(super) fn note_order(&self, op: CompareOp, left: &Expr, right: &Expr, symbol: Token) {
        if op.is_equality() {
            return;
        }
        let literal = match (left, right) {
            (Expr::Literal(_), Expr::Literal(_)) => return,
            (Expr::Literal(text), other) | (other, Expr::Literal(text)) if self.type_of(other) != ExprType::Boolean => {
                text
            }
            _ => return,
        };
        let is_number = !number::parse(literal).is_nan();
        self.note(if is_number { NoteKind::OrderOfNumber } else { NoteKind::OrderOfText }, symbol.start);
    }

    /// Notes a comparison with an element of which the name, read last, means a truth value or nothing elsewhere.
    pub(super) fn note_constant_name(&self, right: &Expr) {
        let is_name = matches!(right, Expr::Path(Path { start: PathStart::Context, steps })
            if matches!(steps.as_slice(), [Step { axis: Axis::Child, predicates, .. }] if predicates.is_empty()));
        let word = self.text_of(self.previous);
        if is_name
            && ["true", "false", "null", "nil", "none", "inf", "nan", "infinity"]
                .iter()
                .any(|constant| word.eq_ignore_ascii_case(constant))
        {
            self.note(NoteKind::NameOfConstant, self.previous.start);
        }
    }

    /// Notes a number that no double is.
    pub(super) fn note_number(&self, token: Token, value: f64) {
        let text = self.text_of(token);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        let is_exact = if fraction.is_empty() {
            value < EXACT_MAX || format!("{value:.0}") == whole.trim_start_matches('0')
        } else {
            let digits = format!("{whole}{fraction}");
            digits.trim_start_matches('0').len() < DIGITS_KEPT || number::format(value) == format!("{whole}.{fraction}")
        };
        if !is_exact {
            self.note(NoteKind::InexactNumber, token.start);
        }
    }

    /// Notes a number with an exponent that no double is near.
    pub(super) fn note_range(&self, text: &str, value: f64, offset: usize) {
        let digits = text.split(['e', 'E']).next().unwrap_or_default();
        let is_zero = !digits.contains(|digit: char| matches!(digit, '1'..='9'));
        if value.is_infinite() || value == 0.0 && !is_zero {
            self.note(NoteKind::NumberOutOfRange, offset);
        }
    }

    /// Notes a date such as `2026-11-30`, of which a sign of subtraction is the first.
    pub(super) fn note_subtracted_date(&self, symbol: Token) {
        let text = self.lexer.text.as_bytes();
        let Some(start) = symbol.start.checked_sub(4) else { return };
        let is_date = text.get(start..start + 10).is_some_and(|written| {
            let is_sign = |at: usize| matches!(at, 4 | 7);
            written.iter().enumerate().all(|(at, byte)| if is_sign(at) { *byte == b'-' } else { byte.is_ascii_digit() })
        });
        if is_date && !text.get(start + 10).is_some_and(u8::is_ascii_digit) {
            self.note(NoteKind::SubtractedDate, start);
        }
    }

    /// Notes texts and numbers where conditions are due.
    pub(super) fn note_constants(&self, conditions: &[&Expr], offset: usize) {
        if conditions.iter().any(|condition| matches!(condition, Expr::Literal(_) | Expr::Number(_))) {
            self.note(NoteKind::ConstantCondition, offset);
        }
    }

    /// Notes a text in letters of one case that is compared with one in the other.
    pub(super) fn note_case(&self, left: &Expr, right: &Expr, offset: usize) {
        let (Expr::Call { function, .. }, Expr::Literal(text)) = (match (left, right) {
            (Expr::Literal(_), call) => (call, left),
            sides => sides,
        }) else {
            return;
        };
        let is_other = match function {
            Function::LowerCase => text.to_lowercase() != **text,
            Function::UpperCase => text.to_uppercase() != **text,
            _ => false,
        };
        if is_other {
            self.note(NoteKind::OtherCase, offset);
        }
    }

    /// Notes a comparison of nodes with a truth value.
    pub(super) fn note_truth(&self, left: &Expr, right: &Expr, offset: usize) {
        let is_truth = |expr: &Expr| matches!(expr, Expr::Call { function: Function::True | Function::False, .. });
        let is_nodes = |expr: &Expr| self.type_of(expr) == ExprType::NodeSet;
        if is_truth(left) && is_nodes(right) || is_nodes(left) && is_truth(right) {
            self.note(NoteKind::TruthOfNodes, offset);
        }
    }

    /// Notes what is enclosed in an element and may be several attributes of one name.
    pub(super) fn note_enclosed(&self, item: &ItemExpr, offset: usize) {
        let is_several = match item {
            ItemExpr::Value(expr) => self.may_be_several_attributes(expr),
            ItemExpr::Sequence(items) => return items.iter().for_each(|item| self.note_enclosed(item, offset)),
            ItemExpr::If(choice) => {
                self.note_enclosed(&choice.then, offset);
                return self.note_enclosed(&choice.otherwise, offset);
            }
            ItemExpr::Flwr(flwr) => {
                let is_loop = flwr.clauses.iter().any(|clause| matches!(clause, BindingClause::For { .. }));
                is_loop && self.is_attribute_of_name(&flwr.result)
            }
            _ => false,
        };
        if is_several {
            self.note(NoteKind::SeveralAttributes, offset);
        }
    }

    /// Returns whether an item of a loop is an attribute of a name.
    fn is_attribute_of_name(&self, item: &ItemExpr) -> bool {
        match item {
            ItemExpr::Value(Expr::Path(Path { steps, .. })) => steps.last().is_some_and(is_named_attribute),
            ItemExpr::Attribute(attribute) => matches!(attribute.name, ComputedName::Fixed(_)),
            ItemExpr::Sequence(items) => items.iter().any(|item| self.is_attribute_of_name(item)),
            _ => false,
        }
    }

    /// Returns whether an expression may select several attributes of one name.
    pub(super) fn may_be_several_attributes(&self, expr: &Expr) -> bool {
        let Expr::Path(Path { start, steps }) = expr else { return false };
        let Some((last, before)) = steps.split_last() else {
            return matches!(start, PathStart::Variable(id) if self.several_attributes.contains(id));
        };
        let may_be_several = |step: &Step| {
            !matches!(step.axis, Axis::SelfAxis | Axis::Parent) && !step.predicates.iter().any(is_positional)
        };
        is_named_attribute(last) && before.iter().any(may_be_several)
    }
}

fn is_named_attribute(step: &Step) -> bool {
    step.axis == Axis::Attribute && matches!(step.test, NodeTest::Name(NameTest::Name(_)))
}
