//! Delivers programs by parts that they share with others, which [`super::shared`] keeps.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::NO_NODE;
use crate::eval::{Context, EvalError, NodeRef};
use crate::ids::{ConstantId, ConstantTableId, NodeListId, NodeSetId, SharedColumnId};
use crate::query::ast::{Expr, VariableId};
use crate::util::number;

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::Program;
use super::super::program::family::{Family, FamilyRef, SharedPath};
use super::super::program::instructions::Instruction;
use super::super::program::template::{Skeleton, TemplatePiece};
use super::shared::{
    EMPTY, ENTRY_BYTES, GroupState, KeptPayload, PayloadKey, ReadyGroup, SharedBindings, SharedPayload, SharedRange,
    key,
};

/// References to an object that one program uses, at most: its own, the interner's, and its group's.
const SOLE_USER_MAX: usize = 3;

/// Returns `true` if several programs use an object.
fn is_shared<T>(object: &Arc<T>) -> bool {
    Arc::strong_count(object) > SOLE_USER_MAX
}

/// Returns the state of a group that cannot be evaluated.
fn failed(error: ExtractError) -> GroupState {
    match error {
        ExtractError::Evaluation(EvalError::BudgetExceeded { .. }) => GroupState::Expensive,
        error => GroupState::Failed(error),
    }
}

/// Returns `Ok(None)` if the expression is `None` because the limit is reached.
macro_rules! or_full {
    ($stored:expr) => {
        match $stored {
            Some(stored) => stored,
            None => return Ok(None),
        }
    };
}

impl<'a> Interpreter<'a> {
    /// Returns the number of a query's payload, or `None` if no binding passes or the query rewrites nothing. `program`
    /// is called only if the payload cannot be made without it.
    ///
    /// # Errors
    /// Bindings pass, but the payload cannot be made.
    #[inline]
    pub(crate) fn deliver_member(
        &mut self,
        member: FamilyRef,
        program: impl FnOnce() -> Option<&'a Program>,
    ) -> SharedPayload {
        if self.is_sharing
            && let Some(answer) = self.deliver_summary(member)
        {
            return answer;
        }
        program().map_or(Ok(None), |program| self.deliver(program))
    }

    /// Returns the payload of a query whose parts are all kept, or `None` if they are not.
    #[inline]
    fn deliver_summary(&mut self, member: FamilyRef) -> Option<SharedPayload> {
        let group = self.interner.summary(member.group)?;
        let parts = match self.shared.look_up(group, member.constant)? {
            KeptPayload::None => return Some(Ok(None)),
            KeptPayload::Outcome(outcome) => return Some(self.shared.outcome(outcome).map(Some)),
            KeptPayload::Parts(parts) => parts,
        };
        let skeleton = self.interner.skeleton(group.skeleton)?;
        self.markup.output.begin();
        let payload = self.write_template(skeleton, &parts.1, parts.2).map(|()| self.markup.output.finish());
        if self.shared.reserve(ENTRY_BYTES) {
            let outcome = self.shared.outcome_of(&payload);
            self.shared.summary_payloads.insert(parts, outcome);
        }
        Some(payload.map(Some))
    }

    /// Returns the number of a program's payload, or `None` if no binding passes.
    ///
    /// # Errors
    /// Bindings pass, but the payload cannot be made.
    pub fn deliver(&mut self, program: &'a Program) -> SharedPayload {
        if let Some(family) = program.family.as_ref().filter(|_| self.is_sharing)
            && let Some(answer) = self.deliver_family(program, family)?
        {
            return Ok(answer);
        }
        self.deliver_alone(program)
    }

