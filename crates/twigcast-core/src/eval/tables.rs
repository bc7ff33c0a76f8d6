//! For which nodes of the message does a path lead to what is asked for? Found for all of them at once, by taking the path
//! backwards (Gottlob, Koch and Pichler, "Efficient Algorithms for Processing XPath Queries", 2005).
//!
//! A predicate such as `ancestor::*[@x = 1]` is asked of one node after the other, and each time goes through whatever
//! lies in the direction of its axis: on a deep or wide message, work in proportion to the square of the message. Taken
//! backwards, each step is one walk through the message: the nodes that pass it are collected, and the nodes from which
//! its axis leads to one of them are the targets of the step before.
//!
//! A table pays only for a query that has looked at as many nodes as there are; it is a bit for each node. What a step's
//! predicates cost is not known beforehand, so a table that takes more than a share of the visits that are left is given
//! up, and the question goes on being asked of single nodes.

use crate::document::{NO_NODE, NodeId};
use crate::query::ast::{Axis, Expr, NodeTest, Path, PathStart, Step};
use crate::query::functions::Dependence;

use super::bits::NodeBits;
use super::cached::{TableDomain, TableQuestion};
use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::predicates::dependence_of_all;
use super::steps::Hop;
use super::value::{Context, EvalError};

/// The part of the visits left that one table may take.
const SHARE: u64 = 4;

/// The condition that a node at the end of a path must satisfy.
pub(super) type PathTarget<'t> = &'t mut dyn FnMut(NodeRef) -> Result<bool, EvalError>;

impl<'a> Evaluator<'a> {
    /// Returns `true` if the query is so expensive that a walk through the whole message costs little in comparison.
    #[inline]
    pub(super) fn is_worth_tables(&self) -> bool {
        self.nesting.get() > 0 && self.is_expensive() && self.visits.get() >= self.message.document.nodes.len() as u64
    }

    /// Does a path from the context node lead anywhere? Nothing if there is no table of that.
    pub(super) fn exists_in_table(&self, path: &'a Path, context: Context) -> Result<Option<bool>, EvalError> {
        if !self.is_worth_tables() || !path_multiplies(path) {
            return Ok(None);
        }
        let question = TableQuestion::Existence(std::ptr::from_ref(path).cast());
        self.value_in_table(question, context.node, |domain| self.path_sources(path, domain, &mut |_| Ok(true)))
    }

    /// Does a node-set hold a node that satisfies `target`, which is the same each time? Nothing if there is no table of
    /// that.
    pub(super) fn set_in_table(
        &self,
        set: &'a Expr,
        context: Context,
        target: PathTarget<'_>,
    ) -> Result<Option<bool>, EvalError> {
        if !self.is_worth_tables() || !set_multiplies(set) {
            return Ok(None);
        }
        let question = TableQuestion::Comparison(std::ptr::from_ref(set).cast());
        let in_table = self.value_in_table(question, context.node, |domain| self.sources(set, domain, &mut *target))?;
        if in_table.is_some() {
            return Ok(in_table);
        }
        self.any_along(set, context, target)
    }

    fn value_in_table(
        &self,
        question: TableQuestion,
        node: NodeRef,
        build: impl FnOnce(TableDomain) -> Result<Option<NodeBits>, EvalError>,
    ) -> Result<Option<bool>, EvalError> {
        let (domain, number) = match node {
            NodeRef::Node(id) => (TableDomain::Tree, id),
            NodeRef::Attribute(attribute) => (TableDomain::Attributes, attribute.as_u32()),
            NodeRef::Namespace { .. } | NodeRef::Value(_) => return Ok(None),
        };
        if let Some(cached) = self.cache.borrow().in_table((question, domain), number) {
            return Ok(cached);
        }
        if !self.cache.borrow_mut().admit_bytes(self.bound(domain) / 8) {
            return Ok(None);
        }
        let table = self.within_share(|| build(domain))?.flatten();
        let holds = table.as_ref().map(|table| table.contains(number));
        self.cache.borrow_mut().keep_table((question, domain), table);
        Ok(holds)
    }

