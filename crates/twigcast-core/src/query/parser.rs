//! The XPath 1.0 grammar by recursive descent, binary operators by precedence climbing (paths: `location.rs`).
//!
//! Two measures bound every expression, and with it the stack of everything that walks one: `nesting` counts brackets,
//! parentheses and calls on the way down, so that parsing cannot overflow the stack; `height` counts the levels of the
//! tree that was built, since a chain such as `1 + 1 + ...` is deep without any nesting.

use super::ast::{ArithmeticOp, CompareOp, Expr, Function, Path, PathStart, VariableId};
use super::flwr::Variable;
use super::functions::{ContextUse, ExprType, FunctionFacts};
use super::hints;
use super::lexer::{Lexer, Token, TokenKind, first_forbidden_character};
use super::operators::{Operator, combine, is_chain, is_of_same_list};
use super::options::{Dialect, ParseOptions};
use crate::error::{QueryError, QueryErrorKind};
use crate::vocabulary::{Name, NamespaceId, Vocabulary};

/// A result whose error is boxed: errors are rare and large, expressions small and frequent.
pub(crate) type Parsed<T> = Result<T, Box<QueryError>>;

/// The state of one parse.
pub(crate) struct Parser<'a, 'v> {
    pub(super) lexer: Lexer<'a>,
    /// The token under consideration.
    pub(super) token: Token,
    /// The token before it.
    pub(super) previous: Token,
    pub(super) options: ParseOptions<'a>,
    pub(super) vocabulary: &'v mut Vocabulary,
    /// Variables in scope, innermost last.
    pub(super) variables: Vec<(&'a str, VariableId)>,
    /// Types of all variables, by number.
    pub(super) variable_types: Vec<ExprType>,
    /// Namespaces declared by enclosing constructors, innermost last; the URI's id.
    pub(super) declared: Vec<(&'a str, NamespaceId)>,
    /// Namespaces that enclosing constructors will have declared in the output, innermost last.
    pub(super) in_output: Vec<(&'a str, NamespaceId)>,
    /// All variables declared so far, by number.
    pub(super) declared_variables: Vec<Variable>,
    /// Variables that certainly hold attributes.
    pub(super) attribute_variables: Vec<VariableId>,
    /// The number of constructors that are open.
    pub(super) constructors: usize,
    /// Offset of the innermost `{` that is open.
    pub(super) open_brace: usize,
    /// The text is a For-Where-Return query.
    pub(super) flwr: bool,
    /// Steps read so far.
    pub(super) steps: usize,
    nesting: usize,
    /// Levels of the expression parsed last.
    pub(super) height: usize,
    /// Predicates around the current token.
    pub(super) predicate_depth: usize,
}

impl<'a, 'v> Parser<'a, 'v> {
    pub fn new(text: &'a str, options: &ParseOptions<'a>, vocabulary: &'v mut Vocabulary) -> Parsed<Self> {
        let lexer = Lexer { text, position: 0, comments: false, angle_not_equal: options.dialect == Dialect::Legacy };
        let start = Token { kind: TokenKind::End, start: 0, end: 0, colon: 0 };
        let mut parser = Self {
            lexer,
            token: start,
            previous: start,
            options: *options,
            vocabulary,
            variables: Vec::new(),
            variable_types: Vec::new(),
            declared: Vec::new(),
            in_output: Vec::new(),
            declared_variables: Vec::new(),
            attribute_variables: Vec::new(),
            constructors: 0,
            open_brace: 0,
            flwr: false,
            steps: 0,
            nesting: 0,
            height: 0,
            predicate_depth: 0,
        };
        if text.len() > options.limits.query_bytes_max {
            return Err(parser.over_limit(
                "query_bytes_max",
                options.limits.query_bytes_max,
                "the query is too long",
                0,
            ));
        }
        if let Some((offset, character)) = first_forbidden_character(text) {
            let message =
                format!("the character U+{:04X} is not allowed in XML, so no query can hold it", character as u32);
            return Err(parser.error(offset, QueryErrorKind::Syntax, message, &[]));
        }
        parser.token = parser.lexer.next();
        Ok(parser)
    }

    /// Parses the whole text as one expression.
    pub fn whole_expression(&mut self) -> Parsed<Expr> {
        if self.token.kind == TokenKind::End {
            let message = "the query is empty; write a path such as /article/title".into();
            return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &["an expression"]));
        }
        let expr = self.expression()?;
        if self.token.kind != TokenKind::End {
            return Err(self.unexpected_after_operand(&["an operator", "the end of the query"]));
        }
        Ok(expr)
    }

    /// Parses an Expr.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let expr = self.binary(0)?;
        self.leave();
        Ok(expr)
    }

