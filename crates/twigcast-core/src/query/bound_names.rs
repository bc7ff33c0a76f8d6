//! Names that stand for expressions: of `let` in XPath, of a variable that goes through a list, of parameters.

use super::ast::{Expr, Path, PathStart, VariableId};
use super::lexer::{Token, TokenKind};
use super::matching::size;
use super::operators::{SUBSTITUTED_FIRST, Side, Substitution};
use super::parameters::ParameterValue;
use super::parser::{Parsed, Parser};
use super::refusals::any_of;
use crate::error::{QueryError, QueryErrorKind};

impl<'a> Parser<'a, '_> {
    /// Parses `let $a := b return c` in XPath.
    pub(super) fn let_expression(&mut self) -> Parsed<Expr> {
        self.enter()?;
        self.advance();
        let scope = self.variables.len();
        loop {
            let variable = self.token;
            if variable.kind != TokenKind::Variable {
                return Err(self.unexpected_operand(&["$variable"]));
            }
            let name = self.text_of(variable)[1..].trim_start();
            self.advance();
            if self.token.kind != TokenKind::Assign {
                return Err(self.unexpected_operand(&[":="]));
            }
            self.advance();
            self.enter()?;
            let value = match self.worded()? {
                Some(expr) => Side::One(expr),
                None => self.operands(0)?,
            };
            self.leave();
            let context = value.all().iter().any(depends_on_context).then_some(self.context);
            self.substitute(name, Substitution { value, height: self.height, context });
            if self.token.kind != TokenKind::Comma {
                break;
            }
            self.advance();
        }
        self.expect_word("return")?;
        let result = self.expression()?;
        self.variables.truncate(scope);
        self.leave();
        Ok(result)
    }

    /// Makes a name stand for an expression, until the variables are cut back.
    pub(super) fn substitute(&mut self, name: &'a str, substitution: Substitution) {
        let id = VariableId::new(SUBSTITUTED_FIRST + self.substitutions.len());
        self.substitutions.push(substitution);
        self.variables.push((name, id));
    }

    /// Returns the number of what a name stands for, if that is an expression.
    pub(super) fn substitution_of(&self, name: &str) -> Option<usize> {
        let (_, id) = self.variables.iter().rev().find(|(existing, _)| *existing == name)?;
        let index = id.index().checked_sub(SUBSTITUTED_FIRST)?;
        (index < self.substitutions.len()).then_some(index)
    }

    /// Returns the expression that a variable stands for.
    pub(super) fn substituted(&mut self, token: Token, name: &str, index: usize) -> Parsed<Expr> {
        let Substitution { value, height, context } = &self.substitutions[index];
        if context.is_some_and(|context| context != self.context) {
            let message = format!(
                "${name} is about another context node than the one here, which cannot be asked for from here; begin its path \
                 with `/`, or use dialect=\"xquery\""
            );
            return Err(self.error(token.start, QueryErrorKind::Unsupported, message, &[]));
        }
        let Side::One(expr) = value else {
            let message = format!(
                "${name} is a list, which can only be compared: a = ${name}; to go through it write some $one in ${name} \
                 satisfies ..."
            );
            return Err(self.error(token.start, QueryErrorKind::Unsupported, message, &[]));
        };
        let (expr, height) = (expr.clone(), *height);
        self.height = height;
        self.write_out(size(&expr), token.start)?;
        Ok(expr)
    }

    /// Returns the values of the current token, if it is a name of a list, and moves past it.
    pub(super) fn list_of_name(&mut self) -> Parsed<Option<Side>> {
        let token = self.token;
        if token.kind != TokenKind::Variable {
            return Ok(None);
        }
        let name = self.text_of(token)[1..].trim_start();
        let Some(index) = self.substitution_of(name) else { return Ok(self.parameter_list()) };
        let Substitution { value: value @ Side::Several(_), height, context } = &self.substitutions[index] else {
            return Ok(None);
        };
        if context.is_some_and(|context| context != self.context) {
            return Ok(None);
        }
        let (value, height) = (value.clone(), *height);
        self.write_out(value.all().iter().map(size).sum(), token.start)?;
        self.advance();
        self.height = height;
        Ok(Some(value))
    }

    // Parameters ---------------------------------------------------------------------------------------------------

    /// Parses a variable that stands for a parameter. `None`: the subscription gives none of this name.
    pub(super) fn parameter(&mut self, token: Token, name: &str) -> Parsed<Option<Expr>> {
        let Some(value) = self.options.parameters.get(name) else { return Ok(None) };
        self.used_parameters.insert(name.to_owned());
        match value.literal() {
            Some(literal) => Ok(Some(literal)),
            None => {
                let message = format!(
                    "the parameter ${name} is a list, which can only be compared: a = ${name}; to go through it write \
                     some $one in ${name} satisfies ..."
                );
                Err(self.error(token.start, QueryErrorKind::Unsupported, message, &[]))
            }
        }
    }

    /// Returns the values of the current token, if it is a parameter that is a list, and moves past it.
    pub(super) fn parameter_list(&mut self) -> Option<Side> {
        let name = self.text_of(self.token)[1..].trim_start();
        if self.variables.iter().any(|(existing, _)| *existing == name) {
            return None;
        }
        let ParameterValue::List(values) = self.options.parameters.get(name)? else { return None };
        self.used_parameters.insert(name.to_owned());
        self.advance();
        self.height = 0;
        Some(Side::Several(values.iter().filter_map(ParameterValue::literal).collect()))
    }

    /// Returns whether a name is that of a parameter that is a list.
    pub(super) fn is_parameter_list(&self, name: &str) -> bool {
        let is_bound = self.variables.iter().any(|(existing, _)| *existing == name);
        !is_bound && matches!(self.options.parameters.get(name), Some(ParameterValue::List(_)))
    }

    /// Refuses parameters that the query does not name: their values would have no effect.
    pub(super) fn refuse_unused_parameters(&self) -> Parsed<()> {
        let unused = self.options.parameters.keys().filter(|name| !self.used_parameters.contains(*name));
        let unused: Vec<String> = unused.map(|name| format!("${name}")).collect();
        if unused.is_empty() {
            return Ok(());
        }
        let unused: Vec<&str> = unused.iter().map(String::as_str).collect();
        let message = format!(
            "the query does not use the parameter {}; name it in the query, or leave its value out",
            any_of(&unused).replace(" or ", " and ")
        );
        Err(self.error(0, QueryErrorKind::Syntax, message, &[]))
    }

    /// Returns the error of a variable that is neither bound nor a parameter.
    pub(super) fn missing_parameter(&self, token: Token, name: &str) -> Box<QueryError> {
        let given: Vec<String> = self.options.parameters.keys().map(|name| format!("${name}")).collect();
        let given = if given.is_empty() { "none is given".into() } else { format!("given: {}", given.join(", ")) };
        let message = format!(
            "the parameter ${name} has no value ({given}); give it beside the query, as in params={{\"{name}\": \"...\"}}, or \
             bind the variable: let ${name} := ... return ..."
        );
        self.error(token.start, QueryErrorKind::Syntax, message, &[])
    }
}

/// Returns whether the value of an expression depends on where it is evaluated.
fn depends_on_context(expr: &Expr) -> bool {
    let own = match expr {
        Expr::Path(Path { start: PathStart::Context, .. }) => true,
        Expr::Call { function, arguments } => function.facts().reads_context(arguments.len()),
        _ => false,
    };
    own || expr.operands().any(depends_on_context)
}
