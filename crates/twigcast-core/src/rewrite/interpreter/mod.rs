//! The interpreter: runs programs on one message.
//!
//! [`Interpreter::op`] writes the items of an instruction, [`Interpreter::values`] writes them as the value of an
//! attribute, and [`Interpreter::any_passes_in`] only decides whether a binding passes; all three loop over bindings
//! with [`Interpreter::bindings`]. The markup under construction is in [`node_copy`], the order of bindings in
//! [`order`]. What several programs share is in [`super::sharing`].

mod node_copy;
mod order;

use std::borrow::Cow;

use crate::document::Message;
use crate::eval::{Context, EvalError, Evaluator, NodeRef, Value};
use crate::limits::Limits;
use crate::query::ast::{Expr, VariableId};
use crate::util::number;
use crate::vocabulary::Vocabulary;

use self::node_copy::MarkupWriter;
use self::order::{OrderValue, compare_keys};
use super::ExtractError;
use super::output::Payloads;
use super::program::Program;
use super::program::family::Interner;
use super::program::instructions::{
    BoundExpr, ContentPart, ElementInstruction, FlwrLoop, Instruction, SortKey, is_path,
};
use super::sharing::shared::{SharedBindings, SharedState};

/// The value of a variable.
#[derive(Clone, Debug)]
enum VariableValue<'a> {
    Unset,
    Node(NodeRef),
    Value(Value<'a>),
}

/// An interpreter of programs on one message. What the programs have in common is computed once.
pub struct Interpreter<'a> {
    pub(super) message: Message<'a>,
    pub(super) evaluator: Evaluator<'a>,
    vocabulary: &'a Vocabulary,
    pub(super) interner: &'a Interner,
    /// The common parts of programs are evaluated once.
    pub(super) is_sharing: bool,
    pub(super) shared: SharedState,
    /// The bindings that [`Instruction::Bindings`] writes results for.
    pub(super) bindings: Option<SharedBindings>,
    /// Limit of the nodes that one query may visit, and how many evaluators other than `evaluator` have visited.
    visits_max: u64,
    other_visits: u64,
    slots: Vec<VariableValue<'a>>,
    pub(super) markup: MarkupWriter<'a>,
    /// Loops around the current one.
    depth: usize,
    /// A binding of an outermost loop has passed.
    has_passed: bool,
}

/// A callback for each binding that passes. `false` ends the loop.
type BindingVisitor<'a, 'b> = &'b mut dyn FnMut(&mut Interpreter<'a>) -> Result<bool, ExtractError>;

/// A binding to be sorted.
struct BindingTuple<'a> {
    keys: Vec<OrderValue>,
    slots: Vec<VariableValue<'a>>,
}

impl<'a> Interpreter<'a> {
    /// Creates an interpreter for a message, which must have been scanned with attributes and text. The programs were
    /// compiled with the vocabulary and the interner; their results are added to the payloads.
    pub fn new(
        message: Message<'a>,
        vocabulary: &'a Vocabulary,
        interner: &'a Interner,
        limits: &Limits,
        payloads: &'a mut Payloads,
    ) -> Self {
        let visits_max = limits.query_visits_max as u64;
        Self {
            message,
            evaluator: Evaluator::new(message, vocabulary, &[]).with_budget(visits_max),
            vocabulary,
            interner,
            is_sharing: true,
            bindings: None,
            shared: SharedState::new(shared_bytes_max(message, limits), interner.path_bound()),
            visits_max,
            other_visits: 0,
            slots: Vec::new(),
            markup: MarkupWriter::new(message, payloads, limits.result_bytes_max),
            depth: 0,
            has_passed: false,
        }
    }

    /// Disables sharing: everything is computed for each program anew, to test and measure what sharing gains.
    pub fn share_nothing(&mut self) {
        self.is_sharing = false;
    }

    pub(super) fn begin(&mut self, program: &Program) {
        self.evaluator.reset_visits();
        self.other_visits = 0;
        self.slots.clear();
        self.slots.resize(program.variables, VariableValue::Unset);
        self.markup.begin();
        self.bindings = None;
        self.depth = 0;
        self.has_passed = false;
    }

