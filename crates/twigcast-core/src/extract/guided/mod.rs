//! Deciding and delivering thousands of For-Where-Return queries in a few steps a message.
//!
//! Queries that compare child and descendant paths from their bindings with constants, and return markup around such
//! paths, differ in little. They are filed by what they have in common (`classes.rs`) and are not in the automaton. What
//! their paths mean on the label paths of messages is learnt once (`guide.rs`), and the queries are laid out by it
//! (`selector.rs`; what comes and goes meanwhile: `late.rs`). On a message, each different list of bindings, each
//! different comparison and each different constant is looked at once and gives a set of bindings (`sets.rs`); queries
//! match whose conditions have any in common. Each different pair of a set and something to make of it gives one result,
//! from pieces that are copied from the message once (`results.rs`).

mod classes;

mod guide;
mod late;
mod linear;
mod prepared;
mod results;
mod selector;
mod sets;

use crate::document::{Message, NodeId, NodeKind};
use crate::eval::number;

use super::family::{ConstantId, Interner, NONE};
pub(crate) use classes::Classes;
use guide::{Column, ColumnId, Labels, ListId, Meaning, ROOT};
use late::Late;
pub use prepared::Prepared;
pub(crate) use results::ELSEWHERE;
use results::Results;
use selector::{ConditionId, Selector};
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
    /// The engine that this belongs to, and the edition of its classes.
    valid_for: (u64, u64),
    labels: Labels,
    meaning: Meaning,
    /// Label paths when the meaning was found.
    meant: usize,
    selector: Selector,
    late: Late,
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
    /// Conditions that bindings satisfy, with the set of those, and where those of each active list end.
    satisfied: Vec<(ConditionId, SetId)>,
    satisfied_ends: Vec<usize>,
    /// By condition.
    set_of: Vec<SetId>,
    /// By node, and by attribute.
    constants: Vec<Constants>,
    attribute_constants: Vec<Constants>,
    value_bytes: usize,
    /// In the comparison at hand: the conditions satisfied so far; by condition, the place of its bits in `bits`.
    fresh: Vec<ConditionId>,
    place_of: Vec<u32>,
    bits: Vec<u64>,
    stack: Vec<u64>,
    is_ready: bool,
}

impl Guide {
    /// Did [`Self::run`] decide the message last run? If not, its queries are decided one by one.
    pub(crate) fn is_ready(&self) -> bool {
        self.found.is_ready
    }

    /// Decides the queries of the classes on a message, but for those that [`Self::late`] tells; whether it could.
    pub(crate) fn run(
        &mut self,
        (engine, interner): (u64, &Interner),
        classes: &Classes,
        message: Message<'_>,
    ) -> bool {
        self.found.is_ready = false;
        if classes.is_empty() || message.document.nodes.len() > NODES_MAX {
            return false;
        }
        self.follow(engine, classes);
        if !self.found.label(message, &mut self.labels) {
            // Many label paths came and went; those of this message may be fewer.
            self.labels = Labels::default();
            self.meant = 0;
            if !self.found.label(message, &mut self.labels) {
                return false;
            }
        }
        if self.meant != self.labels.list.len() || self.late.is_due(classes) {
            self.learn(classes);
        }
        self.found.is_ready =
            self.found.bind(&self.meaning) && self.found.compare(&self.meaning, &self.selector, interner, message);
        self.found.is_ready
    }

    /// Takes notice of the queries that came and went.
    fn follow(&mut self, engine: u64, classes: &Classes) {
        let edition = classes.edition();
        let known = if engine == self.valid_for.0 { classes.changes_since(self.valid_for.1) } else { None };
        if engine != self.valid_for.0 {
            self.labels = Labels::default();
        }
        self.valid_for = (engine, edition);
        match known {
            Some([]) => {}
            Some(changes) => self.late.note(changes, classes),
            None => {
                self.meant = 0;
                self.selector = Selector::default();
            }
        }
    }

    /// Finds what the queries' paths mean, and lays them out if that is other than before.
    fn learn(&mut self, classes: &Classes) {
        let meaning = Meaning::of(classes, &self.labels);
        let is_as_before = self.meant > 0 && !self.late.is_any() && meaning.merges_as(&self.meaning);
        self.meaning = meaning;
        self.meant = self.labels.list.len();
        if !is_as_before {
            self.selector = Selector::of(classes, &self.meaning);
            self.late.clear();
        }
        self.found.set_of.clear();
        self.found.set_of.resize(self.selector.condition_count(), EMPTY);
        self.found.place_of.clear();
        self.found.place_of.resize(self.selector.condition_count(), NONE);
        self.found.satisfied.clear();
    }

    /// The queries that have to be decided one by one, although the message was decided.
    pub(crate) fn late(&self) -> &[u32] {
        self.late.queries()
    }

    /// Is the query, one of the classes, decided here?
    pub(crate) fn decides(&self, query: u32) -> bool {
        self.found.is_ready && !self.late.contains(query)
    }

    /// Calls back with queries that match the message last run.
    pub(crate) fn for_each_match(&mut self, mut matched: impl FnMut(u32)) {
        let Self { found, selector, late, .. } = self;
        found.walk(selector, |_, _, _, _, queries, _| {
            late.tell_others(queries, queries, |queries, _| queries.iter().for_each(|&query| matched(query)));
        });
    }
}

