//! A query compiled for running: what can be prepared is prepared.

use crate::query::ast::{Expr, VariableId};
use crate::query::flwr::{Clause, Content, Element, Flwr, Item, Query, ValuePart};
use crate::query::matching::{all_variables, free_variables, relative};
use crate::query::normal::{normalise, normalise_condition};
use crate::vocabulary::Vocabulary;

use super::output::escaped;

/// A compiled For-Where-Return query.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) body: Op,
    /// How many variables there are.
    pub(super) variables: usize,
}

/// What is done to produce items.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// One after the other.
    Sequence(Vec<Op>),
    /// For each binding.
    Loop(Box<Loop>),
    /// One or the other.
    If { condition: Bound, then: Box<Op>, otherwise: Box<Op> },
    /// An element around content.
    Element(Box<ElementOp>),
    /// Ready-made markup.
    Markup(Box<[u8]>),
    /// The nodes or the value of an expression.
    Value(Bound),
}

/// An expression, and what it is evaluated relative to.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// The message.
    Message(Expr),
    /// The node of a `for` variable, the only one the expression spoke about.
    Node(VariableId, Expr),
    /// The message, with variables in the expression.
    Variables(Vec<VariableId>, Expr),
}

/// A For-Where-Return expression.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    /// Conditions that no clause of this expression can change.
    pub guards: Vec<Bound>,
    pub clauses: Vec<ClauseOp>,
    pub order: Vec<Key>,
    pub result: Op,
}

/// A clause, and the conditions that can be decided once its variable has its value.
#[derive(Clone, Debug)]
pub(super) struct ClauseOp {
    pub variable: VariableId,
    /// The variable is each node in turn rather than the value.
    pub each: bool,
    pub value: Bound,
    pub conditions: Vec<Bound>,
}

/// A key of `order by`.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub value: Bound,
    pub descending: bool,
    pub empty_greatest: bool,
}

/// An element constructor that is not constant.
#[derive(Clone, Debug)]
pub(super) struct ElementOp {
    /// The start tag without its end: constant bytes and templates in turn.
    pub head: Vec<Part>,
    pub content: Vec<Part>,
    /// The end tag.
    pub close: Box<[u8]>,
    /// Namespaces that the start tag declares: prefix and URI.
    pub declarations: Vec<(Box<str>, Box<str>)>,
    /// Expanded names of its attributes.
    pub attributes: Vec<(Box<str>, Box<str>)>,
    /// Prefixes of its name and attributes.
    pub prefixes: Vec<Box<str>>,
}

/// A part of a tag or of content.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Constant(Vec<u8>),
    Enclosed(Op),
}

impl Program {
    /// Compiles a query. The vocabulary is the one it was parsed with.
    pub fn compile(query: &Query, vocabulary: &Vocabulary) -> Self {
        let mut compiler = Compiler { vocabulary, each: vec![false; query.variables.len()] };
        let body = compiler.item(&query.body);
        Self { body, variables: query.variables.len() }
    }
}

struct Compiler<'q> {
    vocabulary: &'q Vocabulary,
    /// By variable: it is a `for` variable.
    each: Vec<bool>,
}

