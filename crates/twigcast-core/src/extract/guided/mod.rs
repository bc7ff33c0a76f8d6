//! Deciding and delivering thousands of For-Where-Return queries in a few steps a message.
//!
//! Queries that compare child and descendant paths from their bindings with constants, and return markup around such
//! paths, differ in little. They are filed by what they have in common (`classes.rs`) and are not in the automaton. What
//! their paths mean on the label paths of messages is learnt once (`guide.rs`). On a message, each different list of
//! bindings, each different comparison and each different constant is looked at once and gives a set of bindings
//! (`sets.rs`); the members of classes whose set is not empty match. Each different pair of a set and something to
//! make of it gives one result, from pieces that are copied from the message once (`results.rs`).

mod classes;
mod guide;
mod linear;
mod prepared;
mod results;
mod sets;

use rustc_hash::FxHashMap;

use crate::document::{Message, NodeId, NodeKind};
use crate::eval::number;
use crate::vocabulary::Vocabulary;

use super::family::{ConstantId, Interner, NONE};
pub(crate) use classes::Classes;
use classes::{ClassId, Member, SourceId};
use guide::{Column, Labels, ListId, Meaning, ROOT};
pub use prepared::Prepared;
pub(crate) use results::ELSEWHERE;
use results::Results;
use sets::{EMPTY, SetId, Sets};

/// Larger messages are looked at query by query: their results are written as they are found.
const NODES_MAX: usize = 1 << 16;

/// Bindings of one path at most.
const BINDINGS_MAX: usize = 1024;

/// Bytes of values that are compared, beyond a few times those of the message.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// What a thread knows of the label paths of messages, and of the message in hand.
#[derive(Debug, Default)]
pub(crate) struct Guide {
    /// The engine, its classes and its vocabulary that this belongs to.
    valid_for: (u64, u64, (usize, usize)),
    labels: Labels,
    meaning: Meaning,
    /// Label paths when the meaning was found.
    meant: usize,
    found: Found,
    results: Results,
}

/// What a value is equal to: a text and a number, [`NONE`] where no query is interested.
#[derive(Clone, Copy, Debug)]
struct Constants {
    text: ConstantId,
    number: ConstantId,
}

const NOT_READ: ConstantId = NONE - 1;

/// What is found on the message in hand.
#[derive(Debug, Default)]
struct Found {
    /// By node.
    label_of: Vec<u32>,
    by_label: Vec<Vec<NodeId>>,
    touched: Vec<u32>,
    /// The bindings of each list, and which lists have any.
    bindings: Vec<Vec<NodeId>>,
    active: Vec<ListId>,
    /// By node, where it is a binding of the list in hand, its number.
    number_of: Vec<u32>,
    sets: Sets,
    /// Classes with the sets of bindings that are equal to their constants, by list.
    satisfied: Vec<(ListId, ClassId, SetId)>,
    set_of_class: Vec<SetId>,
    /// By node.
    constants: Vec<Constants>,
    value_bytes: usize,
    /// In the comparison at hand: by constant, the place of its bits in `bits`.
    place_of: FxHashMap<ConstantId, usize>,
    bits: Vec<u64>,
    is_ready: bool,
}

impl Guide {
    /// Did [`Self::run`] decide the message last run? If not, its queries are decided one by one.
    pub(crate) fn is_ready(&self) -> bool {
        self.found.is_ready
    }

