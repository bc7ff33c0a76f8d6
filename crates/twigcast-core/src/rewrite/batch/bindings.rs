//! The bindings of the current message, and the sets of them that satisfy each condition.
//!
//! The elements of a message are grouped by label path. The label paths of a binding list give its bindings; the label
//! paths with compared values give the values, whose constants and columns give the conditions.

use crate::document::{ByteRange, Message, NodeId, NodeKind};
use crate::ids::{BindingColumnId, BindingConditionId, BindingListId, GuideNodeId};

use super::super::program::family::Interner;
use super::binding_sets::fill;
use super::condition_index::{BranchStack, ConditionBindings, ConditionIndex, ConditionRow, MemberRange};
use super::data_guide::{ColumnStrand, DataGuide, PathResolution, ROOT, ValueColumn};
use super::value_index::{EqualRows, ValueIndex};

/// Number of bindings of a list at most.
const BINDINGS_MAX: usize = 1024;

/// Bytes of compared values at most, beyond four times those of the message.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Number of comparisons of a value in a column at most. Where elements nest deeply in themselves, each node lies below
/// very many bindings.
const COLUMN_READS_MAX: usize = 1 << 24;

/// Entries of all `number_of` tables at most: 64 MiB, however many lists there are.
const NUMBERS_MAX: usize = 1 << 24;

/// The bindings of one message: see the module's documentation. Its memory is reused for the next message.
#[derive(Debug, Default)]
pub(super) struct MessageBindings {
    /// By node.
    label_of: Vec<GuideNodeId>,
    /// By node: its rank among the elements of its label path.
    rank_of: Vec<u32>,
    by_label: Vec<Vec<NodeId>>,
    /// The label paths that the message has.
    touched: Vec<GuideNodeId>,
    /// By list: its bindings.
    bindings: Vec<Vec<NodeId>>,
    /// The lists that have bindings.
    active: Vec<BindingListId>,
    /// By list: `true` if its bindings have one label path, so that ranks are numbers.
    is_ranked: Vec<bool>,
    /// By list of several label paths, and by node that is one of its bindings: the binding's number. Empty if the
    /// tables would become too large; then numbers are found by binary search.
    number_of: Vec<Vec<u32>>,
    number_count: usize,
    /// By list: number of words of a set of its bindings.
    words: Vec<usize>,
    /// The conditions that bindings satisfy, by the ranges of [`ConditionIndex::range_of_list`], and the end of those
    /// of each list.
    satisfied: Vec<BindingConditionId>,
    satisfied_ends: Vec<u32>,
    /// By condition: see [`ConditionBindings::narrow`]. One more entry, which is never 0, stands for conditions that no
    /// query asks for.
    held: Vec<u64>,
    bits: Vec<u64>,
    stack: BranchStack,
    all: Vec<u64>,
    value_bytes: usize,
    values: ValueIndex,
    /// The values of a reading that are equal to constants; the bindings of the current strand above each of them; and
    /// the set of each binding alone.
    equal: Vec<(NodeId, ConditionRow)>,
    ancestors: Vec<NodeId>,
    sets: Vec<u64>,
    /// By condition: on how many messages it has held since [`Self::reserve`].
    match_counts: Vec<u32>,
}

impl MessageBindings {
    /// Prepares for the conditions of another index.
    pub fn reserve(&mut self, index: &ConditionIndex) {
        let conditions = index.condition_count();
        self.satisfied.clear();
        self.satisfied.resize(index.range_end(), BindingConditionId::from_u32(0));
        self.satisfied_ends.clear();
        let lists = (0..index.list_count()).map(BindingListId::new);
        self.satisfied_ends.extend(lists.map(|list| index.range_of_list(list).start as u32));
        self.held.clear();
        self.held.resize(conditions, 0);
        self.held.push(1);
        self.match_counts.clear();
        self.match_counts.resize(conditions, 0);
        self.stack.branches_visited = 0;
        self.values.clear();
    }

    /// Returns how many branches were tested since [`Self::reserve`].
    pub fn branches_visited(&self) -> u64 {
        self.stack.branches_visited
    }

    /// Returns, for each condition, the number of messages on which it has held since [`Self::reserve`].
    pub fn match_counts(&self) -> &[u32] {
        &self.match_counts
    }

    /// Returns the label paths by node.
    pub fn labels(&self) -> &[GuideNodeId] {
        &self.label_of
    }

