//! Branches: the parts that nested paths are made of, each kept once.
//!
//! A branch says of an element that some child (or descendant) passes a name test and that certain other branches hold
//! there: `a[b]//c/d` is the branch "child `a` where *child `b`* and *descendant `c` where child `d`* hold". Equal
//! branches of different queries are one (the shared suffixes of GFilter: Chen et al., "GFilter: scalable filtering on
//! tree-pattern queries", 2008). A [`Dependencies`] index tells which wait for which, so that what holds at an element follows
//! from what holds at its children without a look at the branches that do not (see [`super::satisfied`]).

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use std::hash::BuildHasher;

use crate::document::{Document, NodeId, NodeKind};
use crate::eval::{EvalError, Evaluator};
use crate::query::ast::{Axis, Expr, Function, NameTest, NodeTest, PathStart, Step};
use crate::util::chunked::Chunked;
use crate::vocabulary::Name;

/// Number of a branch; never 0.
pub type BranchId = u32;

/// Branches of which all must hold at an element: the one to wait for (0: nothing is asked), and the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchConjunction {
    /// The one with the largest number: common branches come early, so it is likely to be the rarest.
    pub lead: BranchId,
    rest: BranchRefs,
}

/// The others of [`BranchConjunction`]: up to two by themselves, which nearly all are, and more as the number of a list. There are
/// several of these for each query, so they are as small as can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BranchRefs([BranchId; 2]);

/// In place of the second of two others: the first is the number of a list.
const LISTED: BranchId = BranchId::MAX;

impl BranchRefs {
    /// The number of the list.
    fn list(self) -> Option<u32> {
        (self.0[1] == LISTED).then_some(self.0[0])
    }
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    test: ElementTest,
    uses: u32,
    /// What must hold at the element found.
    needs: BranchConjunction,
}

/// Which elements a branch is about: the number of a name test, and, as the lowest bit, whether it is on any descendant
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
    /// By number; entry 0 is none, and a free entry has no uses.
    entries: Chunked<Branch>,
    free: Vec<BranchId>,
    ids_by_key: HashTable<BranchId>,
    /// The lists of more than two others, ascending.
    lists: Vec<Box<[BranchId]>>,
    free_lists: Vec<u32>,
    /// Name tests by number. Like the vocabulary that they are made of, they stay.
    tests: Vec<NameTest>,
    test_numbers: FxHashMap<NameTest, u32>,
    scratch: Vec<BranchId>,
}

/// What tells branches apart: the test, and the needs' lead and others.
type BranchKey<'a> = (ElementTest, BranchId, &'a [BranchId]);

fn hash(spelling: BranchKey<'_>) -> u64 {
    FixedState::default().hash_one(spelling)
}

/// Put branches in the order of [`BranchConjunction`]: lead and others.
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
    branches[from..].split_last().map_or((0, &[]), |(&lead, others)| (lead, others))
}

impl Branches {
    /// No branch at all?
    pub fn is_empty(&self) -> bool {
        self.ids_by_key.is_empty()
    }

    /// How many branches there are.
    pub fn len(&self) -> usize {
        self.ids_by_key.len()
    }

    /// One past the largest number.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    /// The branches that a condition is the conjunction of, each with one more use; `None` if it is more than that.
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

