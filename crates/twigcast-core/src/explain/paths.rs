//! Reports on paths: how far they lead, step by step.

use crate::eval::{Context, EvalError, NodeRef, Value};
use crate::query::ast::{Axis, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};

use super::location::{location, shortened};
use super::names::{self, NameCensus};
use super::report::{Example, Hint, HintKind, PathReport, StepReport, Verdict};
use super::{Explainer, report};

/// Candidates that are compared to find the nearest.
const CANDIDATES_MAX: usize = 60;
/// Candidates that are explained in full to find the nearest, at the top and inside predicates.
const EXPLAINED_MAX: [usize; 2] = [4, 1];
/// Context nodes whose surroundings are searched for similar names.
const CONTEXTS_MAX: usize = 1_000;
/// Names that are listed as being there instead.
const INSTEAD_MAX: usize = 8;

/// A step with the `//` before it, if any.
struct PathHop<'a> {
    gap: Option<&'a Step>,
    step: &'a Step,
    text: String,
}

/// The nodes that a step left.
struct StepOutcome {
    report: StepReport,
    /// In document order.
    selected: Vec<NodeRef>,
    /// The first predicate that no node passes, and the nodes that reached it.
    failed: Option<(usize, Vec<Context>)>,
}

impl<'a> Explainer<'a> {
    /// Returns how far a path leads from a context.
    pub(super) fn path(&self, path: &'a Path, context: Context, depth: usize) -> Result<PathReport, EvalError> {
        let mut steps = Vec::new();
        let start = self.start(path, context, &mut steps)?;
        if start.is_empty() {
            return Ok(PathReport { selected: 0, steps });
        }
        let mut levels = vec![start];
        let links = self.links(path);
        for link in &links {
            let contexts = self.with_gap(link, &levels[levels.len() - 1])?;
            let mut taken = self.take(link, &contexts)?;
            if taken.selected.is_empty() {
                self.explain_failure(link, &contexts, &mut taken, depth)?;
                steps.push(taken.report);
                return Ok(PathReport { selected: 0, steps });
            }
            levels.push(taken.selected);
            steps.push(taken.report);
        }
        let selected = levels.last().map_or(0, Vec::len);
        if selected > 0 {
            let before = steps.len() - links.len();
            self.add_witness(&links, &levels, &mut steps[before..], depth)?;
        }
        Ok(PathReport { selected, steps })
    }

    /// Returns where a path starts. A filter expression, such as `(//a)[2]`, is reported as a step.
    fn start(&self, path: &'a Path, context: Context, steps: &mut Vec<StepReport>) -> Result<Vec<NodeRef>, EvalError> {
        match &path.start {
            PathStart::Root => Ok(vec![NodeRef::Node(0)]),
            PathStart::Context => Ok(vec![context.node]),
            PathStart::Variable(_) => Ok(Vec::new()),
            PathStart::Filter { primary, predicates } => {
                let Value::Nodes(mut nodes) = self.evaluator.value(primary, context)? else {
                    return Err(EvalError::NotANodeSet);
                };
                let candidates = nodes.len();
                let mut remaining = Vec::new();
                for predicate in predicates {
                    self.evaluator.keep(predicate, &mut nodes)?;
                    remaining.push((self.text(predicate), nodes.len()));
                }
                let alone = Expr::Path(Path { start: path.start.clone(), steps: Vec::new() });
                steps.push(StepReport {
                    text: self.text(&alone),
                    contexts: 1,
                    candidates,
                    predicates: remaining,
                    selected: nodes.len(),
                    example: None,
                    hints: Vec::new(),
                });
                Ok(nodes)
            }
        }
    }

