//! Algebra to text: the normal form that people read, which parses back to the same algebra.
//!
//! The text is abbreviated where XPath has an abbreviation. Every name in a namespace gets a prefix, so the text means
//! the same whatever default namespace it is read under.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step, VariableId};
use super::typed::TypedConstant;
use crate::vocabulary::{Name, NamespaceId, Vocabulary};

/// Text, and the prefixes that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// The query.
    pub text: String,
    /// Namespace of each prefix in the text.
    pub namespaces: BTreeMap<String, String>,
}

/// Writes an expression. `declared` holds the prefixes to prefer (prefix to URI); others are made up: `ns1`, `ns2`, ...
pub fn expression(expr: &Expr, vocabulary: &Vocabulary, declared: &BTreeMap<String, String>) -> Printed {
    let mut printer = Printer::new(vocabulary, declared, &[]);
    printer.expr(expr, Strength::Or);
    printer.finish()
}

/// The strength with which an expression binds, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    Or,
    And,
    Equality,
    Relation,
    Sum,
    Product,
    Unary,
    Union,
    Intersection,
    Map,
    Path,
}

/// Writes algebra into a string and keeps the prefixes.
pub(super) struct Printer<'a> {
    pub text: String,
    vocabulary: &'a Vocabulary,
    declared: &'a BTreeMap<String, String>,
    variables: &'a [Box<str>],
    used: BTreeMap<NamespaceId, String>,
    /// In XQuery strings `&` starts a reference.
    pub references: bool,
    /// Prefixes that mean something else in parts of the text.
    avoided: BTreeSet<String>,
}

impl<'a> Printer<'a> {
    /// Creates a printer; `variables` are names by number.
    pub fn new(vocabulary: &'a Vocabulary, declared: &'a BTreeMap<String, String>, variables: &'a [Box<str>]) -> Self {
        Self {
            text: String::new(),
            vocabulary,
            declared,
            variables,
            used: BTreeMap::new(),
            references: false,
            avoided: BTreeSet::new(),
        }
    }

    pub fn finish(self) -> Printed {
        let uri = |id| self.vocabulary.namespace_uri(id).to_owned();
        let namespaces = self.used.into_iter().map(|(id, prefix)| (prefix, uri(id))).collect();
        Printed { text: self.text, namespaces }
    }

    /// Returns the prefix to write for a namespace.
    pub fn prefix(&mut self, namespace: NamespaceId) -> String {
        if namespace == NamespaceId::XML {
            return "xml".into();
        }
        if let Some(prefix) = self.used.get(&namespace) {
            return prefix.clone();
        }
        let uri = self.vocabulary.namespace_uri(namespace);
        let fits = |prefix: &str| !prefix.is_empty() && !self.avoided.contains(prefix);
        let declared = self.declared.iter().find(|(prefix, existing)| *existing == uri && fits(prefix));
        let prefix = declared.map_or_else(|| self.unused_prefix(), |(prefix, _)| prefix.clone());
        self.used.insert(namespace, prefix.clone());
        prefix
    }

    fn unused_prefix(&self) -> String {
        let taken = |prefix: &String| {
            self.declared.contains_key(prefix)
                || self.avoided.contains(prefix)
                || self.used.values().any(|p| p == prefix)
        };
        (1..).map(|number| format!("ns{number}")).find(|prefix| !taken(prefix)).unwrap_or_default()
    }

    /// Keeps paths from using a prefix that a constructor binds, unless it is to what the prefix means anyway.
    pub fn avoid_prefix(&mut self, prefix: &str, uri: &str) {
        if self.declared.get(prefix).is_none_or(|existing| existing != uri) {
            self.avoided.insert(prefix.to_owned());
        }
    }

    /// Returns the name of a variable, without `$`.
    pub fn variable_name(&self, id: VariableId) -> &str {
        self.variables.get(id.index()).map_or("variable", |name| name)
    }

    /// Writes an expression, in parentheses if it binds more loosely than `least`.
    pub fn expr(&mut self, expr: &Expr, least: Strength) {
        let parenthesise = strength(expr) < least || (is_root(expr) && least > Strength::Or);
        if parenthesise {
            self.text.push('(');
        }
        self.bare(expr);
        if parenthesise {
            self.text.push(')');
        }
    }