    /// Keep a lead and others, each with one more use.
    fn all_of(&mut self, lead: BranchId, others: &[BranchId]) -> BranchConjunction {
        let needed = (lead != 0).then_some(&lead).into_iter().chain(others);
        needed.for_each(|&branch| self.entries[branch as usize].uses += 1);
        let others = match *others {
            [] => BranchRefs::default(),
            [one] => BranchRefs([one, 0]),
            [one, other] => BranchRefs([one, other]),
            _ => BranchRefs([self.insert_list(others), LISTED]),
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

    /// The others beside the lead, ascending.
    #[inline]
    pub fn rest<'a>(&'a self, all: &'a BranchConjunction) -> &'a [BranchId] {
        match &all.rest.0 {
            &[list, LISTED] => &self.lists[list as usize],
            [0, _] => &[],
            one @ [_, 0] => &one[..1],
            both => both,
        }
    }

    /// All of them.
    pub fn members<'a>(&'a self, all: &'a BranchConjunction) -> impl Iterator<Item = BranchId> + 'a {
        (all.lead != 0).then_some(all.lead).into_iter().chain(self.rest(all).iter().copied())
    }

    /// Undo [`Self::acquire`].
    pub fn release(&mut self, all: BranchConjunction) {
        let mut released = Vec::new();
        self.let_go(all, &mut released);
        released.into_iter().for_each(|branch| self.release_one(branch));
    }

    /// Append the members, and forget the list of the others. To be called once.
    pub fn let_go(&mut self, all: BranchConjunction, members: &mut Vec<BranchId>) {
        members.extend(self.members(&all));
        if let Some(list) = all.rest.list() {
            self.lists[list as usize] = Box::default();
            self.free_lists.push(list);
        }
    }

    /// Undo [`Self::acquire`] of one branch.
    pub fn release_one(&mut self, branch: BranchId) {
        let mut released = vec![branch];
        while let Some(id) = released.pop() {
            let branch = &mut self.entries[id as usize];
            branch.uses -= 1;
            if branch.uses > 0 {
                continue;
            }
            let needs = branch.needs;
            if let Ok(entry) = self.ids_by_key.find_entry(hash(self.spelling(id)), |&other| other == id) {
                entry.remove();
            }
            self.entries[id as usize].needs = BranchConjunction::default();
            self.let_go(needs, &mut released);
            self.free.push(id);
        }
    }

    fn spelling(&self, id: BranchId) -> BranchKey<'_> {
        let branch = &self.entries[id as usize];
        (branch.test, branch.needs.lead, self.refs_of(id))
    }

    fn conjuncts(&mut self, condition: &Expr, branches: &mut Vec<BranchId>) {
        match condition {
            Expr::And(operands) => operands.iter().for_each(|operand| self.conjuncts(operand, branches)),
            Expr::Call { function: Function::Boolean, arguments } => self.conjuncts(&arguments[0], branches),
            Expr::Path(path) => {
                // From the last step to the first: what follows a step is one more need of it.
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

    fn intern(&mut self, spelling: BranchKey<'_>) -> BranchId {
        let hash = hash(spelling);
        if let Some(&existing) = self.ids_by_key.find(hash, |&id| self.spelling(id) == spelling) {
            return existing;
        }
        let (test, lead, others) = spelling;
        if self.entries.len() == 0 {
            self.entries.push(Branch { test, uses: 0, needs: BranchConjunction::default() });
        }
        let branch = Branch { test, uses: 0, needs: self.all_of(lead, others) };
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = branch;
                id
            }
            None => {
                self.entries.push(branch);
                self.entries.len() as BranchId - 1
            }
        };
        let mut existing = std::mem::take(&mut self.ids_by_key);
        existing.insert_unique(hash, id, |&other| self::hash(self.spelling(other)));
        self.ids_by_key = existing;
        id
    }

    /// All branches in use, with their numbers.
    fn iter(&self) -> impl Iterator<Item = (BranchId, &Branch)> {
        (0..).zip(self.entries.iter()).filter(|(_, branch)| branch.uses > 0)
    }

    fn refs_of(&self, id: BranchId) -> &[BranchId] {
        self.rest(&self.entries[id as usize].needs)
    }

    fn name_test(&self, branch: &Branch) -> NameTest {
        self.tests[(branch.test.0 >> 1) as usize]
    }

    /// Do all hold at an element? Looked up in the message itself, for where nothing may be remembered.
    ///
    /// # Errors
    /// The query at work has used up its visits.
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

    /// Does a branch hold at an element? See [`Self::hold_at`].
    ///
    /// # Errors
    /// As for [`Self::hold_at`].
    pub fn holds_at(&self, evaluator: &Evaluator<'_>, element: NodeId, id: BranchId) -> Result<bool, EvalError> {
        let branch = &self.entries[id as usize];
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

    /// Bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| size_of_val(list) + size_of_val(&**list)).sum();
        let free = (self.free.capacity() + self.free_lists.capacity()) * 4;
        self.entries.bytes() + self.ids_by_key.capacity() * 5 + lists + free
    }
}

/// Which branches wait for which: laid out for finding what holds above an element. Made of branches as they are, and of
/// use until they change.
#[derive(Debug, Default)]
pub struct Dependencies {
    /// By branch, where its dependents (the branches whose needs it leads) begin in `dependents`; one entry more.
    starts: Vec<u32>,
    dependents: Vec<Dependent>,
    /// Branches that need nothing but that an element passes a test.
    leaves: FxHashMap<NameTest, Vec<BranchId>>,
    /// A bit by branch: is it about descendants? Then it holds above wherever it holds.
    descendant: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Dependent {
    test: NameTest,
    /// The branch, with [`HAS_MORE`] if it needs more than its lead and `also`.
    branch: u32,
    /// What it needs beside its lead, or one of several; 0: nothing. Kept here since most of what is looked at fails by it.
    also: BranchId,
}

const HAS_MORE: u32 = 1 << 31;

impl Dependencies {
    /// The index of branches.
    pub fn new(branches: &Branches) -> Self {
        let mut led: Vec<(BranchId, Dependent)> = Vec::new();
        let mut this = Self { descendant: vec![0; branches.bound().div_ceil(64)], ..Self::default() };
        for (id, branch) in branches.iter() {
            this.descendant[id as usize >> 6] |= u64::from(branch.test.is_descendant()) << (id & 63);
            let test = branches.name_test(branch);
            if branch.needs.lead == 0 {
                this.leaves.entry(test).or_default().push(id);
            } else {
                let others = branches.rest(&branch.needs);
                let mark = if others.len() > 1 { HAS_MORE } else { 0 };
                let also = others.last().copied().unwrap_or(0);
                led.push((branch.needs.lead, Dependent { test, branch: id | mark, also }));
            }
        }
        led.sort_unstable_by_key(|&(lead, dependent)| (lead, dependent.branch));
        let mut next = 0;
        for lead in 0..=branches.bound() as BranchId {
            while led.get(next).is_some_and(|&(other, _)| other < lead) {
                next += 1;
            }
            this.starts.push(next as u32);
        }
        this.dependents = led.into_iter().map(|(_, dependent)| dependent).collect();
        this
    }

    /// Is the branch about descendants?
    #[inline]
    pub fn is_descendant(&self, id: BranchId) -> bool {
        self.descendant[id as usize >> 6] >> (id & 63) & 1 == 1
    }

    /// The branches that hold above every element of that name.
    pub fn leaves(&self, name: Name) -> impl Iterator<Item = BranchId> + '_ {
        let tests =
            [NameTest::Name(name), NameTest::Any, NameTest::Namespace(name.namespace), NameTest::Local(name.local)];
        tests.into_iter().filter_map(|test| self.leaves.get(&test)).flatten().copied()
    }

    /// Append the branches that wait for `lead` and hold above an element of that name where `lead` and all that `holds`
    /// hold.
    #[inline]
    pub fn dependents(
        &self,
        branches: &Branches,
        lead: BranchId,
        name: Name,
        holds: impl Fn(BranchId) -> bool,
        result: &mut Vec<BranchId>,
    ) {
        let (start, end) = (self.starts[lead as usize], self.starts[lead as usize + 1]);
        for dependent in &self.dependents[start as usize..end as usize] {
            if dependent.test.accepts(name) && (dependent.also == 0 || holds(dependent.also)) {
                let id = dependent.branch & !HAS_MORE;
                let is_more_asked = dependent.branch & HAS_MORE != 0;
                if !is_more_asked || branches.refs_of(id).iter().all(|&other| holds(other)) {
                    result.push(id);
                }
            }
        }
    }

    /// Bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        self.starts.len() * 4 + self.dependents.len() * size_of::<Dependent>() + self.descendant.len() * 8
    }
}

/// Is a structural condition a conjunction of forward paths over children and descendants?
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
