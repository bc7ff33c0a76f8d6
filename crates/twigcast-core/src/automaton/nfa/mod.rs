//! YFilter's NFA (Diao 2005, section 4.3) as flat tables.
//!
//! Most states are there for one query: they have one edge into them and one acceptance. So an edge is no more than the
//! number of the state that it leads to, which knows where it comes from, and a state's only acceptance stands in the
//! state itself; it moves to the table of items when a second item comes.

mod filter;
mod items;
pub(crate) mod label_paths;
mod labels;
mod state;

use hashbrown::HashTable;

pub(super) use self::filter::EdgeFilter;
use self::items::{AcceptEntry, NO_ITEM};
pub use self::items::{sole_item, state_of_sole};
use self::labels::{EdgeLabel, EdgeLabels, NameEdges};
use self::state::{
    EPSILON, EdgeLabelId, HAS_ATTACHMENT, HAS_DESCENDANT, HAS_LABELLED, HAS_LOCALS, HAS_NAMES, HAS_NAMESPACES,
    HAS_STAR, IS_DESCENDANT, NO_EDGE, NfaState, STAR,
};
use crate::plan::LinearStep;
use crate::query::ast::NameTest;
use crate::util::chunked::Chunked;
use crate::vocabulary::Name;

/// Number of an NFA state.
pub type StateId = u32;
/// "No state".
pub const NO_STATE: StateId = u32::MAX;
/// The state before the document's root element.
pub const INITIAL: StateId = 0;

/// What happens where a path accepts. The numbers are indexes into the engine's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptItem {
    /// This query matches.
    Accept(u32),
    /// This twig is to be decided on the structure below.
    Twig(u32),
    /// This trigger is to be tested.
    Trigger(u32),
    /// These accesses lead to a query by its values.
    Access(u32),
}