    fn bare(&mut self, expr: &Expr) {
        match expr {
            Expr::Or(operands) => self.list(operands, " or ", Strength::And),
            Expr::And(operands) => self.list(operands, " and ", Strength::Equality),
            Expr::Union(operands) => self.list(operands, " | ", Strength::Intersection),
            Expr::Map { nodes, value } => self.binary("!", nodes, value, Strength::Map),
            Expr::Call { function, arguments } if function.facts().is_operator => {
                self.binary(function.name(), &arguments[0], &arguments[1], Strength::Intersection);
            }
            Expr::Compare { op, left, right } => self.binary(op.symbol(), left, right, strength(expr)),
            Expr::Arithmetic { op, left, right } => self.binary(op.symbol(), left, right, strength(expr)),
            Expr::Negate(operand) => self.negation(operand),
            Expr::Path(path) => self.path(path),
            Expr::Number(value) => self.number(*value),
            Expr::Literal(value) => self.literal(value),
            Expr::Pattern(pattern) => self.literal(pattern.text()),
            Expr::Selection(selection) => self.literal(selection.text()),
            Expr::Region(region) => self.text.push_str(region.text()),
            Expr::Typed(constant) => self.typed(constant),
            Expr::Call { function, arguments } => {
                self.text.push_str(function.name());
                self.text.push('(');
                self.list(arguments, ", ", Strength::Or);
                self.text.push(')');
            }
        }
    }

    /// Writes a constant as the call that makes it.
    fn typed(&mut self, constant: &TypedConstant) {
        let (function, mut text) = constant.call();
        if let TypedConstant::Name(namespace, name) = constant {
            let local = name.rsplit_once('}').map_or(&**name, |(_, local)| local);
            text = match *namespace {
                NamespaceId::NONE => local.into(),
                namespace => format!("{}:{local}", self.prefix(namespace)).into(),
            };
        }
        self.text.push_str(function);
        self.text.push('(');
        self.literal(&text);
        self.text.push(')');
    }

    fn list(&mut self, operands: &[Expr], separator: &str, least: Strength) {
        for (index, operand) in operands.iter().enumerate() {
            if index > 0 {
                self.text.push_str(separator);
            }
            self.expr(operand, least);
        }
    }

    /// Writes a binary operator. These associate to the left, so the right operand must bind more tightly.
    fn binary(&mut self, symbol: &str, left: &Expr, right: &Expr, own: Strength) {
        self.expr(left, own);
        let _ = write!(self.text, " {symbol} ");
        self.expr(right, tighter(own));
    }

    /// Writes a negation. The parser counts adjacent minus signs by twos, so a third one needs parentheses.
    fn negation(&mut self, operand: &Expr) {
        self.text.push('-');
        match operand {
            Expr::Negate(inner) if !matches!(**inner, Expr::Negate(_)) => {
                self.text.push('-');
                self.expr(inner, Strength::Union);
            }
            _ => self.expr(operand, Strength::Union),
        }
    }

    fn path(&mut self, path: &Path) {
        let has_start = match &path.start {
            PathStart::Root => {
                if path.steps.first().is_none_or(|step| !self.abbreviates(step, path.steps.get(1))) {
                    self.text.push('/');
                }
                true
            }
            PathStart::Context => {
                if path.steps.is_empty() {
                    self.text.push('.');
                }
                false
            }
            PathStart::Variable(id) => {
                let name = self.variable_name(*id).to_owned();
                let _ = write!(self.text, "${name}");
                true
            }
            PathStart::Filter { primary, predicates } => {
                self.filter(primary, predicates);
                true
            }
        };
        let mut slash = has_start && !matches!(path.start, PathStart::Root);
        let mut steps = path.steps.iter().peekable();
        let mut first = true;
        while let Some(step) = steps.next() {
            if (has_start || !first) && self.abbreviates(step, steps.peek().copied()) {
                self.text.push_str("//");
                slash = false;
            } else {
                if slash {
                    self.text.push('/');
                }
                self.step(step);
                slash = true;
            }
            first = false;
        }
    }

    /// Returns whether a step is the one that `//` stands for, with a step after it.
    fn abbreviates(&self, step: &Step, next: Option<&Step>) -> bool {
        next.is_some()
            && step.axis == Axis::DescendantOrSelf
            && step.test == NodeTest::Node
            && step.predicates.is_empty()
    }

    fn filter(&mut self, primary: &Expr, predicates: &[Expr]) {
        let bare = match primary {
            Expr::Call { function, .. } => !function.facts().is_operator,
            Expr::Path(path) => matches!(path.start, PathStart::Variable(_)) && path.steps.is_empty(),
            _ => false,
        };
        if bare {
            self.expr(primary, Strength::Or);
        } else {
            self.text.push('(');
            self.expr(primary, Strength::Or);
            self.text.push(')');
        }
        self.predicates(predicates);
    }

