//! What queries have in common, found when they are compiled.
//!
//! Queries of one feed differ in little: they bind the same paths, compare the same paths with different constants, and
//! return the same few things (Diao 2005, section 6.6). Where the bindings of one `for` clause decide everything, a query
//! is a *family* of constants in a *group*: the group says what is bound, what is compared and what is made of the
//! bindings that pass (the *shape*); only the constants are the query's own. Equal parts are one object, so that
//! `shared.rs` computes them once a message.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::query::ast::Expr;

use super::instructions::{BoundExpr, ClauseCondition, ContentPart, ElementInstruction, FlwrLoop, Instruction};
use super::template::{self, Skeleton};

/// Number of a [`FamilyGroup`] or a [`ComparedConstant`]; numbers of what is forgotten are used again.
pub(crate) type FamilyGroupId = u32;
/// See [`FamilyGroupId`].
pub(crate) type ConstantId = u32;

/// What the families of constants are applied to.
#[derive(Debug)]
pub(in crate::rewrite) struct FamilyGroup {
    /// The binding path.
    pub source: Arc<SharedPath>,
    /// Conditions that do not depend on the binding.
    pub guards: Vec<Arc<Expr>>,
    /// Paths from a binding that are compared with the constants, in the order of a family's.
    pub compared: Vec<Arc<SharedPath>>,
    /// Other conditions on a binding.
    pub conditions: Vec<Arc<Expr>>,
    /// What is made of the bindings that pass.
    pub shape: Arc<Instruction>,
    /// The same as a skeleton and columns, if it is of that kind.
    pub template: Option<ResultTemplate>,
}

/// A path with a number, equal for equal paths.
#[derive(Debug)]
pub(in crate::rewrite) struct SharedPath {
    pub id: u32,
    pub path: Arc<Expr>,
}

/// See [`super::template`].
#[derive(Debug)]
pub(in crate::rewrite) struct ResultTemplate {
    pub skeleton: Arc<Interned<Skeleton>>,
    pub columns: Vec<Arc<SharedPath>>,
}

/// An object with a number.
#[derive(Debug)]
pub(in crate::rewrite) struct Interned<T> {
    pub id: u32,
    pub object: T,
}

/// A constant that a path is compared with.
#[derive(Debug)]
pub(in crate::rewrite) struct ComparedConstant {
    pub id: ConstantId,
}

/// A query as a member of a group.
#[derive(Clone, Debug)]
pub(in crate::rewrite) struct Family {
    pub id: FamilyGroupId,
    pub group: Arc<FamilyGroup>,
    pub constants: Vec<Arc<ComparedConstant>>,
}

impl Family {
    /// Are there other families of the group? The interner's list holds one reference itself.
    pub fn is_one_of_several(&self) -> bool {
        Arc::strong_count(&self.group) > 2
    }

    /// Will others ask for the columns? Again the list holds one reference itself, and the group another.
    pub fn shares_columns(&self, template: &ResultTemplate) -> bool {
        self.is_one_of_several() || template.columns.iter().all(|path| Arc::strong_count(path) > 2)
    }
}

/// A [`Family`] in brief, for a dense table of all queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FamilyRef {
    /// [`NONE`] for a query that is no member of a group.
    pub group: FamilyGroupId,
    /// The constant of a family of one; [`NONE`] for none or several.
    pub constant: ConstantId,
}

/// No group, no constant.
pub(crate) const NONE: u32 = u32::MAX;

impl FamilyRef {
    /// Of a query that is no member of a group.
    pub const NONE: Self = Self { group: NONE, constant: NONE };
}

/// Returned paths of a [`GroupSummary`] at most.
pub(in crate::rewrite) const BRIEF_COLUMNS: usize = 3;

/// A group in brief, if one path is compared and the result is of columns, in numbers: a session looks thousands of
/// groups up a message, and here they lie close together.
#[derive(Clone, Copy, Debug)]
pub(in crate::rewrite) struct GroupSummary {
    /// Number of the binding path; [`NONE`]: the group is not of this kind.
    pub source: u32,
    /// Number of the compared path.
    pub compared: u32,
    pub skeleton: u32,
    /// Numbers of the returned paths, [`NONE`] after the last.
    pub columns: [u32; BRIEF_COLUMNS],
}

impl GroupSummary {
    const NONE: Self = Self { source: NONE, compared: NONE, skeleton: NONE, columns: [NONE; BRIEF_COLUMNS] };

    fn of(group: &FamilyGroup) -> Option<Self> {
        let ([compared], [], []) = (&group.compared[..], &group.guards[..], &group.conditions[..]) else { return None };
        let template = group.template.as_ref().filter(|template| template.columns.len() <= BRIEF_COLUMNS)?;
        let mut columns = [NONE; BRIEF_COLUMNS];
        for (position, path) in columns.iter_mut().zip(&template.columns) {
            *position = path.id;
        }
        Some(Self { source: group.source.id, compared: compared.id, skeleton: template.skeleton.id, columns })
    }
}

/// Objects by number.
#[derive(Debug)]
struct InternTable<T> {
    objects: Vec<Option<Arc<T>>>,
    free: Vec<u32>,
}

