//! Normal form: simpler expressions that select the same nodes and have the same truth.
//!
//! Queries that differ only in spelling should share everything in the engine, and `//a` should cost one step. Every rule
//! is an equivalence of XPath 1.0 on every document and for every context node:
//!
//! - `descendant-or-self::node()/child::x[p]` is `descendant::x[p]` when no `p` is positional (with one it is not:
//!   positions count per parent); likewise before `self`, `descendant` and `descendant-or-self`;
//! - `self::node()` without predicates goes away;
//! - `[a and b]` is `[a][b]`, and a predicate that stands earlier on the step goes away, when they are not positional;
//! - `(path)[p]` is `path[p]` when `p` is not positional;
//! - nested `and`, `or`, `|` become one list without repetitions; constants in them are folded;
//! - `matches(a, 'word')` is `contains(a, 'word')`, and likewise where the pattern is a few words, or stands at an end;
//! - where only truth counts, `boolean(a)` and `not(not(a))` are `a`.
//!
//! A predicate is *positional* when it calls `position()` or `last()` for its own context. The parser has made numeric
//! predicates into comparisons with `position()`.

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::pattern::PatternLiterals;
use super::position::uses_position;

/// Brings an expression into normal form. Its type stays the same.
pub fn normalise(expr: Expr) -> Expr {
    match expr {
        Expr::Or(operands) => value_of(joined(operands, true)),
        Expr::And(operands) => value_of(joined(operands, false)),
        Expr::Compare { op, left, right } => comparison(op, normalise(*left), normalise(*right)),
        Expr::Arithmetic { op, left, right } => {
            Expr::Arithmetic { op, left: Box::new(normalise(*left)), right: Box::new(normalise(*right)) }
        }
        Expr::Negate(operand) => Expr::Negate(Box::new(normalise(*operand))),
        Expr::Union(members) => union(members),
        Expr::Map { nodes, value } => {
            Expr::Map { nodes: Box::new(normalise(*nodes)), value: Box::new(normalise(*value)) }
        }
        Expr::Path(path) => path_of(path),
        Expr::Call { function, arguments } => call(function, arguments),
        constant @ (Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_)) => constant,
    }
}

/// Brings an expression of which only the truth counts into normal form; the type may change, but never to a number
/// (which a predicate would take for a position).
pub fn normalise_condition(expr: Expr) -> Expr {
    match condition(expr) {
        existing @ Expr::Call { function: Function::True | Function::False, .. } => existing,
        expr => guarded(expr),
    }
}

/// Returns the normal form of an expression where only its truth counts, as of operands of `and` and `or`; it may
/// become a number.
fn condition(expr: Expr) -> Expr {
    match expr {
        Expr::Or(operands) => joined(operands, true),
        Expr::And(operands) => joined(operands, false),
        Expr::Call { function: Function::Boolean, mut arguments } if arguments.len() == 1 => {
            arguments.pop().map_or_else(|| boolean(false), condition)
        }
        Expr::Call { function: Function::Not, mut arguments } if arguments.len() == 1 => {
            arguments.pop().map_or_else(|| boolean(true), |argument| negation(condition(argument)))
        }
        expr => {
            let expr = normalise(expr);
            match constant_truth(&expr) {
                Some(truth) => boolean(truth),
                None => expr,
            }
        }
    }
}

/// Returns the negation of a condition in normal form.
fn negation(condition: Expr) -> Expr {
    match condition {
        Expr::Call { function: Function::True, .. } => boolean(false),
        Expr::Call { function: Function::False, .. } => boolean(true),
        Expr::Call { function: Function::Not, mut arguments } if arguments.len() == 1 => {
            arguments.pop().unwrap_or_else(|| boolean(false))
        }
        condition => Expr::Call { function: Function::Not, arguments: vec![condition] },
    }
}

/// Returns the `or` of operands, or their `and`. One whose truth is `decisive` decides: `true()` for `or`, `false()` for
/// `and`; the other truth is left out.
fn joined(operands: Vec<Expr>, decisive: bool) -> Expr {
    let mut flat = Vec::with_capacity(operands.len());
    for operand in operands {
        match (condition(operand), decisive) {
            (Expr::Call { function: Function::True, .. }, true) => return boolean(true),
            (Expr::Call { function: Function::False, .. }, false) => return boolean(false),
            (Expr::Call { function: Function::True | Function::False, .. }, _) => {}
            (Expr::Or(inner), true) | (Expr::And(inner), false) => {
                inner.into_iter().for_each(|operand| push_new(&mut flat, operand));
            }
            (operand, _) => push_new(&mut flat, operand),
        }
    }
    match flat.len() {
        0 => boolean(!decisive),
        1 => flat.pop().unwrap_or_else(|| boolean(!decisive)),
        _ if decisive => Expr::Or(flat),
        _ => Expr::And(flat),
    }
}