    /// Decides the queries of the classes on a message; whether it could.
    pub(crate) fn run(
        &mut self,
        (engine, vocabulary, interner): (u64, &Vocabulary, &Interner),
        classes: &Classes,
        message: Message<'_>,
    ) -> bool {
        self.found.is_ready = false;
        if classes.is_empty() || message.document.nodes.len() > NODES_MAX {
            return false;
        }
        let valid_for = (engine, classes.version(), vocabulary.size());
        if (valid_for.0, valid_for.2) != (self.valid_for.0, self.valid_for.2) {
            self.labels = Labels::default();
        }
        if valid_for != self.valid_for {
            self.valid_for = valid_for;
            self.meant = 0;
        }
        if !self.found.label(message, &mut self.labels) {
            // Many label paths came and went; those of this message may be fewer.
            self.labels = Labels::default();
            self.meant = 0;
            if !self.found.label(message, &mut self.labels) {
                return false;
            }
        }
        if self.meant != self.labels.list.len() {
            self.meaning = Meaning::of(classes, &self.labels);
            self.meant = self.labels.list.len();
        }
        if !self.found.bind(&self.meaning) || !self.found.compare(&self.meaning, classes, interner, message) {
            return false;
        }
        self.found.is_ready = true;
        true
    }

    /// Calls back for each query that matches the message last run.
    pub(crate) fn for_each_match(&mut self, classes: &Classes, matched: impl FnMut(u32)) {
        self.found.for_each_member(classes, matched);
    }
}

