//! The interpreter: runs programs on one message.
//!
//! [`Interpreter::op`] writes the items of an instruction, [`Interpreter::values`] writes them as the value of an
//! attribute, and [`Interpreter::any_passes_in`] only decides whether a binding passes; all three loop over bindings
//! with [`Interpreter::bindings`]. The markup under construction is in [`node_copy`], the order of bindings in
//! [`order`]. What several programs share is in [`super::sharing`].

mod grouping;
mod node_copy;
mod nodes_by_value;
mod order;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::RandomState;
use rustc_hash::FxHashMap;

use crate::document::Message;
use crate::eval::{Context, EvalError, Evaluator, NodeRef, Value};
use crate::limits::Limits;
use crate::query::ast::{Expr, VariableId};
use crate::query::typing::is_name;
use crate::util::number;
use crate::vocabulary::Vocabulary;

use self::node_copy::MarkupWriter;
use self::nodes_by_value::NodesByValue;
use self::order::{OrderValue, compare_keys};
use super::ExtractError;
use super::output::Payloads;
use super::program::Program;
use super::program::family::Interner;
use super::program::instructions::{
    AttributeInstruction, AttributeName, BoundExpr, ClauseInstruction, ClauseJoin, ComputedElementInstruction,
    ContentPart, ElementInstruction, FlwrLoop, Instruction, SortKey, is_path,
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
    /// The nodes of clauses by values, of the program that runs; nothing for those that take too much memory.
    joins: FxHashMap<*const ClauseInstruction, Option<Rc<NodesByValue>>>,
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

/// Bytes of a text that copying it counts a visit for.
const COPIED_BYTES_PER_VISIT: u64 = 16;

/// Visits that making an evaluator counts as.
const EVALUATOR_VISITS: u64 = 32;

/// A callback for each binding that passes. `false` ends the loop.
type BindingVisitor<'a, 'b> = &'b mut dyn FnMut(&mut Interpreter<'a>) -> Result<bool, ExtractError>;

/// A callback for each value of items.
type ValueVisitor<'a, 'b> = &'b mut dyn FnMut(&mut Interpreter<'a>, &str) -> Result<(), ExtractError>;

/// A binding to be sorted.
struct BindingTuple<'a> {
    keys: Vec<OrderValue>,
    slots: Vec<VariableValue<'a>>,
}

