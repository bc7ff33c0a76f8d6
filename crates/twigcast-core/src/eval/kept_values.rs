//! Sequences of values: what `tokenize()`, `distinct-values()` and `!` make, and what is made of many values.
//!
//! A value stands among nodes as [`NodeRef::Value`], an index of a list that the evaluators of a message share. So whatever
//! takes nodes takes values: comparisons, counts, predicates, `for` clauses.

use std::borrow::Cow;
use std::collections::HashSet;
use std::rc::Rc;

use foldhash::fast::RandomState;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::{Context, EvalError, KeptValue, Value};
use crate::query::ast::{Expr, Function, Path, PathStart};
use crate::query::functions::ExprType;
use crate::util::number::{self, SPACES};

/// Visits that a value counts as, so that a limit on visits is one on memory; its text counts by itself.
const VALUE_VISITS: u64 = 8;
const VALUE_BYTES_PER_VISIT: usize = 8;
/// The same of a part of a text that is not kept.
const TOKEN_VISITS: u64 = 4;
/// Visits that replacing one match counts as, besides the bytes of what replaces it.
const MATCH_VISITS: u64 = 6;

impl<'a> Evaluator<'a> {
    /// Returns the evaluator with the values of another one: an index means the same to both.
    #[must_use]
    pub(crate) fn sharing_values(mut self, other: &Evaluator<'_>) -> Self {
        self.kept_values = Rc::clone(&other.kept_values);
        self
    }

    /// Keeps a value of a sequence.
    fn keep_value(&self, value: KeptValue) -> Result<NodeRef, EvalError> {
        let bytes = if let KeptValue::Text(text) = &value { text.len() } else { 0 };
        self.charge(VALUE_VISITS + (bytes / VALUE_BYTES_PER_VISIT) as u64)?;
        let mut values = self.kept_values.borrow_mut();
        let index = values.len() as u32;
        values.push(value);
        Ok(NodeRef::Value(index))
    }

    /// Keeps a text of a sequence.
    pub(crate) fn kept_text(&self, text: &str) -> Result<NodeRef, EvalError> {
        self.keep_value(KeptValue::Text(text.into()))
    }

    /// Returns a value as a sequence: a text or a number is kept, and nodes are as they are.
    pub(crate) fn as_nodes(&self, value: Value<'_>) -> Result<Vec<NodeRef>, EvalError> {
        Ok(match value {
            Value::Nodes(nodes) => nodes,
            Value::Number(number) => vec![self.keep_value(KeptValue::Number(number))?],
            Value::String(text) => vec![self.kept_text(&text)?],
            Value::Temporal(temporal) => vec![self.kept_text(&temporal.to_string())?],
            Value::Boolean(truth) => vec![self.kept_text(if truth { "true" } else { "false" })?],
        })
    }

    /// Returns the text of a value of a sequence.
    pub(super) fn text_of_kept(&self, index: u32) -> String {
        match &self.kept_values.borrow()[index as usize] {
            KeptValue::Text(text) => (**text).to_owned(),
            KeptValue::Number(number) => number::format(*number).into_owned(),
        }
    }

    /// Returns the number that an item of a sequence is; nothing if it is a text or a node.
    pub(super) fn number_among_values(&self, item: NodeRef) -> Option<f64> {
        match item {
            NodeRef::Value(index) => self.number_of_kept(index),
            _ => None,
        }
    }

    /// Returns the number that a value of a sequence is; nothing if it is a text.
    pub(super) fn number_of_kept(&self, index: u32) -> Option<f64> {
        match self.kept_values.borrow()[index as usize] {
            KeptValue::Number(number) => Some(number),
            KeptValue::Text(_) => None,
        }
    }

    /// Returns `boolean()` of a value.
    pub(super) fn truth(&self, value: &Value<'_>) -> bool {
        match value {
            Value::Boolean(truth) => *truth,
            Value::Number(number) => number::is_true(*number),
            Value::String(text) => !text.is_empty(),
            Value::Nodes(nodes) => self.truth_of_items(nodes),
            Value::Temporal(_) => true,
        }
    }

