//! A query compiled for running: what can be prepared is prepared.

pub(crate) mod family;
pub(super) mod instructions;
pub(super) mod template;

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
    /// How many variables there are.
    pub(super) variables: usize,
    /// What it has in common with others.
    pub(super) family: Option<Family>,
}

impl Program {
    /// Compiles a query. The vocabulary is the one it was parsed with.
    pub fn compile(query: &FlwrQuery, vocabulary: &Vocabulary, interner: &mut Interner) -> Self {
        let mut compiler = Compiler { vocabulary, interner, each: vec![false; query.variables.len()] };
        let body = compiler.item(&query.body);
        let family = interner.family(&body);
        Self { body, variables: query.variables.len(), family }
    }

    /// The query's place in the table of all.
    pub(crate) fn family_ref(&self) -> FamilyRef {
        self.family.as_ref().map_or(FamilyRef::NONE, |family| FamilyRef {
            group: family.id,
            constant: match &family.constants[..] {
                [only] => only.id,
                _ => self::family::NONE,
            },
        })
    }
}

struct Compiler<'q> {
    vocabulary: &'q Vocabulary,
    interner: &'q mut Interner,
    /// By variable: it is a `for` variable.
    each: Vec<bool>,
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
            let (variable, each, expr) = match clause {
                BindingClause::For { variable, source } => (*variable, true, source),
                BindingClause::Let { variable, value } => (*variable, false, value),
            };
            let value = self.bound(normalise(expr.clone()));
            if let Some(existing) = self.each.get_mut(variable.index()) {
                *existing = each;
            }
            clauses.push(ClauseInstruction { variable, each, value, conditions: Vec::new() });
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
        let alone = order.is_empty() && is_alone(&clauses, &result);
        let result = self.interner.result(result);
        FlwrLoop { guards, clauses, order, result, alone }
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

    /// Decides what an expression is evaluated relative to.
    fn bound(&mut self, expr: Expr) -> BoundExpr {
        let mut variables = Vec::new();
        if free_variables(&expr, &mut variables) {
            match variables[..] {
                [] => return BoundExpr::Message(self.interner.expr(expr)),
                [variable] if self.each[variable.index()] => {
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

/// Does one `for` variable, bound to nodes of the message, alone decide about conditions and result?
fn is_alone(clauses: &[ClauseInstruction], result: &Instruction) -> bool {
    let [ClauseInstruction { variable, each: true, value: BoundExpr::Message(_), conditions }] = clauses else {
        return false;
    };
    let own = |bound: &BoundExpr| matches!(bound, BoundExpr::Node(used, _) if used == variable);
    conditions.iter().all(|condition| own(&condition.bound)) && speaks_only_about(result, *variable)
}

/// Does an operation depend on no other variable, apart from those it binds itself?
fn speaks_only_about(op: &Instruction, variable: VariableId) -> bool {
    let bound_is = |bound: &BoundExpr| match bound {
        BoundExpr::Message(_) => true,
        BoundExpr::Node(used, _) => *used == variable,
        BoundExpr::Variables(..) => false,
    };
    match op {
        Instruction::Sequence(ops) => ops.iter().all(|op| speaks_only_about(op, variable)),
        // A loop inside has variables of its own; to follow them is not worth the while.
        Instruction::Loop(_) => false,
        Instruction::If { condition, then, otherwise } => {
            bound_is(condition) && speaks_only_about(then, variable) && speaks_only_about(otherwise, variable)
        }
        Instruction::Element(element) => element.head.iter().chain(&element.content).all(|part| match part {
            ContentPart::Constant(_) => true,
            ContentPart::Enclosed(op) => speaks_only_about(op, variable),
        }),
        Instruction::Markup(_) => true,
        Instruction::Value(bound) => bound_is(bound),
        Instruction::Bindings { .. } => false,
    }
}

/// The conjuncts of a condition, in normal form.
fn conjuncts(condition: &Expr) -> Vec<Expr> {
    match normalise_condition(condition.clone()) {
        Expr::And(operands) => operands.into_iter().map(normalise_condition).collect(),
        other => vec![other],
    }
}

/// Appends constant bytes, to the constant before if there is one.
fn constant(parts: &mut Vec<ContentPart>, bytes: &[u8]) {
    if let Some(ContentPart::Constant(last)) = parts.last_mut() {
        last.extend_from_slice(bytes);
    } else {
        parts.push(ContentPart::Constant(bytes.to_vec()));
    }
}

/// The markup of an element without any template.
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
