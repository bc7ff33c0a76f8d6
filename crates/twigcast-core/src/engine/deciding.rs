//! What remains to be decided where the automaton accepts: twigs, triggers, whole expressions.

use rustc_hash::FxHashMap;

use super::population::{Paths, Population, Remaining, Trigger};
use super::query_set::QuerySet;
use super::verify;
use super::{Engine, Evaluated};
use crate::automaton::dfa::DfaState;
use crate::automaton::nfa::{INITIAL, Item, StateId};
use crate::document::{Message, NO_NODE, NodeId, NodeKind};
use crate::eval::{Context, EvalError, Evaluator, NodeRef};
use crate::extract::Session;
use crate::plan::Distance;
use crate::predicate::table::{self, AtomId, Waiting};
use crate::twig::conditions::{ConditionId, Decided};
use crate::twig::memo::Memo;
use crate::twig::shapes::{NO_SHAPE, ShapeId, Shapes};

/// What is known so far of the message in hand.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    pub(super) matched: QuerySet,
    /// Queries whose whole expression was evaluated and false.
    refuted: QuerySet,
    pub(super) failures: Vec<(u32, EvalError)>,
    attribute_atoms: Vec<AtomId>,
    /// Range in `attribute_atoms` by node; the first entry is `NOT_READ` where nobody asked yet.
    atom_range: Vec<(u32, u32)>,
    content_atoms: Vec<AtomId>,
    twig_matches: Vec<u32>,
    /// The element in hand and its ancestors up to the root element.
    chain: Vec<NodeId>,
    /// What waits for keys that the ancestors of an element satisfy and needs further tests at the element itself.
    above: Vec<Waiting>,
    /// Range in `above` by table and parent: siblings have the same ancestors, so they are asked once for all.
    above_range: FxHashMap<(usize, NodeId), (u32, u32)>,
}

const NOT_READ: u32 = u32::MAX;

impl Decisions {
    pub(super) fn reset(&mut self, query_bound: usize) {
        self.matched.reset(query_bound);
        self.refuted.reset(query_bound);
        self.failures.clear();
        self.attribute_atoms.clear();
        self.atom_range.clear();
        self.above.clear();
        self.above_range.clear();
    }

    fn fail(&mut self, query: u32, error: EvalError) {
        // One record a query and message; it is not tried again on this message.
        self.refuted.insert(query);
        if !self.failures.iter().any(|(known, _)| *known == query) {
            self.failures.push((query, error));
        }
    }

    /// The element at a known distance from the head of the chain.
    fn at(&self, distance: Distance) -> Option<NodeId> {
        let up = match distance {
            Distance::Up(levels) => usize::from(levels),
            Distance::Level(level) => self.chain.len().checked_sub(usize::from(level))?,
            Distance::Any => return None,
        };
        self.chain.get(up).copied()
    }

    fn is_decided(&self, query: u32) -> bool {
        self.matched.contains(query) || self.refuted.contains(query)
    }
}

/// One message in hand.
pub(super) struct Run<'a, 't> {
    pub(super) engine: &'a Engine,
    pub(super) population: &'a Population,
    pub(super) evaluator: Evaluator<'a>,
    pub(super) message: Message<'a>,
    pub(super) budget: usize,
    pub(super) shape_of: &'t [ShapeId],
    pub(super) shapes: &'t Shapes,
    pub(super) decided: &'t mut Decided,
}

