//! The cache of an evaluator for one message.
//!
//! Keys are addresses of query parts, which outlive the evaluator. The cache is bounded by a fixed limit and the size of
//! the message. When it is full, nothing is added, and evaluation goes on without.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::NodeId;
use crate::query::ast::{Expr, Path, Step};

use super::bits::NodeBits;
use super::cached::{
    ElementsById, Join, JoinedBy, KeptTable, StepIndex, StringValues, SummaryQuestion, SumsBefore, TableDomain,
    TableQuestion,
};
use super::node::NodeRef;
use super::texts::TextRange;

/// The most entries (nodes or answers), of about 16 bytes each: `ENTRIES_MAX`, and `ENTRIES_PER_NODE` for each node of the
/// message, which takes more memory itself.
const ENTRIES_MAX: usize = 1 << 20;
const ENTRIES_PER_NODE: usize = 4;

/// After so many searches for a text, all its occurrences are found and cached.
const SEARCHES_OFTEN: u32 = if cfg!(test) { 1 } else { 4 };

/// Bytes of an entry.
const ENTRY_BYTES: usize = 16;

/// A path, and the node on which its result depends: none if the result is the same for each context node.
type EvalCacheKey<'p> = (&'p Path, NodeId);

/// The least and the greatest number of a node-set, and whether it has a value that is not a number.
pub(super) type Extremes = (Option<(f64, f64)>, bool);

/// Answers about parts of queries, each for one message.
#[derive(Default)]
pub(super) struct EvalCache {
    /// The most entries for this message.
    entries_max: usize,
    /// Node-sets of absolute paths inside predicates: the same for every context node.
    nodes: FxHashMap<*const Path, Rc<[NodeRef]>>,
    /// Whether paths inside predicates select anything, by the node on which that depends.
    existence: FxHashMap<(*const Path, NodeId), bool>,
    /// Distinct string-values, smallest and largest number of such node-sets.
    strings: FxHashMap<(*const Path, NodeId), Rc<StringValues>>,
    extremes: FxHashMap<(*const Path, NodeId), Extremes>,
    /// The children that a step with positions selects, by parent.
    children: FxHashMap<(*const Step, NodeId), Rc<[NodeRef]>>,
    /// All tree nodes that a step inside a predicate can select: in the message or, for siblings, below one parent.
    indices: FxHashMap<(*const Step, NodeId), Rc<StepIndex>>,
    /// How many of each node and its ancestors a step inside a predicate selects.
    counts_up: FxHashMap<*const Step, Rc<[u32]>>,
    /// The nearest node at or above each that such a step can choose, or the outermost one; `NO_NODE`: there is none.
    nearest: FxHashMap<*const Step, Rc<[NodeId]>>,
    /// The nodes for which a condition on a step holds; `None` if it is not determined for all nodes at once.
    tables: FxHashMap<(TableQuestion, TableDomain), Option<NodeBits>>,
    /// Numbers that many context nodes have in common, by the node on which they depend.
    numbers: FxHashMap<(*const Expr, NodeId), f64>,
    /// Sums along an axis, in the message or, for siblings, below one parent; nothing if they are not exact.
    sums: FxHashMap<(*const Path, NodeId), Option<Rc<SumsBefore>>>,
    /// Texts that many context nodes have in common, by the node on which they depend.
    common_texts: FxHashMap<(*const Expr, NodeId), Rc<str>>,
    /// The first element with each `xml:id`.
    elements_by_id: Option<Rc<ElementsById>>,
    /// Positions where a text occurs in the text of the message; `None` if there are too many.
    occurrences: FxHashMap<*const Expr, Option<Box<[u32]>>>,
    /// How often a text was searched for before its positions were cached.
    searches: FxHashMap<*const Expr, u32>,
    /// Truth of predicates inside other predicates, which may be evaluated again for the same node.
    predicates: FxHashMap<(*const Expr, NodeRef), bool>,
    /// The values that paths lead to from many nodes; nothing if there are too many.
    joins: FxHashMap<(*const Path, JoinedBy), Option<Rc<Join>>>,
    /// Summaries of the nodes along an axis, in the message or, for siblings, below one parent.
    summaries: FxHashMap<SummaryKey, KeptTable>,
    entries: usize,
}

/// The address of a path along an axis, the parent below which it is summarised, and the kind of summary.
type SummaryKey = (*const (), NodeId, SummaryQuestion);

impl EvalCache {
    /// Creates the cache for a message of so many nodes.
    pub(super) fn new(nodes: usize) -> Self {
        Self { entries_max: ENTRIES_MAX + ENTRIES_PER_NODE * nodes, ..Self::default() }
    }

