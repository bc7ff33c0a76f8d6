//! The notes that the parser makes.

use super::ast::{Axis, CompareOp, Expr, NameTest, NodeTest, Path, PathStart, Step};
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
            && ["true", "false", "null", "nil", "none"].iter().any(|constant| word.eq_ignore_ascii_case(constant))
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

    /// Notes what is enclosed in an element and selects several attributes of one name.
    pub(super) fn note_enclosed(&self, expr: &Expr, offset: usize) {
        let Expr::Path(Path { steps, .. }) = expr else { return };
        let Some((last, before)) = steps.split_last() else { return };
        let has_name = matches!(last.test, NodeTest::Name(NameTest::Name(_)));
        let may_be_several = |step: &Step| {
            !matches!(step.axis, Axis::SelfAxis | Axis::Parent) && !step.predicates.iter().any(is_positional)
        };
        if last.axis == Axis::Attribute && has_name && before.iter().any(may_be_several) {
            self.note(NoteKind::SeveralAttributes, offset);
        }
    }
}
