//! Families: the parts that queries have in common, determined when they are compiled.
//!
//! Queries of one feed differ in little: they bind the same paths, compare the same paths with different constants, and
//! return the same paths (Diao 2005, section 6.6). If the bindings of one `for` clause decide everything, a query is a
//! *family* of constants in a *group*. The group holds the paths that are bound and compared and the constructor of the
//! result; only the constants are the query's own. Equal parts are one object, so that [`super::super::sharing`] computes
//! them once per message.

use std::sync::Arc;

use crate::ids::{ConstantId, FamilyGroupId, SharedPathId, SkeletonId, TableId};
use crate::query::ast::Expr;
use crate::util::chunked::Chunked;
use crate::util::cow_map::CowMap;

use super::instructions::{BoundExpr, ClauseCondition, ContentPart, ElementInstruction, FlwrLoop, Instruction};
use super::template::{self, Skeleton};

/// The part of queries that their constants are applied to.
#[derive(Debug)]
pub(in crate::rewrite) struct FamilyGroup {
    /// The binding path.
    pub source: Arc<SharedPath>,
    /// Conditions that do not depend on the binding.
    pub guards: Vec<Arc<Expr>>,
    /// Paths from a binding that are compared with the constants of a family, in the same order.
    pub compared: Vec<Arc<SharedPath>>,
    /// Other conditions on a binding.
    pub conditions: Vec<Arc<Expr>>,
    /// The program's body with [`Instruction::Bindings`] in place of its loop.
    pub shape: Arc<Instruction>,
    /// The shape as a skeleton and columns, if it is of that kind.
    pub template: Option<ResultTemplate>,
}

/// A path with its id. Equal paths share one.
#[derive(Debug)]
pub(in crate::rewrite) struct SharedPath {
    pub id: SharedPathId,
    pub path: Arc<Expr>,
}

/// A skeleton with its id. Equal skeletons share one.
#[derive(Debug)]
pub(in crate::rewrite) struct SharedSkeleton {
    pub id: SkeletonId,
    pub skeleton: Skeleton,
}

/// A skeleton and the paths of its columns: see [`super::template`].
#[derive(Debug)]
pub(in crate::rewrite) struct ResultTemplate {
    pub skeleton: Arc<SharedSkeleton>,
    pub columns: Vec<Arc<SharedPath>>,
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
    /// Returns `true` if other queries need the columns too. The interner's tables hold one reference to each group and
    /// path themselves, and the group another one to its paths.
    pub fn shares_columns(&self, template: &ResultTemplate) -> bool {
        Arc::strong_count(&self.group) > 2 || template.columns.iter().all(|path| Arc::strong_count(path) > 2)
    }
}

/// A [`Family`] in eight bytes, for a dense table of all queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FamilyRef {
    /// The group; `ABSENT` for a query that is no member of one.
    pub group: FamilyGroupId,
    /// The constant of a family of one constant; `ABSENT` for none or several.
    pub constant: ConstantId,
}

impl FamilyRef {
    /// In place of the family of a query that is no member of a group.
    pub const NONE: Self = Self { group: FamilyGroupId::ABSENT, constant: ConstantId::ABSENT };
}

/// Number of returned paths that a [`GroupSummary`] has at most.
pub(in crate::rewrite) const SUMMARY_COLUMNS_MAX: usize = 3;

/// The ids of a group's parts, if it compares one path and its result is made of few columns. The interpreter looks up
/// thousands of groups per message, and here they lie close together.
#[derive(Clone, Copy, Debug)]
pub(in crate::rewrite) struct GroupSummary {
    /// The binding path; `ABSENT` if the group is not of this kind.
    pub source: SharedPathId,
    pub compared: SharedPathId,
    pub skeleton: SkeletonId,
    /// The returned paths, and `ABSENT` after the last.
    pub columns: [SharedPathId; SUMMARY_COLUMNS_MAX],
}

impl GroupSummary {
    const NONE: Self = Self {
        source: SharedPathId::ABSENT,
        compared: SharedPathId::ABSENT,
        skeleton: SkeletonId::ABSENT,
        columns: [SharedPathId::ABSENT; SUMMARY_COLUMNS_MAX],
    };

    fn of(group: &FamilyGroup) -> Option<Self> {
        let ([compared], [], []) = (&group.compared[..], &group.guards[..], &group.conditions[..]) else { return None };
        let template = group.template.as_ref().filter(|template| template.columns.len() <= SUMMARY_COLUMNS_MAX)?;
        let mut columns = Self::NONE.columns;
        for (column, path) in columns.iter_mut().zip(&template.columns) {
            *column = path.id;
        }
        Some(Self { source: group.source.id, compared: compared.id, skeleton: template.skeleton.id, columns })
    }
}

