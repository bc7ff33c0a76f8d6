//! Sequences and sets of XPath 3.1: `a ! b`, steps in parentheses and steps that are values, lists of nodes, `intersect` and
//! `except`, the order of nodes.

use std::collections::BTreeSet;

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::lexer::TokenKind;
use super::matching::{existence_of, size};
use super::operators::{NodeOrder, Operator, Side, combine};
use super::options::Dialect;
use super::parser::{Parsed, Parser};
use super::position::{is_positional, uses_position};
use super::quantified::filtered;
use super::typed::TypedConstant;
use crate::error::QueryErrorKind;

impl<'a> Parser<'a, '_> {
    /// Parses in a context of its own, as a predicate has one.
    pub(super) fn in_context<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.contexts += 1;
        let outer = std::mem::replace(&mut self.context, self.contexts);
        self.predicate_depth += 1;
        let parsed = parse(self)?;
        self.predicate_depth -= 1;
        self.context = outer;
        Ok(parsed)
    }

    /// Returns whether the items of an expression are values rather than nodes.
    pub(super) fn gives_values(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Path(Path { start: PathStart::Variable(id), steps }) => {
                steps.is_empty() && self.value_variables.contains(id)
            }
            Expr::Path(Path { start: PathStart::Filter { primary, .. }, steps }) => {
                steps.is_empty() && self.gives_values(primary)
            }
            Expr::Map { value, .. } => {
                value.static_type(&self.variable_types) != ExprType::NodeSet || self.gives_values(value)
            }
            other => other.gives_values(),
        }
    }

    /// Refuses values where only nodes of the message can stand.
    pub(super) fn require_nodes(&self, expr: &Expr, start: usize, role: &str) -> Parsed<()> {
        self.require_node_set(expr, start, role)?;
        if !self.gives_values(expr) {
            return Ok(());
        }
        let message =
            format!("{role} must be a path, and this is a sequence of values, which have no place in the message");
        Err(self.error(start, QueryErrorKind::Syntax, message, &["a path"]))
    }

    // Sets -------------------------------------------------------------------------------------------------------------

    /// Parses an IntersectExceptExpr.
    pub(super) fn intersection(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let mut left = self.mapping()?;
        loop {
            let function = match (self.token.kind, self.text_of(self.token)) {
                (TokenKind::Name, "intersect") => Function::Intersect,
                (TokenKind::Name, "except") => Function::Except,
                _ => return Ok(left),
            };
            let role = format!("a side of `{}`", function.name());
            self.require_nodes(&left, start, &role)?;
            self.advance();
            let (height, right_start) = (self.height, self.token.start);
            let right = self.mapping()?;
            self.require_nodes(&right, right_start, &role)?;
            self.height = self.height.max(height) + 1;
            self.check_height()?;
            left = Expr::Call { function, arguments: vec![left, right] };
        }
    }

    /// Returns a comparison of the places of two nodes in the message: of the first nodes, if there are several.
    pub(super) fn placed(&mut self, order: NodeOrder, left: Expr, right: Expr, at: (usize, usize)) -> Parsed<Expr> {
        self.require_nodes(&left, at.0, "a node whose place is compared")?;
        self.require_nodes(&right, at.1, "a node whose place is compared")?;
        self.write_out(3 * (size(&left) + size(&right)), at.0)?;
        self.height += 4;
        let (left, right) = if order == NodeOrder::After { (right, left) } else { (left, right) };
        let both = || Expr::Union(vec![first_of(left.clone()), first_of(right.clone())]);
        let is_one = |nodes: Expr| {
            let count = Expr::Call { function: Function::Count, arguments: vec![nodes] };
            combine(Operator::Compare(CompareOp::Equal), count, Expr::Number(1.0))
        };
        let exist = combine(Operator::And, exists(left.clone()), exists(right.clone()));
        Ok(match order {
            NodeOrder::Same => combine(Operator::And, exist, is_one(both())),
            // There are two, and the first of them is the left one.
            NodeOrder::Before | NodeOrder::After => {
                let second = exists(at_position(both(), 2.0));
                let is_left = is_one(Expr::Union(vec![at_position(both(), 1.0), first_of(left.clone())]));
                combine(Operator::And, combine(Operator::And, exist, second), is_left)
            }
        })
    }

    // Lists of nodes ---------------------------------------------------------------------------------------------------

    /// Returns whether all members of a list are nodes of the message.
    pub(super) fn are_nodes(&self, members: &[Expr]) -> bool {
        members.iter().all(|member| self.type_of(member) == ExprType::NodeSet && !self.gives_values(member))
    }

    /// Parses a list of paths in parentheses as the nodes of all, in the order of the message.
    pub(super) fn nodes_of_list(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let mut members = self.list_in_parentheses()?;
        members.iter().try_for_each(|member| self.require_nodes(member, start, "a member of a list in a path"))?;
        self.height += 1;
        Ok(if members.len() == 1 { members.swap_remove(0) } else { Expr::Union(members) })
    }

    /// Refuses the position in a list, whose members have the order of the list rather than that of the message.
    pub(super) fn refuse_positions(&self, expr: &Expr, start: usize) -> Parsed<()> {
        match expr {
            Expr::Path(Path { start: PathStart::Filter { primary, predicates }, .. })
                if matches!(**primary, Expr::Union(_)) && predicates.iter().any(is_positional) =>
            {
                let message = "a list has an order of its own here, which no position counts; write if (exists(a)) then a = \
                               'x' else b = 'x' for the first that there is, (a | b)[1] for the first in the message, or use \
                               dialect=\"xquery\"";
                Err(self.error(start, QueryErrorKind::Unsupported, message.into(), &[]))
            }
            _ => Ok(()),
        }
    }

    /// Parses an argument. It may be a list of paths, where the order of the nodes does not count, and none is in two of them.
    pub(super) fn argument(&mut self, function: Function) -> Parsed<Expr> {
        use Function::{Avg, Boolean, Count, DistinctValues, Max, Min, Not, Sum};
        let takes_each_once = matches!(function, Count | Sum | Avg);
        let takes_list = takes_each_once || matches!(function, Min | Max | Boolean | Not | DistinctValues);
        if !takes_list || self.token.kind != TokenKind::OpenParen {
            return self.expression();
        }
        let start = self.token.start;
        self.enter()?;
        let argument = self.operands(0)?;
        self.leave();
        match argument {
            Side::Several(members) if self.are_nodes(&members) && (!takes_each_once || are_apart(&members)) => {
                self.height += 1;
                Ok(Expr::Union(members))
            }
            Side::Several(members) if takes_each_once && self.are_nodes(&members) => {
                let name = function.name();
                let message = format!(
                    "{name}() of a list takes a node twice that is in two of its paths; write {name}(a | b), which takes each \
                     once"
                );
                Err(self.error(start, QueryErrorKind::Unsupported, message, &[]))
            }
            Side::Several(members) if !members.is_empty() => {
                let role = "a member of a list that a function takes";
                members.iter().try_for_each(|member| self.require_nodes(member, start, role))?;
                self.single(Side::Several(members), start)
            }
            other => self.single(other, start),
        }
    }

    /// Returns what to write instead of a list where there cannot be one.
    pub(super) fn instead_of_list(&self, list: &[Expr]) -> String {
        let hint = if self.are_nodes(list) {
            "; write a | b for the nodes of both, in the order of the message"
        } else if list.iter().any(|value| matches!(value, Expr::Literal(_))) {
            "; where a function takes one text, write some $x in ('x', 'y') satisfies contains(a, $x)"
        } else {
            ""
        };
        format!("a list can only be compared: a = ('x', 'y'), position() = 1 to 5{hint}")
    }

    // Maps and steps ---------------------------------------------------------------------------------------------------

    /// Parses a SimpleMapExpr.
    fn mapping(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let mut nodes = self.path()?;
        while self.token.kind == TokenKind::Bang {
            self.require_node_set(&nodes, start, "what stands before `!`")?;
            self.advance();
            let (height, value_start) = (self.height, self.token.start);
            let value = self.in_context(Self::path)?;
            self.height = self.height.max(height) + 1;
            self.check_height()?;
            nodes = self.mapped(nodes, value, value_start)?;
        }
        Ok(nodes)
    }

    /// Returns `nodes ! value`.
    fn mapped(&self, nodes: Expr, value: Expr, start: usize) -> Parsed<Expr> {
        let value_type = value.static_type(&self.variable_types);
        if value_type == ExprType::Boolean {
            let message = "a condition of each node is a predicate: write a[condition], or some $x in a satisfies ...";
            return Err(self.error(start, QueryErrorKind::Unsupported, message.into(), &[]));
        }
        let text = &self.lexer.text[start..self.token.start];
        let may_be_none =
            self.options.dialect == Dialect::Native && value_type == ExprType::Number && text.contains("xs:");
        if may_be_none && is_cast(&value) {
            // In XQuery as it is here there is no value of what is no number.
            let nodes = filtered(nodes, is_number(&value));
            return Ok(Expr::Map { nodes: Box::new(nodes), value: Box::new(value) });
        }
        if may_be_none {
            let message = "how many values a cast has is left to a processor of XQuery".into();
            return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
        }
        let gives_values = value_type != ExprType::NodeSet || self.gives_values(&value);
        match (nodes, value) {
            // From nodes to their children and attributes, each leads to others.
            (Expr::Path(path), Expr::Path(Path { start: PathStart::Context, steps }))
                if steps.iter().all(|step| matches!(step.axis, Axis::Child | Axis::Attribute)) =>
            {
                Ok(Expr::Path(continued(path, steps)))
            }
            (nodes, value) => {
                let nodes = if gives_values { present(nodes, &value) } else { nodes };
                Ok(Expr::Map { nodes: Box::new(nodes), value: Box::new(value) })
            }
        }
    }

    /// Parses a step in parentheses, `a/(b | c)`, or one that calls a function, `a/string()`, and what follows it in the path.
    pub(super) fn postfix_step(&mut self, branches: Vec<Path>) -> Parsed<Expr> {
        let start = self.token.start;
        self.count_step()?;
        let value = self.in_context(Self::step_value)?;
        let is_value = value.static_type(&self.variable_types) != ExprType::NodeSet || self.gives_values(&value);
        if is_value {
            if matches!(self.token.kind, TokenKind::Slash | TokenKind::DoubleSlash) {
                let message = "nothing can follow a value in a path; a value has no children".into();
                return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &[]));
            }
            return self.mapped(of_branches(branches), value, start);
        }
        let branches = match alternatives(value) {
            Ok(alternatives) => {
                let parts: usize = branches.iter().map(|branch| branch.steps.len() + 1).sum();
                self.write_out(parts * alternatives.len(), start)?;
                let all = branches
                    .iter()
                    .flat_map(|branch| alternatives.iter().map(move |steps| continued(branch.clone(), steps.clone())));
                all.collect()
            }
            Err(value) => {
                let nodes = Box::new(of_branches(branches));
                let primary = Box::new(Expr::Map { nodes, value: Box::new(value) });
                vec![Path { start: PathStart::Filter { primary, predicates: Vec::new() }, steps: Vec::new() }]
            }
        };
        self.further_steps(branches)
    }

    /// Parses what a step in parentheses or a call gives at one node.
    fn step_value(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        if self.token.kind == TokenKind::Name {
            return self.filter_of_one_step();
        }
        let (open, mut members, mut height) = (start, Vec::new(), 0);
        loop {
            self.advance();
            self.enter()?;
            let member = self.token.start;
            match self.worded()? {
                Some(expr) => members.push(expr),
                None => members.extend_from_slice(self.operands(0)?.all()),
            }
            self.leave();
            height = height.max(self.height);
            if self.token.kind != TokenKind::Comma {
                break;
            }
            members.iter().try_for_each(|expr| self.require_nodes(expr, member, "a member of a list in a path"))?;
        }
        if members.len() > 1 {
            members.iter().try_for_each(|expr| self.require_nodes(expr, start, "a member of a list in a path"))?;
        }
        self.close(TokenKind::CloseParen, open)?;
        self.height = height + 1;
        let value = if members.len() == 1 { members.swap_remove(0) } else { Expr::Union(members) };
        self.one_step_filtered(value, start)
    }
}

