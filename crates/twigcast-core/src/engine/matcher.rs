//! One message against all queries.

use super::population::{Population, Trigger};
use super::query_set::QuerySet;
use super::verify;
use super::{Engine, Evaluated};
use crate::automaton::dfa::{BudgetReached, DEAD, DfaId, LazyDfa, START};
use crate::automaton::nfa::{INITIAL, Item, StateId};
use crate::document::{Document, Message, NO_NODE, NodeId, NodeKind};
use crate::error::MessageError;
use crate::eval::{Context, EvalError, Evaluator, NodeRef};
use crate::plan::{Distance, Verify};
use crate::predicate::table::{self, AtomId};
use crate::scan::{Scanner, Want};
use crate::twig::memo::Memo;
use crate::twig::shapes::{NO_SHAPE, ShapeId, Shapes};

/// Messages that run on the NFA after the DFA cache overflowed within one message.
const REST_MESSAGES: u32 = 16;

/// All that one thread changes while it matches: scratch, the lazily built automaton, memo tables. Everything in it is
/// bounded by [`crate::limits::Limits::cache_bytes_max`] and the size of the message.
#[derive(Debug, Default)]
pub struct Matcher {
    scanner: Scanner,
    /// The message last scanned.
    pub(super) document: Document,
    dfa: LazyDfa,
    shapes: Shapes,
    memo: Memo,
    /// Version of the population that the tables follow.
    pub(super) version: u64,
    /// Identity of the engine that the tables belong to.
    pub(super) engine: u64,
    message_number: u64,
    rest_messages: u32,
    state_of: Vec<DfaId>,
    shape_of: Vec<ShapeId>,
    work: Vec<(NodeId, DfaId)>,
    decisions: Decisions,
    pub(super) parsed: super::selection::ParsedQueries,
    /// How often the caches were emptied because they were full.
    pub overflows: u64,
}

/// What is known so far of the message in hand.
#[derive(Debug, Default)]
struct Decisions {
    matched: QuerySet,
    /// Queries whose whole expression was evaluated and false.
    refuted: QuerySet,
    failures: Vec<(u32, EvalError)>,
    attribute_atoms: Vec<AtomId>,
    /// Range in `attribute_atoms` by node; the first entry is `NOT_READ` where nobody asked yet.
    atom_range: Vec<(u32, u32)>,
    content_atoms: Vec<AtomId>,
    twig_matches: Vec<u32>,
}

const NOT_READ: u32 = u32::MAX;

impl Matcher {
    /// A matcher with empty tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The queries that the last message matched.
    pub fn matched(&self) -> &QuerySet {
        &self.decisions.matched
    }

    /// The queries that could not be decided on the last message, and why.
    pub fn failures(&self) -> &[(u32, EvalError)] {
        &self.decisions.failures
    }

    /// States of the lazily built automaton.
    pub fn dfa_state_count(&self) -> usize {
        self.dfa.state_count()
    }

    /// Bytes of the tables that outlive a message, by estimate.
    pub fn cache_bytes(&self) -> usize {
        self.dfa.bytes() + self.shapes.bytes() + self.memo.bytes()
    }

    pub(super) fn forget(&mut self) {
        self.dfa.clear();
        self.shapes.clear();
        self.memo.clear();
    }

    pub(super) fn follow(&mut self, engine: &Engine, changes: &[crate::automaton::nfa::Change]) {
        self.dfa.follow(&engine.population.nfa, changes);
    }

    pub(super) fn scan(&mut self, engine: &Engine, source: &[u8], want: Want) -> Result<(), MessageError> {
        self.scanner.scan(source, &engine.vocabulary, &engine.limits, want, &mut self.document)
    }

