//! The way of a message through the automata of both layers at once.

use rustc_hash::FxHashMap;

use super::layer::LearntPaths;
use super::population::Population;
use super::query_set::QuerySet;
use crate::automaton::dfa::{BudgetReached, DEAD, DfaId, START, Told, Transitions};
use crate::document::{Document, NodeId, NodeKind};
use crate::vocabulary::Name;

type PlaceId = u32;
/// The place where both automata are dead.
const NOWHERE: PlaceId = 0;
/// The place of the document node.
const OUTSET: PlaceId = 1;

/// A state of each automaton.
#[derive(Debug)]
struct Place {
    /// The message that was last here.
    seen: u64,
    main: DfaId,
    recent: DfaId,
    told: (Told, Told),
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
}

/// What both layers learnt, and how much more they may.
struct Layers<'a> {
    population: &'a Population,
    main: &'a mut LearntPaths,
    recent: &'a mut LearntPaths,
    budget: usize,
}

impl Walk {
    pub(super) fn bytes(&self) -> usize {
        self.places.len() * (size_of::<Place>() + 2 * size_of::<((DfaId, DfaId), PlaceId)>())
            + self.transitions.len() * Transitions::BYTES
    }

    /// Lead the automata over a message; collect plain acceptances and the elements where more is to be decided.
    pub(super) fn lead(
        &mut self,
        document: &Document,
        population: &Population,
        (main, recent): (&mut LearntPaths, &mut LearntPaths),
        (message_number, budget): (u64, usize),
        matched: &mut QuerySet,
    ) -> Result<(), BudgetReached> {
        main.prepare(population, &population.main);
        recent.prepare(population, &population.recent);
        let mut layers = Layers { population, main, recent, budget };
        self.prepare(&layers);
        let nodes = &document.nodes;
        self.place_of.clear();
        self.place_of.resize(nodes.len(), NOWHERE);
        self.place_of[0] = OUTSET;
        let mut index = 1;
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let from = self.place_of[node.parent as usize];
            let id = match self.transitions.get(from, node.name) {
                Some(known) => known,
                None => self.make(&mut layers, from, node.name)?,
            };
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
            self.places.push(Place { seen: 0, main, recent, told });
            self.places.len() as PlaceId - 1
        })
    }
}
