//! The way of a message through the automata of both layers at once.

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
use crate::automaton::dfa::{Acceptance, CacheFull, DEAD, DfaId, START, Transitions};
use crate::document::{Document, NodeId, NodeKind};
use crate::vocabulary::Name;

/// Number of a place.
pub(super) type ProductStateId = u32;
/// The place where both automata are dead.
pub(super) const NOWHERE: ProductStateId = 0;
/// The place of the document node.
pub(super) const DOCUMENT_STATE: ProductStateId = 1;

/// A place's number is told by these bits of where a transition leads, the edition of it by those above them.
const STATE_BITS: u32 = 24;
/// The edition of places and transitions that are of none.
const STALE: u8 = u8::MAX;
/// The edition after which all pairs are made anew.
const EDITION_LAST: u8 = STALE - 1;
const STATES_MAX: ProductStateId = (1 << STATE_BITS) - 1;
/// Places that no transition leads to any more are let go with all others when there are as many as those, and some.
const SPARE_STATES: usize = 64;

/// A state of each automaton.
#[derive(Debug)]
struct ProductState {
    /// The message that was last here.
    seen: u64,
    main: DfaId,
    /// The state of what came lately, if the place is of this edition; [`UNLED`] where it was told what is there without.
    recent: DfaId,
    edition: u8,
    acceptances: (Acceptance, Acceptance),
    /// More is to be decided here.
    is_open: bool,
    /// What somebody has noted of the acceptances.
    notes: (ObserverNote, ObserverNote),
}

/// In place of a state: that of what came lately has not been led here.
const UNLED: DfaId = DfaId::MAX;

/// How a place was first reached.
#[derive(Clone, Copy, Debug)]
struct StateOrigin {
    from: ProductStateId,
    name: Name,
    /// And in no other way.
    is_only: bool,
}

/// Pairs of states that messages lead to. One look-up takes both automata further, so that what came lately costs hardly
/// more than what was there.
///
/// When what came lately changes, a new edition begins. Places and transitions stay; that of the bulk in them is as true as
/// before. Where a message leads along a transition of an earlier edition, the automaton of what came lately is led along
/// once more, and the place that the transition led to takes the new state in. Only where another transition has led to it
/// in this edition already, with a different state, they part. When that is worth it, it is found out for all places at
/// once what is there (see [`lookahead`]). Where queries only came, it is found out what these add (see [`update`]).
#[derive(Debug, Default)]
pub(super) struct ProductDfa {
    states: Vec<ProductState>,
    origins: Vec<StateOrigin>,
    /// The places of this edition.
    states_by_pair: FxHashMap<(DfaId, DfaId), ProductStateId>,
    /// Where they lead, marked with the edition.
    transitions: Transitions,
    edition: u8,
    /// Grows whenever a transition is made or leads elsewhere.
    version: u64,
    /// Transitions of earlier editions that messages led along in this one.
    led_again: usize,
    pub(super) prefetches: u64,
    /// The paths to places, as far as there is but one to each.
    paths: ProductPaths,
    /// Transitions that were led along in this edition; all others of this edition are on the paths that are known.
    fresh: Vec<(ProductStateId, Name)>,
    /// Places that the automaton of what came lately was led to.
    led: Vec<ProductStateId>,
    /// All places whose paths are known are of this edition.
    is_level: bool,
    /// Messages since the version changed.
    settled: usize,
    /// What was learnt of what came lately, when first something was added to that in this generation.
    acceptance_bytes: usize,
    /// Scratch.
    new_acceptances: NewAcceptances,
    /// Generations of the automata that the pairs are of.
    generations: (u64, u64),
    state_of: Vec<ProductStateId>,
    /// The first node that has not been led to.
    next: usize,
    /// For whom what is noted with places is good.
    notes_of: (u64, u64),
}

/// What both layers learnt, and how much more they may.
pub(super) struct SegmentCaches<'a> {
    population: &'a QueryIndex,
    main: &'a mut PathCache,
    recent: &'a mut PathCache,
    budget: usize,
}

impl<'a> SegmentCaches<'a> {
    pub(super) fn new(engine: &'a Engine, main: &'a mut PathCache, recent: &'a mut PathCache) -> Self {
        Self { population: &engine.population, main, recent, budget: engine.limits.cache_bytes_max }
    }
}

