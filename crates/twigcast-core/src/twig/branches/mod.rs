//! Branches: the parts that nested paths are made of, each kept once.
//!
//! A branch says of an element that some child (or descendant) passes a name test and that certain other branches hold
//! there: `a[b]//c/d` is the branch "child `a` where *child `b`* and *descendant `c` where child `d`* hold". Equal
//! branches of different queries are one (the shared suffixes of GFilter: Chen et al., "GFilter: scalable filtering on
//! tree-pattern queries", 2008). A [`Dependencies`] index finds the branches that hold at an element from those that hold
//! at its children, without visiting others (see [`super::satisfied`]).

use foldhash::fast::FixedState;
use rustc_hash::FxHashMap;
use std::hash::BuildHasher;

use crate::document::{Document, NodeId, NodeKind};
use crate::eval::{EvalError, Evaluator};
use crate::ids::BranchId;
use crate::query::ast::{Axis, Expr, Function, NameTest, NodeTest, PathStart, Step};
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowHashTable;
use crate::vocabulary::Name;

impl BranchId {
    /// In place of an absent branch.
    pub const NONE: Self = Self::from_u32(0);
}

impl Default for BranchId {
    fn default() -> Self {
        Self::NONE
    }
}

/// Branches that must all hold at an element: the one to wait for (0: there are none), and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchConjunction {
    /// The branch with the largest id. Common branches come early, so it is likely to be the rarest.
    pub lead: BranchId,
    rest: BranchRefs,
}

/// The others of a [`BranchConjunction`] in eight bytes: up to two ids, as nearly always, or the index of a list. There are
/// several of these for each query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BranchRefs([BranchId; 2]);

/// In place of the second id: the first is the index of a list.
const LISTED: BranchId = BranchId::ABSENT;

impl BranchRefs {
    /// Returns the index of the list, if there is one.
    fn list(self) -> Option<u32> {
        (self.0[1] == LISTED).then_some(self.0[0].as_u32())
    }
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    test: ElementTest,
    uses: u32,
    /// The branches that must hold at the child or descendant.
    needs: BranchConjunction,
}

/// The elements that a branch is about: the index of a name test and, as the lowest bit, whether it tests any descendant
/// rather than a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ElementTest(u32);

impl ElementTest {
    fn is_descendant(self) -> bool {
        self.0 & 1 == 1
    }
}

/// All branches in use.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    /// The branch of each id. Entry 0 is none; a free entry has no uses.
    entries: Chunked<Branch>,
    free: Chunked<BranchId>,
    ids_by_key: CowHashTable<BranchId>,
    /// The lists of more than two others, ascending.
    lists: Chunked<Box<[BranchId]>, 512>,
    free_lists: Chunked<u32>,
    /// Name tests. Like the vocabulary that they are made of, they are never removed.
    tests: Vec<NameTest>,
    test_numbers: FxHashMap<NameTest, u32>,
    scratch: Vec<BranchId>,
}

/// The key of a branch: its test, and the lead and the others of its needs.
type BranchKey<'a> = (ElementTest, BranchId, &'a [BranchId]);

fn hash(key: BranchKey<'_>) -> u64 {
    FixedState::default().hash_one(key)
}

/// Sorts branches from an index on, without duplicates. Returns the lead and the others of their [`BranchConjunction`].
fn in_order(branches: &mut Vec<BranchId>, from: usize) -> (BranchId, &[BranchId]) {
    if branches.len() > from + 1 {
        branches[from..].sort_unstable();
        let mut kept = from + 1;
        for index in from + 1..branches.len() {
            if branches[index] != branches[kept - 1] {
                branches[kept] = branches[index];
                kept += 1;
            }
        }
        branches.truncate(kept);
    }
    branches[from..].split_last().map_or((BranchId::NONE, &[]), |(&lead, others)| (lead, others))
}

impl Branches {
    /// Returns `true` if there is no branch.
    pub fn is_empty(&self) -> bool {
        self.ids_by_key.is_empty()
    }

    /// Returns the number of branches.
    pub fn len(&self) -> usize {
        self.ids_by_key.len()
    }

