//! What is found on the message in hand: bindings, and which of them satisfy which conditions.

use crate::document::{Message, NodeId, NodeKind};
use crate::eval::number;

use super::super::family::{Interner, NONE};
use super::guide::{Column, Labels, ListId, Meaning, ROOT, Reading};
use super::prepared::reached;
use super::selector::{ConditionId, Members, Row, Selector};
use super::sets::fill;

/// Bindings of one path at most.
const BINDINGS_MAX: usize = 1024;

/// Bytes of values that are compared, beyond a few times those of the message.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// Columns that are looked at for values, and steps from nodes up to bindings, at most in one message. Where elements nest
/// deeply in themselves, each node lies below very many bindings.
const LOOKS_MAX: usize = 1 << 24;
pub(super) const STEPS_MAX: usize = 1 << 24;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By node.
    label_of: Vec<u32>,
    by_label: Vec<Vec<NodeId>>,
    touched: Vec<u32>,
    /// The bindings of each list, and which lists have any.
    bindings: Vec<Vec<NodeId>>,
    active: Vec<ListId>,
    /// By list and node, where it is one of its bindings: its number among them.
    number_of: Vec<Vec<u32>>,
    /// By list: how many words a set of its bindings takes.
    words: Vec<usize>,
    /// By list: the conditions that bindings satisfy.
    satisfied: Vec<Vec<ConditionId>>,
    /// By condition: where the set of the bindings that satisfy it begins in `bits`; [`NONE`] where none does.
    place_of: Vec<u32>,
    bits: Vec<u64>,
    stack: Vec<u64>,
    value_bytes: usize,
    /// Columns looked at for values.
    looks: usize,
}

impl Found {
    /// Makes room for so many conditions.
    pub fn make_room(&mut self, conditions: usize) {
        self.satisfied.iter_mut().for_each(Vec::clear);
        self.place_of.clear();
        self.place_of.resize(conditions, NONE);
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
            same.push(id as NodeId);
        }
        true
    }

    /// Finds the bindings of all lists; `false`: one has too many.
    pub fn bind(&mut self, meaning: &Meaning, message: Message<'_>) -> bool {
        for &list in &self.active {
            self.bindings[list as usize].clear();
            for condition in self.satisfied[list as usize].drain(..) {
                self.place_of[condition as usize] = NONE;
            }
        }
        self.active.clear();
        let lists = meaning.lists.len().max(self.bindings.len());
        self.bindings.resize_with(lists, Vec::new);
        self.number_of.resize_with(lists, Vec::new);
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
            let bindings = &mut self.bindings[list as usize];
            if meaning.lists[list as usize].labels.len() > 1 {
                bindings.sort_unstable();
            }
            self.words[list as usize] = bindings.len().div_ceil(u64::BITS as usize);
            let number_of = &mut self.number_of[list as usize];
            number_of.resize(number_of.len().max(message.document.nodes.len()), 0);
            for (number, &node) in (0..).zip(&*bindings) {
                number_of[node as usize] = number;
            }
        }
        true
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
                    self.read(reading, node, (selector, interner), message);
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
    fn read(&mut self, reading: &Reading, node: NodeId, known: (&Selector, &Interner), message: Message<'_>) {
        match reading.attribute {
            None => self.note(reading, node, &message.string_value(node), known, message),
            Some(test) => {
                for attribute in message.document.attributes_of(node) {
                    if test.accepts(attribute.name) {
                        self.note(reading, node, &message.attribute_value(attribute), known, message);
                    }
                }
            }
        }
    }

    fn note(
        &mut self,
        reading: &Reading,
        node: NodeId,
        value: &str,
        (selector, interner): (&Selector, &Interner),
        message: Message<'_>,
    ) {
        self.value_bytes += value.len();
        let number = if interner.has_numbers() { interner.number(number::parse(value)) } else { None };
        let rows = [interner.text(value), number].map(|constant| selector.row(constant?));
        for row in rows.into_iter().flatten() {
            self.note_row(reading, node, (selector, row), message);
        }
    }

    /// Notes the conditions that are satisfied by a value's being equal to the constant of a row.
    fn note_row(
        &mut self,
        reading: &Reading,
        mut node: NodeId,
        (selector, row): (&Selector, Row),
        message: Message<'_>,
    ) {
        self.looks += reading.reached.len();
        let mut up = 0;
        for reached in &reading.reached {
            let Some(condition) = selector.condition_of(row, reached.column) else { continue };
            while up < reached.up {
                node = message.document.nodes[node as usize].parent;
                up += 1;
            }
            let number = self.number_of[reached.list as usize][node as usize];
            let place = &mut self.place_of[condition as usize];
            if *place == NONE {
                *place = self.bits.len() as u32;
                self.bits.resize(self.bits.len() + self.words[reached.list as usize], 0);
                self.satisfied[reached.list as usize].push(condition);
            }
            self.bits[*place as usize + number as usize / 64] |= 1 << (number % 64);
        }
    }

    /// Calls back with queries that have the same conditions, and the list and set of bindings that they match with; list
    /// by list.
    pub fn walk(&mut self, selector: &Selector, mut matched: impl FnMut(&Self, ListId, &[u64], Members)) {
        let mut stack = std::mem::take(&mut self.stack);
        for &list in &self.active {
            let members = selector.unconditional(list);
            if members.0 < members.1 {
                fill(&mut stack, self.bindings(list).len());
                matched(self, list, &stack, members);
            }
            let conditions =
                Conditions { words: self.words[list as usize], place_of: &self.place_of, bits: &self.bits };
            for &condition in &self.satisfied[list as usize] {
                selector.walk(condition, conditions, &mut stack, |set, members| matched(self, list, set, members));
            }
        }
        self.stack = stack;
    }

    /// Finds the nodes that a column leads to, ascending; see [`reached`]. `None`: that takes more than the steps that are
    /// left.
    pub fn entries(
        &self,
        (column, list): (&Column, ListId),
        message: Message<'_>,
        steps_left: &mut usize,
        entries: &mut Vec<u64>,
    ) -> Option<()> {
        entries.clear();
        let number_of = &self.number_of[list as usize];
        for target in &column.targets {
            let nodes = self.by_label.get(target.label as usize).map_or(&[][..], Vec::as_slice);
            *steps_left = steps_left.checked_sub(nodes.len() * (1 + target.up as usize))?;
            for &node in nodes {
                entries.push(reached(number_of[ancestor(message, node, target.up) as usize], node));
            }
        }
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
        Some(())
    }
}

/// The sets of bindings that satisfy the conditions of a list.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    /// How many words a set takes.
    pub words: usize,
    place_of: &'a [u32],
    bits: &'a [u64],
}

impl<'a> Conditions<'a> {
    /// The bindings that satisfy a condition; `None`: no binding does.
    #[inline]
    pub fn set(self, condition: ConditionId) -> Option<&'a [u64]> {
        let place = self.place_of[condition as usize];
        (place != NONE).then(|| &self.bits[place as usize..place as usize + self.words])
    }
}

/// The ancestor so many levels up.
#[inline]
fn ancestor(message: Message<'_>, mut node: NodeId, up: u32) -> NodeId {
    for _ in 0..up {
        node = message.document.nodes[node as usize].parent;
    }
    node
}