impl<'a> Run<'a, '_> {
    /// Decide all that waits at an element whose DFA state is `state`.
    pub(super) fn decide(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        state: &DfaState,
        paths: &Paths,
        memo: &mut Memo,
    ) {
        if !state.twigs.is_empty() {
            self.decide_twigs(decisions, node, &state.twigs, state.twigs_version, memo);
        }
        if !state.keyed.is_empty() {
            self.decide_keyed(decisions, node, &state.keyed);
        }
        for attached in &state.attached {
            self.decide_crowd(decisions, node, paths, *attached);
        }
        if !state.candidates.is_empty() {
            self.decide_candidates(decisions, node, &state.candidates);
        }
    }

    fn decide_twigs(&mut self, decisions: &mut Decisions, node: NodeId, twigs: &[u32], version: u32, memo: &mut Memo) {
        let shape = self.shape_of[node as usize];
        if shape == NO_SHAPE {
            for &twig in twigs {
                self.test_twig(decisions, node, twig);
            }
            return;
        }
        if let Some(matched) = memo.get(version, shape) {
            for &query in matched {
                decisions.matched.insert(query);
            }
            return;
        }
        let (children, below) = (self.shapes.children_mask(shape), self.shapes.below_mask(shape));
        let mut matched = std::mem::take(&mut decisions.twig_matches);
        matched.clear();
        let mut complete = true;
        for &number in twigs {
            let Some(twig) = self.population.twigs.get(number) else { continue };
            if !twig.required.children.within(children) || !twig.required.below.within(below) {
                continue;
            }
            self.evaluator.resume(twig.query);
            match self.evaluator.condition(&twig.condition, NodeRef::Node(node)) {
                Ok(true) => {
                    matched.push(twig.query);
                    decisions.matched.insert(twig.query);
                }
                Ok(false) => {}
                Err(error) => {
                    complete = false;
                    decisions.fail(twig.query, error);
                }
            }
        }
        if complete && memo.bytes() < self.budget / 2 {
            memo.insert(version, shape, &matched);
        }
        decisions.twig_matches = matched;
    }

    fn test_twig(&self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(twig) = self.population.twigs.get(number) else { return };
        if decisions.is_decided(twig.query) {
            return;
        }
        self.evaluator.resume(twig.query);
        match self.evaluator.condition(&twig.condition, NodeRef::Node(node)) {
            Ok(true) => decisions.matched.insert(twig.query),
            Ok(false) => {}
            Err(error) => decisions.fail(twig.query, error),
        }
    }

    /// Test the triggers whose key some value of the element, or of an ancestor at the right distance, satisfies.
    fn decide_keyed(&mut self, decisions: &mut Decisions, node: NodeId, keyed: &table::KeyTable) {
        self.chain(decisions, node);
        if keyed.reads_content() {
            let mut atoms = std::mem::take(&mut decisions.content_atoms);
            atoms.clear();
            self.population.atoms.of_content(self.message, node, &mut atoms);
            for &atom in &atoms {
                self.test_all(decisions, node, keyed.get(table::pack_content(atom)));
            }
            decisions.content_atoms = atoms;
        }
        if !keyed.reads_attributes() {
            return;
        }
        self.ask(decisions, node, keyed, 0, false);
        let site = (std::ptr::from_ref(keyed) as usize, self.message.document.nodes[node as usize].parent);
        if let Some(&(start, end)) = decisions.above_range.get(&site) {
            for index in start..end {
                self.test_waiting(decisions, node, decisions.above[index as usize]);
            }
            return;
        }
        let start = decisions.above.len() as u32;
        for up in 1..decisions.chain.len() {
            self.ask(decisions, node, keyed, up, true);
        }
        decisions.above_range.insert(site, (start, decisions.above.len() as u32));
    }

    /// Test what waits for the attributes of the element `up` levels above, and keep what siblings have to test again.
    fn ask(&mut self, decisions: &mut Decisions, node: NodeId, keyed: &table::KeyTable, up: usize, keep: bool) {
        let distances = [
            Distance::Up(up.min(Distance::UP_MAX + 1) as u16),
            Distance::Level((decisions.chain.len() - up).min(Distance::LEVEL_MAX + 1) as u16),
            Distance::Any,
        ];
        let uses = distances.map(|distance| distance.is_in_use() && keyed.uses(distance));
        if uses == [false; 3] {
            return;
        }
        let (start, end) = self.attribute_atoms(decisions, decisions.chain[up]);
        for index in start..end {
            let atom = decisions.attribute_atoms[index as usize];
            for (distance, used) in distances.into_iter().zip(uses) {
                if !used {
                    continue;
                }
                for entry in keyed.get(table::pack(distance, atom)) {
                    self.test_waiting(decisions, node, entry);
                    if keep && !decisions.is_decided(entry.query) {
                        decisions.above.push(entry);
                    }
                }
            }
        }
    }

    fn decide_crowd(&mut self, decisions: &mut Decisions, node: NodeId, paths: &Paths, state: StateId) {
        if let Some(table) = paths.crowded.get(&state) {
            self.decide_keyed(decisions, node, table);
        }
    }

    fn decide_candidates(&mut self, decisions: &mut Decisions, node: NodeId, candidates: &[u32]) {
        self.chain(decisions, node);
        for &trigger in candidates {
            self.test(decisions, node, trigger);
        }
    }

    fn test_all(&mut self, decisions: &mut Decisions, node: NodeId, waiting: impl Iterator<Item = Waiting>) {
        for entry in waiting {
            self.test_waiting(decisions, node, entry);
        }
    }

    fn test_waiting(&mut self, decisions: &mut Decisions, node: NodeId, entry: Waiting) {
        if decisions.is_decided(entry.query) {
            return;
        }
        if let Some(also) = entry.also {
            let (distance, atom) = table::unpack(also.get());
            if !self.satisfies(decisions, distance, atom) {
                return;
            }
        }
        if entry.trigger == Waiting::SATISFIED {
            decisions.matched.insert(entry.query);
        } else {
            self.test(decisions, node, entry.trigger);
        }
    }

    /// Note the element and its ancestors, for finding those at a distance.
    fn chain(&self, decisions: &mut Decisions, node: NodeId) {
        decisions.chain.clear();
        let mut element = node;
        while element != 0 && element != NO_NODE {
            decisions.chain.push(element);
            element = self.message.document.nodes[element as usize].parent;
        }
    }

    /// The atoms that an element's attributes satisfy, found once a message.
    fn attribute_atoms(&self, decisions: &mut Decisions, element: NodeId) -> (u32, u32) {
        if decisions.atom_range.is_empty() {
            decisions.atom_range.resize(self.message.document.nodes.len(), (NOT_READ, 0));
        }
        let known = decisions.atom_range[element as usize];
        if known.0 != NOT_READ {
            return known;
        }
        let start = decisions.attribute_atoms.len() as u32;
        for attribute in self.message.document.attributes_of(element) {
            self.population.atoms.of_attribute(self.message, attribute, &mut decisions.attribute_atoms);
        }
        let range = (start, decisions.attribute_atoms.len() as u32);
        decisions.atom_range[element as usize] = range;
        range
    }

    /// Test a trigger whose path and key hold at the element at the head of the chain.
    fn test(&mut self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(trigger) = self.population.triggers.get(number) else { return };
        if decisions.is_decided(trigger.query) {
            return;
        }
        let holds = match &trigger.verify {
            Remaining::Exact { also, shapes } => self.look_up(decisions, also, shapes),
            Remaining::Upward(checks) => {
                self.evaluator.resume(trigger.query);
                verify::upward(&self.evaluator, checks, node)
            }
            Remaining::Whole => return self.evaluate_whole(decisions, trigger.query),
        };
        match holds {
            Ok(true) => decisions.matched.insert(trigger.query),
            Ok(false) => {}
            Err(error) => decisions.fail(trigger.query, error),
        }
    }

    fn look_up(
        &mut self,
        decisions: &mut Decisions,
        also: &[(Distance, AtomId)],
        shapes: &[(Distance, ConditionId)],
    ) -> Result<bool, EvalError> {
        for &(distance, atom) in also {
            if !self.satisfies(decisions, distance, atom) {
                return Ok(false);
            }
        }
        for &(distance, condition) in shapes {
            let Some(element) = decisions.at(distance) else { return Ok(false) };
            if !self.has_structure(element, condition)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Does the element at a known distance satisfy an atom?
    fn satisfies(&self, decisions: &mut Decisions, distance: Distance, atom: AtomId) -> bool {
        let Some(element) = decisions.at(distance) else { return false };
        if self.population.atoms.is_content(atom) {
            let mut atoms = Vec::new();
            self.population.atoms.of_content(self.message, element, &mut atoms);
            return atoms.contains(&atom);
        }
        let (start, end) = self.attribute_atoms(decisions, element);
        decisions.attribute_atoms[start as usize..end as usize].contains(&atom)
    }

    /// Does a structural condition hold at an element?
    fn has_structure(&mut self, element: NodeId, number: ConditionId) -> Result<bool, EvalError> {
        let shape = self.shape_of[element as usize];
        if let Some(truth) = self.decided.get(number, shape) {
            return Ok(truth);
        }
        let Some(condition) = self.population.conditions.get(number) else { return Ok(false) };
        if shape != NO_SHAPE {
            let required = &condition.required;
            if !required.children.within(self.shapes.children_mask(shape))
                || !required.below.within(self.shapes.below_mask(shape))
            {
                return Ok(false);
            }
        }
        // Conditions are shared, so each has a budget of its own; numbers of queries start at the other end.
        self.evaluator.resume(u32::MAX - 1 - number);
        let truth = self.evaluator.condition(&condition.expr, NodeRef::Node(element))?;
        if shape != NO_SHAPE && self.decided.bytes() < self.budget / 4 {
            self.decided.insert(number, shape, truth);
        }
        Ok(truth)
    }

    pub(super) fn evaluate_whole(&self, decisions: &mut Decisions, query: u32) {
        if decisions.is_decided(query) {
            return;
        }
        let holds = match self.engine.evaluated(query) {
            Evaluated::Nothing => return,
            Evaluated::Expr(expr) => {
                self.evaluator.resume(query);
                self.evaluator.boolean(expr, Context::DOCUMENT)
            }
            Evaluated::Bindings(program) => {
                Session::new(self.message, self.engine.vocabulary(), self.engine.limits()).matches(program)
            }
        };
        match holds {
            Ok(true) => decisions.matched.insert(query),
            Ok(false) => decisions.refuted.insert(query),
            Err(error) => decisions.fail(query, error),
        }
    }

    /// Run the NFA itself, with a stack of active sets (Diao 2005, section 4.3.3): slower, but in memory bounded by the
    /// depth of the message and the size of the automaton.
    pub(super) fn simulate(&mut self, decisions: &mut Decisions, paths: &Paths) {
        let nfa = &paths.nfa;
        let nodes = &self.message.document.nodes;
        // Active sets of the open elements, one after the other, and where each begins.
        let mut open: Vec<(NodeId, usize)> = vec![(0, 0)];
        let mut active: Vec<StateId> = vec![INITIAL];
        let mut target = Vec::new();
        let mut index = 1;
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            while let Some(&(top, start)) = open.last() {
                if top == node.parent {
                    break;
                }
                active.truncate(start);
                open.pop();
            }
            let start = open.last().map_or(0, |&(_, start)| start);
            nfa.step(&active[start..], node.name, &mut target);
            if target.is_empty() {
                index = node.end as usize;
                continue;
            }
            open.push((index as NodeId, active.len()));
            active.extend_from_slice(&target);
            for &state in &target {
                if nfa.has_attachment(state) {
                    self.decide_crowd(decisions, index as NodeId, paths, state);
                }
                for item in nfa.items(state) {
                    self.simulate_item(decisions, index as NodeId, item);
                }
            }
            index += 1;
        }
    }

    fn simulate_item(&mut self, decisions: &mut Decisions, node: NodeId, item: Item) {
        match item {
            Item::Accept(query) => decisions.matched.insert(query),
            Item::Twig(twig) => self.test_twig(decisions, node, twig),
            Item::Trigger(number) => {
                let Some(trigger) = self.population.triggers.get(number) else { return };
                if decisions.is_decided(trigger.query) {
                    return;
                }
                self.chain(decisions, node);
                if self.key_holds(decisions, trigger) {
                    self.test(decisions, node, number);
                }
            }
        }
    }

    fn key_holds(&self, decisions: &mut Decisions, trigger: &Trigger) -> bool {
        match trigger.key {
            None => true,
            Some((Distance::Any, atom)) => (0..decisions.chain.len()).any(|up| {
                let (start, end) = self.attribute_atoms(decisions, decisions.chain[up]);
                decisions.attribute_atoms[start as usize..end as usize].contains(&atom)
            }),
            Some((distance, atom)) => self.satisfies(decisions, distance, atom),
        }
    }
}
