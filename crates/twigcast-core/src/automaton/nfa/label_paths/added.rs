//! What was added to an automaton lately, against all label paths that are known to occur in messages.
//!
//! The label paths that reach a state are found from those that reach the state before it, which is kept as long as the
//! additions are gone through: they share most of their beginnings. Nothing is looked at but what leads to them.

use std::ops::Range;

use super::super::state::{EPSILON, EdgeLabelId, STAR};
use super::super::{AcceptItem, INITIAL, Nfa, StateId};
use super::{PathNode, PathTree, name_bit};

/// Room for so many nodes is kept.
const NODES_KEPT: usize = 1 << 18;

/// The label paths that reach a state, as a part of [`AddedScratch::nodes`].
#[derive(Clone, Copy, Debug, Default)]
struct ReachedPaths {
    /// Of which call it is; others are void.
    call: u32,
    start: u32,
    end: u32,
}

impl ReachedPaths {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Scratch that is used again.
#[derive(Debug, Default)]
pub(crate) struct AddedScratch {
    call: u32,
    reached: Vec<ReachedPaths>,
    nodes: Vec<PathNode>,
    /// By node: the last set that was marked and has it.
    marks: Vec<u32>,
    mark: u32,
    /// States on the way to one that was added, the last first.
    states_above: Vec<StateId>,
    /// By label: which names of the tree it takes; for as many labels as there are.
    names: Vec<Vec<u32>>,
}

impl AddedScratch {
    /// Begin anew: the tree is another one, or the automaton.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.reached.len() * size_of::<ReachedPaths>() + (self.nodes.capacity() + self.marks.len()) * 4
    }

    /// Hand over each addition to `nfa` with the nodes of `tree` whose label paths reach it, ascending; not those that
    /// none reaches. False: `work` said that it is too much, or it took more than so many nodes, and the nodes of one path.
    pub(crate) fn each(
        &mut self,
        tree: &PathTree,
        (nfa, added): (&Nfa, &[(StateId, AcceptItem)]),
        nodes_max: usize,
        mut work: impl FnMut(AcceptItem, &[PathNode]) -> bool,
    ) -> bool {
        self.begin(tree, nfa);
        let is_done = added.iter().all(|&(state, item)| {
            let reached = self.reaching(tree, nfa, state);
            self.nodes.len() <= nodes_max && (reached.is_empty() || work(item, &self.nodes[reached]))
        });
        self.nodes.clear();
        self.nodes.shrink_to(NODES_KEPT);
        is_done
    }

    fn begin(&mut self, tree: &PathTree, nfa: &Nfa) {
        if self.names.len() != nfa.labels.bound() {
            self.names = tree.names_of_labels(nfa);
        }
        if self.call == u32::MAX || self.mark > u32::MAX / 2 {
            *self = Self { names: std::mem::take(&mut self.names), ..Self::default() };
        }
        self.call += 1;
        self.reached.resize(self.reached.len().max(nfa.states.len()), ReachedPaths::default());
        self.marks.resize(self.marks.len().max(tree.parents.len()), 0);
        self.nodes.clear();
        self.nodes.push(0);
        self.reached[INITIAL as usize] = ReachedPaths { call: self.call, start: 0, end: 1 };
    }

    fn reaching(&mut self, tree: &PathTree, nfa: &Nfa, state: StateId) -> Range<usize> {
        let mut existing = state;
        while self.reached[existing as usize].call != self.call {
            self.states_above.push(existing);
            existing = nfa.states[existing as usize].parent;
        }
        let mut reached = self.reached[existing as usize].range();
        while let Some(next) = self.states_above.pop() {
            if !reached.is_empty() {
                let start = self.nodes.len();
                let above = nfa.states[next as usize].parent;
                match nfa.states[next as usize].incoming {
                    EPSILON => self.keep_outer(tree, reached),
                    label if nfa.states[above as usize].incoming == EPSILON => self.add_below(tree, label, reached),
                    label => self.add_children(tree, label, reached),
                }
                reached = start..self.nodes.len();
            }
            let (start, end) = (reached.start as u32, reached.end as u32);
            self.reached[next as usize] = ReachedPaths { call: self.call, start, end };
        }
        reached
    }

    /// Append the nodes of a set that are below no other and that anything is below.
    fn keep_outer(&mut self, tree: &PathTree, set: Range<usize>) {
        let mut end = 0;
        for at in set {
            let node = self.nodes[at];
            if node >= end && tree.names_below[node as usize] != 0 {
                self.nodes.push(node);
                end = tree.ends[node as usize];
            }
        }
    }

    /// Append the children of a set that a label takes.
    fn add_children(&mut self, tree: &PathTree, label: EdgeLabelId, set: Range<usize>) {
        let start = self.nodes.len();
        if label == STAR {
            for at in set {
                self.nodes.extend_from_slice(tree.children.of(self.nodes[at]));
            }
            return self.put_in_order(start);
        }
        let Self { nodes, marks, mark, names, .. } = self;
        let mut is_marked = false;
        for &name in &names[label as usize] {
            let all = tree.by_name.of(name);
            if set.len() < all.len() {
                for at in set.clone() {
                    if let Some(child) = tree.child(nodes[at], name) {
                        nodes.push(child);
                    }
                }
                continue;
            }
            if !is_marked {
                is_marked = true;
                *mark += 1;
                nodes[set.clone()].iter().for_each(|&node| marks[node as usize] = *mark);
            }
            nodes.extend(all.iter().filter(|&&node| marks[tree.parents[node as usize] as usize] == *mark));
        }
        self.put_in_order(start);
    }

    /// Append what is below a set, as far as a label takes it. No node of the set is below another.
    fn add_below(&mut self, tree: &PathTree, label: EdgeLabelId, set: Range<usize>) {
        let start = self.nodes.len();
        if label == STAR {
            for at in set {
                let node = self.nodes[at];
                self.nodes.extend(node + 1..tree.ends[node as usize]);
            }
            return;
        }
        let Self { nodes, names, .. } = self;
        for &name in &names[label as usize] {
            let mut rest = tree.by_name.of(name);
            for at in set.clone() {
                let node = nodes[at];
                if tree.names_below[node as usize] & name_bit(name) == 0 {
                    continue;
                }
                let end = tree.ends[node as usize];
                rest = &rest[rest.partition_point(|&other| other <= node)..];
                let (inside, behind) = rest.split_at(rest.partition_point(|&other| other < end));
                nodes.extend_from_slice(inside);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        self.put_in_order(start);
    }

    fn put_in_order(&mut self, start: usize) {
        let set = &mut self.nodes[start..];
        if !set.is_sorted() {
            set.sort_unstable();
        }
    }
}