    /// Counts more entries, if they fit.
    fn admit(&mut self, count: usize) -> bool {
        let fits = self.entries + count <= self.entries_max;
        if fits {
            self.entries += count;
        }
        fits
    }

    pub(super) fn nodes(&self, path: &Path) -> Option<Rc<[NodeRef]>> {
        self.nodes.get(&std::ptr::from_ref(path)).cloned()
    }

    pub(super) fn keep_nodes(&mut self, path: &Path, nodes: &Rc<[NodeRef]>) {
        if self.admit(nodes.len() + 1) {
            self.nodes.insert(path, Rc::clone(nodes));
        }
    }

    /// Returns `true` if so many bytes may be added, as [`Self::admit`] does for nodes.
    pub(super) fn admit_bytes(&mut self, bytes: usize) -> bool {
        self.admit(bytes.div_ceil(ENTRY_BYTES) + 1)
    }

    /// Counts the entries of a list that may be large compared with its use. Such lists take at most half of the cache.
    fn admit_list(&mut self, count: usize) -> bool {
        self.entries + count <= self.entries_max / 2 && self.admit(count)
    }

    pub(super) fn existence(&self, path: &Path, anchor: NodeId) -> Option<bool> {
        self.existence.get(&(std::ptr::from_ref(path), anchor)).copied()
    }

    pub(super) fn keep_existence(&mut self, path: &Path, anchor: NodeId, exists: bool) {
        if self.admit(1) {
            self.existence.insert((path, anchor), exists);
        }
    }

    pub(super) fn strings(&self, (path, anchor): EvalCacheKey<'_>) -> Option<Rc<StringValues>> {
        self.strings.get(&(std::ptr::from_ref(path), anchor)).cloned()
    }

    pub(super) fn keep_strings(&mut self, (path, anchor): EvalCacheKey<'_>, strings: &Rc<StringValues>) {
        if self.admit_list(strings.len() + 1 + strings.bytes() / ENTRY_BYTES) {
            self.strings.insert((path, anchor), Rc::clone(strings));
        }
    }

    pub(super) fn extremes(&self, (path, anchor): EvalCacheKey<'_>) -> Option<Extremes> {
        self.extremes.get(&(std::ptr::from_ref(path), anchor)).copied()
    }

    pub(super) fn keep_extremes(&mut self, (path, anchor): EvalCacheKey<'_>, extremes: Extremes) {
        if self.admit(1) {
            self.extremes.insert((path, anchor), extremes);
        }
    }

    pub(super) fn children(&self, step: &Step, parent: NodeId) -> Option<Rc<[NodeRef]>> {
        self.children.get(&(std::ptr::from_ref(step), parent)).cloned()
    }

    pub(super) fn keep_children(&mut self, step: &Step, parent: NodeId, children: &Rc<[NodeRef]>) {
        if self.admit(children.len() + 1) {
            self.children.insert((step, parent), Rc::clone(children));
        }
    }

    pub(super) fn index(&self, step: &Step, below: NodeId) -> Option<Rc<StepIndex>> {
        self.indices.get(&(std::ptr::from_ref(step), below)).cloned()
    }

    pub(super) fn keep_index(&mut self, step: &Step, below: NodeId, index: &Rc<StepIndex>) {
        if self.admit_bytes(index.bytes()) {
            self.indices.insert((step, below), Rc::clone(index));
        }
    }

    pub(super) fn counts_up(&self, step: &Step) -> Option<Rc<[u32]>> {
        self.counts_up.get(&std::ptr::from_ref(step)).cloned()
    }

    /// Stores counts. The caller has admitted their bytes, as for tables and occurrences.
    pub(super) fn keep_counts_up(&mut self, step: &Step, counts: &Rc<[u32]>) {
        self.counts_up.insert(step, Rc::clone(counts));
    }

    pub(super) fn nearest(&self, step: &Step) -> Option<Rc<[NodeId]>> {
        self.nearest.get(&std::ptr::from_ref(step)).cloned()
    }

    pub(super) fn keep_nearest(&mut self, step: &Step, nearest: &Rc<[NodeId]>) {
        self.nearest.insert(step, Rc::clone(nearest));
    }

    /// Returns whether a node is in a table; `None` without a table, and `Some(None)` if none is to be made.
    pub(super) fn in_table(&self, key: (TableQuestion, TableDomain), number: u32) -> Option<Option<bool>> {
        let table = self.tables.get(&key)?;
        Some(table.as_ref().map(|table| table.contains(number)))
    }

    pub(super) fn keep_table(&mut self, key: (TableQuestion, TableDomain), table: Option<NodeBits>) {
        self.tables.insert(key, table);
    }

