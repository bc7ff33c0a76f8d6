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
use crate::extract::Payloads;
use crate::plan::Distance;
use crate::predicate::table::{self, AtomId, Distances, KeyMask, KeyTable, List, PackedKey, Waiting};
use crate::twig::conditions::{ConditionId, Decided};
use crate::twig::memo::Memo;
use crate::twig::satisfied::Satisfied;
use crate::twig::shapes::{NO_SHAPE, ShapeId, Shapes};
use crate::twig::{Twig, TwigCondition};

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
    /// Keys that an element satisfies, and those that its ancestors do.
    asked: Vec<PackedKey>,
    asked_above: Vec<PackedKey>,
    /// What waits for keys that the ancestors of an element satisfy and needs further tests at the element itself.
    above: Vec<Waiting>,
    /// What the ancestors of an element say, by table and parent: siblings have the same ancestors, so they are asked
    /// once for all.
    above_range: FxHashMap<(usize, NodeId), Above>,
}

/// What ancestors say to a table.
#[derive(Clone, Copy, Debug)]
struct Above {
    /// Range in [`Decisions::above`].
    start: u32,
    end: u32,
    /// The keys that they satisfy.
    mask: KeyMask,
}

const NOT_READ: u32 = u32::MAX;

impl Decisions {
    pub(super) fn reset(&mut self, query_bound: usize) {
        self.matched.reset(query_bound);
        self.refuted.clear();
        self.failures.clear();
        self.attribute_atoms.clear();
        self.atom_range.clear();
        self.above.clear();
        self.above_range.clear();
    }

    /// Nobody asks for these queries any more: they count as decided.
    pub(super) fn rule_out(&mut self, queries: &QuerySet) {
        self.refuted.insert_all(queries);
    }

