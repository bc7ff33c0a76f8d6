//! Compiled For-Where-Return queries.
//!
//! The compiler turns constructors into constant bytes, moves the conjuncts of `where` to the earliest clause after
//! which they can be decided, and makes an expression with one `for` variable relative to the node of that variable.
//! Files: [`instructions`], what a program consists of; [`template`], results that are constant markup around paths;
//! [`family`], what programs have in common.

pub(crate) mod family;
pub(super) mod instructions;
pub(super) mod template;

use crate::ids::ConstantId;
use crate::query::ast::{CompareOp, Expr, Path, PathStart, VariableId};
use crate::query::flwr::{
    AttributeValuePart, BindingClause, ComputedAttribute, ComputedName, ElementConstructor, ElementContent, FlwrExpr,
    FlwrQuery, Grouping, ItemExpr,
};
use crate::query::matching::{all_variables, free_variables, relative};
use crate::query::normal::{normalise, normalise_condition};
use crate::vocabulary::Vocabulary;

use self::family::{Family, FamilyRef, Interner};
use self::instructions::{
    AttributeInstruction, AttributeName, BoundExpr, ClauseCondition, ClauseInstruction, ClauseJoin,
    ComputedElementInstruction, ContentPart, ElementInstruction, FlwrLoop, GroupingInstruction, Instruction, SortKey,
};
use super::output::escaped;

/// A compiled For-Where-Return query.
#[derive(Clone, Debug)]
pub struct Program {
    pub(super) body: Instruction,
    /// Number of variables.
    pub(super) variables: usize,
    /// The parts that the program has in common with others, if it has that form.
    pub(super) family: Option<Family>,
}

impl Program {
    /// Compiles a query with the vocabulary that it was parsed with.
    pub fn compile(query: &FlwrQuery, vocabulary: &Vocabulary, interner: &mut Interner) -> Self {
        let mut compiler = Compiler { vocabulary, interner, is_for: vec![false; query.variables.len()] };
        let body = compiler.item(&query.body);
        let family = interner.family(&body);
        Self { body, variables: query.variables.len(), family }
    }

    /// Returns the query's entry in the table of all families.
    pub(crate) fn family_ref(&self) -> FamilyRef {
        self.family.as_ref().map_or(FamilyRef::NONE, |family| FamilyRef {
            group: family.id,
            constant: match &family.constants[..] {
                [only] => only.id,
                _ => ConstantId::ABSENT,
            },
        })
    }
}

struct Compiler<'q> {
    vocabulary: &'q Vocabulary,
    interner: &'q mut Interner,
    /// By variable: a `for` clause binds it.
    is_for: Vec<bool>,
}

