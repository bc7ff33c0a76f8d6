//! Predicates that depend on the position alone, such as `position() mod 3 = 1`: which positions they let through.
//!
//! An expression of positions and constants repeats from some position on, with some period. A predicate of which both are
//! known is evaluated for as many positions as that takes, once.

use super::node::NodeRef;
use super::value::Context;
use crate::query::ast::{ArithmeticOp, Expr, Function};

/// The longest period, and the most positions before it begins, that are taken into account.
const PERIOD_MAX: usize = 1 << 12;
const THRESHOLD_MAX: usize = 1 << 12;

/// Numbers up to this size, and lines at least so steep, are taken into account: of these, rounding moves no crossing by as much
/// as a position.
const NUMBER_MAX: f64 = 1e9;
const FACTOR_MIN: f64 = 1e-3;

/// The way in which a predicate repeats from position to position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    /// The last position before it begins to.
    pub(super) threshold: usize,
    /// The number of positions after which it does.
    pub(super) period: usize,
}

/// The end from which positions are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedFrom {
    /// The first node of the axis is 1. Nothing is known of `last()`.
    First,
    /// The last node of the axis is 1: where `position()` is `last()`. Only the difference of the two is known.
    Last,
}

impl CountedFrom {
    /// Returns the context of a node at a position counted so, among so many.
    pub(super) fn context(self, node: NodeRef, position: usize, size: usize) -> Context {
        let position = if self == Self::First { position } else { size + 1 - position };
        Context { node, position: position as u32, size: size as u32 }
    }
}

/// What is known of a number that depends on the position alone.
#[derive(Clone, Copy, Debug)]
enum PositionNumber {
    Constant(f64),
    /// `factor` times the position, plus `last` times the number of positions, plus `offset`.
    Linear {
        factor: f64,
        last: f64,
        offset: f64,
    },
    Periodic(Repetition),
}

impl Repetition {
    const NONE: Self = Self { threshold: 0, period: 1 };

    fn new(threshold: f64, period: usize) -> Option<Self> {
        (threshold <= THRESHOLD_MAX as f64 && period <= PERIOD_MAX)
            .then_some(Self { threshold: threshold.max(0.0) as usize, period })
    }

    fn and(self, other: Self) -> Option<Self> {
        let period = self.period / common_divisor(self.period, other.period) * other.period;
        Self::new(self.threshold.max(other.threshold) as f64, period)
    }

    /// Returns how the truth of several expressions together repeats, each of which does.
    pub(super) fn of_all(expressions: &[&Expr], from: CountedFrom) -> Option<Self> {
        expressions.iter().try_fold(Self::NONE, |all, expr| all.and(Self::of_truth(expr, from)?))
    }

    /// Returns how it repeats that a number is the position.
    pub(super) fn of_position(expr: &Expr, from: CountedFrom) -> Option<Self> {
        of_comparison(number(expr, from)?, position(from))
    }

