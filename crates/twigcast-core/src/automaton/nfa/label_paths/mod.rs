//! All paths of an automaton against all label paths that are known to occur in messages.
//!
//! To lead an automaton of few paths along each label path costs a look at all that is active there, most of which leads
//! nowhere. The other way round, each state of the automaton is looked at once, with all label paths that reach it: sets
//! of nodes in the tree of label paths, stepped along the tree of states. What no label path reaches ends there.

mod added;

use std::ops::Range;

use super::labels::NameEdges;
use super::state::{EPSILON, EdgeLabelId, HAS_ATTACHMENT, NO_EDGE, STAR};
use super::{INITIAL, NO_ITEM, NO_STATE, Nfa, StateId};
use crate::vocabulary::Name;

pub(crate) use self::added::AddedScratch;

/// Number of a node of the tree, in preorder; the document is the first.
pub(crate) type PathNode = u32;

/// Lists by number, one after the other.
#[derive(Debug, Default)]
pub(crate) struct GroupedLists {
    starts: Vec<u32>,
    entries: Vec<u32>,
}

impl GroupedLists {
    /// Entries in their order, by the group of each, which is less than `bound`; those of no group are left out.
    fn new(bound: usize, entries: impl Iterator<Item = (Option<u32>, u32)> + Clone) -> Self {
        let mut starts = vec![0; bound + 1];
        let of_groups = || entries.clone().filter_map(|(group, entry)| Some((group? as usize, entry)));
        of_groups().for_each(|(group, _)| starts[group + 1] += 1);
        (0..bound).for_each(|group| starts[group + 1] += starts[group]);
        let mut next = starts.clone();
        let mut grouped = vec![0; starts[bound] as usize];
        for (group, entry) in of_groups() {
            grouped[next[group] as usize] = entry;
            next[group] += 1;
        }
        Self { starts, entries: grouped }
    }

    /// The entries of a group.
    pub(crate) fn of(&self, group: u32) -> &[u32] {
        &self.entries[self.starts[group as usize] as usize..self.starts[group as usize + 1] as usize]
    }

    fn bytes(&self) -> usize {
        (self.starts.len() + self.entries.len()) * 4
    }
}

/// A step of a label path: where it comes from, the element's name, and where it leads, in the caller's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LabelPathStep {
    pub(crate) from: u32,
    pub(crate) name: Name,
    pub(crate) to: u32,
}

/// The label paths, as a tree.
#[derive(Debug, Default)]
pub(crate) struct PathTree {
    /// The distinct names, in order.
    names: Vec<Name>,
    /// By node: its name's place among them.
    name_of: Vec<u32>,
    parents: Vec<PathNode>,
    /// By node: one past the last node below it.
    ends: Vec<PathNode>,
    by_name: GroupedLists,
    /// By node: its children, in the order of their names.
    children: GroupedLists,
    /// By node: the names of its children as bits, see [`name_bit`].
    child_names: Vec<u128>,
    /// By node: the names of all that is below it, in the same way.
    names_below: Vec<u128>,
    /// By node: the step that leads to it, by its place in the list given, sorted.
    pub(crate) steps: Vec<u32>,
}

/// Names that have a bit of their own.
const NAME_BITS: usize = u128::BITS as usize;

/// The bit of a name's number. Where there are many names, several share one.
#[inline]
fn name_bit(name: u32) -> u128 {
    1 << (name as usize % NAME_BITS)
}

/// Scratch of [`PathTree::reached`].
#[derive(Default)]
struct ReachScratch {
    /// The set in hand, ascending.
    current: Vec<PathNode>,
    /// The nodes of the set in hand that are below no other.
    outer: Vec<PathNode>,
    /// By node: the last set in hand that was marked and has it.
    marks: Vec<u32>,
    mark: u32,
    is_marked: bool,
    /// Sets to be looked at, one after the other.
    waiting: Vec<PathNode>,
}

impl PathTree {
    /// The tree of the steps that lead on from `root`, each to a place of its own, with numbers less than `bound`. Sorts
    /// the steps.
    pub(crate) fn new(steps: &mut [LabelPathStep], root: u32, bound: usize) -> Self {
        steps.sort_unstable_by_key(|step| (step.from, order(step.name)));
        let mut names: Vec<Name> = steps.iter().map(|step| step.name).collect();
        names.sort_unstable_by_key(|&name| order(name));
        names.dedup();
        let numbered = steps.iter().enumerate().map(|(number, step)| (Some(step.from), number as u32));
        let leaving = GroupedLists::new(bound, numbered);
        let mut tree = Self { names, ..Self::default() };
        let mut open = vec![(root, 0, None)];
        while let Some((position, parent, step)) = open.pop() {
            let node = tree.parents.len() as PathNode;
            tree.parents.push(parent);
            tree.ends.push(node + 1);
            let name = step.map(|step: u32| order(steps[step as usize].name));
            let name = name.and_then(|name| tree.names.binary_search_by_key(&name, |&name| order(name)).ok());
            tree.name_of.push(name.map_or(u32::MAX, |name| name as u32));
            tree.steps.push(step.unwrap_or(u32::MAX));
            let below = leaving.of(position).iter().rev();
            open.extend(below.map(|&step| (steps[step as usize].to, node, Some(step))));
        }
        tree.child_names = vec![0; tree.parents.len()];
        tree.names_below = tree.child_names.clone();
        for node in (1..tree.len()).rev() {
            let parent = tree.parents[node as usize] as usize;
            let name = name_bit(tree.name_of[node as usize]);
            tree.child_names[parent] |= name;
            tree.names_below[parent] |= name | tree.names_below[node as usize];
            tree.ends[parent] = tree.ends[parent].max(tree.ends[node as usize]);
        }
        let nodes = 1..tree.len();
        tree.by_name = GroupedLists::new(tree.names.len(), nodes.clone().map(|n| (Some(tree.name_of[n as usize]), n)));
        tree.children = GroupedLists::new(tree.parents.len(), nodes.map(|n| (Some(tree.parents[n as usize]), n)));
        tree
    }