    /// Returns the label paths that the message has.
    pub fn touched(&self) -> &[GuideNodeId] {
        &self.touched
    }

    /// Returns the number of elements of a label path.
    pub fn count(&self, label: GuideNodeId) -> usize {
        self.by_label[label.index()].len()
    }

    /// Returns the number of a binding of a list, in document order.
    #[inline(always)]
    pub fn number(&self, list: BindingListId, binding: NodeId) -> u32 {
        match self.numbers(list) {
            Some(numbers) => numbers[binding as usize],
            None => self.bindings(list).partition_point(|&other| other < binding) as u32,
        }
    }

    /// Returns the numbers of the bindings of a list by node, or `None` if there is no table of them.
    #[inline(always)]
    fn numbers(&self, list: BindingListId) -> Option<&[u32]> {
        let numbers = if self.is_ranked[list.index()] { &self.rank_of } else { &self.number_of[list.index()] };
        Some(&numbers[..]).filter(|numbers| !numbers.is_empty())
    }

    /// Returns the bindings of a list, in document order.
    pub fn bindings(&self, list: BindingListId) -> &[NodeId] {
        &self.bindings[list.index()]
    }

    /// Finds the label path of each element. Returns `false` if the guide has too many.
    pub fn find_labels(&mut self, message: Message<'_>, guide: &mut DataGuide) -> bool {
        for &label in &self.touched {
            let same = &mut self.by_label[label.index()];
            same.clear();
            // Any label path may be that of most elements of some message: do not keep memory for all of them.
            same.shrink_to(BINDINGS_MAX);
        }
        self.touched.clear();
        let nodes = &message.document.nodes;
        self.label_of.clear();
        self.label_of.resize(nodes.len(), ROOT);
        self.rank_of.resize(nodes.len(), 0);
        for (id, node) in nodes.iter().enumerate().skip(1) {
            if node.kind != NodeKind::Element {
                continue;
            }
            let Some(label) = guide.child(self.label_of[node.parent as usize], node.name) else { return false };
            self.label_of[id] = label;
            if self.by_label.len() <= label.index() {
                self.by_label.resize_with(label.index() + 1, Vec::new);
            }
            let same = &mut self.by_label[label.index()];
            if same.is_empty() {
                self.touched.push(label);
            }
            self.rank_of[id] = same.len() as u32;
            same.push(id as NodeId);
        }
        true
    }

    /// Clears the conditions that the previous message satisfied.
    fn forget_satisfied(&mut self, index: &ConditionIndex) {
        for &list in &self.active {
            let Some(end) = self.satisfied_ends.get_mut(list.index()) else { continue };
            let start = index.range_of_list(list).start;
            for &condition in &self.satisfied[start..*end as usize] {
                self.held[condition.index()] = 0;
                self.match_counts[condition.index()] = self.match_counts[condition.index()].saturating_add(1);
            }
            *end = start as u32;
        }
    }

    /// Finds the bindings of all lists. Returns `false` if one has too many.
    pub fn bind(&mut self, resolution: &PathResolution, index: &ConditionIndex, message: Message<'_>) -> bool {
        self.forget_satisfied(index);
        for &list in &self.active {
            self.bindings[list.index()].clear();
        }
        self.active.clear();
        let lists = resolution.lists.len().max(self.bindings.len());
        self.bindings.resize_with(lists, Vec::new);
        self.number_of.resize_with(lists, Vec::new);
        self.is_ranked.resize(lists, false);
        self.words.resize(lists, 0);
        for &label in &self.touched {
            for &list in resolution.lists_of_label.get(label.index()).into_iter().flatten() {
                let bindings = &mut self.bindings[list.index()];
                let more = &self.by_label[label.index()];
                if bindings.len() + more.len() > BINDINGS_MAX {
                    return false;
                }
                if bindings.is_empty() {
                    self.active.push(list);
                }
                bindings.extend_from_slice(more);
            }
        }
        for &list in &self.active {
            self.words[list.index()] = self.bindings[list.index()].len().div_ceil(u64::BITS as usize);
            self.is_ranked[list.index()] = resolution.lists[list.index()].labels.len() == 1;
        }
        self.number_bindings(message.document.nodes.len());
        true
    }