    /// Returns how the truth of an expression repeats; `None` if it depends on anything but the position, or that is not
    /// known.
    pub(super) fn of_truth(expr: &Expr, from: CountedFrom) -> Option<Self> {
        match expr {
            Expr::And(operands) | Expr::Or(operands) => {
                operands.iter().try_fold(Self::NONE, |all, operand| all.and(Self::of_truth(operand, from)?))
            }
            Expr::Call { function: Function::Not | Function::Boolean, arguments } => {
                Self::of_truth(arguments.first()?, from)
            }
            Expr::Call { function: Function::True | Function::False, .. } => Some(Self::NONE),
            Expr::Compare { left, right, .. } => of_comparison(number(left, from)?, number(right, from)?),
            Expr::Arithmetic { .. } | Expr::Negate(_) | Expr::Number(_) => {
                of_comparison(number(expr, from)?, PositionNumber::Constant(0.0))
            }
            _ => None,
        }
    }
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn of_comparison(left: PositionNumber, right: PositionNumber) -> Option<Repetition> {
    use PositionNumber::{Constant, Linear, Periodic};
    match (left, right) {
        (Constant(_), Constant(_)) => Some(Repetition::NONE),
        (Linear { .. }, Constant(offset)) => of_comparison(left, Linear { factor: 0.0, last: 0.0, offset }),
        (Constant(_), Linear { .. }) => of_comparison(right, left),
        (Linear { factor: a, last, offset: b }, Linear { factor: c, last: other, offset: d }) => {
            (last == other).then(|| from_crossing(a - c, d - b)).flatten()
        }
        (Periodic(repetition), Constant(_)) | (Constant(_), Periodic(repetition)) => Some(repetition),
        (Periodic(left), Periodic(right)) => left.and(right),
        (Linear { .. }, Periodic(_)) | (Periodic(_), Linear { .. }) => None,
    }
}

/// Returns how a comparison repeats whose sides cross where `factor` times the position is `constant`.
fn from_crossing(factor: f64, constant: f64) -> Option<Repetition> {
    if factor == 0.0 {
        return Some(Repetition::NONE);
    }
    let is_steep = factor.abs() >= FACTOR_MIN;
    is_steep.then(|| Repetition::new((constant / factor).ceil().max(0.0) + 1.0, 1)).flatten()
}

/// Returns what `position()` is.
fn position(from: CountedFrom) -> PositionNumber {
    match from {
        CountedFrom::First => PositionNumber::Linear { factor: 1.0, last: 0.0, offset: 0.0 },
        CountedFrom::Last => PositionNumber::Linear { factor: -1.0, last: 1.0, offset: 1.0 },
    }
}

fn number(expr: &Expr, from: CountedFrom) -> Option<PositionNumber> {
    use PositionNumber::{Constant, Linear, Periodic};
    let is_small = |number: f64| number.abs() <= NUMBER_MAX;
    let number = match expr {
        Expr::Number(number) => Some(Constant(*number)),
        Expr::Call { function: Function::Position, .. } => Some(position(from)),
        Expr::Call { function: Function::Last, .. } if from == CountedFrom::Last => {
            Some(Linear { factor: 0.0, last: 1.0, offset: 0.0 })
        }
        Expr::Call { function: Function::Floor | Function::Ceiling | Function::Round, arguments } => {
            match number(arguments.first()?, from)? {
                repetition @ Periodic(_) => Some(repetition),
                Constant(_) | Linear { .. } => None,
            }
        }
        Expr::Negate(operand) => Some(match number(operand, from)? {
            Constant(number) => Constant(-number),
            Linear { factor, last, offset } => Linear { factor: -factor, last: -last, offset: -offset },
            repetition @ Periodic(_) => repetition,
        }),
        Expr::Arithmetic { op, left, right } => of_arithmetic(*op, number(left, from)?, number(right, from)?),
        _ => None,
    }?;
    let is_known = match number {
        Constant(number) => is_small(number),
        Linear { factor, last, offset } => [factor, last, offset].into_iter().all(is_small),
        Periodic(_) => true,
    };
    is_known.then_some(number)
}

fn of_arithmetic(op: ArithmeticOp, left: PositionNumber, right: PositionNumber) -> Option<PositionNumber> {
    use PositionNumber::{Constant, Linear, Periodic};
    match (op, left, right) {
        (ArithmeticOp::Add, Constant(a), Constant(b)) => Some(Constant(a + b)),
        (ArithmeticOp::Subtract, Constant(a), Constant(b)) => Some(Constant(a - b)),
        (ArithmeticOp::Multiply, Constant(a), Constant(b)) => Some(Constant(a * b)),
        (ArithmeticOp::Divide, Constant(a), Constant(b)) => Some(Constant(a / b)),
        (ArithmeticOp::Modulo, Constant(a), Constant(b)) => Some(Constant(a % b)),
        (ArithmeticOp::Add | ArithmeticOp::Subtract, Linear { .. }, Constant(offset)) => {
            of_arithmetic(op, left, Linear { factor: 0.0, last: 0.0, offset })
        }
        (ArithmeticOp::Add | ArithmeticOp::Subtract, Constant(offset), Linear { .. }) => {
            of_arithmetic(op, Linear { factor: 0.0, last: 0.0, offset }, right)
        }
        (
            ArithmeticOp::Add | ArithmeticOp::Subtract,
            Linear { factor: a, last: b, offset: c },
            Linear { factor: d, last: e, offset: f },
        ) => {
            let sign = if op == ArithmeticOp::Add { 1.0 } else { -1.0 };
            Some(Linear { factor: a + sign * d, last: b + sign * e, offset: c + sign * f })
        }
        (ArithmeticOp::Multiply, Linear { factor, last, offset }, Constant(number))
        | (ArithmeticOp::Multiply, Constant(number), Linear { factor, last, offset }) => {
            Some(Linear { factor: factor * number, last: last * number, offset: offset * number })
        }
        (ArithmeticOp::Modulo, Linear { factor, last: 0.0, offset }, Constant(divisor)) => {
            of_remainder(factor, offset, divisor).map(Periodic)
        }
        // A function of a periodic value is periodic.
        (_, Periodic(repetition), Constant(_)) | (_, Constant(_), Periodic(repetition)) => Some(Periodic(repetition)),
        (_, Periodic(left), Periodic(right)) => left.and(right).map(Periodic),
        _ => None,
    }
}

/// Returns how `(factor * position + offset) mod divisor` repeats, if all are whole numbers.
fn of_remainder(factor: f64, offset: f64, divisor: f64) -> Option<Repetition> {
    let is_small = |number: f64| number.fract() == 0.0 && number.abs() <= 1e6;
    if ![factor, offset, divisor].into_iter().all(is_small) || divisor == 0.0 || factor == 0.0 {
        return None;
    }
    let (factor, divisor) = (factor.abs() as usize, divisor.abs() as usize);
    // The sign of the remainder is that of the dividend, which changes once at most.
    Repetition::new((offset.abs() / factor as f64).ceil(), divisor / common_divisor(divisor, factor))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::document::{Document, Message};
    use crate::eval::Evaluator;
    use crate::limits::Limits;
    use crate::query::functions::Dependence;
    use crate::query::position::dependence;
    use crate::query::{Dialect, ParseOptions, Query, normal, parse};
    use crate::scan::{ScanOptions, Scanner};
    use crate::testing::Random;
    use crate::vocabulary::Vocabulary;

    fn parsed(text: &str) -> Expr {
        let (limits, namespaces) = (Limits::default(), BTreeMap::new());
        let options = ParseOptions::new(&namespaces, Dialect::XPath, &limits);
        let Ok(Query::XPath(expr)) = parse(text, &options, &mut Vocabulary::new()) else {
            unreachable!("{text} is XPath")
        };
        normal::normalise(expr)
    }

    fn uses_last(expr: &Expr) -> bool {
        dependence(expr) == Dependence::Size
    }

    fn repetition(text: &str) -> Option<(usize, usize)> {
        let expr = parsed(text);
        let from = if uses_last(&expr) { CountedFrom::Last } else { CountedFrom::First };
        Repetition::of_truth(&expr, from).map(|repetition| (repetition.threshold, repetition.period))
    }

    #[test]
    fn what_repeats_is_told_by_its_form() {
        assert_eq!(repetition("position() mod 3 = 1"), Some((0, 3)));
        assert_eq!(repetition("2 = position() mod 6 or position() mod 4 = 1"), Some((0, 12)));
        assert_eq!(repetition("(position() - 5) mod 3 = 1"), Some((5, 3)));
        assert_eq!(repetition("position() mod 2"), Some((0, 2)));
        assert_eq!(repetition("not(position() mod 5 > 2) and position() > 3"), Some((4, 5)));
        assert_eq!(repetition("4 * position() mod 6 = 2"), Some((0, 3)));
        assert_eq!(repetition("position() mod 1000 = 1"), Some((0, 1000)));
        assert_eq!(repetition("position() > 1000"), Some((1001, 1)));
        assert_eq!(repetition("position() = last() - 1"), Some((3, 1)));
        assert_eq!(repetition("position() > last() - 3 or last() = position() + 7"), Some((9, 1)));
        assert_eq!(repetition("(last() - position()) mod 3 = 1"), Some((1, 3)));
        assert_eq!(repetition("2 * position() + 4 = 2 * last()"), Some((4, 1)));
        assert_eq!(repetition("position() mod 5000 = 1"), None);
        assert_eq!(repetition("position() > 5000"), None);
        assert_eq!(repetition("position() = 2 and position() < last()"), None);
        assert_eq!(repetition("last() > 5"), None);
        assert_eq!(repetition("position() * 2 = last()"), None);
        assert_eq!(repetition("last() mod 2 = 1"), None);
        assert_eq!(repetition("position() mod 2.5 = 1"), None);
        assert_eq!(repetition("position() mod last() = 1"), None);
        assert_eq!(repetition("position() mod @k = 1"), None);
    }

    fn random_number(r: &mut Random, depth: u32) -> String {
        match r.below(if depth == 0 { 3 } else { 8 }) {
            0 => "position()".into(),
            1 => ["position()", "position()", "last()", "(last() - position())"][r.below(4) as usize].into(),
            2 => ["0", "1", "2", "3", "7", "-4", "1.5"][r.below(7) as usize].into(),
            3 => format!("-({})", random_number(r, depth - 1)),
            4 => format!("floor({})", random_number(r, depth - 1)),
            5 => format!("({}) mod {}", random_number(r, depth - 1), ["2", "3", "4", "-3", "5"][r.below(5) as usize]),
            _ => {
                let op = ["+", "-", "*", "div", "mod"][r.below(5) as usize];
                format!("({} {op} {})", random_number(r, depth - 1), random_number(r, depth - 1))
            }
        }
    }

    fn random_truth(r: &mut Random, depth: u32) -> String {
        match r.below(if depth == 0 { 2 } else { 5 }) {
            0 | 1 => {
                let op = ["=", "!=", "<", "<=", ">", ">="][r.below(6) as usize];
                format!("{} {op} {}", random_number(r, 2), random_number(r, 2))
            }
            2 => format!("not({})", random_truth(r, depth - 1)),
            3 => format!("({} and {})", random_truth(r, depth - 1), random_truth(r, depth - 1)),
            _ => format!("({} or {})", random_truth(r, depth - 1), random_truth(r, depth - 1)),
        }
    }

    #[test]
    fn what_is_said_to_repeat_does() {
        let (source, mut document) = (b"<a/>", Document::default());
        let vocabulary = Vocabulary::new();
        Scanner::new()
            .scan(source, &vocabulary, &Limits::default(), ScanOptions::ALL, &mut document)
            .expect("well-formed");
        let evaluator = Evaluator::new(Message { source, document: &document }, &vocabulary, &[]);
        let mut known = [0, 0];
        for seed in 0..8_000 {
            let text = random_truth(&mut Random(seed + 1), 2);
            let expr = parsed(&text);
            let from = if uses_last(&expr) { CountedFrom::Last } else { CountedFrom::First };
            let Some(Repetition { threshold, period }) = Repetition::of_truth(&expr, from) else { continue };
            if threshold + period > 200 {
                continue;
            }
            known[usize::from(from == CountedFrom::Last)] += 1;
            // Kept: the evaluator remembers by address, and only for itself.
            let expr: &'static Expr = Box::leak(Box::new(expr));
            let at = |position: usize| {
                let context = from.context(NodeRef::Node(1), position, 1_000);
                evaluator.boolean(expr, context).expect("within the budget")
            };
            for position in threshold + 1..threshold + 200 {
                assert_eq!(at(position), at(position + period), "{text} at {position}");
            }
        }
        assert!(known[0] > 800 && known[1] > 100, "{known:?} of 8,000");
    }
}