    /// Returns the payload of a program by what it has in common with others. The outer `None` means that the limit is
    /// reached.
    fn deliver_family(
        &mut self,
        program: &'a Program,
        family: &'a Family,
    ) -> Result<Option<Option<u32>>, ExtractError> {
        if !self.shared.groups.contains_key(&family.id) {
            self.begin(program);
            let state = match self.group_state(family) {
                Ok(state) => or_full!(state),
                Err(error) => failed(error),
            };
            self.shared.groups.insert(family.id, state);
            if let [constant] = &family.constants[..] {
                // All parts may be kept now.
                if let Some(answer) = self.deliver_summary(FamilyRef { group: family.id, constant: constant.id }) {
                    return answer.map(Some);
                }
            }
        }
        let ready = match self.shared.groups.get(&family.id) {
            Some(GroupState::Ready(ready)) => *ready,
            Some(GroupState::Expensive) => return self.deliver_one_of(program, family).map(Some),
            Some(GroupState::Failed(error)) => return Err(error.clone()),
            Some(GroupState::Never) | None => return Ok(Some(None)),
        };
        let set = or_full!(self.shared.bindings_of(ready, family));
        if set == EMPTY {
            return Ok(Some(None));
        }
        if let Some(&outcome) = self.shared.payloads.get(&key(ready.payloads, set)) {
            return self.shared.outcome(outcome).map(|number| Some(Some(number)));
        }
        self.begin(program);
        let written = match family.group.template.as_ref().zip(ready.columns) {
            Some((template, first)) => {
                let columns = self.shared.group_columns[first..first + template.columns.len()].to_vec();
                self.write_template(&template.skeleton.skeleton, &columns, set)
            }
            None => {
                self.bindings = Some(SharedBindings { list: ready.list, set });
                self.op(&family.group.shape)
            }
        };
        let payload = written.map(|()| self.markup.output.finish());
        if self.shared.reserve(ENTRY_BYTES) {
            let outcome = self.shared.outcome_of(&payload);
            self.shared.payloads.insert(key(ready.payloads, set), outcome);
        }
        payload.map(|number| Some(Some(number)))
    }

    /// Returns the payload of a program whose group is too expensive to evaluate for all constants at once.
    fn deliver_one_of(&mut self, program: &'a Program, family: &'a Family) -> SharedPayload {
        let delivered = self.deliver_alone(program);
        self.add_failure(family, delivered.as_ref().err().cloned());
        delivered
    }

    /// Records the failure of one query of a group that is too expensive to evaluate for all constants at once. If one
    /// query is too expensive by itself, so are the others.
    fn add_failure(&mut self, family: &'a Family, failure: Option<ExtractError>) {
        if let Some(error @ ExtractError::Evaluation(EvalError::BudgetExceeded { .. })) = failure {
            self.shared.groups.insert(family.id, GroupState::Failed(error));
        }
    }

    /// Returns `true` if a binding of a program passes, by what the program has in common with others where possible.
    ///
    /// # Errors
    /// The query is too expensive on this message.
    pub(crate) fn matches_member(&mut self, program: &'a Program) -> Result<bool, EvalError> {
        if let Some(family) = &program.family {
            self.begin(program);
            if !self.shared.groups.contains_key(&family.id) {
                let state = match self.group_state(family) {
                    Ok(Some(state)) => state,
                    Ok(None) => return self.matches(program),
                    Err(error) => failed(error),
                };
                self.shared.groups.insert(family.id, state);
            }
            match self.shared.groups.get(&family.id) {
                Some(GroupState::Expensive) => {
                    let matches = self.matches(program);
                    self.add_failure(family, matches.as_ref().err().cloned().map(ExtractError::Evaluation));
                    return matches;
                }
                Some(GroupState::Ready(ready)) => {
                    if let Some(set) = self.shared.bindings_of(*ready, family) {
                        return Ok(set != EMPTY);
                    }
                }
                Some(GroupState::Failed(ExtractError::Evaluation(error))) => return Err(error.clone()),
                Some(GroupState::Never) => return Ok(false),
                Some(GroupState::Failed(_)) | None => {}
            }
        }
        self.matches(program)
    }

