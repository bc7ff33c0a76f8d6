//! Verdicts on the parts of an expression: whether they hold, and why.

use crate::eval::{Context, EvalError, NodeRef, RegionDistance, Value};
use crate::query::ast::{CompareOp, Expr, Function, PathStart};
use crate::query::position::is_positional;
use crate::util::places::drawing::Drawing;

use super::location::location;
use super::report::{Detail, Hint, HintKind, OperandReport, RegionMap, Verdict};
use super::{Explainer, comparison, shown};

/// The depth to which parts are looked into.
const DEPTH_MAX: usize = 6;
/// Operands of a comparison that are listed.
const VALUES_MAX: usize = 5;
/// Regions that are drawn, and parts of places beside each.
const MAPS_MAX: usize = 4;
const DRAWN_MAX: usize = 20;

/// Returns whether a function asks how places lie to a region.
fn is_relation_of_places(function: Function) -> bool {
    matches!(function, Function::GeoIntersects | Function::GeoDisjoint | Function::GeoWithin | Function::GeoContains)
}

impl<'a> Explainer<'a> {
    /// Returns whether `boolean()` of an expression is true, and why.
    pub(super) fn verdict(&self, expr: &'a Expr, context: Context, depth: usize) -> Result<Verdict, EvalError> {
        let holds = self.evaluator.boolean(expr, context)?;
        let mut hints = Vec::new();
        let detail =
            if depth > DEPTH_MAX { Detail::Omitted } else { self.detail(expr, context, depth, holds, &mut hints)? };
        Ok(Verdict { text: self.text(expr), holds, detail, hints })
    }

    /// Returns whether a predicate holds, where a number stands for a position, and why.
    pub(super) fn predicate_verdict(
        &self,
        predicate: &'a Expr,
        context: Context,
        depth: usize,
    ) -> Result<Verdict, EvalError> {
        let mut verdict = if self.evaluator.is_number(predicate) {
            let number = self.evaluator.value(predicate, context)?;
            let holds = self.evaluator.holds(predicate, context)?;
            Verdict { text: self.text(predicate), holds, detail: Detail::Value(shown(&number).1), hints: Vec::new() }
        } else {
            self.verdict(predicate, context, depth)?
        };
        if !verdict.holds && is_positional(predicate) {
            let message = format!("this is number {} of {}", context.position, context.size);
            verdict.hints.push(Hint { kind: HintKind::Position, message, location: None });
        }
        Ok(verdict)
    }

