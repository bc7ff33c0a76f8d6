//! The product DFA: the lazy DFAs of both segments, walked in one lookup per element.

mod lookahead;
mod update;

use rustc_hash::FxHashMap;

use self::lookahead::ProductPaths;
use self::update::NewAcceptances;
use super::Engine;
use super::early_stop::{MatchObserver, ObserverNote};
use super::path_cache::PathCache;
use super::query_index::QueryIndex;
use super::query_set::QuerySet;
use crate::automaton::dfa::{Acceptance, CacheFull, DEAD, START, Transitions};
use crate::document::{Document, NodeId, NodeKind};
use crate::ids::{DfaId, ProductStateId};
use crate::vocabulary::Name;

/// The product state of two dead states.
pub(super) const DEAD_STATE: ProductStateId = ProductStateId::from_u32(0);
/// The product state of the document node.
pub(super) const DOCUMENT_STATE: ProductStateId = ProductStateId::from_u32(1);

/// The number of a version of the DFA of the recent segment, as product states and transitions record it. It has 8 bits, and so
/// begins at 0 again when the product states are built anew.
type Epoch = u8;
/// The epoch of product states and transitions that belong to none.
const STALE: Epoch = Epoch::MAX;
/// The last epoch; after it, all product states are built anew.
const LAST_EPOCH: Epoch = STALE - 1;

/// Product states that no transition leads to are removed, with all others, when there are as many of them as of those
/// with one, and this many.
const SPARE_STATES: usize = 64;

/// In place of a DFA state: that of the recent segment is not known, only what it accepts.
const UNKNOWN: DfaId = DfaId::ABSENT;

/// The target of a transition: a product state in 24 bits, and above them the epoch in which that was last true.
#[derive(Clone, Copy, Debug)]
struct EpochTarget(u32);

impl EpochTarget {
    const STATE_BITS: u32 = 24;
    const STATES_MAX: u32 = (1 << Self::STATE_BITS) - 1;

    #[inline(always)]
    fn new(state: ProductStateId, epoch: Epoch) -> Self {
        Self(u32::from(epoch) << Self::STATE_BITS | state.as_u32())
    }

    /// Returns the product state, whatever the epoch.
    fn state(self) -> ProductStateId {
        ProductStateId::from_u32(self.0 & Self::STATES_MAX)
    }

    /// Returns the product state if the target is of an epoch.
    #[inline(always)]
    fn state_in(self, epoch: Epoch) -> Option<ProductStateId> {
        let number = self.0 ^ u32::from(epoch) << Self::STATE_BITS;
        (number <= Self::STATES_MAX).then_some(ProductStateId::from_u32(number))
    }
}

/// A pair of DFA states, one of each segment.
#[derive(Debug)]
struct ProductState {
    /// The number of the message that last reached the state.
    seen: u64,
    main: DfaId,
    /// The state of the recent segment, or [`UNKNOWN`].
    recent: DfaId,
    epoch: Epoch,
    /// The acceptances of the main and of the recent segment.
    acceptances: (Acceptance, Acceptance),
    /// Some segment leaves more to be decided here.
    is_open: bool,
    /// The notes of an observer on each acceptance.
    notes: (ObserverNote, ObserverNote),
}

/// The transition by which a product state was first reached.
#[derive(Clone, Copy, Debug)]
struct StateOrigin {
    from: ProductStateId,
    name: Name,
    /// No other transition leads to the state.
    is_only: bool,
}