/// Appends an item unless the list has it. In long lists repetitions stay, since finding them would take quadratic time.
fn push_new(list: &mut Vec<Expr>, item: Expr) {
    const COMPARED_MAX: usize = 64;
    if list.len() > COMPARED_MAX || !list.contains(&item) {
        list.push(item);
    }
}

/// Returns a condition as a boolean value.
fn value_of(condition: Expr) -> Expr {
    match condition.static_type(&[]) {
        ExprType::Boolean => condition,
        _ => wrapped(condition),
    }
}

/// Returns a condition as a predicate: a number, or a variable or value that may be one, would be taken for a position.
fn guarded(condition: Expr) -> Expr {
    let bare_variable = matches!(&condition, Expr::Path(path)
        if path.steps.is_empty() && matches!(path.start, PathStart::Variable(_)));
    let may_be_number = bare_variable || condition.gives_values() || condition.static_type(&[]) == ExprType::Number;
    if may_be_number { wrapped(condition) } else { condition }
}

/// Returns `boolean(condition)`.
fn wrapped(condition: Expr) -> Expr {
    Expr::Call { function: Function::Boolean, arguments: vec![condition] }
}

fn boolean(truth: bool) -> Expr {
    Expr::Call { function: if truth { Function::True } else { Function::False }, arguments: Vec::new() }
}

/// Returns the truth of a constant.
fn constant_truth(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Number(value) => Some(*value != 0.0 && !value.is_nan()),
        Expr::Literal(value) => Some(!value.is_empty()),
        Expr::Call { function: Function::True, .. } => Some(true),
        Expr::Call { function: Function::False, .. } => Some(false),
        _ => None,
    }
}

fn comparison(op: CompareOp, left: Expr, right: Expr) -> Expr {
    match (&left, &right) {
        (Expr::Number(a), Expr::Number(b)) => boolean(match op {
            CompareOp::Equal => a == b,
            CompareOp::NotEqual => a != b,
            CompareOp::Less => a < b,
            CompareOp::LessOrEqual => a <= b,
            CompareOp::Greater => a > b,
            CompareOp::GreaterOrEqual => a >= b,
        }),
        (Expr::Literal(a), Expr::Literal(b)) if op == CompareOp::Equal => boolean(a == b),
        (Expr::Literal(a), Expr::Literal(b)) if op == CompareOp::NotEqual => boolean(a != b),
        _ => Expr::Compare { op, left: Box::new(left), right: Box::new(right) },
    }
}

fn union(members: Vec<Expr>) -> Expr {
    let mut flat = Vec::with_capacity(members.len());
    for member in members {
        match normalise(member) {
            Expr::Union(inner) => inner.into_iter().for_each(|member| push_new(&mut flat, member)),
            member => push_new(&mut flat, member),
        }
    }
    match flat.len() {
        1 => flat.pop().unwrap_or(Expr::Union(Vec::new())),
        _ => Expr::Union(flat),
    }
}

fn call(function: Function, mut arguments: Vec<Expr>) -> Expr {
    match (function, arguments.len()) {
        (Function::Not, 1) => match arguments.pop() {
            Some(argument) => value_of(negation(condition(argument))),
            None => boolean(true),
        },
        (Function::Boolean, 1) => match arguments.pop() {
            Some(argument) => value_of(condition(argument)),
            None => boolean(false),
        },
        _ => {
            let arguments: Vec<_> = arguments.into_iter().map(normalise).collect();
            match arguments.as_slice() {
                [text, Expr::Pattern(pattern), ..] if function == Function::Matches => match pattern.literals() {
                    Some(literals) => comparison_with_literals(text, literals),
                    None => Expr::Call { function, arguments },
                },
                _ => Expr::Call { function, arguments },
            }
        }
    }
}