impl ProductDfa {
    pub(super) fn bytes(&self) -> usize {
        self.paths.bytes()
            + self.fresh.len() * size_of::<(ProductStateId, Name)>()
            + self.led.len() * size_of::<ProductStateId>()
            + self.states.len()
                * (size_of::<ProductState>()
                    + size_of::<StateOrigin>()
                    + 2 * size_of::<((DfaId, DfaId), ProductStateId)>())
            + self.transitions.len() * Transitions::BYTES
    }

    /// Begin with a message.
    pub(super) fn begin(&mut self, mut layers: SegmentCaches<'_>) {
        self.catch_up(&mut layers, false);
        self.state_of.clear();
        self.state_of.push(DOCUMENT_STATE);
        self.next = 1;
    }

    /// Lead the automata over the nodes of a message that they have not seen; collect plain acceptances and the elements
    /// where more is to be decided.
    pub(super) fn lead(
        &mut self,
        document: &Document,
        mut layers: SegmentCaches<'_>,
        message_number: u64,
        matched: &mut QuerySet,
    ) -> Result<(), CacheFull> {
        let nodes = &document.nodes;
        self.state_of.resize(nodes.len(), NOWHERE);
        let mut index = self.next;
        self.next = nodes.len();
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let from = self.state_of[node.parent as usize];
            // Of an element whose end has not been read, what is below may come after all.
            let id = if from == NOWHERE { NOWHERE } else { self.after(&mut layers, from, node.name)? };
            if id == NOWHERE {
                index = node.end as usize;
                continue;
            }
            self.state_of[index] = id;
            let state = &mut self.states[id as usize];
            let (main, recent) = state.acceptances;
            if state.seen != message_number {
                state.seen = message_number;
                layers.main.dfa.accepts(main).iter().for_each(|&query| matched.insert(query));
                layers.recent.dfa.accepts(recent).iter().for_each(|&query| matched.insert(query));
            }
            layers.main.work.extend(main.undecided().map(|undecided| (index as NodeId, undecided)));
            layers.recent.work.extend(recent.undecided().map(|undecided| (index as NodeId, undecided)));
            index += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn after(
        &mut self,
        layers: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
    ) -> Result<ProductStateId, CacheFull> {
        let existing = self.transitions.get(from, name);
        match existing.map(|existing| existing ^ self.mark()) {
            Some(id) if id <= STATES_MAX => Ok(id),
            _ => self.build_transition(layers, from, name, existing),
        }
    }

    /// The place of an element below one of another place; `watch` is told what is accepted there, once a message.
    /// `None`: more is to be decided there.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        layers: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
        message_number: u64,
        watch: &mut impl MatchObserver,
    ) -> Result<Option<ProductStateId>, CacheFull> {
        let id = self.after(layers, from, name)?;
        let state = &mut self.states[id as usize];
        if state.seen != message_number {
            state.seen = message_number;
            let (main, recent) = state.acceptances;
            watch.matched(layers.main.dfa.accepts(main), &mut state.notes.0);
            watch.matched(layers.recent.dfa.accepts(recent), &mut state.notes.1);
        }
        Ok((!state.is_open).then_some(id))
    }

    /// Forget notes that are not those of this one.
    pub(super) fn keep_notes_of(&mut self, owner: (u64, u64)) {
        if self.notes_of != owner {
            self.notes_of = owner;
            self.states.iter_mut().for_each(|state| state.notes = <_>::default());
        }
    }

    /// Are most places such as no transition leads to any more?
    fn is_worn(&self) -> bool {
        self.states.len() > 2 * self.transitions.len() + SPARE_STATES
    }

    fn prepare(&mut self, layers: &SegmentCaches<'_>) {
        let generations = (layers.main.dfa.generation(), layers.recent.dfa.generation());
        if self.generations != generations {
            if self.generations.0 != generations.0 || self.edition == EDITION_LAST || self.is_worn() {
                self.states.clear();
                self.origins.clear();
                self.transitions.clear();
                self.paths = ProductPaths::default();
                self.version += 1;
                self.edition = 0;
            } else {
                self.edition += 1;
            }
            self.is_level = self.states.is_empty();
            self.acceptance_bytes = 0;
            self.states_by_pair.clear();
            self.fresh.clear();
            self.led.clear();
            self.led_again = 0;
            self.generations = generations;
        }
        if self.states_by_pair.is_empty() {
            let outset = (!self.states.is_empty()).then_some(DOCUMENT_STATE);
            let nowhere = StateOrigin { from: NOWHERE, name: Name::UNKNOWN, is_only: false };
            self.state(layers, (DEAD, DEAD), outset.map(|_| NOWHERE), nowhere);
            self.state(layers, (START, START), outset, nowhere);
        }
    }

