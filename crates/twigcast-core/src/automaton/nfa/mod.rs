//! YFilter's NFA (Diao 2005, section 4.3) as flat tables.
//!
//! Most states belong to one query: one edge leads to them, and they have one acceptance. So an edge is just the id of the
//! state that it leads to, which stores the origin of the edge; and a sole acceptance is stored in the state itself.

mod filter;
mod items;
pub(crate) mod label_paths;
mod labels;
mod state;

pub(super) use self::filter::EdgeFilter;
use self::items::AcceptEntry;
use self::labels::{EdgeLabel, EdgeLabels, NameEdges};
use self::state::{
    EPSILON, HAS_ATTACHMENT, HAS_DESCENDANT, HAS_LABELLED, HAS_LOCALS, HAS_NAMES, HAS_NAMESPACES, HAS_STAR,
    IS_DESCENDANT, NO_EDGE, NfaState, STAR,
};
use crate::ids::{AccessId, EdgeLabelId, StateId, TriggerId, TwigId};
use crate::plan::LinearStep;
use crate::query::ast::NameTest;
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowHashTable;
use crate::vocabulary::Name;

/// In place of an absent state.
pub const NO_STATE: StateId = StateId::ABSENT;
/// The state before the document's root element.
pub const INITIAL: StateId = StateId::from_u32(0);

/// The item of a state: what happens where a path accepts. The numbers are indexes into the engine's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcceptItem {
    /// The query matches.
    Accept(u32),
    /// The twig is to be decided on the structure below.
    Twig(TwigId),
    /// The trigger is to be tested.
    Trigger(TriggerId),
    /// Accesses that lead to a query by the values of its elements.
    Access(AccessId),
}

