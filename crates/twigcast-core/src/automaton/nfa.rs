//! YFilter's NFA (Diao 2005, section 4.3) as flat tables.

use rustc_hash::FxHashMap;

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
    /// Head of the state's item list.
    items: u32,
    /// The state that the one edge into this state leaves.
    parent: StateId,
    /// How the one edge into this state is labelled.
    incoming: Incoming,
    /// Items here, attachments, and states right below; a state without any is taken out.
    uses: u32,
    flags: u8,
}

/// The label of the edge into a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Incoming {
    /// No edge: the initial state, and states that are free.
    None,
    Epsilon,
    Star,
    Labelled(Label),
}

/// The state is a descendant-child: it stays active below whatever activated it.
const IS_DESCENDANT: u8 = 1;
const HAS_NAMES: u8 = 2;
const HAS_NAMESPACES: u8 = 4;
const HAS_LOCALS: u8 = 8;
const HAS_ATTACHMENT: u8 = 16;

impl State {
    fn new(parent: StateId, incoming: Incoming, flags: u8) -> Self {
        Self { star: NO_STATE, descendant: NO_STATE, items: NO_ITEM, parent, incoming, uses: 0, flags }
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

#[derive(Clone, Copy, Debug)]
struct ItemEntry {
    item: Item,
    state: StateId,
    next: u32,
    /// The item before this one in its list; [`NO_ITEM`] for the first.
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
    states: Vec<State>,
    edges: FxHashMap<(StateId, Label), StateId>,
    items: Vec<ItemEntry>,
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
        let initial = State::new(NO_STATE, Incoming::None, 0);
        Self {
            states: vec![initial],
            edges: FxHashMap::default(),
            items: Vec::new(),
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
        self.states.capacity() * size_of::<State>()
            + self.edges.capacity() * (size_of::<((StateId, Label), StateId)>() + 1)
            + self.items.capacity() * size_of::<ItemEntry>()
            + (self.free_items.capacity() + self.free_states.capacity()) * 4
    }

    fn new_state(&mut self, parent: StateId, incoming: Incoming, flags: u8, changes: &mut Vec<Change>) -> StateId {
        self.states[parent as usize].uses += 1;
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
            state.uses -= 1;
            if state.uses > 0 || id == INITIAL {
                return;
            }
            let (parent, incoming) = (state.parent, state.incoming);
            // What lazily built automata still hold of the state is inert: it has no items and no edges.
            *state = State::new(NO_STATE, Incoming::None, 0);
            match incoming {
                Incoming::None => {}
                Incoming::Epsilon => self.states[parent as usize].descendant = NO_STATE,
                Incoming::Star => self.states[parent as usize].star = NO_STATE,
                Incoming::Labelled(label) => {
                    self.edges.remove(&(parent, label));
                }
            }
            self.free_states.push(id);
            id = parent;
        }
    }

    /// Note that the engine keeps something of its own for a state (which [`Self::has_attachment`] then tells), so that
    /// the state stays. Each call is one use; [`Self::detach`] ends one.
    pub fn attach(&mut self, state: StateId, changes: &mut Vec<Change>) {
        let entry = &mut self.states[state as usize];
        entry.uses += 1;
        if entry.flags & HAS_ATTACHMENT == 0 {
            entry.flags |= HAS_ATTACHMENT;
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
        self.states[state as usize].flags & HAS_ATTACHMENT != 0
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
                NameTest::Name(name) => *self.edges.get(&(state, Label::name(name)))?,
                NameTest::Namespace(namespace) => *self.edges.get(&(state, Label::namespace(namespace)))?,
                NameTest::Local(local) => *self.edges.get(&(state, Label::local(local)))?,
            };
        }
        Some(state)
    }

    /// The path that accepts at a state.
    pub fn path_of(&self, mut state: StateId) -> Vec<LinearStep> {
        let mut path: Vec<LinearStep> = Vec::new();
        while state != INITIAL && state != NO_STATE {
            let entry = &self.states[state as usize];
            match entry.incoming {
                Incoming::None => {}
                Incoming::Epsilon => {
                    if let Some(step) = path.last_mut() {
                        step.descendant = true;
                    }
                }
                Incoming::Star => path.push(LinearStep { descendant: false, test: NameTest::Any }),
                Incoming::Labelled(label) => path.push(LinearStep { descendant: false, test: label.test() }),
            }
            state = entry.parent;
        }
        path.reverse();
        path
    }