impl Found {
    /// Tells the label path of each element; `false`: there are too many.
    fn label(&mut self, message: Message<'_>, labels: &mut Labels) -> bool {
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
            self.sets.size(list, bindings.len());
        }
        true
    }

    /// Finds the set of bindings of each condition; `false`: that takes too much.
    fn compare(&mut self, meaning: &Meaning, selector: &Selector, interner: &Interner, message: Message<'_>) -> bool {
        for (condition, _) in self.satisfied.drain(..) {
            self.set_of[condition as usize] = EMPTY;
        }
        self.satisfied_ends.clear();
        let unread = Constants { text: NOT_READ, number: NONE };
        self.constants.clear();
        self.constants.resize(message.document.nodes.len(), unread);
        self.attribute_constants.clear();
        self.attribute_constants.resize(message.document.attributes.len(), unread);
        self.number_of.resize(message.document.nodes.len().max(self.number_of.len()), 0);
        self.value_bytes = 0;
        let most = VALUE_BYTES_MAX + 4 * message.source.len();
        for at in 0..self.active.len() {
            let list = self.active[at];
            self.number(list);
            for &column in &meaning.lists[list as usize].probes {
                self.probe((&meaning.columns[column as usize], column), list, (selector, interner), message);
                for condition in self.fresh.drain(..) {
                    let place = std::mem::replace(&mut self.place_of[condition as usize], NONE) as usize;
                    let set = self.sets.intern(list, &self.bits[place..place + self.sets.words(list)]);
                    self.set_of[condition as usize] = set;
                    self.satisfied.push((condition, set));
                }
                if self.value_bytes > most {
                    return false;
                }
            }
            self.satisfied_ends.push(self.satisfied.len());
        }
        true
    }

    /// Numbers the bindings of a list.
    fn number(&mut self, list: ListId) {
        for (number, &node) in self.bindings[list as usize].iter().enumerate() {
            self.number_of[node as usize] = number as u32;
        }
    }

    /// Collects, by condition, the bindings from which a column leads to a value that is equal to the constant.
    fn probe(
        &mut self,
        (column, id): (&Column, ColumnId),
        list: ListId,
        (selector, interner): (&Selector, &Interner),
        message: Message<'_>,
    ) {
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
                        self.note((selector, id), constants, number, words);
                    }
                    Some(test) => {
                        let first = message.document.nodes[node as usize].attributes_start as usize;
                        for (index, attribute) in message.document.attributes_of(node).iter().enumerate() {
                            if test.accepts(attribute.name) {
                                let constants = self.attribute_constants_of(first + index, interner, message);
                                self.note((selector, id), constants, number, words);
                            }
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, (selector, column): (&Selector, ColumnId), constants: Constants, number: u32, words: usize) {
        for constant in [constants.text, constants.number] {
            if constant == NONE {
                continue;
            }
            let Some(condition) = selector.condition_of(column, constant) else { continue };
            let place = &mut self.place_of[condition as usize];
            if *place == NONE {
                *place = self.bits.len() as u32;
                self.bits.resize(self.bits.len() + words, 0);
                self.fresh.push(condition);
            }
            self.bits[*place as usize + number as usize / 64] |= 1 << (number % 64);
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

    fn attribute_constants_of(&mut self, index: usize, interner: &Interner, message: Message<'_>) -> Constants {
        let known = self.attribute_constants[index];
        if known.text != NOT_READ {
            return known;
        }
        let value = message.attribute_value(&message.document.attributes[index]);
        self.value_bytes += value.len();
        let constants = constants_of(&value, interner);
        self.attribute_constants[index] = constants;
        constants
    }

    /// Calls back with queries that have the same conditions, the rows of their makes, and the list and set of bindings
    /// that they match with; list by list.
    fn walk(
        &mut self,
        selector: &Selector,
        mut matched: impl FnMut(&mut Self, &mut Sets, ListId, SetId, &[u32], &[u32]),
    ) {
        // What is called back wants all but these.
        let (mut sets, mut stack) = (std::mem::take(&mut self.sets), std::mem::take(&mut self.stack));
        let (satisfied, set_of) = (std::mem::take(&mut self.satisfied), std::mem::take(&mut self.set_of));
        let mut start = 0;
        for at in 0..self.active.len() {
            let (list, end) = (self.active[at], self.satisfied_ends[at]);
            let (queries, rows) = selector.unconditional(list);
            if !queries.is_empty() {
                let all = sets.all(list, self.bindings[list as usize].len());
                matched(self, &mut sets, list, all, queries, rows);
            }
            for &(condition, set) in &satisfied[start..end] {
                selector.walk((list, condition, set), &set_of, &mut sets, &mut stack, |sets, set, queries, rows| {
                    matched(self, sets, list, set, queries, rows);
                });
            }
            start = end;
        }
        (self.sets, self.stack, self.satisfied, self.set_of) = (sets, stack, satisfied, set_of);
    }

    /// Finds the nodes that a column leads to, as (number of the binding, node), ascending.
    fn entries(&self, column: &Column, message: Message<'_>, entries: &mut Vec<(u32, NodeId)>) {
        entries.clear();
        for target in &column.targets {
            for &node in self.by_label.get(target.label as usize).into_iter().flatten() {
                entries.push((self.number_of[ancestor(message, node, target.up) as usize], node));
            }
        }
        if !entries.is_sorted() {
            entries.sort_unstable();
        }
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
