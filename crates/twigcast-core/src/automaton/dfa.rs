//! The lazy DFA: sets of NFA states that messages really lead to, each made once and kept in a bounded cache (the lazy
//! DFA of Green et al., "Processing XML streams with deterministic automata and stream indexes", 2004; the cache
//! discipline is that of regex-automata's hybrid DFA).
//!
//! One element costs one look-up, however many queries there are. What the queries of a state's NFA states ask for is
//! merged when the state is made. When queries come and go, the cache is repaired where the change touches it
//! ([`LazyDfa::follow`]), not thrown away.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nfa::{Change, INITIAL, Item, Nfa, StateId};
use crate::predicate::table::KeyTable;
use crate::predicate::waiting::KeyedTrigger;
use crate::vocabulary::Name;

/// Number of a DFA state.
pub type DfaId = u32;
/// The state of no active NFA state: nothing below can match.
pub const DEAD: DfaId = 0;
/// The state of the document node.
pub const START: DfaId = 1;

/// The cache has reached its budget; see [`LazyDfa::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetReached;

/// One state: a set of NFA states and the merged items of them all.
#[derive(Debug)]
pub struct DfaState {
    set: Arc<[StateId]>,
    /// Number of the state's row of transitions; a new number forgets the row.
    row: u32,
    /// Queries that match when this state is reached.
    pub accepts: Vec<u32>,
    /// Twigs to decide at elements of this state one by one.
    pub twigs: Vec<u32>,
    /// Other twigs by the rarest branch that they ask for.
    pub branching: KeyTable,
    /// Changes whenever `twigs` does, never used twice: what memoised decisions are filed under.
    pub twigs_version: u32,
    /// Triggers with a key.
    pub keyed: KeyTable,
    /// Triggers without one.
    pub candidates: Vec<u32>,
    /// NFA states of the set for which the engine keeps a table of its own.
    pub attached: Vec<StateId>,
    /// A member of the set stands for another state now: the DFA state is to be reached no more.
    is_void: bool,
    /// Some trigger came or went: `keyed` and `candidates` are to be made again.
    stale_triggers: bool,
    /// The message that last reached the state, as counted by the caller.
    pub seen: u64,
}

impl DfaState {
    /// Does anything remain to be decided at an element of this state?
    #[inline]
    pub fn has_work(&self) -> bool {
        self.has_twigs() || !self.candidates.is_empty() || !self.keyed.is_empty() || !self.attached.is_empty()
    }

    /// Does any twig wait here?
    #[inline]
    pub fn has_twigs(&self) -> bool {
        !self.twigs.is_empty() || !self.branching.is_empty()
    }

    /// All twigs that wait here.
    pub fn all_twigs<'a>(&'a self, nfa: &'a Nfa) -> impl Iterator<Item = u32> + 'a {
        self.set.iter().flat_map(|&member| nfa.items(member)).filter_map(|item| match item {
            Item::Twig(twig) => Some(twig),
            Item::Accept(_) | Item::Trigger(_) => None,
        })
    }

    fn bytes(&self) -> usize {
        // The set is kept once but referred to twice; a hash entry and the fixed part come on top.
        self.set.len() * 4
            + (self.accepts.capacity() + self.twigs.capacity() + self.candidates.capacity()) * 4
            + self.keyed.bytes()
            + self.branching.bytes()
            + size_of::<Self>()
            + 64
    }
}

/// What a trigger's key is, asked when a state's table is made.
pub trait TriggerKeys {
    /// The packed key of a trigger and what waits for it; `None` if it has no key.
    fn keyed(&self, trigger: u32) -> Option<KeyedTrigger>;

    /// The rarest branch that a twig asks for and what waits for it; `None` if it is to be decided by itself.
    fn branching(&self, twig: u32) -> Option<KeyedTrigger>;
}

/// The cache of DFA states. One per matching thread.
#[derive(Debug, Default)]
pub struct LazyDfa {
    states: Vec<DfaState>,
    by_set: FxHashMap<Arc<[StateId]>, DfaId>,
    transitions: FxHashMap<(u32, Name), DfaId>,
    /// DFA states by NFA state, kept once a change has asked for it.
    containing: Option<FxHashMap<StateId, Vec<DfaId>>>,
    next_row: u32,
    next_twigs_version: u32,
    bytes: usize,
    scratch: Vec<StateId>,
}