/// The pairs of DFA states that messages lead to. One lookup advances both DFAs, so that the recent segment costs hardly
/// more than the main segment alone.
///
/// A new epoch begins when the recent segment changes. Product states and transitions stay: their main half is still
/// true. When a message follows a transition of an earlier epoch, only the recent half is computed again, and the product
/// state that it leads to takes the new half over. Two transitions to one product state part if their recent halves differ
/// in the new epoch. When many transitions are followed again, all product states are brought up to date at once (see
/// [`lookahead`]). When queries were only added, their acceptances are added to the product states (see [`update`]).
///
/// At any time, [`DEAD_STATE`] and [`DOCUMENT_STATE`] are of the current epoch; a transition of the current epoch leads to
/// a state of the current epoch.
#[derive(Debug, Default)]
pub(super) struct ProductDfa {
    states: Vec<ProductState>,
    /// The origin of each state.
    origins: Vec<StateOrigin>,
    /// The states of the current epoch whose recent half is known.
    ids_by_pair: FxHashMap<(DfaId, DfaId), ProductStateId>,
    transitions: Transitions<ProductStateId, EpochTarget>,
    epoch: Epoch,
    /// Grows whenever a transition is added or leads elsewhere.
    version: u64,
    /// Transitions of earlier epochs that messages followed in this one.
    followed_again: usize,
    /// The number of times that all product states were brought up to date at once.
    pub(super) prefetches: u64,
    paths: ProductPaths,
    /// Transitions that were followed in this epoch. All other transitions of this epoch are on known paths.
    fresh: Vec<(ProductStateId, Name)>,
    /// States whose recent half is known.
    with_recent: Vec<ProductStateId>,
    /// All states with a known path are of the current epoch.
    is_level: bool,
    /// Messages since the version changed.
    settled_messages: usize,
    /// The size of the recent segment's cache when queries were first added to it in this generation.
    acceptance_bytes: usize,
    new_acceptances: NewAcceptances,
    /// The generations of the two DFAs (see [`generation`](crate::automaton::dfa::LazyDfa::generation)) that the states belong to.
    generations: (u64, u64),
    /// The state of each node of the message.
    state_of: Vec<ProductStateId>,
    /// The index of the first node of the message that has not been visited.
    next_node: usize,
    /// The owner of the observers' notes, and its version.
    notes_of: (u64, u64),
}

/// The caches of both segments, with the index that they belong to.
pub(super) struct SegmentCaches<'a> {
    query_index: &'a QueryIndex,
    main: &'a mut PathCache,
    recent: &'a mut PathCache,
    budget: usize,
}

impl<'a> SegmentCaches<'a> {
    pub(super) fn new(engine: &'a Engine, main: &'a mut PathCache, recent: &'a mut PathCache) -> Self {
        Self { query_index: &engine.query_index, main, recent, budget: engine.limits.cache_bytes_max }
    }
}

impl ProductDfa {
    pub(super) fn bytes(&self) -> usize {
        self.paths.bytes()
            + self.fresh.len() * size_of::<(ProductStateId, Name)>()
            + self.with_recent.len() * size_of::<ProductStateId>()
            + self.states.len()
                * (size_of::<ProductState>()
                    + size_of::<StateOrigin>()
                    + 2 * size_of::<((DfaId, DfaId), ProductStateId)>())
            + self.transitions.len() * Transitions::<ProductStateId, EpochTarget>::BYTES
    }

    /// Begins with a message.
    pub(super) fn begin(&mut self, mut caches: SegmentCaches<'_>) {
        self.catch_up(&mut caches, false);
        self.state_of.clear();
        self.state_of.push(DOCUMENT_STATE);
        self.next_node = 1;
    }