    /// Returns one past the largest id.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    /// Returns the branches whose conjunction a condition is, counting one more use of each; `None` if it is no conjunction
    /// of branches.
    pub fn acquire(&mut self, condition: &Expr) -> Option<BranchConjunction> {
        if !is_conjunction(condition) {
            return None;
        }
        let mut branches = std::mem::take(&mut self.scratch);
        branches.clear();
        self.conjuncts(condition, &mut branches);
        let (lead, others) = in_order(&mut branches, 0);
        let all = self.all_of(lead, others);
        self.scratch = branches;
        Some(all)
    }

    /// Packs a lead and others, counting one more use of each.
    fn all_of(&mut self, lead: BranchId, others: &[BranchId]) -> BranchConjunction {
        let needed = (lead != BranchId::NONE).then_some(&lead).into_iter().chain(others);
        needed.for_each(|&branch| self.entries[branch.index()].uses += 1);
        let others = match *others {
            [] => BranchRefs::default(),
            [one] => BranchRefs([one, BranchId::NONE]),
            [one, other] => BranchRefs([one, other]),
            _ => BranchRefs([BranchId::from_u32(self.insert_list(others)), LISTED]),
        };
        BranchConjunction { lead, rest: others }
    }

    fn insert_list(&mut self, others: &[BranchId]) -> u32 {
        match self.free_lists.pop() {
            Some(number) => {
                self.lists[number as usize] = others.into();
                number
            }
            None => {
                self.lists.push(others.into());
                self.lists.len() as u32 - 1
            }
        }
    }

    /// Returns the branches besides the lead, ascending.
    #[inline]
    pub fn rest<'a>(&'a self, all: &'a BranchConjunction) -> &'a [BranchId] {
        match &all.rest.0 {
            &[list, LISTED] => &self.lists[list.index()],
            [BranchId::NONE, _] => &[],
            one @ [_, BranchId::NONE] => &one[..1],
            both => both,
        }
    }

    /// Returns all branches of a conjunction.
    pub fn members<'a>(&'a self, all: &'a BranchConjunction) -> impl Iterator<Item = BranchId> + 'a {
        (all.lead != BranchId::NONE).then_some(all.lead).into_iter().chain(self.rest(all).iter().copied())
    }

    /// Ends the uses that [`Self::acquire`] counted.
    pub fn release(&mut self, all: BranchConjunction) {
        let mut released = Vec::new();
        self.unpack(all, &mut released);
        released.into_iter().for_each(|branch| self.release_one(branch));
    }

    /// Appends the members and frees the list of the others. To be called once.
    pub fn unpack(&mut self, all: BranchConjunction, members: &mut Vec<BranchId>) {
        members.extend(self.members(&all));
        if let Some(list) = all.rest.list() {
            self.lists[list as usize] = Box::default();
            self.free_lists.push(list);
        }
    }

    /// Ends one use of a branch.
    pub fn release_one(&mut self, branch: BranchId) {
        let mut released = vec![branch];
        while let Some(id) = released.pop() {
            let branch = &mut self.entries[id.index()];
            branch.uses -= 1;
            if branch.uses > 0 {
                continue;
            }
            let needs = branch.needs;
            let hash = hash(self.key(id));
            self.ids_by_key.remove(hash, |&other| other == id);
            self.entries[id.index()].needs = BranchConjunction::default();
            self.unpack(needs, &mut released);
            self.free.push(id);
        }
    }