impl<T> Default for InternTable<T> {
    fn default() -> Self {
        Self { objects: Vec::new(), free: Vec::new() }
    }
}

impl<T> InternTable<T> {
    fn insert(&mut self, make: impl FnOnce(u32) -> T) -> (u32, Arc<T>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.objects.push(None);
            self.objects.len() as u32 - 1
        });
        let object = Arc::new(make(id));
        self.objects[id as usize] = Some(Arc::clone(&object));
        (id, object)
    }

    fn get(&self, id: u32) -> Option<&Arc<T>> {
        self.objects.get(id as usize)?.as_ref()
    }

    /// Forgets an object if nothing but this list holds it; whether it did.
    fn forget_unused(&mut self, id: u32) -> bool {
        let Some(slot) = self.objects.get_mut(id as usize) else { return true };
        let unused = slot.as_ref().is_none_or(|object| Arc::strong_count(object) == 1);
        if unused && slot.take().is_some() {
            self.free.push(id);
        }
        unused
    }
}

/// An address as a number: equal for the same object, and free to go from thread to thread.
fn address<T>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object).addr()
}

/// Keeps one copy of each expression, result, group and constant that programs have in common.
#[derive(Debug, Default)]
pub struct Interner {
    exprs: FxHashMap<String, Arc<Expr>>,
    results: FxHashMap<String, Arc<Instruction>>,
    groups: FxHashMap<Vec<usize>, FamilyGroupId>,
    group_list: InternTable<FamilyGroup>,
    briefs: Vec<GroupSummary>,
    texts: FxHashMap<Box<str>, ConstantId>,
    /// By bits of the number.
    numbers: FxHashMap<u64, ConstantId>,
    constant_list: InternTable<ComparedConstant>,
    /// By address of the expression, which the path keeps alive.
    paths: FxHashMap<usize, u32>,
    path_list: InternTable<SharedPath>,
    skeletons: FxHashMap<String, u32>,
    skeleton_list: InternTable<Interned<Skeleton>>,
}

impl Interner {
    pub(in crate::rewrite) fn expr(&mut self, expr: Expr) -> Arc<Expr> {
        // Floats have no hash; the debugging form tells all expressions apart.
        Arc::clone(self.exprs.entry(format!("{expr:?}")).or_insert_with(|| Arc::new(expr)))
    }

    pub(in crate::rewrite) fn result(&mut self, op: Instruction) -> Arc<Instruction> {
        Arc::clone(self.results.entry(format!("{op:?}")).or_insert_with(|| Arc::new(op)))
    }

    /// Forgets what no program uses any more.
    pub fn tidy(&mut self) {
        let (groups, constants) = (&mut self.group_list, &mut self.constant_list);
        self.groups.retain(|_, id| !groups.forget_unused(*id));
        self.texts.retain(|_, id| !constants.forget_unused(*id));
        self.numbers.retain(|_, id| !constants.forget_unused(*id));
        let (paths, skeletons) = (&mut self.path_list, &mut self.skeleton_list);
        self.paths.retain(|_, id| !paths.forget_unused(*id));
        self.skeletons.retain(|_, id| !skeletons.forget_unused(*id));
        self.results.retain(|_, result| Arc::strong_count(result) > 1);
        self.exprs.retain(|_, expr| Arc::strong_count(expr) > 1);
    }

    /// A group in brief, if it can be put so.
    #[inline]
    pub(in crate::rewrite) fn brief(&self, group: FamilyGroupId) -> Option<GroupSummary> {
        self.briefs.get(group as usize).copied().filter(|brief| brief.source != NONE)
    }

    /// The skeleton with a number.
    pub(in crate::rewrite) fn skeleton(&self, id: u32) -> Option<&Skeleton> {
        self.skeleton_list.objects.get(id as usize)?.as_deref().map(|numbered| &numbered.object)
    }

    /// One past the largest number of a path.
    pub(in crate::rewrite) fn path_bound(&self) -> usize {
        self.path_list.objects.len()
    }

    /// The constant that is a text.
    pub(in crate::rewrite) fn text(&self, value: &str) -> Option<ConstantId> {
        self.texts.get(value).copied()
    }

    /// The constant that is a number.
    pub(in crate::rewrite) fn number(&self, value: f64) -> Option<ConstantId> {
        self.numbers.get(&bits(value)).copied()
    }

    /// Is any constant a number?
    pub(in crate::rewrite) fn has_numbers(&self) -> bool {
        !self.numbers.is_empty()
    }

    fn constant(&mut self, constant: &Expr) -> Option<Arc<ComparedConstant>> {
        let existing = match constant {
            Expr::Literal(text) => self.texts.get(text).copied(),
            Expr::Number(number) if !number.is_nan() => self.numbers.get(&bits(*number)).copied(),
            _ => return None,
        };
        if let Some(existing) = existing.and_then(|id| self.constant_list.get(id)) {
            return Some(Arc::clone(existing));
        }
        let (id, outcome) = self.constant_list.insert(|id| ComparedConstant { id });
        match constant {
            Expr::Literal(text) => _ = self.texts.insert(text.clone(), id),
            Expr::Number(number) => _ = self.numbers.insert(bits(*number), id),
            _ => {}
        }
        Some(outcome)
    }

