//! The way of a message through the automata of both layers at once.

mod lookahead;
mod update;

use rustc_hash::FxHashMap;

use self::lookahead::ProductPaths;
use self::update::NewAcceptances;
use super::Engine;
use super::path_cache::PathCache;
use super::query_index::QueryIndex;
use super::query_set::QuerySet;
use super::early_stop::{ObserverNote, MatchObserver};
use crate::automaton::dfa::{CacheFull, DEAD, DfaId, START, Acceptance, Transitions};
use crate::document::{Document, NodeId, NodeKind};
use crate::vocabulary::Name;

/// Number of a place.
pub(super) type ProductStateId = u32;
/// The place where both automata are dead.
pub(super) const NOWHERE: ProductStateId = 0;
/// The place of the document node.
pub(super) const OUTSET: ProductStateId = 1;

/// A place's number is told by these bits of where a transition leads, the edition of it by those above them.
const PLACE_BITS: u32 = 24;
/// The edition of places and transitions that are of none.
const STALE: u8 = u8::MAX;
/// The edition after which all pairs are made anew.
const EDITION_LAST: u8 = STALE - 1;
const PLACES_MAX: ProductStateId = (1 << PLACE_BITS) - 1;
/// Places that no transition leads to any more are let go with all others when there are as many as those, and some.
const SPARE_PLACES: usize = 64;

/// A state of each automaton.
#[derive(Debug)]
struct ProductState {
    /// The message that was last here.
    seen: u64,
    main: DfaId,
    /// The state of what came lately, if the place is of this edition; [`UNLED`] where it was told what is there without.
    recent: DfaId,
    edition: u8,
    told: (Acceptance, Acceptance),
    /// More is to be decided here.
    is_open: bool,
    /// What somebody has noted of the acceptances.
    noted: (ObserverNote, ObserverNote),
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
/// once what is there (see [`ahead`]). Where queries only came, it is found out what these add (see [`coming`]).
#[derive(Debug, Default)]
pub(super) struct ProductDfa {
    places: Vec<ProductState>,
    origins: Vec<StateOrigin>,
    /// The places of this edition.
    known: FxHashMap<(DfaId, DfaId), ProductStateId>,
    /// Where they lead, marked with the edition.
    transitions: Transitions,
    edition: u8,
    /// Grows whenever a transition is made or leads elsewhere.
    version: u64,
    /// Transitions of earlier editions that messages led along in this one.
    led_again: usize,
    pub(super) looks_ahead: u64,
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
    told_bytes: usize,
    /// Scratch.
    news: NewAcceptances,
    /// Generations of the automata that the pairs are of.
    generations: (u64, u64),
    place_of: Vec<ProductStateId>,
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
            + self.places.len()
                * (size_of::<ProductState>() + size_of::<StateOrigin>() + 2 * size_of::<((DfaId, DfaId), ProductStateId)>())
            + self.transitions.len() * Transitions::BYTES
    }

