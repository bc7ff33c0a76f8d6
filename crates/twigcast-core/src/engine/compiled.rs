//! The data of compiled queries besides their texts and the shared structures: four bytes for most.

use std::sync::Arc;

use super::needs::{QueryWarning, ScanNeeds};
use super::query_index::{Registration, Segment, Slab};
use crate::automaton::nfa::AcceptItem;
use crate::ids::{AccessId, ItemId, OtherQueryId, StateId, TriggerId, TwigId};
use crate::query::ast::Expr;
use crate::rewrite::Program;
use crate::util::chunked::Chunked;

/// The part of a query that is kept to evaluate it by itself.
#[derive(Clone, Debug)]
pub enum EvaluationSource {
    /// Nothing: the shared structures decide it, and the text is parsed again when nodes are selected.
    Nothing,
    /// The normalised expression.
    Expr(Arc<Expr>),
    /// A For-Where-Return query whose condition is only necessary: a binding must satisfy it.
    Bindings(Arc<Program>),
}

/// A registered, compiled query. Equal texts in equal contexts share one.
#[derive(Clone, Debug)]
pub(super) struct CompiledQuery {
    pub(super) registrations: Registrations,
    /// `None` for most queries: the shared structures alone decide them.
    pub(super) evaluation: Option<Box<EvaluationPlan>>,
    pub(super) needs: ScanNeeds,
    pub(super) warning: Option<QueryWarning>,
}

/// The parts of a query that are evaluated by themselves.
#[derive(Clone, Debug)]
pub(super) struct EvaluationPlan {
    evaluated: EvaluationSource,
    /// The program of a For-Where-Return query.
    program: Option<Arc<Program>>,
}

impl EvaluationPlan {
    /// Returns the plan of a query; `None` if nothing of it is evaluated by itself.
    pub(super) fn of(evaluated: EvaluationSource, program: Option<Arc<Program>>) -> Option<Box<Self>> {
        let is_needed = program.is_some() || !matches!(evaluated, EvaluationSource::Nothing);
        is_needed.then(|| Box::new(Self { evaluated, program }))
    }
}

impl CompiledQuery {
    /// Returns the entry of a query that is given by its one registration: a plain path, a trigger or a twig.
    fn as_entry(&self) -> Option<CompiledEntry> {
        if self.evaluation.is_some() || self.warning.is_some() {
            return None;
        }
        match (&self.registrations, self.needs) {
            (&Registrations::One(Registration::Item(segment, item, AcceptItem::Accept(_))), needs)
                if needs == ScanNeeds::default() =>
            {
                Some(CompiledEntry::Path(segment, item))
            }
            (
                &Registrations::One(Registration::Trigger(number)),
                ScanNeeds { attributes: true, text, rewrites: false },
            ) => Some(CompiledEntry::Trigger { number, text }),
            (&Registrations::One(Registration::Twig(number)), needs) if needs == ScanNeeds::default() => {
                Some(CompiledEntry::Twig(number))
            }
            (
                &Registrations::One(Registration::Access(number)),
                ScanNeeds { attributes: true, text: true, rewrites: false },
            ) => Some(CompiledEntry::Access(number)),
            _ => None,
        }
    }

    /// Returns the bytes on the heap, without programs.
    fn heap_bytes(&self) -> usize {
        let registrations = match &self.registrations {
            Registrations::One(_) => 0,
            Registrations::Several(several) => several.len() * size_of::<Registration>(),
        };
        registrations + self.evaluation.as_ref().map_or(0, |_| size_of::<EvaluationPlan>())
    }
}

/// The registrations of a query: one, nearly always.
#[derive(Clone, Debug)]
pub(super) enum Registrations {
    One(Registration),
    Several(Box<[Registration]>),
}

impl From<Vec<Registration>> for Registrations {
    fn from(registrations: Vec<Registration>) -> Self {
        match registrations.as_slice() {
            &[only] => Self::One(only),
            _ => Self::Several(registrations.into()),
        }
    }
}

impl Registrations {
    pub(super) fn as_slice(&self) -> &[Registration] {
        match self {
            Self::One(registration) => std::slice::from_ref(registration),
            Self::Several(several) => several,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Registration] {
        match self {
            Self::One(registration) => std::slice::from_mut(registration),
            Self::Several(several) => several,
        }
    }
}

/// An entry of the table of compiled queries.
#[derive(Clone, Copy, Debug)]
enum CompiledEntry {
    Vacant,
    /// A plain path: its item in the NFA of a segment.
    Path(Segment, ItemId),
    /// A trigger that needs attributes, and maybe text.
    Trigger {
        number: TriggerId,
        text: bool,
    },
    /// A twig that needs neither.
    Twig(TwigId),
    /// Accesses that need both.
    Access(AccessId),
    /// Any other query, by its id in [`CompiledQueries::others`].
    Other(OtherQueryId),
}

/// A [`CompiledEntry`] in four bytes: the kind in three bits, a number in the others.
#[derive(Clone, Copy, Debug)]
struct PackedEntry(u32);

const VACANT: PackedEntry = PackedEntry(0);

impl PackedEntry {
    const NUMBER_BITS: u32 = 29;
    const NUMBER: u32 = (1 << Self::NUMBER_BITS) - 1;

