//! What is found on the message in hand: bindings, and which of them satisfy which conditions.

use crate::document::{ByteRange, Message, NodeId, NodeKind};

use super::super::program::family::Interner;
use super::binding_sets::fill;
use super::condition_index::{
    BindingConditionId, BranchStack, ConditionBindings, ConditionIndex, ConditionRow, MemberRange,
};
use super::data_guide::{
    BindingColumnId, BindingListId, ColumnStrand, DataGuide, GuideNodeId, PathResolution, ROOT, ValueColumn,
};
use super::value_index::{EqualRows, ValueIndex};

/// Bindings of one path at most.
const BINDINGS_MAX: usize = 1024;

/// Bytes of values that are compared, beyond a few times those of the message.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Columns that are looked at for values, at most in one message. Where elements nest deeply in themselves, each node lies
/// below very many bindings.
const COLUMN_READS_MAX: usize = 1 << 24;

/// Numbers of bindings that are kept by node, at most: 64 MiB, however many lists there are.
const NUMBERS_MAX: usize = 1 << 24;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct MessageBindings {
    /// By node.
    label_of: Vec<u32>,
    /// By node: its number among the elements of its label path.
    rank_of: Vec<u32>,
    by_label: Vec<Vec<NodeId>>,
    touched: Vec<u32>,
    /// The bindings of each list, and which lists have any.
    bindings: Vec<Vec<NodeId>>,
    active: Vec<BindingListId>,
    /// By list: are its bindings all elements of one label path?
    is_ranked: Vec<bool>,
    /// By list of several label paths and node, where it is one of its bindings: its number among them. Nothing where that
    /// would make too many numbers, which are looked for then.
    number_of: Vec<Vec<u32>>,
    number_count: usize,
    /// By list: how many words a set of its bindings takes.
    words: Vec<usize>,
    /// The conditions that bindings satisfy, with room for all of each list and one more; and where those of each list end.
    satisfied: Vec<BindingConditionId>,
    satisfied_ends: Vec<u32>,
    /// By condition: the set of the bindings that satisfy it, if it takes one word; else where it begins in `bits`, from 1;
    /// 0 if none does. The last is what is written to in place of a condition that there is not; it is never 0.
    held: Vec<u64>,
    bits: Vec<u64>,
    stack: BranchStack,
    all: Vec<u64>,
    value_bytes: usize,
    values: ValueIndex,
    /// The values of a reading that are equal to constants; where their bindings are, for the strand in hand; and the set of
    /// each.
    equal: Vec<(NodeId, ConditionRow)>,
    at: Vec<NodeId>,
    sets: Vec<u64>,
    /// By condition: on how many messages it held, since there was made room.
    often: Vec<u32>,
}

impl MessageBindings {
    /// Makes room for the conditions of a selector.
    pub fn reserve(&mut self, selector: &ConditionIndex) {
        let conditions = selector.condition_count();
        self.satisfied.clear();
        self.satisfied.resize(selector.set_words(), 0);
        self.satisfied_ends.clear();
        self.satisfied_ends
            .extend((0..selector.list_count() as BindingListId).map(|list| selector.words_of_list(list).start as u32));
        self.held.clear();
        self.held.resize(conditions, 0);
        self.held.push(1);
        self.often.clear();
        self.often.resize(conditions, 0);
        self.stack.branches_visited = 0;
        self.values.clear();
    }

    /// How many branches were looked at since there was made room.
    pub fn branches_visited(&self) -> u64 {
        self.stack.branches_visited
    }

    /// By condition: on how many messages it held since.
    pub fn how_often(&self) -> &[u32] {
        &self.often
    }

    /// By node: the number of its label path.
    pub fn labels(&self) -> &[GuideNodeId] {
        &self.label_of
    }

    /// The label paths of the elements of the message.
    pub fn touched(&self) -> &[GuideNodeId] {
        &self.touched
    }

    /// How many elements have a label path.
    pub fn count(&self, label: GuideNodeId) -> usize {
        self.by_label[label as usize].len()
    }

    /// The number of a binding of a list among them.
    #[inline(always)]
    pub fn number(&self, list: BindingListId, binding: NodeId) -> u32 {
        match self.numbers(list) {
            Some(numbers) => numbers[binding as usize],
            None => self.bindings(list).partition_point(|&other| other < binding) as u32,
        }
    }

    /// By node, where it is a binding of a list: its number among them. `None`: they have to be looked for.
    #[inline(always)]
    fn numbers(&self, list: BindingListId) -> Option<&[u32]> {
        let numbers = if self.is_ranked[list as usize] { &self.rank_of } else { &self.number_of[list as usize] };
        Some(&numbers[..]).filter(|numbers| !numbers.is_empty())
    }