    /// Returns `boolean()` of a sequence: a single value decides by what it is, as in XPath 3.1, which has no answer for
    /// several values; here they are true, as nodes are.
    pub(super) fn truth_of_items(&self, items: &[NodeRef]) -> bool {
        match items {
            [NodeRef::Value(index)] => match &self.kept_values.borrow()[*index as usize] {
                KeptValue::Text(text) => !text.is_empty(),
                KeptValue::Number(number) => number::is_true(*number),
            },
            items => !items.is_empty(),
        }
    }

    /// Evaluates `boolean(nodes ! value)`.
    pub(super) fn truth_of_map(&self, nodes: &'a Expr, value: &'a Expr, context: Context) -> Result<bool, EvalError> {
        if !self.has_one_value(value) {
            return Ok(self.truth_of_items(&self.mapped(nodes, value, context)?));
        }
        // There is a value for each node, and only one that is alone counts.
        match *self.nodes(nodes, context)? {
            [] => Ok(false),
            [node] => self.within_predicate(|| self.boolean(value, Context::at(node))),
            _ => Ok(true),
        }
    }

    /// Returns whether an expression has exactly one value, which is a text or a number.
    pub(super) fn has_one_value(&self, value: &Expr) -> bool {
        matches!(self.type_of(value), ExprType::String | ExprType::Number)
    }

    /// Returns whether a path may select values, of which one alone decides by what it is.
    pub(super) fn may_select_values(&self, path: &Path, context: Context) -> bool {
        let is_value = |node: Option<&NodeRef>| matches!(node, Some(NodeRef::Value(_)));
        match &path.start {
            PathStart::Context => is_value(Some(&context.node)),
            PathStart::Filter { primary, .. } if path.steps.is_empty() => match &**primary {
                Expr::Path(Path { start: PathStart::Variable(id), steps }) if steps.is_empty() => {
                    matches!(&self.variables[id.index()], Value::Nodes(nodes) if is_value(nodes.first()))
                }
                primary => primary.gives_values(),
            },
            _ => false,
        }
    }

    /// Evaluates `nodes ! value`.
    pub(super) fn mapped(&self, nodes: &'a Expr, value: &'a Expr, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        let nodes = self.nodes(nodes, context)?;
        let size = nodes.len() as u32;
        let mut items = Vec::with_capacity(nodes.len());
        for (position, node) in (1..).zip(nodes) {
            let value = self.within_predicate(|| self.value(value, Context { node, position, size }))?;
            items.append(&mut self.as_nodes(value)?);
        }
        // Values are in their order already; of nodes each is there once.
        self.sort_unique(&mut items)?;
        Ok(items)
    }

    /// Calls back with the number of each item of an expression, in order.
    pub(super) fn numbers(&self, expr: &'a Expr, context: Context, each: &mut dyn FnMut(f64)) -> Result<(), EvalError> {
        // The values of a map are only numbers here, and need not be kept.
        if let Expr::Map { nodes, value } = expr
            && self.type_of(value) != ExprType::NodeSet
        {
            let nodes = self.nodes(nodes, context)?;
            let size = nodes.len() as u32;
            for (position, node) in (1..).zip(nodes) {
                each(self.within_predicate(|| self.number(value, Context { node, position, size }))?);
            }
            return Ok(());
        }
        for node in self.nodes(expr, context)? {
            each(self.number_value(node)?);
        }
        Ok(())
    }

    /// Evaluates `min()`, `max()` or `avg()`: NaN of nothing, and where one of the items is no number.
    pub(super) fn extreme(&self, function: Function, items: &'a Expr, context: Context) -> Result<f64, EvalError> {
        let (mut count, mut found) = (0_u32, f64::NAN);
        self.numbers(items, context, &mut |number| {
            count += 1;
            found = match function {
                _ if count == 1 => number,
                Function::Min if number < found || number.is_nan() => number,
                Function::Max if number > found || number.is_nan() => number,
                Function::Avg => found + number,
                _ => found,
            };
        })?;
        Ok(if function == Function::Avg { found / f64::from(count) } else { found })
    }