fn edge_hash(parent: StateId, label: EdgeLabelId) -> u64 {
    let mixed = (u64::from(parent) << 32 | u64::from(label)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// The shared NFA.
#[derive(Clone, Debug)]
pub struct Nfa {
    states: Chunked<NfaState>,
    labels: EdgeLabels,
    /// The states that edges lead to, by where the edge comes from and its label.
    edges: HashTable<StateId>,
    items: Chunked<AcceptEntry>,
    free_items: Vec<u32>,
    free_states: Vec<StateId>,
    /// See [`Self::version`].
    version: u64,
    /// Items added since something was last taken away, the oldest first; but for the first of them.
    added: Vec<(StateId, AcceptItem)>,
    /// How many first ones are left out.
    added_before: usize,
    /// Grows whenever `added` begins anew.
    epoch: u64,
}

/// Additions that are kept at most, for those who follow them.
const ADDED_MAX: usize = 1 << 13;

/// How an automaton was at some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct NfaVersion {
    version: u64,
    epoch: u64,
    added: usize,
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
        states.push(NfaState::new(NO_STATE, NO_EDGE, 0));
        Self {
            states,
            labels: EdgeLabels::default(),
            edges: HashTable::new(),
            items: Chunked::default(),
            free_items: Vec::new(),
            free_states: Vec::new(),
            version: 0,
            added: Vec::new(),
            added_before: 0,
            epoch: 0,
        }
    }

    /// Grows with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How it is now.
    pub fn position(&self) -> NfaVersion {
        NfaVersion { version: self.version, epoch: self.epoch, added: self.added_before + self.added.len() }
    }

    /// Has nothing changed since?
    pub fn is_at(&self, position: NfaVersion) -> bool {
        self.version == position.version
    }

    /// The items that were added since, and the states that they wait at; `None` if there were other changes, or too many.
    pub fn added_since(&self, position: NfaVersion) -> Option<&[(StateId, AcceptItem)]> {
        if self.epoch != position.epoch {
            return None;
        }
        self.added.get(position.added.checked_sub(self.added_before)?..)
    }

    fn note_added(&mut self, state: StateId, item: AcceptItem) {
        if self.added.len() == ADDED_MAX {
            // Who follows often has seen these.
            self.added.drain(..ADDED_MAX / 2);
            self.added_before += ADDED_MAX / 2;
        }
        self.added.push((state, item));
    }

    /// Nobody can follow the changes any further.
    fn disturb(&mut self) {
        self.epoch += 1;
        self.added = Vec::new();
        self.added_before = 0;
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
            + self.added.capacity() * size_of::<(StateId, AcceptItem)>()
            + (self.free_items.capacity() + self.free_states.capacity()) * 4
    }

    fn new_state(&mut self, parent: StateId, incoming: EdgeLabelId, flags: u32) -> StateId {
        self.version += 1;
        self.states[parent as usize].begin_use();
        let state = NfaState::new(parent, incoming, flags);
        match self.free_states.pop() {
            Some(id) => {
                self.states[id as usize] = state;
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
            if let Ok(edge) = self.edges.find_entry(edge_hash(parent, incoming), |&target| target == id) {
                edge.remove();
            }
            match incoming {
                EPSILON => self.states[parent as usize].flags_and_uses &= !HAS_DESCENDANT,
                STAR => self.states[parent as usize].flags_and_uses &= !HAS_STAR,
                _ => {}
            }
            self.version += 1;
            self.disturb();
            self.states[id as usize] = NfaState::new(NO_STATE, NO_EDGE, 0);
            self.free_states.push(id);
            id = parent;
        }
    }

    /// Note that the engine keeps something of its own for a state (which [`Self::has_attachment`] then tells), so that
    /// the state stays. Each call is one use; [`Self::detach`] ends one.
    pub fn attach(&mut self, state: StateId) {
        let entry = &mut self.states[state as usize];
        entry.begin_use();
        if !entry.has(HAS_ATTACHMENT) {
            entry.flags_and_uses |= HAS_ATTACHMENT;
            self.version += 1;
            self.disturb();
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
    pub fn state_of(&mut self, path: &[LinearStep]) -> StateId {
        let mut state = INITIAL;
        for step in path {
            if step.descendant {
                state = self.descendant_child(state);
            }
            state = self.edge(state, step.test);
        }
        state
    }

    /// The state where `path` accepts, if the automaton has it.
    pub fn find(&self, path: &[LinearStep]) -> Option<StateId> {
        path.iter().try_fold(INITIAL, |state, &step| self.after(state, step))
    }

    /// [`Self::find`] of many paths: of all the first step, then of all the second. What one step waits for does not
    /// depend on the other paths, so memory is asked for many places at a time.
    pub fn find_many<'p>(
        &self,
        paths: impl Iterator<Item = &'p [LinearStep]> + Clone,
        result: &mut Vec<Option<StateId>>,
    ) {
        result.clear();
        result.extend(paths.clone().map(|_| Some(INITIAL)));
        let longest = paths.clone().map(<[LinearStep]>::len).max().unwrap_or(0);
        for depth in 0..longest {
            for (path, result) in paths.clone().zip(&mut *result) {
                if let (Some(&step), Some(state)) = (path.get(depth), *result) {
                    *result = self.after(state, step);
                }
            }
        }
    }

    /// The state after one more step.
    #[inline]
    fn after(&self, state: StateId, step: LinearStep) -> Option<StateId> {
        let state = if step.descendant { self.descendant(state)? } else { state };
        let label = match step.test {
            NameTest::Any => return self.star(state),
            NameTest::Name(name) => EdgeLabel::name(name),
            NameTest::Namespace(namespace) => EdgeLabel::namespace(namespace),
            NameTest::Local(local) => EdgeLabel::local(local),
        };
        if !self.states[state as usize].has(HAS_LABELLED) {
            return None;
        }
        self.target(state, self.labels.find(label)?)
    }

    /// Where the `*` edge of a state leads.
    #[inline]
    fn star(&self, from: StateId) -> Option<StateId> {
        if self.states[from as usize].has(HAS_STAR) { self.target(from, STAR) } else { None }
    }

    /// Where the epsilon edge of a state leads.
    #[inline]
    fn descendant(&self, from: StateId) -> Option<StateId> {
        if self.states[from as usize].has(HAS_DESCENDANT) { self.target(from, EPSILON) } else { None }
    }

    /// Where an edge leads.
    #[inline]
    fn target(&self, from: StateId, label: EdgeLabelId) -> Option<StateId> {
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
                    path.push(LinearStep { descendant: false, test: self.labels.test(label) });
                }
            }
            state = entry.parent;
        }
        path.reverse();
        path
    }

    fn descendant_child(&mut self, state: StateId) -> StateId {
        self.edge_with(state, EPSILON, HAS_DESCENDANT, IS_DESCENDANT)
    }

    fn edge(&mut self, state: StateId, test: NameTest) -> StateId {
        let (label, flag) = match test {
            NameTest::Any => return self.edge_with(state, STAR, HAS_STAR, 0),
            NameTest::Name(name) => (EdgeLabel::name(name), HAS_NAMES),
            NameTest::Namespace(namespace) => (EdgeLabel::namespace(namespace), HAS_NAMESPACES),
            NameTest::Local(local) => (EdgeLabel::local(local), HAS_LOCALS),
        };
        let label = self.labels.intern(label);
        self.edge_with(state, label, flag, 0)
    }

    /// Where the edge with a label leads, which is made if there is none. `flag`: what a state has that such an edge
    /// leaves; `flags`: those of a state that it leads to.
    fn edge_with(&mut self, state: StateId, label: EdgeLabelId, flag: u32, flags: u32) -> StateId {
        if self.states[state as usize].has(flag)
            && let Some(existing) = self.target(state, label)
        {
            return existing;
        }
        let new = self.new_state(state, label, flags);
        let states = &self.states;
        self.edges.insert_unique(edge_hash(state, label), new, |&target| {
            let target = &states[target as usize];
            edge_hash(target.parent, target.incoming)
        });
        self.states[state as usize].flags_and_uses |= flag;
        new
    }

    /// The active set after an element named `name`, given the active set of its parent (Diao 2005, section 4.3.3,
    /// rules 1 to 4). `target` comes out sorted and without duplicates.
    pub fn step(&self, active: &[StateId], name: Name, target: &mut Vec<StateId>) {
        target.clear();
        let edges = self.labels.edges_by_name(name);
        for &id in active {
            self.follow(id, edges, target);
            if self.states[id as usize].has(IS_DESCENDANT) {
                target.push(id);
            }
            if let Some(descendant) = self.descendant(id) {
                self.follow(descendant, edges, target);
                target.push(descendant);
            }
        }
        target.sort_unstable();
        target.dedup();
    }

    /// Rules 1 and 2: the edges of one state that a name takes.
    #[inline]
    fn follow(&self, id: StateId, edges: NameEdges, target: &mut Vec<StateId>) {
        target.extend(self.star(id));
        self.follow_labelled(id, edges, None, |next| target.push(next));
    }

    /// The labels that the edges of a name may have.
    pub(super) fn edges_by_name(&self, name: Name) -> NameEdges {
        self.labels.edges_by_name(name)
    }

    /// Where the labelled edges of a state lead that a name takes.
    #[inline]
    pub(super) fn follow_labelled(
        &self,
        id: StateId,
        edges_by_name: NameEdges,
        filter: Option<&EdgeFilter>,
        mut each: impl FnMut(StateId),
    ) {
        let state = &self.states[id as usize];
        for (flag, label) in [
            (HAS_NAMES, edges_by_name.name),
            (HAS_NAMESPACES, edges_by_name.namespace),
            (HAS_LOCALS, edges_by_name.local),
        ] {
            if label == NO_EDGE || filter.is_some_and(|filter| !filter.may_leave(id, label)) || !state.has(flag) {
                continue;
            }
            if let Some(target) = self.target(id, label) {
                each(target);
            }
        }
    }

    /// What leaves a state: whether labelled edges do, and where the `*` edge and the epsilon edge lead.
    #[inline]
    pub(super) fn edges(&self, id: StateId) -> (bool, Option<StateId>, Option<StateId>) {
        (self.states[id as usize].has(HAS_LABELLED), self.star(id), self.descendant(id))
    }
}

#[cfg(test)]
mod tests;