    /// Visits the nodes of a message that were not visited before. Adds plain acceptances to `matched`, and the elements
    /// where more is to be decided to the work of the caches.
    pub(super) fn advance(
        &mut self,
        document: &Document,
        mut caches: SegmentCaches<'_>,
        message_number: u64,
        matched: &mut QuerySet,
    ) -> Result<(), CacheFull> {
        let nodes = &document.nodes;
        self.state_of.resize(nodes.len(), DEAD_STATE);
        let mut index = self.next_node;
        self.next_node = nodes.len();
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let from = self.state_of[node.parent as usize];
            // The parent may be dead although this node is visited: its end may not have been read before.
            let id = if from == DEAD_STATE { DEAD_STATE } else { self.next(&mut caches, from, node.name)? };
            if id == DEAD_STATE {
                index = node.end as usize;
                continue;
            }
            self.state_of[index] = id;
            let state = &mut self.states[id.index()];
            let (main, recent) = state.acceptances;
            if state.seen != message_number {
                state.seen = message_number;
                caches.main.dfa.accepts(main).iter().for_each(|&query| matched.insert(query));
                caches.recent.dfa.accepts(recent).iter().for_each(|&query| matched.insert(query));
            }
            caches.main.work.extend(main.undecided().map(|undecided| (index as NodeId, undecided)));
            caches.recent.work.extend(recent.undecided().map(|undecided| (index as NodeId, undecided)));
            index += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn next(
        &mut self,
        caches: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
    ) -> Result<ProductStateId, CacheFull> {
        let existing = self.transitions.get(from, name);
        match existing.and_then(|target| target.state_in(self.epoch)) {
            Some(id) => Ok(id),
            None => self.build_transition(caches, from, name, existing),
        }
    }

    /// Returns the state of an element below one of state `from`; `None` if more is to be decided there. The observer
    /// learns once a message what each state accepts.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        caches: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
        message_number: u64,
        observer: &mut impl MatchObserver,
    ) -> Result<Option<ProductStateId>, CacheFull> {
        let id = self.next(caches, from, name)?;
        let state = &mut self.states[id.index()];
        if state.seen != message_number {
            state.seen = message_number;
            let (main, recent) = state.acceptances;
            observer.matched(caches.main.dfa.accepts(main), &mut state.notes.0);
            observer.matched(caches.recent.dfa.accepts(recent), &mut state.notes.1);
        }
        Ok((!state.is_open).then_some(id))
    }

    /// Removes the notes of other observers than those of `owner`.
    pub(super) fn keep_notes_of(&mut self, owner: (u64, u64)) {
        if self.notes_of != owner {
            self.notes_of = owner;
            self.states.iter_mut().for_each(|state| state.notes = <_>::default());
        }
    }

    /// Returns `true` if no transition leads to most states.
    fn is_worn(&self) -> bool {
        self.states.len() > 2 * self.transitions.len() + SPARE_STATES
    }

    /// Begins a new epoch if a DFA was cleared, or removes all states where they cannot be kept.
    fn prepare(&mut self, caches: &SegmentCaches<'_>) {
        let generations = (caches.main.dfa.generation(), caches.recent.dfa.generation());
        if self.generations != generations {
            if self.generations.0 != generations.0 || self.epoch == LAST_EPOCH || self.is_worn() {
                self.states.clear();
                self.origins.clear();
                self.transitions.clear();
                self.paths = ProductPaths::default();
                self.version += 1;
                self.epoch = 0;
            } else {
                self.epoch += 1;
            }
            self.is_level = self.states.is_empty();
            self.acceptance_bytes = 0;
            self.ids_by_pair.clear();
            self.fresh.clear();
            self.with_recent.clear();
            self.followed_again = 0;
            self.generations = generations;
        }
        if self.ids_by_pair.is_empty() {
            let is_kept = !self.states.is_empty();
            let origin = StateOrigin { from: DEAD_STATE, name: Name::UNKNOWN, is_only: false };
            self.state(caches, (DEAD, DEAD), is_kept.then_some(DEAD_STATE), origin);
            self.state(caches, (START, START), is_kept.then_some(DOCUMENT_STATE), origin);
        }
    }

