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
use crate::vocabulary::Name;

/// Number of a branch; never 0.
pub type BranchId = u32;

/// Branches of which all must hold at an element: the one to wait for (0: nothing is asked), and the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct All {
    /// The one with the largest number: common branches come early, so it is likely to be the rarest.
    pub lead: BranchId,
    /// The others, ascending.
    pub others: BranchList,
}

/// A list of branches. Up to two stand in the list itself: nearly all lists are as short as that, and the smallest piece
/// of memory that there is would take twice as much.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BranchList {
    /// At most two; a 0 is none.
    Short([BranchId; 2]),
    /// More than two.
    Long(Box<[BranchId]>),
}

impl Default for BranchList {
    fn default() -> Self {
        Self::Short([0, 0])
    }
}

impl From<&[BranchId]> for BranchList {
    fn from(branches: &[BranchId]) -> Self {
        match *branches {
            [] => Self::Short([0, 0]),
            [one] => Self::Short([one, 0]),
            [one, other] => Self::Short([one, other]),
            _ => Self::Long(branches.into()),
        }
    }
}

impl std::ops::Deref for BranchList {
    type Target = [BranchId];

    #[inline]
    fn deref(&self) -> &[BranchId] {
        match self {
            Self::Short([0, _]) => &[],
            Self::Short(one @ [_, 0]) => &one[..1],
            Self::Short(both) => both,
            Self::Long(more) => more,
        }
    }
}

impl BranchList {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Short(_) => 0,
            Self::Long(more) => size_of_val(&**more),
        }
    }
}

impl All {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = BranchId> + '_ {
        std::iter::once(self.lead).filter(|&lead| lead != 0).chain(self.others.iter().copied())
    }
}

#[derive(Clone, Debug)]
struct Branch {
    test: NameTest,
    /// On any descendant rather than a child.
    descendant: bool,
    /// What must hold at the element found.
    needs: All,
    uses: u32,
}

/// All branches in use.
#[derive(Clone, Debug, Default)]
pub struct Branches {
    /// By number; entry 0 is none, and a free entry has no uses.
    entries: Vec<Branch>,
    free: Vec<BranchId>,
    known: HashTable<BranchId>,
    scratch: Vec<BranchId>,
}

/// What tells branches apart: axis and test, and the needs' lead and others.
type Spelling<'a> = (NameTest, bool, BranchId, &'a [BranchId]);

fn hash(spelling: Spelling<'_>) -> u64 {
    FixedState::default().hash_one(spelling)
}

impl Branch {
    fn spelling(&self) -> Spelling<'_> {
        (self.test, self.descendant, self.needs.lead, &self.needs.others)
    }
}