    fn detail(
        &self,
        expr: &'a Expr,
        context: Context,
        depth: usize,
        holds: bool,
        hints: &mut Vec<Hint>,
    ) -> Result<Detail, EvalError> {
        let operands = |operands: &'a [Expr]| {
            operands.iter().map(|operand| self.verdict(operand, context, depth + 1)).collect::<Result<Vec<_>, _>>()
        };
        Ok(match expr {
            Expr::And(list) => Detail::All(operands(list)?),
            Expr::Or(list) | Expr::Union(list) => Detail::Any(operands(list)?),
            Expr::Path(path) => match &path.start {
                PathStart::Filter { primary, predicates } if path.steps.is_empty() && predicates.is_empty() => {
                    self.detail(primary, context, depth, holds, hints)?
                }
                _ => Detail::Path(self.path(path, context, depth)?),
            },
            Expr::Compare { op, left, right } => {
                for side in [left, right] {
                    if let Expr::Call { function: Function::GeoDistance, arguments } = &**side {
                        self.draw(arguments, context)?;
                    }
                }
                if !holds {
                    *hints = self.comparison_hints(*op, left, right, context)?;
                }
                Detail::Comparison {
                    operator: op.symbol(),
                    left: self.operand(left, context, depth, !holds)?,
                    right: self.operand(right, context, depth, !holds)?,
                }
            }
            Expr::Call { function: Function::Not, arguments } => {
                Detail::Not(Box::new(self.verdict(&arguments[0], context, depth + 1)?))
            }
            Expr::Call { function: Function::Boolean, arguments } => {
                self.detail(&arguments[0], context, depth, holds, hints)?
            }
            Expr::Call { function, arguments } if is_relation_of_places(*function) => {
                self.draw(arguments, context)?;
                if !holds {
                    *hints = self.place_hints(*function, arguments, context)?;
                }
                Detail::Comparison {
                    operator: function.name(),
                    left: self.operand(&arguments[0], context, depth, !holds)?,
                    right: self.operand(&arguments[1], context, depth, !holds)?,
                }
            }
            Expr::Call { function: function @ (Function::Contains | Function::StartsWith), arguments } => {
                if !holds {
                    *hints = self.contained_hints(*function, &arguments[0], &arguments[1], context)?;
                }
                Detail::Comparison {
                    operator: if *function == Function::Contains { "contains" } else { "starts with" },
                    left: self.operand(&arguments[0], context, depth, !holds)?,
                    right: self.operand(&arguments[1], context, depth, !holds)?,
                }
            }
            _ => Detail::Value(shown(&self.evaluator.value(expr, context)?).1),
        })
    }

    fn operand(
        &self,
        expr: &'a Expr,
        context: Context,
        depth: usize,
        look_into: bool,
    ) -> Result<OperandReport, EvalError> {
        let value = self.evaluator.value(expr, context)?;
        let (kind, text) = shown(&value);
        let Value::Nodes(nodes) = value else {
            return Ok(OperandReport {
                text: self.text(expr),
                kind,
                count: 1,
                values: vec![(text, None)],
                empty: None,
            });
        };
        let mut values = Vec::new();
        for &node in nodes.iter().take(VALUES_MAX) {
            let node_location = location(&self.evaluator, node)?;
            values.push((node_location.value.clone(), Some(node_location)));
        }
        let empty = match expr {
            Expr::Path(path) if nodes.is_empty() && look_into && depth < DEPTH_MAX => {
                Some(Box::new(self.path(path, context, depth + 1)?))
            }
            _ => None,
        };
        Ok(OperandReport { text: self.text(expr), kind, count: nodes.len(), values, empty })
    }

    fn comparison_hints(
        &self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Result<Vec<Hint>, EvalError> {
        let (left_value, right_value) = (self.evaluator.value(left, context)?, self.evaluator.value(right, context)?);
        let (set, nodes, op, constant) = match (&left_value, &right_value) {
            (Value::Nodes(_), Value::Nodes(_)) => return Ok(Vec::new()),
            (Value::Nodes(nodes), constant) => (left, nodes, op, constant),
            (constant, Value::Nodes(nodes)) => (right, nodes, op.flipped(), constant),
            _ => return Ok(comparison::scalar_hints(&self.text(left), &left_value, op, &right_value)),
        };
        let text = self.text(set);
        if nodes.is_empty() && op == CompareOp::NotEqual {
            let message = format!(
                "there is no `{text}` here, and != is false without one; not({text} = ...) is true without one"
            );
            return Ok(vec![Hint { kind: HintKind::Absent, message, location: None }]);
        }
        comparison::hints(&self.evaluator, &text, nodes, op, constant)
    }

    /// Notes a region that is asked for, and the places here, for a map.
    fn draw(&self, arguments: &'a [Expr], context: Context) -> Result<(), EvalError> {
        let [places, Expr::Region(region)] = arguments else { return Ok(()) };
        let places = self.evaluator.places(places, context)?;
        let mut maps = self.maps.borrow_mut();
        let position = match maps.iter().position(|map| map.text == region.text()) {
            Some(position) => position,
            None if maps.len() < MAPS_MAX => {
                let (text, region) = (region.text().to_owned(), Drawing::of(region.part()));
                maps.push(RegionMap { text, region, places: Vec::new() });
                maps.len() - 1
            }
            None => return Ok(()),
        };
        let drawn = &mut maps[position].places;
        for part in places.iter().flat_map(|place| place.parts()) {
            let drawing = Drawing::of(part);
            if drawn.len() < DRAWN_MAX && !drawn.contains(&drawing) {
                drawn.push(drawing);
            }
        }
        Ok(())
    }

    /// Returns why no place lies to a region as a function asks.
    fn place_hints(&self, function: Function, arguments: &'a [Expr], context: Context) -> Result<Vec<Hint>, EvalError> {
        let hint = |message: String| Ok(vec![Hint { kind: HintKind::Region, message, location: None }]);
        let [places, Expr::Region(region)] = arguments else { return Ok(Vec::new()) };
        let text = self.text(places);
        let Some(nearest) = self.evaluator.nearest_of_places(places, region, context)? else {
            let is_there = self.evaluator.boolean(places, context)?;
            return hint(if is_there {
                format!(
                    "no place can be read from `{text}`: it is no polygon, circle, point, line or box as CAP, GeoRSS, GML \
                         or KML write it, or its numbers are out of range"
                )
            } else {
                format!("there is no `{text}` here, so there is no place")
            });
        };
        let region = region.text();
        hint(match (function, nearest) {
            (_, RegionDistance::Kilometres(kilometres)) => {
                format!("the nearest place of `{text}` is {kilometres:.1} km away from {region}")
            }
            (Function::GeoWithin, RegionDistance::Meets) => {
                format!("a place of `{text}` meets {region}, but only a part of it is within")
            }
            (Function::GeoContains, RegionDistance::Meets) => {
                format!("a place of `{text}` meets {region}, but does not contain all of it")
            }
            (Function::GeoDisjoint, RegionDistance::Meets) => format!("all places of `{text}` meet {region}"),
            (_, RegionDistance::Meets | RegionDistance::Apart) => {
                format!("no place of `{text}` has a point in common with {region}")
            }
        })
    }

    fn contained_hints(
        &self,
        function: Function,
        text: &'a Expr,
        part: &'a Expr,
        context: Context,
    ) -> Result<Vec<Hint>, EvalError> {
        let expected = self.evaluator.string(part, context)?;
        let within = |value: &str, expected: &str| match function {
            Function::Contains => value.contains(expected),
            _ => value.starts_with(expected),
        };
        let mut hints = Vec::new();
        let value = self.evaluator.string(text, context)?;
        if within(&value.to_lowercase(), &expected.to_lowercase()) {
            let message = format!("\"{expected}\" is there, but in other letter case");
            hints.push(Hint { kind: HintKind::Case, message, location: None });
        } else if within(&comparison::normalized(&value), &comparison::normalized(&expected)) {
            let message = format!("\"{expected}\" is there, but with other white space");
            hints.push(Hint { kind: HintKind::WhiteSpace, message, location: None });
        }
        if let Value::Nodes(nodes) = self.evaluator.value(text, context)?
            && let Some(node) = self.first_that(&nodes, |value| within(value, &expected))?
        {
            let name = self.text(text);
            let message = format!(
                "only the first of {} nodes `{name}` is looked at; {name}[{function_text}] asks for any",
                nodes.len(),
                function_text =
                    format_args!("{}(., ...)", if function == Function::Contains { "contains" } else { "starts-with" })
            );
            hints.push(Hint {
                kind: HintKind::FirstNodeOnly,
                message,
                location: Some(location(&self.evaluator, node)?),
            });
        }
        Ok(hints)
    }

    fn first_that(&self, nodes: &[NodeRef], accepts: impl Fn(&str) -> bool) -> Result<Option<NodeRef>, EvalError> {
        for &node in nodes {
            if accepts(&self.evaluator.string_value(node)?) {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }
}