    /// Returns the number of a program's payload, or `None` if no binding passes, without sharing.
    pub(super) fn deliver_alone(&mut self, program: &'a Program) -> Result<Option<u32>, ExtractError> {
        self.begin(program);
        self.op(&program.body)?;
        Ok(self.has_passed.then(|| self.markup.output.finish()))
    }

    /// Returns `true` if a binding of a program passes.
    ///
    /// # Errors
    /// The query is too expensive on this message.
    pub fn matches(&mut self, program: &'a Program) -> Result<bool, EvalError> {
        self.begin(program);
        match self.any_passes_in(&program.body) {
            Ok(passes) => Ok(passes),
            Err(ExtractError::Evaluation(error)) => Err(error),
            // Nothing is written, so no other error can occur.
            Err(_) => Ok(false),
        }
    }

    fn any_passes_in(&mut self, op: &'a Instruction) -> Result<bool, ExtractError> {
        match op {
            Instruction::Sequence(ops) => self.any_of(ops.iter()),
            Instruction::If { condition, then, otherwise } => {
                let chosen = if self.boolean(condition)? { then } else { otherwise };
                self.any_passes_in(chosen)
            }
            Instruction::Element(element) => {
                self.any_of(element.head.iter().chain(&element.content).filter_map(|part| match part {
                    ContentPart::Enclosed(op) => Some(op),
                    ContentPart::Constant(_) => None,
                }))
            }
            Instruction::Loop(each) => {
                let mut any = false;
                self.bindings(each, &mut |_| {
                    any = true;
                    Ok(false)
                })?;
                Ok(any)
            }
            Instruction::Markup(_) | Instruction::Value(_) | Instruction::Bindings { .. } => Ok(false),
        }
    }

    fn any_of(&mut self, mut ops: impl Iterator<Item = &'a Instruction>) -> Result<bool, ExtractError> {
        ops.try_fold(false, |any, op| if any { Ok(true) } else { self.any_passes_in(op) })
    }

    /// Writes the items of an operation.
    pub(super) fn op(&mut self, op: &'a Instruction) -> Result<(), ExtractError> {
        match op {
            Instruction::Sequence(ops) => ops.iter().try_for_each(|op| self.op(op)),
            Instruction::Loop(each) => self.repeat(each, &mut |run| run.op(&each.result).map(|()| true)),
            Instruction::If { condition, then, otherwise } => {
                let chosen = if self.boolean(condition)? { then } else { otherwise };
                self.op(chosen)
            }
            Instruction::Element(element) => self.element(element),
            Instruction::Markup(markup) => {
                self.markup.begin_content()?;
                self.markup.output.push(markup)
            }
            Instruction::Value(BoundExpr::Node(variable, expr)) if is_path(expr) => self.write_path(*variable, expr),
            Instruction::Bindings { variable, result } => self.write_bindings(*variable, result),
            Instruction::Value(bound) => match self.value(bound)? {
                Value::Nodes(nodes) => nodes.into_iter().try_for_each(|node| self.markup.copy(&self.evaluator, node)),
                value => self.markup.push_value(&text_of(value)),
            },
        }
    }

    fn element(&mut self, element: &'a ElementInstruction) -> Result<(), ExtractError> {
        self.markup.begin_content()?;
        for part in &element.head {
            match part {
                ContentPart::Constant(bytes) => self.markup.output.push(bytes)?,
                ContentPart::Enclosed(op) => self.values(op, &mut true)?,
            }
        }
        let scope = self.markup.open_content(element);
        for part in &element.content {
            match part {
                ContentPart::Constant(bytes) => {
                    self.markup.begin_content()?;
                    self.markup.output.push(bytes)?;
                }
                ContentPart::Enclosed(op) => {
                    self.markup.begin_items();
                    self.op(op)?;
                }
            }
        }
        self.markup.close_content(element, scope)
    }