/// Returns whether a value is a text that is read as a number.
fn is_cast(value: &Expr) -> bool {
    matches!(value, Expr::Call { function: Function::XsDouble | Function::XsDecimal | Function::XsInteger, .. })
}

/// Returns the condition that such a value is there: with zero it compares as equal or not, and what is none does not compare.
fn is_number(value: &Expr) -> Expr {
    let with_zero = |op| {
        let zero = Expr::Typed(TypedConstant::Double(0.0));
        combine(Operator::Compare(op), value.clone(), zero)
    };
    combine(Operator::Or, with_zero(CompareOp::Equal), with_zero(CompareOp::NotEqual))
}

/// Returns whether no node can be in two of several paths, since what they end at has other names.
fn are_apart(paths: &[Expr]) -> bool {
    let last = |path: &Expr| match path {
        Expr::Path(Path { steps, .. }) => steps.last().and_then(|step| match step.test {
            NodeTest::Name(NameTest::Name(name)) => Some((step.axis == Axis::Attribute, name)),
            _ => None,
        }),
        _ => None,
    };
    let ends: Option<BTreeSet<_>> = paths.iter().map(last).collect();
    ends.is_some_and(|ends| ends.len() == paths.len())
}

/// Returns the steps of each alternative, if an expression is nothing but paths from the context node; itself otherwise.
fn alternatives(value: Expr) -> Result<Vec<Vec<Step>>, Expr> {
    let is_relative =
        |expr: &Expr| matches!(expr, Expr::Path(Path { start: PathStart::Context, steps }) if !steps.is_empty());
    let steps = |expr: Expr| if let Expr::Path(path) = expr { path.steps } else { Vec::new() };
    match value {
        Expr::Union(members) if members.iter().all(is_relative) => Ok(members.into_iter().map(steps).collect()),
        Expr::Path(Path { start: PathStart::Filter { primary, predicates }, steps })
            if steps.is_empty() && !predicates.iter().any(is_positional) =>
        {
            match alternatives(*primary) {
                Ok(mut all) => {
                    all.iter_mut().filter_map(|steps| steps.last_mut()).for_each(|step| {
                        step.predicates.extend(predicates.iter().cloned());
                    });
                    Ok(all)
                }
                Err(primary) => {
                    let start = PathStart::Filter { primary: Box::new(primary), predicates };
                    Err(Expr::Path(Path { start, steps }))
                }
            }
        }
        path if is_relative(&path) => Ok(vec![steps(path)]),
        other => Err(other),
    }
}