    /// Match the scanned message.
    pub(super) fn run(&mut self, engine: &Engine, source: &[u8]) {
        let population = &engine.population;
        let budget = engine.limits.cache_bytes_max;
        if self.cache_bytes() >= budget {
            self.forget();
            self.overflows += 1;
        }
        self.message_number += 1;
        self.decisions.reset(engine.query_bound());
        let has_twigs = !population.twigs.is_empty();
        if has_twigs {
            self.shapes.number(&self.document, &mut self.shape_of, budget / 2);
        }
        let resting = self.rest_messages > 0;
        let uses_dfa = !resting && self.run_dfa(population, budget).is_ok();
        if resting {
            self.rest_messages -= 1;
        } else if !uses_dfa {
            // The automaton needs more states than the cache holds, within one message: making them costs more than it
            // saves.
            self.rest_messages = REST_MESSAGES;
            self.overflows += 1;
            self.dfa.clear();
            self.memo.clear();
            self.decisions.reset(engine.query_bound());
        }
        let message = Message { source, document: &self.document };
        let run = Run { engine, population, evaluator: engine.evaluator(message), message };
        if uses_dfa {
            for &(node, id) in &self.work {
                let state = self.dfa.state(id);
                if !state.twigs.is_empty() {
                    let shape = self.shape_of[node as usize];
                    let tables = (&self.shapes, &mut self.memo, budget);
                    run.decide_twigs(&mut self.decisions, node, &state.twigs, state.twigs_version, shape, tables);
                }
                if !state.keyed.is_empty() {
                    run.decide_keyed(&mut self.decisions, node, &state.keyed);
                }
                for &trigger in &state.candidates {
                    run.test(&mut self.decisions, node, trigger);
                }
            }
        } else {
            run.simulate(&mut self.decisions);
        }
        for &query in &population.always {
            run.evaluate_whole(&mut self.decisions, query);
        }
    }

    /// Lead the automaton over the document; collect plain acceptances and the elements where more is to be decided.
    fn run_dfa(&mut self, population: &Population, budget: usize) -> Result<(), BudgetReached> {
        let nodes = &self.document.nodes;
        let nfa = &population.nfa;
        self.work.clear();
        self.dfa.prepare(nfa, population);
        self.state_of.clear();
        self.state_of.resize(nodes.len(), DEAD);
        self.state_of[0] = START;
        let mut index = 1;
        while index < nodes.len() {
            let node = &nodes[index];
            if node.kind != NodeKind::Element {
                index += 1;
                continue;
            }
            let id = self.dfa.next(nfa, population, self.state_of[node.parent as usize], node.name, budget)?;
            if id == DEAD {
                index = node.end as usize;
                continue;
            }
            self.state_of[index] = id;
            let state = self.dfa.state_mut(id);
            if state.seen != self.message_number {
                state.seen = self.message_number;
                self.dfa.refresh(nfa, population, id);
                for &query in &self.dfa.state(id).accepts {
                    self.decisions.matched.insert(query);
                }
            }
            if self.dfa.state(id).has_work() {
                self.work.push((index as NodeId, id));
            }
            index += 1;
        }
        Ok(())
    }
}

impl Decisions {
    fn reset(&mut self, query_bound: usize) {
        self.matched.reset(query_bound);
        self.refuted.reset(query_bound);
        self.failures.clear();
        self.attribute_atoms.clear();
        self.atom_range.clear();
    }

    fn fail(&mut self, query: u32, error: EvalError) {
        // One record a query and message; it is not tried again on this message.
        self.refuted.insert(query);
        if !self.failures.iter().any(|(known, _)| *known == query) {
            self.failures.push((query, error));
        }
    }

    fn is_decided(&self, query: u32) -> bool {
        self.matched.contains(query) || self.refuted.contains(query)
    }
}

/// One message in hand.
struct Run<'a> {
    engine: &'a Engine,
    population: &'a Population,
    evaluator: Evaluator<'a>,
    message: Message<'a>,
}