    /// Performs work that may take a share of the visits left; returns nothing if it would take more.
    pub(super) fn within_share<T>(&self, work: impl FnOnce() -> Result<T, EvalError>) -> Result<Option<T>, EvalError> {
        let visits_max = self.visits_max.get();
        let visits = self.visits.get();
        // A share of all that the query may visit, however little of it this turn has.
        let share = self.allowance.query.get().saturating_sub(visits) / SHARE;
        self.visits_max.set(visits_max.min(visits.saturating_add(share)));
        let nesting = self.nesting.get();
        let done = work();
        self.nesting.set(nesting);
        self.visits_max.set(visits_max);
        match done {
            Err(EvalError::BudgetExceeded { .. }) => self.charge(0).map(|()| None),
            done => done.map(Some),
        }
    }

    /// Returns one past the largest number of a domain.
    fn bound(&self, domain: TableDomain) -> usize {
        match domain {
            TableDomain::Tree => self.message.document.nodes.len(),
            TableDomain::Attributes => self.message.document.attributes.len(),
        }
    }

    /// Returns the nodes from which an expression leads to a target; nothing if that cannot be taken backwards.
    fn sources(
        &self,
        set: &'a Expr,
        domain: TableDomain,
        target: PathTarget<'_>,
    ) -> Result<Option<NodeBits>, EvalError> {
        match set {
            Expr::Path(path) => self.path_sources(path, domain, target),
            Expr::Union(operands) => {
                let mut all = NodeBits::new(self.bound(domain));
                for operand in operands {
                    match self.sources(operand, domain, target)? {
                        Some(sources) => all.insert_all(&sources),
                        None => return Ok(None),
                    }
                }
                Ok(Some(all))
            }
            _ => Ok(None),
        }
    }

    fn path_sources(
        &self,
        path: &'a Path,
        domain: TableDomain,
        target: PathTarget<'_>,
    ) -> Result<Option<NodeBits>, EvalError> {
        match &path.start {
            PathStart::Context => self.step_sources(&path.steps, domain, target),
            PathStart::Filter { primary, predicates } if dependence_of_all(predicates) == Dependence::Node => {
                if path.steps.is_empty() {
                    return self
                        .sources(primary, domain, &mut |node| Ok(self.all_hold(predicates, node)? && target(node)?));
                }
                let Some(inner) = self.step_sources(&path.steps, TableDomain::Tree, target)? else { return Ok(None) };
                let mut only_tree = true;
                let sources = self.sources(primary, domain, &mut |node| match node {
                    NodeRef::Node(id) => Ok(inner.contains(id) && self.all_hold(predicates, node)?),
                    // Steps from attributes would need a table of their own.
                    NodeRef::Attribute(_) | NodeRef::Namespace { .. } | NodeRef::Value(_) => {
                        only_tree = false;
                        Ok(false)
                    }
                })?;
                Ok(sources.filter(|_| only_tree))
            }
            PathStart::Filter { .. } | PathStart::Root | PathStart::Variable(_) => Ok(None),
        }
    }

    /// Returns the nodes from which steps lead to a target.
    fn step_sources(
        &self,
        steps: &'a [Step],
        domain: TableDomain,
        target: PathTarget<'_>,
    ) -> Result<Option<NodeBits>, EvalError> {
        let Some(hops) = reversible(steps, domain) else { return Ok(None) };
        let mut reached: Option<NodeBits> = None;
        for (hop, contexts) in hops.iter().rev() {
            let passing = self.passing(hop, reached.as_ref(), target)?;
            reached = Some(self.contexts_of(hop, *contexts, &passing)?);
        }
        match reached {
            Some(sources) => Ok(Some(sources)),
            None => self.satisfying(domain, target).map(Some),
        }
    }

    /// Returns the nodes of a domain that satisfy a target.
    fn satisfying(&self, domain: TableDomain, target: PathTarget<'_>) -> Result<NodeBits, EvalError> {
        let bound = self.bound(domain);
        let mut all = NodeBits::new(bound);
        self.charge(bound as u64)?;
        for number in 0..bound as u32 {
            if target(domain.node(number))? {
                all.insert(number);
            }
        }
        Ok(all)
    }

