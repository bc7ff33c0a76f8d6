//! Values of the types of XML Schema. A text that is not of its type has no value: it compares with nothing, and sums
//! skip it.

use std::borrow::Cow;

use crate::document::NodeKind;
use crate::query::ast::{CompareOp, Expr, Function};
use crate::query::functions::ExprType;
use crate::query::typed::{CastType, TypedValue};
use crate::query::typing::{expanded_name, is_name};
use crate::util::number::SPACES;

use super::evaluator::{Evaluator, OPERATION_VISITS};
use super::node::NodeRef;
use super::value::{BarePath, Context, EvalError, Halt, Value, bare};

/// An expression and its type.
type TypedExpr<'a> = (&'a Expr, ExprType);

/// A kind of values that a comparison compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComparedType {
    /// Values that texts are read as.
    Cast(CastType),
    /// Names.
    Name,
}

/// Returns the type that two operands are compared in; `None` for a comparison of XPath 1.0.
#[inline]
pub(super) fn comparison_type(left: TypedExpr<'_>, right: TypedExpr<'_>) -> Option<ComparedType> {
    let of = |(expr, of): TypedExpr<'_>, other: ExprType| match of {
        ExprType::NodeSet | ExprType::Boolean | ExprType::String => None,
        ExprType::QName => Some(ComparedType::Name),
        // A text or a truth has a number of its own.
        ExprType::Number if matches!(other, ExprType::String | ExprType::Boolean) => None,
        _ => expr.cast_type(of).map(ComparedType::Cast),
    };
    of(left, right.1).or_else(|| of(right, left.1))
}

impl<'a> Evaluator<'a> {
    /// Compares two operands, of which one has a type. With nodes, one that is a value and compares so is enough.
    pub(super) fn compare_typed(
        &self,
        op: CompareOp,
        left: TypedExpr<'a>,
        right: TypedExpr<'a>,
        compared: ComparedType,
        context: Context,
    ) -> Result<bool, EvalError> {
        let (nodes, other, op) = match (left.1, right.1, compared) {
            (ExprType::NodeSet, _, ComparedType::Cast(_)) => (left.0, right.0, op),
            (_, ExprType::NodeSet, ComparedType::Cast(_)) => (right.0, left.0, op.flipped()),
            _ => {
                let Some(left) = self.typed(left.0, context)? else { return Ok(false) };
                return Ok(self.typed(right.0, context)?.is_some_and(|right| left.holds(op, &right)));
            }
        };
        let ComparedType::Cast(cast) = compared else { return Ok(false) };
        let Some(other_value) = self.typed(other, context)? else { return Ok(false) };
        let holds = |node| Ok(self.typed_value(node, cast)?.is_some_and(|value| value.holds(op, &other_value)));
        if other.is_constant()
            && let Some(holds) = self.set_in_table(nodes, context, &mut |node| holds(node))?
        {
            return Ok(holds);
        }
        self.any_of(nodes, context, &mut |node| match holds(node) {
            Ok(true) => Err(Halt::Stopped),
            Ok(false) => Ok(()),
            Err(error) => Err(Halt::Failed(error)),
        })
    }

    /// Returns what the string-value of a node is as a value of a type; `None` if it is none.
    pub fn typed_value(&self, node: NodeRef, cast: CastType) -> Result<Option<TypedValue>, EvalError> {
        self.charge(OPERATION_VISITS)?;
        if let Some(number) = self.number_among_values(node).filter(|_| cast == CastType::Double) {
            return Ok(Some(TypedValue::Number(number)));
        }
        Ok(cast.parse(&self.whole_reading(node)?))
    }