    /// Adds a transition, or brings one of an earlier epoch up to date: `stale` is where it led.
    #[cold]
    fn build_transition(
        &mut self,
        caches: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
        stale: Option<EpochTarget>,
    ) -> Result<ProductStateId, CacheFull> {
        if stale.is_some() && self.is_prefetch_due(caches) {
            self.prefetch(caches);
            let existing = self.transitions.get(from, name).and_then(|target| target.state_in(self.epoch));
            if let Some(existing) = existing {
                return Ok(existing);
            }
        }
        let from_recent = self.recent_of(caches, from)?;
        let SegmentCaches { query_index, main, recent, budget } = caches;
        let stale = stale.map(EpochTarget::state);
        let next_main = match stale {
            Some(state) => self.states[state.index()].main,
            None => {
                let from_main = self.states[from.index()].main;
                main.dfa.next(&query_index.main.nfa, *query_index, from_main, name, *budget)?
            }
        };
        let next_recent = recent.dfa.next(&query_index.recent.nfa, *query_index, from_recent, name, *budget)?;
        if self.bytes() >= *budget || self.states.len() > EpochTarget::STATES_MAX as usize {
            return Err(CacheFull);
        }
        let id = self.state(caches, (next_main, next_recent), stale, StateOrigin { from, name, is_only: true });
        let target = EpochTarget::new(id, self.epoch);
        match stale {
            Some(_) => self.transitions.set(from, name, target),
            None => self.transitions.insert(from, name, target),
        }
        self.fresh.push((from, name));
        if stale != Some(id) {
            self.version += 1;
            self.settled_messages = 0;
        }
        Ok(id)
    }

    /// Returns the recent half of a state of the current epoch, computed along the state's path if it is not known.
    fn recent_of(&mut self, caches: &mut SegmentCaches<'_>, id: ProductStateId) -> Result<DfaId, CacheFull> {
        let (mut above, mut names) = (id, Vec::new());
        while self.states[above.index()].recent == UNKNOWN {
            let StateOrigin { from, name, .. } = self.origins[above.index()];
            names.push(name);
            above = from;
        }
        let SegmentCaches { query_index, recent, budget, .. } = caches;
        let mut state = self.states[above.index()].recent;
        while let Some(name) = names.pop() {
            state = recent.dfa.next(&query_index.recent.nfa, *query_index, state, name, *budget)?;
        }
        if self.states[id.index()].recent == UNKNOWN {
            self.states[id.index()].recent = state;
            self.with_recent.push(id);
        }
        Ok(state)
    }

    /// Returns the state of a pair. If there is none, `stale` becomes it, unless that is of the current epoch already: a
    /// state with the same main half, to which the transition led before.
    fn state(
        &mut self,
        caches: &SegmentCaches<'_>,
        (main, recent): (DfaId, DfaId),
        stale: Option<ProductStateId>,
        origin: StateOrigin,
    ) -> ProductStateId {
        if let Some(&id) = self.ids_by_pair.get(&(main, recent)) {
            if stale != Some(id) && self.origins[id.index()].is_only {
                self.origins[id.index()].is_only = false;
                self.paths.mark_several_paths(id);
            }
            return id;
        }
        let acceptances = (caches.main.dfa.acceptance(main), caches.recent.dfa.acceptance(recent));
        let id = match stale.filter(|&id| self.states[id.index()].epoch != self.epoch) {
            Some(id) => id,
            None => {
                let (epoch, notes) = (self.epoch, <_>::default());
                self.states.push(ProductState { seen: 0, main, recent, epoch, acceptances, is_open: false, notes });
                self.origins.push(origin);
                ProductStateId::new(self.states.len() - 1)
            }
        };
        self.states[id.index()].set_recent(self.epoch, recent, acceptances.1);
        self.ids_by_pair.insert((main, recent), id);
        self.with_recent.push(id);
        id
    }
}

impl ProductState {
    /// Replaces the recent half by that of an epoch.
    fn set_recent(&mut self, epoch: Epoch, recent: DfaId, acceptance: Acceptance) {
        (self.epoch, self.recent) = (epoch, recent);
        (self.acceptances.1, self.notes.1) = (acceptance, ObserverNote::default());
        self.is_open = self.acceptances.0.undecided().is_some() || acceptance.undecided().is_some();
    }
}