impl Compiler<'_> {
    fn item(&mut self, item: &ItemExpr) -> Instruction {
        match item {
            ItemExpr::Sequence(items) => Instruction::Sequence(items.iter().map(|item| self.item(item)).collect()),
            ItemExpr::Flwr(flwr) => Instruction::Loop(Box::new(self.flwr(flwr))),
            ItemExpr::If(choice) => Instruction::If {
                condition: self.condition(&choice.condition),
                then: Box::new(self.item(&choice.then)),
                otherwise: Box::new(self.item(&choice.otherwise)),
            },
            ItemExpr::Element(element) => self.element(element),
            ItemExpr::ComputedElement(element) => Instruction::ComputedElement(Box::new(ComputedElementInstruction {
                name: self.bound(normalise(element.name.clone())),
                content: self.content(&element.content),
                declarations: element.declarations.clone(),
            })),
            ItemExpr::Attribute(attribute) => self.attribute(attribute),
            ItemExpr::Text(item) => Instruction::Text(Box::new(self.item(item))),
            ItemExpr::Comment(text) => Instruction::Markup(format!("<!--{text}-->").into_bytes().into()),
            ItemExpr::ProcessingInstruction { target, data } => {
                let space = if data.is_empty() { "" } else { " " };
                Instruction::Markup(format!("<?{target}{space}{data}?>").into_bytes().into())
            }
            ItemExpr::Value(expr) => Instruction::Value(self.bound(normalise(expr.clone()))),
        }
    }

    fn flwr(&mut self, flwr: &FlwrExpr) -> FlwrLoop {
        let (mut clauses, mut further) = (Vec::with_capacity(flwr.clauses.len()), Vec::new());
        for clause in &flwr.clauses {
            let (variable, position, is_for, expr) = match clause {
                BindingClause::For { variable, position, source } => (*variable, *position, true, source),
                BindingClause::Let { variable, value } => (*variable, None, false, value),
            };
            let mut value = normalise(expr.clone());
            if is_for {
                take_out_conditions(&mut value, variable, &mut further);
            }
            let value = self.bound(value);
            if let Some(existing) = self.is_for.get_mut(variable.index()) {
                *existing = is_for;
            }
            clauses.push(ClauseInstruction { variable, position, is_for, value, conditions: Vec::new(), join: None });
        }
        let mut guards = Vec::new();
        for condition in further.into_iter().chain(flwr.condition.iter().flat_map(conjuncts)) {
            let mut variables = Vec::new();
            all_variables(&condition, &mut variables);
            let binds = |clause: &ClauseInstruction| {
                let mut bound = std::iter::once(clause.variable).chain(clause.position);
                bound.any(|variable| variables.contains(&variable))
            };
            match clauses.iter_mut().rev().find(|clause| binds(clause)) {
                Some(clause) => {
                    // Positions count all nodes, so where there is one, nodes are not looked up.
                    let can_join = clause.join.is_none() && clause.is_for && clause.position.is_none();
                    if can_join && matches!(clause.value, BoundExpr::Message(_)) {
                        clause.join = self.join(&condition, clause.variable, clause.conditions.len());
                    }
                    clause.conditions.push(self.clause_condition(condition));
                }
                None => guards.push(self.bound(condition)),
            }
        }
        let grouping = flwr.grouping.as_ref().map(|grouping| self.grouping(grouping));
        let variables = match &grouping {
            None => clauses.iter().flat_map(|clause| std::iter::once(clause.variable).chain(clause.position)).collect(),
            Some(grouping) => {
                let keys = grouping.keys.iter().chain(&grouping.values).map(|(variable, _)| *variable);
                keys.chain(grouping.collected.iter().map(|(_, variable)| *variable)).collect()
            }
        };
        let order = flwr.order.iter().map(|key| SortKey {
            value: self.bound(normalise(key.key.clone())),
            descending: key.descending,
            empty_greatest: key.empty_greatest,
        });
        let order: Vec<SortKey> = order.collect();
        let result = self.item(&flwr.result);
        let is_plain = order.is_empty() && grouping.is_none();
        let is_independent = is_plain && is_independent(&clauses, &result);
        let result = self.interner.result(result);
        FlwrLoop { guards, clauses, grouping, variables, order, result, is_independent }
    }

    fn grouping(&mut self, grouping: &Grouping) -> GroupingInstruction {
        let mut bound = |pairs: &[(VariableId, Expr)]| -> Vec<(VariableId, BoundExpr)> {
            pairs.iter().map(|(variable, expr)| (*variable, self.bound(normalise(expr.clone())))).collect()
        };
        let (keys, values) = (bound(&grouping.keys), bound(&grouping.values));
        let conditions = grouping.condition.iter().flat_map(conjuncts).map(|condition| self.bound(condition)).collect();
        GroupingInstruction { keys, collected: grouping.collected.clone(), values, conditions }
    }

    fn attribute(&mut self, attribute: &ComputedAttribute) -> Instruction {
        let name = match &attribute.name {
            ComputedName::Fixed(name) => AttributeName::Fixed(name.clone()),
            ComputedName::Value(name) => AttributeName::Computed(self.bound(normalise(name.clone()))),
        };
        let value = attribute.value.as_ref().map(|value| self.item(value));
        Instruction::Attribute(Box::new(AttributeInstruction { name, namespace: attribute.namespace.clone(), value }))
    }

    fn clause_condition(&mut self, condition: Expr) -> ClauseCondition {
        let constant = match &condition {
            Expr::Compare { op: CompareOp::Equal, right, .. } => match &**right {
                constant @ (Expr::Literal(_) | Expr::Number(_)) => Some(constant.clone()),
                _ => None,
            },
            _ => None,
        };
        let bound = self.bound(condition);
        let equals = match (&bound, constant) {
            (BoundExpr::Node(_, expr), Some(constant)) => match &**expr {
                Expr::Compare { left, .. } if matches!(**left, Expr::Path(_)) => {
                    Some((self.interner.expr((**left).clone()), constant))
                }
                _ => None,
            },
            _ => None,
        };
        ClauseCondition { bound, equals }
    }

    /// Returns the join that a condition of a clause is: an equality of a path from its variable with one from another.
    fn join(&mut self, condition: &Expr, variable: VariableId, index: usize) -> Option<ClauseJoin> {
        let Expr::Compare { op: CompareOp::Equal, left, right } = condition else { return None };
        let sole_variable = |expr: &Expr| {
            let mut variables = Vec::new();
            let is_free = matches!(expr, Expr::Path(_)) && free_variables(expr, &mut variables);
            if let (true, &[only]) = (is_free, &variables[..]) { Some(only) } else { None }
        };
        let (first, second) = (sole_variable(left)?, sole_variable(right)?);
        let (own, other, used) = match (first == variable, second == variable) {
            (true, false) => (left, right, second),
            (false, true) => (right, left, first),
            _ => return None,
        };
        if !self.is_for[used.index()] {
            return None;
        }
        let own = self.interner.expr(relative((**own).clone()));
        Some(ClauseJoin { condition: index, own, other: self.bound((**other).clone()) })
    }

    fn condition(&mut self, condition: &Expr) -> BoundExpr {
        self.bound(normalise_condition(condition.clone()))
    }

    /// Chooses what an expression is evaluated relative to.
    fn bound(&mut self, expr: Expr) -> BoundExpr {
        let mut variables = Vec::new();
        if free_variables(&expr, &mut variables) {
            match variables[..] {
                [] => return BoundExpr::Message(self.interner.expr(expr)),
                [variable] if self.is_for[variable.index()] => {
                    return BoundExpr::Node(variable, self.interner.expr(relative(expr)));
                }
                _ => {}
            }
        }
        variables.clear();
        all_variables(&expr, &mut variables);
        BoundExpr::Variables(variables, self.interner.expr(expr))
    }

    fn content(&mut self, parts: &[ElementContent]) -> Vec<ContentPart> {
        let mut content = Vec::new();
        for part in parts {
            match part {
                ElementContent::Text(text) => constant(&mut content, &escaped(text, false)),
                ElementContent::Enclosed(item) => content.push(ContentPart::Enclosed(self.item(item))),
                ElementContent::Constructor(item) => match self.item(item) {
                    Instruction::Markup(markup) => constant(&mut content, &markup),
                    op => content.push(ContentPart::Enclosed(op)),
                },
            }
        }
        content
    }

    fn element(&mut self, element: &ElementConstructor) -> Instruction {
        let mut head = vec![ContentPart::Constant(format!("<{}", element.qname).into_bytes())];
        for (prefix, uri) in &element.declarations {
            let colon = if prefix.is_empty() { "" } else { ":" };
            constant(&mut head, format!(" xmlns{colon}{prefix}=\"").as_bytes());
            constant(&mut head, &escaped(uri, true));
            constant(&mut head, b"\"");
        }
        for attribute in &element.attributes {
            constant(&mut head, format!(" {}=\"", attribute.qname).as_bytes());
            for part in &attribute.value {
                match part {
                    AttributeValuePart::Text(text) => constant(&mut head, &escaped(text, true)),
                    AttributeValuePart::Enclosed(item) => head.push(ContentPart::Enclosed(self.item(item))),
                }
            }
            constant(&mut head, b"\"");
        }
        let content = self.content(&element.content);
        let close = format!("</{}>", element.qname).into_bytes().into_boxed_slice();
        if let Some(markup) = constant_element(&head, &content, &close) {
            return Instruction::Markup(markup);
        }
        let vocabulary = self.vocabulary;
        Instruction::Element(Box::new(ElementInstruction {
            head,
            content,
            close,
            declarations: element.declarations.clone(),
            attributes: element
                .attributes
                .iter()
                .map(|a| {
                    (vocabulary.namespace_uri(a.name.namespace).into(), vocabulary.local_name(a.name.local).into())
                })
                .collect(),
        }))
    }
}