    /// Returns the nodes that pass the test and the predicates of a hop, and from which it goes on: all that `reached`
    /// holds or, at the last hop, that satisfy the target.
    fn passing(
        &self,
        hop: &Hop<'a>,
        reached: Option<&NodeBits>,
        target: PathTarget<'_>,
    ) -> Result<NodeBits, EvalError> {
        let document = self.message.document;
        let domain = if hop.axis == Axis::Attribute { TableDomain::Attributes } else { TableDomain::Tree };
        let bound = self.bound(domain);
        let mut passing = NodeBits::new(bound);
        self.charge(bound as u64)?;
        for number in 0..bound as u32 {
            let passes = match (domain, &hop.step.test) {
                (TableDomain::Tree, test) => self.node_passes(test, number),
                (TableDomain::Attributes, NodeTest::Name(name)) => {
                    name.accepts(document.attributes[number as usize].name)
                }
                (TableDomain::Attributes, test) => *test == NodeTest::Node,
            };
            if !passes || reached.is_some_and(|reached| !reached.contains(number)) {
                continue;
            }
            let node = domain.node(number);
            if self.all_hold(&hop.step.predicates, node)? && (reached.is_some() || target(node)?) {
                passing.insert(number);
            }
        }
        Ok(passing)
    }

    /// Returns the context nodes from which an axis leads to a node of a set.
    fn contexts_of(&self, hop: &Hop<'a>, domain: TableDomain, to: &NodeBits) -> Result<NodeBits, EvalError> {
        self.charge(self.bound(domain) as u64)?;
        if domain == TableDomain::Attributes {
            return Ok(self.attributes_before(hop.axis, to));
        }
        let contexts = match hop.axis {
            Axis::SelfAxis => to.clone(),
            Axis::Child => self.parents(to),
            Axis::Descendant => self.all_above(&self.parents(to)),
            Axis::DescendantOrSelf => self.all_above(to),
            Axis::Attribute => {
                let owners = self.owners(to);
                if hop.from_descendants { self.all_above(&owners) } else { owners }
            }
            Axis::Parent | Axis::Ancestor | Axis::AncestorOrSelf => self.below(hop.axis, to),
            Axis::Following | Axis::Preceding => self.beside(hop.axis, to),
            Axis::FollowingSibling | Axis::PrecedingSibling => self.siblings(hop.axis, to),
            Axis::Namespace => NodeBits::new(self.bound(domain)),
        };
        Ok(contexts)
    }

    fn owners(&self, attributes: &NodeBits) -> NodeBits {
        let document = self.message.document;
        let mut owners = NodeBits::new(document.nodes.len());
        attributes.iter().for_each(|attribute| owners.insert(document.attributes[attribute as usize].owner));
        owners
    }

    /// Returns the parents of nodes.
    fn parents(&self, nodes: &NodeBits) -> NodeBits {
        let mut parents = NodeBits::new(self.bound(TableDomain::Tree));
        for node in nodes.iter() {
            // The document node has none, and its number is none of the set's.
            parents.insert(self.message.document.nodes[node as usize].parent);
        }
        parents
    }

    /// Returns nodes and all their ancestors.
    fn all_above(&self, nodes: &NodeBits) -> NodeBits {
        let mut all = nodes.clone();
        for node in nodes.iter() {
            let mut up = self.message.document.nodes[node as usize].parent;
            while up != NO_NODE && !all.contains(up) {
                all.insert(up);
                up = self.message.document.nodes[up as usize].parent;
            }
        }
        all
    }

    /// Returns the nodes whose parent or one of whose ancestors is in a set.
    fn below(&self, axis: Axis, nodes: &NodeBits) -> NodeBits {
        let mut below = NodeBits::new(self.bound(TableDomain::Tree));
        for (id, node) in (0..).zip(&self.message.document.nodes) {
            let is_below = node.parent != NO_NODE
                && (nodes.contains(node.parent) || axis != Axis::Parent && below.contains(node.parent));
            if is_below || axis == Axis::AncestorOrSelf && nodes.contains(id) {
                below.insert(id);
            }
        }
        below
    }