/// Returns a match with a pattern that finds a few texts and no others as what XPath 1.0 has for it, which is indexed.
fn comparison_with_literals(text: &Expr, literals: &PatternLiterals) -> Expr {
    let is_single = matches!(text, Expr::Path(Path { start: PathStart::Context, steps })
        if matches!(steps.as_slice(), [Step { axis: Axis::Attribute | Axis::SelfAxis, test, predicates }]
            if predicates.is_empty() && matches!(test, NodeTest::Node | NodeTest::Name(NameTest::Name(_)))));
    let compared = |literal: &str| {
        let literal = Expr::Literal(literal.into());
        let function = match (literals.at_start, literals.at_end) {
            (false, false) => Function::Contains,
            (true, false) => Function::StartsWith,
            (false, true) => Function::EndsWith,
            (true, true) => {
                let is_empty = literal == Expr::Literal("".into());
                let left = match text {
                    text if is_single && !is_empty => text.clone(),
                    text => Expr::Call { function: Function::String, arguments: vec![text.clone()] },
                };
                return Expr::Compare { op: CompareOp::Equal, left: Box::new(left), right: Box::new(literal) };
            }
        };
        Expr::Call { function, arguments: vec![text.clone(), literal] }
    };
    let mut all: Vec<_> = literals.texts.iter().map(|literal| compared(literal)).collect();
    if all.len() == 1 { all.swap_remove(0) } else { Expr::Or(all) }
}

fn path_of(path: Path) -> Expr {
    let (start, mut steps) = match path.start {
        PathStart::Filter { primary, predicates } => match filter(*primary, predicates) {
            Expr::Path(inner) => (inner.start, inner.steps),
            primary if path.steps.is_empty() => return primary,
            primary => (PathStart::Filter { primary: Box::new(primary), predicates: Vec::new() }, Vec::new()),
        },
        start => (start, Vec::with_capacity(path.steps.len())),
    };
    for step in path.steps {
        append(&mut steps, normalise_step(step));
    }
    if steps.is_empty() && start == PathStart::Context {
        steps.push(Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() });
    }
    Expr::Path(Path { start, steps })
}

/// Returns the normal form of a filter expression; a path when its predicates can move to the path's last step.
fn filter(primary: Expr, predicates: Vec<Expr>) -> Expr {
    let primary = normalise(primary);
    let predicates = normalise_predicates(predicates);
    if predicates.is_empty() {
        return primary;
    }
    match primary {
        Expr::Path(mut path) if !predicates.iter().any(uses_position) && !path.steps.is_empty() => {
            if let Some(last) = path.steps.last_mut() {
                last.predicates.append(&mut { predicates });
                last.predicates = normalise_predicates(std::mem::take(&mut last.predicates));
            }
            Expr::Path(path)
        }
        primary => {
            Expr::Path(Path { start: PathStart::Filter { primary: Box::new(primary), predicates }, steps: Vec::new() })
        }
    }
}

fn normalise_step(step: Step) -> Step {
    Step { predicates: normalise_predicates(step.predicates), ..step }
}

fn normalise_predicates(predicates: Vec<Expr>) -> Vec<Expr> {
    let mut kept: Vec<Expr> = Vec::with_capacity(predicates.len());
    for predicate in predicates {
        match normalise_condition(predicate) {
            Expr::Call { function: Function::True, .. } => {}
            Expr::And(conjuncts) if !conjuncts.iter().any(uses_position) => {
                conjuncts.into_iter().map(guarded).for_each(|conjunct| push_new(&mut kept, conjunct));
            }
            predicate if uses_position(&predicate) => kept.push(predicate),
            predicate => push_new(&mut kept, predicate),
        }
    }
    kept
}

/// Appends a step to a path in normal form, fused with the step before where that is exact.
fn append(steps: &mut Vec<Step>, mut step: Step) {
    if step.axis == Axis::SelfAxis && step.test == NodeTest::Node && step.predicates.is_empty() {
        return;
    }
    if steps.last().is_some_and(is_any_descendant_or_self) && !step.predicates.iter().any(uses_position) {
        let fused = match step.axis {
            Axis::Child | Axis::Descendant => Some(Axis::Descendant),
            Axis::SelfAxis | Axis::DescendantOrSelf => Some(Axis::DescendantOrSelf),
            _ => None,
        };
        if let Some(axis) = fused {
            steps.pop();
            step.axis = axis;
        }
    }
    steps.push(step);
}

/// Returns whether it is the step that `//` stands for.
fn is_any_descendant_or_self(step: &Step) -> bool {
    step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty()
}
