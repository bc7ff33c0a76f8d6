//! `geo:intersects()` and the other functions of places, and the regions that they take.
//!
//! One of the two arguments is a region, which is a constant: `geo:circle(47.4, 8.5, 20)`. The other one is what a message says.
//! `geo:intersects(P, R)` is `boolean(P[geo:intersects(., R)])`, and so with the others, so that the places of a node are one
//! operand that all queries share. `geo:distance(P, R) < k` is `boolean(P[geo:distance(., R) < k])`.

use std::sync::Arc;

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::lexer::Token;
use super::matching::itself;
use super::parser::{Parsed, Parser};
use super::quantified::filtered;
use super::values::TypedConstant;
use crate::error::QueryErrorKind;
use crate::util::number;
use crate::util::places::Region;

/// Levels that the rewriting of a call adds.
const LEVELS: usize = 4;

impl Parser<'_, '_> {
    /// Returns a call of a function of places.
    pub(super) fn call_of_places(&mut self, function: Function, mut arguments: Vec<Expr>, name: Token) -> Parsed<Expr> {
        if matches!(function, Function::GeoPoint | Function::GeoCircle | Function::GeoBox | Function::GeoPolygon) {
            return match region(function, &arguments) {
                Ok(region) => Ok(Expr::Region(Arc::new(region))),
                Err(message) => {
                    let message = format!("{}(): {message}", function.name());
                    Err(self.error(name.start, QueryErrorKind::Syntax, message, &[function.facts().usage]))
                }
            };
        }
        let is_region = |expr: &Expr| matches!(expr, Expr::Region(_));
        let (first, second) = (is_region(&arguments[0]), is_region(&arguments[1]));
        let function = match (first, second) {
            (false, true) => function,
            (true, false) => {
                arguments.swap(0, 1);
                match function {
                    Function::GeoContains => Function::GeoWithin,
                    Function::GeoWithin => Function::GeoContains,
                    other => other,
                }
            }
            (true, true) => {
                let message =
                    format!("{}() compares two regions; one of them has to be of the message", function.name());
                return self.refused(name, message);
            }
            (false, false) => {
                let message = format!(
                    "one argument of {}() is a region: geo:point(), geo:circle(), geo:box() or geo:polygon(), written with \
                     literals or parameters",
                    function.name()
                );
                return self.refused(name, message);
            }
        };
        let (Some(Expr::Region(region)), Some(places)) = (arguments.pop(), arguments.pop()) else {
            return self.refused(name, "a region is missing".to_owned());
        };
        let place_type = self.type_of(&places);
        if !matches!(place_type, ExprType::NodeSet | ExprType::String) {
            let message = format!(
                "{}() takes nodes, or a text such as concat(@lat, ' ', @lon), and this is a {}",
                function.name(),
                place_type.name()
            );
            return self.refused(name, message);
        }
        if function == Function::GeoDistance && region.part().circle_kilometres().is_none() {
            let message = "geo:distance() is measured from geo:point() or geo:circle()".to_owned();
            return self.refused(name, message);
        }
        self.height += LEVELS;
        self.check_height()?;
        let call = |places| Expr::Call { function, arguments: vec![places, Expr::Region(Arc::clone(&region))] };
        if function == Function::GeoDistance || place_type == ExprType::String {
            return Ok(call(places));
        }
        Ok(held_by(places, call))
    }

    /// Returns the comparison of a distance with a number, if it is that something is near.
    pub(super) fn near(&self, op: CompareOp, left: &Expr, right: &Expr) -> Option<Expr> {
        let is_number = |expr: &Expr| matches!(expr, Expr::Number(_) | Expr::Typed(TypedConstant::Double(_)));
        let (distance, op, bound) = match (left, right) {
            (distance, bound) if is_number(bound) => (distance, op, bound),
            (bound, distance) if is_number(bound) => (distance, op.flipped(), bound),
            _ => return None,
        };
        let Expr::Call { function: Function::GeoDistance, arguments } = distance else { return None };
        let [places, region] = arguments.as_slice() else { return None };
        if !matches!(op, CompareOp::Less | CompareOp::LessOrEqual) || self.type_of(places) != ExprType::NodeSet {
            return None;
        }
        Some(held_by(places.clone(), |places| Expr::Compare {
            op,
            left: Box::new(Expr::Call { function: Function::GeoDistance, arguments: vec![places, region.clone()] }),
            right: Box::new(bound.clone()),
        }))
    }

    fn refused<T>(&self, name: Token, message: String) -> Parsed<T> {
        Err(self.error(name.start, QueryErrorKind::Unsupported, message, &[]))
    }
}

/// Returns the condition that one of some nodes satisfies another one. An attribute is there once, and an index has it by its
/// element.
fn held_by(nodes: Expr, condition: impl Fn(Expr) -> Expr) -> Expr {
    let here = |step| Expr::Path(Path { start: PathStart::Context, steps: vec![step] });
    let exists = |path| Expr::Call { function: Function::Boolean, arguments: vec![path] };
    match nodes {
        Expr::Path(Path { start: PathStart::Context, steps }) if matches!(&*steps, [only] if is_plain_attribute(only)) => {
            condition(Expr::Path(Path { start: PathStart::Context, steps }))
        }
        Expr::Path(Path { start, mut steps }) if steps.len() > 1 && steps.last().is_some_and(is_plain_attribute) => {
            let last = steps.pop().unwrap_or_else(itself);
            exists(filtered(Expr::Path(Path { start, steps }), condition(here(last))))
        }
        Expr::Path(Path { start: PathStart::Context, steps }) if *steps == [itself()] => condition(here(itself())),
        nodes => exists(filtered(nodes, condition(here(itself())))),
    }
}

fn is_plain_attribute(step: &Step) -> bool {
    step.axis == Axis::Attribute && step.predicates.is_empty() && matches!(step.test, NodeTest::Name(NameTest::Name(_)))
}

/// Returns the number that an expression of literals is.
fn constant(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Number(number) | Expr::Typed(TypedConstant::Double(number)) => Some(*number),
        Expr::Literal(text) => Some(number::parse(text)),
        Expr::Negate(operand) => constant(operand).map(|number| -number),
        _ => None,
    }
}

/// Returns the region that a call makes, or what is wrong with it.
fn region(function: Function, arguments: &[Expr]) -> Result<Region, String> {
    let of_message = "a region is written with literals or parameters; what a message says is the other argument, as in \
                      geo:intersects(concat(@lat, ' ', @lon), geo:circle(47.4, 8.5, 20))";
    if function == Function::GeoPolygon {
        let rings: Option<Vec<&str>> = arguments
            .iter()
            .map(|argument| match argument {
                Expr::Literal(text) => Some(&**text),
                _ => None,
            })
            .collect();
        return Region::polygon(&rings.ok_or(of_message)?);
    }
    let numbers: Option<Vec<f64>> = arguments.iter().map(constant).collect();
    match (function, numbers.ok_or(of_message)?.as_slice()) {
        (Function::GeoPoint, [latitude, longitude]) => Region::point(*latitude, *longitude),
        (Function::GeoCircle, [latitude, longitude, kilometres]) => Region::circle(*latitude, *longitude, *kilometres),
        (_, [south, west, north, east]) => Region::between(*south, *west, *north, *east),
        _ => Err(format!("write {}", function.facts().usage)),
    }
}