    /// Add an item to a state. Returns the item's number for [`Self::remove`].
    pub fn insert_item(&mut self, state: StateId, item: Item, changes: &mut Vec<Change>) -> u32 {
        let next = self.states[state as usize].items;
        let entry = ItemEntry { item, state, next, previous: NO_ITEM };
        let index = match self.free_items.pop() {
            Some(index) => {
                self.items[index as usize] = entry;
                index
            }
            None => {
                self.items.push(entry);
                self.items.len() as u32 - 1
            }
        };
        if next != NO_ITEM {
            self.items[next as usize].previous = index;
        }
        self.states[state as usize].items = index;
        self.states[state as usize].uses += 1;
        changes.push(Change::ItemAdded(state, item));
        index
    }

    fn descendant_child(&mut self, state: StateId, changes: &mut Vec<Change>) -> StateId {
        let known = self.states[state as usize].descendant;
        if known != NO_STATE {
            return known;
        }
        let new = self.new_state(state, Incoming::Epsilon, IS_DESCENDANT, changes);
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
                let new = self.new_state(state, Incoming::Star, 0, changes);
                self.states[state as usize].star = new;
                changes.push(Change::WideEdge(state));
                return new;
            }
            NameTest::Name(name) => (Label::name(name), HAS_NAMES),
            NameTest::Namespace(namespace) => (Label::namespace(namespace), HAS_NAMESPACES),
            NameTest::Local(local) => (Label::local(local), HAS_LOCALS),
        };
        if let Some(&known) = self.edges.get(&(state, label)) {
            return known;
        }
        let new = self.new_state(state, Incoming::Labelled(label), 0, changes);
        self.edges.insert((state, label), new);
        self.states[state as usize].flags |= flag;
        changes.push(match test {
            NameTest::Name(name) => Change::NameEdge(state, name),
            _ => Change::WideEdge(state),
        });
        new
    }

    /// Remove an item, and the states that only its path needed (Diao 2005, section 4.3.2).
    pub fn remove(&mut self, item: u32, changes: &mut Vec<Change>) {
        let ItemEntry { item: what, state, next, previous } = self.items[item as usize];
        match previous {
            NO_ITEM => self.states[state as usize].items = next,
            _ => self.items[previous as usize].next = next,
        }
        if next != NO_ITEM {
            self.items[next as usize].previous = previous;
        }
        self.free_items.push(item);
        changes.push(Change::ItemRemoved(state, what));
        self.release(state);
    }

    /// The state that an item belongs to.
    pub fn state_of_item(&self, item: u32) -> StateId {
        self.items[item as usize].state
    }

    /// The items of a state, newest first.
    pub fn items(&self, state: StateId) -> impl Iterator<Item = Item> + '_ {
        let mut next = self.states[state as usize].items;
        std::iter::from_fn(move || {
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
        self.states[state as usize].flags & IS_DESCENDANT != 0
    }

    /// The active set after an element named `name`, given the active set of its parent (Diao 2005, section 4.3.3,
    /// rules 1 to 4). `target` comes out sorted and without duplicates.
    pub fn step(&self, active: &[StateId], name: Name, target: &mut Vec<StateId>) {
        target.clear();
        for &id in active {
            let state = &self.states[id as usize];
            self.follow(id, state, name, target);
            if state.flags & IS_DESCENDANT != 0 {
                target.push(id);
            }
            if state.descendant != NO_STATE {
                self.follow(state.descendant, &self.states[state.descendant as usize], name, target);
                target.push(state.descendant);
            }
        }
        target.sort_unstable();
        target.dedup();
    }

    /// Rules 1 and 2: the edges of one state that `name` takes.
    #[inline]
    fn follow(&self, id: StateId, state: &State, name: Name, target: &mut Vec<StateId>) {
        if state.star != NO_STATE {
            target.push(state.star);
        }
        if state.flags & (HAS_NAMES | HAS_NAMESPACES | HAS_LOCALS) == 0 {
            return;
        }
        let known_local = name.local != LocalId::UNKNOWN;
        let known_namespace = name.namespace != NamespaceId::UNKNOWN;
        if state.flags & HAS_NAMES != 0 && known_local && known_namespace {
            target.extend(self.edges.get(&(id, Label::name(name))));
        }
        if state.flags & HAS_NAMESPACES != 0 && known_namespace {
            target.extend(self.edges.get(&(id, Label::namespace(name.namespace))));
        }
        if state.flags & HAS_LOCALS != 0 && known_local {
            target.extend(self.edges.get(&(id, Label::local(name.local))));
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