    /// Gives numbers to the bindings of lists of several label paths, in document order.
    fn number_bindings(&mut self, nodes: usize) {
        let has_own = |list: &&BindingListId| !self.is_ranked[list.index()];
        let lengths = self.active.iter().filter(has_own).map(|&list| self.number_of[list.index()].len());
        let (used, more) = lengths.fold((0, 0), |(used, more), len| (used + len, more + nodes.saturating_sub(len)));
        if self.number_count + more > NUMBERS_MAX && used < self.number_count / 2 {
            // Most entries belong to lists without bindings on this message.
            self.number_of.iter_mut().for_each(|numbers| *numbers = Vec::new());
            self.number_count = 0;
        }
        for &list in self.active.iter().filter(has_own) {
            let bindings = &mut self.bindings[list.index()];
            bindings.sort_unstable();
            let number_of = &mut self.number_of[list.index()];
            let len = number_of.len().max(nodes);
            self.number_count -= number_of.len();
            if self.number_count + len > NUMBERS_MAX {
                *number_of = Vec::new();
                continue;
            }
            self.number_count += len;
            number_of.resize(len, 0);
            for (number, &node) in (0..).zip(&*bindings) {
                number_of[node as usize] = number;
            }
        }
    }

    /// Finds the set of bindings of each condition. Returns `false` if that exceeds the limits.
    pub fn compare(
        &mut self,
        resolution: &PathResolution,
        index: &ConditionIndex,
        interner: &Interner,
        message: Message<'_>,
    ) -> bool {
        self.bits.clear();
        self.value_bytes = 0;
        let bytes_max = VALUE_BYTES_MAX + 4 * message.source.len();
        let mut visits = 0;
        for number in 0..self.touched.len() {
            let label = self.touched[number];
            for reading in resolution.readings.get(label.index()).into_iter().flatten() {
                if !self.read(reading, label, (index, interner), message, bytes_max) {
                    return false;
                }
                visits += self.equal.len() * resolution.strands.column_count(reading.strands);
                if visits > COLUMN_READS_MAX {
                    return false;
                }
                if !self.equal.is_empty() {
                    self.add_satisfied(resolution, reading, index, message);
                }
            }
        }
        true
    }

    /// Finds the constants that the values of a label path are equal to. Returns `false` if the values read so far have
    /// more than `bytes_max` bytes.
    fn read(
        &mut self,
        reading: &ValueColumn,
        label: GuideNodeId,
        (index, interner): (&ConditionIndex, &Interner),
        message: Message<'_>,
        bytes_max: usize,
    ) -> bool {
        let Self { by_label, equal, values, value_bytes, .. } = self;
        equal.clear();
        let mut note = |node: NodeId, EqualRows { text, number }: EqualRows| {
            equal.extend(text.map(|row| (node, row)));
            equal.extend(number.map(|row| (node, row)));
        };
        let find = |value: &str| EqualRows::of(value, index, interner);
        for &node in &by_label[label.index()] {
            match reading.attribute {
                None => match plain_value(message, node) {
                    Some(span) => {
                        *value_bytes += (span.end - span.start) as usize;
                        note(node, values.equal((message.source, span), find));
                    }
                    None => {
                        let value = message.string_value(node);
                        *value_bytes += value.len();
                        note(node, find(&value));
                    }
                },
                Some(test) => {
                    let attributes = message.document.attributes_of(node).iter();
                    for attribute in attributes.filter(|attribute| test.accepts(attribute.name)) {
                        if attribute.encoded {
                            let value = message.attribute_value(attribute);
                            *value_bytes += value.len();
                            note(node, find(&value));
                        } else {
                            let span = attribute.value;
                            *value_bytes += (span.end - span.start) as usize;
                            note(node, values.equal((message.source, span), find));
                        }
                    }
                }
            }
            if *value_bytes > bytes_max {
                return false;
            }
        }
        true
    }

    /// Adds the conditions that the values of a reading satisfy.
    fn add_satisfied(
        &mut self,
        resolution: &PathResolution,
        reading: &ValueColumn,
        index: &ConditionIndex,
        message: Message<'_>,
    ) {
        let nodes = &message.document.nodes;
        self.ancestors.clear();
        self.ancestors.extend(self.equal.iter().map(|&(node, _)| node));
        let mut up = 0;
        for strand in resolution.strands.get(reading.strands) {
            while up < strand.up {
                self.ancestors.iter_mut().for_each(|node| *node = nodes[*node as usize].parent);
                up += 1;
            }
            let columns = resolution.strands.columns(strand);
            if self.words[strand.list.index()] > 1 {
                self.add_wide(strand, columns, index);
                continue;
            }
            match index.matrix() {
                Some(matrix) => self.add_narrow(strand, columns, index, |row, column| matrix[row.position(column)]),
                None => self.add_narrow(strand, columns, index, |row, column| index.condition_at(row, column)),
            }
        }
    }