    /// Begin with a message.
    pub(super) fn begin(&mut self, mut layers: SegmentCaches<'_>) {
        self.catch_up(&mut layers, false);
        self.place_of.clear();
        self.place_of.push(OUTSET);
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
        self.place_of.resize(nodes.len(), NOWHERE);
        let mut index = self.next;
        self.next = nodes.len();
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let from = self.place_of[node.parent as usize];
            // Of an element whose end has not been read, what is below may come after all.
            let id = if from == NOWHERE { NOWHERE } else { self.after(&mut layers, from, node.name)? };
            if id == NOWHERE {
                index = node.end as usize;
                continue;
            }
            self.place_of[index] = id;
            let place = &mut self.places[id as usize];
            let (main, recent) = place.told;
            if place.seen != message_number {
                place.seen = message_number;
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
    fn after(&mut self, layers: &mut SegmentCaches<'_>, from: ProductStateId, name: Name) -> Result<ProductStateId, CacheFull> {
        let known = self.transitions.get(from, name);
        match known.map(|known| known ^ self.mark()) {
            Some(id) if id <= PLACES_MAX => Ok(id),
            _ => self.make(layers, from, name, known),
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
        let place = &mut self.places[id as usize];
        if place.seen != message_number {
            place.seen = message_number;
            let (main, recent) = place.told;
            watch.matched(layers.main.dfa.accepts(main), &mut place.noted.0);
            watch.matched(layers.recent.dfa.accepts(recent), &mut place.noted.1);
        }
        Ok((!place.is_open).then_some(id))
    }

    /// Forget notes that are not those of this one.
    pub(super) fn keep_notes_of(&mut self, owner: (u64, u64)) {
        if self.notes_of != owner {
            self.notes_of = owner;
            self.places.iter_mut().for_each(|place| place.noted = <_>::default());
        }
    }

    /// Are most places such as no transition leads to any more?
    fn is_worn(&self) -> bool {
        self.places.len() > 2 * self.transitions.len() + SPARE_PLACES
    }

    fn prepare(&mut self, layers: &SegmentCaches<'_>) {
        let generations = (layers.main.dfa.generation(), layers.recent.dfa.generation());
        if self.generations != generations {
            if self.generations.0 != generations.0 || self.edition == EDITION_LAST || self.is_worn() {
                self.places.clear();
                self.origins.clear();
                self.transitions.clear();
                self.paths = ProductPaths::default();
                self.version += 1;
                self.edition = 0;
            } else {
                self.edition += 1;
            }
            self.is_level = self.places.is_empty();
            self.told_bytes = 0;
            self.known.clear();
            self.fresh.clear();
            self.led.clear();
            self.led_again = 0;
            self.generations = generations;
        }
        if self.known.is_empty() {
            let outset = (!self.places.is_empty()).then_some(OUTSET);
            let nowhere = StateOrigin { from: NOWHERE, name: Name::UNKNOWN, is_only: false };
            self.place(layers, (DEAD, DEAD), outset.map(|_| NOWHERE), nowhere);
            self.place(layers, (START, START), outset, nowhere);
        }
    }

    /// The bits of transitions of this edition.
    #[inline(always)]
    fn mark(&self) -> u32 {
        u32::from(self.edition) << PLACE_BITS
    }

    /// Where a name leads, when that is not known, or only `stale` since an earlier edition.
    #[cold]
    fn make(
        &mut self,
        layers: &mut SegmentCaches<'_>,
        from: ProductStateId,
        name: Name,
        stale: Option<u32>,
    ) -> Result<ProductStateId, CacheFull> {
        if stale.is_some() && self.is_led_again_enough(layers) {
            self.look_ahead(layers);
            if let Some(known) = self.transitions.get(from, name).filter(|known| known ^ self.mark() <= PLACES_MAX) {
                return Ok(known & PLACES_MAX);
            }
        }
        let from_recent = self.recent_of(layers, from)?;
        let SegmentCaches { population, main, recent, budget } = layers;
        let stale = stale.map(|known| known & PLACES_MAX);
        let next_main = match stale {
            Some(place) => self.places[place as usize].main,
            None => main.dfa.next(&population.main.nfa, *population, self.places[from as usize].main, name, *budget)?,
        };
        let next_recent = recent.dfa.next(&population.recent.nfa, *population, from_recent, name, *budget)?;
        if self.bytes() >= *budget || self.places.len() > PLACES_MAX as usize {
            return Err(CacheFull);
        }
        let id = self.place(layers, (next_main, next_recent), stale, StateOrigin { from, name, is_only: true });
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
    fn recent_of(&mut self, layers: &mut SegmentCaches<'_>, place: ProductStateId) -> Result<DfaId, CacheFull> {
        let (mut led, mut names) = (place, Vec::new());
        while self.places[led as usize].recent == UNLED {
            let StateOrigin { from, name, .. } = self.origins[led as usize];
            names.push(name);
            led = from;
        }
        let SegmentCaches { population, recent, budget, .. } = layers;
        let mut state = self.places[led as usize].recent;
        while let Some(name) = names.pop() {
            state = recent.dfa.next(&population.recent.nfa, *population, state, name, *budget)?;
        }
        if self.places[place as usize].recent == UNLED {
            self.places[place as usize].recent = state;
            self.led.push(place);
        }
        Ok(state)
    }

    /// The place of two states, to which a way leads. If there is none yet, `stale` becomes it, unless it is of this edition
    /// already: a place of the same state of the bulk, to which the way led before.
    fn place(
        &mut self,
        layers: &SegmentCaches<'_>,
        (main, recent): (DfaId, DfaId),
        stale: Option<ProductStateId>,
        way: StateOrigin,
    ) -> ProductStateId {
        if let Some(&id) = self.known.get(&(main, recent)) {
            if stale != Some(id) && self.origins[id as usize].is_only {
                self.origins[id as usize].is_only = false;
                self.paths.note_other_way(id);
            }
            return id;
        }
        let told = (layers.main.dfa.told(main), layers.recent.dfa.told(recent));
        let id = match stale.filter(|&id| self.places[id as usize].edition != self.edition) {
            Some(id) => {
                self.places[id as usize].renew(self.edition, recent, told.1);
                id
            }
            None => {
                let edition = self.edition;
                let mut place = ProductState { seen: 0, main, recent, edition, told, is_open: false, noted: <_>::default() };
                place.renew(edition, recent, told.1);
                self.places.push(place);
                self.origins.push(way);
                self.places.len() as ProductStateId - 1
            }
        };
        self.known.insert((main, recent), id);
        self.led.push(id);
        id
    }
}

impl ProductState {
    /// Let the place be of an edition.
    fn renew(&mut self, edition: u8, recent: DfaId, told: Acceptance) {
        (self.edition, self.recent) = (edition, recent);
        (self.told.1, self.noted.1) = (told, ObserverNote::default());
        self.is_open = self.told.0.undecided().is_some() || told.undecided().is_some();
    }
}
