//! The XPath 1.0 grammar by recursive descent, binary operators by precedence climbing (paths: `location.rs`).
//!
//! Two measures bound every expression, and with it the stack of everything that walks one: `nesting` counts brackets,
//! parentheses and calls on the way down, so that parsing cannot overflow the stack; `height` counts the levels of the
//! tree that was built, since a chain such as `1 + 1 + ...` is deep without any nesting.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::ast::{ArithmeticOp, CompareOp, Expr, Function, Path, PathStart, VariableId};
use super::flwr::Variable;
use super::functions::{ContextUse, ExprType, FunctionFacts};
use super::hints;
use super::lexer::{Lexer, Token, TokenKind, first_forbidden_character};
use super::notes::QueryNote;
use super::operators::{NodeOrder, Operator, Side, Substitution, existence, is_chain, is_of_same_list};
use super::options::{Dialect, ParseOptions};
use super::typed::{NumberForm, TypedConstant};
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
    /// `true` if a path in a constructor has another default namespace than the query.
    pub(super) loses_default: bool,
    /// The default namespaces that constructors gave to paths of a query that has none.
    pub(super) gained_defaults: BTreeSet<NamespaceId>,
    /// The namespaces of the names in paths outside of constructors that declare a default namespace.
    pub(super) outer_namespaces: BTreeSet<NamespaceId>,
    /// All variables declared so far, by number.
    pub(super) declared_variables: Vec<Variable>,
    /// Variables that certainly hold attributes.
    pub(super) attribute_variables: Vec<VariableId>,
    /// Variables that may hold several attributes of one name.
    pub(super) several_attributes: Vec<VariableId>,
    /// Variables that hold values rather than nodes.
    pub(super) value_variables: Vec<VariableId>,
    /// The forms of the numbers that variables hold.
    pub(super) number_forms: Vec<(VariableId, NumberForm)>,
    /// The expressions that names stand for, by number.
    pub(super) substitutions: Vec<Substitution>,
    /// The parameters that were named so far.
    pub(super) used_parameters: BTreeSet<String>,
    /// The number of constructors that are open.
    pub(super) constructors: usize,
    /// Offset of the innermost `{` that is open.
    pub(super) open_brace: usize,
    /// The text is a For-Where-Return query.
    pub(super) flwr: bool,
    /// Steps read so far.
    pub(super) steps: usize,
    nesting: usize,
    /// Parts of expressions that were written out from lists.
    pub(super) written_out: usize,
    /// Levels of the expression parsed last.
    pub(super) height: usize,
    /// Predicates around the current token.
    pub(super) predicate_depth: usize,
    /// The context of the current token, by number, and how many there were so far.
    pub(super) context: usize,
    pub(super) contexts: usize,
    /// The first thing that may not be meant as it is written.
    pub(super) note: Cell<Option<QueryNote>>,
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
            loses_default: false,
            gained_defaults: BTreeSet::new(),
            outer_namespaces: BTreeSet::new(),
            declared_variables: Vec::new(),
            attribute_variables: Vec::new(),
            several_attributes: Vec::new(),
            value_variables: Vec::new(),
            number_forms: Vec::new(),
            substitutions: Vec::new(),
            used_parameters: BTreeSet::new(),
            constructors: 0,
            open_brace: 0,
            flwr: false,
            steps: 0,
            nesting: 0,
            written_out: 0,
            height: 0,
            predicate_depth: 0,
            context: 0,
            contexts: 0,
            note: Cell::new(None),
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
        self.refuse_unused_parameters()?;
        // Values are no nodes that a message could be said to hold.
        let is_condition = self.gives_values(&expr);
        Ok(if is_condition { Expr::Call { function: Function::Boolean, arguments: vec![expr] } } else { expr })
    }

    /// Parses an Expr.
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        self.enter()?;
        let expr = match self.worded()? {
            Some(expr) => expr,
            None => self.binary(0)?,
        };
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

    /// Parses an expression of operators that bind at least as tightly as `weakest`.
    pub(super) fn binary(&mut self, weakest: u8) -> Parsed<Expr> {
        let start = self.token.start;
        let operand = self.operands(weakest)?;
        self.single(operand, start)
    }

    /// Parses an expression of operators, or a list.
    pub(super) fn operands(&mut self, weakest: u8) -> Parsed<Side> {
        let start = self.token.start;
        let mut left = self.operand()?;
        while let Some((strength, operator)) = self.operator() {
            if strength < weakest {
                break;
            }
            self.refuse_end_tag()?;
            let symbol = self.token;
            self.advance();
            if operator == Operator::ContainsText {
                let operand = self.single(left, start)?;
                left = Side::One(self.contains_text(operand, symbol)?);
                continue;
            }
            let left_height = self.height;
            let steps = self.steps;
            let right_start = self.token.start;
            let right = self.operands(strength + 1)?;
            self.height = self.height.max(left_height) + 1;
            self.check_height()?;
            left = match operator {
                Operator::Range => self.range(&left, &right, symbol)?,
                Operator::NodeOrder(order) => {
                    let (left, right) = (self.single(left, start)?, self.single(right, right_start)?);
                    self.note_constant_name(&right);
                    Side::One(self.placed(order, left, right, (start, right_start))?)
                }
                Operator::Compare(op) if symbol.kind == TokenKind::Name => {
                    self.check_value_comparison(op, &left, &right, symbol)?;
                    Side::One(self.compared(op, &left, &right, symbol)?)
                }
                Operator::Compare(op) if matches!((&left, &right), (Side::Several(_), _) | (_, Side::Several(_))) => {
                    Side::One(self.compared(op, &left, &right, symbol)?)
                }
                _ => {
                    let (left, right) = (self.single(left, start)?, self.single(right, right_start)?);
                    if operator == Operator::Or && is_of_same_list(&left, &right) {
                        // However many values a path is compared with, it has its steps once.
                        self.steps = steps;
                    }
                    if matches!(operator, Operator::Or | Operator::And) {
                        // A longer chain makes the list longer, not the tree higher.
                        self.height = self.height.saturating_sub(usize::from(is_chain(&left, operator)));
                    }
                    Side::One(self.combined(operator, left, right, symbol)?)
                }
            };
        }
        Ok(left)
    }

    /// Refuses an expression with too many levels.
    pub(super) fn check_height(&self) -> Parsed<()> {
        if self.height > self.options.limits.query_nesting_max { Err(self.too_nested()) } else { Ok(()) }
    }

    /// Refuses `</` in a constructor: it is an end tag that comes too early, not a comparison with an absolute path.
    fn refuse_end_tag(&self) -> Parsed<()> {
        let start = self.token.start;
        if self.constructors == 0 || self.predicate_depth > 0 || !self.lexer.text[start..].starts_with("</") {
            return Ok(());
        }
        let message = format!("the `{{` at column {} is not closed before this end tag", self.column(self.open_brace));
        Err(self.error(start, QueryErrorKind::Syntax, message, &["}"]))
    }

    /// Returns the operator that the current token is, with its binding strength.
    fn operator(&self) -> Option<(u8, Operator)> {
        use Operator::{Arithmetic, Compare};
        Some(match self.token.kind {
            TokenKind::Equal => (2, Compare(CompareOp::Equal)),
            TokenKind::NotEqual => (2, Compare(CompareOp::NotEqual)),
            TokenKind::Less => (3, Compare(CompareOp::Less)),
            TokenKind::LessOrEqual => (3, Compare(CompareOp::LessOrEqual)),
            TokenKind::Greater => (3, Compare(CompareOp::Greater)),
            TokenKind::GreaterOrEqual => (3, Compare(CompareOp::GreaterOrEqual)),
            TokenKind::Before => (3, Operator::NodeOrder(NodeOrder::Before)),
            TokenKind::After => (3, Operator::NodeOrder(NodeOrder::After)),
            TokenKind::DoublePipe => (4, Operator::Join),
            TokenKind::Plus => (6, Arithmetic(ArithmeticOp::Add)),
            TokenKind::Minus => (6, Arithmetic(ArithmeticOp::Subtract)),
            TokenKind::Star => (7, Arithmetic(ArithmeticOp::Multiply)),
            TokenKind::Name => match self.text_of(self.token) {
                "contains" if self.is_contains_text() => (4, Operator::ContainsText),
                "or" => (0, Operator::Or),
                "and" => (1, Operator::And),
                "eq" => (2, Compare(CompareOp::Equal)),
                "ne" => (2, Compare(CompareOp::NotEqual)),
                "lt" => (3, Compare(CompareOp::Less)),
                "le" => (3, Compare(CompareOp::LessOrEqual)),
                "gt" => (3, Compare(CompareOp::Greater)),
                "ge" => (3, Compare(CompareOp::GreaterOrEqual)),
                "is" => (3, Operator::NodeOrder(NodeOrder::Same)),
                "to" => (5, Operator::Range),
                "div" => (7, Arithmetic(ArithmeticOp::Divide)),
                "mod" => (7, Arithmetic(ArithmeticOp::Modulo)),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Parses a UnaryExpr. Two minus signs are `number()`, so any even number of them is two and any odd number one.
    pub(super) fn unary(&mut self) -> Parsed<Expr> {
        if self.token.kind != TokenKind::Minus {
            return self.union();
        }
        let sign = self.token;
        let mut signs = 0usize;
        while self.token.kind == TokenKind::Minus {
            signs += 1;
            self.advance();
        }
        let operand = self.union()?;
        self.check_negation(&operand, sign)?;
        let operand = self.as_double(operand);
        self.height += 2;
        let negated = match operand {
            Expr::Number(value) => Expr::Number(if signs % 2 == 1 { -value } else { value }),
            Expr::Typed(TypedConstant::Double(value)) if signs % 2 == 1 => Expr::Typed(TypedConstant::Double(-value)),
            operand if signs % 2 == 1 => Expr::Negate(Box::new(operand)),
            operand => Expr::Negate(Box::new(Expr::Negate(Box::new(operand)))),
        };
        Ok(negated)
    }

    /// Parses a UnionExpr.
    fn union(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let first = self.intersection()?;
        if !self.is_union() {
            return Ok(first);
        }
        self.require_nodes(&first, start, "a side of `|`")?;
        let mut height = self.height;
        let mut members = vec![first];
        while self.is_union() {
            self.advance();
            let start = self.token.start;
            let member = self.intersection()?;
            self.require_nodes(&member, start, "a side of `|`")?;
            height = height.max(self.height);
            members.push(member);
        }
        self.height = height + 1;
        Ok(Expr::Union(members))
    }

    fn is_union(&self) -> bool {
        self.token.kind == TokenKind::Pipe
            || (self.token.kind == TokenKind::Name && self.text_of(self.token) == "union")
    }

    /// Parses a PathExpr.
    pub(super) fn path(&mut self) -> Parsed<Expr> {
        self.height = 0;
        match self.token.kind {
            TokenKind::Slash | TokenKind::DoubleSlash => self.absolute_path(),
            _ if self.starts_step() => {
                let start = self.context_start()?;
                self.relative_path(Path { start, steps: Vec::new() })
            }
            _ => self.filter(),
        }
    }

    /// Parses a FilterExpr, and the path that may follow it.
    fn filter(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        if self.token.kind == TokenKind::OpenParen && self.is_list() {
            let nodes = self.nodes_of_list()?;
            let expr = self.filtered(nodes, start)?;
            self.refuse_positions(&expr, start)?;
            return Ok(expr);
        }
        let primary = self.primary()?;
        self.filtered(primary, start)
    }

    /// Parses the call of a function that is a step, with its predicates, and leaves the path that may follow it.
    pub(super) fn filter_of_one_step(&mut self) -> Parsed<Expr> {
        let start = self.token.start;
        let primary = self.primary()?;
        self.one_step_filtered(primary, start)
    }

    /// Parses the predicates after what begins at `start`, and leaves the path that may follow them.
    pub(super) fn one_step_filtered(&mut self, primary: Expr, start: usize) -> Parsed<Expr> {
        if self.token.kind != TokenKind::OpenBracket {
            return Ok(primary);
        }
        self.require_node_set(&primary, start, "what a predicate filters")?;
        let mut predicates = Vec::new();
        self.predicates(&mut predicates)?;
        let start = PathStart::Filter { primary: Box::new(primary), predicates };
        Ok(Expr::Path(Path { start, steps: Vec::new() }))
    }

    /// Parses the predicates after a primary expression, and the path that may follow them.
    fn filtered(&mut self, primary: Expr, start: usize) -> Parsed<Expr> {
        let continues = matches!(self.token.kind, TokenKind::OpenBracket | TokenKind::Slash | TokenKind::DoubleSlash);
        if !continues {
            return Ok(primary);
        }
        let role =
            if self.token.kind == TokenKind::OpenBracket { "what a predicate filters" } else { "the start of a path" };
        self.require_node_set(&primary, start, role)?;
        let is_value = self.gives_values(&primary);
        let mut predicates = Vec::new();
        self.predicates(&mut predicates)?;
        let mut path = match primary {
            Expr::Path(path) if predicates.is_empty() => path,
            primary => Path { start: PathStart::Filter { primary: Box::new(primary), predicates }, steps: Vec::new() },
        };
        if is_value && matches!(self.token.kind, TokenKind::Slash | TokenKind::DoubleSlash) {
            let message =
                "a value has no children and no place in the message; write `!` to make something of each".into();
            return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &["!"]));
        }
        match self.token.kind {
            TokenKind::Slash => self.advance(),
            TokenKind::DoubleSlash => {
                self.advance();
                path.steps.push(self.descendant_step()?);
            }
            _ => return Ok(Expr::Path(path)),
        }
        let height = self.height;
        let path = self.relative_path(path)?;
        self.height = self.height.max(height) + 1;
        Ok(path)
    }

    /// Parses a PrimaryExpr.
    fn primary(&mut self) -> Parsed<Expr> {
        let token = self.token;
        match token.kind {
            TokenKind::Number => {
                if let Some(end) = self.end_of_exponent(token) {
                    return self.double(token, end);
                }
                self.advance();
                let value = self.text_of(token).parse().unwrap_or(f64::NAN);
                self.note_number(token, value);
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
                    let message =
                        "`()` is empty; no value is compared with nothing, write empty(a) to ask for no node".into();
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

    /// Returns where a number with an exponent ends.
    fn end_of_exponent(&self, number: Token) -> Option<usize> {
        let rest = self.lexer.text[number.end..].strip_prefix(['e', 'E'])?;
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let after = digits.trim_start_matches(|character: char| character.is_ascii_digit());
        let is_number =
            after.len() < digits.len() && !after.starts_with(|next: char| next.is_alphanumeric() || next == '_');
        is_number.then(|| self.lexer.text.len() - after.len())
    }

    /// Parses a number with an exponent. It is an `xs:double`, and so are values that are compared with it.
    fn double(&mut self, number: Token, end: usize) -> Parsed<Expr> {
        let text = self.lexer.text[number.start..end].into();
        self.lexer.position = end;
        self.advance();
        let constant = self.typed_call(Function::XsDouble, vec![Expr::Literal(text)], number)?;
        if let Expr::Typed(TypedConstant::Double(value)) = constant {
            self.note_range(&self.lexer.text[number.start..end], value, number.start);
        }
        Ok(constant)
    }

    fn variable(&mut self) -> Parsed<Expr> {
        let token = self.token;
        let name = self.text_of(token)[1..].trim_start();
        self.advance();
        if let Some(index) = self.substitution_of(name) {
            return self.substituted(token, name, index);
        }
        if let Some(&(_, id)) = self.variables.iter().rev().find(|(existing, _)| *existing == name) {
            return Ok(Expr::Path(Path { start: PathStart::Variable(id), steps: Vec::new() }));
        }
        // The message, as publications on filtering write it in XPath too.
        if matches!(name, "doc" | "msg") {
            return Ok(Expr::Path(Path { start: PathStart::Root, steps: Vec::new() }));
        }
        if let Some(value) = self.parameter(token, name)? {
            return Ok(value);
        }
        if name == "now" {
            return Ok(Expr::Call { function: Function::TwigNow, arguments: Vec::new() });
        }
        Err(self.undeclared_variable(token, name))
    }

    /// Parses a FunctionCall.
    fn call(&mut self) -> Parsed<Expr> {
        let name = self.token;
        if let Some((function, usage)) = existence(without_prefix(self.text_of(name))) {
            return self.existence(function, usage);
        }
        let Some(function) = Function::named(without_prefix(self.text_of(name))) else {
            return Err(self.unknown_function());
        };
        let facts = function.facts();
        self.advance();
        let open = self.token.start;
        self.advance();
        let mut arguments = Vec::new();
        let mut height = 0;
        if self.token.kind != TokenKind::CloseParen {
            loop {
                let start = self.token.start;
                let argument = self.argument(function)?;
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
                "{}() has {} here; write {}{}",
                self.text_of(name),
                hints::arguments(arguments.len()),
                facts.usage,
                hints::instead_of_arguments(function).filter(|_| arguments.len() > facts.arguments_max).unwrap_or("")
            );
            return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[facts.usage]));
        }
        self.check_context(facts, arguments.len(), name)?;
        if matches!(function, Function::Matches | Function::Tokenize | Function::Replace) {
            self.compile_pattern(function, &mut arguments, name)?;
        }
        self.compile_words(function, &mut arguments, name)?;
        self.check_hours(function, &arguments, name)?;
        if function.is_of_places() {
            return self.call_of_places(function, arguments, name);
        }
        self.typed_call(function, arguments, name)
    }

    /// Refuses what needs a context node: in For-Where-Return nothing outside predicates has one.
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
            if self.flwr && !self.declares_default() {
                self.outer_namespaces.insert(namespace);
            }
            (namespace, &text[token.colon + 1..token.end])
        } else {
            let namespace = if default { self.default_of_path() } else { NamespaceId::NONE };
            (namespace, &text[token.start..token.end])
        };
        Ok(Name { namespace, local: self.vocabulary.intern_local(local) })
    }

    /// Returns the namespace of unprefixed element names in a path, and notes where a constructor has taken that of the
    /// query away, or given it one.
    fn default_of_path(&mut self) -> NamespaceId {
        let namespace = self.default_namespace();
        if !self.declares_default() {
            if self.flwr {
                self.outer_namespaces.insert(namespace);
            }
        } else if let Some(uri) = self.options.namespaces.uri("").filter(|uri| !uri.is_empty()) {
            self.loses_default |= self.vocabulary.intern_namespace(uri) != namespace;
        } else if namespace != NamespaceId::NONE {
            self.gained_defaults.insert(namespace);
        }
        namespace
    }

    /// Returns `true` inside of a constructor that declares a default namespace.
    fn declares_default(&self) -> bool {
        self.declared.iter().any(|(prefix, _)| prefix.is_empty())
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
        if self.flwr {
            return Ok(self.flwr_literal(token)?.into());
        }
        let quote = &self.lexer.text[token.start..=token.start];
        let inner = &self.lexer.text[token.start + 1..token.end - 1];
        Ok(if inner.contains(quote) { inner.replace(&[quote, quote].concat(), quote).into() } else { inner.into() })
    }
}

/// Returns the name of a function without the prefix that XPath's functions have wherever prefixes are declared.
fn without_prefix(name: &str) -> &str {
    name.strip_prefix("fn:").unwrap_or(name)
}
