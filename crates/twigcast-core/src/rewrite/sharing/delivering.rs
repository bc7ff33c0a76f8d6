//! Delivering a program by what it has in common with others; see `shared.rs` for what is kept.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::document::NO_NODE;
use crate::eval::{Context, EvalError, NodeRef};
use crate::query::ast::Expr;
use crate::util::number;

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::Program;
use super::super::program::family::{ConstantId, Family, FamilyRef, NONE, SharedPath};
use super::super::program::template::{Skeleton, TemplatePiece};
use super::shared::{
    EMPTY, ENTRY_BYTES, GroupState, NodeListId, NodeSetId, Ready, SharedBindings, SharedColumnId, SharedPayload,
    SharedRange, SharedState, SharedTableId, key,
};

/// References to what only one program uses, at most: its own, the interner's, and its group's.
const SOLE_USER_MAX: usize = 3;

pub(in crate::rewrite) fn is_shared<T>(object: &Arc<T>) -> bool {
    Arc::strong_count(object) > SOLE_USER_MAX
}

/// The state of a group that cannot be evaluated.
fn failed(error: ExtractError) -> GroupState {
    match error {
        ExtractError::Evaluation(EvalError::BudgetExceeded { .. }) => GroupState::Expensive,
        error => GroupState::Failed(error),
    }
}

/// `?` for what is `None` when there is no room.
macro_rules! or_full {
    ($kept:expr) => {
        match $kept {
            Some(kept) => kept,
            None => return Ok(None),
        }
    };
}

impl<'a> Interpreter<'a> {
    /// The payload of a query: its number, or `None` if no binding passes or the query rewrites nothing. Where the answer
    /// is known already, the program is not asked for.
    ///
    /// # Errors
    /// There are bindings, but no payload.
    #[inline]
    pub(crate) fn deliver_member(
        &mut self,
        member: FamilyRef,
        program: impl FnOnce() -> Option<&'a Program>,
    ) -> SharedPayload {
        if self.shares
            && let Some(answer) = self.deliver_brief(member)
        {
            return answer;
        }
        program().map_or(Ok(None), |program| self.deliver(program))
    }

    /// The payload of a query that has all it is made of in common with others; `None`: it has not.
    #[inline]
    fn deliver_brief(&mut self, member: FamilyRef) -> Option<SharedPayload> {
        let brief = self.interner.brief(member.group)?;
        let position = match self.shared.look_up(brief, member.constant)? {
            SharedState::Nothing => return Some(Ok(None)),
            SharedState::Payload(outcome) => return Some(self.shared.outcome(outcome).map(Some)),
            SharedState::Parts(range) => range,
        };
        let skeleton = self.interner.skeleton(brief.skeleton)?;
        self.markup.output.begin();
        let payload = self.write_template(skeleton, &position.1, position.2).map(|()| self.markup.output.finish());
        if self.shared.reserve(ENTRY_BYTES) {
            let outcome = self.shared.outcome_of(&payload);
            self.shared.brief_payloads.insert(position, outcome);
        }
        Some(payload.map(Some))
    }

    /// The payload of a program: its number, or `None` if no binding passes.
    ///
    /// # Errors
    /// There are bindings, but no payload.
    pub fn deliver(&mut self, program: &'a Program) -> SharedPayload {
        if let Some(family) = program.family.as_ref().filter(|_| self.shares)
            && let Some(answer) = self.deliver_family(program, family)?
        {
            return Ok(answer);
        }
        self.deliver_alone(program)
    }

