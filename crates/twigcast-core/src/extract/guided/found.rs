//! What is found on the message in hand: bindings, and which of them satisfy which conditions.

use crate::document::{Message, NodeId, NodeKind};
use crate::eval::number;

use super::super::family::Interner;
use super::guide::{LabelId, Labels, ListId, Meaning, ROOT, Reading};
use super::selector::{ConditionId, Members, Row, Selector, Stack};
use super::sets::fill;

/// Bindings of one path at most.
const BINDINGS_MAX: usize = 1024;

/// Bytes of values that are compared, beyond a few times those of the message.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Columns that are looked at for values, at most in one message. Where elements nest deeply in themselves, each node lies
/// below very many bindings.
const LOOKS_MAX: usize = 1 << 24;

/// Numbers of bindings that are kept by node, at most: 64 MiB, however many lists there are.
const NUMBERS_MAX: usize = 1 << 24;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By node.
    label_of: Vec<u32>,
    /// By node: its number among the elements of its label path.
    rank_of: Vec<u32>,
    by_label: Vec<Vec<NodeId>>,
    touched: Vec<u32>,
    /// The bindings of each list, and which lists have any.
    bindings: Vec<Vec<NodeId>>,
    active: Vec<ListId>,
    /// By list: are its bindings all elements of one label path?
    is_ranked: Vec<bool>,
    /// By list of several label paths and node, where it is one of its bindings: its number among them. Nothing where that
    /// would make too many numbers, which are looked for then.
    number_of: Vec<Vec<u32>>,
    number_count: usize,
    /// By list: how many words a set of its bindings takes.
    words: Vec<usize>,
    /// By list: the conditions that bindings satisfy.
    satisfied: Vec<Vec<ConditionId>>,
    /// By condition: the set of the bindings that satisfy it, if it takes one word; else where it begins in `bits`, from 1;
    /// 0 if none does. The last is what is written to in place of a condition that there is not; it is never 0.
    held: Vec<u64>,
    bits: Vec<u64>,
    stack: Stack,
    all: Vec<u64>,
    value_bytes: usize,
    /// Columns looked at for values.
    looks: usize,
    /// By condition: on how many messages it held, since there was made room.
    often: Vec<u32>,
}

impl Found {
    /// Makes room for so many conditions.
    pub fn make_room(&mut self, conditions: usize) {
        self.satisfied.iter_mut().for_each(Vec::clear);
        self.held.clear();
        self.held.resize(conditions, 0);
        self.held.push(1);
        self.often.clear();
        self.often.resize(conditions, 0);
        self.stack.looks = 0;
    }

    /// How many branches were looked at since there was made room.
    pub fn branch_looks(&self) -> u64 {
        self.stack.looks
    }

    /// By condition: on how many messages it held since.
    pub fn how_often(&self) -> &[u32] {
        &self.often
    }

    /// By node: the number of its label path.
    pub fn labels(&self) -> &[LabelId] {
        &self.label_of
    }

    /// The label paths of the elements of the message.
    pub fn touched(&self) -> &[LabelId] {
        &self.touched
    }

    /// How many elements have a label path.
    pub fn count(&self, label: LabelId) -> usize {
        self.by_label[label as usize].len()
    }

    /// The number of a binding of a list among them.
    #[inline]
    pub fn number(&self, list: ListId, binding: NodeId) -> u32 {
        if self.is_ranked[list as usize] {
            return self.rank_of[binding as usize];
        }
        match self.number_of[list as usize].get(binding as usize) {
            Some(&number) => number,
            None => self.bindings(list).partition_point(|&other| other < binding) as u32,
        }
    }

    /// The bindings of a list, in document order.
    pub fn bindings(&self, list: ListId) -> &[NodeId] {
        &self.bindings[list as usize]
    }