    /// The bits of transitions of this edition.
    #[inline(always)]
    fn mark(&self) -> u32 {
        u32::from(self.edition) << STATE_BITS
    }

    /// Where a name leads, when that is not known, or only `stale` since an earlier edition.
    #[cold]
    fn build_transition(
        &mut self,
        layers: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
        stale: Option<u32>,
    ) -> Result<ProductStateId, CacheFull> {
        if stale.is_some() && self.is_led_again_enough(layers) {
            self.prefetch(layers);
            if let Some(existing) =
                self.transitions.get(from, name).filter(|existing| existing ^ self.mark() <= STATES_MAX)
            {
                return Ok(existing & STATES_MAX);
            }
        }
        let from_recent = self.recent_of(layers, from)?;
        let SegmentCaches { population, main, recent, budget } = layers;
        let stale = stale.map(|existing| existing & STATES_MAX);
        let next_main = match stale {
            Some(state) => self.states[state as usize].main,
            None => main.dfa.next(&population.main.nfa, *population, self.states[from as usize].main, name, *budget)?,
        };
        let next_recent = recent.dfa.next(&population.recent.nfa, *population, from_recent, name, *budget)?;
        if self.bytes() >= *budget || self.states.len() > STATES_MAX as usize {
            return Err(CacheFull);
        }
        let id = self.state(layers, (next_main, next_recent), stale, StateOrigin { from, name, is_only: true });
        let leads = self.mark() | id;
        match stale {
            Some(_) => self.transitions.set(from, name, leads),
            None => self.transitions.insert(from, name, leads),
        }
        self.fresh.push((from, name));
        if stale != Some(id) {
            self.version += 1;
            self.settled = 0;
        }
        Ok(id)
    }

    /// The state of what came lately at a place of this edition.
    fn recent_of(&mut self, layers: &mut SegmentCaches<'_>, product_state: ProductStateId) -> Result<DfaId, CacheFull> {
        let (mut led, mut names) = (product_state, Vec::new());
        while self.states[led as usize].recent == UNLED {
            let StateOrigin { from, name, .. } = self.origins[led as usize];
            names.push(name);
            led = from;
        }
        let SegmentCaches { population, recent, budget, .. } = layers;
        let mut state = self.states[led as usize].recent;
        while let Some(name) = names.pop() {
            state = recent.dfa.next(&population.recent.nfa, *population, state, name, *budget)?;
        }
        if self.states[product_state as usize].recent == UNLED {
            self.states[product_state as usize].recent = state;
            self.led.push(product_state);
        }
        Ok(state)
    }

    /// The place of two states, to which a way leads. If there is none yet, `stale` becomes it, unless it is of this edition
    /// already: a place of the same state of the bulk, to which the way led before.
    fn state(
        &mut self,
        layers: &SegmentCaches<'_>,
        (main, recent): (DfaId, DfaId),
        stale: Option<ProductStateId>,
        origin: StateOrigin,
    ) -> ProductStateId {
        if let Some(&id) = self.states_by_pair.get(&(main, recent)) {
            if stale != Some(id) && self.origins[id as usize].is_only {
                self.origins[id as usize].is_only = false;
                self.paths.mark_several_paths(id);
            }
            return id;
        }
        let both_acceptances = (layers.main.dfa.acceptance(main), layers.recent.dfa.acceptance(recent));
        let id = match stale.filter(|&id| self.states[id as usize].edition != self.edition) {
            Some(id) => {
                self.states[id as usize].renew(self.edition, recent, both_acceptances.1);
                id
            }
            None => {
                let edition = self.edition;
                let mut product_state = ProductState {
                    seen: 0,
                    main,
                    recent,
                    edition,
                    acceptances: both_acceptances,
                    is_open: false,
                    notes: <_>::default(),
                };
                product_state.renew(edition, recent, both_acceptances.1);
                self.states.push(product_state);
                self.origins.push(origin);
                self.states.len() as ProductStateId - 1
            }
        };
        self.states_by_pair.insert((main, recent), id);
        self.led.push(id);
        id
    }
}

impl ProductState {
    /// Let the place be of an edition.
    fn renew(&mut self, edition: u8, recent: DfaId, acceptances: Acceptance) {
        (self.edition, self.recent) = (edition, recent);
        (self.acceptances.1, self.notes.1) = (acceptances, ObserverNote::default());
        self.is_open = self.acceptances.0.undecided().is_some() || acceptances.undecided().is_some();
    }
}