    /// Evaluates what the families of a group have in common. Returns `None` if the limit is reached.
    fn group_state(&mut self, family: &'a Family) -> Result<Option<GroupState>, ExtractError> {
        let group = &*family.group;
        for guard in &group.guards {
            if !self.evaluator.boolean(guard, Context::DOCUMENT)? {
                return Ok(Some(GroupState::Never));
            }
        }
        let list = or_full!(self.list(&group.source)?);
        for path in &group.compared {
            or_full!(self.table(list, path)?);
        }
        let mut others = None;
        for condition in &group.conditions {
            let passing = or_full!(self.passing(list, condition, others)?);
            others = match others {
                None => Some(passing),
                Some(others) => Some(or_full!(self.shared.intersection(others, passing))),
            };
        }
        if others.is_none() && group.compared.is_empty() {
            let count = self.shared.lists[list.index()].len() as u32;
            others = Some(or_full!(self.shared.set_id((0..count).collect())));
        }
        if !self.shared.reserve(2 * ENTRY_BYTES) {
            return Ok(None);
        }
        let columns = self.columns_of(list, family);
        let payload_key = match group.template.as_ref().zip(columns) {
            Some((template, first)) => {
                PayloadKey::Template(list, template.skeleton.id, self.shared.group_columns[first..].to_vec())
            }
            None => PayloadKey::Shape(list, Arc::as_ptr(&group.shape).addr()),
        };
        let payloads = self.shared.payload_table(payload_key);
        let other_conditions = others.unwrap_or(NodeSetId::ABSENT);
        Ok(Some(GroupState::Ready(ReadyGroup { list, other_conditions, payloads, columns })))
    }

    /// Fills the columns of a group. Returns the position of the first in those of all groups, or `None` if the group
    /// is better delivered without.
    fn columns_of(&mut self, list: NodeListId, family: &'a Family) -> Option<usize> {
        let template = family.group.template.as_ref().filter(|template| family.shares_columns(template))?;
        let start = self.shared.group_columns.len();
        for path in &template.columns {
            let position = key(list, path.id);
            let column = match self.shared.columns.get(&position) {
                Some(&existing) => existing,
                None => {
                    // If it is too expensive for all bindings, it may still do for those that pass.
                    let outcome = self.column(list, path).unwrap_or_default();
                    self.shared.columns.insert(position, outcome);
                    outcome
                }
            };
            let Some(column) = column else {
                self.shared.group_columns.truncate(start);
                return None;
            };
            self.shared.group_columns.push(column);
        }
        Some(start)
    }

    /// Returns the column of a path, or `None` if it holds attributes or namespaces or the limit is reached.
    fn column(&mut self, list: NodeListId, path: &'a SharedPath) -> Result<Option<SharedColumnId>, ExtractError> {
        let nodes = Rc::clone(&self.shared.lists[list.index()]);
        let mut ids = vec![list.as_u32()];
        for &node in nodes.iter() {
            let selected = self.evaluator.nodes(&path.path, Context::at(node))?;
            ids.push(selected.len() as u32);
            for node in selected {
                let NodeRef::Node(id) = node else { return Ok(None) };
                ids.push(id);
            }
        }
        if let Some(&existing) = self.shared.column_ids.get(&ids) {
            return Ok(Some(existing));
        }
        if !self.shared.reserve(2 * ENTRY_BYTES + size_of_val(&ids[..]) + nodes.len() * size_of::<SharedRange>()) {
            return Ok(None);
        }
        let (first, bytes) = (self.shared.entries.len(), self.shared.bytes.len());
        let mut rest = &ids[1..];
        while let Some((&count, remaining)) = rest.split_first() {
            let (entry, others) = remaining.split_at(count as usize);
            rest = others;
            match self.column_entry(entry) {
                Some(position) => self.shared.entries.push(position),
                None => {
                    self.shared.entries.truncate(first);
                    self.shared.bytes.truncate(bytes);
                    return Ok(None);
                }
            }
        }
        self.shared.column_starts.push(first);
        let column = SharedColumnId::new(self.shared.column_starts.len() - 1);
        self.shared.column_ids.insert(ids, column);
        Ok(Some(column))
    }

    /// Keeps the bytes of nodes. No other result may be under construction.
    fn column_entry(&mut self, nodes: &[u32]) -> Option<SharedRange> {
        self.markup.output.begin();
        let start = self.markup.output.position();
        // Nodes that are too large fail again where they are delivered, which then reports it.
        nodes.iter().try_for_each(|&node| self.markup.copy(&self.evaluator, NodeRef::Node(node))).ok()?;
        let position = self.markup.output.since(start).and_then(|bytes| self.shared.keep(bytes));
        self.markup.output.begin();
        position
    }