    fn fail(&mut self, query: u32, error: EvalError) {
        // One record a query and message; it is not tried again on this message.
        self.refuted.insert_growing(query);
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

    /// Accept the queries of a list of which nothing else is asked.
    fn accept(&mut self, list: List<'_>) {
        for query in list.satisfied() {
            if !self.refuted.contains(query) {
                self.matched.insert(query);
            }
        }
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
    pub(super) satisfied: &'t mut Satisfied,
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
        if state.has_twigs() {
            self.decide_twigs(decisions, node, state, paths, memo);
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

    fn decide_twigs(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        state: &DfaState,
        paths: &Paths,
        memo: &mut Memo,
    ) {
        let shape = self.shape_of[node as usize];
        if shape == NO_SHAPE || !(state.branching.is_empty() || self.satisfied.knows(shape)) {
            for twig in state.all_twigs(&paths.nfa) {
                self.test_twig(decisions, node, twig);
            }
            return;
        }
        if let Some(matched) = memo.get(state.twigs_version, shape) {
            for &query in matched {
                decisions.matched.insert(query);
            }
            return;
        }
        let mut matched = std::mem::take(&mut decisions.twig_matches);
        matched.clear();
        if !state.branching.is_empty() {
            self.decide_branching(decisions, shape, &state.branching, &mut matched);
        }
        let complete = self.evaluate_twigs(decisions, node, shape, &state.twigs, &mut matched);
        for &query in &matched {
            decisions.matched.insert(query);
        }
        if complete && memo.bytes() < self.budget / 2 {
            memo.insert(state.twigs_version, shape, &matched);
        }
        decisions.twig_matches = matched;
    }

    /// Find the queries whose branches all hold at elements of a shape.
    fn decide_branching(
        &mut self,
        decisions: &mut Decisions,
        shape: ShapeId,
        branching: &KeyTable,
        matched: &mut Vec<u32>,
    ) {
        self.satisfied.take_in_hand(self.shapes, self.population.branches.bound(), shape);
        let satisfied = &*self.satisfied;
        let asked = &mut decisions.asked;
        asked.clear();
        asked.extend_from_slice(satisfied.here());
        branching.select(asked);
        for &branch in &*asked {
            let list = branching.get(branch);
            matched.extend(list.satisfied());
            for entry in list.others {
                if entry.also.is_some_and(|also| !satisfied.holds(also.get())) {
                    continue;
                }
                let holds = entry.trigger.is_none_or(|twig| match self.population.twigs.get(twig) {
                    Some(Twig { condition: TwigCondition::Branches(all), .. }) => {
                        all.others.iter().all(|&branch| satisfied.holds(branch))
                    }
                    _ => false,
                });
                if holds {
                    matched.push(entry.query);
                }
            }
        }
    }

    /// Evaluate twigs one by one; false if some could not be decided.
    fn evaluate_twigs(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        shape: ShapeId,
        twigs: &[u32],
        matched: &mut Vec<u32>,
    ) -> bool {
        let (children, below) = (self.shapes.children_mask(shape), self.shapes.below_mask(shape));
        let mut complete = true;
        for &number in twigs {
            let Some(twig) = self.population.twigs.get(number) else { continue };
            if let TwigCondition::Expr(evaluated) = &twig.condition {
                let required = &evaluated.1;
                if !required.children.within(children) || !required.below.within(below) {
                    continue;
                }
            }
            match self.twig_holds(node, twig) {
                Ok(true) => matched.push(twig.query),
                Ok(false) => {}
                Err(error) => {
                    complete = false;
                    decisions.fail(twig.query, error);
                }
            }
        }
        complete
    }

    fn twig_holds(&self, node: NodeId, twig: &'a Twig) -> Result<bool, EvalError> {
        self.evaluator.resume(twig.query);
        match &twig.condition {
            TwigCondition::Branches(all) => self.population.branches.hold_at(&self.evaluator, node, all),
            TwigCondition::Expr(evaluated) => self.evaluator.condition(&evaluated.0, NodeRef::Node(node)),
        }
    }

    fn test_twig(&self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(twig) = self.population.twigs.get(number) else { return };
        if decisions.is_decided(twig.query) {
            return;
        }
        match self.twig_holds(node, twig) {
            Ok(true) => decisions.matched.insert(twig.query),
            Ok(false) => {}
            Err(error) => decisions.fail(twig.query, error),
        }
    }

    /// Test the triggers whose key some value of the element, or of an ancestor at the right distance, satisfies.
    fn decide_keyed(&mut self, decisions: &mut Decisions, node: NodeId, keyed: &KeyTable) {
        self.chain(decisions, node);
        let site = (std::ptr::from_ref(keyed) as usize, self.message.document.nodes[node as usize].parent);
        let known = decisions.above_range.get(&site).copied();
        let distances = keyed.all_distances();
        let mut mask = known.map(|above| above.mask).unwrap_or_default();
        let mut asked_above = std::mem::take(&mut decisions.asked_above);
        asked_above.clear();
        if known.is_none() {
            for up in 1..decisions.chain.len() {
                self.keys_of(decisions, distances, up, &mut asked_above);
            }
            asked_above.iter().for_each(|&key| mask.insert(key));
        }
        let above_mask = mask;
        let mut asked = std::mem::take(&mut decisions.asked);
        asked.clear();
        self.keys_of(decisions, distances, 0, &mut asked);
        if distances.content() {
            let mut atoms = std::mem::take(&mut decisions.content_atoms);
            atoms.clear();
            self.population.atoms.of_content(self.message, node, &mut atoms);
            asked.extend(atoms.iter().map(|&atom| table::pack_content(atom)));
            decisions.content_atoms = atoms;
        }
        asked.iter().for_each(|&key| mask.insert(key));
        keyed.select(&mut asked);
        for &key in &asked {
            let list = keyed.get(key);
            decisions.accept(list);
            for entry in list.others {
                self.test_waiting(decisions, node, entry, &mask);
            }
        }
        match known {
            Some(above) => {
                for index in above.start..above.end {
                    self.test_waiting(decisions, node, decisions.above[index as usize], &mask);
                }
            }
            None => {
                let start = decisions.above.len() as u32;
                keyed.select(&mut asked_above);
                for &key in &asked_above {
                    let list = keyed.get(key);
                    decisions.accept(list);
                    for entry in list.others {
                        self.test_waiting(decisions, node, entry, &mask);
                        if !decisions.is_decided(entry.query) && self.may_hold_at_sibling(decisions, entry, &above_mask)
                        {
                            decisions.above.push(entry);
                        }
                    }
                }
                let end = decisions.above.len() as u32;
                decisions.above_range.insert(site, Above { start, end, mask: above_mask });
            }
        }
        decisions.asked = asked;
        decisions.asked_above = asked_above;
    }

    /// Could a test that failed at an element succeed at a sibling? Not if a further key is asked of an ancestor.
    fn may_hold_at_sibling(&self, decisions: &Decisions, entry: Waiting, above: &KeyMask) -> bool {
        let Some(also) = entry.also else { return true };
        let (distance, atom) = table::unpack(also.get());
        let is_own = match distance {
            Distance::Up(levels) => levels == 0,
            Distance::Level(level) => usize::from(level) == decisions.chain.len(),
            Distance::Any => true,
        };
        is_own || above.may_hold(also.get()) || self.population.atoms.is_content(atom)
    }

    /// Append the keys that the attributes of the element `up` levels above satisfy, at distances that are asked for.
    fn keys_of(&self, decisions: &mut Decisions, wanted: Distances, up: usize, keys: &mut Vec<PackedKey>) {
        let distances = [
            Distance::Up(up.min(Distance::UP_MAX + 1) as u16),
            Distance::Level((decisions.chain.len() - up).min(Distance::LEVEL_MAX + 1) as u16),
            Distance::Any,
        ];
        let used = distances.map(|distance| distance.is_in_use() && wanted.contains(distance));
        if used == [false; 3] {
            return;
        }
        let (start, end) = self.attribute_atoms(decisions, decisions.chain[up]);
        let atoms = &decisions.attribute_atoms[start as usize..end as usize];
        for (distance, _) in distances.into_iter().zip(used).filter(|(_, used)| *used) {
            keys.extend(atoms.iter().map(|&atom| table::pack(distance, atom)));
        }
    }

    fn decide_crowd(&mut self, decisions: &mut Decisions, node: NodeId, paths: &Paths, state: StateId) {
        if let Some(table) = paths.crowded.get(&state) {
            self.decide_keyed(decisions, node, table);
        }
    }

    fn decide_candidates(&mut self, decisions: &mut Decisions, node: NodeId, candidates: &[u32]) {
        self.chain(decisions, node);
        for &number in candidates {
            let holds = match self.population.triggers.get(number) {
                Some(trigger) if trigger.key.is_some() => self.key_holds(decisions, trigger),
                _ => true,
            };
            if holds {
                self.test(decisions, node, number);
            }
        }
    }

    fn test_waiting(&mut self, decisions: &mut Decisions, node: NodeId, entry: Waiting, mask: &KeyMask) {
        if entry.also.is_some_and(|also| !mask.may_hold(also.get())) || decisions.is_decided(entry.query) {
            return;
        }
        if let Some(also) = entry.also {
            let (distance, atom) = table::unpack(also.get());
            if !self.satisfies(decisions, distance, atom) {
                return;
            }
        }
        match entry.trigger {
            None => decisions.matched.insert(entry.query),
            Some(trigger) => self.test(decisions, node, trigger),
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
                self.engine.session(self.message, &mut Payloads::default()).matches(program)
            }
        };
        match holds {
            Ok(true) => decisions.matched.insert(query),
            Ok(false) => decisions.refuted.insert_growing(query),
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