    fn intern_group(&mut self, group: FamilyGroup) -> (FamilyGroupId, Arc<FamilyGroup>) {
        let mut key = vec![address(&group.source), address(&group.shape), group.compared.len(), group.guards.len()];
        key.extend(group.compared.iter().map(address));
        key.extend(group.guards.iter().chain(&group.conditions).map(address));
        let existing = self.groups.get(&key).and_then(|&id| Some((id, self.group_list.get(id)?)));
        if let Some((id, existing)) = existing {
            return (id, Arc::clone(existing));
        }
        let brief = GroupSummary::of(&group).unwrap_or(GroupSummary::NONE);
        let (id, outcome) = self.group_list.insert(|_| group);
        self.briefs.resize(self.group_list.objects.len(), GroupSummary::NONE);
        self.briefs[id as usize] = brief;
        self.groups.insert(key, id);
        (id, outcome)
    }

    fn path(&mut self, path: &Arc<Expr>) -> Arc<SharedPath> {
        let existing = self.paths.get(&address(path)).and_then(|&id| self.path_list.get(id));
        if let Some(existing) = existing {
            return Arc::clone(existing);
        }
        let (id, outcome) = self.path_list.insert(|id| SharedPath { id, path: Arc::clone(path) });
        self.paths.insert(address(path), id);
        outcome
    }

    fn template(&mut self, body: &Instruction) -> Option<ResultTemplate> {
        let (skeleton, columns) = template::of(body)?;
        let text = format!("{skeleton:?}");
        let existing = self.skeletons.get(&text).and_then(|&id| self.skeleton_list.get(id));
        let skeleton = match existing {
            Some(existing) => Arc::clone(existing),
            None => {
                let (id, outcome) = self.skeleton_list.insert(|id| Interned { id, object: skeleton });
                self.skeletons.insert(text, id);
                outcome
            }
        };
        Some(ResultTemplate { skeleton, columns: columns.iter().map(|path| self.path(path)).collect() })
    }

    /// The family of a query, if the bindings of one `for` clause decide everything.
    pub(in crate::rewrite) fn family(&mut self, body: &Instruction) -> Option<Family> {
        let each = only_loop(body)?;
        let [clause] = &each.clauses[..] else { return None };
        let BoundExpr::Message(source) = &clause.value else { return None };
        let guards = each.guards.iter().map(of_message).collect::<Option<Vec<_>>>()?;
        let mut group = FamilyGroup {
            source: self.path(source),
            guards,
            compared: Vec::new(),
            conditions: Vec::new(),
            shape: self.result(shape(body)),
            template: self.template(body),
        };
        let mut constants = Vec::new();
        for ClauseCondition { bound, equals } in &clause.conditions {
            let equals = equals.as_ref().and_then(|(path, constant)| Some((path, self.constant(constant)?)));
            match (equals, bound) {
                (Some((path, constant)), _) => {
                    group.compared.push(self.path(path));
                    constants.push(constant);
                }
                (None, BoundExpr::Node(_, condition)) => group.conditions.push(Arc::clone(condition)),
                (None, _) => return None,
            }
        }
        let (id, group) = self.intern_group(group);
        Some(Family { id, group, constants })
    }
}

/// A number's bits, the same for both zeros.
fn bits(number: f64) -> u64 {
    if number == 0.0 { 0 } else { number.to_bits() }
}

fn of_message(bound: &BoundExpr) -> Option<Arc<Expr>> {
    match bound {
        BoundExpr::Message(expr) => Some(Arc::clone(expr)),
        BoundExpr::Node(..) | BoundExpr::Variables(..) => None,
    }
}

/// The loop that decides alone about all that is not constant.
fn only_loop(op: &Instruction) -> Option<&FlwrLoop> {
    match op {
        Instruction::Loop(each) if each.alone => Some(each),
        Instruction::Element(element) => {
            let [ContentPart::Constant(_)] = &element.head[..] else { return None };
            let mut enclosed = element.content.iter().filter_map(|part| match part {
                ContentPart::Enclosed(op) => Some(op),
                ContentPart::Constant(_) => None,
            });
            let only = enclosed.next()?;
            if enclosed.next().is_some() { None } else { only_loop(only) }
        }
        _ => None,
    }
}

/// An operation with [`Instruction::Bindings`] in place of the only loop.
fn shape(op: &Instruction) -> Instruction {
    match op {
        Instruction::Loop(each) => match &each.clauses[..] {
            [clause] => Instruction::Bindings { variable: clause.variable, result: Arc::clone(&each.result) },
            _ => op.clone(),
        },
        Instruction::Element(element) => {
            let content = element.content.iter().map(|part| match part {
                ContentPart::Enclosed(op) => ContentPart::Enclosed(shape(op)),
                ContentPart::Constant(_) => part.clone(),
            });
            Instruction::Element(Box::new(ElementInstruction { content: content.collect(), ..(**element).clone() }))
        }
        _ => op.clone(),
    }
}