/// Objects by id; ids of removed objects are reused.
#[derive(Debug)]
struct InternTable<I, T> {
    objects: Chunked<Option<Arc<T>>>,
    free: Chunked<I>,
}

impl<I, T> Default for InternTable<I, T> {
    fn default() -> Self {
        Self { objects: Chunked::default(), free: Chunked::default() }
    }
}

impl<I: Clone, T> Clone for InternTable<I, T> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), free: self.free.clone() }
    }
}

impl<I: TableId, T> InternTable<I, T> {
    fn insert(&mut self, make: impl FnOnce(I) -> T) -> (I, Arc<T>) {
        let id = self.free.pop().unwrap_or_else(|| {
            self.objects.push(None);
            I::new(self.objects.len() - 1)
        });
        let object = Arc::new(make(id));
        self.objects[id.index()] = Some(Arc::clone(&object));
        (id, object)
    }

    fn get(&self, id: I) -> Option<&Arc<T>> {
        self.objects.get(id.index())?.as_ref()
    }

    /// Removes an object if only this table holds it. Returns `true` if the id is free.
    fn remove_unused(&mut self, id: I) -> bool {
        let Some(entry) = self.objects.get(id.index()) else { return true };
        // Where versions of the table share the object, no program of this one needs it either.
        let is_unused = entry.as_ref().is_none_or(|object| Arc::strong_count(object) == 1);
        if is_unused && self.objects[id.index()].take().is_some() {
            self.free.push(id);
        }
        is_unused
    }
}

/// Returns the address of an object as a number, which can be sent to other threads.
fn address<T>(object: &Arc<T>) -> usize {
    Arc::as_ptr(object).addr()
}

/// One copy of each expression, result, group and constant that programs have in common.
#[derive(Clone, Debug, Default)]
pub struct Interner {
    exprs: CowMap<String, Arc<Expr>>,
    results: CowMap<String, Arc<Instruction>>,
    /// By the addresses of a group's parts, which the group keeps alive.
    group_ids: CowMap<Vec<usize>, FamilyGroupId>,
    groups: InternTable<FamilyGroupId, FamilyGroup>,
    summaries: Chunked<GroupSummary>,
    text_ids: CowMap<Box<str>, ConstantId>,
    /// By the bits of the number.
    number_ids: CowMap<u64, ConstantId>,
    constants: InternTable<ConstantId, ComparedConstant>,
    /// By the address of the expression, which the path keeps alive.
    path_ids: CowMap<usize, SharedPathId>,
    paths: InternTable<SharedPathId, SharedPath>,
    skeleton_ids: CowMap<String, SkeletonId>,
    skeletons: InternTable<SkeletonId, SharedSkeleton>,
}

impl Interner {
    /// Returns the shared copy of an expression.
    pub(in crate::rewrite) fn expr(&mut self, expr: Expr) -> Arc<Expr> {
        // Floats have no hash; the debug form distinguishes all expressions.
        Self::shared(&mut self.exprs, format!("{expr:?}"), expr)
    }

    /// Returns the shared copy of an instruction.
    pub(in crate::rewrite) fn result(&mut self, op: Instruction) -> Arc<Instruction> {
        Self::shared(&mut self.results, format!("{op:?}"), op)
    }

    fn shared<T>(objects: &mut CowMap<String, Arc<T>>, spelling: String, object: T) -> Arc<T> {
        if let Some(existing) = objects.get(&spelling) {
            return Arc::clone(existing);
        }
        let object = Arc::new(object);
        objects.insert(spelling, Arc::clone(&object));
        object
    }

    /// Removes what no program uses.
    pub fn tidy(&mut self) {
        self.group_ids.retain(|_, id| !self.groups.remove_unused(*id));
        self.text_ids.retain(|_, id| !self.constants.remove_unused(*id));
        self.number_ids.retain(|_, id| !self.constants.remove_unused(*id));
        self.path_ids.retain(|_, id| !self.paths.remove_unused(*id));
        self.skeleton_ids.retain(|_, id| !self.skeletons.remove_unused(*id));
        self.results.retain(|_, result| Arc::strong_count(result) > 1);
        self.exprs.retain(|_, expr| Arc::strong_count(expr) > 1);
    }

    /// Returns the summary of a group, if it has one.
    #[inline]
    pub(in crate::rewrite) fn summary(&self, group: FamilyGroupId) -> Option<GroupSummary> {
        self.summaries.get(group.index()).copied().filter(|summary| summary.source != SharedPathId::ABSENT)
    }

