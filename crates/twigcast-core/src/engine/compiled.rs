//! What is kept of a query beside its text and its places in the shared structures: nothing for most.

use std::sync::Arc;

use super::needs::{QueryWarning, ScanNeeds};
use super::query_index::{Registration, Segment, Slab};
use crate::automaton::nfa::{AcceptItem, sole_item, state_of_sole};
use crate::query::ast::Expr;
use crate::rewrite::Program;
use crate::util::chunked::Chunked;

/// What of a query is kept for evaluating it by itself.
#[derive(Clone, Debug)]
pub enum EvaluationSource {
    /// Nothing: the automaton decides it, and the text is parsed again on the rare occasions that need more.
    Nothing,
    /// The normalised expression.
    Expr(Arc<Expr>),
    /// A For-Where-Return query whose condition is only necessary: a binding has to pass.
    Bindings(Arc<Program>),
}

/// A registered, compiled query; equal texts in equal contexts share one.
#[derive(Debug)]
pub(super) struct CompiledQuery {
    pub(super) registrations: Registrations,
    /// Nothing for most: the shared structures alone decide them.
    pub(super) evaluation: Option<Box<EvaluationPlan>>,
    pub(super) needs: ScanNeeds,
    pub(super) warning: Option<QueryWarning>,
}

/// What of a query is evaluated by itself.
#[derive(Debug)]
pub(super) struct EvaluationPlan {
    evaluated: EvaluationSource,
    /// What a For-Where-Return query delivers.
    program: Option<Arc<Program>>,
}

impl EvaluationPlan {
    /// `None` if nothing is.
    pub(super) fn of(evaluated: EvaluationSource, program: Option<Arc<Program>>) -> Option<Box<Self>> {
        let is_needed = program.is_some() || !matches!(evaluated, EvaluationSource::Nothing);
        is_needed.then(|| Box::new(Self { evaluated, program }))
    }
}

impl CompiledQuery {
    /// The entry of a query of which the place says all, nearly: a plain path, or one that ends in a trigger or a twig.
    fn as_entry(&self) -> Option<CompiledEntry> {
        if self.evaluation.is_some() || self.warning.is_some() {
            return None;
        }
        match (&self.registrations, self.needs) {
            (&Registrations::One(Registration::Item(layer, item, AcceptItem::Accept(_))), needs)
                if needs == ScanNeeds::default() =>
            {
                Some(CompiledEntry::Path(layer, item))
            }
            (
                &Registrations::One(Registration::Trigger(number)),
                ScanNeeds { attributes: true, text, rewrites: false },
            ) => Some(CompiledEntry::Trigger { number, text }),
            (&Registrations::One(Registration::Twig(number)), needs) if needs == ScanNeeds::default() => {
                Some(CompiledEntry::Twig(number))
            }
            _ => None,
        }
    }

    /// Bytes on the heap, programs aside.
    fn heap_bytes(&self) -> usize {
        let registrations = match &self.registrations {
            Registrations::One(_) => 0,
            Registrations::Several(several) => several.len() * size_of::<Registration>(),
        };
        registrations + self.evaluation.as_ref().map_or(0, |_| size_of::<EvaluationPlan>())
    }
}

/// Where a query is registered: in one place, nearly always.
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

#[derive(Clone, Copy, Debug)]
enum CompiledEntry {
    Vacant,
    /// A plain path: its item in a layer's automaton.
    Path(Segment, u32),
    /// A trigger that needs attributes, and maybe text.
    Trigger {
        number: u32,
        text: bool,
    },
    /// A twig that needs neither.
    Twig(u32),
    /// Any other query, by its number in the table of these.
    Other(u32),
}

/// An [`CompiledEntry`] in four bytes: what it is in three bits, a number in the others.
#[derive(Clone, Copy, Debug)]
struct PackedEntry(u32);

const VACANT: PackedEntry = PackedEntry(0);

impl PackedEntry {
    const NUMBER_BITS: u32 = 29;
    const NUMBER: u32 = (1 << Self::NUMBER_BITS) - 1;

    /// `None` for a number that is too large, and for an item that is not known by its state.
    fn of(entry: CompiledEntry) -> Option<Self> {
        let (kind, number) = match entry {
            CompiledEntry::Vacant => (0, 0),
            CompiledEntry::Path(Segment::Main, item) => (1, state_of_sole(item)?),
            CompiledEntry::Path(Segment::Recent, item) => (2, state_of_sole(item)?),
            CompiledEntry::Trigger { number, text: false } => (3, number),
            CompiledEntry::Trigger { number, text: true } => (4, number),
            CompiledEntry::Other(number) => (5, number),
            CompiledEntry::Twig(number) => (6, number),
        };
        (number <= Self::NUMBER).then_some(Self(kind << Self::NUMBER_BITS | number))
    }

    fn entry(self) -> CompiledEntry {
        let number = self.0 & Self::NUMBER;
        match self.0 >> Self::NUMBER_BITS {
            0 => CompiledEntry::Vacant,
            1 => CompiledEntry::Path(Segment::Main, sole_item(number)),
            2 => CompiledEntry::Path(Segment::Recent, sole_item(number)),
            kind @ (3 | 4) => CompiledEntry::Trigger { number, text: kind == 4 },
            6 => CompiledEntry::Twig(number),
            _ => CompiledEntry::Other(number),
        }
    }
}

/// The compiled queries, by number.
#[derive(Debug, Default)]
pub(super) struct CompiledQueries {
    entries: Chunked<PackedEntry>,
    evaluated: Slab<CompiledQuery>,
}