    /// Packs an entry; `None` if its number is too large, or its item is not known by its state.
    fn of(entry: CompiledEntry) -> Option<Self> {
        let (kind, number) = match entry {
            CompiledEntry::Vacant => (0, 0),
            CompiledEntry::Path(Segment::Main, item) => (1, item.sole_state()?.as_u32()),
            CompiledEntry::Path(Segment::Recent, item) => (2, item.sole_state()?.as_u32()),
            CompiledEntry::Trigger { number, text: false } => (3, number.as_u32()),
            CompiledEntry::Trigger { number, text: true } => (4, number.as_u32()),
            CompiledEntry::Other(number) => (5, number.as_u32()),
            CompiledEntry::Twig(number) => (6, number.as_u32()),
            CompiledEntry::Access(number) => (7, number.as_u32()),
        };
        (number <= Self::NUMBER).then_some(Self(kind << Self::NUMBER_BITS | number))
    }

    /// Unpacks the entry.
    fn entry(self) -> CompiledEntry {
        let number = self.0 & Self::NUMBER;
        match self.0 >> Self::NUMBER_BITS {
            0 => CompiledEntry::Vacant,
            1 => CompiledEntry::Path(Segment::Main, ItemId::sole_of(StateId::from_u32(number))),
            2 => CompiledEntry::Path(Segment::Recent, ItemId::sole_of(StateId::from_u32(number))),
            kind @ (3 | 4) => CompiledEntry::Trigger { number: TriggerId::from_u32(number), text: kind == 4 },
            6 => CompiledEntry::Twig(TwigId::from_u32(number)),
            7 => CompiledEntry::Access(AccessId::from_u32(number)),
            _ => CompiledEntry::Other(OtherQueryId::from_u32(number)),
        }
    }
}

/// The compiled queries, by number. Most take four bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct CompiledQueries {
    entries: Chunked<PackedEntry>,
    /// Queries that are not given by one registration.
    others: Slab<CompiledQuery, OtherQueryId>,
}