    /// Appends the copy of an element to `kept`. No other result may be under construction.
    pub(in crate::rewrite) fn keep_copy(&mut self, element: u32, kept: &mut Vec<u8>) -> Result<(), ExtractError> {
        self.markup.output.begin();
        let start = self.markup.output.position();
        let copied = self.markup.copy(&self.evaluator, NodeRef::Node(element));
        let bytes = self.markup.output.since(start).map(|bytes| kept.extend_from_slice(bytes));
        self.markup.output.begin();
        // Bytes that went to the sink are too many to be kept.
        copied.and(bytes.ok_or(ExtractError::TooLarge { bytes_max: kept.len() }))
    }

    /// Writes a result that is made of columns.
    fn write_template(
        &mut self,
        skeleton: &Skeleton,
        columns: &[SharedColumnId],
        set: NodeSetId,
    ) -> Result<(), ExtractError> {
        let shared = &self.shared;
        let chosen = &shared.sets[set.index()];
        let has_content = skeleton.has_content();
        let entry = |column: usize, index: u32| {
            let (start, end) = shared.entries[shared.column_starts[columns[column].index()] + index as usize];
            &shared.bytes[start..end]
        };
        self.markup.output.push(&skeleton.prefix)?;
        for &index in chosen.iter() {
            let filled = |piece: &TemplatePiece| match piece {
                TemplatePiece::Constant(_) => false,
                TemplatePiece::Column(column) => !entry(*column, index).is_empty(),
            };
            if !has_content && !skeleton.pieces.iter().any(filled) {
                self.markup.output.push(&skeleton.empty)?;
                continue;
            }
            self.markup.output.push(&skeleton.open)?;
            for piece in &skeleton.pieces {
                match piece {
                    TemplatePiece::Constant(bytes) => self.markup.output.push(bytes)?,
                    TemplatePiece::Column(column) => self.markup.output.push_raw_text(entry(*column, index))?,
                }
            }
            self.markup.output.push(&skeleton.close)?;
        }
        self.markup.output.push(&skeleton.suffix)
    }

    /// Returns the nodes of a binding path.
    fn list(&mut self, source: &'a SharedPath) -> Result<Option<NodeListId>, ExtractError> {
        let existing = self.shared.sources[source.id.index()];
        if existing != NodeListId::ABSENT {
            return Ok(Some(existing));
        }
        let nodes: Rc<[NodeRef]> = self.evaluator.nodes(&source.path, Context::DOCUMENT)?.into();
        let shared = &mut self.shared;
        let list = match shared.list_ids.get(&nodes) {
            Some(&list) => list,
            None => {
                if !shared.reserve(ENTRY_BYTES + size_of_val(&*nodes)) {
                    return Ok(None);
                }
                shared.lists.push(Rc::clone(&nodes));
                let list = NodeListId::new(shared.lists.len() - 1);
                shared.list_ids.insert(nodes, list);
                list
            }
        };
        shared.sources[source.id.index()] = list;
        Ok(Some(list))
    }

    /// Returns the table of the bindings from which a path selects each constant.
    fn table(&mut self, list: NodeListId, path: &'a SharedPath) -> Result<Option<ConstantTableId>, ExtractError> {
        let position = key(list, path.id);
        if let Some(&existing) = self.shared.tables.get(&position) {
            return Ok(Some(existing));
        }
        let nodes = Rc::clone(&self.shared.lists[list.index()]);
        let has_numbers = self.interner.has_numbers();
        let mut indices: FxHashMap<ConstantId, Vec<u32>> = FxHashMap::default();
        let mut last = (NodeRef::Node(NO_NODE), [None; 2]);
        for (index, &node) in nodes.iter().enumerate() {
            for selected in self.evaluator.nodes(&path.path, Context::at(node))? {
                // Siblings select the same parent, whose value may be long.
                if last.0 != selected {
                    let value = self.evaluator.string_value(selected)?;
                    let number = if has_numbers { self.interner.number(number::parse(&value)) } else { None };
                    last = (selected, [self.interner.text(&value), number]);
                }
                for constant in last.1.into_iter().flatten() {
                    let bindings = indices.entry(constant).or_default();
                    if bindings.last() != Some(&(index as u32)) {
                        bindings.push(index as u32);
                    }
                }
            }
        }
        if !self.shared.reserve(ENTRY_BYTES * (1 + indices.len())) {
            return Ok(None);
        }
        let table = ConstantTableId::new(self.shared.table_count);
        self.shared.table_count += 1;
        for (constant, bindings) in indices {
            let set = or_full!(self.shared.set_id(bindings));
            self.shared.by_constant.insert(key(table, constant), set);
        }
        self.shared.tables.insert(position, table);
        Ok(Some(table))
    }

