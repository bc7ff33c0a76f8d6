//! The way of a message through the automata of both layers at once.

use rustc_hash::FxHashMap;

use super::Engine;
use super::layer::LearntPaths;
use super::population::Population;
use super::query_set::QuerySet;
use super::watch::{Noted, Watch};
use crate::automaton::dfa::{BudgetReached, DEAD, DfaId, START, Told, Transitions};
use crate::document::{Document, NodeId, NodeKind};
use crate::vocabulary::Name;

/// Number of a place.
pub(super) type PlaceId = u32;
/// The place where both automata are dead.
pub(super) const NOWHERE: PlaceId = 0;
/// The place of the document node.
pub(super) const OUTSET: PlaceId = 1;

/// A state of each automaton.
#[derive(Debug)]
struct Place {
    /// The message that was last here.
    seen: u64,
    main: DfaId,
    recent: DfaId,
    told: (Told, Told),
    /// More is to be decided here.
    is_open: bool,
    /// What somebody has noted of the acceptances.
    noted: (Noted, Noted),
}

/// Pairs of states that messages lead to. One look-up takes both automata further, so that what came lately costs hardly
/// more than what was there; and when it changes, the pairs are made again without a look at the bulk.
#[derive(Debug, Default)]
pub(super) struct Walk {
    places: Vec<Place>,
    known: FxHashMap<(DfaId, DfaId), PlaceId>,
    transitions: Transitions,
    /// Generations of the automata that the pairs are of.
    generations: (u64, u64),
    place_of: Vec<PlaceId>,
    /// The first node that has not been led to.
    next: usize,
    /// For whom what is noted with places is good.
    notes_of: (u64, u64),
}

/// What both layers learnt, and how much more they may.
pub(super) struct Layers<'a> {
    population: &'a Population,
    main: &'a mut LearntPaths,
    recent: &'a mut LearntPaths,
    budget: usize,
}

impl<'a> Layers<'a> {
    pub(super) fn new(engine: &'a Engine, main: &'a mut LearntPaths, recent: &'a mut LearntPaths) -> Self {
        Self { population: &engine.population, main, recent, budget: engine.limits.cache_bytes_max }
    }
}

impl Walk {
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * (size_of::<Place>() + 2 * size_of::<((DfaId, DfaId), PlaceId)>())
            + self.transitions.len() * Transitions::BYTES
    }

    /// Begin with a message.
    pub(super) fn begin(&mut self, layers: Layers<'_>) {
        layers.main.prepare(layers.population, &layers.population.main);
        layers.recent.prepare(layers.population, &layers.population.recent);
        self.prepare(&layers);
        self.place_of.clear();
        self.place_of.push(OUTSET);
        self.next = 1;
    }

    /// Lead the automata over the nodes of a message that they have not seen; collect plain acceptances and the elements
    /// where more is to be decided.
    pub(super) fn lead(
        &mut self,
        document: &Document,
        mut layers: Layers<'_>,
        message_number: u64,
        matched: &mut QuerySet,
    ) -> Result<(), BudgetReached> {
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
    fn after(&mut self, layers: &mut Layers<'_>, from: PlaceId, name: Name) -> Result<PlaceId, BudgetReached> {
        match self.transitions.get(from, name) {
            Some(known) => Ok(known),
            None => self.make(layers, from, name),
        }
    }

    /// The place of an element below one of another place; `watch` is told what is accepted there, once a message.
    /// `None`: more is to be decided there.
    #[inline(always)]
    pub(super) fn enter(
        &mut self,
        layers: &mut Layers<'_>,
        from: PlaceId,
        name: Name,
        message_number: u64,
        watch: &mut impl Watch,
    ) -> Result<Option<PlaceId>, BudgetReached> {
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

    fn prepare(&mut self, layers: &Layers<'_>) {
        let generations = (layers.main.dfa.generation(), layers.recent.dfa.generation());
        if self.generations != generations {
            self.places.clear();
            self.known.clear();
            self.transitions.clear();
            self.generations = generations;
        }
        if self.places.is_empty() {
            self.place(layers, DEAD, DEAD);
            self.place(layers, START, START);
        }
    }

    #[cold]
    fn make(&mut self, layers: &mut Layers<'_>, from: PlaceId, name: Name) -> Result<PlaceId, BudgetReached> {
        let Layers { population, main, recent, budget } = layers;
        let Place { main: from_main, recent: from_recent, .. } = self.places[from as usize];
        let next_main = main.dfa.next(&population.main.nfa, *population, from_main, name, *budget)?;
        let next_recent = recent.dfa.next(&population.recent.nfa, *population, from_recent, name, *budget)?;
        if self.bytes() >= *budget {
            return Err(BudgetReached);
        }
        let id = self.place(layers, next_main, next_recent);
        self.transitions.insert(from, name, id);
        Ok(id)
    }

    fn place(&mut self, layers: &Layers<'_>, main: DfaId, recent: DfaId) -> PlaceId {
        *self.known.entry((main, recent)).or_insert_with(|| {
            let told = (layers.main.dfa.told(main), layers.recent.dfa.told(recent));
            let is_open = told.0.undecided().is_some() || told.1.undecided().is_some();
            self.places.push(Place { seen: 0, main, recent, told, is_open, noted: <_>::default() });
            self.places.len() as PlaceId - 1
        })
    }
}