    /// Writes an enclosed expression of an attribute: the values of its items, separated by spaces.
    /// `is_first` is `true` until the first value.
    fn values(&mut self, op: &'a Instruction, is_first: &mut bool) -> Result<(), ExtractError> {
        match op {
            Instruction::Sequence(ops) => ops.iter().try_for_each(|op| self.values(op, is_first)),
            Instruction::Loop(each) => self.repeat(each, &mut |run| run.values(&each.result, is_first).map(|()| true)),
            Instruction::If { condition, then, otherwise } => {
                let chosen = if self.boolean(condition)? { then } else { otherwise };
                self.values(chosen, is_first)
            }
            Instruction::Value(bound) => match self.value(bound)? {
                Value::Nodes(nodes) => nodes.into_iter().try_for_each(|node| {
                    let text = self.evaluator.string_value(node)?;
                    self.attribute_value(&text, is_first)
                }),
                value => self.attribute_value(&text_of(value), is_first),
            },
            // The parser accepts no constructors in an attribute.
            Instruction::Element(_) | Instruction::Markup(_) | Instruction::Bindings { .. } => Ok(()),
        }
    }

    fn attribute_value(&mut self, text: &str, is_first: &mut bool) -> Result<(), ExtractError> {
        if !std::mem::replace(is_first, false) {
            self.markup.output.push(b" ")?;
        }
        self.markup.output.push_attribute_text(text)
    }

    /// Binds a `for` variable.
    pub(super) fn bind(&mut self, variable: VariableId, node: NodeRef) {
        self.slots[variable.index()] = VariableValue::Node(node);
    }

    /// Returns the node of a `for` variable.
    pub(super) fn node_of(&self, variable: VariableId) -> NodeRef {
        match &self.slots[variable.index()] {
            VariableValue::Node(node) => *node,
            VariableValue::Unset | VariableValue::Value(_) => Context::DOCUMENT.node,
        }
    }