impl Found {
    /// Tells the label path of each element; `false`: there are too many.
    fn label(&mut self, message: Message<'_>, labels: &mut Labels) -> bool {
        for &label in &self.touched {
            self.by_label[label as usize].clear();
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

    /// Finds the bindings of all lists; `false`: there are too many.
    fn bind(&mut self, meaning: &Meaning) -> bool {
        for &list in &self.active {
            self.bindings[list as usize].clear();
        }
        self.active.clear();
        self.bindings.resize_with(meaning.lists.len().max(self.bindings.len()), Vec::new);
        self.sets.reset(meaning.lists.len());
        for &label in &self.touched {
            for &list in meaning.lists_of_label.get(label as usize).into_iter().flatten() {
                let bindings = &mut self.bindings[list as usize];
                if bindings.is_empty() {
                    self.active.push(list);
                }
                bindings.extend_from_slice(&self.by_label[label as usize]);
                if bindings.len() > BINDINGS_MAX {
                    return false;
                }
            }
        }
        for &list in &self.active {
            let bindings = &mut self.bindings[list as usize];
            if meaning.lists[list as usize].labels.len() > 1 {
                bindings.sort_unstable();
            }
            self.sets.size(list, bindings.len());
        }
        true
    }

    /// Finds the set of bindings of each class; `false`: that takes too much.
    fn compare(&mut self, meaning: &Meaning, classes: &Classes, interner: &Interner, message: Message<'_>) -> bool {
        self.satisfied.clear();
        self.set_of_class.clear();
        self.set_of_class.resize(classes.classes.bound(), EMPTY);
        self.constants.clear();
        let unread = Constants { text: NOT_READ, number: NONE };
        self.constants.resize(message.document.nodes.len(), unread);
        self.number_of.resize(message.document.nodes.len().max(self.number_of.len()), 0);
        self.value_bytes = 0;
        let most = VALUE_BYTES_MAX + 4 * message.source.len();
        for at in 0..self.active.len() {
            let list = self.active[at];
            self.number(list);
            for &source in &meaning.lists[list as usize].sources {
                self.select_all(classes, list, source);
            }
            for (column, pairs) in &meaning.lists[list as usize].probes {
                self.probe(&meaning.columns[*column as usize], list, interner, message);
                let Self { place_of, bits, sets, set_of_class, satisfied, .. } = self;
                let words = sets.words(list);
                for (&constant, &place) in &*place_of {
                    let set = sets.intern(list, &bits[place..place + words]);
                    for &pair in pairs {
                        if let Some(class) = classes.class_of(pair, constant) {
                            set_of_class[class as usize] = set;
                            satisfied.push((list, class, set));
                        }
                    }
                }
                if self.value_bytes > most {
                    return false;
                }
            }
        }
        true
    }

    /// Numbers the bindings of a list.
    fn number(&mut self, list: ListId) {
        for (number, &node) in self.bindings[list as usize].iter().enumerate() {
            self.number_of[node as usize] = number as u32;
        }
    }

    /// Satisfies the class of queries that ask nothing of the bindings.
    fn select_all(&mut self, classes: &Classes, list: ListId, source: SourceId) {
        let Some(class) = classes.class_of_all(source) else { return };
        let count = self.bindings[list as usize].len();
        let mut bits = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = bits.last_mut().filter(|_| count % 64 != 0) {
            *last = (1 << (count % 64)) - 1;
        }
        let set = self.sets.intern(list, &bits);
        self.set_of_class[class as usize] = set;
        self.satisfied.push((list, class, set));
    }

    /// Collects, by constant, the bindings from which a column leads to a value that is equal to it.
    fn probe(&mut self, column: &Column, list: ListId, interner: &Interner, message: Message<'_>) {
        self.place_of.clear();
        self.bits.clear();
        let words = self.sets.words(list);
        for target in &column.targets {
            let Some(nodes) = self.by_label.get(target.label as usize) else { continue };
            for at in 0..nodes.len() {
                let node = self.by_label[target.label as usize][at];
                let number = self.number_of[ancestor(message, node, target.up) as usize];
                match column.attribute {
                    None => {
                        let constants = self.constants_of(node, interner, message);
                        self.note(constants, number, words);
                    }
                    Some(test) => {
                        for attribute in message.document.attributes_of(node) {
                            if test.accepts(attribute.name) {
                                let value = message.attribute_value(attribute);
                                self.value_bytes += value.len();
                                self.note(constants_of(&value, interner), number, words);
                            }
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, constants: Constants, number: u32, words: usize) {
        for constant in [constants.text, constants.number] {
            if constant == NONE {
                continue;
            }
            let place = *self.place_of.entry(constant).or_insert_with(|| {
                self.bits.resize(self.bits.len() + words, 0);
                self.bits.len() - words
            });
            self.bits[place + number as usize / 64] |= 1 << (number % 64);
        }
    }

    fn constants_of(&mut self, node: NodeId, interner: &Interner, message: Message<'_>) -> Constants {
        let known = self.constants[node as usize];
        if known.text != NOT_READ {
            return known;
        }
        let value = message.string_value(node);
        self.value_bytes += value.len();
        let constants = constants_of(&value, interner);
        self.constants[node as usize] = constants;
        constants
    }

    /// Calls back for each matching query.
    fn for_each_member(&mut self, classes: &Classes, mut matched: impl FnMut(u32)) {
        for at in 0..self.satisfied.len() {
            let (list, class, set) = self.satisfied[at];
            let Some(class) = classes.classes.get(class) else { continue };
            for member in &class.members {
                if self.bindings_of(classes, member, list, set).is_some() {
                    matched(member.query);
                }
            }
        }
    }

    /// The bindings that satisfy a member of a class, of those that satisfy the class; `None`: there are none.
    #[inline]
    fn bindings_of(&mut self, classes: &Classes, member: &Member, list: ListId, set: SetId) -> Option<SetId> {
        if member.also == NONE { Some(set) } else { self.bindings_of_several(classes, member, list, set) }
    }

    fn bindings_of_several(&mut self, classes: &Classes, member: &Member, list: ListId, set: SetId) -> Option<SetId> {
        let Self { sets, set_of_class, .. } = self;
        let others = classes.also.get(member.also)?.iter().map(|&class| set_of_class[class as usize]);
        Some(sets.common(list, std::iter::once(set).chain(others))).filter(|&common| common != EMPTY)
    }

    /// The nodes that a column leads to, as (number of the binding, node), ascending.
    fn entries(&self, column: &Column, message: Message<'_>) -> Vec<(u32, NodeId)> {
        let mut entries = Vec::new();
        for target in &column.targets {
            for &node in self.by_label.get(target.label as usize).into_iter().flatten() {
                entries.push((self.number_of[ancestor(message, node, target.up) as usize], node));
            }
        }
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
        entries
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

fn constants_of(value: &str, interner: &Interner) -> Constants {
    let number = if interner.has_numbers() { interner.number(number::parse(value)) } else { None };
    Constants { text: interner.text(value).unwrap_or(NONE), number: number.unwrap_or(NONE) }
}
