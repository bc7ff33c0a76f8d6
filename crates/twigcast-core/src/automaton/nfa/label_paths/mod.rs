//! All paths of an NFA against all label paths that messages have shown.
//!
//! Running an NFA along each label path visits every active state there, and most of them lead nowhere. Here each state of
//! the NFA is visited once, with the set of label paths that reach it: sets of nodes in the tree of label paths, stepped
//! along the tree of states. A state that no label path reaches ends its branch.

mod added;

use std::ops::Range;

use super::labels::NameEdges;
use super::state::{EPSILON, HAS_ATTACHMENT, NO_EDGE, STAR};
use super::{INITIAL, NO_STATE, Nfa};
use crate::ids::{EdgeLabelId, PathNodeId, StateId};
use crate::vocabulary::Name;

pub(crate) use self::added::AddedScratch;

/// The root of the tree: the document.
pub(crate) const ROOT: PathNodeId = PathNodeId::from_u32(0);

/// Lists of entries, one after the other in one vector.
#[derive(Debug)]
pub(crate) struct GroupedLists<T> {
    /// The index at which the list of each group begins; one entry more at the end.
    starts: Vec<u32>,
    entries: Vec<T>,
}

impl<T> Default for GroupedLists<T> {
    fn default() -> Self {
        Self { starts: vec![0], entries: Vec::new() }
    }
}

impl<T: Copy> GroupedLists<T> {
    /// Groups entries, keeping their order. The index of each group is below `bound`.
    fn new(bound: usize, entries: impl Iterator<Item = (usize, T)> + Clone) -> Self {
        let mut starts = vec![0; bound + 1];
        entries.clone().for_each(|(group, _)| starts[group + 1] += 1);
        (0..bound).for_each(|group| starts[group + 1] += starts[group]);
        let mut next = starts.clone();
        // Each of these is overwritten.
        let mut grouped: Vec<T> = entries.clone().map(|(_, entry)| entry).collect();
        for (group, entry) in entries {
            grouped[next[group] as usize] = entry;
            next[group] += 1;
        }
        Self { starts, entries: grouped }
    }

    /// Returns the entries of a group.
    pub(crate) fn of(&self, group: usize) -> &[T] {
        &self.entries[self.starts[group] as usize..self.starts[group + 1] as usize]
    }

    fn bytes(&self) -> usize {
        self.starts.len() * size_of::<u32>() + self.entries.len() * size_of::<T>()
    }
}

/// A step of a label path: where it comes from, the element's name, and where it leads, in the caller's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelPathStep {
    pub(crate) from: u32,
    pub(crate) name: Name,
    pub(crate) to: u32,
}

/// The label paths as a tree. Nodes are numbered in preorder, so that a subtree is a range.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    /// The distinct names, in order.
    names: Vec<Name>,
    /// The index of each node's name in `names`.
    name_of: Vec<u32>,
    parents: Vec<PathNodeId>,
    /// For each node, one past the last node below it.
    ends: Vec<PathNodeId>,
    by_name: GroupedLists<PathNodeId>,
    /// The children of each node, in the order of their names.
    children: GroupedLists<PathNodeId>,
    /// The names of each node's children as bits, see [`name_bit`].
    child_names: Vec<u128>,
    /// The names of all nodes below each node, in the same way.
    names_below: Vec<u128>,
    /// For each node, the index of the step that leads to it, among the sorted steps.
    pub(crate) steps: Vec<u32>,
}

/// Names that have a bit of their own.
const NAME_BITS: usize = u128::BITS as usize;

/// Returns the bit of a name. Where there are more than 128 names, several share one.
#[inline]
fn name_bit(name: u32) -> u128 {
    1 << (name as usize % NAME_BITS)
}

/// The sets of nodes that [`PathTree::reached`] works with.
#[derive(Default)]
struct ReachScratch {
    /// The current set, ascending.
    current: Vec<PathNodeId>,
    /// The nodes of the current set that are below no other.
    outer: Vec<PathNodeId>,
    /// For each node, the number of the last set that was marked and has it.
    marks: Vec<u32>,
    mark: u32,
    is_marked: bool,
    /// Sets to be processed, one after the other.
    waiting: Vec<PathNodeId>,
}