    /// Calls back for each binding that passes, in the order of `order by`, and records that one has passed.
    fn repeat(&mut self, each: &'a FlwrLoop, body: BindingVisitor<'a, '_>) -> Result<(), ExtractError> {
        let outermost = self.depth == 0;
        self.depth += 1;
        if each.order.is_empty() {
            self.bindings(each, &mut |run| {
                run.has_passed |= outermost;
                body(run)
            })?;
        } else {
            let mut tuples = Vec::new();
            self.bindings(each, &mut |run| {
                tuples.push(run.tuple(each)?);
                Ok(true)
            })?;
            self.has_passed |= outermost && !tuples.is_empty();
            tuples.sort_by(|a, b| compare_keys(&each.order, &a.keys, &b.keys));
            for tuple in tuples {
                for (clause, slot) in each.clauses.iter().zip(tuple.slots) {
                    self.slots[clause.variable.index()] = slot;
                }
                if !body(self)? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Calls back for each binding that passes, in the order of the clauses.
    fn bindings(&mut self, each: &'a FlwrLoop, body: BindingVisitor<'a, '_>) -> Result<(), ExtractError> {
        if self.all_hold(&each.guards)? {
            self.bind_from(each, 0, body)?;
        }
        Ok(())
    }

    /// Visits the bindings of the clauses from `first` on. Returns `false` if the callback has ended the loop.
    fn bind_from(
        &mut self,
        each: &'a FlwrLoop,
        first: usize,
        body: BindingVisitor<'a, '_>,
    ) -> Result<bool, ExtractError> {
        for (index, clause) in each.clauses.iter().enumerate().skip(first) {
            let variable = clause.variable.index();
            let value = self.value(&clause.value)?;
            match value {
                Value::Nodes(nodes) if clause.is_for => {
                    for node in nodes {
                        self.slots[variable] = VariableValue::Node(node);
                        if self.all_hold(clause.conditions.iter().map(|condition| &condition.bound))?
                            && !self.bind_from(each, index + 1, body)?
                        {
                            return Ok(false);
                        }
                    }
                    return Ok(true);
                }
                value => {
                    self.slots[variable] = VariableValue::Value(value);
                    if !self.all_hold(clause.conditions.iter().map(|condition| &condition.bound))? {
                        return Ok(true);
                    }
                }
            }
        }
        body(self)
    }

    fn all_hold(&mut self, conditions: impl IntoIterator<Item = &'a BoundExpr>) -> Result<bool, ExtractError> {
        for condition in conditions {
            if !self.boolean(condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tuple(&mut self, each: &'a FlwrLoop) -> Result<BindingTuple<'a>, ExtractError> {
        let keys = each.order.iter().map(|key| self.key(key)).collect::<Result<_, _>>()?;
        let slots = each.clauses.iter().map(|clause| self.slots[clause.variable.index()].clone()).collect();
        Ok(BindingTuple { keys, slots })
    }

    fn key(&mut self, key: &'a SortKey) -> Result<OrderValue, ExtractError> {
        Ok(match self.value(&key.value)? {
            Value::Boolean(truth) => OrderValue::Boolean(truth),
            Value::Number(number) => OrderValue::Number(number),
            Value::String(text) => OrderValue::Text(text.into_owned()),
            Value::Nodes(nodes) => match nodes.first() {
                Some(&node) => OrderValue::Text(self.evaluator.string_value(node)?.into_owned()),
                None => OrderValue::Empty,
            },
        })
    }

    fn value(&mut self, bound: &'a BoundExpr) -> Result<Value<'a>, ExtractError> {
        Ok(match bound {
            BoundExpr::Message(expr) => self.evaluator.value(expr, Context::DOCUMENT)?,
            BoundExpr::Node(variable, expr) => self.evaluator.value_at(expr, self.node_of(*variable))?,
            BoundExpr::Variables(variables, expr) => match (&variables[..], is_variable(expr)) {
                (&[variable], true) => self.slot_value(variable),
                _ => self.with_variables(variables, |evaluator| match evaluator.value(expr, Context::DOCUMENT)? {
                    Value::String(text) => Ok(Value::String(Cow::Owned(text.into_owned()))),
                    Value::Nodes(nodes) => Ok(Value::Nodes(nodes)),
                    Value::Number(number) => Ok(Value::Number(number)),
                    Value::Boolean(truth) => Ok(Value::Boolean(truth)),
                })?,
            },
        })
    }

    fn boolean(&mut self, bound: &'a BoundExpr) -> Result<bool, ExtractError> {
        Ok(match bound {
            BoundExpr::Message(expr) => self.evaluator.boolean(expr, Context::DOCUMENT)?,
            BoundExpr::Node(variable, expr) => self.evaluator.condition(expr, self.node_of(*variable))?,
            BoundExpr::Variables(variables, expr) => {
                self.with_variables(variables, |evaluator| evaluator.boolean(expr, Context::DOCUMENT))?
            }
        })
    }

    /// Evaluates with values for some variables.
    fn with_variables<T>(
        &mut self,
        variables: &[VariableId],
        evaluate: impl for<'b> FnOnce(&Evaluator<'b>) -> Result<T, EvalError>,
    ) -> Result<T, ExtractError>
    where
        T: 'a,
    {
        let mut values = vec![Value::Boolean(false); self.slots.len()];
        for &variable in variables {
            values[variable.index()] = self.slot_value(variable);
        }
        let left = self.visits_max.saturating_sub(self.evaluator.visits() + self.other_visits);
        let evaluator = Evaluator::new(self.message, self.vocabulary, &values).with_budget(left);
        let result = evaluate(&evaluator);
        self.other_visits += evaluator.visits();
        result.map_err(|error| match error {
            // What was left of it says nothing to a reader.
            EvalError::BudgetExceeded { .. } => EvalError::BudgetExceeded { visits_max: self.visits_max }.into(),
            error => error.into(),
        })
    }

    fn slot_value(&self, variable: VariableId) -> Value<'a> {
        match &self.slots[variable.index()] {
            VariableValue::Node(node) => Value::Nodes(vec![*node]),
            VariableValue::Value(value) => value.clone(),
            VariableValue::Unset => Value::Nodes(Vec::new()),
        }
    }
}

/// Returns how many bytes may be kept for a message: enough for thousands of queries on a small message, and little
/// compared with the results of a large one.
fn shared_bytes_max(message: Message<'_>, limits: &Limits) -> usize {
    const SMALL: usize = 16 << 20;
    limits.cache_bytes_max.min(SMALL + message.source.len() / 8)
}

/// Returns `true` if the expression is a variable and nothing else.
fn is_variable(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(path) if path.steps.is_empty()
        && matches!(path.start, crate::query::ast::PathStart::Variable(_)))
}

/// Returns `string()` of a value that is not a node-set.
fn text_of(value: Value<'_>) -> Cow<'_, str> {
    match value {
        Value::Boolean(truth) => Cow::Borrowed(if truth { "true" } else { "false" }),
        Value::Number(value) => number::format(value),
        Value::String(text) => text,
        Value::Nodes(_) => Cow::Borrowed(""),
    }
}