    pub(super) fn join(&self, path: &Path, by: JoinedBy) -> Option<Option<Rc<Join>>> {
        self.joins.get(&(std::ptr::from_ref(path), by)).cloned()
    }

    pub(super) fn keep_join(&mut self, path: &Path, by: JoinedBy, join: Option<Join>) -> Option<Rc<Join>> {
        let join = join.filter(|join| self.admit_bytes(join.bytes())).map(Rc::new);
        self.joins.insert((path, by), join.clone());
        join
    }

    pub(super) fn summary(&self, key: &SummaryKey) -> Option<KeptTable> {
        self.summaries.get(key).cloned()
    }

    /// Stores a table of so many bytes, or `None`, and returns it.
    pub(super) fn keep_summary(&mut self, key: SummaryKey, table: KeptTable, bytes: usize) -> KeptTable {
        let table = table.filter(|_| self.admit_bytes(bytes));
        self.summaries.insert(key, table.clone());
        table
    }

    pub(super) fn number(&self, expr: &Expr, anchor: NodeId) -> Option<f64> {
        self.numbers.get(&(std::ptr::from_ref(expr), anchor)).copied()
    }

    pub(super) fn keep_number(&mut self, expr: &Expr, anchor: NodeId, number: f64) {
        if self.admit(1) {
            self.numbers.insert((expr, anchor), number);
        }
    }

    pub(super) fn sums(&self, path: &Path, below: NodeId) -> Option<Option<Rc<SumsBefore>>> {
        self.sums.get(&(std::ptr::from_ref(path), below)).cloned()
    }

    pub(super) fn keep_sums(
        &mut self,
        (path, below): EvalCacheKey<'_>,
        sums: Option<SumsBefore>,
    ) -> Option<Rc<SumsBefore>> {
        let sums = sums.filter(|sums| self.admit_bytes(sums.bytes())).map(Rc::new);
        self.sums.insert((path, below), sums.clone());
        sums
    }

    pub(super) fn common_text(&self, expr: &Expr, anchor: NodeId) -> Option<Rc<str>> {
        self.common_texts.get(&(std::ptr::from_ref(expr), anchor)).cloned()
    }

    pub(super) fn keep_common_text(&mut self, expr: &Expr, anchor: NodeId, text: &Rc<str>) {
        if self.admit_bytes(text.len()) {
            self.common_texts.insert((expr, anchor), Rc::clone(text));
        }
    }

    pub(super) fn elements_by_id(&self) -> Option<Rc<ElementsById>> {
        self.elements_by_id.clone()
    }

    pub(super) fn keep_elements_by_id(&mut self, elements: &Rc<ElementsById>) {
        let bytes: usize = elements.keys().map(|id| id.len() + ENTRY_BYTES).sum();
        if self.admit_bytes(bytes) {
            self.elements_by_id = Some(Rc::clone(elements));
        }
    }

    /// Returns whether a text of `length` bytes occurs within a range of the text of the message; `None` before its
    /// positions are cached, and `Some(None)` if there are too many.
    pub(super) fn occurs_within(&self, part: &Expr, range: &TextRange, length: usize) -> Option<Option<bool>> {
        let occurrences = self.occurrences.get(&std::ptr::from_ref(part))?;
        Some(occurrences.as_ref().map(|occurrences| {
            let next = occurrences.partition_point(|&at| (at as usize) < range.start);
            occurrences.get(next).is_some_and(|&at| at as usize + length <= range.end)
        }))
    }

    /// Counts a search for a text, and returns whether it has been searched for often enough to cache its positions.
    pub(super) fn is_frequent(&mut self, part: &Expr) -> bool {
        if !self.searches.contains_key(&std::ptr::from_ref(part)) && !self.admit(1) {
            return false;
        }
        let searches = self.searches.entry(part).or_default();
        *searches += 1;
        *searches >= SEARCHES_OFTEN
    }

    pub(super) fn keep_occurrences(&mut self, part: &Expr, occurrences: Option<Box<[u32]>>) {
        let bytes = occurrences.as_ref().map_or(0, |occurrences| size_of_val(&**occurrences));
        let kept = if self.admit_bytes(bytes) { occurrences } else { None };
        self.occurrences.insert(part, kept);
    }

    pub(super) fn predicate(&self, predicate: &Expr, node: NodeRef) -> Option<bool> {
        self.predicates.get(&(std::ptr::from_ref(predicate), node)).copied()
    }

    pub(super) fn keep_predicate(&mut self, predicate: &Expr, node: NodeRef, holds: bool) {
        if self.admit(1) {
            self.predicates.insert((predicate, node), holds);
        }
    }
}