/// Returns the nodes of several paths.
pub(super) fn of_branches(mut branches: Vec<Path>) -> Expr {
    match branches.len() {
        1 => match branches.swap_remove(0) {
            Path { start: PathStart::Filter { primary, predicates }, steps }
                if predicates.is_empty() && steps.is_empty() =>
            {
                *primary
            }
            path => Expr::Path(path),
        },
        _ => Expr::Union(branches.into_iter().map(Expr::Path).collect()),
    }
}

fn continued(mut path: Path, mut steps: Vec<Step>) -> Path {
    path.steps.append(&mut steps);
    path
}

fn exists(nodes: Expr) -> Expr {
    Expr::Call { function: Function::Boolean, arguments: vec![nodes] }
}

/// Returns the node at a position among some nodes.
fn at_position(nodes: Expr, position: f64) -> Expr {
    let this = Expr::Call { function: Function::Position, arguments: Vec::new() };
    let predicates = vec![combine(Operator::Compare(CompareOp::Equal), this, Expr::Number(position))];
    Expr::Path(Path { start: PathStart::Filter { primary: Box::new(nodes), predicates }, steps: Vec::new() })
}

/// Returns the first of some nodes.
fn first_of(nodes: Expr) -> Expr {
    at_position(nodes, 1.0)
}