    fn links(&self, path: &'a Path) -> Vec<PathHop<'a>> {
        let mut links = Vec::new();
        let mut gap = None;
        for (index, step) in path.steps.iter().enumerate() {
            let is_gap =
                step.axis == Axis::DescendantOrSelf && step.test == NodeTest::Node && step.predicates.is_empty();
            if is_gap && gap.is_none() && index + 1 < path.steps.len() {
                gap = Some(step);
                continue;
            }
            let alone = Expr::Path(Path { start: PathStart::Context, steps: vec![step.clone()] });
            let slashes = match (gap.is_some(), links.is_empty(), &path.start) {
                (true, true, PathStart::Context) => ".//",
                (true, _, _) => "//",
                (false, true, PathStart::Context) => "",
                (false, _, _) => "/",
            };
            links.push(PathHop { gap: gap.take(), step, text: format!("{slashes}{}", self.text(&alone)) });
        }
        links
    }

    fn with_gap(&self, link: &PathHop<'a>, contexts: &[NodeRef]) -> Result<Vec<NodeRef>, EvalError> {
        match link.gap {
            Some(gap) => self.evaluator.step(contexts, gap),
            None => Ok(contexts.to_vec()),
        }
    }

    fn take(&self, link: &PathHop<'a>, contexts: &[NodeRef]) -> Result<StepOutcome, EvalError> {
        let step = link.step;
        let selected = self.evaluator.step(contexts, step)?;
        let mut candidates = 0;
        let mut remaining = vec![0; step.predicates.len()];
        let mut reached: Vec<Vec<Context>> = vec![Vec::new(); step.predicates.len()];
        for &from in contexts {
            let mut list = self.evaluator.candidates(from, step.axis, &step.test)?;
            candidates += list.len();
            for (index, predicate) in step.predicates.iter().enumerate() {
                let size = list.len() as u32;
                for (position, &node) in list.iter().enumerate() {
                    if reached[index].len() >= CANDIDATES_MAX {
                        break;
                    }
                    reached[index].push(Context { node, position: position as u32 + 1, size });
                }
                self.evaluator.keep(predicate, &mut list)?;
                remaining[index] += list.len();
            }
        }
        let failed = remaining
            .iter()
            .position(|&count| count == 0)
            .map(|index| (index, std::mem::take(&mut reached[index])))
            .filter(|(_, reached)| !reached.is_empty());
        let texts = step.predicates.iter().map(|predicate| self.text(predicate));
        let report = StepReport {
            text: link.text.clone(),
            contexts: contexts.len(),
            candidates,
            predicates: texts.zip(remaining).collect(),
            selected: selected.len(),
            example: None,
            hints: Vec::new(),
        };
        Ok(StepOutcome { report, selected, failed })
    }

    /// Adds the nearest nodes when a step selects nothing.
    fn explain_failure(
        &self,
        link: &PathHop<'a>,
        contexts: &[NodeRef],
        taken: &mut StepOutcome,
        depth: usize,
    ) -> Result<(), EvalError> {
        let report = &mut taken.report;
        match taken.failed.take() {
            Some((index, reached)) => {
                report.hints.extend(self.values_there(&link.step.predicates[index], &reached)?);
                report.example = self.nearest_candidate(link.step, &reached, depth)?;
                if let Some(example) = &report.example {
                    report.hints.extend(one_predicate(example));
                }
            }
            None => report.hints = self.missing(contexts, link)?,
        }
        Ok(())
    }

    /// Returns the different values of what a predicate compares with a constant, at all candidates.
    fn values_there(&self, predicate: &'a Expr, reached: &[Context]) -> Result<Vec<Hint>, EvalError> {
        let (Expr::Compare { .. } | Expr::And(_) | Expr::Call { .. }, [_, _, ..]) = (predicate, reached) else {
            return Ok(Vec::new());
        };
        if let Expr::And(operands) = predicate {
            let hints = operands.iter().map(|operand| self.values_there(operand, reached));
            return Ok(hints.collect::<Result<Vec<_>, _>>()?.concat());
        }
        let Some(set) = compared(predicate) else { return Ok(Vec::new()) };
        let mut values: Vec<String> = Vec::new();
        for &context in reached {
            let Value::Nodes(nodes) = self.evaluator.value(set, context)? else { return Ok(Vec::new()) };
            for node in nodes {
                let value = shortened(&self.evaluator.string_value(node)?);
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        if values.len() < 2 {
            return Ok(Vec::new());
        }
        let more = if values.len() > INSTEAD_MAX { ", ..." } else { "" };
        let shown: Vec<String> = values.iter().take(INSTEAD_MAX).map(|value| format!("{value:?}")).collect();
        let message = format!("over all of them, {} is {}{more}", self.text(set), shown.join(", "));
        Ok(vec![Hint { kind: HintKind::Instead, message, location: None }])
    }

    /// Returns the candidate at which most predicates hold, or nearly hold.
    fn nearest_candidate(
        &self,
        step: &'a Step,
        reached: &[Context],
        depth: usize,
    ) -> Result<Option<Example>, EvalError> {
        let mut ranked = Vec::new();
        for &context in reached {
            let mut holding = 0;
            for predicate in &step.predicates {
                holding += usize::from(self.evaluator.holds(predicate, context)?);
            }
            ranked.push((holding, context));
        }
        // Stable: of equals, the first in the message.
        ranked.sort_by_key(|&(holding, _)| std::cmp::Reverse(holding));
        let mut best: Option<(f64, Example)> = None;
        for (_, context) in ranked.into_iter().take(EXPLAINED_MAX[depth.min(1)]) {
            let predicates = self.predicate_verdicts(step, context, depth)?;
            let nearness = predicates.iter().map(Verdict::nearness).sum::<f64>();
            if best.as_ref().is_none_or(|(existing, _)| nearness > *existing) {
                best = Some((nearness, Example { location: location(&self.evaluator, context.node)?, predicates }));
            }
        }
        Ok(best.map(|(_, example)| example))
    }

    fn predicate_verdicts(&self, step: &'a Step, context: Context, depth: usize) -> Result<Vec<Verdict>, EvalError> {
        step.predicates.iter().map(|predicate| self.predicate_verdict(predicate, context, depth + 1)).collect()
    }

    /// Follows the first selected node back to the start, and gives it as example at each step.
    fn add_witness(
        &self,
        links: &[PathHop<'a>],
        levels: &[Vec<NodeRef>],
        steps: &mut [StepReport],
        depth: usize,
    ) -> Result<(), EvalError> {
        let mut node = levels[levels.len() - 1][0];
        for (index, link) in links.iter().enumerate().rev() {
            let origin = self.origin(link, &levels[index], node)?;
            let mut predicates = Vec::new();
            if let Some((from, _)) = origin {
                let mut list = self.evaluator.candidates(from, link.step.axis, &link.step.test)?;
                for predicate in &link.step.predicates {
                    let position = list.iter().position(|&other| other == node).unwrap_or(0) as u32 + 1;
                    let context = Context { node, position, size: list.len() as u32 };
                    predicates.push(self.predicate_verdict(predicate, context, depth + 1)?);
                    self.evaluator.keep(predicate, &mut list)?;
                }
            }
            steps[index].example = Some(Example { location: location(&self.evaluator, node)?, predicates });
            match origin {
                Some((_, start)) => node = start,
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the context node from which a step reached a node, and the one before the `//`.
    fn origin(
        &self,
        link: &PathHop<'a>,
        contexts: &[NodeRef],
        node: NodeRef,
    ) -> Result<Option<(NodeRef, NodeRef)>, EvalError> {
        for &start in contexts.iter().take(CONTEXTS_MAX) {
            for from in self.with_gap(link, &[start])? {
                if self.evaluator.step(&[from], link.step)?.contains(&node) {
                    return Ok(Some((from, start)));
                }
            }
        }
        Ok(None)
    }

    /// Returns hints about the nodes that exist where none passes a step's test.
    fn missing(&self, contexts: &[NodeRef], link: &PathHop<'a>) -> Result<Vec<Hint>, EvalError> {
        let step = link.step;
        if step.test == NodeTest::Text {
            return self.text_inside(contexts);
        }
        let NodeTest::Name(test) = step.test else { return Ok(Vec::new()) };
        let around = self.census(contexts, step.axis)?;
        let NameTest::Name(name) = test else { return Ok(instead(&around)) };
        let expected = (
            self.vocabulary.namespace_uri(name.namespace).to_owned(),
            self.vocabulary.local_name(name.local).to_owned(),
        );
        let mut hints = self.placed(names::nearest(&expected, &around))?;
        let is_attribute = step.axis == Axis::Attribute;
        let other_axis = if is_attribute { Axis::Child } else { Axis::Attribute };
        // Attributes mostly have no namespace where their elements have one.
        let others = self.census(contexts, other_axis)?;
        if let Some((_, &node)) = others.iter().find(|((_, local), _)| *local == expected.1) {
            let message = if is_attribute {
                format!("`{}` is an element there, not an attribute: write it without @", expected.1)
            } else {
                format!("`{}` is an attribute there, not an element: write @{}", expected.1, expected.1)
            };
            hints.push(self.hint(HintKind::AttributeOrElement, message, node)?);
        }
        if hints.is_empty() {
            let (elements, attributes) = names::of_message(&self.evaluator);
            let everywhere = if is_attribute { attributes } else { elements };
            if let Some(&node) = everywhere.get(&expected) {
                let message = format!("`{}` is elsewhere in the message", expected.1);
                hints.push(self.hint(HintKind::Elsewhere, message, node)?);
            } else {
                hints = self.placed(names::nearest(&expected, &everywhere))?;
            }
            hints.extend(instead(&around));
        }
        Ok(hints)
    }

    /// Returns the names on an axis.
    fn census(&self, contexts: &[NodeRef], axis: Axis) -> Result<NameCensus, EvalError> {
        let mut census = NameCensus::new();
        for &from in contexts.iter().take(CONTEXTS_MAX) {
            for node in self.evaluator.candidates(from, axis, &NodeTest::Name(NameTest::Any))? {
                names::enter(&mut census, &self.evaluator, node);
            }
        }
        Ok(census)
    }

    fn placed(&self, result: Vec<(HintKind, String, NodeRef)>) -> Result<Vec<Hint>, EvalError> {
        result.into_iter().map(|(kind, message, node)| self.hint(kind, message, node)).collect()
    }

    fn hint(&self, kind: HintKind, message: String, node: NodeRef) -> Result<Hint, EvalError> {
        Ok(Hint { kind, message, location: Some(location(&self.evaluator, node)?) })
    }

    /// Returns the hint that there is text only inside child elements.
    fn text_inside(&self, contexts: &[NodeRef]) -> Result<Vec<Hint>, EvalError> {
        for &context in contexts.iter().take(CONTEXTS_MAX) {
            let NodeRef::Node(_) = context else { continue };
            if !self.evaluator.string_value(context)?.trim().is_empty() {
                let name = self.evaluator.qualified_name(context);
                let message = format!("`{name}` has text only inside its child elements; its whole value is [. = ...]");
                return Ok(vec![self.hint(HintKind::StringValue, message, context)?]);
            }
        }
        Ok(Vec::new())
    }
}

/// Returns the path that a predicate compares with a constant.
fn compared(predicate: &Expr) -> Option<&Expr> {
    let operand = match predicate {
        Expr::Call { function: Function::Contains | Function::StartsWith, arguments } => match arguments.as_slice() {
            [operand, part] | [part, operand] if part.is_constant() => operand,
            _ => return None,
        },
        _ => predicate.compared_with_constant()?.0,
    };
    matches!(operand, Expr::Path(_)).then_some(operand)
}

/// Returns a hint with the names that are there.
fn instead(around: &NameCensus) -> Vec<Hint> {
    if around.is_empty() {
        return Vec::new();
    }
    let shown: Vec<String> = around.keys().take(INSTEAD_MAX).map(|(_, local)| format!("`{local}`")).collect();
    let more = if around.len() > INSTEAD_MAX { ", ..." } else { "" };
    let message = format!("there is {}{more}", shown.join(", "));
    vec![Hint { kind: HintKind::Instead, message, location: None }]
}

/// Returns the hint that all but one of several conditions hold.
fn one_predicate(example: &Example) -> Option<Hint> {
    let mut failing = Vec::new();
    let mut total = 0;
    for predicate in &example.predicates {
        conditions(predicate, &mut |verdict| {
            total += 1;
            if !verdict.holds {
                failing.push(verdict.text.clone());
            }
        });
    }
    let [only] = failing.as_slice() else { return None };
    (total > 1).then(|| Hint {
        kind: HintKind::OnePredicate,
        message: format!("all holds here but [{only}]"),
        location: Some(example.location.clone()),
    })
}

fn conditions(verdict: &Verdict, visit: &mut dyn FnMut(&Verdict)) {
    match &verdict.detail {
        report::Detail::All(operands) => operands.iter().for_each(|operand| conditions(operand, visit)),
        _ => visit(verdict),
    }
}
