//! Parses constructs of XPath 3.1 that have an equivalent in XPath 1.0 into that equivalent, so that the whole engine
//! supports them.
//!
//! `exists(P)` is `boolean(P)`, `empty(P)` is `not(P)`, `a || b` is `concat(a, b)`, `. = ('a', 'b')` is
//! `. = 'a' or . = 'b'`, `some $x in P satisfies $x/q` is `boolean(P[q])`, `if (a) then b else c` is
//! `a and b or not(a) and c`.

use std::sync::Arc;

use super::ast::{CompareOp, Expr, Function, VariableId};
use super::functions::ExprType;
use super::lexer::{Token, TokenKind};
use super::matching::{existence_of, size};
use super::operators::{Operator, Side, Substitution, combine};
use super::parser::{Parsed, Parser};
use super::pattern::Pattern;
use super::quantified::{QUANTIFIED_FIRST, Quantifier, call};
use crate::error::QueryErrorKind;
use crate::util::number;

/// The most integers of a range.
const RANGE_MAX: usize = 1_000;
/// The most parts of expressions that writing out the lists of a query may make.
const WRITTEN_OUT_MAX: usize = 50_000;

impl<'a> Parser<'a, '_> {
    /// Parses `exists(nodes)` or `empty(nodes)`.
    pub(super) fn existence(&mut self, function: Function, usage: &'static str) -> Parsed<Expr> {
        let name = self.token;
        self.advance();
        let open = self.token.start;
        self.advance();
        let start = self.token.start;
        if self.token.kind == TokenKind::CloseParen {
            let message = format!("{}() has no argument here; write {usage}", self.text_of(name));
            return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[usage]));
        }
        let argument = self.argument(function)?;
        self.require_node_set(&argument, start, &format!("the argument of {}()", self.text_of(name)))?;
        self.close(TokenKind::CloseParen, open)?;
        self.height += 2;
        let exist = self.exist(argument);
        Ok(if function == Function::Not { call(function, exist) } else { exist })
    }

    /// Returns the condition that there are items. It differs from `boolean()`, which depends on the value of a single item.
    pub(super) fn exist(&self, items: Expr) -> Expr {
        existence_of(items, &|expr| self.gives_values(expr))
    }

    /// Parses an expression that begins with a word: `some`, `every`, `if` or `let`. `None`: it does not.
    pub(super) fn worded(&mut self) -> Parsed<Option<Expr>> {
        if self.token.kind != TokenKind::Name {
            return Ok(None);
        }
        match (self.text_of(self.token), self.lexer.peek()) {
            (word @ ("some" | "every"), b'$') => {
                let is_every = word == "every";
                self.advance();
                self.quantified(is_every).map(Some)
            }
            ("if", b'(') => self.choice().map(Some),
            ("let", b'$') => self.let_expression().map(Some),
            _ => Ok(None),
        }
    }

    /// Parses a quantified expression from its variable on.
    fn quantified(&mut self, is_every: bool) -> Parsed<Expr> {
        self.enter()?;
        let variable = self.token;
        if variable.kind != TokenKind::Variable {
            return Err(self.unexpected_operand(&["$variable"]));
        }
        let name = self.text_of(variable)[1..].trim_start();
        self.advance();
        self.expect_word("in")?;
        let start = self.token.start;
        let nodes = match self.operands(0)? {
            Side::One(nodes) => nodes,
            Side::Several(members) if self.are_nodes(&members) => Expr::Union(members),
            Side::Several(values) => return self.quantified_values(is_every, name, values, start),
        };
        self.require_node_set(&nodes, start, "what a quantified variable goes through")?;
        let nodes_height = self.height;
        let id = VariableId::new(QUANTIFIED_FIRST + self.variables.len());
        self.variables.push((name, id));
        let continues = self.token.kind == TokenKind::Comma;
        if continues {
            self.advance();
        } else {
            self.expect_word("satisfies")?;
        }
        let condition_start = self.token.start;
        let condition = if continues { self.quantified(is_every)? } else { self.expression()? };
        self.variables.pop();
        self.leave();
        let is_number = condition.static_type(&self.variable_types) == ExprType::Number;
        let condition = if is_number { call(Function::Boolean, condition) } else { condition };
        let own = self.quantifier(id, &|quantifier| quantifier.of_own(is_every, &nodes, &condition));
        let found = match own {
            Some(own) => own,
            None => {
                self.write_out(size(&nodes).saturating_mul(size(&condition)), start)?;
                let apart = self.quantifier(id, &|quantifier| quantifier.of(is_every, &nodes, condition.clone()));
                apart.ok_or_else(|| {
                    let message = format!(
                        "the condition of ${name} must begin each path at ${name}, outside predicates, but for parts that \
                         `and` and `or` join and for comparisons in `some`; write the path with a predicate, as in a[b = c], \
                         or use dialect=\"xquery\""
                    );
                    self.error(condition_start, QueryErrorKind::Unsupported, message, &[])
                })?
            }
        };
        self.height = self.height.max(nodes_height) + 8;
        Ok(found)
    }

    fn quantifier(&self, variable: VariableId, found: &dyn Fn(&Quantifier<'_>) -> Option<Expr>) -> Option<Expr> {
        let exist = |nodes| self.exist(nodes);
        found(&Quantifier { variable, types: &self.variable_types, exist: &exist })
    }

    /// Parses the condition of a variable that goes through values, once for each of them.
    fn quantified_values(&mut self, is_every: bool, name: &'a str, values: Vec<Expr>, start: usize) -> Parsed<Expr> {
        let is_value = |value: &Expr| !value.operands().any(|_| true) && !matches!(value, Expr::Path(_));
        if !values.iter().all(is_value) {
            let message = "a quantified variable goes through paths, or through a list of texts and numbers".into();
            return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
        }
        let continues = self.token.kind == TokenKind::Comma;
        if continues {
            self.advance();
        } else {
            self.expect_word("satisfies")?;
        }
        let place = (self.lexer, self.token, self.previous, self.steps);
        let scope = self.variables.len();
        // The condition of nothing is read all the same.
        let is_empty = values.is_empty();
        let values = if is_empty { vec![Expr::Literal("".into())] } else { values };
        let (mut all, mut height): (Option<Expr>, _) = (None, 0);
        for value in values {
            (self.lexer, self.token, self.previous, self.steps) = place;
            self.substitute(name, Substitution { value: Side::One(value), height: 0, context: None });
            let condition = if continues { self.quantified(is_every)? } else { self.expression()? };
            self.variables.truncate(scope);
            self.write_out(size(&condition), start)?;
            height = height.max(self.height);
            let operator = if is_every { Operator::And } else { Operator::Or };
            let condition = call(Function::Boolean, condition);
            all = Some(match all {
                Some(all) => combine(operator, all, condition),
                None => condition,
            });
        }
        self.leave();
        self.height = height + 2;
        let nothing = if is_every { Function::True } else { Function::False };
        Ok(all.filter(|_| !is_empty).unwrap_or(Expr::Call { function: nothing, arguments: Vec::new() }))
    }

    /// Parses `if (condition) then a else b` with two conditions.
    fn choice(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        self.enter()?;
        self.advance();
        let open = self.token.start;
        self.advance();
        let condition = self.expression()?;
        self.close(TokenKind::CloseParen, open)?;
        let mut height = self.height;
        self.expect_word("then")?;
        let holds = self.expression()?;
        height = height.max(self.height);
        self.expect_word("else")?;
        let fails = self.expression()?;
        self.height = self.height.max(height) + 4;
        self.leave();
        let is_condition = |expr: &Expr| expr.static_type(&self.variable_types) == ExprType::Boolean;
        if !is_condition(&holds) || !is_condition(&fails) {
            let message = "`if` chooses between conditions here; compare in each branch, as in if (a) then b = 1 else \
                           c = 1, write exists(b) to ask for a path, or use dialect=\"xquery\""
                .into();
            return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
        }
        self.write_out(size(&condition), start)?;
        let unless = call(Function::Not, condition.clone());
        let (holds, fails) = (combine(Operator::And, condition, holds), combine(Operator::And, unless, fails));
        Ok(combine(Operator::Or, holds, fails))
    }

    pub(super) fn expect_word(&mut self, word: &'static str) -> Parsed<()> {
        if self.token.kind != TokenKind::Name || self.text_of(self.token) != word {
            return Err(self.unexpected_operand(&[word]));
        }
        self.advance();
        Ok(())
    }

    /// Parses an operand, which may be a list in parentheses.
    pub(super) fn operand(&mut self) -> Parsed<Side> {
        if let Some(list) = self.list_of_name()? {
            return Ok(list);
        }
        if self.token.kind != TokenKind::OpenParen || !self.is_list() || self.list_goes_on() {
            return Ok(Side::One(self.unary()?));
        }
        self.list_in_parentheses().map(Side::Several)
    }

    /// Parses a list in parentheses.
    pub(super) fn list_in_parentheses(&mut self) -> Parsed<Vec<Expr>> {
        let open = self.token.start;
        let (mut list, mut height) = (Vec::new(), 0);
        loop {
            self.advance();
            self.enter()?;
            match self.operands(0)? {
                Side::One(expr) => list.push(expr),
                Side::Several(more) => list.extend(more),
            }
            self.leave();
            height = height.max(self.height);
            if self.token.kind != TokenKind::Comma {
                break;
            }
        }
        self.close(TokenKind::CloseParen, open)?;
        self.height = height;
        Ok(list)
    }

    /// Returns whether what follows the parenthesis at the current token takes the nodes of a list: a step, a predicate, or
    /// another set of nodes.
    fn list_goes_on(&self) -> bool {
        let (mut lexer, mut depth) = (self.lexer, 1_usize);
        while depth > 0 {
            match lexer.next().kind {
                TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => depth += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => depth -= 1,
                TokenKind::End | TokenKind::UnclosedLiteral | TokenKind::UnclosedComment => return false,
                _ => {}
            }
        }
        let next = lexer.next();
        match next.kind {
            TokenKind::Slash | TokenKind::DoubleSlash | TokenKind::OpenBracket | TokenKind::Pipe => true,
            TokenKind::Name => {
                matches!(&self.lexer.text[next.start..next.end], "union" | "intersect" | "except")
            }
            _ => false,
        }
    }

    /// Returns whether the parenthesis at the current token holds a comma or a range, outside other brackets.
    pub(super) fn is_list(&self) -> bool {
        let (mut lexer, mut depth) = (self.lexer, 1_usize);
        let (mut previous, mut is_condition, mut count) = ("", false, 0);
        loop {
            let token = lexer.next();
            let text = &self.lexer.text[token.start..token.end];
            match token.kind {
                TokenKind::CloseParen if depth == 1 && count == 1 && self.is_name_of_list(previous) => return true,
                TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => depth += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => depth -= 1,
                TokenKind::Comma if depth == 1 => return true,
                // The commas of a quantified expression, or of `let`, are between its variables.
                TokenKind::Variable if depth == 1 && matches!(previous, "some" | "every" | "let") => return false,
                TokenKind::Equal
                | TokenKind::NotEqual
                | TokenKind::Less
                | TokenKind::LessOrEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual => is_condition |= depth == 1,
                TokenKind::Name if depth == 1 && text == "to" && previous.ends_with(|c: char| c.is_ascii_digit()) => {
                    return !is_condition;
                }
                TokenKind::End | TokenKind::UnclosedLiteral | TokenKind::UnclosedComment => return false,
                _ => {}
            }
            if depth == 0 {
                return false;
            }
            previous = text;
            count += 1;
        }
    }

    /// Returns whether a token is a variable that stands for a list.
    fn is_name_of_list(&self, token: &str) -> bool {
        let Some(name) = token.strip_prefix('$').map(str::trim_start) else { return false };
        match self.substitution_of(name) {
            Some(index) => matches!(self.substitutions[index].value, Side::Several(_)),
            None => self.is_parameter_list(name),
        }
    }

    /// Returns the integers of a range.
    pub(super) fn range(&self, from: &Side, to: &Side, operator: Token) -> Parsed<Side> {
        let integer = |operand: &Side| match operand {
            Side::One(Expr::Number(number)) if number.fract() == 0.0 && number.abs() < 1e15 => Some(*number as i64),
            _ => None,
        };
        let (Some(from), Some(to)) = (integer(from), integer(to)) else {
            let message = "`to` takes two integers here; write two comparisons: a >= b and a <= c".into();
            return Err(self.error(operator.start, QueryErrorKind::Unsupported, message, &[]));
        };
        if usize::try_from(to - from).is_ok_and(|length| length >= RANGE_MAX) {
            let message =
                format!("`to` takes at most {RANGE_MAX} integers; write two comparisons: a >= {from} and a <= {to}");
            return Err(self.error(operator.start, QueryErrorKind::Unsupported, message, &[]));
        }
        Ok(Side::Several((from..=to).map(|number| Expr::Number(number as f64)).collect()))
    }

    /// Returns a comparison of which a side is a list: it holds for one pair at least.
    pub(super) fn compared(&mut self, op: CompareOp, left: &Side, right: &Side, operator: Token) -> Parsed<Expr> {
        let (left, right) = (left.all(), right.all());
        let written = |side: &[Expr], other: &[Expr]| side.iter().map(size).sum::<usize>().saturating_mul(other.len());
        self.write_out(written(left, right).saturating_add(written(right, left)), operator.start)?;
        self.height += 1;
        Ok(match self.compared_pairs(op, left, right, operator)? {
            Some(all) => all,
            // A range may hold nothing.
            None => Expr::Call { function: Function::False, arguments: Vec::new() },
        })
    }

    /// Counts what is written out more than once.
    pub(super) fn write_out(&mut self, parts: usize, offset: usize) -> Parsed<()> {
        self.written_out = self.written_out.saturating_add(parts);
        if self.written_out <= WRITTEN_OUT_MAX {
            return Ok(());
        }
        let message = format!(
            "the lists and conditions of the query are too long, written out ({WRITTEN_OUT_MAX} parts at most; a value of a list \
             is about three); make it several subscriptions"
        );
        Err(self.error(offset, QueryErrorKind::Unsupported, message, &[]))
    }

    /// Returns the expression of an operand that cannot be a list.
    pub(super) fn single(&self, operand: Side, start: usize) -> Parsed<Expr> {
        match operand {
            Side::One(expr) => Ok(expr),
            Side::Several(list) => {
                Err(self.error(start, QueryErrorKind::Unsupported, self.instead_of_list(&list), &[]))
            }
        }
    }

    /// Refuses a value comparison that would compare texts by order, or a list.
    pub(super) fn check_value_comparison(
        &self,
        op: CompareOp,
        left: &Side,
        right: &Side,
        operator: Token,
    ) -> Parsed<()> {
        let word = self.text_of(operator);
        let (Side::One(left), Side::One(right)) = (left, right) else {
            let message = format!("`{word}` compares single values; write `{}` for a list", op.symbol());
            return Err(self.error(operator.start, QueryErrorKind::Unsupported, message, &[]));
        };
        let has_order = |expr: &Expr| !matches!(self.type_of(expr), ExprType::NodeSet | ExprType::String);
        if op.is_equality() || has_order(left) || has_order(right) {
            return Ok(());
        }
        let message = format!(
            "`{word}` compares texts by code point in XPath 3.1, which is not here; write `{}` to compare numbers, or \
             use dialect=\"xquery\"",
            op.symbol()
        );
        Err(self.error(operator.start, QueryErrorKind::Unsupported, message, &[]))
    }
}