impl Compiler<'_> {
    fn item(&mut self, item: &Item) -> Op {
        match item {
            Item::Sequence(items) => Op::Sequence(items.iter().map(|item| self.item(item)).collect()),
            Item::Flwr(flwr) => Op::Loop(Box::new(self.flwr(flwr))),
            Item::If(choice) => Op::If {
                condition: self.condition(&choice.condition),
                then: Box::new(self.item(&choice.then)),
                otherwise: Box::new(self.item(&choice.otherwise)),
            },
            Item::Element(element) => self.element(element),
            Item::Comment(text) => Op::Markup(format!("<!--{text}-->").into_bytes().into()),
            Item::ProcessingInstruction { target, data } => {
                let space = if data.is_empty() { "" } else { " " };
                Op::Markup(format!("<?{target}{space}{data}?>").into_bytes().into())
            }
            Item::Value(expr) => Op::Value(self.bound(normalise(expr.clone()))),
        }
    }

    fn flwr(&mut self, flwr: &Flwr) -> Loop {
        let mut clauses = Vec::with_capacity(flwr.clauses.len());
        for clause in &flwr.clauses {
            let (variable, each, expr) = match clause {
                Clause::For { variable, source } => (*variable, true, source),
                Clause::Let { variable, value } => (*variable, false, value),
            };
            let value = self.bound(normalise(expr.clone()));
            if let Some(known) = self.each.get_mut(variable.0 as usize) {
                *known = each;
            }
            clauses.push(ClauseOp { variable, each, value, conditions: Vec::new() });
        }
        let mut guards = Vec::new();
        for condition in flwr.condition.iter().flat_map(conjuncts) {
            let mut variables = Vec::new();
            all_variables(&condition, &mut variables);
            let bound = self.bound(condition);
            match clauses.iter_mut().rev().find(|clause| variables.contains(&clause.variable)) {
                Some(clause) => clause.conditions.push(bound),
                None => guards.push(bound),
            }
        }
        let order = flwr.order.iter().map(|key| Key {
            value: self.bound(normalise(key.key.clone())),
            descending: key.descending,
            empty_greatest: key.empty_greatest,
        });
        let order = order.collect();
        Loop { guards, clauses, order, result: self.item(&flwr.result) }
    }

    fn condition(&self, condition: &Expr) -> Bound {
        self.bound(normalise_condition(condition.clone()))
    }

    /// Decides what an expression is evaluated relative to.
    fn bound(&self, expr: Expr) -> Bound {
        let mut variables = Vec::new();
        if free_variables(&expr, &mut variables) {
            match variables[..] {
                [] => return Bound::Message(expr),
                [variable] if self.each[variable.0 as usize] => return Bound::Node(variable, relative(expr)),
                _ => {}
            }
        }
        variables.clear();
        all_variables(&expr, &mut variables);
        Bound::Variables(variables, expr)
    }

    fn element(&mut self, element: &Element) -> Op {
        let mut head = vec![Part::Constant(format!("<{}", element.qname).into_bytes())];
        for (prefix, uri) in &element.declarations {
            let colon = if prefix.is_empty() { "" } else { ":" };
            constant(&mut head, format!(" xmlns{colon}{prefix}=\"").as_bytes());
            constant(&mut head, &escaped(uri, true));
            constant(&mut head, b"\"");
        }
        for attribute in &element.attributes {
            constant(&mut head, format!(" {}=\"", attribute.qname).as_bytes());
            for part in &attribute.value {
                match part {
                    ValuePart::Text(text) => constant(&mut head, &escaped(text, true)),
                    ValuePart::Enclosed(item) => head.push(Part::Enclosed(self.item(item))),
                }
            }
            constant(&mut head, b"\"");
        }
        let mut content = Vec::new();
        for part in &element.content {
            match part {
                Content::Text(text) => constant(&mut content, &escaped(text, false)),
                Content::Enclosed(item) => content.push(Part::Enclosed(self.item(item))),
                Content::Constructor(item) => match self.item(item) {
                    Op::Markup(markup) => constant(&mut content, &markup),
                    op => content.push(Part::Enclosed(op)),
                },
            }
        }
        let close = format!("</{}>", element.qname).into_bytes().into_boxed_slice();
        if let Some(markup) = constant_element(&head, &content, &close) {
            return Op::Markup(markup);
        }
        let vocabulary = self.vocabulary;
        let qnames = std::iter::once(&element.qname).chain(element.attributes.iter().map(|a| &a.qname));
        Op::Element(Box::new(ElementOp {
            head,
            content,
            close,
            declarations: element.declarations.clone(),
            attributes: element
                .attributes
                .iter()
                .map(|a| {
                    (vocabulary.namespace_uri(a.name.namespace).into(), vocabulary.local_name(a.name.local).into())
                })
                .collect(),
            prefixes: qnames.filter_map(|qname| qname.split_once(':')).map(|(prefix, _)| prefix.into()).collect(),
        }))
    }
}

/// The conjuncts of a condition, in normal form.
fn conjuncts(condition: &Expr) -> Vec<Expr> {
    match normalise_condition(condition.clone()) {
        Expr::And(operands) => operands.into_iter().map(normalise_condition).collect(),
        other => vec![other],
    }
}

/// Appends constant bytes, to the constant before if there is one.
fn constant(parts: &mut Vec<Part>, bytes: &[u8]) {
    if let Some(Part::Constant(last)) = parts.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        parts.push(Part::Constant(bytes.to_vec()));
    }
}

/// The markup of an element without any template.
fn constant_element(head: &[Part], content: &[Part], close: &[u8]) -> Option<Box<[u8]>> {
    let ([Part::Constant(head)], [] | [Part::Constant(_)]) = (head, content) else { return None };
    let mut markup = head.clone();
    match content {
        [Part::Constant(content)] => {
            markup.push(b'>');
            markup.extend_from_slice(content);
            markup.extend_from_slice(close);
        }
        _ => markup.extend_from_slice(b"/>"),
    }
    Some(markup.into())
}
