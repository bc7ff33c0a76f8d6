//! YFilter's NFA (Diao 2005, section 4.3) as flat tables.
//!
//! Most states are there for one query: they have one edge into them and one acceptance. So an edge is no more than the
//! number of the state that it leads to, which knows where it comes from, and a state's only acceptance stands in the
//! state itself; it moves to the table of items when a second item comes.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;

use crate::chunked::Chunked;
use crate::plan::LinearStep;
use crate::query::ast::NameTest;
use crate::vocabulary::{LocalId, Name, NamespaceId};

/// Number of an NFA state.
pub type StateId = u32;
/// "No state".
pub const NO_STATE: StateId = u32::MAX;
/// The state before the document's root element.
pub const INITIAL: StateId = 0;

const NO_ITEM: u32 = u32::MAX;
/// In place of a state's list: the query of the only item, an acceptance. In place of an item's number: its state, where
/// the item was the state's only one when it came.
const SOLE: u32 = 1 << 31;
/// In place of the item before: the first of its list, and known by its state.
const KNOWN_BY_STATE: u32 = u32::MAX - 1;

/// The number of an item that was its state's only one when it came.
pub fn sole_item(state: StateId) -> u32 {
    state | SOLE
}

/// The state of such an item; `None` for others.
pub fn state_of_sole(item: u32) -> Option<StateId> {
    (item & SOLE != 0).then_some(item & !SOLE)
}

/// What happens where a path accepts. The numbers are indexes into the engine's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// This query matches.
    Accept(u32),
    /// This twig is to be decided on the structure below.
    Twig(u32),
    /// This trigger is to be tested.
    Trigger(u32),
}

#[derive(Clone, Debug)]
struct State {
    /// Target of the `*` edge.
    star: StateId,
    /// Target of the epsilon edge: the descendant-child state shared by all `//` steps leaving this state.
    descendant: StateId,
    /// [`NO_ITEM`], an only acceptance marked [`SOLE`], or the head of the state's item list.
    items: u32,
    /// The state that the one edge into this state leaves.
    parent: StateId,
    /// How the one edge into this state is labelled: [`NO_EDGE`], [`EPSILON`], [`STAR`] or the number of a label.
    incoming: LabelId,
    /// Flags, and above them uses: items here, attachments, and states right below. A state without any use is taken
    /// out, unless it ever had more than can be counted.
    flags_and_uses: u32,
}

/// Number of an edge's label.
type LabelId = u32;
/// No edge: the initial state, and states that are free.
const NO_EDGE: LabelId = 0;
/// The edge that takes no name.
const EPSILON: LabelId = 1;
/// The edge that takes every name.
const STAR: LabelId = 2;

/// The state is a descendant-child: it stays active below whatever activated it.
const IS_DESCENDANT: u32 = 1;
const HAS_NAMES: u32 = 2;
const HAS_NAMESPACES: u32 = 4;
const HAS_LOCALS: u32 = 8;
const HAS_ATTACHMENT: u32 = 16;
const ONE_USE: u32 = 32;
const FLAGS: u32 = ONE_USE - 1;
const USES_MAX: u32 = !FLAGS;

impl State {
    fn new(parent: StateId, incoming: LabelId, flags: u32) -> Self {
        Self { star: NO_STATE, descendant: NO_STATE, items: NO_ITEM, parent, incoming, flags_and_uses: flags }
    }

    #[inline]
    fn has(&self, flag: u32) -> bool {
        self.flags_and_uses & flag != 0
    }

    #[inline]
    fn begin_use(&mut self) {
        if self.flags_and_uses < USES_MAX {
            self.flags_and_uses += ONE_USE;
        }
    }

    /// Whether that was the last one.
    fn end_use(&mut self) -> bool {
        if self.flags_and_uses < USES_MAX {
            self.flags_and_uses -= ONE_USE;
        }
        self.flags_and_uses < ONE_USE
    }
}