    fn key(&self, id: BranchId) -> BranchKey<'_> {
        let branch = &self.entries[id.index()];
        (branch.test, branch.needs.lead, self.refs_of(id))
    }

    fn conjuncts(&mut self, condition: &Expr, branches: &mut Vec<BranchId>) {
        match condition {
            Expr::And(operands) => operands.iter().for_each(|operand| self.conjuncts(operand, branches)),
            Expr::Call { function: Function::Boolean, arguments } => self.conjuncts(&arguments[0], branches),
            Expr::Path(path) => {
                // From the last step to the first: the steps after a step are one more branch that it needs.
                let from = branches.len();
                for (index, step) in path.steps.iter().enumerate().rev() {
                    if step.axis == Axis::DescendantOrSelf {
                        continue;
                    }
                    step.predicates.iter().for_each(|predicate| self.conjuncts(predicate, branches));
                    if let (Axis::Child | Axis::Descendant, NodeTest::Name(test)) = (step.axis, &step.test) {
                        let below = index > 0 && path.steps[index - 1].axis == Axis::DescendantOrSelf;
                        let (lead, others) = in_order(branches, from);
                        let test = self.test(*test, below || step.axis == Axis::Descendant);
                        let id = self.intern((test, lead, others));
                        branches.truncate(from);
                        branches.push(id);
                    }
                }
            }
            _ => {}
        }
    }

    fn test(&mut self, test: NameTest, descendant: bool) -> ElementTest {
        let Self { tests, test_numbers, .. } = self;
        let number = *test_numbers.entry(test).or_insert_with(|| {
            tests.push(test);
            tests.len() as u32 - 1
        });
        ElementTest(number << 1 | u32::from(descendant))
    }

    fn intern(&mut self, key: BranchKey<'_>) -> BranchId {
        let hash = hash(key);
        if let Some(&existing) = self.ids_by_key.find(hash, |&id| self.key(id) == key) {
            return existing;
        }
        let (test, lead, others) = key;
        if self.entries.is_empty() {
            self.entries.push(Branch { test, uses: 0, needs: BranchConjunction::default() });
        }
        let branch = Branch { test, uses: 0, needs: self.all_of(lead, others) };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id.index()] = branch;
                id
            }
            None => {
                self.entries.push(branch);
                BranchId::new(self.entries.len() - 1)
            }
        };
        let mut existing = std::mem::take(&mut self.ids_by_key);
        existing.insert_unique(hash, id, |&other| self::hash(self.key(other)));
        self.ids_by_key = existing;
        id
    }

    /// Returns all branches in use, with their ids.
    fn iter(&self) -> impl Iterator<Item = (BranchId, &Branch)> {
        (0..).map(BranchId::new).zip(self.entries.iter()).filter(|(_, branch)| branch.uses > 0)
    }

    fn refs_of(&self, id: BranchId) -> &[BranchId] {
        self.rest(&self.entries[id.index()].needs)
    }

    fn name_test(&self, branch: &Branch) -> NameTest {
        self.tests[(branch.test.0 >> 1) as usize]
    }

    /// Returns `true` if all branches hold at an element, by searching the message.
    ///
    /// # Errors
    /// The query that the evaluator works for has used up its visits.
    pub fn hold_at(
        &self,
        evaluator: &Evaluator<'_>,
        element: NodeId,
        all: &BranchConjunction,
    ) -> Result<bool, EvalError> {
        for branch in self.members(all) {
            if !self.holds_at(evaluator, element, branch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns `true` if a branch holds at an element, by searching the message.
    ///
    /// # Errors
    /// The errors of [`Self::hold_at`].
    pub fn holds_at(&self, evaluator: &Evaluator<'_>, element: NodeId, id: BranchId) -> Result<bool, EvalError> {
        let branch = &self.entries[id.index()];
        let test = self.name_test(branch);
        let document: &Document = evaluator.message().document;
        let end = document.nodes[element as usize].end;
        let mut node = element + 1;
        while node < end {
            let entry = &document.nodes[node as usize];
            evaluator.charge(1)?;
            if entry.kind == NodeKind::Element
                && test.accepts(entry.name)
                && self.hold_at(evaluator, node, &branch.needs)?
            {
                return Ok(true);
            }
            node = if branch.test.is_descendant() { node + 1 } else { entry.end };
        }
        Ok(false)
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| size_of_val(list) + size_of_val(&**list)).sum();
        let free = self.free.bytes() + self.free_lists.bytes();
        self.entries.bytes() + self.ids_by_key.capacity() * 5 + lists + free
    }
}

/// An index of which branches wait for which, to find what holds above an element. Valid until the branches change.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// For each branch, where its dependents (the branches whose needs it leads) begin in `dependents`; one entry more.
    starts: Vec<u32>,
    dependents: Vec<Dependent>,
    /// Branches without needs, by their test.
    leaves: FxHashMap<NameTest, Vec<BranchId>>,
    /// A bit for each branch that is about descendants: such a branch holds above every element where it holds.
    descendant: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Dependent {
    test: NameTest,
    /// The number of the branch, with [`HAS_MORE`] if it needs more than its lead and [`Self::also`].
    branch: u32,
    /// One branch that it needs besides its lead, or 0. Stored here since most dependents fail by it.
    also: BranchId,
}

const HAS_MORE: u32 = 1 << 31;

impl Dependencies {
    /// Creates the index of branches.
    pub fn new(branches: &Branches) -> Self {
        let mut led: Vec<(BranchId, Dependent)> = Vec::new();
        let mut this = Self { descendant: vec![0; branches.bound().div_ceil(64)], ..Self::default() };
        for (id, branch) in branches.iter() {
            this.descendant[id.index() >> 6] |= u64::from(branch.test.is_descendant()) << (id.index() & 63);
            let test = branches.name_test(branch);
            if branch.needs.lead == BranchId::NONE {
                this.leaves.entry(test).or_default().push(id);
            } else {
                let others = branches.rest(&branch.needs);
                let mark = if others.len() > 1 { HAS_MORE } else { 0 };
                let also = others.last().copied().unwrap_or(BranchId::NONE);
                led.push((branch.needs.lead, Dependent { test, branch: id.as_u32() | mark, also }));
            }
        }
        led.sort_unstable_by_key(|&(lead, dependent)| (lead, dependent.branch));
        let mut next = 0;
        for lead in (0..=branches.bound()).map(BranchId::new) {
            while led.get(next).is_some_and(|&(other, _)| other < lead) {
                next += 1;
            }
            this.starts.push(next as u32);
        }
        this.dependents = led.into_iter().map(|(_, dependent)| dependent).collect();
        this
    }

    /// Returns `true` if a branch is about descendants.
    #[inline]
    pub fn is_descendant(&self, id: BranchId) -> bool {
        self.descendant[id.index() >> 6] >> (id.index() & 63) & 1 == 1
    }

    /// Returns the branches that hold above every element of a name.
    pub fn leaves(&self, name: Name) -> impl Iterator<Item = BranchId> + '_ {
        let tests =
            [NameTest::Name(name), NameTest::Any, NameTest::Namespace(name.namespace), NameTest::Local(name.local)];
        tests.into_iter().filter_map(|test| self.leaves.get(&test)).flatten().copied()
    }

    /// Appends the branches that wait for `lead` and hold above an element of a name, where `lead` holds and those of which
    /// `holds` says so.
    #[inline]
    pub fn dependents(
        &self,
        branches: &Branches,
        lead: BranchId,
        name: Name,
        holds: impl Fn(BranchId) -> bool,
        result: &mut Vec<BranchId>,
    ) {
        let (start, end) = (self.starts[lead.index()], self.starts[lead.index() + 1]);
        for dependent in &self.dependents[start as usize..end as usize] {
            if dependent.test.accepts(name) && (dependent.also == BranchId::NONE || holds(dependent.also)) {
                let id = BranchId::from_u32(dependent.branch & !HAS_MORE);
                let needs_more = dependent.branch & HAS_MORE != 0;
                if !needs_more || branches.refs_of(id).iter().all(|&other| holds(other)) {
                    result.push(id);
                }
            }
        }
    }

    /// Returns the bytes in use, by estimate.
    pub fn bytes(&self) -> usize {
        self.starts.len() * 4 + self.dependents.len() * size_of::<Dependent>() + self.descendant.len() * 8
    }
}

/// Returns `true` if a structural condition is a conjunction of forward paths over children and descendants.
fn is_conjunction(condition: &Expr) -> bool {
    match condition {
        Expr::And(operands) => operands.iter().all(is_conjunction),
        Expr::Call { function: Function::Boolean, arguments } => is_conjunction(&arguments[0]),
        Expr::Call { function: Function::True, .. } => true,
        Expr::Path(path) => {
            path.start == PathStart::Context
                && path.steps.iter().enumerate().all(|(index, step)| match (step.axis, &step.test) {
                    (Axis::Child | Axis::Descendant, NodeTest::Name(_)) | (Axis::SelfAxis, NodeTest::Node) => {
                        step.predicates.iter().all(is_conjunction)
                    }
                    (Axis::DescendantOrSelf, NodeTest::Node) => {
                        let leads_to = |next: &Step| matches!(next.axis, Axis::Child | Axis::Descendant);
                        step.predicates.is_empty() && path.steps.get(index + 1).is_some_and(leads_to)
                    }
                    _ => false,
                })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
