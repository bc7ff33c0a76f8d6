//! Location paths: the part of the grammar between two operators (section 2).

use super::Dialect;
use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::lexer::TokenKind;
use super::parser::{Parsed, Parser};
use super::sequences::of_branches;
use crate::error::QueryErrorKind;

impl Parser<'_, '_> {
    /// Returns the start of a relative path. A whole query is evaluated at the document node, so there `a` is `/a`.
    pub(super) fn context_start(&self) -> Parsed<PathStart> {
        if self.predicate_depth > 0 {
            return Ok(PathStart::Context);
        }
        if self.flwr {
            let word = self.text_of(self.token);
            if matches!(word, "return" | "where" | "order" | "stable" | "in" | "then" | "else" | "for" | "let") {
                return Err(self.unexpected_word());
            }
            let message =
                format!("a path must start at a variable, at `/` or at $doc here; `{word}` has no context node");
            return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &["$variable", "/"]));
        }
        Ok(PathStart::Root)
    }

    pub(super) fn absolute_path(&mut self) -> Parsed<Expr> {
        let inside_predicate = self.options.dialect == Dialect::Legacy && self.predicate_depth > 0;
        let start = if inside_predicate { PathStart::Context } else { PathStart::Root };
        let mut path = Path { start, steps: Vec::new() };
        let double = self.token.kind == TokenKind::DoubleSlash;
        self.advance();
        if double {
            path.steps.push(self.descendant_step()?);
        }
        if double || self.starts_step() || self.is_postfix_step() {
            return self.relative_path(path);
        }
        if inside_predicate {
            path.steps.push(Step { axis: Axis::SelfAxis, test: NodeTest::Node, predicates: Vec::new() });
        }
        Ok(Expr::Path(path))
    }

    /// Returns `true` if the current token can start a step.
    pub(super) fn starts_step(&self) -> bool {
        match self.token.kind {
            TokenKind::Star
            | TokenKind::NamespaceStar
            | TokenKind::LocalStar
            | TokenKind::At
            | TokenKind::Dot
            | TokenKind::DotDot => true,
            TokenKind::Name => self.lexer.peek() != b'(' || node_type(self.text_of(self.token)),
            _ => false,
        }
    }

    /// Returns `true` if the current token, after a slash, starts a step in parentheses or the call of a function.
    fn is_postfix_step(&self) -> bool {
        match self.token.kind {
            TokenKind::OpenParen => !self.lexer.text[self.token.start..].starts_with("(:"),
            TokenKind::Name => {
                let name = self.text_of(self.token);
                self.lexer.peek() == b'(' && !node_type(name) && Function::named(name).is_some()
            }
            _ => false,
        }
    }

    /// Parses a RelativeLocationPath that goes on with a path.
    pub(super) fn relative_path(&mut self, path: Path) -> Parsed<Expr> {
        if self.is_postfix_step() {
            return self.postfix_step(vec![path]);
        }
        let mut path = path;
        let step = self.step()?;
        path.steps.push(step);
        self.further_steps(vec![path])
    }

    /// Parses the steps that go on with one of several paths.
    pub(super) fn further_steps(&mut self, mut branches: Vec<Path>) -> Parsed<Expr> {
        loop {
            match self.token.kind {
                TokenKind::Slash => self.advance(),
                TokenKind::DoubleSlash => {
                    self.advance();
                    let step = self.descendant_step()?;
                    push(&mut branches, step);
                }
                _ => return Ok(of_branches(branches)),
            }
            while self.token.kind == TokenKind::OpenBracket && self.options.dialect == Dialect::Legacy {
                if let Some(step) = branches.iter_mut().find_map(|branch| branch.steps.last_mut()) {
                    self.predicates(&mut step.predicates)?;
                }
                match self.token.kind {
                    TokenKind::Slash => self.advance(),
                    TokenKind::DoubleSlash => {
                        self.advance();
                        let step = self.descendant_step()?;
                        push(&mut branches, step);
                    }
                    _ => return Ok(of_branches(branches)),
                }
            }
            if self.is_postfix_step() {
                return self.postfix_step(branches);
            }
            let step = self.step()?;
            push(&mut branches, step);
        }
    }

    /// Returns the `descendant-or-self::node()` that `//` stands for.
    pub(super) fn descendant_step(&mut self) -> Parsed<Step> {
        self.count_step()?;
        Ok(Step { axis: Axis::DescendantOrSelf, test: NodeTest::Node, predicates: Vec::new() })
    }

    pub(super) fn count_step(&mut self) -> Parsed<()> {
        self.steps += 1;
        let limit = self.options.limits.query_steps_max;
        if self.steps > limit {
            return Err(self.over_limit("query_steps_max", limit, "the query has too many steps", self.token.start));
        }
        Ok(())
    }

    /// Parses a Step.
    fn step(&mut self) -> Parsed<Step> {
        self.count_step()?;
        let axis = match self.token.kind {
            TokenKind::Dot | TokenKind::DotDot => return self.abbreviated_step(),
            TokenKind::At => {
                self.advance();
                if self.token.kind == TokenKind::Name && self.lexer.peek_axis() {
                    let message =
                        "`@` already names the attribute axis; write either `@name` or `attribute::name`".into();
                    return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &["a name", "*"]));
                }
                Axis::Attribute
            }
            TokenKind::Name if self.token.colon == 0 && self.lexer.peek_axis() => {
                let axis = Axis::named(self.text_of(self.token)).ok_or_else(|| self.unknown_axis())?;
                self.advance();
                self.advance();
                axis
            }
            _ => Axis::Child,
        };
        let test = self.node_test(axis)?;
        let mut predicates = Vec::new();
        if self.token.kind == TokenKind::OpenBracket {
            self.predicates(&mut predicates)?;
        }
        Ok(Step { axis, test, predicates })
    }

    /// Parses `.` or `..`.
    fn abbreviated_step(&mut self) -> Parsed<Step> {
        let axis = if self.token.kind == TokenKind::Dot { Axis::SelfAxis } else { Axis::Parent };
        self.advance();
        if self.token.kind == TokenKind::OpenBracket {
            let (short, long) = if axis == Axis::SelfAxis { (".", "self") } else { ("..", "parent") };
            let message = format!("`{short}` takes no predicate in XPath 1.0; write `{long}::node()[...]`");
            return Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &["/", "an operator"]));
        }
        Ok(Step { axis, test: NodeTest::Node, predicates: Vec::new() })
    }

    /// Parses a NodeTest.
    fn node_test(&mut self, axis: Axis) -> Parsed<NodeTest> {
        let token = self.token;
        let test = match token.kind {
            TokenKind::Star => NodeTest::Name(NameTest::Any),
            TokenKind::LocalStar => {
                let local = &self.lexer.text[token.colon + 1..token.end];
                NodeTest::Name(NameTest::Local(self.vocabulary.intern_local(local)))
            }
            TokenKind::NamespaceStar => {
                let prefix = &self.lexer.text[token.start..token.colon];
                NodeTest::Name(NameTest::Namespace(self.namespace_of(prefix, token.start)?))
            }
            TokenKind::Name if token.colon == 0 && self.lexer.peek() == b'(' => return self.kind_test(),
            TokenKind::Name => NodeTest::Name(NameTest::Name(self.name_of(token, principal_is_element(axis))?)),
            _ => return Err(self.unexpected_operand(&["a name", "*", "node()", "text()"])),
        };
        self.advance();
        Ok(test)
    }

    /// Parses `node()` and its kind.
    fn kind_test(&mut self) -> Parsed<NodeTest> {
        let name = self.text_of(self.token);
        if !node_type(name) {
            return Err(self.no_kind_test());
        }
        self.advance();
        let open = self.token.start;
        self.advance();
        let mut target = None;
        if self.token.kind == TokenKind::Literal && name == "processing-instruction" {
            target = Some(self.literal_of(self.token)?);
            self.advance();
        } else if !matches!(self.token.kind, TokenKind::CloseParen | TokenKind::End) {
            let message = match name {
                "processing-instruction" => "the target of a processing instruction is written in quotes".into(),
                _ => format!("{name}() takes no argument"),
            };
            return Err(self.error(self.token.start, QueryErrorKind::Syntax, message, &[")"]));
        }
        self.close(TokenKind::CloseParen, open)?;
        Ok(match name {
            "text" => NodeTest::Text,
            "comment" => NodeTest::Comment,
            "node" => NodeTest::Node,
            _ => NodeTest::ProcessingInstruction(target),
        })
    }

    /// Parses any number of predicates.
    pub(super) fn predicates(&mut self, predicates: &mut Vec<Expr>) -> Parsed<()> {
        let mut height = self.height;
        while self.token.kind == TokenKind::OpenBracket {
            let open = self.token.start;
            self.advance();
            if self.token.kind == TokenKind::CloseBracket {
                let message = "`[]` holds no condition".into();
                return Err(self.error(open, QueryErrorKind::Syntax, message, &["an expression"]));
            }
            let predicate = self.in_context(Self::expression)?;
            self.close(TokenKind::CloseBracket, open)?;
            height = height.max(self.height + 1);
            self.refuse_numbers(&predicate, open + 1)?;
            if matches!(predicate, Expr::Literal(_)) {
                self.note_constants(&[&predicate], open);
            }
            predicates.push(self.positional(predicate));
        }
        self.height = height;
        Ok(())
    }

    /// Refuses a predicate that is a sequence of numbers: XPath 3.1 takes one that is alone for a position.
    fn refuse_numbers(&self, predicate: &Expr, start: usize) -> Parsed<()> {
        if self.items_form(predicate).is_none() {
            return Ok(());
        }
        let message =
            "a number in a predicate is a position: write [boolean(...)] for its truth, [exists(...)] to ask \
                       whether there is one, or [position() = ...]"
                .into();
        Err(self.error(start, QueryErrorKind::Unsupported, message, &[]))
    }

    /// Returns a predicate as a condition: a number means the node at that position.
    fn positional(&self, predicate: Expr) -> Expr {
        if predicate.static_type(&self.variable_types) != ExprType::Number {
            return predicate;
        }
        let position = Expr::Call { function: Function::Position, arguments: Vec::new() };
        Expr::Compare { op: CompareOp::Equal, left: Box::new(position), right: Box::new(predicate) }
    }
}

/// Adds a step to each of several paths.
fn push(branches: &mut [Path], step: Step) {
    if let Some((last, others)) = branches.split_last_mut() {
        others.iter_mut().for_each(|branch| branch.steps.push(step.clone()));
        last.steps.push(step);
    }
}

/// Returns whether a name is a node test, never a function.
fn node_type(name: &str) -> bool {
    matches!(name, "node" | "text" | "comment" | "processing-instruction")
}

/// Returns whether the default namespace applies: it does to elements alone.
fn principal_is_element(axis: Axis) -> bool {
    !matches!(axis, Axis::Attribute | Axis::Namespace)
}