impl CompiledQueries {
    /// Returns one past the largest query number.
    pub(super) fn bound(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of queries.
    pub(super) fn count(&self) -> usize {
        self.entries.iter().filter(|entry| !matches!(entry.entry(), CompiledEntry::Vacant)).count()
    }

    /// Adds a query under its number.
    pub(super) fn put(&mut self, query: u32, compiled: CompiledQuery) {
        let entry = match compiled.as_entry().and_then(PackedEntry::of) {
            Some(entry) => entry,
            None => self.other_entry(compiled),
        };
        self.set(query, entry);
    }

    fn other_entry(&mut self, compiled: CompiledQuery) -> PackedEntry {
        // More than 2^29 of these queries fit into no memory.
        PackedEntry::of(CompiledEntry::Other(self.others.insert(compiled))).unwrap_or(VACANT)
    }

    fn set(&mut self, query: u32, entry: PackedEntry) {
        while self.entries.len() < query as usize {
            self.entries.push(VACANT);
        }
        match self.entries.get_mut(query as usize) {
            Some(existing) => *existing = entry,
            None => self.entries.push(entry),
        }
    }

    /// Adds a plain path under its number.
    pub(super) fn put_path(&mut self, query: u32, segment: Segment, item: ItemId) {
        match PackedEntry::of(CompiledEntry::Path(segment, item)) {
            Some(path) => self.set(query, path),
            None => {
                let registrations = Registrations::One(Registration::Item(segment, item, AcceptItem::Accept(query)));
                self.put(
                    query,
                    CompiledQuery { registrations, evaluation: None, needs: ScanNeeds::default(), warning: None },
                );
            }
        }
    }

    fn entry(&self, query: u32) -> CompiledEntry {
        self.entries.get(query as usize).map_or(CompiledEntry::Vacant, |entry| entry.entry())
    }

    /// Returns a query that is not given by one registration.
    fn other(&self, query: u32) -> Option<&CompiledQuery> {
        match self.entry(query) {
            CompiledEntry::Other(number) => self.others.get(number),
            CompiledEntry::Vacant
            | CompiledEntry::Path(..)
            | CompiledEntry::Trigger { .. }
            | CompiledEntry::Twig(_)
            | CompiledEntry::Access(_) => None,
        }
    }

    /// Returns the segment and the item of a query that is a plain path.
    pub(super) fn path(&self, query: u32) -> Option<(Segment, ItemId)> {
        match self.entry(query) {
            CompiledEntry::Path(segment, item) => Some((segment, item)),
            CompiledEntry::Other(number) => match self.others.get(number)?.as_entry()? {
                CompiledEntry::Path(segment, item) => Some((segment, item)),
                CompiledEntry::Vacant
                | CompiledEntry::Trigger { .. }
                | CompiledEntry::Twig(_)
                | CompiledEntry::Access(_)
                | CompiledEntry::Other(_) => None,
            },
            CompiledEntry::Vacant
            | CompiledEntry::Trigger { .. }
            | CompiledEntry::Twig(_)
            | CompiledEntry::Access(_) => None,
        }
    }

    /// Returns the registrations of a query; `None` if there is no such query.
    pub(super) fn registrations(&self, query: u32) -> Option<Registrations> {
        match self.entry(query) {
            CompiledEntry::Vacant => None,
            CompiledEntry::Path(segment, item) => {
                Some(Registrations::One(Registration::Item(segment, item, AcceptItem::Accept(query))))
            }
            CompiledEntry::Trigger { number, .. } => Some(Registrations::One(Registration::Trigger(number))),
            CompiledEntry::Twig(number) => Some(Registrations::One(Registration::Twig(number))),
            CompiledEntry::Access(number) => Some(Registrations::One(Registration::Access(number))),
            CompiledEntry::Other(number) => self.others.get(number).map(|other| other.registrations.clone()),
        }
    }

    /// Replaces all registrations of a query.
    pub(super) fn map_registrations(&mut self, query: u32, mut to: impl FnMut(Registration) -> Registration) {
        match self.entry(query) {
            CompiledEntry::Vacant => {}
            CompiledEntry::Path(segment, item) => {
                if let Registration::Item(segment, item, _) =
                    to(Registration::Item(segment, item, AcceptItem::Accept(query)))
                {
                    self.put_path(query, segment, item);
                }
            }
            CompiledEntry::Trigger { number, .. } => {
                // A trigger keeps its id wherever it waits.
                to(Registration::Trigger(number));
            }
            CompiledEntry::Twig(number) => {
                // A twig does so, too.
                to(Registration::Twig(number));
            }
            CompiledEntry::Access(number) => {
                // So do accesses.
                to(Registration::Access(number));
            }
            CompiledEntry::Other(number) => {
                let Some(other) = self.others.get_mut(number) else { return };
                other
                    .registrations
                    .as_mut_slice()
                    .iter_mut()
                    .for_each(|registration| *registration = to(*registration));
            }
        }
    }

    /// Removes a query and returns its registrations.
    pub(super) fn take(&mut self, query: u32) -> Option<Registrations> {
        let registrations = self.registrations(query)?;
        let entry = std::mem::replace(self.entries.get_mut(query as usize)?, VACANT);
        if let CompiledEntry::Other(number) = entry.entry() {
            self.others.remove(number);
        }
        Some(registrations)
    }

    /// Returns the warning that registering a query gave.
    pub(super) fn warning(&self, query: u32) -> Option<QueryWarning> {
        self.other(query)?.warning
    }

    /// Returns what a query needs of the scanner.
    pub(super) fn needs(&self, query: u32) -> ScanNeeds {
        match self.entry(query) {
            CompiledEntry::Trigger { text, .. } => ScanNeeds { attributes: true, text, rewrites: false },
            CompiledEntry::Access(_) => ScanNeeds { attributes: true, text: true, rewrites: false },
            _ => self.other(query).map_or_else(ScanNeeds::default, |other| other.needs),
        }
    }

    /// Returns what is kept of a query to evaluate it by itself.
    pub(super) fn evaluated(&self, query: u32) -> &EvaluationSource {
        let evaluation = self.other(query).and_then(|other| other.evaluation.as_ref());
        evaluation.map_or(&EvaluationSource::Nothing, |evaluation| &evaluation.evaluated)
    }

    /// Returns the program of a query, if it rewrites.
    pub(super) fn program(&self, query: u32) -> Option<&Program> {
        self.other(query)?.evaluation.as_ref()?.program.as_deref()
    }

    /// Returns the size in bytes, without programs.
    pub(super) fn bytes(&self) -> usize {
        let others = self.others.slots().flatten().map(CompiledQuery::heap_bytes).sum::<usize>();
        self.entries.bytes() + self.others.bytes() + others
    }
}
