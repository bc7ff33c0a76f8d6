//! Numbers as XQuery writes them. It has several types of numbers, each with a form of its own: an `xs:double` has an exponent
//! where it is large or small, an `xs:integer` never has one. Here all are doubles, so the type is that of the expression.

use super::ast::{Expr, Function, Path, PathStart, VariableId};
use super::flwr::{IfExpr, ItemExpr};
use super::functions::ExprType;
use super::operators::{Operator, combine};
use super::options::Dialect;
use super::parser::{Parsed, Parser};
use super::sequences::operands_of_arithmetic;
use super::typed::{NumberForm, TypedConstant};
use crate::error::QueryErrorKind;
use crate::util::temporal::Component;

impl Parser<'_, '_> {
    /// Notes the form of a number, or of the items, that a variable has.
    pub(super) fn note_form(&mut self, variable: VariableId, value: &Expr) {
        let form = match self.type_of(value) {
            ExprType::Number if !self.operands_of(value).is_empty() => Some(NumberForm::Unknown),
            ExprType::Number => Some(self.form_of(value)),
            _ => self.items_form(value),
        };
        self.number_forms.extend(form.map(|form| (variable, form)));
    }

    fn form_of_variable(&self, variable: VariableId) -> Option<NumberForm> {
        self.number_forms.iter().find(|(id, _)| *id == variable).map(|(_, form)| *form)
    }

    /// Returns the form of a number.
    pub(super) fn form_of(&self, expr: &Expr) -> NumberForm {
        match expr {
            Expr::Number(number) if number.fract() == 0.0 => NumberForm::Integer,
            Expr::Number(_) => NumberForm::Decimal,
            Expr::Typed(TypedConstant::Double(_)) => NumberForm::Double,
            Expr::Negate(operand) => match self.form_of(operand) {
                // Of the integer 0 there is no negative.
                NumberForm::DoubleOrZero => NumberForm::Unknown,
                form => form,
            },
            Expr::Arithmetic { op, left, right } => NumberForm::combined(*op, self.form_of(left), self.form_of(right)),
            Expr::Path(Path { start, steps }) if steps.is_empty() => match start {
                PathStart::Variable(id) => self.form_of_variable(*id).unwrap_or(NumberForm::Unknown),
                PathStart::Filter { primary, predicates } if predicates.is_empty() => self.form_of(primary),
                _ => NumberForm::Unknown,
            },
            Expr::Call { function, arguments } => self.form_of_call(*function, arguments),
            _ => NumberForm::Unknown,
        }
    }

    fn form_of_call(&self, function: Function, arguments: &[Expr]) -> NumberForm {
        if let Some((_, component)) = function.component() {
            return if component == Component::Seconds { NumberForm::Unknown } else { NumberForm::Integer };
        }
        match function {
            Function::Count | Function::StringLength | Function::Position | Function::Last | Function::XsInteger => {
                NumberForm::Integer
            }
            Function::XsDecimal => NumberForm::Decimal,
            Function::XsDouble | Function::Number => NumberForm::Double,
            Function::Abs | Function::Floor | Function::Ceiling | Function::Round => {
                arguments.first().map_or(NumberForm::Unknown, |argument| self.form_of(argument))
            }
            Function::Sum | Function::Min | Function::Max | Function::Avg => {
                // What texts are read as is a double.
                let items = match arguments.first() {
                    Some(Expr::Map { nodes, value }) if is_read_as_double(value) => &**nodes,
                    Some(items) => items,
                    None => return NumberForm::Unknown,
                };
                match (function, self.items_form(items)) {
                    // Values that are texts are compared as texts.
                    (Function::Min | Function::Max, None) if self.gives_values(items) => NumberForm::Unknown,
                    (Function::Sum, None) => NumberForm::DoubleOrZero,
                    (_, None) => NumberForm::Double,
                    (Function::Avg, Some(NumberForm::Integer)) => NumberForm::Unknown,
                    (Function::Sum | Function::Avg, Some(NumberForm::Decimal)) => NumberForm::Unknown,
                    (_, Some(form)) => form,
                }
            }
            _ => NumberForm::Unknown,
        }
    }