    /// The bindings of a list, in document order.
    pub fn bindings(&self, list: BindingListId) -> &[NodeId] {
        &self.bindings[list as usize]
    }

    /// Tells the label path of each element; `false`: there are too many.
    pub fn label(&mut self, message: Message<'_>, labels: &mut DataGuide) -> bool {
        for &label in &self.touched {
            let same = &mut self.by_label[label as usize];
            same.clear();
            // Each label path may be that of most elements on some message: then not all keep their room.
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
            let Some(label) = labels.child(self.label_of[node.parent as usize], node.name) else { return false };
            self.label_of[id] = label;
            if self.by_label.len() <= label as usize {
                self.by_label.resize_with(label as usize + 1, Vec::new);
            }
            let same = &mut self.by_label[label as usize];
            if same.is_empty() {
                self.touched.push(label);
            }
            self.rank_of[id] = same.len() as u32;
            same.push(id as NodeId);
        }
        true
    }

    /// Forgets which conditions were satisfied.
    fn forget_satisfied(&mut self, selector: &ConditionIndex) {
        for &list in &self.active {
            let Some(end) = self.satisfied_ends.get_mut(list as usize) else { continue };
            let start = selector.words_of_list(list).start;
            for &condition in &self.satisfied[start..*end as usize] {
                self.held[condition as usize] = 0;
                self.often[condition as usize] = self.often[condition as usize].saturating_add(1);
            }
            *end = start as u32;
        }
    }