const TRANSITION_BYTES: usize = 2 * (size_of::<((u32, Name), DfaId)>() + 1);

impl LazyDfa {
    /// An empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forget all states; version numbers go on, so that nothing filed under an old one is mistaken for new.
    pub fn clear(&mut self) {
        self.states.clear();
        self.by_set.clear();
        self.transitions.clear();
        self.containing = None;
        self.bytes = 0;
    }

    /// How many states there are.
    pub fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Make sure that [`DEAD`] and [`START`] exist.
    pub fn prepare(&mut self, nfa: &Nfa, keys: &impl TriggerKeys) {
        if self.states.is_empty() {
            self.add(nfa, keys, &[]);
            self.add(nfa, keys, &[INITIAL]);
        }
    }

    /// A state.
    #[inline]
    pub fn state(&self, id: DfaId) -> &DfaState {
        &self.states[id as usize]
    }

    /// A state, to note that a message has seen it.
    #[inline]
    pub fn state_mut(&mut self, id: DfaId) -> &mut DfaState {
        &mut self.states[id as usize]
    }

    /// The state after an element named `name` below an element of state `from`.
    ///
    /// # Errors
    /// [`BudgetReached`] when a state would have to be made and the cache is full. The caller then clears the cache or
    /// runs the NFA itself.
    #[inline]
    pub fn next(
        &mut self,
        nfa: &Nfa,
        keys: &impl TriggerKeys,
        from: DfaId,
        name: Name,
        budget: usize,
    ) -> Result<DfaId, BudgetReached> {
        let row = self.states[from as usize].row;
        match self.transitions.get(&(row, name)) {
            Some(&known) if !self.states[known as usize].is_void => Ok(known),
            _ => self.make(nfa, keys, from, name, budget),
        }
    }

    #[cold]
    fn make(
        &mut self,
        nfa: &Nfa,
        keys: &impl TriggerKeys,
        from: DfaId,
        name: Name,
        budget: usize,
    ) -> Result<DfaId, BudgetReached> {
        if self.bytes >= budget {
            return Err(BudgetReached);
        }
        let mut target = std::mem::take(&mut self.scratch);
        nfa.step(&self.states[from as usize].set, name, &mut target);
        let id = match self.by_set.get(target.as_slice()) {
            Some(&known) => known,
            None => self.add(nfa, keys, &target),
        };
        self.scratch = target;
        let row = self.states[from as usize].row;
        self.transitions.insert((row, name), id);
        self.bytes += TRANSITION_BYTES;
        Ok(id)
    }

    fn add(&mut self, nfa: &Nfa, keys: &impl TriggerKeys, set: &[StateId]) -> DfaId {
        let id = self.states.len() as DfaId;
        let set: Arc<[StateId]> = set.into();
        let mut state = DfaState {
            set: set.clone(),
            row: self.next_row,
            accepts: Vec::new(),
            twigs: Vec::new(),
            branching: KeyTable::default(),
            twigs_version: self.next_twigs_version,
            keyed: KeyTable::default(),
            candidates: Vec::new(),
            attached: set.iter().copied().filter(|&member| nfa.has_attachment(member)).collect(),
            is_void: false,
            stale_triggers: false,
            seen: 0,
        };
        self.next_row += 1;
        self.next_twigs_version += 1;
        let mut branching = Vec::new();
        for &member in set.iter() {
            for item in nfa.items(member) {
                match item {
                    Item::Accept(query) => state.accepts.push(query),
                    Item::Twig(twig) => match keys.branching(twig) {
                        Some(entry) => branching.push(entry),
                        None => state.twigs.push(twig),
                    },
                    Item::Trigger(_) => state.stale_triggers = true,
                }
            }
        }
        if !branching.is_empty() {
            state.branching = KeyTable::new(branching);
        }
        if state.stale_triggers {
            merge_triggers(&mut state, nfa, keys);
        }
        self.bytes += state.bytes();
        if let Some(containing) = &mut self.containing {
            for &member in set.iter() {
                containing.entry(member).or_default().push(id);
            }
        }
        self.states.push(state);
        self.by_set.insert(set, id);
        id
    }

