//! The NFA itself, for messages whose automaton does not fit the cache.

use super::state::{Decisions, MessageRun};
use crate::automaton::nfa::{AcceptItem, INITIAL};
use crate::document::{NodeId, NodeKind};
use crate::engine::query_index::PathIndex;
use crate::ids::StateId;

impl<'a> MessageRun<'a, '_> {
    /// Runs the NFA itself, with a stack of active sets (Diao 2005, section 4.3.3): slower, but in memory bounded by
    /// the depth of the message and the size of the automaton.
    pub(in crate::engine) fn simulate(&mut self, decisions: &mut Decisions, paths: &PathIndex) {
        let nfa = &paths.nfa;
        let nodes = &self.message.document.nodes;
        // Active sets of the open elements, one after the other, and where each begins.
        let mut open: Vec<(NodeId, usize)> = vec![(0, 0)];
        let mut active: Vec<StateId> = vec![INITIAL];
        let mut target = Vec::new();
        let mut index = 1;
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            while let Some(&(top, start)) = open.last() {
                if top == node.parent {
                    break;
                }
                active.truncate(start);
                open.pop();
            }
            let start = open.last().map_or(0, |&(_, start)| start);
            nfa.step(&active[start..], node.name, &mut target);
            if target.is_empty() {
                index = node.end as usize;
                continue;
            }
            open.push((index as NodeId, active.len()));
            active.extend_from_slice(&target);
            for &state in &target {
                if nfa.has_attachment(state) {
                    self.decide_trigger_table(decisions, index as NodeId, paths, state);
                    self.decide_access_table(decisions, index as NodeId, paths, state);
                }
                for item in nfa.items(state) {
                    self.simulate_item(decisions, index as NodeId, item);
                }
            }
            index += 1;
        }
    }

    fn simulate_item(&mut self, decisions: &mut Decisions, node: NodeId, item: AcceptItem) {
        match item {
            AcceptItem::Accept(query) => decisions.matched.insert(query),
            AcceptItem::Twig(twig) => self.test_twig(decisions, node, twig),
            AcceptItem::Access(number) => self.decide_access(decisions, node, number),
            AcceptItem::Trigger(number) => {
                let Some(trigger) = self.query_index.triggers.get(number) else { return };
                if decisions.is_decided(trigger.query) {
                    return;
                }
                if self.key_holds(decisions, node, trigger) {
                    self.test(decisions, node, number);
                }
            }
        }
    }
}