impl PathTree {
    /// Creates the tree of the steps that lead on from `root`. Each leads to a number of its own, below `bound`. Sorts the
    /// steps.
    pub(crate) fn new(steps: &mut [LabelPathStep], root: u32, bound: usize) -> Self {
        steps.sort_unstable_by_key(|step| (step.from, order(step.name)));
        let mut names: Vec<Name> = steps.iter().map(|step| step.name).collect();
        names.sort_unstable_by_key(|&name| order(name));
        names.dedup();
        let numbered = steps.iter().enumerate().map(|(index, step)| (step.from as usize, index as u32));
        let leaving = GroupedLists::new(bound, numbered);
        let mut tree = Self { names, ..Self::default() };
        let mut open = vec![(root, ROOT, None)];
        while let Some((position, parent, step)) = open.pop() {
            let node = PathNodeId::new(tree.parents.len());
            tree.parents.push(parent);
            tree.ends.push(after(node));
            let name = step.map(|step: u32| order(steps[step as usize].name));
            let name = name.and_then(|name| tree.names.binary_search_by_key(&name, |&name| order(name)).ok());
            tree.name_of.push(name.map_or(u32::MAX, |name| name as u32));
            tree.steps.push(step.unwrap_or(u32::MAX));
            let below = leaving.of(position as usize).iter().rev();
            open.extend(below.map(|&step| (steps[step as usize].to, node, Some(step))));
        }
        tree.child_names = vec![0; tree.len()];
        tree.names_below = tree.child_names.clone();
        for node in (1..tree.len()).rev() {
            let parent = tree.parents[node].index();
            let name = name_bit(tree.name_of[node]);
            tree.child_names[parent] |= name;
            tree.names_below[parent] |= name | tree.names_below[node];
            tree.ends[parent] = tree.ends[parent].max(tree.ends[node]);
        }
        let nodes = (1..tree.len()).map(|node| (node, PathNodeId::new(node)));
        tree.by_name =
            GroupedLists::new(tree.names.len(), nodes.clone().map(|(node, id)| (tree.name_of[node] as usize, id)));
        tree.children = GroupedLists::new(tree.len(), nodes.map(|(node, id)| (tree.parents[node].index(), id)));
        tree
    }