    /// Tells the label path of each element; `false`: there are too many.
    pub fn label(&mut self, message: Message<'_>, labels: &mut Labels) -> bool {
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

    /// Finds the bindings of all lists; `false`: one has too many.
    pub fn bind(&mut self, meaning: &Meaning, message: Message<'_>) -> bool {
        for &list in &self.active {
            self.bindings[list as usize].clear();
            for condition in self.satisfied[list as usize].drain(..) {
                self.held[condition as usize] = 0;
                self.often[condition as usize] = self.often[condition as usize].saturating_add(1);
            }
        }
        self.active.clear();
        let lists = meaning.lists.len().max(self.bindings.len());
        self.bindings.resize_with(lists, Vec::new);
        self.number_of.resize_with(lists, Vec::new);
        self.is_ranked.resize(lists, false);
        self.satisfied.resize_with(lists, Vec::new);
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
        let has_own = |list: &&ListId| !self.is_ranked[**list as usize];
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
        meaning: &Meaning,
        selector: &Selector,
        interner: &Interner,
        message: Message<'_>,
    ) -> bool {
        self.bits.clear();
        self.value_bytes = 0;
        self.looks = 0;
        let most = VALUE_BYTES_MAX + 4 * message.source.len();
        let touched = std::mem::take(&mut self.touched);
        let is_done = touched.iter().all(|&label| {
            let nodes = std::mem::take(&mut self.by_label[label as usize]);
            let mut readings = meaning.readings.get(label as usize).into_iter().flatten();
            let is_done = readings.all(|reading| {
                nodes.iter().all(|&node| {
                    self.read((meaning, reading), node, (selector, interner), message);
                    self.value_bytes <= most && self.looks <= LOOKS_MAX
                })
            });
            self.by_label[label as usize] = nodes;
            is_done
        });
        self.touched = touched;
        is_done
    }

    /// Notes what the value of an element, or those of its attributes, are equal to.
    fn read(
        &mut self,
        (meaning, reading): (&Meaning, &Reading),
        node: NodeId,
        known: (&Selector, &Interner),
        message: Message<'_>,
    ) {
        let mut note = |value: &str| self.note((meaning, reading), node, value, known, message);
        match reading.attribute {
            None => note(&message.string_value(node)),
            Some(test) => {
                for attribute in message.document.attributes_of(node) {
                    if test.accepts(attribute.name) {
                        note(&message.attribute_value(attribute));
                    }
                }
            }
        }
    }

    fn note(
        &mut self,
        known: (&Meaning, &Reading),
        node: NodeId,
        value: &str,
        (selector, interner): (&Selector, &Interner),
        message: Message<'_>,
    ) {
        self.value_bytes += value.len();
        if let Some(row) = interner.text(value).and_then(|constant| selector.row(constant)) {
            self.note_row(known, node, (selector, row), message);
        }
        if interner.has_numbers()
            && let Some(row) = interner.number(number::parse(value)).and_then(|constant| selector.row(constant))
        {
            self.note_row(known, node, (selector, row), message);
        }
    }

    /// Notes the conditions that are satisfied by a value's being equal to the constant of a row.
    fn note_row(
        &mut self,
        (meaning, reading): (&Meaning, &Reading),
        mut node: NodeId,
        (selector, row): (&Selector, Row),
        message: Message<'_>,
    ) {
        self.looks += meaning.strands.column_count(reading.strands);
        let conditions = selector.conditions(row);
        let mut up = 0;
        for strand in meaning.strands.get(reading.strands) {
            while up < strand.up {
                node = message.document.nodes[node as usize].parent;
                up += 1;
            }
            let columns = meaning.strands.columns(strand);
            let number = self.number(strand.list, node);
            let satisfied = &mut self.satisfied[strand.list as usize];
            let words = self.words[strand.list as usize];
            if words == 1 {
                let mut count = satisfied.len();
                satisfied.resize(count + columns.len(), 0);
                for &column in columns {
                    let condition = conditions.get(column);
                    let held = &mut self.held[condition as usize];
                    satisfied[count] = condition;
                    count += usize::from(*held == 0);
                    *held |= 1 << number;
                }
                satisfied.truncate(count);
                continue;
            }
            for &column in columns {
                let condition = conditions.get(column);
                if condition as usize == selector.condition_count() {
                    continue;
                }
                let place = &mut self.held[condition as usize];
                if *place == 0 {
                    *place = self.bits.len() as u64 + 1;
                    self.bits.resize(self.bits.len() + words, 0);
                    satisfied.push(condition);
                }
                self.bits[*place as usize - 1 + number as usize / 64] |= 1 << (number % 64);
            }
        }
    }

    /// Calls back with queries that have the same conditions, and the list and set of bindings that they match with; list
    /// by list.
    pub fn walk(&mut self, selector: &Selector, mut matched: impl FnMut(&Self, ListId, &[u64], Members)) {
        let (mut stack, mut all) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.all));
        for &list in &self.active {
            let members = selector.unconditional(list);
            if members.0 < members.1 {
                fill(&mut all, self.bindings(list).len());
                matched(self, list, &all, members);
            }
            let held = Held { words: self.words[list as usize], narrow: &self.held, bits: &self.bits };
            selector.walk(&self.satisfied[list as usize], held, &mut stack, |set, members| {
                matched(self, list, set, members);
            });
        }
        (self.stack, self.all) = (stack, all);
    }
}

/// The sets of bindings that satisfy the conditions of a list.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    /// How many words a set takes.
    pub words: usize,
    /// By condition, where it is one.
    pub narrow: &'a [u64],
    bits: &'a [u64],
}

impl<'a> Held<'a> {
    /// The bindings that satisfy a condition, where sets take several words; `None`: no binding does.
    #[inline]
    pub fn wide(self, condition: ConditionId) -> Option<&'a [u64]> {
        let place = (self.narrow[condition as usize] as usize).checked_sub(1)?;
        Some(&self.bits[place..place + self.words])
    }
}