impl Parser<'_, '_> {
    /// Compiles the pattern of `matches()`, `tokenize()` or `replace()`.
    pub(super) fn compile_pattern(&self, function: Function, arguments: &mut [Expr], name: Token) -> Parsed<()> {
        if arguments.len() < 2 {
            return Ok(());
        }
        let constant = |argument: Option<&Expr>| match argument {
            None => Some(String::new()),
            Some(Expr::Literal(text)) => Some(text.to_string()),
            Some(Expr::Number(number)) => Some(number::format(*number).into_owned()),
            Some(_) => None,
        };
        let is_replace = function == Function::Replace;
        let (replacement, flags) =
            if is_replace { (arguments.get(2), arguments.get(3)) } else { (None, arguments.get(2)) };
        let texts = (constant(arguments.get(1)), constant(replacement), constant(flags));
        let (Some(text), Some(replacement), Some(flags)) = texts else {
            let message = format!(
                "the pattern{} and the flags of {}() are literals or parameters here, compiled once; use dialect=\"xquery\" \
                 for those that a message says",
                if is_replace { ", the replacement" } else { "" },
                function.name()
            );
            return Err(self.error(name.start, QueryErrorKind::Unsupported, message, &[]));
        };
        let compiled = Pattern::new(&text, &flags).and_then(|pattern| match function {
            Function::Matches => Ok(pattern),
            _ if pattern.is_match("") => Err("it matches the empty text, which there is everywhere".into()),
            _ if pattern.looks_far() => Err("one of its alternatives may read all the rest of a text before another one is \
                                             taken, at each match, which is no linear time; put the alternatives into a \
                                             class, as in [,;], or use dialect=\"xquery\""
                .into()),
            Function::Replace => pattern.with_replacement(&replacement),
            _ => Ok(pattern),
        });
        match compiled {
            Ok(pattern) => arguments[1] = Expr::Pattern(Arc::new(pattern)),
            Err(reason) => {
                let message = format!("the pattern `{text}` of {}(): {reason}", function.name());
                return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]));
            }
        }
        Ok(())
    }
}