/// Put branches in the order of [`All`]: lead and others.
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
        self.known.is_empty()
    }

    /// How many branches there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// One past the largest number.
    pub fn bound(&self) -> usize {
        self.entries.len()
    }

    /// The branches that a condition is the conjunction of, each with one more use; `None` if it is more than that.
    pub fn acquire(&mut self, condition: &Expr) -> Option<All> {
        if !is_conjunction(condition) {
            return None;
        }
        let mut branches = std::mem::take(&mut self.scratch);
        branches.clear();
        self.conjuncts(condition, &mut branches);
        let (lead, others) = in_order(&mut branches, 0);
        let all = All { lead, others: others.into() };
        self.scratch = branches;
        all.iter().for_each(|branch| self.entries[branch as usize].uses += 1);
        Some(all)
    }

    /// Undo [`Self::acquire`].
    pub fn release(&mut self, all: &All) {
        all.iter().for_each(|branch| self.release_one(branch));
    }

    /// Undo [`Self::acquire`] of one branch.
    pub fn release_one(&mut self, branch: BranchId) {
        let mut released = vec![branch];
        while let Some(id) = released.pop() {
            let branch = &mut self.entries[id as usize];
            branch.uses -= 1;
            if branch.uses == 0 {
                let hash = hash(branch.spelling());
                let needs = std::mem::take(&mut branch.needs);
                if let Ok(entry) = self.known.find_entry(hash, |&other| other == id) {
                    entry.remove();
                }
                released.extend(needs.iter());
                self.free.push(id);
            }
        }
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
                        let id = self.intern((*test, below || step.axis == Axis::Descendant, lead, others));
                        branches.truncate(from);
                        branches.push(id);
                    }
                }
            }
            _ => {}
        }
    }

    fn intern(&mut self, spelling: Spelling<'_>) -> BranchId {
        let hash = hash(spelling);
        let entries = &self.entries;
        let is_it = |&id: &BranchId| entries[id as usize].spelling() == spelling;
        if let Some(&known) = self.known.find(hash, is_it) {
            return known;
        }
        let (test, descendant, lead, others) = spelling;
        if self.entries.is_empty() {
            self.entries.push(Branch { test, descendant, needs: All::default(), uses: 0 });
        }
        let needs = All { lead, others: others.into() };
        needs.iter().for_each(|need| self.entries[need as usize].uses += 1);
        let branch = Branch { test, descendant, needs, uses: 0 };
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
        let entries = &self.entries;
        self.known.insert_unique(hash, id, |&other| self::hash(entries[other as usize].spelling()));
        id
    }

    /// All branches in use, with their numbers.
    fn iter(&self) -> impl Iterator<Item = (BranchId, &Branch)> {
        (0..).zip(&self.entries).filter(|(_, branch)| branch.uses > 0)
    }

    /// The others that a branch needs beside its lead.
    #[inline]
    fn others(&self, id: BranchId) -> &[BranchId] {
        &self.entries[id as usize].needs.others
    }

    /// Do all hold at an element? Looked up in the message itself, for where nothing may be remembered.
    ///
    /// # Errors
    /// The query at work has used up its visits.
    pub fn hold_at(&self, evaluator: &Evaluator<'_>, element: NodeId, all: &All) -> Result<bool, EvalError> {
        for branch in all.iter() {
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
        let document: &Document = evaluator.message().document;
        let end = document.nodes[element as usize].end;
        let mut node = element + 1;
        while node < end {
            let entry = &document.nodes[node as usize];
            evaluator.charge(1)?;
            if entry.kind == NodeKind::Element
                && branch.test.accepts(entry.name)
                && self.hold_at(evaluator, node, &branch.needs)?
            {
                return Ok(true);
            }
            node = if branch.descendant { node + 1 } else { entry.end };
        }
        Ok(false)
    }

    /// Bytes on the heap, by estimate.
    pub fn bytes(&self) -> usize {
        let others: usize = self.entries.iter().map(|branch| branch.needs.others.heap_bytes()).sum();
        self.entries.capacity() * size_of::<Branch>() + self.known.capacity() * 5 + others + self.free.capacity() * 4
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
    /// The branch, with [`HAS_OTHERS`] if it needs more than its lead.
    branch: u32,
}

const HAS_OTHERS: u32 = 1 << 31;

impl Dependencies {
    /// The index of branches.
    pub fn new(branches: &Branches) -> Self {
        let mut led: Vec<(BranchId, Dependent)> = Vec::new();
        let mut this = Self { descendant: vec![0; branches.bound().div_ceil(64)], ..Self::default() };
        for (id, branch) in branches.iter() {
            this.descendant[id as usize >> 6] |= u64::from(branch.descendant) << (id & 63);
            if branch.needs.lead == 0 {
                this.leaves.entry(branch.test).or_default().push(id);
            } else {
                let mark = if branch.needs.others.is_empty() { 0 } else { HAS_OTHERS };
                led.push((branch.needs.lead, Dependent { test: branch.test, branch: id | mark }));
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
        found: &mut Vec<BranchId>,
    ) {
        let (start, end) = (self.starts[lead as usize], self.starts[lead as usize + 1]);
        for dependent in &self.dependents[start as usize..end as usize] {
            if dependent.test.accepts(name) {
                let id = dependent.branch & !HAS_OTHERS;
                if dependent.branch & HAS_OTHERS == 0 || branches.others(id).iter().all(|&other| holds(other)) {
                    found.push(id);
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
