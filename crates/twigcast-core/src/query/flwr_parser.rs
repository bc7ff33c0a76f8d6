//! The grammar of For-Where-Return queries, apart from constructors (`constructor.rs`).

use super::ast::{Axis, Expr, Path, PathStart, VariableId};
use super::flwr::{BindingClause, FlwrExpr, FlwrQuery, Grouping, IfExpr, ItemExpr, OrderKey, Variable};
use super::functions::ExprType;
use super::hints;
use super::lexer::{Lexer, Token, TokenKind, is_space};
use super::operators::{Operator, combine};
use super::options::Dialect;
use super::parser::{Parsed, Parser};
use super::refusals::any_of;
use super::results::with_results;
use super::typed::NumberForm;
use crate::error::QueryErrorKind;

/// Is a query in XQuery a condition on the message? All others return something: For-Where-Return queries, and what
/// begins with a window, with `try`, `switch` and the like, which only another processor reads.
pub fn is_condition(text: &str) -> bool {
    if is_flwr(text) {
        return false;
    }
    let mut lexer = Lexer { text, position: 0, comments: true, angle_not_equal: false };
    let mut token = lexer.next();
    while token.kind == TokenKind::OpenParen {
        token = lexer.next();
    }
    let returns = match &text[token.start..token.end] {
        "for" => {
            let kind = lexer.next();
            let window = lexer.next();
            matches!(&text[kind.start..kind.end], "tumbling" | "sliding") && &text[window.start..window.end] == "window"
        }
        "switch" | "typeswitch" => lexer.peek() == b'(',
        "try" | "ordered" | "unordered" | "map" | "array" => lexer.peek() == b'{',
        _ => text[token.start..].starts_with("``["),
    };
    !returns
}

/// Is a query's text For-Where-Return rather than XPath? XPath can start with none of these, but for `let`.
pub fn is_flwr(text: &str) -> bool {
    let mut lexer = Lexer { text, position: 0, comments: true, angle_not_equal: false };
    let mut token = lexer.next();
    while token.kind == TokenKind::OpenParen {
        token = lexer.next();
    }
    match token.kind {
        TokenKind::Less => true,
        TokenKind::Name => match &text[token.start..token.end] {
            "for" | "let" => lexer.peek() == b'$',
            "if" => lexer.peek() == b'(',
            "declare" | "xquery" | "import" | "module" => {
                matches!(lexer.next().kind, TokenKind::Name)
            }
            "element" | "document" | "text" | "comment" | "attribute" => {
                let next = lexer.next();
                next.kind == TokenKind::OpenBrace || next.kind == TokenKind::Name && lexer.peek() == b'{'
            }
            _ => false,
        },
        _ => false,
    }
}

