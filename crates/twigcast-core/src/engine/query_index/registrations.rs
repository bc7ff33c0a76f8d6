//! The registrations of queries: their parts, and where they wait.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::access::entry::AccessEntry;
use crate::access::table::AccessTable;
use crate::automaton::nfa::{AcceptItem, Nfa};
use crate::ids::{AccessId, AtomId, BranchId, ConditionId, ItemId, StateId, StructuralConditionId, TriggerId, TwigId};
use crate::plan::Distance;
use crate::predicate::packed;
use crate::predicate::trigger_table::TriggerTable;
use crate::util::cow_map::CowMap;

/// The two parts of the index, as in an LSM tree.
///
/// Queries that are added after matching has begun go to the recent segment. So the caches that matchers have built for
/// the main segment stay valid, and the caches that follow each change are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// The main segment. It changes only when matchers clear their caches.
    Main,
    /// The recent segment: what was added since the last merge.
    Recent,
}

/// A registration of a query in the index, by which it is removed again.
#[derive(Clone, Copy, Debug)]
pub enum Registration {
    /// An item of an NFA (see [`Nfa::insert_item`]).
    Item(Segment, ItemId, AcceptItem),
    /// A trigger, wherever it waits.
    Trigger(TriggerId),
    /// A twig, wherever it waits.
    Twig(TwigId),
    /// Accesses of one path, wherever they wait.
    Access(AccessId),
    /// An entry in the list of queries that are evaluated on each message.
    Always,
}

/// The number of keyed triggers at one NFA state from which on they get a trigger table of their own. Up to there, merging
/// them into the DFA states lets one lookup serve many. Beyond, the copies would fill the cache, and each change would
/// build tables again.
const TRIGGER_TABLE_MIN: u32 = 1024;

/// The paths of one segment.
#[derive(Clone, Debug, Default)]
pub struct PathIndex {
    /// The NFA of the paths.
    pub nfa: Nfa,
    /// The trigger tables of states where many keyed triggers wait.
    pub trigger_tables: FxHashMap<StateId, Arc<TriggerTable>>,
    /// The accesses that wait at states, by the tests that lead to them.
    pub access_tables: FxHashMap<StateId, Arc<AccessTable>>,
    /// The number of entries of accesses that wait as items at each state.
    pub(super) access_counts: CowMap<StateId, usize>,
    /// The number of keyed triggers that wait as items at each state.
    pub(super) keyed_counts: CowMap<StateId, u32>,
}

impl PathIndex {
    /// Returns `true` if further keyed triggers at a state wait in a trigger table.
    pub(super) fn has_trigger_table(&self, state: StateId) -> bool {
        self.trigger_tables.contains_key(&state)
            || self.keyed_counts.get(&state).is_some_and(|&count| count >= TRIGGER_TABLE_MIN)
    }

    /// Counts one keyed trigger less that waits as an item at a state.
    pub(super) fn uncount(&mut self, state: StateId) {
        if let Some(count) = self.keyed_counts.get_mut(&state) {
            *count -= 1;
            if *count == 0 {
                self.keyed_counts.remove(&state);
            }
        }
    }
}

/// The position where a trigger waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum TriggerHome {
    /// An item of an NFA. The DFA states that have its NFA state merge it.
    Item(Segment, ItemId),
    /// The trigger table of a state where many wait (see [`PathIndex::trigger_tables`]).
    TriggerTable(Segment, StateId),
    /// Nowhere: not registered yet, or removed.
    Unregistered,
}

/// A trigger: the tests that remain where its path accepts.
#[derive(Clone, Debug)]
pub struct CompiledTrigger {
    /// The query.
    pub query: u32,
    /// The value condition that is tested first: an atom, and the distance of the element that must satisfy it.
    pub key: (Distance, AtomId),
    /// A second value condition.
    pub also: Option<(Distance, AtomId)>,
    /// A branch that must hold at the element; 0: none.
    pub below: BranchId,
    /// Tests that few triggers need.
    pub rest: Option<Box<RemainingTests>>,
    pub(super) home: TriggerHome,
}

impl CompiledTrigger {
    /// Returns `true` if the trigger is looked up by its first value condition. Otherwise there are too many queries or
    /// atoms, and the condition is tested like the others.
    pub fn is_keyed(&self) -> bool {
        self.query < packed::QUERIES_MAX && self.key.1 < packed::ATOMS_MAX
    }

    /// Returns `true` if more than look-ups decides the trigger, so that a query that is set aside is not to be tested.
    pub fn is_evaluated(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| !rest.structures.is_empty() || rest.residual != ConditionId::NONE)
    }

    /// Returns `true` if the whole expression is evaluated once all tests hold.
    pub fn asks_whole(&self) -> bool {
        self.rest.as_ref().is_some_and(|rest| rest.whole)
    }
}

/// The tests of a [`Verify`](crate::plan::Verify) that few triggers need.
#[derive(Clone, Debug)]
pub struct RemainingTests {
    /// Further value conditions.
    pub also: Box<[(Distance, AtomId)]>,
    /// Further branches that must hold at the element.
    pub below: Box<[BranchId]>,
    /// Structural conditions of the element or an ancestor.
    pub structures: Box<[(Distance, StructuralConditionId)]>,
    /// A condition on the element, of an access that waits as a trigger; [`ConditionId::NONE`]: none.
    pub residual: ConditionId,
    /// The whole expression is evaluated, see [`Verify::whole`](crate::plan::Verify::whole).
    pub whole: bool,
}

impl RemainingTests {
    /// Returns `true` if there are no tests.
    pub(super) fn is_empty(&self) -> bool {
        let Self { also, below, structures, residual, whole } = self;
        also.is_empty() && below.is_empty() && structures.is_empty() && *residual == ConditionId::NONE && !whole
    }
}

/// The position where accesses wait.
#[derive(Clone, Copy, Debug)]
pub(super) enum AccessHome {
    /// An item of an NFA. The DFA states that have its NFA state merge it.
    Item(Segment, ItemId),
    /// The table of a state where many wait (see [`PathIndex::access_tables`]).
    Table(Segment, StateId),
    /// Nowhere: not registered yet, or removed.
    Unregistered,
}

/// The accesses of a query that wait on one path.
#[derive(Clone, Debug)]
pub struct RegisteredAccess {
    /// The query, possibly marked with [`WHOLE`](crate::access::entry::WHOLE).
    pub(super) query: u32,
    pub(super) home: AccessHome,
    /// The ids of their tests and residuals.
    pub(super) entries: Box<[(ConditionId, ConditionId)]>,
}

impl RegisteredAccess {
    /// Returns the test of each access and its entry for the table.
    pub(super) fn entries(&self) -> impl Iterator<Item = (ConditionId, AccessEntry)> + '_ {
        self.entries.iter().map(|&(test, residual)| (test, AccessEntry { residual, query: self.query }))
    }
}
