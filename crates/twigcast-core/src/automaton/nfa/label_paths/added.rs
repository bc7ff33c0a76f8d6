//! The items recently added to an NFA against all label paths that messages have shown.
//!
//! The label paths that reach a state are found from those that reach its parent state. They are kept while the additions
//! are processed, since additions share most of their prefixes. Only states that lead to additions are visited.

use std::ops::Range;

use super::super::state::{EPSILON, STAR};
use super::super::{AcceptItem, INITIAL, Nfa};
use super::{PathTree, ROOT, name_bit, nodes_of};
use crate::ids::{EdgeLabelId, PathNodeId, StateId};

/// Nodes for which memory is kept between calls.
const NODES_KEPT: usize = 1 << 18;

/// The label paths that reach a state, as a part of [`AddedScratch::nodes`].
#[derive(Clone, Copy, Debug, Default)]
struct ReachedPaths {
    /// The number of the call that it belongs to; entries of earlier calls are invalid.
    call: u32,
    start: u32,
    end: u32,
}

impl ReachedPaths {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The working memory of [`AddedScratch::each`], kept between calls.
#[derive(Debug, Default)]
pub(crate) struct AddedScratch {
    call: u32,
    reached: Vec<ReachedPaths>,
    nodes: Vec<PathNodeId>,
    /// For each node, the number of the last set that was marked and has it.
    marks: Vec<u32>,
    mark: u32,
    /// The states on the path to an addition, the last first.
    states_above: Vec<StateId>,
    /// For each label, the names of the tree that it takes.
    names: Vec<Vec<u32>>,
}

impl AddedScratch {
    /// Prepares for another tree or another NFA.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.reached.len() * size_of::<ReachedPaths>() + (self.nodes.capacity() + self.marks.len()) * 4
    }

    /// Passes each addition to `nfa` on to `work`, with the nodes of `tree` whose label paths reach it, ascending. Additions
    /// that no label path reaches are left out. Returns `false` if `work` did so, or if more than `nodes_max` nodes were
    /// needed.
    pub(crate) fn each(
        &mut self,
        tree: &PathTree,
        (nfa, added): (&Nfa, &[(StateId, AcceptItem)]),
        nodes_max: usize,
        mut work: impl FnMut(AcceptItem, &[PathNodeId]) -> bool,
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
        self.marks.resize(self.marks.len().max(tree.len()), 0);
        self.nodes.clear();
        self.nodes.push(ROOT);
        self.reached[INITIAL.index()] = ReachedPaths { call: self.call, start: 0, end: 1 };
    }

    /// Finds the nodes whose label paths reach a state, as a range of [`Self::nodes`].
    fn reaching(&mut self, tree: &PathTree, nfa: &Nfa, state: StateId) -> Range<usize> {
        let mut existing = state;
        while self.reached[existing.index()].call != self.call {
            self.states_above.push(existing);
            existing = nfa.states[existing.index()].parent;
        }
        let mut reached = self.reached[existing.index()].range();
        while let Some(next) = self.states_above.pop() {
            if !reached.is_empty() {
                let start = self.nodes.len();
                let above = nfa.states[next.index()].parent;
                match nfa.states[next.index()].incoming {
                    EPSILON => self.keep_outer(tree, reached),
                    label if nfa.states[above.index()].incoming == EPSILON => self.add_below(tree, label, reached),
                    label => self.add_children(tree, label, reached),
                }
                reached = start..self.nodes.len();
            }
            let (start, end) = (reached.start as u32, reached.end as u32);
            self.reached[next.index()] = ReachedPaths { call: self.call, start, end };
        }
        reached
    }

    /// Appends the nodes of a set that are below no other node of the set and have nodes below them.
    fn keep_outer(&mut self, tree: &PathTree, set: Range<usize>) {
        let mut end = ROOT;
        for at in set {
            let node = self.nodes[at];
            if node >= end && tree.names_below[node.index()] != 0 {
                self.nodes.push(node);
                end = tree.ends[node.index()];
            }
        }
    }

    /// Appends the children of a set that a label takes.
    fn add_children(&mut self, tree: &PathTree, label: EdgeLabelId, set: Range<usize>) {
        let start = self.nodes.len();
        if label == STAR {
            for at in set {
                self.nodes.extend_from_slice(tree.children.of(self.nodes[at].index()));
            }
            return self.sort_from(start);
        }
        let Self { nodes, marks, mark, names, .. } = self;
        let mut is_marked = false;
        for &name in &names[label.index()] {
            let all = tree.by_name.of(name as usize);
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
                nodes[set.clone()].iter().for_each(|&node| marks[node.index()] = *mark);
            }
            nodes.extend(all.iter().filter(|&&node| marks[tree.parents[node.index()].index()] == *mark));
        }
        self.sort_from(start);
    }

    /// Appends the nodes below a set that a label takes. No node of the set is below another.
    fn add_below(&mut self, tree: &PathTree, label: EdgeLabelId, set: Range<usize>) {
        let start = self.nodes.len();
        if label == STAR {
            for at in set {
                self.nodes.extend(nodes_of(tree.below(self.nodes[at])));
            }
            return;
        }
        let Self { nodes, names, .. } = self;
        for &name in &names[label.index()] {
            let mut rest = tree.by_name.of(name as usize);
            for at in set.clone() {
                let node = nodes[at];
                if tree.names_below[node.index()] & name_bit(name) == 0 {
                    continue;
                }
                let end = tree.ends[node.index()];
                rest = &rest[rest.partition_point(|&other| other <= node)..];
                let (inside, behind) = rest.split_at(rest.partition_point(|&other| other < end));
                nodes.extend_from_slice(inside);
                rest = behind;
                if rest.is_empty() {
                    break;
                }
            }
        }
        self.sort_from(start);
    }

    fn sort_from(&mut self, start: usize) {
        let set = &mut self.nodes[start..];
        if !set.is_sorted() {
            set.sort_unstable();
        }
    }
}