    /// Returns the bindings that satisfy a condition, or only those of `left` if no other query has the condition.
    fn passing(
        &mut self,
        list: NodeListId,
        condition: &'a Arc<Expr>,
        left: Option<NodeSetId>,
    ) -> Result<Option<NodeSetId>, ExtractError> {
        let key = (list, Arc::as_ptr(condition));
        if let Some(&existing) = self.shared.passing.get(&key) {
            return Ok(Some(existing));
        }
        let nodes = Rc::clone(&self.shared.lists[list.index()]);
        let keeps = is_shared(condition);
        let left = left.filter(|_| !keeps).map(|left| Rc::clone(&self.shared.sets[left.index()]));
        let mut passing = Vec::new();
        for index in indices(nodes.len(), left.as_deref()) {
            if self.evaluator.condition(condition, nodes[index])? {
                passing.push(index as u32);
            }
        }
        let passing = or_full!(self.shared.set_id(passing));
        if keeps && self.shared.reserve(ENTRY_BYTES) {
            self.shared.passing.insert(key, passing);
        }
        Ok(Some(passing))
    }

    /// Writes the result of each binding that [`Interpreter::deliver`] has chosen.
    pub(in crate::rewrite) fn write_bindings(
        &mut self,
        variable: VariableId,
        result: &'a Arc<Instruction>,
    ) -> Result<(), ExtractError> {
        let Some(SharedBindings { list, set }) = self.bindings.take() else { return Ok(()) };
        let nodes = Rc::clone(&self.shared.lists[list.index()]);
        let chosen = Rc::clone(&self.shared.sets[set.index()]);
        chosen.iter().try_for_each(|&index| {
            self.bind(variable, nodes[index as usize]);
            self.op(result)
        })
    }

    /// Writes the nodes that a path selects from a binding.
    pub(in crate::rewrite) fn write_path(
        &mut self,
        variable: VariableId,
        path: &'a Arc<Expr>,
    ) -> Result<(), ExtractError> {
        let node = self.node_of(variable);
        let key = (Arc::as_ptr(path), node);
        let keeps = self.is_sharing && is_shared(path) && self.markup.has_no_declarations();
        if keeps && let Some(&(start, end)) = self.shared.path_bytes.get(&key) {
            if start == end {
                return Ok(());
            }
            self.markup.begin_content()?;
            return self.markup.output.push_raw_text(&self.shared.bytes[start..end]);
        }
        let nodes = self.evaluator.nodes(path, Context::at(node))?;
        let keeps = keeps && nodes.iter().all(|node| matches!(node, NodeRef::Node(_)));
        if keeps && !nodes.is_empty() {
            self.markup.begin_content()?;
        }
        let start = self.markup.output.position();
        nodes.iter().try_for_each(|&node| self.markup.copy(&self.evaluator, node))?;
        if keeps && self.shared.reserve(ENTRY_BYTES) {
            let position = self.markup.output.since(start).and_then(|bytes| self.shared.keep(bytes));
            if let Some(position) = position {
                self.shared.path_bytes.insert(key, position);
            }
        }
        Ok(())
    }
}

/// Iterates over the indexes in `left`, or all below `count`.
fn indices(count: usize, left: Option<&[u32]>) -> impl Iterator<Item = usize> + '_ {
    let chosen = left.map_or(count, <[u32]>::len);
    (0..chosen).map(move |at| left.map_or(at, |left| left[at] as usize))
}