fn edge_hash(parent: StateId, label: EdgeLabelId) -> u64 {
    let key = u64::from(parent.as_u32()) << 32 | u64::from(label.as_u32());
    let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

/// The shared NFA.
///
/// The states form a tree: each but the first is the target of exactly one edge. A state without uses (items, attachments
/// and children) is removed, and its id used again.
#[derive(Clone, Debug)]
pub struct Nfa {
    states: Chunked<NfaState>,
    labels: EdgeLabels,
    /// The states that edges lead to, by where the edge leaves and its label.
    edges: CowHashTable<StateId>,
    items: Chunked<AcceptEntry>,
    free_items: Chunked<u32>,
    free_states: Chunked<StateId>,
    version: u64,
    /// Items added since something was last removed, the oldest first; without the oldest if there are too many.
    added: Vec<(StateId, AcceptItem)>,
    /// The number of the oldest that are no longer in `added`.
    added_before: usize,
    /// How often `added` began anew: what was added since an earlier [`NfaVersion`] is known only if this is unchanged.
    restarts: u64,
}

/// The most recent additions that are kept for matchers to catch up.
const ADDED_MAX: usize = 1 << 13;

/// The version of an NFA, with what is needed to find out what was added since.
#[derive(Clone, Copy, Debug, Default)]
pub struct NfaVersion {
    version: u64,
    restarts: u64,
    added: usize,
}

impl Default for Nfa {
    fn default() -> Self {
        Self::new()
    }
}

impl Nfa {
    /// Creates the NFA of no path.
    pub fn new() -> Self {
        let mut states = Chunked::default();
        states.push(NfaState::new(NO_STATE, NO_EDGE, 0));
        Self {
            states,
            labels: EdgeLabels::default(),
            edges: CowHashTable::default(),
            items: Chunked::default(),
            free_items: Chunked::default(),
            free_states: Chunked::default(),
            version: 0,
            added: Vec::new(),
            added_before: 0,
            restarts: 0,
        }
    }

    /// Returns a number that grows with each change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the current version, for [`Self::added_since`].
    pub fn position(&self) -> NfaVersion {
        NfaVersion { version: self.version, restarts: self.restarts, added: self.added_before + self.added.len() }
    }

    /// Returns `true` if nothing has changed since a version.
    pub fn is_at(&self, position: NfaVersion) -> bool {
        self.version == position.version
    }

    /// Returns the items that were added since a version, and their states; `None` if there were other changes, or too
    /// many.
    pub fn added_since(&self, position: NfaVersion) -> Option<&[(StateId, AcceptItem)]> {
        if self.restarts != position.restarts {
            return None;
        }
        self.added.get(position.added.checked_sub(self.added_before)?..)
    }

    fn record_added(&mut self, state: StateId, item: AcceptItem) {
        if self.added.len() == ADDED_MAX {
            // Those who follow often have seen the older half.
            self.added.drain(..ADDED_MAX / 2);
            self.added_before += ADDED_MAX / 2;
        }
        self.added.push((state, item));
    }

    /// Ends the record of additions: after a change of another kind, nobody can follow by additions alone.
    fn forget_added(&mut self) {
        self.restarts += 1;
        self.added = Vec::new();
        self.added_before = 0;
    }

    /// Returns the number of states.
    pub fn state_count(&self) -> usize {
        self.states.len() - self.free_states.len()
    }

    /// Returns the size of the tables in bytes.
    pub fn bytes(&self) -> usize {
        self.states.bytes()
            + self.labels.bytes()
            + self.edges.capacity() * (size_of::<StateId>() + 1)
            + self.items.bytes()
            + self.added.capacity() * size_of::<(StateId, AcceptItem)>()
            + self.free_items.bytes()
            + self.free_states.bytes()
    }

    /// Adds the target of an edge. `flag` says of its parent that it has such an edge; `flags` are its own.
    fn new_state(&mut self, parent: StateId, incoming: EdgeLabelId, flag: u32, flags: u32) -> StateId {
        self.version += 1;
        let from = &mut self.states[parent.index()];
        from.begin_use();
        from.flags_and_uses |= flag;
        let state = NfaState::new(parent, incoming, flags);
        match self.free_states.pop() {
            Some(id) => {
                self.states[id.index()] = state;
                id
            }
            None => {
                self.states.push(state);
                StateId::new(self.states.len() - 1)
            }
        }
    }

    /// Ends one use of a state. A state without uses is removed, and so may be those above it.
    fn release(&mut self, mut id: StateId) {
        loop {
            let state = &mut self.states[id.index()];
            if !state.end_use() || id == INITIAL {
                return;
            }
            let (parent, incoming) = (state.parent, state.incoming);
            self.edges.remove(edge_hash(parent, incoming), |&target| target == id);
            match incoming {
                EPSILON => self.states[parent.index()].flags_and_uses &= !HAS_DESCENDANT,
                STAR => self.states[parent.index()].flags_and_uses &= !HAS_STAR,
                _ => {}
            }
            self.version += 1;
            self.forget_added();
            self.states[id.index()] = NfaState::new(NO_STATE, NO_EDGE, 0);
            self.free_states.push(id);
            id = parent;
        }
    }

    /// Keeps a state for something that the engine stores elsewhere. Each call is one use, which [`Self::detach`] ends.
    pub fn attach(&mut self, state: StateId) {
        let entry = &mut self.states[state.index()];
        entry.begin_use();
        if !entry.has(HAS_ATTACHMENT) {
            entry.flags_and_uses |= HAS_ATTACHMENT;
            self.version += 1;
            self.forget_added();
        }
    }

    /// Ends one use of a state by [`Self::attach`].
    pub fn detach(&mut self, state: StateId) {
        self.release(state);
    }

    /// Returns `true` if [`Self::attach`] was called for the state since it was created.
    #[inline]
    pub fn has_attachment(&self, state: StateId) -> bool {
        self.states[state.index()].has(HAS_ATTACHMENT)
    }

    /// Returns the state where `path` accepts, adding states as needed. The caller must give a new state a use, by
    /// [`Self::insert_item`] or [`Self::attach`].
    pub fn state_of(&mut self, path: &[LinearStep]) -> StateId {
        let mut state = INITIAL;
        for step in path {
            if step.descendant {
                state = self.edge_with(state, EPSILON, HAS_DESCENDANT, IS_DESCENDANT);
            }
            state = self.edge(state, step.test);
        }
        state
    }

    /// Returns the state where `path` accepts, if the NFA has it.
    pub fn find(&self, path: &[LinearStep]) -> Option<StateId> {
        path.iter().try_fold(INITIAL, |state, &step| self.after(state, step))
    }

    /// Finds the states of many paths, as [`Self::find`] does: the first step of all, then the second of all. Lookups for
    /// different paths do not depend on each other, so the processor waits for memory for many of them at the same time.
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

    /// Returns the state after one more step.
    #[inline]
    fn after(&self, state: StateId, step: LinearStep) -> Option<StateId> {
        let state = if step.descendant { self.descendant(state)? } else { state };
        let label = match step.test {
            NameTest::Any => return self.star(state),
            NameTest::Name(name) => EdgeLabel::name(name),
            NameTest::Namespace(namespace) => EdgeLabel::namespace(namespace),
            NameTest::Local(local) => EdgeLabel::local(local),
        };
        if !self.states[state.index()].has(HAS_LABELLED) {
            return None;
        }
        self.target(state, self.labels.find(label)?)
    }

    /// Returns the target of a state's `*` edge.
    #[inline]
    fn star(&self, from: StateId) -> Option<StateId> {
        if self.states[from.index()].has(HAS_STAR) { self.target(from, STAR) } else { None }
    }

    /// Returns the target of a state's epsilon edge.
    #[inline]
    fn descendant(&self, from: StateId) -> Option<StateId> {
        if self.states[from.index()].has(HAS_DESCENDANT) { self.target(from, EPSILON) } else { None }
    }

    /// Returns the target of an edge.
    #[inline]
    fn target(&self, from: StateId, label: EdgeLabelId) -> Option<StateId> {
        let is_target = |&target: &StateId| {
            let state = &self.states[target.index()];
            state.parent == from && state.incoming == label
        };
        self.edges.find(edge_hash(from, label), is_target).copied()
    }

    /// Returns the path that accepts at a state.
    pub fn path_of(&self, mut state: StateId) -> Vec<LinearStep> {
        let mut path: Vec<LinearStep> = Vec::new();
        while state != INITIAL && state != NO_STATE {
            let entry = &self.states[state.index()];
            match entry.incoming {
                NO_EDGE => {}
                EPSILON => {
                    if let Some(step) = path.last_mut() {
                        step.descendant = true;
                    }
                }
                STAR => path.push(LinearStep { descendant: false, test: NameTest::Any }),
                label => path.push(LinearStep { descendant: false, test: self.labels.test(label) }),
            }
            state = entry.parent;
        }
        path.reverse();
        path
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

    /// Returns the target of a state's edge with a label, adding the edge if there is none. `flag` says of the state that
    /// it has such an edge; `flags` are those of a new target.
    fn edge_with(&mut self, state: StateId, label: EdgeLabelId, flag: u32, flags: u32) -> StateId {
        if self.states[state.index()].has(flag)
            && let Some(existing) = self.target(state, label)
        {
            return existing;
        }
        let new = self.new_state(state, label, flag, flags);
        let states = &self.states;
        self.edges.insert_unique(edge_hash(state, label), new, |&target| {
            let target = &states[target.index()];
            edge_hash(target.parent, target.incoming)
        });
        new
    }

    /// Finds the active set after the start tag of an element, from the active set of its parent (Diao 2005, section
    /// 4.3.3, rules 1 to 4). `target` comes out sorted and without duplicates.
    pub fn step(&self, active: &[StateId], name: Name, target: &mut Vec<StateId>) {
        target.clear();
        let edges = self.labels.edges_by_name(name);
        for &id in active {
            self.follow(id, edges, target);
            if self.states[id.index()].has(IS_DESCENDANT) {
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

    /// Follows the edges of one state that a name takes (rules 1 and 2).
    #[inline]
    fn follow(&self, id: StateId, edges: NameEdges, target: &mut Vec<StateId>) {
        target.extend(self.star(id));
        self.follow_labelled(id, edges, None, |next| target.push(next));
    }

    /// Returns the labels that take a name.
    pub(super) fn edges_by_name(&self, name: Name) -> NameEdges {
        self.labels.edges_by_name(name)
    }

    /// Passes on the targets of a state's edges with a name test that takes a name. A filter only saves time.
    #[inline]
    pub(super) fn follow_labelled(
        &self,
        id: StateId,
        edges_by_name: NameEdges,
        filter: Option<&EdgeFilter>,
        mut each: impl FnMut(StateId),
    ) {
        let state = &self.states[id.index()];
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

    /// Returns the edges that leave a state: whether any has a name test, and the targets of the `*` and epsilon edges.
    #[inline]
    pub(super) fn edges(&self, id: StateId) -> (bool, Option<StateId>, Option<StateId>) {
        (self.states[id.index()].has(HAS_LABELLED), self.star(id), self.descendant(id))
    }

    /// Creates a filter of the edges with a name test, as they are now.
    pub(super) fn edge_filter(&self) -> EdgeFilter {
        let edges = self.states.iter().map(|state| (state.parent, state.incoming));
        EdgeFilter::new(self.labels.bound(), edges.filter(|&(_, label)| label > STAR))
    }
}

#[cfg(test)]
mod tests;