/// Returns `true` if one `for` variable, bound to nodes of the message, decides the conditions and the result.
fn is_independent(clauses: &[ClauseInstruction], result: &Instruction) -> bool {
    let [ClauseInstruction { variable, position: None, is_for: true, value: BoundExpr::Message(_), conditions, .. }] =
        clauses
    else {
        return false;
    };
    let own = |bound: &BoundExpr| matches!(bound, BoundExpr::Node(used, _) if used == variable);
    conditions.iter().all(|condition| own(&condition.bound)) && depends_only_on(result, *variable)
}

/// Returns `true` if an instruction uses no other variable.
fn depends_only_on(op: &Instruction, variable: VariableId) -> bool {
    let bound_is = |bound: &BoundExpr| match bound {
        BoundExpr::Message(_) => true,
        BoundExpr::Node(used, _) => *used == variable,
        BoundExpr::Variables(..) => false,
    };
    match op {
        Instruction::Sequence(ops) => ops.iter().all(|op| depends_only_on(op, variable)),
        // An inner loop has variables of its own. Following them would gain little.
        Instruction::Loop(_) => false,
        Instruction::If { condition, then, otherwise } => {
            bound_is(condition) && depends_only_on(then, variable) && depends_only_on(otherwise, variable)
        }
        Instruction::Element(element) => element.head.iter().chain(&element.content).all(|part| match part {
            ContentPart::Constant(_) => true,
            ContentPart::Enclosed(op) => depends_only_on(op, variable),
        }),
        Instruction::Text(op) => depends_only_on(op, variable),
        Instruction::Markup(_) => true,
        Instruction::Value(bound) => bound_is(bound),
        Instruction::ComputedElement(_) | Instruction::Attribute(_) | Instruction::Bindings { .. } => false,
    }
}