    /// Returns the values of a type that an expression has, which is asked of one node after the other: of nodes, all
    /// that are some; otherwise its only value.
    pub fn typed_values_at(&self, expr: &'a Expr, cast: CastType, node: NodeRef) -> Result<Vec<TypedValue>, EvalError> {
        self.within_predicate(|| {
            let context = Context::at(node);
            if self.type_of(expr) != ExprType::NodeSet {
                return Ok(self.typed(expr, context)?.into_iter().collect());
            }
            let mut values = Vec::new();
            for node in self.nodes(expr, context)? {
                values.extend(self.typed_value(node, cast)?);
            }
            Ok(values)
        })
    }

    /// Returns the value of an expression of a type; `None` if it has none.
    pub fn typed(&self, expr: &'a Expr, context: Context) -> Result<Option<TypedValue>, EvalError> {
        Ok(match expr {
            Expr::Typed(constant) => Some(constant.value()),
            Expr::Number(number) => Some(TypedValue::Number(*number)),
            // These functions return NaN if an argument is not a number.
            Expr::Call { function, .. } if function.needs_numbers() && expr.cast_type(ExprType::Number).is_some() => {
                self.typed_number(expr, context)?.filter(|value| !matches!(value, TypedValue::Number(n) if n.is_nan()))
            }
            Expr::Call { function, arguments } => match self.typed_call(*function, arguments, context)? {
                Some(value) => value,
                None => self.typed_number(expr, context)?,
            },
            Expr::Arithmetic { op, left, right } if op.is_of_temporals() => {
                self.charge(OPERATION_VISITS)?;
                let Some(left) = self.typed(left, context)? else { return Ok(None) };
                let Some(right) = self.typed(right, context)? else { return Ok(None) };
                op.of_temporals(&left, &right)
            }
            // A number is missing where an operand is missing that has a type.
            Expr::Arithmetic { left, right, .. } => {
                let is_missing = |operand: &'a Expr| {
                    let has_type = operand.cast_type(self.type_of(operand)).is_some();
                    Ok(has_type && self.typed(operand, context)?.is_none())
                };
                if is_missing(left)? || is_missing(right)? { None } else { self.typed_number(expr, context)? }
            }
            Expr::Negate(operand) => match self.typed(operand, context)? {
                Some(TypedValue::Number(number)) => Some(TypedValue::Number(-number)),
                _ => None,
            },
            Expr::Path(path) => match bare(path) {
                Some(BarePath::Expression(primary)) => return self.typed(primary, context),
                Some(BarePath::Variable(variable)) => match &self.variables[variable] {
                    Value::Temporal(temporal) => Some(TypedValue::Temporal(*temporal)),
                    Value::Number(number) => Some(TypedValue::Number(*number)),
                    _ => None,
                },
                None => None,
            },
            _ => self.typed_number(expr, context)?,
        })
    }

    fn typed_number(&self, expr: &'a Expr, context: Context) -> Result<Option<TypedValue>, EvalError> {
        let is_number = self.type_of(expr) == ExprType::Number;
        if is_number { Ok(Some(TypedValue::Number(self.number(expr, context)?))) } else { Ok(None) }
    }

    /// Returns what a function gives that makes values of a type; `None` for any other function.
    fn typed_call(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<Option<Option<TypedValue>>, EvalError> {
        if function == Function::ResolveQName {
            let name = self.resolved_name(arguments, context)?;
            return Ok(Some(name.map(|name| TypedValue::Name(name.into()))));
        }
        if function == Function::TwigNow {
            return Ok(Some(self.published().map(TypedValue::Temporal)));
        }
        let component = function.component();
        let cast = component.map(|(kind, _)| CastType::Temporal(kind)).or_else(|| function.cast());
        let Some(cast) = cast else { return Ok(None) };
        self.charge(OPERATION_VISITS)?;
        let argument = &arguments[0];
        let value = match self.type_of(argument) {
            ExprType::Temporal(_) => match (self.typed(argument, context)?, cast) {
                (Some(TypedValue::Temporal(value)), CastType::Temporal(kind)) => {
                    value.cast(kind).map(TypedValue::Temporal)
                }
                _ => None,
            },
            ExprType::Number | ExprType::Boolean => self.number_as(function, argument, context)?,
            ExprType::NodeSet => match self.first_node(argument, context)? {
                Some(node) => match self.number_among_values(node).filter(|_| function == Function::XsDouble) {
                    Some(number) => Some(TypedValue::Number(number)),
                    None => self.text_as(function, cast, &self.whole_reading(node)?),
                },
                None => None,
            },
            _ => self.text_as(function, cast, &self.string(argument, context)?),
        };
        Ok(Some(match (component, value) {
            (Some((_, part)), Some(TypedValue::Temporal(value))) => Some(TypedValue::Number(value.component(part))),
            (Some(_), _) => None,
            (None, value) => value,
        }))
    }

    fn text_as(&self, function: Function, cast: CastType, text: &str) -> Option<TypedValue> {
        match cast {
            CastType::Double => function.number_of_text(text).map(TypedValue::Number),
            cast => cast.parse(text),
        }
    }

    fn number_as(
        &self,
        function: Function,
        argument: &'a Expr,
        context: Context,
    ) -> Result<Option<TypedValue>, EvalError> {
        let number = match argument.cast_type(self.type_of(argument)) {
            Some(_) => match self.typed(argument, context)? {
                Some(TypedValue::Number(number)) => number,
                _ => return Ok(None),
            },
            None => self.number(argument, context)?,
        };
        let number = match function {
            Function::XsInteger if number.is_finite() => number.trunc(),
            Function::XsDecimal if number.is_finite() => number,
            Function::XsDouble => number,
            _ => return Ok(None),
        };
        Ok(Some(TypedValue::Number(number)))
    }

    /// Returns the value of an expression of a type: no value is an empty node-set.
    pub(super) fn typed_result(&self, expr: &'a Expr, context: Context) -> Result<Value<'a>, EvalError> {
        Ok(value_of(self.typed(expr, context)?))
    }

    pub(super) fn typed_call_result(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<Value<'a>, EvalError> {
        Ok(match (function, self.typed_call(function, arguments, context)?.flatten()) {
            // Its text is that of the argument.
            (Function::TwigVersion, Some(_)) => Value::String(self.string(&arguments[0], context)?),
            (_, value) => value_of(value),
        })
    }

    /// Evaluates `resolve-QName()`: the name that a text is by the namespaces in scope at an element.
    fn resolved_name(&self, arguments: &'a [Expr], context: Context) -> Result<Option<String>, EvalError> {
        let text = match self.type_of(&arguments[0]) {
            ExprType::NodeSet => match self.first_node(&arguments[0], context)? {
                Some(node) => self.string_value(node)?,
                None => return Ok(None),
            },
            _ => self.string(&arguments[0], context)?,
        };
        let Some(NodeRef::Node(element)) = self.first_node(&arguments[1], context)? else { return Ok(None) };
        self.charge_text(text.len())?;
        let text = text.trim_matches(SPACES);
        let (prefix, local) = text.split_once(':').map_or(("", text), |(prefix, local)| (prefix, local));
        let is_prefix = prefix.len() + local.len() == text.len() || is_name(prefix);
        let is_element = self.message.document.nodes[element as usize].kind == NodeKind::Element;
        if !is_element || !is_prefix || !is_name(local) {
            return Ok(None);
        }
        self.charge(OPERATION_VISITS)?;
        let namespace = self.namespace_in_scope(element, prefix);
        Ok(namespace.map(|namespace| expanded_name(&namespace, local)))
    }
}

fn value_of<'a>(value: Option<TypedValue>) -> Value<'a> {
    match value {
        None => Value::Nodes(Vec::new()),
        Some(TypedValue::Number(number)) => Value::Number(number),
        Some(TypedValue::Temporal(temporal)) => Value::Temporal(temporal),
        Some(TypedValue::Name(name)) => Value::String(Cow::Owned(name.into())),
        // Only constants have no text: they are compared and no more.
        Some(TypedValue::Version(_)) => Value::Boolean(true),
    }
}
