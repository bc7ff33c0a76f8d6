//! Writing the results of shared bindings, and of paths that several programs return.

use std::rc::Rc;
use std::sync::Arc;

use crate::eval::{Context, NodeRef};
use crate::query::ast::{Expr, VariableId};

use super::super::ExtractError;
use super::super::interpreter::Interpreter;
use super::super::program::instructions::Instruction;
use super::delivering::is_shared;
use super::shared::{ENTRY_BYTES, SharedBindings};

impl<'a> Interpreter<'a> {
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