    /// One past the largest node.
    pub(crate) fn len(&self) -> PathNode {
        self.parents.len() as PathNode
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.name_of.len() + self.parents.len() + self.ends.len() + self.steps.len()) * 4
            + (self.child_names.len() + self.names_below.len()) * size_of::<u128>()
            + self.names.len() * size_of::<Name>()
            + self.by_name.bytes()
            + self.children.bytes()
    }

    /// The child of a node by the number of its name.
    #[inline]
    fn child(&self, node: PathNode, name: u32) -> Option<PathNode> {
        let (names, bit) = (self.child_names[node as usize], name_bit(name));
        if names & bit == 0 {
            return None;
        }
        let children = self.children.of(node);
        if self.names.len() <= NAME_BITS {
            return children.get((names & (bit - 1)).count_ones() as usize).copied();
        }
        let position = children.partition_point(|&child| self.name_of[child as usize] < name);
        children.get(position).copied().filter(|&child| self.name_of[child as usize] == name)
    }

    /// By node: the states that its label path reaches, as far as anything waits there. `None` if that takes more steps
    /// than allowed.
    pub(crate) fn reached(&self, nfa: &Nfa, steps_max: usize) -> Option<GroupedLists> {
        let ids = || 0..nfa.states.len() as StateId;
        let parent = |id: StateId| Some(nfa.states[id as usize].parent).filter(|&parent| parent != NO_STATE);
        let leaving = GroupedLists::new(nfa.states.len(), ids().map(|id| (parent(id), id)));
        let labels = self.names_of_labels(nfa);
        let mut sets = ReachScratch { marks: vec![0; self.parents.len()], waiting: vec![0], ..ReachScratch::default() };
        let mut open = vec![(INITIAL, 0)];
        let (mut nodes, mut states) = (Vec::new(), Vec::new());
        let mut steps = 0;
        while let Some((state, start)) = open.pop() {
            sets.take(start);
            steps += sets.current.len();
            let entry = &nfa.states[state as usize];
            if entry.items != NO_ITEM || entry.has(HAS_ATTACHMENT) {
                nodes.extend_from_slice(&sets.current);
                states.resize(nodes.len(), state);
            }
            for &target in leaving.of(state) {
                let start = sets.waiting.len();
                match nfa.states[target as usize].incoming {
                    EPSILON => {
                        self.find_outer(&mut sets);
                        for &target in leaving.of(target) {
                            let start = sets.waiting.len();
                            steps += 1 + self.below(&labels, nfa.states[target as usize].incoming, &mut sets);
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
        Some(GroupedLists::new(self.parents.len(), nodes.iter().map(|&node| Some(node)).zip(states.iter().copied())))
    }

    /// By label: which names it takes.
    fn names_of_labels(&self, nfa: &Nfa) -> Vec<Vec<u32>> {
        let mut labels = vec![Vec::new(); nfa.labels.bound()];
        for (number, &name) in self.names.iter().enumerate() {
            let NameEdges { name, namespace, local } = nfa.edges_by_name(name);
            for label in [name, namespace, local].into_iter().filter(|&label| label != NO_EDGE) {
                labels[label as usize].push(number as u32);
            }
        }
        labels
    }

    /// Append the children of the set in hand that a label takes; how many nodes were looked at.
    fn step(&self, labels: &[Vec<u32>], label: EdgeLabelId, sets: &mut ReachScratch) -> usize {
        if label == STAR {
            let before = sets.waiting.len();
            sets.current.iter().for_each(|&node| sets.waiting.extend_from_slice(self.children.of(node)));
            return sets.waiting.len() - before;
        }
        let mut looked_at = 0;
        for &name in &labels[label as usize] {
            let all = self.by_name.of(name);
            if sets.current.len() * 4 < all.len() {
                looked_at += sets.current.len();
                for &node in &sets.current {
                    sets.waiting.extend(self.child(node, name));
                }
                continue;
            }
            sets.mark_current();
            looked_at += all.len();
            let is_child = |node: &&PathNode| sets.marks[self.parents[**node as usize] as usize] == sets.mark;
            sets.waiting.extend(all.iter().filter(is_child));
        }
        looked_at
    }

    /// Append what is below the set in hand, as far as a label takes it; how many nodes were looked at.
    fn below(&self, labels: &[Vec<u32>], label: EdgeLabelId, sets: &mut ReachScratch) -> usize {
        let below = |node: PathNode| -> Range<PathNode> { node + 1..self.ends[node as usize] };
        let before = sets.waiting.len();
        if label == STAR {
            sets.outer.iter().for_each(|&node| sets.waiting.extend(below(node)));
            return sets.waiting.len() - before;
        }
        let mut looked_at = 0;
        for &name in &labels[label as usize] {
            let mut all = self.by_name.of(name);
            if sets.outer.len() * 8 > all.len() {
                looked_at += all.len() + sets.outer.len();
                let mut outer = sets.outer.iter().map(|&node| below(node)).peekable();
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
                let Range { start, end } = below(node);
                all = &all[all.partition_point(|&other| other < start)..];
                let (inside, behind) = all.split_at(all.partition_point(|&other| other < end));
                sets.waiting.extend_from_slice(inside);
                all = behind;
                looked_at += 1 + inside.len();
            }
        }
        looked_at
    }

    fn find_outer(&self, sets: &mut ReachScratch) {
        sets.outer.clear();
        let mut end = 0;
        for &node in &sets.current {
            if node >= end {
                sets.outer.push(node);
                end = self.ends[node as usize];
            }
        }
    }
}

impl ReachScratch {
    /// Take the last of the sets that wait in hand.
    fn take(&mut self, start: usize) {
        self.current.clear();
        self.current.extend(self.waiting.drain(start..));
        if !self.current.is_sorted() {
            self.current.sort_unstable();
        }
        self.is_marked = false;
    }

    /// Let what was appended wait for a state, if anything was.
    fn keep(&self, start: usize, state: StateId, open: &mut Vec<(StateId, usize)>) {
        if self.waiting.len() > start {
            open.push((state, start));
        }
    }

    fn mark_current(&mut self) {
        if !self.is_marked {
            self.is_marked = true;
            self.mark += 1;
            self.current.iter().for_each(|&node| self.marks[node as usize] = self.mark);
        }
    }
}

fn order(name: Name) -> (u32, u32) {
    (name.namespace.as_u32(), name.local.as_u32())
}

#[cfg(test)]
mod tests {
    use super::super::AcceptItem;
    use super::*;
    use crate::plan::LinearStep;
    use crate::query::ast::NameTest;
    use crate::vocabulary::{LocalId, NamespaceId};

    /// Trees and paths at random, some of the paths taken out again: what is reached is what leading the automaton along
    /// each label path reaches.
    #[test]
    fn each_label_path_reaches_what_leading_the_automaton_along_it_does() {
        for seed in 1..200_u64 {
            println!("seed {seed}");
            let mut state = seed;
            let mut random = move |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) % bound) as u32
            };
            let name_at = |number: u32| Name {
                namespace: NamespaceId::from_u32(number % 2),
                local: LocalId::from_u32(number / 2),
            };
            let name_count = 2 + u64::from(random(9));
            let mut nfa = Nfa::new();
            let mut items = Vec::new();
            for query in 0..random(80) {
                let path: Vec<LinearStep> = (0..1 + random(5))
                    .map(|_| {
                        let name = name_at(random(name_count));
                        let test = match random(8) {
                            0 | 1 => NameTest::Any,
                            2 => NameTest::Namespace(name.namespace),
                            3 => NameTest::Local(name.local),
                            _ => NameTest::Name(name),
                        };
                        LinearStep { descendant: random(3) == 0, test }
                    })
                    .collect();
                let state = nfa.state_of(&path);
                items.push(nfa.insert_item(state, AcceptItem::Accept(query)));
                if random(4) == 0 {
                    nfa.remove(items.swap_remove(random(items.len() as u64) as usize));
                }
            }
            // Places in no order; of each place at most one step with a name.
            let bound = 2 + random(120);
            let place_at = |number: u32| if number == 0 { 3 } else { 3 + bound - number };
            let mut steps: Vec<LabelPathStep> = Vec::new();
            for number in 1..bound {
                let (from, name) = (place_at(random(u64::from(number))), name_at(random(name_count)));
                if steps.iter().all(|step| (step.from, step.name) != (from, name)) {
                    steps.push(LabelPathStep { from, name, to: place_at(number) });
                }
            }
            let tree = PathTree::new(&mut steps, 3, 3 + bound as usize);
            let reached = tree.reached(&nfa, usize::MAX).expect("allowed");
            let mut active: Vec<Vec<StateId>> = vec![vec![INITIAL]];
            for node in 1..tree.len() {
                let step = steps[tree.steps[node as usize] as usize];
                let parent = tree.parents[node as usize];
                let above = if parent == 0 { 3 } else { steps[tree.steps[parent as usize] as usize].to };
                assert_eq!(step.from, above);
                let mut set = Vec::new();
                nfa.step(&active[parent as usize], step.name, &mut set);
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