    /// The payload of a program by what it has in common with others; outer `None`: there is no room to.
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
                // Now its parts are known, if they are to be had.
                if let Some(answer) = self.deliver_brief(FamilyRef { group: family.id, constant: constant.id }) {
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
        let written = match &family.group.template {
            Some(template) if ready.columns != NONE => {
                let first = ready.columns as usize;
                let columns = self.shared.group_columns[first..first + template.columns.len()].to_vec();
                self.write_template(&template.skeleton.object, &columns, set)
            }
            _ => {
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

    /// The payload of a program whose group is too expensive to evaluate for all at once.
    fn deliver_one_of(&mut self, program: &'a Program, family: &'a Family) -> SharedPayload {
        let delivered = self.deliver_alone(program);
        self.note_failure(family, delivered.as_ref().err().cloned());
        delivered
    }

    /// Takes note of how it went with one query of a group that is too expensive for all at once: if even one is, so are
    /// the others.
    fn note_failure(&mut self, family: &'a Family, failure: Option<ExtractError>) {
        if let Some(error @ ExtractError::Evaluation(EvalError::BudgetExceeded { .. })) = failure {
            self.shared.groups.insert(family.id, GroupState::Failed(error));
        }
    }

    /// Does a binding of a program pass? By what it has in common with others, where that can be.
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
                    self.note_failure(family, matches.as_ref().err().cloned().map(ExtractError::Evaluation));
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

    /// Evaluates what the families of a group have in common; `None`: there is no room to keep it.
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
        let mut others = NONE;
        for condition in &group.conditions {
            let passing = or_full!(self.passing(list, condition, Some(others).filter(|&others| others != NONE))?);
            others = if others == NONE { passing } else { or_full!(self.shared.both(others, passing)) };
        }
        if others == NONE && group.compared.is_empty() {
            let count = self.shared.lists[list as usize].len() as u32;
            others = or_full!(self.shared.set_id((0..count).collect()));
        }
        if !self.shared.reserve(2 * ENTRY_BYTES) {
            return Ok(None);
        }
        let columns = self.columns_of(list, family);
        let outcome_of = match &group.template {
            Some(template) if columns != NONE => {
                [&[list, template.skeleton.id], &self.shared.group_columns[columns as usize..]].concat()
            }
            _ => {
                let shape = Arc::as_ptr(&group.shape).addr();
                vec![list, NONE, (shape >> 32) as u32, shape as u32]
            }
        };
        let payloads = self.shared.payload_table(outcome_of);
        Ok(Some(GroupState::Ready(Ready { list, other_conditions: others, payloads, columns })))
    }

    /// Finds the columns of a group; where they begin among those of all groups.
    fn columns_of(&mut self, list: NodeListId, family: &'a Family) -> u32 {
        let Some(template) = family.group.template.as_ref().filter(|template| family.shares_columns(template)) else {
            return NONE;
        };
        let start = self.shared.group_columns.len();
        for path in &template.columns {
            let position = key(list, path.id);
            let column = match self.shared.columns.get(&position) {
                Some(&existing) => existing,
                None => {
                    // What is too expensive for all bindings may do for those that pass; if not, they will tell.
                    let outcome = self.column(list, path).unwrap_or_default();
                    self.shared.columns.insert(position, outcome);
                    outcome
                }
            };
            let Some(column) = column else {
                self.shared.group_columns.truncate(start);
                return NONE;
            };
            self.shared.group_columns.push(column);
        }
        start as u32
    }

    /// The column of a path; `None` if it holds other than tree nodes or is too large.
    fn column(&mut self, list: NodeListId, path: &'a SharedPath) -> Result<Option<SharedColumnId>, ExtractError> {
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let mut ids = vec![list];
        for &node in nodes.iter() {
            let nodes_found = self.evaluator.nodes(&path.path, Context::at(node))?;
            ids.push(nodes_found.len() as u32);
            for node in nodes_found {
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
        while let Some((&count, nodes_found)) = rest.split_first() {
            let (entry, others) = nodes_found.split_at(count as usize);
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
        let column = self.shared.column_starts.len() as SharedColumnId - 1;
        self.shared.column_ids.insert(ids, column);
        Ok(Some(column))
    }

    /// Keeps the bytes of nodes. Nothing else may be under construction.
    fn column_entry(&mut self, nodes: &[u32]) -> Option<SharedRange> {
        self.markup.output.begin();
        let start = self.markup.output.position();
        // What is too large here is too large where it is asked for, which then says so.
        nodes.iter().try_for_each(|&node| self.markup.copy(&self.evaluator, NodeRef::Node(node))).ok()?;
        let position = self.markup.output.since(start).and_then(|bytes| self.shared.keep(bytes));
        self.markup.output.begin();
        position
    }

    /// Appends the copy of an element to `kept`. Nothing else may be under construction.
    pub(in crate::rewrite) fn keep_copy(&mut self, element: u32, kept: &mut Vec<u8>) -> Result<(), ExtractError> {
        self.markup.output.begin();
        let start = self.markup.output.position();
        let copied = self.markup.copy(&self.evaluator, NodeRef::Node(element));
        let bytes = self.markup.output.since(start).map(|bytes| kept.extend_from_slice(bytes));
        self.markup.output.begin();
        // What has gone to the sink already is too large to be kept.
        copied.and(bytes.ok_or(ExtractError::TooLarge { bytes_max: kept.len() }))
    }

    /// Writes the result that is made of columns.
    fn write_template(
        &mut self,
        skeleton: &Skeleton,
        columns: &[SharedColumnId],
        set: NodeSetId,
    ) -> Result<(), ExtractError> {
        let shared = &self.shared;
        let chosen = &shared.sets[set as usize];
        let has_content = skeleton.has_content();
        let entry = |column: usize, index: u32| {
            let (start, end) = shared.entries[shared.column_starts[columns[column] as usize] + index as usize];
            &shared.bytes[start..end]
        };
        self.markup.output.push(&skeleton.prefix)?;
        for &index in chosen.iter() {
            let filled = |piece: &TemplatePiece| matches!(piece, TemplatePiece::Column(column) if !entry(*column, index).is_empty());
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

    /// The nodes of a binding path.
    fn list(&mut self, source: &'a SharedPath) -> Result<Option<NodeListId>, ExtractError> {
        let existing = self.shared.sources[source.id as usize];
        if existing != NONE {
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
                let list = shared.lists.len() as NodeListId - 1;
                shared.list_ids.insert(nodes, list);
                list
            }
        };
        shared.sources[source.id as usize] = list;
        Ok(Some(list))
    }

    /// The bindings from which a path leads to each of the constants.
    fn table(&mut self, list: NodeListId, path: &'a SharedPath) -> Result<Option<SharedTableId>, ExtractError> {
        let position = key(list, path.id);
        if let Some(&existing) = self.shared.tables.get(&position) {
            return Ok(Some(existing));
        }
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let has_numbers = self.interner.has_numbers();
        let mut indices: FxHashMap<ConstantId, Vec<u32>> = FxHashMap::default();
        let mut last = (NodeRef::Node(NO_NODE), [None; 2]);
        for (index, &node) in nodes.iter().enumerate() {
            for nodes_found in self.evaluator.nodes(&path.path, Context::at(node))? {
                // Siblings have the same parent, whose value may be long.
                if last.0 != nodes_found {
                    let value = self.evaluator.string_value(nodes_found)?;
                    let number = if has_numbers { self.interner.number(number::parse(&value)) } else { None };
                    last = (nodes_found, [self.interner.text(&value), number]);
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
        let table = self.shared.table_count;
        self.shared.table_count += 1;
        for (constant, bindings) in indices {
            let set = or_full!(self.shared.set_id(bindings));
            self.shared.by_constant.insert(key(table, constant), set);
        }
        self.shared.tables.insert(position, table);
        Ok(Some(table))
    }

    /// The bindings that satisfy a condition; where no other query has the condition, of those in `left`.
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
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let keeps = is_shared(condition);
        let left = left.filter(|_| !keeps).map(|left| Rc::clone(&self.shared.sets[left as usize]));
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
}

/// The indices in `left`, or all of `count`.
fn indices(count: usize, left: Option<&[u32]>) -> impl Iterator<Item = usize> + '_ {
    let chosen = left.map_or(count, <[u32]>::len);
    (0..chosen).map(move |at| left.map_or(at, |left| left[at] as usize))
}