/// An edge's label as two words: name, namespace or local name, told apart by a reserved value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Label {
    namespace: u32,
    local: u32,
}

const ANY: u32 = u32::MAX;

impl Label {
    fn name(name: Name) -> Self {
        Self { namespace: name.namespace.0, local: name.local.0 }
    }

    fn namespace(namespace: NamespaceId) -> Self {
        Self { namespace: namespace.0, local: ANY }
    }

    fn local(local: LocalId) -> Self {
        Self { namespace: ANY, local: local.0 }
    }

    fn test(self) -> NameTest {
        let (namespace, local) = (NamespaceId(self.namespace), LocalId(self.local));
        match (self.namespace, self.local) {
            (_, ANY) => NameTest::Namespace(namespace),
            (ANY, _) => NameTest::Local(local),
            _ => NameTest::Name(Name { namespace, local }),
        }
    }
}

/// The labels in use, by number. Like the vocabulary that they are made of, they stay.
#[derive(Clone, Debug)]
struct Labels {
    labels: Vec<Label>,
    ids: FxHashMap<Label, LabelId>,
}

impl Default for Labels {
    fn default() -> Self {
        // The reserved numbers stand for no label.
        let none = Label { namespace: ANY, local: ANY };
        Self { labels: vec![none; STAR as usize + 1], ids: FxHashMap::default() }
    }
}

impl Labels {
    fn intern(&mut self, label: Label) -> LabelId {
        *self.ids.entry(label).or_insert_with(|| {
            self.labels.push(label);
            self.labels.len() as LabelId - 1
        })
    }

    fn find(&self, label: Label) -> Option<LabelId> {
        self.ids.get(&label).copied()
    }

    fn bytes(&self) -> usize {
        self.labels.capacity() * size_of::<Label>() + self.ids.capacity() * (size_of::<(Label, LabelId)>() + 1)
    }
}

/// The labels that the edges of a name may have; [`NO_EDGE`] where no state has any.
#[derive(Clone, Copy)]
struct Ways {
    name: LabelId,
    namespace: LabelId,
    local: LabelId,
}