impl<'a> Run<'a> {
    fn decide_twigs(
        &self,
        decisions: &mut Decisions,
        node: NodeId,
        twigs: &[u32],
        version: u32,
        shape: ShapeId,
        (shapes, memo, budget): (&Shapes, &mut Memo, usize),
    ) {
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
        let (children, below) = (shapes.children_mask(shape), shapes.below_mask(shape));
        let mut matched = std::mem::take(&mut decisions.twig_matches);
        matched.clear();
        let mut complete = true;
        for &number in twigs {
            let Some(twig) = self.population.twigs.get(number) else { continue };
            if !twig.required.children.within(children) || !twig.required.below.within(below) {
                continue;
            }
            self.evaluator.reset_visits();
            match self.evaluator.boolean(&twig.condition, Context::at(NodeRef::Node(node))) {
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
        if complete && memo.bytes() < budget / 2 {
            memo.insert(version, shape, &matched);
        }
        decisions.twig_matches = matched;
    }

    fn test_twig(&self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(twig) = self.population.twigs.get(number) else { return };
        if decisions.is_decided(twig.query) {
            return;
        }
        self.evaluator.reset_visits();
        match self.evaluator.boolean(&twig.condition, Context::at(NodeRef::Node(node))) {
            Ok(true) => decisions.matched.insert(twig.query),
            Ok(false) => {}
            Err(error) => decisions.fail(twig.query, error),
        }
    }

    /// Test the triggers whose key some value of the element, or of an ancestor at the right distance, satisfies.
    fn decide_keyed(&self, decisions: &mut Decisions, node: NodeId, keyed: &table::KeyTable) {
        if keyed.reads_content() {
            let mut atoms = std::mem::take(&mut decisions.content_atoms);
            atoms.clear();
            self.population.atoms.of_content(self.message, node, &mut atoms);
            for &atom in &atoms {
                for &trigger in keyed.get(table::pack_content(atom)) {
                    self.test(decisions, node, trigger);
                }
            }
            decisions.content_atoms = atoms;
        }
        let mut levels = keyed.levels();
        let any = keyed.uses_any();
        let mut element = node;
        let mut distance = 0;
        while (levels != 0 || any) && element != 0 && element != NO_NODE {
            if levels & 1 != 0 || any {
                let (start, end) = self.attribute_atoms(decisions, element);
                for index in start..end {
                    let atom = decisions.attribute_atoms[index as usize];
                    if levels & 1 != 0 {
                        for &trigger in keyed.get(table::pack(Distance::Up(distance), atom)) {
                            self.test(decisions, node, trigger);
                        }
                    }
                    if any {
                        for &trigger in keyed.get(table::pack(Distance::Any, atom)) {
                            self.test(decisions, node, trigger);
                        }
                    }
                }
            }
            levels >>= 1;
            distance = distance.saturating_add(1);
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

    /// Test a trigger whose path and key hold at an element.
    fn test(&self, decisions: &mut Decisions, node: NodeId, number: u32) {
        let Some(trigger) = self.population.triggers.get(number) else { return };
        if decisions.is_decided(trigger.query) {
            return;
        }
        match &trigger.verify {
            Verify::Nothing => decisions.matched.insert(trigger.query),
            Verify::Upward(checks) => {
                self.evaluator.reset_visits();
                match verify::upward(&self.evaluator, checks, node) {
                    Ok(true) => decisions.matched.insert(trigger.query),
                    Ok(false) => {}
                    Err(error) => decisions.fail(trigger.query, error),
                }
            }
            Verify::Whole => self.evaluate_whole(decisions, trigger.query),
        }
    }

    fn evaluate_whole(&self, decisions: &mut Decisions, query: u32) {
        if decisions.is_decided(query) {
            return;
        }
        let Evaluated::Expr(expr) = self.engine.evaluated(query) else { return };
        self.evaluator.reset_visits();
        match self.evaluator.boolean(expr, Context::DOCUMENT) {
            Ok(true) => decisions.matched.insert(query),
            Ok(false) => decisions.refuted.insert(query),
            Err(error) => decisions.fail(query, error),
        }
    }

    /// Run the NFA itself, with a stack of active sets (Diao 2005, section 4.3.3): slower, but in memory bounded by the
    /// depth of the message and the size of the automaton.
    fn simulate(&self, decisions: &mut Decisions) {
        let nfa = &self.population.nfa;
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
                for item in nfa.items(state) {
                    self.simulate_item(decisions, index as NodeId, item);
                }
            }
            index += 1;
        }
    }

    fn simulate_item(&self, decisions: &mut Decisions, node: NodeId, item: Item) {
        match item {
            Item::Accept(query) => decisions.matched.insert(query),
            Item::Twig(twig) => self.test_twig(decisions, node, twig),
            Item::Trigger(number) => {
                let Some(trigger) = self.population.triggers.get(number) else { return };
                if !decisions.is_decided(trigger.query) && self.key_holds(decisions, node, trigger) {
                    self.test(decisions, node, number);
                }
            }
        }
    }

    fn key_holds(&self, decisions: &mut Decisions, node: NodeId, trigger: &Trigger) -> bool {
        let Some((distance, atom)) = trigger.key else { return true };
        if self.population.atoms.is_content(atom) {
            let mut atoms = Vec::new();
            self.population.atoms.of_content(self.message, node, &mut atoms);
            return atoms.contains(&atom);
        }
        let nodes = &self.message.document.nodes;
        let mut element = node;
        let mut level = 0;
        while element != 0 && element != NO_NODE {
            if distance == Distance::Any || distance == Distance::Up(level) {
                let (start, end) = self.attribute_atoms(decisions, element);
                if decisions.attribute_atoms[start as usize..end as usize].contains(&atom) {
                    return true;
                }
            }
            if distance == Distance::Up(level) {
                return false;
            }
            level = level.saturating_add(1);
            element = nodes[element as usize].parent;
        }
        false
    }
}