    /// Evaluates `distinct-values()`: each value once, where it comes first.
    pub(super) fn distinct_values(&self, items: &'a Expr, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        // Keyed per process: what messages hold must not decide how far one has to look.
        let mut texts: HashSet<Box<str>, RandomState> = HashSet::default();
        let mut numbers: HashSet<u64, RandomState> = HashSet::default();
        let mut distinct = Vec::new();
        for node in self.nodes(items, context)? {
            if let Some(number) = self.number_among_values(node) {
                // Both zeros are equal, and so is NaN to itself here.
                let bits = if number.is_nan() { f64::NAN.to_bits() } else { (number + 0.0).to_bits() };
                self.charge(1)?;
                if numbers.insert(bits) {
                    distinct.push(node);
                }
                continue;
            }
            let text = self.whole_reading(node)?;
            if !texts.contains(&*text) {
                texts.insert((*text).into());
                distinct.push(self.kept_text(&text)?);
            }
        }
        Ok(distinct)
    }

    /// Evaluates `tokenize()`: the parts of a text between matches of a pattern, or its words.
    pub(super) fn tokens(&self, arguments: &'a [Expr], context: Context) -> Result<Vec<NodeRef>, EvalError> {
        let text = self.text(&arguments[0], context)?.text;
        self.charge_characters(text.len())?;
        let mut tokens = Vec::new();
        each_token(&text, arguments, |part| {
            tokens.push(self.kept_text(part)?);
            Ok(())
        })?;
        Ok(tokens)
    }

    /// Appends the string-values of the nodes that an expression selects. Parts of a text are not kept as values then.
    pub fn append_texts_at(
        &self,
        expr: &'a Expr,
        node: NodeRef,
        texts: &mut Vec<Cow<'a, str>>,
    ) -> Result<(), EvalError> {
        if let Expr::Call { function: Function::TwigWords, arguments } = expr {
            return self.append_words_at(arguments, node, texts);
        }
        if let (Expr::Path(path), NodeRef::Node(element)) = (expr, node)
            && self.append_plain(path, element, texts)?
        {
            return Ok(());
        }
        let Expr::Call { function: Function::Tokenize, arguments } = expr else {
            if let Value::Nodes(nodes) = self.value_at(expr, node)? {
                for node in nodes {
                    texts.push(self.string_value(node)?);
                }
            }
            return Ok(());
        };
        let text = self.string_at(&arguments[0], node)?;
        self.charge_characters(text.len())?;
        let mut append = |part: Cow<'a, str>| {
            self.charge(TOKEN_VISITS)?;
            texts.push(part);
            Ok(())
        };
        match text {
            Cow::Borrowed(text) => each_token(text, arguments, |part| append(Cow::Borrowed(part))),
            Cow::Owned(text) => each_token(&text, arguments, |part| append(Cow::Owned(part.to_owned()))),
        }
    }

    /// Evaluates `replace()`.
    pub(super) fn replaced(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let text = self.text(&arguments[0], context)?.text;
        self.charge_characters(text.len())?;
        // The parser has compiled each pattern.
        match &arguments[1] {
            Expr::Pattern(pattern) => pattern.replaced(&text, &mut |bytes| {
                self.charge(MATCH_VISITS)?;
                self.charge_characters(bytes)
            }),
            _ => Ok(text.to_string()),
        }
    }

    /// Evaluates `intersect` or `except`.
    pub(super) fn set_operation(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<Vec<NodeRef>, EvalError> {
        let mut nodes = self.nodes(&arguments[0], context)?;
        if nodes.is_empty() {
            return Ok(nodes);
        }
        let others = self.nodes(&arguments[1], context)?;
        self.charge((nodes.len() + others.len()) as u64)?;
        let document = self.message.document;
        let keeps_common = function == Function::Intersect;
        // Both are in document order.
        let mut next = 0;
        nodes.retain(|node| {
            let order = node.order(document);
            while others.get(next).is_some_and(|other| other.order(document) < order) {
                next += 1;
            }
            (others.get(next) == Some(node)) == keeps_common
        });
        Ok(nodes)
    }
}

/// Passes on the parts of a text that `tokenize()` with such arguments makes.
fn each_token<'t>(
    text: &'t str,
    arguments: &[Expr],
    mut each: impl FnMut(&'t str) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    match arguments.get(1) {
        _ if text.is_empty() => Ok(()),
        // The parser has compiled each pattern.
        Some(Expr::Pattern(pattern)) => pattern.split(text).try_for_each(each),
        _ => text.split(SPACES).filter(|word| !word.is_empty()).try_for_each(&mut each),
    }
}