    /// Enters the next level of nesting.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        self.nesting += 1;
        if self.nesting > self.options.limits.query_nesting_max {
            return Err(self.too_nested());
        }
        Ok(())
    }

    /// Leaves the innermost level of nesting.
    pub(super) fn leave(&mut self) {
        self.nesting -= 1;
    }

    /// An expression of operators that bind at least as tightly as `weakest`.
    fn binary(&mut self, weakest: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        while let Some((strength, operator)) = self.operator() {
            if strength < weakest {
                break;
            }
            self.refuse_end_tag()?;
            self.advance();
            let left_height = self.height;
            let steps = self.steps;
            let right = self.binary(strength + 1)?;
            if operator == Operator::Or && is_of_same_list(&left, &right) {
                // However many values a path is compared with, it has its steps once.
                self.steps = steps;
            }
            self.height = self.height.max(left_height) + 1;
            if self.height > self.options.limits.query_nesting_max {
                return Err(self.too_nested());
            }
            if matches!(operator, Operator::Or | Operator::And) {
                // A longer chain makes the list longer, not the tree higher.
                self.height = self.height.saturating_sub(usize::from(is_chain(&left, operator)));
            }
            left = combine(operator, left, right);
        }
        Ok(left)
    }

    /// In a constructor `</` is an end tag that comes too early, not a comparison with an absolute path.
    fn refuse_end_tag(&self) -> Parsed<()> {
        let start = self.token.start;
        if self.constructors == 0 || self.predicate_depth > 0 || !self.lexer.text[start..].starts_with("</") {
            return Ok(());
        }
        let message = format!("the `{{` at column {} is not closed before this end tag", self.column(self.open_brace));
        Err(self.error(start, QueryErrorKind::Syntax, message, &["}"]))
    }

    /// The operator that the current token is, with its binding strength.
    fn operator(&self) -> Option<(u8, Operator)> {
        use Operator::{Arithmetic, Compare};
        Some(match self.token.kind {
            TokenKind::Equal => (2, Compare(CompareOp::Equal)),
            TokenKind::NotEqual => (2, Compare(CompareOp::NotEqual)),
            TokenKind::Less => (3, Compare(CompareOp::Less)),
            TokenKind::LessOrEqual => (3, Compare(CompareOp::LessOrEqual)),
            TokenKind::Greater => (3, Compare(CompareOp::Greater)),
            TokenKind::GreaterOrEqual => (3, Compare(CompareOp::GreaterOrEqual)),
            TokenKind::Plus => (4, Arithmetic(ArithmeticOp::Add)),
            TokenKind::Minus => (4, Arithmetic(ArithmeticOp::Subtract)),
            TokenKind::Star => (5, Arithmetic(ArithmeticOp::Multiply)),
            TokenKind::Name => match self.text_of(self.token) {
                "or" => (0, Operator::Or),
                "and" => (1, Operator::And),
                "div" => (5, Arithmetic(ArithmeticOp::Divide)),
                "mod" => (5, Arithmetic(ArithmeticOp::Modulo)),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// UnaryExpr. Two minus signs are `number()`, so any even number of them is two and any odd number one.
    fn unary(&mut self) -> Parsed<Expr> {
        if self.token.kind != TokenKind::Minus {
            return self.union();
        }
        let mut signs = 0usize;
        while self.token.kind == TokenKind::Minus {
            signs += 1;
            self.advance();
        }
        let operand = self.union()?;
        self.height += 2;
        let negated = match operand {
            Expr::Number(value) => Expr::Number(if signs % 2 == 1 { -value } else { value }),
            operand if signs % 2 == 1 => Expr::Negate(Box::new(operand)),
            operand => Expr::Negate(Box::new(Expr::Negate(Box::new(operand)))),
        };
        Ok(negated)
    }

    /// UnionExpr.
    fn union(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let first = self.path()?;
        if self.token.kind != TokenKind::Pipe {
            return Ok(first);
        }
        self.require_node_set(&first, start, "a side of `|`")?;
        let mut height = self.height;
        let mut members = vec![first];
        while self.token.kind == TokenKind::Pipe {
            self.advance();
            let start = self.token.start;
            let member = self.path()?;
            self.require_node_set(&member, start, "a side of `|`")?;
            height = height.max(self.height);
            members.push(member);
        }
        self.height = height + 1;
        Ok(Expr::Union(members))
    }

    /// PathExpr.
    fn path(&mut self) -> Parsed<Expr> {
        self.height = 0;
        match self.token.kind {
            TokenKind::Slash | TokenKind::DoubleSlash => self.absolute_path(),
            _ if self.starts_step() => {
                let start = self.context_start()?;
                let mut steps = Vec::new();
                self.relative_path(&mut steps)?;
                Ok(Expr::Path(Path { start, steps }))
            }
            _ => self.filter(),
        }
    }

    /// FilterExpr, and the path that may follow it.
    fn filter(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let primary = self.primary()?;
        let continues = matches!(self.token.kind, TokenKind::OpenBracket | TokenKind::Slash | TokenKind::DoubleSlash);
        if !continues {
            return Ok(primary);
        }
        let role =
            if self.token.kind == TokenKind::OpenBracket { "what a predicate filters" } else { "the start of a path" };
        self.require_node_set(&primary, start, role)?;
        let mut predicates = Vec::new();
        self.predicates(&mut predicates)?;
        let mut path = match primary {
            Expr::Path(path) if predicates.is_empty() => path,
            primary => Path { start: PathStart::Filter { primary: Box::new(primary), predicates }, steps: Vec::new() },
        };
        match self.token.kind {
            TokenKind::Slash => self.advance(),
            TokenKind::DoubleSlash => {
                self.advance();
                path.steps.push(self.descendant_step()?);
            }
            _ => return Ok(Expr::Path(path)),
        }
        let mut steps = path.steps;
        let height = self.height;
        self.relative_path(&mut steps)?;
        self.height = self.height.max(height) + 1;
        path.steps = steps;
        Ok(Expr::Path(path))
    }

    /// PrimaryExpr.
    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token;
        match token.kind {
            TokenKind::Number => {
                self.advance();
                self.refuse_exponent(token)?;
                let value = self.text_of(token).parse().unwrap_or(f64::NAN);
                Ok(Expr::Number(value))
            }
            TokenKind::Literal => {
                self.advance();
                Ok(Expr::Literal(self.literal_of(token)?))
            }
            TokenKind::Variable => self.variable(),
            TokenKind::OpenParen => {
                if let Some(error) = self.broken_token() {
                    return Err(error);
                }
                self.advance();
                if self.token.kind == TokenKind::CloseParen {
                    let message = "`()` is empty; XPath 1.0 has no empty sequence".into();
                    return Err(self.error(token.start, QueryErrorKind::Unsupported, message, &["an expression"]));
                }
                let inner = self.expression()?;
                self.close(TokenKind::CloseParen, token.start)?;
                Ok(inner)
            }
            TokenKind::Name => self.call(),
            _ => Err(self.unexpected_operand(&["a path", "a value", "a function"])),
        }
    }

    fn refuse_exponent(&self, number: Token) -> Parsed<()> {
        let next = self.token;
        let adjacent = next.kind == TokenKind::Name && next.start == number.end;
        if adjacent && self.text_of(next).starts_with(['e', 'E']) {
            let message = "XPath 1.0 numbers have no exponent; write the number out (1000, not 1e3)".into();
            return Err(self.error(number.start, QueryErrorKind::Unsupported, message, &[]));
        }
        Ok(())
    }

    fn variable(&mut self) -> Parsed<Expr> {
        let token = self.token;
        let name = self.text_of(token)[1..].trim_start();
        self.advance();
        if let Some(&(_, id)) = self.variables.iter().rev().find(|(existing, _)| *existing == name) {
            return Ok(Expr::Path(Path { start: PathStart::Variable(id), steps: Vec::new() }));
        }
        if self.flwr && matches!(name, "doc" | "msg") {
            return Ok(Expr::Path(Path { start: PathStart::Root, steps: Vec::new() }));
        }
        Err(self.undeclared_variable(token, name))
    }

    /// FunctionCall.
    fn call(&mut self) -> Parsed<Expr> {
        let name = self.token;
        let Some(function) = Function::named(self.text_of(name)) else { return Err(self.unknown_function()) };
        let facts = function.facts();
        self.advance();
        let open = self.token.start;
        self.advance();
        let mut arguments = Vec::new();
        let mut height = 0;
        if self.token.kind != TokenKind::CloseParen {
            loop {
                let start = self.token.start;
                let argument = self.expression()?;
                if facts.takes_node_set && arguments.is_empty() {
                    self.require_node_set(&argument, start, &format!("the argument of {}()", self.text_of(name)))?;
                }
                height = height.max(self.height + 1);
                arguments.push(argument);
                if self.token.kind != TokenKind::Comma {
                    break;
                }
                self.advance();
            }
        }
        self.close(TokenKind::CloseParen, open)?;
        self.height = height;
        if !(facts.arguments_min..=facts.arguments_max).contains(&arguments.len()) {
            let message = format!(
                "{}() has {} here; write {}",
                self.text_of(name),
                hints::arguments(arguments.len()),
                facts.usage
            );
            return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[facts.usage]));
        }
        self.check_context(facts, arguments.len(), name)?;
        Ok(Expr::Call { function, arguments })
    }

    /// In For-Where-Return nothing outside predicates has a context node, so nothing can be said of it.
    fn check_context(&self, facts: &FunctionFacts, arguments: usize, name: Token) -> Parsed<()> {
        if !self.flwr || self.predicate_depth > 0 || !facts.reads_context(arguments) {
            return Ok(());
        }
        let hint = if facts.context == ContextUse::Always {
            "it can stand in a predicate".to_owned()
        } else {
            format!("write {}($variable)", facts.name)
        };
        let message = format!("{}() has no context node here; {hint}", facts.name);
        Err(self.error(name.start, QueryErrorKind::Syntax, message, &[facts.usage]))
    }

    pub(super) fn require_node_set(&self, expr: &Expr, start: usize, role: &str) -> Parsed<()> {
        let result = expr.static_type(&self.variable_types);
        if result == ExprType::NodeSet {
            return Ok(());
        }
        let message = format!("{role} must be a path (a node-set), and this is a {}", result.name());
        Err(self.error(start, QueryErrorKind::Syntax, message, &["a path"]))
    }

    /// Returns the expanded name of a name token. `default`: the default element namespace applies.
    pub(super) fn name_of(&mut self, token: Token, default: bool) -> Parsed<Name> {
        let text = self.lexer.text;
        let (namespace, local) = if token.colon != 0 {
            let namespace = self.namespace_of(&text[token.start..token.colon], token.start)?;
            (namespace, &text[token.colon + 1..token.end])
        } else {
            let namespace = if default { self.default_namespace() } else { NamespaceId::NONE };
            (namespace, &text[token.start..token.end])
        };
        Ok(Name { namespace, local: self.vocabulary.intern_local(local) })
    }

    /// Returns the namespace of unprefixed element names.
    pub(super) fn default_namespace(&mut self) -> NamespaceId {
        if let Some(&(_, id)) = self.declared.iter().rev().find(|(prefix, _)| prefix.is_empty()) {
            return id;
        }
        self.options.namespaces.uri("").map_or(NamespaceId::NONE, |uri| self.vocabulary.intern_namespace(uri))
    }

    /// Returns the namespace that a prefix is bound to.
    pub(super) fn namespace_of(&mut self, prefix: &str, offset: usize) -> Parsed<NamespaceId> {
        if prefix == "xml" {
            return Ok(NamespaceId::XML);
        }
        if let Some(&(_, id)) = self.declared.iter().rev().find(|(existing, _)| *existing == prefix) {
            return Ok(id);
        }
        match self.options.namespaces.uri(prefix) {
            Some(uri) => Ok(self.vocabulary.intern_namespace(uri)),
            None => Err(self.undeclared_prefix(prefix, offset)),
        }
    }

    /// Expects a closing bracket; `open` is where its partner stands.
    pub(super) fn close(&mut self, kind: TokenKind, open: usize) -> Parsed<()> {
        if self.token.kind != kind {
            return Err(self.unclosed(kind, open));
        }
        self.advance();
        Ok(())
    }

    #[inline]
    pub(super) fn advance(&mut self) {
        self.previous = self.token;
        self.token = self.lexer.next();
    }

    #[inline]
    pub(super) fn text_of(&self, token: Token) -> &'a str {
        &self.lexer.text[token.start..token.end]
    }

    /// Returns a literal without its quotes.
    pub(super) fn literal_of(&self, token: Token) -> Parsed<Box<str>> {
        let inner = &self.lexer.text[token.start + 1..token.end - 1];
        if self.flwr {
            return Ok(self.flwr_literal(token)?.into());
        }
        Ok(inner.into())
    }
}