    /// Returns a skeleton.
    pub(in crate::rewrite) fn skeleton(&self, id: SkeletonId) -> Option<&Skeleton> {
        self.skeletons.get(id).map(|shared| &shared.skeleton)
    }

    /// Returns a number above the indexes of all paths.
    pub(in crate::rewrite) fn path_bound(&self) -> usize {
        self.paths.objects.len()
    }

    /// Returns the constant that is a text.
    pub(in crate::rewrite) fn text(&self, value: &str) -> Option<ConstantId> {
        self.text_ids.get(value).copied()
    }

    /// Returns the constant that is a number.
    pub(in crate::rewrite) fn number(&self, value: f64) -> Option<ConstantId> {
        self.number_ids.get(&bits(value)).copied()
    }

    /// Returns `true` if any constant is a number.
    pub(in crate::rewrite) fn has_numbers(&self) -> bool {
        !self.number_ids.is_empty()
    }

    fn constant(&mut self, constant: &Expr) -> Option<Arc<ComparedConstant>> {
        let existing = match constant {
            Expr::Literal(text) => self.text_ids.get(text).copied(),
            Expr::Number(number) if !number.is_nan() => self.number(*number),
            _ => return None,
        };
        if let Some(existing) = existing.and_then(|id| self.constants.get(id)) {
            return Some(Arc::clone(existing));
        }
        let (id, inserted) = self.constants.insert(|id| ComparedConstant { id });
        match constant {
            Expr::Literal(text) => _ = self.text_ids.insert(text.clone(), id),
            Expr::Number(number) => _ = self.number_ids.insert(bits(*number), id),
            _ => {}
        }
        Some(inserted)
    }

    fn intern_group(&mut self, group: FamilyGroup) -> (FamilyGroupId, Arc<FamilyGroup>) {
        let mut key = vec![address(&group.source), address(&group.shape), group.compared.len(), group.guards.len()];
        key.extend(group.compared.iter().map(address));
        key.extend(group.guards.iter().chain(&group.conditions).map(address));
        let existing = self.group_ids.get(&key).and_then(|&id| Some((id, self.groups.get(id)?)));
        if let Some((id, existing)) = existing {
            return (id, Arc::clone(existing));
        }
        let summary = GroupSummary::of(&group).unwrap_or(GroupSummary::NONE);
        let (id, inserted) = self.groups.insert(|_| group);
        while self.summaries.len() < self.groups.objects.len() {
            self.summaries.push(GroupSummary::NONE);
        }
        self.summaries[id.index()] = summary;
        self.group_ids.insert(key, id);
        (id, inserted)
    }

    fn path(&mut self, path: &Arc<Expr>) -> Arc<SharedPath> {
        let existing = self.path_ids.get(&address(path)).and_then(|&id| self.paths.get(id));
        if let Some(existing) = existing {
            return Arc::clone(existing);
        }
        let (id, inserted) = self.paths.insert(|id| SharedPath { id, path: Arc::clone(path) });
        self.path_ids.insert(address(path), id);
        inserted
    }

    fn template(&mut self, body: &Instruction) -> Option<ResultTemplate> {
        let (skeleton, columns) = template::of(body)?;
        let text = format!("{skeleton:?}");
        let existing = self.skeleton_ids.get(&text).and_then(|&id| self.skeletons.get(id));
        let skeleton = match existing {
            Some(existing) => Arc::clone(existing),
            None => {
                let (id, inserted) = self.skeletons.insert(|id| SharedSkeleton { id, skeleton });
                self.skeleton_ids.insert(text, id);
                inserted
            }
        };
        Some(ResultTemplate { skeleton, columns: columns.iter().map(|path| self.path(path)).collect() })
    }

    /// Returns the family of a query, if the bindings of one `for` clause decide everything.
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

/// Returns the bits of a number, the same for both zeros.
fn bits(number: f64) -> u64 {
    if number == 0.0 { 0 } else { number.to_bits() }
}

fn of_message(bound: &BoundExpr) -> Option<Arc<Expr>> {
    match bound {
        BoundExpr::Message(expr) => Some(Arc::clone(expr)),
        BoundExpr::Node(..) | BoundExpr::Variables(..) => None,
    }
}

/// Returns the loop that decides everything that is not constant, if there is one.
fn only_loop(op: &Instruction) -> Option<&FlwrLoop> {
    match op {
        Instruction::Loop(each) if each.is_independent => Some(each),
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

/// Returns an instruction with [`Instruction::Bindings`] in place of its only loop.
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