/// Returns the nodes at which a value is something: in XPath 3.1, arithmetic with nothing is nothing.
fn present(nodes: Expr, value: &Expr) -> Expr {
    let mut operands = Vec::new();
    operands_of_arithmetic(value, &mut operands);
    if operands.is_empty() || uses_position(value) {
        return nodes;
    }
    operands.into_iter().fold(nodes, |nodes, operand| {
        let condition = existence_of(operand.clone(), &Expr::gives_values);
        // So is what has been printed and is read again.
        if has_predicate(&nodes, &condition) { nodes } else { filtered(nodes, condition) }
    })
}

/// Returns whether nodes are selected by a predicate already.
fn has_predicate(nodes: &Expr, predicate: &Expr) -> bool {
    match nodes {
        Expr::Union(operands) => operands.iter().all(|operand| has_predicate(operand, predicate)),
        Expr::Path(Path { start, steps }) => match (steps.last(), start) {
            (Some(step), _) => step.predicates.contains(predicate),
            (None, PathStart::Filter { primary, predicates }) => {
                predicates.contains(predicate) || has_predicate(primary, predicate)
            }
            (None, _) => false,
        },
        _ => false,
    }
}

pub(super) fn operands_of_arithmetic<'e>(value: &'e Expr, operands: &mut Vec<&'e Expr>) {
    let parts = match value {
        Expr::Arithmetic { .. } | Expr::Negate(_) => value.operands(),
        Expr::Call {
            function: Function::Abs | Function::Floor | Function::Ceiling | Function::Round | Function::XsDouble,
            ..
        } => value.operands(),
        Expr::Path(Path { start: PathStart::Filter { predicates, .. }, steps })
            if predicates.is_empty() && steps.is_empty() =>
        {
            value.operands()
        }
        Expr::Call { function: Function::Min | Function::Max | Function::Avg, arguments } => {
            operands.extend(arguments);
            return;
        }
        _ => return,
    };
    for part in parts {
        if part.static_type(&[]) == ExprType::NodeSet {
            operands.push(part)
        } else {
            operands_of_arithmetic(part, operands)
        }
    }
}