    /// Returns the nodes that a node of a set follows or precedes in the message.
    fn beside(&self, axis: Axis, nodes: &NodeBits) -> NodeBits {
        let all = &self.message.document.nodes;
        let (last, first_end) = self.reach(nodes);
        let mut beside = NodeBits::new(all.len());
        for (id, node) in (0..).zip(all) {
            let is_beside = if axis == Axis::Following { last >= node.end } else { first_end <= id };
            if is_beside {
                beside.insert(id);
            }
        }
        beside
    }

    /// Returns the last node of a set (0 for an empty one), and the least end of its nodes.
    fn reach(&self, nodes: &NodeBits) -> (NodeId, NodeId) {
        let all = &self.message.document.nodes;
        nodes
            .iter()
            .fold((0, NO_NODE), |(last, first_end), node| (last.max(node), first_end.min(all[node as usize].end)))
    }

    /// Returns the nodes that a sibling in a set follows or precedes.
    fn siblings(&self, axis: Axis, nodes: &NodeBits) -> NodeBits {
        let all = &self.message.document.nodes;
        let is_following = axis == Axis::FollowingSibling;
        // The first or the last child in the set, by parent.
        let mut extreme = vec![NO_NODE; all.len()];
        for node in nodes.iter() {
            let parent = all[node as usize].parent;
            if parent != NO_NODE && (is_following || extreme[parent as usize] == NO_NODE) {
                extreme[parent as usize] = node;
            }
        }
        let mut siblings = NodeBits::new(all.len());
        for (id, node) in (0..).zip(all).skip(1) {
            let extreme = extreme[node.parent as usize];
            if extreme != NO_NODE && (if is_following { extreme > id } else { extreme < id }) {
                siblings.insert(id);
            }
        }
        siblings
    }

    /// Returns the attributes from which a reverse axis, or `following`, leads to a node of a set.
    fn attributes_before(&self, axis: Axis, to: &NodeBits) -> NodeBits {
        let document = self.message.document;
        let above = (axis != Axis::Parent).then(|| self.below(Axis::AncestorOrSelf, to));
        let (last, first_end) = self.reach(to);
        let mut before = NodeBits::new(document.attributes.len());
        for (number, attribute) in (0..).zip(&document.attributes) {
            let owner = attribute.owner;
            let leads = match axis {
                Axis::Parent => to.contains(owner),
                Axis::Following => last > owner,
                Axis::Preceding => first_end <= owner,
                _ => above.as_ref().is_some_and(|above| above.contains(owner)),
            };
            if leads {
                before.insert(number);
            }
        }
        before
    }
}

/// Returns whether a path, asked of many nodes, can go through the same part of the message again and again.
fn path_multiplies(path: &Path) -> bool {
    let inward = |axis| matches!(axis, Axis::Child | Axis::Attribute | Axis::SelfAxis | Axis::Namespace);
    match &path.start {
        PathStart::Root | PathStart::Variable(_) => false,
        PathStart::Context => path.steps.iter().any(|step| !inward(step.axis)),
        PathStart::Filter { primary, .. } => {
            set_multiplies(primary) || path.steps.iter().any(|step| !inward(step.axis))
        }
    }
}

fn set_multiplies(set: &Expr) -> bool {
    match set {
        Expr::Path(path) => path_multiplies(path),
        Expr::Union(operands) => operands.iter().any(set_multiplies),
        _ => false,
    }
}

/// Returns the hops of steps that can be taken backwards, each with what it is taken from.
fn reversible(steps: &[Step], domain: TableDomain) -> Option<Vec<(Hop<'_>, TableDomain)>> {
    let mut hops = Vec::new();
    let (mut rest, mut from) = (steps, domain);
    while let Some((hop, after)) = Hop::first(rest) {
        let leaves_attributes = match hop.axis {
            Axis::Parent | Axis::Ancestor | Axis::Following | Axis::Preceding => true,
            Axis::AncestorOrSelf => hop.step.test != NodeTest::Node,
            _ => false,
        };
        let is_attribute = hop.axis == Axis::Attribute;
        if hop.dependence != Dependence::Node
            || hop.axis == Axis::Namespace
            || hop.from_descendants && !is_attribute
            || from == TableDomain::Attributes && !leaves_attributes
        {
            return None;
        }
        hops.push((hop, from));
        from = if is_attribute { TableDomain::Attributes } else { TableDomain::Tree };
        rest = after;
    }
    Some(hops)
}