    /// Returns the number of nodes.
    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.name_of.len() + self.parents.len() + self.ends.len() + self.steps.len()) * 4
            + (self.child_names.len() + self.names_below.len()) * size_of::<u128>()
            + self.names.len() * size_of::<Name>()
            + self.by_name.bytes()
            + self.children.bytes()
    }

    /// Returns the child of a node with a name, by the name's index.
    #[inline]
    fn child(&self, node: PathNodeId, name: u32) -> Option<PathNodeId> {
        let (names, bit) = (self.child_names[node.index()], name_bit(name));
        if names & bit == 0 {
            return None;
        }
        let children = self.children.of(node.index());
        if self.names.len() <= NAME_BITS {
            return children.get((names & (bit - 1)).count_ones() as usize).copied();
        }
        let position = children.partition_point(|&child| self.name_of[child.index()] < name);
        children.get(position).copied().filter(|&child| self.name_of[child.index()] == name)
    }

    /// Returns the nodes below a node.
    fn below(&self, node: PathNodeId) -> Range<PathNodeId> {
        after(node)..self.ends[node.index()]
    }

    /// Returns, for each node, the states with items or attachments that its label path reaches; `None` if that takes more
    /// than `steps_max` steps.
    pub(crate) fn reached(&self, nfa: &Nfa, steps_max: usize) -> Option<GroupedLists<StateId>> {
        let states = nfa.states.iter().enumerate().filter(|(_, state)| state.parent != NO_STATE);
        let states = states.map(|(index, state)| (state.parent.index(), StateId::new(index)));
        let leaving = GroupedLists::new(nfa.states.len(), states);
        let labels = self.names_of_labels(nfa);
        let mut sets = ReachScratch { marks: vec![0; self.len()], waiting: vec![ROOT], ..ReachScratch::default() };
        let mut open = vec![(INITIAL, 0)];
        let (mut nodes, mut states) = (Vec::new(), Vec::new());
        let mut steps = 0;
        while let Some((state, start)) = open.pop() {
            sets.take(start);
            steps += sets.current.len();
            let entry = &nfa.states[state.index()];
            if !entry.items.is_empty() || entry.has(HAS_ATTACHMENT) {
                nodes.extend_from_slice(&sets.current);
                states.resize(nodes.len(), state);
            }
            for &target in leaving.of(state.index()) {
                let start = sets.waiting.len();
                match nfa.states[target.index()].incoming {
                    EPSILON => {
                        self.find_outer(&mut sets);
                        for &target in leaving.of(target.index()) {
                            let start = sets.waiting.len();
                            steps += 1 + self.step_below(&labels, nfa.states[target.index()].incoming, &mut sets);
                            sets.keep(start, target, &mut open);
                        }
                    }
                    label => {
                        steps += 1 + self.step(&labels, label, &mut sets);
                        sets.keep(start, target, &mut open);
                    }
                }
            }
            if steps > steps_max {
                return None;
            }
        }
        let entries = nodes.iter().map(|node: &PathNodeId| node.index()).zip(states.iter().copied());
        Some(GroupedLists::new(self.len(), entries))
    }

    /// Returns, for each label, the indexes of the names that it takes.
    fn names_of_labels(&self, nfa: &Nfa) -> Vec<Vec<u32>> {
        let mut labels = vec![Vec::new(); nfa.labels.bound()];
        for (number, &name) in self.names.iter().enumerate() {
            let NameEdges { name, namespace, local } = nfa.edges_by_name(name);
            for label in [name, namespace, local].into_iter().filter(|&label| label != NO_EDGE) {
                labels[label.index()].push(number as u32);
            }
        }
        labels
    }

    /// Appends the children of the current set that a label takes. Returns the number of nodes visited.
    fn step(&self, labels: &[Vec<u32>], label: EdgeLabelId, sets: &mut ReachScratch) -> usize {
        if label == STAR {
            let before = sets.waiting.len();
            sets.current.iter().for_each(|&node| sets.waiting.extend_from_slice(self.children.of(node.index())));
            return sets.waiting.len() - before;
        }
        let mut visited = 0;
        for &name in &labels[label.index()] {
            let all = self.by_name.of(name as usize);
            if sets.current.len() * 4 < all.len() {
                visited += sets.current.len();
                for &node in &sets.current {
                    sets.waiting.extend(self.child(node, name));
                }
                continue;
            }
            sets.mark_current();
            visited += all.len();
            let is_child = |node: &&PathNodeId| sets.marks[self.parents[node.index()].index()] == sets.mark;
            sets.waiting.extend(all.iter().filter(is_child));
        }
        visited
    }

    /// Appends the nodes below the current set that a label takes. Returns the number of nodes visited.
    fn step_below(&self, labels: &[Vec<u32>], label: EdgeLabelId, sets: &mut ReachScratch) -> usize {
        let before = sets.waiting.len();
        if label == STAR {
            sets.outer.iter().for_each(|&node| sets.waiting.extend(nodes_of(self.below(node))));
            return sets.waiting.len() - before;
        }
        let mut visited = 0;
        for &name in &labels[label.index()] {
            let mut all = self.by_name.of(name as usize);
            if sets.outer.len() * 8 > all.len() {
                visited += all.len() + sets.outer.len();
                let mut outer = sets.outer.iter().map(|&node| self.below(node)).peekable();
                for &node in all {
                    while outer.next_if(|range| range.end <= node).is_some() {}
                    let Some(range) = outer.peek() else { break };
                    if range.contains(&node) {
                        sets.waiting.push(node);
                    }
                }
                continue;
            }
            for &node in &sets.outer {
                let Range { start, end } = self.below(node);
                all = &all[all.partition_point(|&other| other < start)..];
                let (inside, behind) = all.split_at(all.partition_point(|&other| other < end));
                sets.waiting.extend_from_slice(inside);
                all = behind;
                visited += 1 + inside.len();
            }
        }
        visited
    }

    fn find_outer(&self, sets: &mut ReachScratch) {
        sets.outer.clear();
        let mut end = ROOT;
        for &node in &sets.current {
            if node >= end {
                sets.outer.push(node);
                end = self.ends[node.index()];
            }
        }
    }
}