    /// Follow changes of the NFA: repair what they touch, keep the rest.
    pub fn follow(&mut self, nfa: &Nfa, changes: &[Change]) {
        if self.states.is_empty() || changes.is_empty() {
            return;
        }
        let containing = self.containing.take().unwrap_or_else(|| self.index_members());
        for &change in changes {
            let (Change::ItemAdded(state, _)
            | Change::ItemRemoved(state, _)
            | Change::NameEdge(state, _)
            | Change::WideEdge(state)
            | Change::Attached(state)
            | Change::Reused(state)) = change;
            self.follow_one(containing.get(&state).map_or(&[], Vec::as_slice), change);
            // The edges of a descendant-child are also taken from the state before it (rule 4).
            // A state taken out since has no state before it any more; then it has no edges either.
            let has_edge = matches!(change, Change::NameEdge(..) | Change::WideEdge(_));
            if has_edge && nfa.is_descendant(state) {
                let before = nfa.parent(state);
                self.follow_one(containing.get(&before).map_or(&[], Vec::as_slice), change);
            }
        }
        self.containing = Some(containing);
    }

    fn index_members(&self) -> FxHashMap<StateId, Vec<DfaId>> {
        let mut containing: FxHashMap<StateId, Vec<DfaId>> = FxHashMap::default();
        for (id, state) in self.states.iter().enumerate() {
            for &member in state.set.iter() {
                containing.entry(member).or_default().push(id as DfaId);
            }
        }
        containing
    }

    fn follow_one(&mut self, touched: &[DfaId], change: Change) {
        for &id in touched {
            let state = &mut self.states[id as usize];
            match change {
                Change::ItemAdded(_, Item::Accept(query)) => state.accepts.push(query),
                Change::ItemRemoved(_, Item::Accept(query)) => remove_one(&mut state.accepts, query),
                Change::ItemAdded(_, Item::Twig(twig)) => {
                    state.twigs.push(twig);
                    state.twigs_version = self.next_twigs_version;
                    self.next_twigs_version += 1;
                }
                Change::ItemRemoved(_, Item::Twig(twig)) => {
                    remove_one(&mut state.twigs, twig);
                    state.twigs_version = self.next_twigs_version;
                    self.next_twigs_version += 1;
                }
                Change::ItemAdded(_, Item::Trigger(_)) | Change::ItemRemoved(_, Item::Trigger(_)) => {
                    state.stale_triggers = true;
                }
                Change::NameEdge(_, name) => {
                    self.transitions.remove(&(state.row, name));
                }
                Change::WideEdge(_) => {
                    state.row = self.next_row;
                    self.next_row += 1;
                }
                Change::Attached(member) => state.attached.push(member),
                Change::Reused(_) => {
                    state.is_void = true;
                    self.by_set.remove(&state.set);
                }
            }
        }
    }

    /// Bring a state's trigger tables up to date before they are used.
    #[inline]
    pub fn refresh(&mut self, nfa: &Nfa, keys: &impl TriggerKeys, id: DfaId) {
        let state = &mut self.states[id as usize];
        if state.stale_triggers {
            let before = state.bytes();
            merge_triggers(state, nfa, keys);
            self.bytes = self.bytes - before + state.bytes();
        }
    }
}

fn merge_triggers(state: &mut DfaState, nfa: &Nfa, keys: &impl TriggerKeys) {
    state.candidates.clear();
    let mut keyed = Vec::new();
    for &member in state.set.iter() {
        for item in nfa.items(member) {
            if let Item::Trigger(trigger) = item {
                match keys.keyed(trigger) {
                    Some(entry) => keyed.push(entry),
                    None => state.candidates.push(trigger),
                }
            }
        }
    }
    state.keyed = KeyTable::new(keyed);
    state.stale_triggers = false;
}

fn remove_one(list: &mut Vec<u32>, value: u32) {
    if let Some(index) = list.iter().position(|&entry| entry == value) {
        list.swap_remove(index);
    }
}