    /// Returns the form of the items of an expression; `None` if they are nodes or texts.
    pub(super) fn items_form(&self, expr: &Expr) -> Option<NumberForm> {
        match expr {
            Expr::Map { value, .. } => match self.type_of(value) {
                ExprType::NodeSet => self.items_form(value),
                ExprType::Number => Some(self.form_of(value)),
                _ => None,
            },
            Expr::Path(Path { start, steps }) if steps.is_empty() => match start {
                PathStart::Variable(id) if self.value_variables.contains(id) => self.form_of_variable(*id),
                PathStart::Filter { primary, .. } => self.items_form(primary),
                _ => None,
            },
            Expr::Call { function: Function::DistinctValues, arguments } => self.items_form(&arguments[0]),
            _ => None,
        }
    }

    /// Returns a value of which a text is made, so that numbers in it are written as XQuery writes them, where the dialect is
    /// that.
    pub(super) fn written(&self, value: Expr, start: usize) -> Parsed<Expr> {
        let is_number = self.type_of(&value) == ExprType::Number;
        if self.options.dialect == Dialect::Native && is_number && !self.operands_of(&value).is_empty() {
            let message = "whether there is such a number is left to a processor of XQuery".into();
            return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
        }
        self.written_if_there(value, start)
    }

    fn written_if_there(&self, value: Expr, start: usize) -> Parsed<Expr> {
        if self.options.dialect != Dialect::Native {
            return Ok(value);
        }
        let is_number = self.type_of(&value) == ExprType::Number;
        match if is_number { Some(self.form_of(&value)) } else { self.items_form(&value) } {
            None | Some(NumberForm::Integer | NumberForm::Decimal) => Ok(value),
            Some(NumberForm::Double | NumberForm::DoubleOrZero) if is_number => Ok(as_text(value)),
            Some(NumberForm::Double | NumberForm::DoubleOrZero) => {
                let text = Box::new(as_text(super::typing::itself()));
                Ok(Expr::Map { nodes: Box::new(value), value: text })
            }
            Some(NumberForm::Unknown) => {
                let message = "how the number is written is left to a processor of XQuery".into();
                Err(self.error(start, QueryErrorKind::Unsupported, message, &[]))
            }
        }
    }

    /// Returns the operands of arithmetic without which there is no number.
    fn operands_of<'e>(&self, value: &'e Expr) -> Vec<&'e Expr> {
        let mut operands = Vec::new();
        operands_of_arithmetic(value, &mut operands);
        operands.retain(|operand| self.type_of(operand) == ExprType::NodeSet);
        operands
    }

    /// Returns a value that is returned. In XQuery there is none where an operand of its arithmetic is missing.
    pub(super) fn returned(&self, value: Expr, start: usize) -> Parsed<ItemExpr> {
        let is_number = self.options.dialect == Dialect::Native && self.type_of(&value) == ExprType::Number;
        let operands = if is_number { self.operands_of(&value) } else { Vec::new() };
        let exist = operands.into_iter().cloned().map(|operand| self.exist(operand));
        let condition = exist.reduce(|left, right| combine(Operator::And, left, right));
        let then = ItemExpr::Value(self.written_if_there(value, start)?);
        Ok(match condition {
            None => then,
            Some(condition) => {
                ItemExpr::If(Box::new(IfExpr { condition, then, otherwise: ItemExpr::Sequence(Vec::new()) }))
            }
        })
    }
}

fn as_text(value: Expr) -> Expr {
    Expr::Call { function: Function::XsString, arguments: vec![value] }
}

/// Returns whether a value of each item is the item itself, read as a number.
fn is_read_as_double(value: &Expr) -> bool {
    matches!(value, Expr::Call { function: Function::XsDouble, arguments } if arguments[0] == super::typing::itself())
}