    /// Finds the bindings of all lists; `false`: one has too many.
    pub fn bind(&mut self, meaning: &PathResolution, selector: &ConditionIndex, message: Message<'_>) -> bool {
        self.forget_satisfied(selector);
        for &list in &self.active {
            self.bindings[list as usize].clear();
        }
        self.active.clear();
        let lists = meaning.lists.len().max(self.bindings.len());
        self.bindings.resize_with(lists, Vec::new);
        self.number_of.resize_with(lists, Vec::new);
        self.is_ranked.resize(lists, false);
        self.words.resize(lists, 0);
        for &label in &self.touched {
            for &list in meaning.lists_of_label.get(label as usize).into_iter().flatten() {
                let bindings = &mut self.bindings[list as usize];
                let more = &self.by_label[label as usize];
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
            self.words[list as usize] = self.bindings[list as usize].len().div_ceil(u64::BITS as usize);
            self.is_ranked[list as usize] = meaning.lists[list as usize].labels.len() == 1;
        }
        self.number_bindings(message.document.nodes.len());
        true
    }

    /// Numbers the bindings of lists of several label paths.
    fn number_bindings(&mut self, nodes: usize) {
        let has_own = |list: &&BindingListId| !self.is_ranked[**list as usize];
        let lengths = self.active.iter().filter(has_own).map(|&list| self.number_of[list as usize].len());
        let (kept, more) = lengths.fold((0, 0), |(kept, more), len| (kept + len, more + nodes.saturating_sub(len)));
        if self.number_count + more > NUMBERS_MAX && kept < self.number_count / 2 {
            // Most are of lists that have no bindings on this message.
            self.number_of.iter_mut().for_each(|numbers| *numbers = Vec::new());
            self.number_count = 0;
        }
        for &list in self.active.iter().filter(has_own) {
            let bindings = &mut self.bindings[list as usize];
            bindings.sort_unstable();
            let number_of = &mut self.number_of[list as usize];
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

    /// Finds the set of bindings of each condition; `false`: that takes too much.
    pub fn compare(
        &mut self,
        meaning: &PathResolution,
        selector: &ConditionIndex,
        interner: &Interner,
        message: Message<'_>,
    ) -> bool {
        self.bits.clear();
        self.value_bytes = 0;
        let most = VALUE_BYTES_MAX + 4 * message.source.len();
        let mut visits = 0;
        for number in 0..self.touched.len() {
            let label = self.touched[number];
            for reading in meaning.readings.get(label as usize).into_iter().flatten() {
                if !self.read(reading, label, (selector, interner), message, most) {
                    return false;
                }
                visits += self.equal.len() * meaning.strands.column_count(reading.strands);
                if visits > COLUMN_READS_MAX {
                    return false;
                }
                if !self.equal.is_empty() {
                    self.note(meaning, reading, selector, message);
                }
            }
        }
        true
    }

    /// Finds what the values of the elements of a label path, or of their attributes, are equal to; `false`: they have more
    /// than `most` bytes.
    fn read(
        &mut self,
        reading: &ValueColumn,
        label: GuideNodeId,
        (selector, interner): (&ConditionIndex, &Interner),
        message: Message<'_>,
        most: usize,
    ) -> bool {
        let Self { by_label, equal, values, value_bytes, .. } = self;
        equal.clear();
        let mut note = |node: NodeId, EqualRows { text, number }: EqualRows| {
            equal.extend(text.map(|row| (node, row)));
            equal.extend(number.map(|row| (node, row)));
        };
        let find = |value: &str| EqualRows::to(value, selector, interner);
        for &node in &by_label[label as usize] {
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
            if *value_bytes > most {
                return false;
            }
        }
        true
    }

    /// Notes the conditions that are satisfied by the values of a reading.
    fn note(
        &mut self,
        meaning: &PathResolution,
        reading: &ValueColumn,
        selector: &ConditionIndex,
        message: Message<'_>,
    ) {
        let nodes = &message.document.nodes;
        self.at.clear();
        self.at.extend(self.equal.iter().map(|&(node, _)| node));
        let mut up = 0;
        for strand in meaning.strands.get(reading.strands) {
            while up < strand.up {
                self.at.iter_mut().for_each(|node| *node = nodes[*node as usize].parent);
                up += 1;
            }
            let columns = meaning.strands.columns(strand);
            if self.words[strand.list as usize] > 1 {
                self.note_wide(strand, columns, selector);
                continue;
            }
            match selector.table() {
                Some(table) => self.note_narrow(strand, columns, selector, |row, column| table[row.position(column)]),
                None => self.note_narrow(strand, columns, selector, |row, column| selector.condition_at(row, column)),
            }
        }
    }

    /// Notes them for columns whose sets of bindings take one word. Nearly each condition may or may not be satisfied by
    /// another value, so there is no jump for that.
    #[inline]
    fn note_narrow(
        &mut self,
        strand: &ColumnStrand,
        columns: &[BindingColumnId],
        selector: &ConditionIndex,
        condition_at: impl Fn(ConditionRow, BindingColumnId) -> BindingConditionId,
    ) {
        let list = strand.list as usize;
        let mut sets = std::mem::take(&mut self.sets);
        sets.clear();
        match self.numbers(strand.list) {
            Some(numbers) => sets.extend(self.at.iter().map(|&node| 1_u64 << (numbers[node as usize] % u64::BITS))),
            None => sets.extend(self.at.iter().map(|&node| 1_u64 << (self.number(strand.list, node) % u64::BITS))),
        }
        let Self { satisfied, satisfied_ends, held, equal, .. } = self;
        let words = selector.words_of_list(strand.list);
        let mut end = satisfied_ends[list] as usize - words.start;
        let satisfied = &mut satisfied[words.clone()];
        for &column in columns {
            for (&(_, row), set) in equal.iter().zip(&sets) {
                let condition = condition_at(row, column);
                let held = &mut held[condition as usize];
                satisfied[end] = condition;
                end += usize::from(*held == 0);
                *held |= set;
            }
        }
        satisfied_ends[list] = (words.start + end) as u32;
        self.sets = sets;
    }

    /// The same where sets take several words.
    fn note_wide(&mut self, strand: &ColumnStrand, columns: &[BindingColumnId], selector: &ConditionIndex) {
        let (list, words) = (strand.list as usize, self.words[strand.list as usize]);
        for (&(_, row), &node) in self.equal.iter().zip(&self.at) {
            let number = self.number(strand.list, node) as usize;
            for &column in columns {
                let condition = selector.condition_at(row, column);
                if condition as usize == selector.condition_count() {
                    continue;
                }
                let position = &mut self.held[condition as usize];
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

    /// Calls back with queries that have the same conditions, and the list and set of bindings that they match with; list
    /// by list.
    pub fn walk(
        &mut self,
        selector: &ConditionIndex,
        mut matched: impl FnMut(&Self, BindingListId, &[u64], MemberRange),
    ) {
        let (mut stack, mut all) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.all));
        for &list in &self.active {
            let members = selector.unconditional(list);
            if members.0 < members.1 {
                fill(&mut all, self.bindings(list).len());
                matched(self, list, &all, members);
            }
            let held = ConditionBindings { words: self.words[list as usize], narrow: &self.held, bits: &self.bits };
            let satisfied = selector.words_of_list(list).start..self.satisfied_ends[list as usize] as usize;
            selector.walk(&self.satisfied[satisfied], held, &mut stack, |set, members| {
                matched(self, list, set, members);
            });
        }
        (self.stack, self.all) = (stack, all);
    }
}

/// Where the value of an element stands in the message as it is; `None`: in no one place.
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