/// Bytes of values and lists that one join may take.
const JOINED_BYTES_MAX: usize = 16 << 20;

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
        let visits_max = limits.query_visits(message.visits_of_size());
        Self {
            message,
            evaluator: Evaluator::new(message, vocabulary, &[]).with_budget(visits_max),
            vocabulary,
            interner,
            is_sharing: true,
            bindings: None,
            joins: FxHashMap::default(),
            shared: SharedState::new(shared_bytes_max(message, limits), interner.path_bound()),
            visits_max,
            other_visits: 0,
            slots: Vec::new(),
            markup: MarkupWriter::new(message, payloads, limits),
            depth: 0,
            has_passed: false,
        }
    }

    /// Allows each program from now on at most so many visits.
    pub fn allow(&mut self, visits_max: u64) {
        self.visits_max = visits_max;
        self.evaluator.limit(visits_max);
    }

    /// Returns the visits for the last program.
    pub fn visits(&self) -> u64 {
        self.evaluator.visits() + self.other_visits
    }

    /// Returns the visits since the last call.
    pub fn take_visits(&mut self) -> u64 {
        let visits = self.visits();
        self.evaluator.reset_visits();
        self.other_visits = 0;
        visits
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
        self.joins.clear();
        self.depth = 0;
        self.has_passed = false;
    }

    /// Returns the number of a program's payload, or `None` if no binding passes, without sharing.
    pub(crate) fn deliver_alone(&mut self, program: &'a Program) -> Result<Option<u32>, ExtractError> {
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
            Instruction::Element(element) => self.any_of(enclosed(element.head.iter().chain(&element.content))),
            Instruction::ComputedElement(element) => self.any_of(enclosed(element.content.iter())),
            Instruction::Attribute(attribute) => self.any_of(attribute.value.iter()),
            Instruction::Text(op) => self.any_passes_in(op),
            Instruction::Loop(each) => {
                let mut any = false;
                self.visit_passing(each, &mut |_| {
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
            Instruction::ComputedElement(element) => self.computed_element(element),
            Instruction::Attribute(attribute) => self.computed_attribute(attribute),
            Instruction::Text(op) => match self.text_of_items(op)? {
                Some(text) => self.markup.push_text_node(&text),
                // Of nothing no node is made, not even an empty one, which would stand between values.
                None => Ok(()),
            },
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
                ContentPart::Enclosed(op) => {
                    let mut is_first = true;
                    self.values(op, &mut |run, text| run.attribute_value(text, &mut is_first))?;
                }
            }
        }
        let scope = self.markup.open_content(&element.declarations, &element.attributes);
        self.content(&element.content)?;
        self.markup.close_content(&element.close, scope)
    }

    fn content(&mut self, content: &'a [ContentPart]) -> Result<(), ExtractError> {
        for part in content {
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
        Ok(())
    }

    fn computed_element(&mut self, element: &'a ComputedElementInstruction) -> Result<(), ExtractError> {
        let name = self.computed_name(&element.name)?;
        self.markup.begin_content()?;
        self.markup.output.push(b"<")?;
        self.markup.output.push(name.as_bytes())?;
        for (_, uri) in &element.declarations {
            self.markup.output.push(b" xmlns=\"")?;
            self.markup.output.push_attribute_text(uri)?;
            self.markup.output.push(b"\"")?;
        }
        let scope = self.markup.open_content(&element.declarations, &[]);
        self.content(&element.content)?;
        self.markup.close_content(format!("</{name}>").as_bytes(), scope)
    }

    fn computed_attribute(&mut self, attribute: &'a AttributeInstruction) -> Result<(), ExtractError> {
        let name = match &attribute.name {
            AttributeName::Fixed(name) => Cow::Borrowed(&**name),
            AttributeName::Computed(name) => Cow::Owned(self.computed_name(name)?),
        };
        let value = match &attribute.value {
            Some(value) => self.text_of_items(value)?.unwrap_or_default(),
            None => String::new(),
        };
        self.markup.construct_attribute(name, &attribute.namespace, &value)
    }

    /// Returns the value of an expression as a name without a prefix.
    fn computed_name(&mut self, bound: &'a BoundExpr) -> Result<String, ExtractError> {
        let text = match self.value(bound)? {
            Value::Nodes(nodes) => match nodes.first() {
                Some(&node) => self.evaluator.string_value(node)?.into_owned(),
                None => String::new(),
            },
            value => text_of(value).into_owned(),
        };
        let name = text.trim_matches(number::SPACES);
        if is_name(name) && name != "xmlns" { Ok(name.to_owned()) } else { Err(ExtractError::NoName { value: text }) }
    }

    /// Returns the values of items, separated by spaces; `None` if there are none.
    fn text_of_items(&mut self, op: &'a Instruction) -> Result<Option<String>, ExtractError> {
        let mut text: Option<String> = None;
        self.values(op, &mut |_, value| {
            match &mut text {
                Some(text) => {
                    text.push(' ');
                    text.push_str(value);
                }
                None => text = Some(value.to_owned()),
            }
            Ok(())
        })?;
        Ok(text)
    }

    /// Calls back with the value of each item.
    fn values(&mut self, op: &'a Instruction, each_value: ValueVisitor<'a, '_>) -> Result<(), ExtractError> {
        match op {
            Instruction::Sequence(ops) => ops.iter().try_for_each(|op| self.values(op, each_value)),
            Instruction::Loop(each) => {
                self.repeat(each, &mut |run| run.values(&each.result, each_value).map(|()| true))
            }
            Instruction::If { condition, then, otherwise } => {
                let chosen = if self.boolean(condition)? { then } else { otherwise };
                self.values(chosen, each_value)
            }
            Instruction::Value(bound) => match self.value(bound)? {
                Value::Nodes(nodes) => nodes.into_iter().try_for_each(|node| {
                    let text = self.evaluator.string_value(node)?;
                    each_value(self, &text)
                }),
                value => each_value(self, &text_of(value)),
            },
            // The parser accepts no constructors in an attribute.
            Instruction::Element(_)
            | Instruction::ComputedElement(_)
            | Instruction::Attribute(_)
            | Instruction::Text(_)
            | Instruction::Markup(_)
            | Instruction::Bindings { .. } => Ok(()),
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
            self.visit_passing(each, &mut |run| {
                run.has_passed |= outermost;
                body(run)
            })?;
        } else {
            let mut tuples = Vec::new();
            self.visit_passing(each, &mut |run| {
                tuples.push(run.tuple(each)?);
                Ok(true)
            })?;
            self.has_passed |= outermost && !tuples.is_empty();
            tuples.sort_by(|a, b| compare_keys(&each.order, &a.keys, &b.keys));
            for tuple in tuples {
                for (variable, slot) in each.variables.iter().zip(tuple.slots) {
                    self.slots[variable.index()] = slot;
                }
                if !body(self)? {
                    break;
                }
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// Calls back for each binding that passes, or for each group of them.
    fn visit_passing(&mut self, each: &'a FlwrLoop, body: BindingVisitor<'a, '_>) -> Result<(), ExtractError> {
        match &each.grouping {
            Some(grouping) => self.grouped(each, grouping, body),
            None => self.bindings(each, body),
        }
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
            let joined = self.joined_nodes(clause)?;
            // The condition by which nodes are looked up holds for them.
            let settled = clause.join.as_ref().filter(|_| joined.is_some()).map(|join| join.condition);
            let value = match joined {
                Some(nodes) => Value::Nodes(nodes),
                None => self.value(&clause.value)?,
            };
            match value {
                Value::Nodes(nodes) if clause.is_for => {
                    for (number, node) in (1_u32..).zip(nodes) {
                        self.slots[variable] = VariableValue::Node(node);
                        if let Some(position) = clause.position {
                            self.slots[position.index()] = VariableValue::Value(Value::Number(f64::from(number)));
                        }
                        let open = (0..).zip(&clause.conditions).filter(|&(index, _)| Some(index) != settled);
                        if self.all_hold(open.map(|(_, condition)| &condition.bound))?
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
        let slots = each.variables.iter().map(|variable| self.slots[variable.index()].clone()).collect();
        Ok(BindingTuple { keys, slots })
    }

    fn key(&mut self, key: &'a SortKey) -> Result<OrderValue, ExtractError> {
        Ok(match self.value(&key.value)? {
            Value::Boolean(truth) => OrderValue::Boolean(truth),
            Value::Number(number) => OrderValue::Number(number),
            Value::String(text) => OrderValue::Text(text.into_owned()),
            Value::Temporal(temporal) => OrderValue::Temporal(temporal.number()),
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
                (&[variable], true) => {
                    let value = self.slot_value(variable);
                    self.evaluator.charge(match &value {
                        Value::String(text) => text.len() as u64 / COPIED_BYTES_PER_VISIT,
                        Value::Nodes(nodes) => nodes.len() as u64,
                        Value::Boolean(_) | Value::Number(_) | Value::Temporal(_) => 0,
                    })?;
                    value
                }
                _ => self.with_variables(variables, |evaluator| match evaluator.value(expr, Context::DOCUMENT)? {
                    Value::String(text) => Ok(Value::String(Cow::Owned(text.into_owned()))),
                    Value::Nodes(nodes) => Ok(Value::Nodes(nodes)),
                    Value::Number(number) => Ok(Value::Number(number)),
                    Value::Boolean(truth) => Ok(Value::Boolean(truth)),
                    Value::Temporal(temporal) => Ok(Value::Temporal(temporal)),
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
            values[variable.index()] = match &self.slots[variable.index()] {
                // A text may be long; a list of nodes is gone through in any case.
                VariableValue::Value(Value::String(text)) => Value::String(Cow::Borrowed(text)),
                _ => self.slot_value(variable),
            };
        }
        let left = self.visits_max.saturating_sub(self.evaluator.visits() + self.other_visits);
        if left == 0 {
            return Err(EvalError::BudgetExceeded { visits_max: self.visits_max }.into());
        }
        let evaluator = Evaluator::new(self.message, self.vocabulary, &values).with_budget(left);
        let evaluator = evaluator.sharing_values(&self.evaluator);
        let result = evaluate(&evaluator);
        self.other_visits += evaluator.visits() + EVALUATOR_VISITS;
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

    /// Returns the nodes of a clause that its join leaves for what is bound, in document order; nothing if it has none, or the
    /// values take too much memory.
    fn joined_nodes(&mut self, clause: &'a ClauseInstruction) -> Result<Option<Vec<NodeRef>>, ExtractError> {
        let Some(join) = &clause.join else { return Ok(None) };
        let key = std::ptr::from_ref(clause);
        let listed = match self.joins.get(&key) {
            Some(listed) => listed.clone(),
            None => {
                let listed = self.nodes_by_value(clause, join)?.map(Rc::new);
                self.joins.insert(key, listed.clone());
                listed
            }
        };
        let Some(listed) = listed else { return Ok(None) };
        let mut found: Vec<u32> = Vec::new();
        let Value::Nodes(others) = self.value(&join.other)? else { return Err(EvalError::NotANodeSet.into()) };
        for node in others {
            let value = self.evaluator.string_value(node)?;
            let equal = listed.by_value.get(&*value).map_or(&[][..], Vec::as_slice);
            self.evaluator.charge(1 + equal.len() as u64)?;
            found.extend_from_slice(equal);
        }
        found.sort_unstable();
        found.dedup();
        Ok(Some(found.into_iter().map(|index| listed.nodes[index as usize]).collect()))
    }

    /// Returns the nodes that a clause ranges over, by the values that its join compares.
    fn nodes_by_value(
        &mut self,
        clause: &'a ClauseInstruction,
        join: &'a ClauseJoin,
    ) -> Result<Option<NodesByValue>, ExtractError> {
        let Value::Nodes(nodes) = self.value(&clause.value)? else { return Ok(None) };
        let mut by_value: HashMap<Box<str>, Vec<u32>, RandomState> = HashMap::default();
        let mut bytes = 0;
        for (index, &node) in (0..).zip(&nodes) {
            let Value::Nodes(own) = self.evaluator.value_at(&join.own, node)? else { return Ok(None) };
            for node in own {
                let value = self.evaluator.string_value(node)?;
                self.evaluator.charge(1)?;
                bytes += size_of::<u32>();
                match by_value.get_mut(&*value) {
                    Some(indices) if indices.last() == Some(&index) => {}
                    Some(indices) => indices.push(index),
                    None => {
                        bytes += value.len() + size_of::<(Box<str>, Vec<u32>)>();
                        by_value.insert(value.into(), vec![index]);
                    }
                }
                if bytes > JOINED_BYTES_MAX {
                    return Ok(None);
                }
            }
        }
        Ok(Some(NodesByValue { nodes, by_value }))
    }
}

/// Returns the instructions among the parts of a tag or of content.
fn enclosed<'a>(parts: impl Iterator<Item = &'a ContentPart>) -> impl Iterator<Item = &'a Instruction> {
    parts.filter_map(|part| match part {
        ContentPart::Enclosed(op) => Some(op),
        ContentPart::Constant(_) => None,
    })
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
        Value::Temporal(temporal) => Cow::Owned(temporal.to_string()),
    }
}