    /// Adds the conditions of columns whose sets of bindings take one word. Whether a condition was satisfied before
    /// cannot be predicted, so the loop has no jump for it.
    #[inline]
    fn add_narrow(
        &mut self,
        strand: &ColumnStrand,
        columns: &[BindingColumnId],
        index: &ConditionIndex,
        condition_at: impl Fn(ConditionRow, BindingColumnId) -> BindingConditionId,
    ) {
        let list = strand.list.index();
        let mut sets = std::mem::take(&mut self.sets);
        sets.clear();
        match self.numbers(strand.list) {
            Some(numbers) => {
                sets.extend(self.ancestors.iter().map(|&node| 1_u64 << (numbers[node as usize] % u64::BITS)))
            }
            None => {
                sets.extend(self.ancestors.iter().map(|&node| 1_u64 << (self.number(strand.list, node) % u64::BITS)))
            }
        }
        let Self { satisfied, satisfied_ends, held, equal, .. } = self;
        let words = index.range_of_list(strand.list);
        let mut end = satisfied_ends[list] as usize - words.start;
        let satisfied = &mut satisfied[words.clone()];
        for &column in columns {
            for (&(_, row), set) in equal.iter().zip(&sets) {
                let condition = condition_at(row, column);
                let held = &mut held[condition.index()];
                satisfied[end] = condition;
                end += usize::from(*held == 0);
                *held |= set;
            }
        }
        satisfied_ends[list] = (words.start + end) as u32;
        self.sets = sets;
    }

    /// Adds the conditions of columns whose sets take several words.
    fn add_wide(&mut self, strand: &ColumnStrand, columns: &[BindingColumnId], index: &ConditionIndex) {
        let (list, words) = (strand.list.index(), self.words[strand.list.index()]);
        for (&(_, row), &node) in self.equal.iter().zip(&self.ancestors) {
            let number = self.number(strand.list, node) as usize;
            for &column in columns {
                let condition = index.condition_at(row, column);
                if condition.index() == index.condition_count() {
                    continue;
                }
                let position = &mut self.held[condition.index()];
                if *position == 0 {
                    *position = self.bits.len() as u64 + 1;
                    self.bits.resize(self.bits.len() + words, 0);
                    let end = &mut self.satisfied_ends[list];
                    self.satisfied[*end as usize] = condition;
                    *end += 1;
                }
                self.bits[*position as usize - 1 + number / 64] |= 1 << (number % 64);
            }
        }
    }

    /// Calls back, list by list, with queries that have the same conditions and with the set of bindings that satisfy
    /// them.
    pub fn walk(&mut self, index: &ConditionIndex, mut matched: impl FnMut(&Self, BindingListId, &[u64], MemberRange)) {
        let (mut stack, mut all) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.all));
        for &list in &self.active {
            let members = index.unconditional(list);
            if members.0 < members.1 {
                fill(&mut all, self.bindings(list).len());
                matched(self, list, &all, members);
            }
            let held = ConditionBindings { words: self.words[list.index()], narrow: &self.held, bits: &self.bits };
            let satisfied = index.range_of_list(list).start..self.satisfied_ends[list.index()] as usize;
            index.walk(&self.satisfied[satisfied], held, &mut stack, |set, members| {
                matched(self, list, set, members);
            });
        }
        (self.stack, self.all) = (stack, all);
    }
}

/// Returns the span of the message that is the value of an element, or `None` if the value is no span.
#[inline]
fn plain_value(message: Message<'_>, element: NodeId) -> Option<ByteRange> {
    let nodes = &message.document.nodes;
    let node = &nodes[element as usize];
    match node.end - element {
        1 => Some(ByteRange { start: node.content_start, end: node.content_start }),
        2 => {
            let only = &nodes[element as usize + 1];
            (only.kind == NodeKind::Text && !only.encoded).then_some(only.span)
        }
        _ => None,
    }
}