impl CompiledQueries {
    /// One past the largest number.
    pub(super) fn bound(&self) -> usize {
        self.entries.len()
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.entries.iter().filter(|entry| !matches!(entry.entry(), CompiledEntry::Vacant)).count()
    }

    /// Put a query in place of its number.
    pub(super) fn put(&mut self, query: u32, compiled: CompiledQuery) {
        let entry = match compiled.as_entry().and_then(PackedEntry::of) {
            Some(entry) => entry,
            None => self.other_entry(compiled),
        };
        self.set(query, entry);
    }

    fn other_entry(&mut self, compiled: CompiledQuery) -> PackedEntry {
        // More than 2^29 of them find no room in any memory.
        PackedEntry::of(CompiledEntry::Other(self.evaluated.insert(compiled))).unwrap_or(VACANT)
    }

    fn set(&mut self, query: u32, entry: PackedEntry) {
        while self.entries.len() <= query as usize {
            self.entries.push(VACANT);
        }
        self.entries[query as usize] = entry;
    }

    /// Put a plain path in place of its number.
    pub(super) fn put_path(&mut self, query: u32, layer: Segment, item: u32) {
        match PackedEntry::of(CompiledEntry::Path(layer, item)) {
            Some(path) => self.set(query, path),
            None => {
                let registrations = Registrations::One(Registration::Item(layer, item, AcceptItem::Accept(query)));
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

    /// A query that is no plain path.
    fn other(&self, query: u32) -> Option<&CompiledQuery> {
        match self.entry(query) {
            CompiledEntry::Other(number) => self.evaluated.get(number),
            CompiledEntry::Vacant
            | CompiledEntry::Path(..)
            | CompiledEntry::Trigger { .. }
            | CompiledEntry::Twig(_) => None,
        }
    }

    /// The item of a query that is a plain path.
    pub(super) fn path(&self, query: u32) -> Option<(Segment, u32)> {
        match self.entry(query) {
            CompiledEntry::Path(layer, item) => Some((layer, item)),
            CompiledEntry::Other(number) => match self.evaluated.get(number)?.as_entry()? {
                CompiledEntry::Path(layer, item) => Some((layer, item)),
                CompiledEntry::Vacant
                | CompiledEntry::Trigger { .. }
                | CompiledEntry::Twig(_)
                | CompiledEntry::Other(_) => None,
            },
            CompiledEntry::Vacant | CompiledEntry::Trigger { .. } | CompiledEntry::Twig(_) => None,
        }
    }

    /// Where a query is registered; `None` if it is not there.
    pub(super) fn registrations(&self, query: u32) -> Option<Registrations> {
        match self.entry(query) {
            CompiledEntry::Vacant => None,
            CompiledEntry::Path(layer, item) => {
                Some(Registrations::One(Registration::Item(layer, item, AcceptItem::Accept(query))))
            }
            CompiledEntry::Trigger { number, .. } => Some(Registrations::One(Registration::Trigger(number))),
            CompiledEntry::Twig(number) => Some(Registrations::One(Registration::Twig(number))),
            CompiledEntry::Other(number) => self.evaluated.get(number).map(|other| other.registrations.clone()),
        }
    }

    /// Let all places of a query be others.
    pub(super) fn map_registrations(&mut self, query: u32, mut to: impl FnMut(Registration) -> Registration) {
        match self.entry(query) {
            CompiledEntry::Vacant => {}
            CompiledEntry::Path(layer, item) => {
                if let Registration::Item(layer, item, _) =
                    to(Registration::Item(layer, item, AcceptItem::Accept(query)))
                {
                    self.put_path(query, layer, item);
                }
            }
            CompiledEntry::Trigger { number, .. } => {
                // A trigger keeps its number wherever it waits.
                to(Registration::Trigger(number));
            }
            CompiledEntry::Twig(number) => {
                // So does a twig.
                to(Registration::Twig(number));
            }
            CompiledEntry::Other(number) => {
                let Some(other) = self.evaluated.get_mut(number) else { return };
                other
                    .registrations
                    .as_mut_slice()
                    .iter_mut()
                    .for_each(|registration| *registration = to(*registration));
            }
        }
    }

    /// Take a query out; where it was registered.
    pub(super) fn take(&mut self, query: u32) -> Option<Registrations> {
        let registrations = self.registrations(query)?;
        let entry = std::mem::replace(self.entries.get_mut(query as usize)?, VACANT);
        if let CompiledEntry::Other(number) = entry.entry() {
            self.evaluated.remove(number);
        }
        Some(registrations)
    }

    pub(super) fn warning(&self, query: u32) -> Option<QueryWarning> {
        self.other(query)?.warning
    }

    pub(super) fn needs(&self, query: u32) -> ScanNeeds {
        match self.entry(query) {
            CompiledEntry::Trigger { text, .. } => ScanNeeds { attributes: true, text, rewrites: false },
            _ => self.other(query).map_or_else(ScanNeeds::default, |other| other.needs),
        }
    }

    pub(super) fn evaluated(&self, query: u32) -> &EvaluationSource {
        let evaluation = self.other(query).and_then(|other| other.evaluation.as_ref());
        evaluation.map_or(&EvaluationSource::Nothing, |evaluation| &evaluation.evaluated)
    }

    pub(super) fn program(&self, query: u32) -> Option<&Program> {
        self.other(query)?.evaluation.as_ref()?.program.as_deref()
    }

    /// Bytes, programs aside.
    pub(super) fn bytes(&self) -> usize {
        let others = self.evaluated.slots().flatten().map(CompiledQuery::heap_bytes).sum::<usize>();
        self.entries.bytes() + self.evaluated.bytes() + others
    }
}