impl ReachScratch {
    /// Makes the last of the waiting sets the current one.
    fn take(&mut self, start: usize) {
        self.current.clear();
        self.current.extend(self.waiting.drain(start..));
        if !self.current.is_sorted() {
            self.current.sort_unstable();
        }
        self.is_marked = false;
    }

    /// Makes the nodes appended since `start` the waiting set of a state, unless there are none.
    fn keep(&self, start: usize, state: StateId, open: &mut Vec<(StateId, usize)>) {
        if self.waiting.len() > start {
            open.push((state, start));
        }
    }

    fn mark_current(&mut self) {
        if !self.is_marked {
            self.is_marked = true;
            self.mark += 1;
            self.current.iter().for_each(|&node| self.marks[node.index()] = self.mark);
        }
    }
}

fn order(name: Name) -> (u32, u32) {
    (name.namespace.as_u32(), name.local.as_u32())
}

/// Returns the node after a node in preorder.
fn after(node: PathNodeId) -> PathNodeId {
    PathNodeId::from_u32(node.as_u32() + 1)
}

/// Returns the nodes of a range.
fn nodes_of(range: Range<PathNodeId>) -> impl Iterator<Item = PathNodeId> {
    (range.start.as_u32()..range.end.as_u32()).map(PathNodeId::from_u32)
}

#[cfg(test)]
mod tests {
    use super::super::AcceptItem;
    use super::*;
    use crate::ids::{LocalId, NamespaceId};
    use crate::plan::LinearStep;
    use crate::query::ast::NameTest;
    use crate::testing::Random;

    /// In random trees, with random paths of which some are removed again, a label path reaches the states that running
    /// the NFA along it reaches.
    #[test]
    fn each_label_path_reaches_what_running_the_nfa_along_it_does() {
        for seed in 1..200_u64 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let name_at = |number: u32| Name {
                namespace: NamespaceId::from_u32(number % 2),
                local: LocalId::from_u32(number / 2),
            };
            let name_count = 2 + random.below(9);
            let mut nfa = Nfa::new();
            let mut items = Vec::new();
            for query in 0..random.below(80) {
                let path: Vec<LinearStep> = (0..1 + random.below(5))
                    .map(|_| {
                        let name = name_at(random.below(name_count));
                        let test = match random.below(8) {
                            0 | 1 => NameTest::Any,
                            2 => NameTest::Namespace(name.namespace),
                            3 => NameTest::Local(name.local),
                            _ => NameTest::Name(name),
                        };
                        LinearStep { descendant: random.below(3) == 0, test }
                    })
                    .collect();
                let state = nfa.state_of(&path);
                items.push(nfa.insert_item(state, AcceptItem::Accept(query)));
                if random.below(4) == 0 {
                    nfa.remove(items.swap_remove(random.below(items.len())));
                }
            }
            // Numbers in no order; at most one step with each name leaves each.
            let bound = 2 + random.below(120);
            let number_at = |number: u32| if number == 0 { 3 } else { 3 + bound - number };
            let mut steps: Vec<LabelPathStep> = Vec::new();
            for number in 1..bound {
                let (from, name) = (number_at(random.below(number)), name_at(random.below(name_count)));
                if steps.iter().all(|step| (step.from, step.name) != (from, name)) {
                    steps.push(LabelPathStep { from, name, to: number_at(number) });
                }
            }
            let tree = PathTree::new(&mut steps, 3, 3 + bound as usize);
            let reached = tree.reached(&nfa, usize::MAX).expect("steps are not limited");
            let mut active: Vec<Vec<StateId>> = vec![vec![INITIAL]];
            for node in 1..tree.len() {
                let step = steps[tree.steps[node] as usize];
                let parent = tree.parents[node].index();
                let above = if parent == 0 { 3 } else { steps[tree.steps[parent] as usize].to };
                assert_eq!(step.from, above);
                let mut set = Vec::new();
                nfa.step(&active[parent], step.name, &mut set);
                let mut result = reached.of(node).to_vec();
                result.sort_unstable();
                let waits = |id: &StateId| nfa.items(*id).next().is_some();
                assert_eq!(result, set.iter().copied().filter(waits).collect::<Vec<_>>(), "node {node}");
                active.push(set);
            }
            assert!(tree.reached(&nfa, 0).is_none() || nfa.state_count() == 1);
        }
    }
}