    fn step(&mut self, step: &Step) {
        let bare = step.test == NodeTest::Node && step.predicates.is_empty();
        match step.axis {
            Axis::SelfAxis if bare => return self.text.push('.'),
            Axis::Parent if bare => return self.text.push_str(".."),
            Axis::Child => {}
            Axis::Attribute => self.text.push('@'),
            axis => {
                let _ = write!(self.text, "{}::", axis.name());
            }
        }
        self.node_test(&step.test);
        self.predicates(&step.predicates);
    }

    fn node_test(&mut self, test: &NodeTest) {
        match test {
            NodeTest::Name(name) => self.name_test(*name),
            NodeTest::Node => self.text.push_str("node()"),
            NodeTest::Text => self.text.push_str("text()"),
            NodeTest::Comment => self.text.push_str("comment()"),
            NodeTest::ProcessingInstruction(None) => self.text.push_str("processing-instruction()"),
            NodeTest::ProcessingInstruction(Some(target)) => {
                self.text.push_str("processing-instruction(");
                self.literal(target);
                self.text.push(')');
            }
        }
    }

    fn name_test(&mut self, test: NameTest) {
        match test {
            NameTest::Any => self.text.push('*'),
            NameTest::Name(name) => self.name(name),
            NameTest::Namespace(namespace) => {
                let prefix = self.prefix(namespace);
                let _ = write!(self.text, "{prefix}:*");
            }
            NameTest::Local(local) => {
                let _ = write!(self.text, "*:{}", self.vocabulary.local_name(local));
            }
        }
    }

    pub fn name(&mut self, name: Name) {
        if name.namespace != NamespaceId::NONE {
            let prefix = self.prefix(name.namespace);
            self.text.push_str(&prefix);
            self.text.push(':');
        }
        self.text.push_str(self.vocabulary.local_name(name.local));
    }

    fn predicates(&mut self, predicates: &[Expr]) {
        for predicate in predicates {
            self.text.push('[');
            self.expr(position_of(predicate).unwrap_or(predicate), Strength::Or);
            self.text.push(']');
        }
    }

    /// Writes a literal. In a string with both quotes the outer one is doubled, as in XPath 3.1.
    pub fn literal(&mut self, value: &str) {
        let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
        self.text.push(quote);
        for character in value.chars() {
            if character == quote {
                self.text.push(quote);
            }
            match character {
                '&' if self.references => self.text.push_str("&amp;"),
                other => self.text.push(other),
            }
        }
        self.text.push(quote);
    }

    fn number(&mut self, value: f64) {
        if value.is_infinite() {
            // No other literal reads back as infinity.
            let _ = write!(self.text, "{}1{}", if value < 0.0 { "-" } else { "" }, "0".repeat(309));
        } else if value.is_nan() {
            self.text.push_str("number('NaN')");
        } else {
            let _ = write!(self.text, "{value}");
        }
    }
}

/// Returns `n` of `[position() = n]`, which is written `[n]`.
fn position_of(predicate: &Expr) -> Option<&Expr> {
    match predicate {
        Expr::Compare { op: CompareOp::Equal, left, right }
            if matches!(**left, Expr::Call { function: Function::Position, .. })
                && right.static_type(&[]) == super::functions::ExprType::Number =>
        {
            Some(right)
        }
        _ => None,
    }
}

fn is_root(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.steps.is_empty() && matches!(path.start, PathStart::Root))
}

fn strength(expr: &Expr) -> Strength {
    match expr {
        Expr::Or(_) => Strength::Or,
        Expr::And(_) => Strength::And,
        Expr::Compare { op: CompareOp::Equal | CompareOp::NotEqual, .. } => Strength::Equality,
        Expr::Compare { .. } => Strength::Relation,
        Expr::Arithmetic { op, .. } if matches!(op.symbol(), "+" | "-") => Strength::Sum,
        Expr::Arithmetic { .. } => Strength::Product,
        Expr::Negate(_) => Strength::Unary,
        Expr::Number(value) if value.is_sign_negative() => Strength::Unary,
        Expr::Union(_) => Strength::Union,
        Expr::Map { .. } => Strength::Map,
        Expr::Call { function, .. } if function.facts().is_operator => Strength::Intersection,
        Expr::Path(_)
        | Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_)
        | Expr::Call { .. } => Strength::Path,
    }
}

fn tighter(strength: Strength) -> Strength {
    match strength {
        Strength::Or => Strength::And,
        Strength::And => Strength::Equality,
        Strength::Equality => Strength::Relation,
        Strength::Relation => Strength::Sum,
        Strength::Sum => Strength::Product,
        Strength::Product => Strength::Unary,
        Strength::Unary => Strength::Union,
        Strength::Union => Strength::Intersection,
        Strength::Intersection => Strength::Map,
        Strength::Map | Strength::Path => Strength::Path,
    }
}
