//! Writing what was written before for the same binding, where several programs write it.

use std::rc::Rc;
use std::sync::Arc;

use crate::eval::{Context, NodeRef};
use crate::query::ast::{Expr, VariableId};

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::Instruction;
use super::delivering::is_shared;
use super::shared::{ENTRY_BYTES, NodeListId, SharedBindings, SharedRange};

impl<'a> Interpreter<'a> {
    /// Writes the results of the bindings that were found.
    pub(in crate::rewrite) fn write_bindings(
        &mut self,
        variable: VariableId,
        result: &'a Arc<Instruction>,
    ) -> Result<(), ExtractError> {
        let Some(SharedBindings { list, set, keeps }) = self.bindings.take() else { return Ok(()) };
        let nodes = Rc::clone(&self.shared.lists[list as usize]);
        let chosen = Rc::clone(&self.shared.sets[set as usize]);
        let keeps =
            (keeps || is_shared(result)) && matches!(**result, Instruction::Element(_)) && self.scope.is_empty();
        if keeps && self.has_table(result, list, nodes.len()) {
            return self.write_kept(variable, result, list, &nodes, &chosen);
        }
        chosen.iter().try_for_each(|&index| {
            self.bind(variable, nodes[index as usize]);
            self.op(result)
        })
    }

    /// Is there a table of kept results, or room for one?
    fn has_table(&mut self, result: &Arc<Instruction>, list: NodeListId, count: usize) -> bool {
        self.shared.rendered.contains_key(&(Arc::as_ptr(result), list))
            || self.shared.reserve(ENTRY_BYTES + count * size_of::<Option<SharedRange>>())
    }

    /// Writes the results for bindings, from what is kept as far as it is. The results are elements.
    fn write_kept(
        &mut self,
        variable: VariableId,
        result: &'a Arc<Instruction>,
        list: NodeListId,
        nodes: &[NodeRef],
        chosen: &[u32],
    ) -> Result<(), ExtractError> {
        self.begin_content()?;
        let key = (Arc::as_ptr(result), list);
        let mut ranges = self.shared.rendered.remove(&key).unwrap_or_else(|| vec![None; nodes.len()]);
        let written = chosen.iter().try_for_each(|&index| {
            let position = &mut ranges[index as usize];
            if let Some((start, end)) = *position {
                return self.output.push(&self.shared.bytes[start..end]);
            }
            self.bind(variable, nodes[index as usize]);
            let start = self.output.position();
            self.op(result)?;
            *position = self.output.since(start).and_then(|bytes| self.shared.keep(bytes));
            Ok(())
        });
        self.after_value = false;
        self.shared.rendered.insert(key, ranges);
        written
    }

    /// Writes the nodes that a path leads to from a binding's node.
    pub(in crate::rewrite) fn write_path(
        &mut self,
        variable: VariableId,
        path: &'a Arc<Expr>,
    ) -> Result<(), ExtractError> {
        let node = self.node_of(variable);
        let key = (Arc::as_ptr(path), node);
        let keeps = self.shares && is_shared(path) && self.scope.is_empty();
        if keeps && let Some(&(start, end)) = self.shared.path_bytes.get(&key) {
            if start == end {
                return Ok(());
            }
            self.begin_content()?;
            self.after_value = false;
            return self.output.push_raw_text(&self.shared.bytes[start..end]);
        }
        let nodes = self.evaluator.nodes(path, Context::at(node))?;
        let keeps = keeps && nodes.iter().all(|node| matches!(node, NodeRef::Node(_)));
        if !nodes.is_empty() {
            if keeps {
                self.begin_content()?;
            }
            self.after_value = false;
        }
        let start = self.output.position();
        nodes.iter().try_for_each(|&node| self.copy(node))?;
        if keeps && self.shared.reserve(ENTRY_BYTES) {
            let position = self.output.since(start).and_then(|bytes| self.shared.keep(bytes));
            if let Some(position) = position {
                self.shared.path_bytes.insert(key, position);
            }
        }
        Ok(())
    }
}