impl<'a> Parser<'a, '_> {
    /// Parses the whole text as a For-Where-Return query.
    pub fn whole_flwr(&mut self) -> Parsed<FlwrQuery> {
        self.flwr = true;
        self.lexer.comments = true;
        self.lexer.angle_not_equal = false;
        self.lexer.position = 0;
        self.advance();
        let body = self.items()?;
        if self.token.kind != TokenKind::End {
            return Err(self.unexpected_in_flwr(&["the end of the query"]));
        }
        self.refuse_unused_parameters()?;
        let variables = std::mem::take(&mut self.declared_variables);
        // Who names a namespace outside means it inside, too.
        let gains_default = !self.gained_defaults.is_subset(&self.outer_namespaces);
        let query = FlwrQuery { body, variables, loses_default: self.loses_default, gains_default };
        if query.outermost().is_empty() {
            let mut message = "nothing here says which messages are wanted; write a `for`".to_owned();
            if matches!(query.body, ItemExpr::If(_)) {
                message += ", or conditions in both branches: if (/a) then exists(/b) else exists(/c)";
            }
            return Err(self.error(0, QueryErrorKind::Syntax, message, &["for $variable in path return ..."]));
        }
        Ok(query)
    }

    /// Returns a query that matches where its dialect says: in XQuery, where its result is not empty.
    pub fn as_asked(&self, query: FlwrQuery) -> Parsed<FlwrQuery> {
        if self.options.dialect != Dialect::Native {
            return Ok(query);
        }
        with_results(query, &self.value_variables).ok_or_else(|| {
            let message = "whether its result is empty is left to a processor of XQuery".into();
            self.error(0, QueryErrorKind::Unsupported, message, &[])
        })
    }

    /// Parses one or more items, separated by commas.
    pub(super) fn items(&mut self) -> Parsed<ItemExpr> {
        let first = self.item()?;
        if self.token.kind != TokenKind::Comma {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.token.kind == TokenKind::Comma {
            self.advance();
            items.push(self.item()?);
        }
        Ok(ItemExpr::Sequence(items))
    }

    /// Parses one item (ExprSingle).
    fn item(&mut self) -> Parsed<ItemExpr> {
        self.enter()?;
        let item = match self.token.kind {
            TokenKind::Less => self.constructor()?,
            TokenKind::OpenParen if self.opens_sequence() => self.sequence()?,
            TokenKind::Name => match (self.text_of(self.token), self.lexer.peek()) {
                ("for" | "let", b'$') => ItemExpr::Flwr(Box::new(self.flwr_expression()?)),
                ("if", b'(') => ItemExpr::If(Box::new(self.conditional()?)),
                _ if self.starts_computed() => self.computed()?,
                _ => self.value()?,
            },
            _ => self.value()?,
        };
        self.leave();
        Ok(item)
    }

    /// Parses an expression of the path language.
    fn value(&mut self) -> Parsed<ItemExpr> {
        self.refuse_xquery()?;
        let start = self.token.start;
        let expr = self.expression()?;
        if self.constructors == 0 && self.selects_attributes(&expr) {
            let message = "an attribute cannot stand on its own in a result; \
                           write string(...) for its value, or put it into an element: <x>{ ... }</x>"
                .into();
            return Err(self.error(start, QueryErrorKind::Syntax, message, &[]));
        }
        if let Expr::Path(Path { steps, .. }) = &expr
            && steps.last().is_some_and(|step| step.axis == Axis::Namespace)
        {
            let message = "a namespace cannot be returned; namespaces come with the elements that use them".into();
            return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
        }
        self.returned(expr, start)
    }

    /// Returns whether an expression certainly selects attributes.
    fn selects_attributes(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Union(members) => members.iter().any(|member| self.selects_attributes(member)),
            Expr::Path(path) => match (path.steps.last(), &path.start) {
                (Some(step), _) => step.axis == Axis::Attribute,
                (None, PathStart::Variable(id)) => self.attribute_variables.contains(id),
                (None, PathStart::Filter { primary, .. }) => self.selects_attributes(primary),
                (None, _) => false,
            },
            _ => false,
        }
    }

    /// Returns whether the current parenthesis holds a sequence rather than a parenthesised path expression: if no path
    /// expression follows the parentheses that open here, or if one of these has a comma of its own.
    fn opens_sequence(&self) -> bool {
        let mut lookahead = self.lexer;
        let mut token = lookahead.next();
        let mut depth = 1usize;
        while token.kind == TokenKind::OpenParen {
            depth += 1;
            token = lookahead.next();
        }
        let constructs = match token.kind {
            TokenKind::Less | TokenKind::CloseParen => true,
            TokenKind::Name => {
                let word = &lookahead.text[token.start..token.end];
                matches!((word, lookahead.peek()), ("for" | "let", b'$') | ("if", b'('))
                    || Self::is_computed(word, lookahead)
            }
            _ => false,
        };
        if constructs {
            return true;
        }
        // The parentheses of the run that are still open.
        let mut run = depth;
        loop {
            match token.kind {
                TokenKind::OpenParen | TokenKind::OpenBracket => depth += 1,
                TokenKind::CloseParen | TokenKind::CloseBracket => {
                    depth -= 1;
                    run = run.min(depth);
                    if depth == 0 {
                        return false;
                    }
                }
                TokenKind::Comma if depth == run => return true,
                TokenKind::End | TokenKind::UnclosedLiteral | TokenKind::UnclosedComment => return false,
                _ => {}
            }
            token = lookahead.next();
        }
    }

    /// Parses `( items )`.
    fn sequence(&mut self) -> Parsed<ItemExpr> {
        let open = self.token.start;
        self.advance();
        let items =
            if self.token.kind == TokenKind::CloseParen { ItemExpr::Sequence(Vec::new()) } else { self.items()? };
        self.close(TokenKind::CloseParen, open)?;
        if matches!(self.token.kind, TokenKind::OpenBracket | TokenKind::Slash | TokenKind::DoubleSlash) {
            let message = "a sequence takes no step or predicate here; write a | b for the nodes of both".into();
            return Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]));
        }
        Ok(items)
    }

    /// Parses a FLWORExpr.
    fn flwr_expression(&mut self) -> Parsed<FlwrExpr> {
        let scope = self.variables.len();
        let mut clauses = Vec::new();
        let mut condition = None;
        loop {
            match self.text_of(self.token) {
                "for" if self.lexer.peek() == b'$' => self.for_clause(&mut clauses)?,
                "let" if self.lexer.peek() == b'$' => self.let_clause(&mut clauses)?,
                "where" if self.token.kind == TokenKind::Name => self.where_clause(&mut condition)?,
                _ => break,
            }
        }
        let grouping = if self.accept_keyword("group") { Some(self.grouping(scope)?) } else { None };
        let order = self.order_clause()?;
        if !self.accept_keyword("return") {
            let due: &[&str] = match (condition.is_some(), order.is_empty()) {
                (false, true) => &["return", "where", "order by", "for", "let"],
                (true, true) => &["return", "order by"],
                _ => &["return"],
            };
            return Err(self.unexpected_in_flwr(due));
        }
        let result = self.item()?;
        self.variables.truncate(scope);
        Ok(FlwrExpr { clauses, condition, grouping, order, result })
    }

    /// Parses a WhereClause. Several are one.
    fn where_clause(&mut self, condition: &mut Option<Expr>) -> Parsed<()> {
        self.advance();
        let more = self.condition()?;
        *condition = Some(match condition.take() {
            Some(condition) => combine(Operator::And, condition, more),
            None => more,
        });
        Ok(())
    }

    /// Parses a GroupByClause, behind its first word, and the clauses that follow it. The variables from `scope` on are
    /// those of the clauses before.
    fn grouping(&mut self, scope: usize) -> Parsed<Grouping> {
        if !self.accept_keyword("by") {
            return Err(self.unexpected_in_flwr(&["by"]));
        }
        let mut named = Vec::new();
        loop {
            let variable = self.token;
            let name = self.new_variable("group by")?;
            let key = if self.token.kind == TokenKind::Assign {
                self.advance();
                self.condition()?
            } else {
                self.lexer.position = variable.start;
                self.advance();
                let key = self.expression()?;
                if !matches!(&key, Expr::Path(Path { start: PathStart::Variable(_), steps }) if steps.is_empty()) {
                    let message = format!("`group by` names its key: group by $key := {} ...", self.text_of(variable));
                    return Err(self.error(variable.start, QueryErrorKind::Syntax, message, &["$key := ..."]));
                }
                key
            };
            named.push((name, key));
            if self.token.kind != TokenKind::Comma {
                break;
            }
            self.advance();
        }
        let before: Vec<_> = self.variables[scope..].to_vec();
        let mut collected = Vec::with_capacity(before.len());
        for (name, variable) in before {
            let holds_nodes = self.variable_types[variable.index()] == ExprType::NodeSet;
            let is_value = !holds_nodes || self.value_variables.contains(&variable);
            let attributes = self.attribute_variables.contains(&variable);
            let new = self.declare(name, ExprType::NodeSet, attributes);
            if is_value {
                self.value_variables.push(new);
            }
            let form = self.number_forms.iter().find(|(id, _)| *id == variable).map(|(_, form)| *form);
            self.number_forms.extend(form.map(|form| (new, form)));
            collected.push((variable, new));
        }
        let keys = named.into_iter().map(|(name, key)| {
            let key_type = match key.static_type(&self.variable_types) {
                ExprType::NodeSet => ExprType::String,
                other => other,
            };
            let variable = self.declare(name, key_type, false);
            self.note_form(variable, &key);
            (variable, key)
        });
        let keys = keys.collect();
        let (mut lets, mut condition) = (Vec::new(), None);
        loop {
            match self.text_of(self.token) {
                "let" if self.lexer.peek() == b'$' => self.let_clause(&mut lets)?,
                "where" if self.token.kind == TokenKind::Name => self.where_clause(&mut condition)?,
                _ => break,
            }
        }
        let values = lets.into_iter().filter_map(|clause| match clause {
            BindingClause::Let { variable, value } => Some((variable, value)),
            BindingClause::For { .. } => None,
        });
        Ok(Grouping { keys, collected, values: values.collect(), condition })
    }

    /// Parses a ForClause.
    fn for_clause(&mut self, clauses: &mut Vec<BindingClause>) -> Parsed<()> {
        self.advance();
        loop {
            self.count_step()?;
            let name = self.new_variable("for")?;
            let position = if self.accept_keyword("at") { Some(self.new_variable("at")?) } else { None };
            if !self.accept_keyword("in") {
                return Err(self.no_binding_word("in"));
            }
            let start = self.token.start;
            let source = self.condition()?;
            self.require_node_set(&source, start, "what `for` runs over")?;
            let attributes = self.selects_attributes(&source);
            let variable = self.declare(name, ExprType::NodeSet, attributes);
            if self.gives_values(&source) {
                self.value_variables.push(variable);
            }
            self.note_form(variable, &source);
            let position = position.map(|name| self.declare(name, ExprType::Number, false));
            self.number_forms.extend(position.map(|position| (position, NumberForm::Integer)));
            clauses.push(BindingClause::For { variable, position, source });
            if self.token.kind != TokenKind::Comma {
                return Ok(());
            }
            self.advance();
        }
    }

    /// Parses a LetClause.
    fn let_clause(&mut self, clauses: &mut Vec<BindingClause>) -> Parsed<()> {
        self.advance();
        loop {
            self.count_step()?;
            let name = self.new_variable("let")?;
            if self.token.kind != TokenKind::Assign {
                return Err(self.no_binding_word(":="));
            }
            self.advance();
            let start = self.token.start;
            let value = self.condition()?;
            let (value_type, attributes) = (value.static_type(&self.variable_types), self.selects_attributes(&value));
            if matches!(value_type, ExprType::Version | ExprType::QName) {
                let message = format!("{} can only be compared; write it in the comparison", value_type.one());
                return Err(self.error(start, QueryErrorKind::Unsupported, message, &[]));
            }
            let variable = self.declare(name, value_type, attributes);
            if self.gives_values(&value) {
                self.value_variables.push(variable);
            }
            if self.may_be_several_attributes(&value) {
                self.several_attributes.push(variable);
            }
            self.note_form(variable, &value);
            clauses.push(BindingClause::Let { variable, value });
            if self.token.kind != TokenKind::Comma {
                return Ok(());
            }
            self.advance();
        }
    }

    /// Reads the name in a `for` or `let` clause.
    fn new_variable(&mut self, clause: &str) -> Parsed<&'a str> {
        if self.token.kind != TokenKind::Variable {
            let message = format!("{} stands where `{clause}` needs a variable", self.shown(self.token));
            return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &["$variable"]));
        }
        let name = self.text_of(self.token)[1..].trim_start();
        self.advance();
        Ok(name)
    }

    fn declare(&mut self, name: &'a str, value_type: ExprType, attributes: bool) -> VariableId {
        let id = VariableId::new(self.declared_variables.len());
        self.declared_variables.push(Variable { name: name.into(), value_type });
        self.variable_types.push(value_type);
        self.variables.push((name, id));
        if attributes {
            self.attribute_variables.push(id);
        }
        id
    }

    /// Returns the error of a missing `in` or `:=` after a variable.
    fn no_binding_word(&self, due: &str) -> Box<crate::error::QueryError> {
        let hint = match self.text_of(self.token) {
            "in" => "`let` binds with `:=`: let $variable := path",
            ":=" => "`for` binds with `in`: for $variable in path",
            "as" => "type declarations are not supported; leave `as ...` out",
            "allowing" => "`allowing empty` is not supported; leave it out",
            _ => return self.unexpected_in_flwr(&[due]),
        };
        self.error(self.token.start, QueryErrorKind::Unsupported, hint.into(), &[due])
    }

    /// Parses an expression of the path language where XQuery would take any expression.
    fn condition(&mut self) -> Parsed<Expr> {
        self.refuse_xquery()?;
        let token = self.token;
        if token.kind == TokenKind::Less {
            let message = "a constructor can stand only in `return` and in other constructors".into();
            return Err(self.error(token.start, QueryErrorKind::Unsupported, message, &["a path", "a value"]));
        }
        if token.kind == TokenKind::Name {
            let word = self.text_of(token);
            if matches!((word, self.lexer.peek()), ("for" | "let", b'$')) {
                let message = format!("`{word}` can stand only in `return` and in constructors here");
                return Err(self.error(token.start, QueryErrorKind::Unsupported, message, &["a path", "a value"]));
            }
        }
        self.expression()
    }

    /// Parses an OrderByClause.
    fn order_clause(&mut self) -> Parsed<Vec<OrderKey>> {
        let mut keys = Vec::new();
        let stable = self.accept_keyword("stable");
        if !self.accept_keyword("order") {
            return if stable { Err(self.unexpected_in_flwr(&["order by"])) } else { Ok(keys) };
        }
        if !self.accept_keyword("by") {
            return Err(self.unexpected_in_flwr(&["by"]));
        }
        loop {
            let key = self.condition()?;
            let descending = if self.accept_keyword("ascending") { false } else { self.accept_keyword("descending") };
            let mut empty_greatest = false;
            if self.accept_keyword("empty") {
                if self.accept_keyword("greatest") {
                    empty_greatest = true;
                } else if !self.accept_keyword("least") {
                    return Err(self.unexpected_in_flwr(&["least", "greatest"]));
                }
            }
            keys.push(OrderKey { key, descending, empty_greatest });
            if self.text_of(self.token) == "collation" {
                let message = "collations are not supported: strings are ordered by code point".into();
                return Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &["return", ","]));
            }
            if self.token.kind != TokenKind::Comma {
                return Ok(keys);
            }
            self.advance();
        }
    }

    /// Parses an IfExpr.
    fn conditional(&mut self) -> Parsed<IfExpr> {
        self.advance();
        let open = self.token.start;
        self.advance();
        let condition = self.condition()?;
        self.close(TokenKind::CloseParen, open)?;
        if !self.accept_keyword("then") {
            return Err(self.unexpected_in_flwr(&["then"]));
        }
        let then = self.item()?;
        if !self.accept_keyword("else") {
            return Err(self.unexpected_in_flwr(&["else"]));
        }
        let otherwise = self.item()?;
        Ok(IfExpr { condition, then, otherwise })
    }

    /// Moves past a keyword, if it is the current token.
    fn accept_keyword(&mut self, word: &str) -> bool {
        let accepted = self.token.kind == TokenKind::Name && self.text_of(self.token) == word;
        if accepted {
            self.advance();
        }
        accepted
    }

    /// Refuses, by name, what XQuery has and this language has not.
    fn refuse_xquery(&self) -> Parsed<()> {
        if self.token.kind != TokenKind::Name {
            return Ok(());
        }
        let word = self.text_of(self.token);
        let mut lookahead = self.lexer;
        let next = lookahead.next();
        let next_text = &lookahead.text[next.start..next.end];
        let message = match word {
            "declare" | "import" | "module" | "xquery" if next.kind == TokenKind::Name => {
                let hint = if next_text == "namespace" || next_text == "default" {
                    "namespaces are given beside the query, as in namespaces={\"p\": \"urn:...\"}"
                } else if word == "xquery" {
                    "leave it out: a query is one For-Where-Return expression"
                } else if word == "declare" {
                    "a query is one For-Where-Return expression: write let $x := ..., or use dialect=\"xquery\""
                } else {
                    "a query is one For-Where-Return expression"
                };
                format!("`{word} {next_text}` is not supported; {hint}")
            }
            "processing-instruction" if next.kind == TokenKind::Name && lookahead.peek() == b'{' => {
                format!("`{word} {next_text} {{` is not supported; write <?{next_text} ...?>")
            }
            "comment" if next.kind == TokenKind::OpenBrace => {
                "`comment {` is not supported; write <!-- ... -->".to_owned()
            }
            "document" | "ordered" | "unordered" if next.kind == TokenKind::OpenBrace => {
                format!("`{word} {{` is not supported; write what stands in the braces")
            }
            "typeswitch" | "validate" | "try" | "switch"
                if matches!(next.kind, TokenKind::OpenParen | TokenKind::OpenBrace) =>
            {
                format!("`{word}` is not supported; write if (...) then ... else ..., or use dialect=\"xquery\"")
            }
            _ => return Ok(()),
        };
        Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]))
    }

    /// Returns the error of a token that no rule of the language allows here.
    pub(super) fn unexpected_in_flwr(&self, due: &[&str]) -> Box<crate::error::QueryError> {
        if let Some(error) = self.broken_token() {
            return error;
        }
        let token = self.token;
        if token.kind == TokenKind::Name {
            let word = self.text_of(token);
            let clause = match word {
                "count" => Some(
                    "the `count` clause is not supported; use dialect=\"xquery\", or `for $a at $n in ...` for numbers before `order by`",
                ),
                "window" => Some("windows are not supported; use dialect=\"xquery\""),
                _ => None,
            };
            if let Some(message) = clause {
                return self.error(token.start, QueryErrorKind::Unsupported, message.into(), due);
            }
            if let Some((hint, later)) = hints::instead_of_operator(word) {
                let kind = if later { QueryErrorKind::Unsupported } else { QueryErrorKind::Syntax };
                return self.error(token.start, kind, format!("`{word}` is no operator here; {hint}"), due);
            }
        }
        if let Some((symbol, hint)) = hints::instead_of_symbol(&self.lexer.text[token.start..]) {
            let message = format!("`{symbol}` is no operator here; {hint}");
            return self.error(token.start, QueryErrorKind::Syntax, message, due);
        }
        let quoted: Vec<String> = due.iter().map(|word| format!("`{word}`")).collect();
        let quoted: Vec<&str> = quoted.iter().map(String::as_str).collect();
        let due_words = any_of(if due == ["the end of the query"] { due } else { &quoted });
        let message = match token.kind {
            TokenKind::End => format!("the query ends after {}, where {due_words} is due", self.shown(self.previous)),
            _ => format!("{} stands where {due_words} is due", self.shown(token)),
        };
        self.error(token.start, QueryErrorKind::Syntax, message, due)
    }

    /// Returns a literal's value: references and doubled quotes resolved, as XQuery has it.
    pub(super) fn flwr_literal(&self, token: Token) -> Parsed<String> {
        let quote = char::from(self.lexer.text.as_bytes()[token.start]);
        let inner = &self.lexer.text[token.start + 1..token.end - 1];
        let mut value = String::with_capacity(inner.len());
        let mut position = 0;
        while let Some(character) = inner[position..].chars().next() {
            if character == '&' {
                let (referred, length) = self.reference(token.start + 1 + position)?;
                value.push(referred);
                position += length;
                continue;
            }
            position += character.len_utf8();
            if character == quote {
                position += quote.len_utf8();
            }
            value.push(character);
        }
        Ok(value)
    }

    /// Returns the character that the reference at an offset stands for, and the reference's length.
    pub(super) fn reference(&self, offset: usize) -> Parsed<(char, usize)> {
        let rest = &self.lexer.text[offset..];
        let end = rest.bytes().position(|byte| byte == b';' || is_space(byte) || byte == b'<');
        let name = end.filter(|&end| rest.as_bytes()[end] == b';').map(|end| &rest[1..end]);
        let character = name.and_then(referred_character);
        let (Some(name), Some(character)) = (name, character) else {
            let reference = end.filter(|&end| rest.as_bytes()[end] == b';').map_or("&", |end| &rest[..=end]);
            let shown = if reference.len() <= 20 { reference } else { "&" };
            let message = format!("`{shown}` is no reference; write &amp; for an ampersand");
            let expected = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#...;"];
            return Err(self.error(offset, QueryErrorKind::Syntax, message, &expected));
        };
        Ok((character, name.len() + 2))
    }
}

/// Returns the character behind the name of a predefined entity or a character reference.
fn referred_character(name: &str) -> Option<char> {
    let code = match name {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => name.strip_prefix('#')?,
    };
    let number = match code.strip_prefix('x') {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u32::from_str_radix(hex, 16).ok()?,
        None if code.bytes().all(|b| b.is_ascii_digit()) => code.parse().ok()?,
        _ => return None,
    };
    let allowed = matches!(number, 9 | 10 | 13 | 0x20..=0xD7FF | 0xE000..=0xFFFD | 0x1_0000..=0x10_FFFF);
    char::from_u32(number).filter(|_| allowed)
}