fn edge_hash(parent: StateId, label: LabelId) -> u64 {
    let mixed = (u64::from(parent) << 32 | u64::from(label)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

#[derive(Clone, Copy, Debug)]
struct ItemEntry {
    item: Item,
    state: StateId,
    next: u32,
    /// The item before this one in its list; [`NO_ITEM`] or [`KNOWN_BY_STATE`] for the first.
    previous: u32,
}

/// A change that lazily built automata must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The state got an item.
    ItemAdded(StateId, Item),
    /// The state lost an item.
    ItemRemoved(StateId, Item),
    /// The state got an edge for one name.
    NameEdge(StateId, Name),
    /// The state got an edge that many names take.
    WideEdge(StateId),
    /// The state got the attachment that the engine keeps for it (see [`Nfa::attach`]).
    Attached(StateId),
    /// The number of a state that was taken out is in use again, for another state.
    Reused(StateId),
}

/// The shared NFA.
#[derive(Clone, Debug)]
pub struct Nfa {
    states: Chunked<State>,
    labels: Labels,
    /// The states that labelled edges lead to, by where the edge comes from and its label.
    edges: HashTable<StateId>,
    items: Chunked<ItemEntry>,
    free_items: Vec<u32>,
    free_states: Vec<StateId>,
}

impl Default for Nfa {
    fn default() -> Self {
        Self::new()
    }
}

impl Nfa {
    /// The automaton of no path.
    pub fn new() -> Self {
        let mut states = Chunked::default();
        states.push(State::new(NO_STATE, NO_EDGE, 0));
        Self {
            states,
            labels: Labels::default(),
            edges: HashTable::new(),
            items: Chunked::default(),
            free_items: Vec::new(),
            free_states: Vec::new(),
        }
    }

    /// How many states there are.
    pub fn state_count(&self) -> usize {
        self.states.len() - self.free_states.len()
    }

    /// Bytes that the tables take.
    pub fn bytes(&self) -> usize {
        self.states.bytes()
            + self.labels.bytes()
            + self.edges.capacity() * (size_of::<StateId>() + 1)
            + self.items.bytes()
            + (self.free_items.capacity() + self.free_states.capacity()) * 4
    }

    fn new_state(&mut self, parent: StateId, incoming: LabelId, flags: u32, changes: &mut Vec<Change>) -> StateId {
        self.states[parent as usize].begin_use();
        let state = State::new(parent, incoming, flags);
        match self.free_states.pop() {
            Some(id) => {
                self.states[id as usize] = state;
                changes.push(Change::Reused(id));
                id
            }
            None => {
                self.states.push(state);
                self.states.len() as StateId - 1
            }
        }
    }

    /// One use of a state less; a state without any is taken out, and so may be those above it.
    fn release(&mut self, mut id: StateId) {
        loop {
            let state = &mut self.states[id as usize];
            if !state.end_use() || id == INITIAL {
                return;
            }
            let (parent, incoming) = (state.parent, state.incoming);
            match incoming {
                NO_EDGE => {}
                EPSILON => self.states[parent as usize].descendant = NO_STATE,
                STAR => self.states[parent as usize].star = NO_STATE,
                label => {
                    if let Ok(edge) = self.edges.find_entry(edge_hash(parent, label), |&target| target == id) {
                        edge.remove();
                    }
                }
            }
            // What lazily built automata still hold of the state is inert: it has no items and no edges.
            self.states[id as usize] = State::new(NO_STATE, NO_EDGE, 0);
            self.free_states.push(id);
            id = parent;
        }
    }

    /// Note that the engine keeps something of its own for a state (which [`Self::has_attachment`] then tells), so that
    /// the state stays. Each call is one use; [`Self::detach`] ends one.
    pub fn attach(&mut self, state: StateId, changes: &mut Vec<Change>) {
        let entry = &mut self.states[state as usize];
        entry.begin_use();
        if !entry.has(HAS_ATTACHMENT) {
            entry.flags_and_uses |= HAS_ATTACHMENT;
            changes.push(Change::Attached(state));
        }
    }

    /// End one use of a state by [`Self::attach`].
    pub fn detach(&mut self, state: StateId) {
        self.release(state);
    }

    /// Whether [`Self::attach`] was called for the state as it is now.
    #[inline]
    pub fn has_attachment(&self, state: StateId) -> bool {
        self.states[state as usize].has(HAS_ATTACHMENT)
    }

    /// The state where `path` accepts, growing the automaton as needed. The caller must give a state that is new a use,
    /// by [`Self::insert_item`] or [`Self::attach`].
    pub fn state_of(&mut self, path: &[LinearStep], changes: &mut Vec<Change>) -> StateId {
        let mut state = INITIAL;
        for step in path {
            if step.descendant {
                state = self.descendant_child(state, changes);
            }
            state = self.edge(state, step.test, changes);
        }
        state
    }

    /// The state where `path` accepts, if the automaton has it.
    pub fn find(&self, path: &[LinearStep]) -> Option<StateId> {
        let mut state = INITIAL;
        for step in path {
            if step.descendant {
                state = self.states[state as usize].descendant;
                if state == NO_STATE {
                    return None;
                }
            }
            state = match step.test {
                NameTest::Any => Some(self.states[state as usize].star).filter(|&target| target != NO_STATE)?,
                NameTest::Name(name) => self.target(state, self.labels.find(Label::name(name))?)?,
                NameTest::Namespace(namespace) => self.target(state, self.labels.find(Label::namespace(namespace))?)?,
                NameTest::Local(local) => self.target(state, self.labels.find(Label::local(local))?)?,
            };
        }
        Some(state)
    }

    /// Where a labelled edge leads.
    #[inline]
    fn target(&self, from: StateId, label: LabelId) -> Option<StateId> {
        let leads = |&target: &StateId| {
            let state = &self.states[target as usize];
            state.parent == from && state.incoming == label
        };
        self.edges.find(edge_hash(from, label), leads).copied()
    }

    /// The path that accepts at a state.
    pub fn path_of(&self, mut state: StateId) -> Vec<LinearStep> {
        let mut path: Vec<LinearStep> = Vec::new();
        while state != INITIAL && state != NO_STATE {
            let entry = &self.states[state as usize];
            match entry.incoming {
                NO_EDGE => {}
                EPSILON => {
                    if let Some(step) = path.last_mut() {
                        step.descendant = true;
                    }
                }
                STAR => path.push(LinearStep { descendant: false, test: NameTest::Any }),
                label => {
                    let test = self.labels.labels[label as usize].test();
                    path.push(LinearStep { descendant: false, test });
                }
            }
            state = entry.parent;
        }
        path.reverse();
        path
    }

    /// The query of a state's first acceptance, if no item came before it.
    #[inline]
    pub fn first_accepted(&self, state: StateId) -> Option<u32> {
        let head = self.states[state as usize].items;
        if head == NO_ITEM {
            return None;
        }
        if head & SOLE != 0 {
            return Some(head & !SOLE);
        }
        match self.items[head as usize] {
            ItemEntry { item: Item::Accept(query), previous: KNOWN_BY_STATE, .. } => Some(query),
            _ => None,
        }
    }

    /// Add an item to a state. Returns the item's number for [`Self::remove`].
    pub fn insert_item(&mut self, state: StateId, item: Item, changes: &mut Vec<Change>) -> u32 {
        self.states[state as usize].begin_use();
        changes.push(Change::ItemAdded(state, item));
        let head = self.states[state as usize].items;
        match item {
            Item::Accept(query) if head == NO_ITEM && query < NO_ITEM & !SOLE => {
                self.states[state as usize].items = query | SOLE;
                state | SOLE
            }
            _ => self.enlist(state, item),
        }
    }

    /// Put an item on a state's list, as the first, or behind the first where that is known by the state.
    fn enlist(&mut self, state: StateId, item: Item) -> u32 {
        let mut head = self.states[state as usize].items;
        if head != NO_ITEM && head & SOLE != 0 {
            let item = Item::Accept(head & !SOLE);
            head = self.new_item(ItemEntry { item, state, next: NO_ITEM, previous: KNOWN_BY_STATE });
            self.states[state as usize].items = head;
        }
        let behind = head != NO_ITEM && self.items[head as usize].previous == KNOWN_BY_STATE;
        let (previous, next) = if behind { (head, self.items[head as usize].next) } else { (NO_ITEM, head) };
        let number = self.new_item(ItemEntry { item, state, next, previous });
        if next != NO_ITEM {
            self.items[next as usize].previous = number;
        }
        if behind {
            self.items[head as usize].next = number;
        } else {
            self.states[state as usize].items = number;
        }
        number
    }

    fn new_item(&mut self, entry: ItemEntry) -> u32 {
        match self.free_items.pop() {
            Some(number) => {
                self.items[number as usize] = entry;
                number
            }
            None => {
                self.items.push(entry);
                self.items.len() as u32 - 1
            }
        }
    }

    fn descendant_child(&mut self, state: StateId, changes: &mut Vec<Change>) -> StateId {
        let known = self.states[state as usize].descendant;
        if known != NO_STATE {
            return known;
        }
        let new = self.new_state(state, EPSILON, IS_DESCENDANT, changes);
        self.states[state as usize].descendant = new;
        changes.push(Change::WideEdge(state));
        new
    }

    fn edge(&mut self, state: StateId, test: NameTest, changes: &mut Vec<Change>) -> StateId {
        let (label, flag) = match test {
            NameTest::Any => {
                let known = self.states[state as usize].star;
                if known != NO_STATE {
                    return known;
                }
                let new = self.new_state(state, STAR, 0, changes);
                self.states[state as usize].star = new;
                changes.push(Change::WideEdge(state));
                return new;
            }
            NameTest::Name(name) => (Label::name(name), HAS_NAMES),
            NameTest::Namespace(namespace) => (Label::namespace(namespace), HAS_NAMESPACES),
            NameTest::Local(local) => (Label::local(local), HAS_LOCALS),
        };
        let label = self.labels.intern(label);
        if let Some(known) = self.target(state, label) {
            return known;
        }
        let new = self.new_state(state, label, 0, changes);
        let states = &self.states;
        self.edges.insert_unique(edge_hash(state, label), new, |&target| {
            let target = &states[target as usize];
            edge_hash(target.parent, target.incoming)
        });
        self.states[state as usize].flags_and_uses |= flag;
        changes.push(match test {
            NameTest::Name(name) => Change::NameEdge(state, name),
            _ => Change::WideEdge(state),
        });
        new
    }

    /// Remove an item, and the states that only its path needed (Diao 2005, section 4.3.2).
    pub fn remove(&mut self, item: u32, changes: &mut Vec<Change>) {
        let state = self.state_of_item(item);
        let head = self.states[state as usize].items;
        let what = if head & SOLE != 0 {
            self.states[state as usize].items = NO_ITEM;
            Item::Accept(head & !SOLE)
        } else {
            self.delist(if item & SOLE != 0 { head } else { item })
        };
        changes.push(Change::ItemRemoved(state, what));
        self.release(state);
    }

    /// Take an entry off its list.
    fn delist(&mut self, number: u32) -> Item {
        let ItemEntry { item, state, next, previous } = self.items[number as usize];
        match previous {
            NO_ITEM | KNOWN_BY_STATE => self.states[state as usize].items = next,
            _ => self.items[previous as usize].next = next,
        }
        if next != NO_ITEM {
            let previous = if previous == KNOWN_BY_STATE { NO_ITEM } else { previous };
            self.items[next as usize].previous = previous;
        }
        self.free_items.push(number);
        item
    }

    /// The state that an item belongs to.
    pub fn state_of_item(&self, item: u32) -> StateId {
        if item & SOLE != 0 { item & !SOLE } else { self.items[item as usize].state }
    }

    /// The items of a state, in no order.
    #[inline]
    pub fn items(&self, state: StateId) -> impl Iterator<Item = Item> + '_ {
        let mut next = self.states[state as usize].items;
        std::iter::from_fn(move || {
            if next == NO_ITEM {
                return None;
            }
            if next & SOLE != 0 {
                return Some(Item::Accept(std::mem::replace(&mut next, NO_ITEM) & !SOLE));
            }
            let entry = self.items.get(next as usize)?;
            next = entry.next;
            Some(entry.item)
        })
    }

    /// The state that the one edge into a state leaves; [`NO_STATE`] for [`INITIAL`].
    pub fn parent(&self, state: StateId) -> StateId {
        self.states[state as usize].parent
    }

    /// Whether a state is a descendant-child.
    pub fn is_descendant(&self, state: StateId) -> bool {
        self.states[state as usize].has(IS_DESCENDANT)
    }

    /// The active set after an element named `name`, given the active set of its parent (Diao 2005, section 4.3.3,
    /// rules 1 to 4). `target` comes out sorted and without duplicates.
    pub fn step(&self, active: &[StateId], name: Name, target: &mut Vec<StateId>) {
        target.clear();
        let ways = self.ways(name);
        for &id in active {
            let state = &self.states[id as usize];
            self.follow(id, state, ways, target);
            if state.has(IS_DESCENDANT) {
                target.push(id);
            }
            if state.descendant != NO_STATE {
                self.follow(state.descendant, &self.states[state.descendant as usize], ways, target);
                target.push(state.descendant);
            }
        }
        target.sort_unstable();
        target.dedup();
    }

    fn ways(&self, name: Name) -> Ways {
        let known_local = name.local != LocalId::UNKNOWN;
        let known_namespace = name.namespace != NamespaceId::UNKNOWN;
        let id = |known: bool, label| if known { self.labels.find(label).unwrap_or(NO_EDGE) } else { NO_EDGE };
        Ways {
            name: id(known_local && known_namespace, Label::name(name)),
            namespace: id(known_namespace, Label::namespace(name.namespace)),
            local: id(known_local, Label::local(name.local)),
        }
    }

    /// Rules 1 and 2: the edges of one state that a name takes.
    #[inline]
    fn follow(&self, id: StateId, state: &State, ways: Ways, target: &mut Vec<StateId>) {
        if state.star != NO_STATE {
            target.push(state.star);
        }
        for (flag, label) in [(HAS_NAMES, ways.name), (HAS_NAMESPACES, ways.namespace), (HAS_LOCALS, ways.local)] {
            if state.has(flag) && label != NO_EDGE {
                target.extend(self.target(id, label));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(descendant: bool, test: NameTest) -> LinearStep {
        LinearStep { descendant, test }
    }

    fn name(local: u32) -> Name {
        Name { namespace: NamespaceId::NONE, local: LocalId(local) }
    }

    const A: u32 = 1;
    const B: u32 = 2;
    const C: u32 = 3;

    /// The worked example of Diao 2005, section 4.3: eight queries share thirteen states.
    #[test]
    fn the_published_example_shares_thirteen_states() {
        let named = |descendant, local| step(descendant, NameTest::Name(name(local)));
        let star = step(false, NameTest::Any);
        let queries = [
            vec![named(false, A), named(false, B)],
            vec![named(false, A), named(false, C)],
            vec![named(false, A), named(false, B), named(false, C)],
            vec![named(false, A), named(true, B), named(false, C)],
            vec![named(false, A), star, named(false, C)],
            vec![named(false, A), named(true, C)],
            vec![named(false, A), star, star, named(false, C)],
            vec![named(false, A), named(false, B), named(false, C)],
        ];
        let mut nfa = Nfa::new();
        let mut changes = Vec::new();
        let items: Vec<u32> =
            (0..).zip(&queries).map(|(i, path)| insert(&mut nfa, path, Item::Accept(i), &mut changes)).collect();
        assert_eq!(nfa.state_count(), 13);

        for path in &queries {
            let state = nfa.find(path).expect("a path that was inserted");
            assert_eq!(nfa.path_of(state), *path);
        }
        assert_eq!(nfa.find(&[named(true, A)]), None);

        // <a><b><c/></b></a> is matched by all but the second and the seventh query.
        let mut matched = Vec::new();
        let mut active = vec![INITIAL];
        for local in [A, B, C] {
            let mut target = Vec::new();
            nfa.step(&active, name(local), &mut target);
            for &state in &target {
                matched.extend(nfa.items(state));
            }
            active = target;
        }
        let mut numbers: Vec<u32> =
            matched.into_iter().map(|item| if let Item::Accept(n) = item { n } else { 99 }).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 2, 3, 4, 5, 7]);

        for item in &items[1..] {
            nfa.remove(*item, &mut changes);
        }
        assert_eq!(nfa.state_count(), 3);
        changes.clear();
        let again = insert(&mut nfa, &queries[2], Item::Accept(2), &mut changes);
        assert_eq!(nfa.state_count(), 4);
        assert!(matches!(changes[0], Change::Reused(_)));
        nfa.remove(again, &mut changes);
        nfa.remove(items[0], &mut changes);
        assert_eq!(nfa.state_count(), 1);
        assert!(nfa.edges.is_empty());
    }

    fn insert(nfa: &mut Nfa, path: &[LinearStep], item: Item, changes: &mut Vec<Change>) -> u32 {
        let state = nfa.state_of(path, changes);
        nfa.insert_item(state, item, changes)
    }
}