/// Takes the conditions on other variables out of what a `for` clause ranges over, so that they can be looked up:
/// `for $y in //b[@k = $x/@k]` is `for $y in //b where $y/@k = $x/@k`.
fn take_out_conditions(source: &mut Expr, variable: VariableId, conditions: &mut Vec<Expr>) {
    let Expr::Path(Path { start: PathStart::Root, steps }) = source else { return };
    let Some(last) = steps.last_mut() else { return };
    while let Some(Expr::Compare { op: CompareOp::Equal, left, right }) = last.predicates.last() {
        // A path from the context node, and one from a variable, which has predicates without variables.
        let starts = |expr: &Expr| match expr {
            Expr::Path(Path { start: PathStart::Context, steps }) if !steps.is_empty() => Some(true),
            Expr::Path(Path { start: PathStart::Variable(_), .. }) => Some(false),
            _ => None,
        };
        let is_free = |expr: &Expr| free_variables(expr, &mut Vec::new());
        let (from_left, from_right) = match (starts(left), starts(right)) {
            (Some(from_left), Some(from_right)) if from_left != from_right => (from_left, from_right),
            _ => return,
        };
        if !is_free(left) || !is_free(right) {
            return;
        }
        let Some(Expr::Compare { op, left, right }) = last.predicates.pop() else { return };
        let from_variable = |expr: Expr, from_context: bool| match expr {
            Expr::Path(Path { start: PathStart::Context, steps }) if from_context => {
                Expr::Path(Path { start: PathStart::Variable(variable), steps })
            }
            other => other,
        };
        let (left, right) = (from_variable(*left, from_left), from_variable(*right, from_right));
        conditions.push(Expr::Compare { op, left: Box::new(left), right: Box::new(right) });
    }
}

/// Returns the conjuncts of a condition in normal form.
fn conjuncts(condition: &Expr) -> Vec<Expr> {
    match normalise_condition(condition.clone()) {
        Expr::And(operands) => operands.into_iter().map(normalise_condition).collect(),
        other => vec![other],
    }
}

/// Appends constant bytes. Adjacent constants become one.
fn constant(parts: &mut Vec<ContentPart>, bytes: &[u8]) {
    if let Some(ContentPart::Constant(last)) = parts.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        parts.push(ContentPart::Constant(bytes.to_vec()));
    }
}

/// Returns the markup of an element without enclosed expressions.
fn constant_element(head: &[ContentPart], content: &[ContentPart], close: &[u8]) -> Option<Box<[u8]>> {
    let ([ContentPart::Constant(head)], [] | [ContentPart::Constant(_)]) = (head, content) else { return None };
    let mut markup = head.clone();
    match content {
        [ContentPart::Constant(content)] => {
            markup.push(b'>');
            markup.extend_from_slice(content);
            markup.extend_from_slice(close);
        }
        _ => markup.extend_from_slice(b"/>"),
    }
    Some(markup.into())
}
