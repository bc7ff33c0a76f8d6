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
use crate::query::ast::{CompareOp, Expr, VariableId};
use crate::query::flwr::{
    AttributeValuePart, BindingClause, ElementConstructor, ElementContent, FlwrExpr, FlwrQuery, ItemExpr,
};
use crate::query::matching::{all_variables, free_variables, relative};
use crate::query::normal::{normalise, normalise_condition};
use crate::vocabulary::Vocabulary;

use self::family::{Family, FamilyRef, Interner};
use self::instructions::{
    BoundExpr, ClauseCondition, ClauseInstruction, ContentPart, ElementInstruction, FlwrLoop, Instruction, SortKey,
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
            ItemExpr::Comment(text) => Instruction::Markup(format!("<!--{text}-->").into_bytes().into()),
            ItemExpr::ProcessingInstruction { target, data } => {
                let space = if data.is_empty() { "" } else { " " };
                Instruction::Markup(format!("<?{target}{space}{data}?>").into_bytes().into())
            }
            ItemExpr::Value(expr) => Instruction::Value(self.bound(normalise(expr.clone()))),
        }
    }

    fn flwr(&mut self, flwr: &FlwrExpr) -> FlwrLoop {
        let mut clauses = Vec::with_capacity(flwr.clauses.len());
        for clause in &flwr.clauses {
            let (variable, is_for, expr) = match clause {
                BindingClause::For { variable, source } => (*variable, true, source),
                BindingClause::Let { variable, value } => (*variable, false, value),
            };
            let value = self.bound(normalise(expr.clone()));
            if let Some(existing) = self.is_for.get_mut(variable.index()) {
                *existing = is_for;
            }
            clauses.push(ClauseInstruction { variable, is_for, value, conditions: Vec::new() });
        }
        let mut guards = Vec::new();
        for condition in flwr.condition.iter().flat_map(conjuncts) {
            let mut variables = Vec::new();
            all_variables(&condition, &mut variables);
            match clauses.iter_mut().rev().find(|clause| variables.contains(&clause.variable)) {
                Some(clause) => clause.conditions.push(self.clause_condition(condition)),
                None => guards.push(self.bound(condition)),
            }
        }
        let order = flwr.order.iter().map(|key| SortKey {
            value: self.bound(normalise(key.key.clone())),
            descending: key.descending,
            empty_greatest: key.empty_greatest,
        });
        let order: Vec<SortKey> = order.collect();
        let result = self.item(&flwr.result);
        let is_independent = order.is_empty() && is_independent(&clauses, &result);
        let result = self.interner.result(result);
        FlwrLoop { guards, clauses, order, result, is_independent }
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
        let mut content = Vec::new();
        for part in &element.content {
            match part {
                ElementContent::Text(text) => constant(&mut content, &escaped(text, false)),
                ElementContent::Enclosed(item) => content.push(ContentPart::Enclosed(self.item(item))),
                ElementContent::Constructor(item) => match self.item(item) {
                    Instruction::Markup(markup) => constant(&mut content, &markup),
                    op => content.push(ContentPart::Enclosed(op)),
                },
            }
        }
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
    let [ClauseInstruction { variable, is_for: true, value: BoundExpr::Message(_), conditions }] = clauses else {
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
        Instruction::Markup(_) => true,
        Instruction::Value(bound) => bound_is(bound),
        Instruction::Bindings { .. } => false,
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
