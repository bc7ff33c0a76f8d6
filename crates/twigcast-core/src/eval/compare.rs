//! Comparisons (Recommendation, section 3.4). With a node-set they are existential: one node that satisfies is enough,
//! so a comparison with a constant stops there, and one between two node-sets goes through a hash table or the extremes.

use std::rc::Rc;

use crate::document::NO_NODE;
use crate::query::ast::{CompareOp, Expr, Function, Path};
use crate::query::functions::ExprType;
use crate::util::number;

use super::axis_summaries::Summary;
use super::cached::{JoinedBy, StringValues};
use super::evaluator::{Evaluator, OPERATION_VISITS};
use super::node::NodeRef;
use super::summaries::{Likeness, NumberEnds};
use super::typed::comparison_type;
use super::value::{Context, EvalError, Halt};

impl<'a> Evaluator<'a> {
    /// Returns the value of a comparison.
    pub(super) fn compare(
        &self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Result<bool, EvalError> {
        self.charge(OPERATION_VISITS)?;
        let types = (self.type_of(left), self.type_of(right));
        if let Some(cast) = comparison_type((left, types.0), (right, types.1)) {
            return self.compare_typed(op, (left, types.0), (right, types.1), cast, context);
        }
        match types {
            (ExprType::NodeSet, ExprType::NodeSet) => self.compare_sets(op, left, right, context),
            // In an equality the type of the other operand comes second to `boolean`, with a node-set also in an order.
            (ExprType::Boolean, ExprType::NodeSet) | (ExprType::NodeSet, ExprType::Boolean) => {
                let (left, right) = (self.boolean(left, context)?, self.boolean(right, context)?);
                Ok(op.holds(f64::from(u8::from(left)), f64::from(u8::from(right))))
            }
            (ExprType::NodeSet, other) => self.compare_set(op, left, right, other, context),
            (other, ExprType::NodeSet) => self.compare_set(op.flipped(), right, left, other, context),
            (ExprType::Boolean, _) | (_, ExprType::Boolean) if op.is_equality() => {
                let equal = self.boolean(left, context)? == self.boolean(right, context)?;
                Ok(equal == (op == CompareOp::Equal))
            }
            (ExprType::String, ExprType::String) if op.is_equality() => {
                let (left, right) = (self.text(left, context)?, self.text(right, context)?);
                self.charge_text(left.text.len().min(right.text.len()))?;
                Ok((*left.text == *right.text) == (op == CompareOp::Equal))
            }
            _ => {
                let (left, right) = (self.bounded(left, right, context)?, self.bounded(right, left, context)?);
                Ok(op.holds(left, right))
            }
        }
    }

    /// Returns a number for a comparison with another expression. A count is not carried further than a constant it is
    /// compared with: `count(x) > 2` is decided at the third node.
    fn bounded(&self, expr: &'a Expr, other: &Expr, context: Context) -> Result<f64, EvalError> {
        if let (Expr::Call { function: Function::Count, arguments }, Expr::Number(constant)) = (expr, other)
            && let [Expr::Path(path)] = arguments.as_slice()
            && self.anchor(expr, context).is_none()
        {
            // A cast to integer saturates; NaN gives 0, which is as good as any since nothing compares with NaN.
            let enough = (constant.max(0.0) as usize).saturating_add(1);
            if enough == 1 && !path.steps.is_empty() {
                return Ok(f64::from(u8::from(self.path_exists(path, context)?)));
            }
            return Ok(self.path_count(path, context, enough)? as f64);
        }
        self.number(expr, context)
    }

    /// Compares a node-set with a number or a string.
    fn compare_set(
        &self,
        op: CompareOp,
        set: &'a Expr,
        other: &'a Expr,
        other_type: ExprType,
        context: Context,
    ) -> Result<bool, EvalError> {
        if op.is_equality() && other_type == ExprType::String {
            let equal = op == CompareOp::Equal;
            if let Expr::Literal(expected) = other
                && let Some(holds) =
                    self.set_in_table(set, context, &mut |node| Ok(self.has_value(node, expected)? == equal))?
            {
                return Ok(holds);
            }
            let expected = self.text(other, context)?.text;
            if !other.is_constant()
                && let Some(holds) = self.compare_text_along(equal, set, &expected, context)?
            {
                return Ok(holds);
            }
            return self.any_of(set, context, &mut |node| halt_if(self.has_value(node, &expected)? == equal));
        }
        let number = self.number(other, context)?;
        if other.is_constant()
            && let Some(holds) =
                self.set_in_table(set, context, &mut |node| Ok(op.holds(self.number_value(node)?, number)))?
        {
            return Ok(holds);
        }
        if !other.is_constant()
            && op != CompareOp::Equal
            && let Some(numbers) = self.numbers_known(set, context)?
        {
            return Ok(numbers.any_compares(op, number));
        }
        if !other.is_constant()
            && op == CompareOp::Equal
            && let Some(path) = fixed_path(set).filter(|path| self.is_joinable(path))
            && let Some(holds) = self.joined((path, JoinedBy::Number), context, |_, occurs| {
                Ok(!number.is_nan() && occurs(&number::format(number)))
            })?
        {
            return Ok(holds);
        }
        self.any_of(set, context, &mut |node| halt_if(op.holds(self.number_value(node)?, number)))
    }

    /// Compares a node-set along an axis with a text that differs from node to node; nothing if the values of the set are not
    /// known for all context nodes at once.
    fn compare_text_along(
        &self,
        is_equality: bool,
        set: &'a Expr,
        text: &str,
        context: Context,
    ) -> Result<Option<bool>, EvalError> {
        if is_equality {
            let Some(path) = fixed_path(set).filter(|path| self.is_joinable(path)) else { return Ok(None) };
            return self.joined((path, JoinedBy::Text), context, |_, occurs| Ok(occurs(text)));
        }
        if fixed_path(set).is_some_and(|path| self.path_anchor(path, context) == Some(NO_NODE)) {
            // Whatever the text is, it differs from one of two different values.
            let strings = self.strings(set, context)?;
            return Ok(Some(strings.len() > 1 || strings.all.iter().any(|only| **only != *text)));
        }
        match self.likeness_along(set, context)? {
            None => Ok(None),
            Some(Likeness::Nothing) => Ok(Some(false)),
            Some(Likeness::Alike(_, node)) => Ok(Some(!self.has_value(node, text)?)),
            Some(Likeness::Different) => Ok(Some(true)),
        }
    }

    /// Returns whether two node-sets, one of them along an axis, have different values; nothing if the values of none are known
    /// for all context nodes at once.
    fn differ_along(&self, left: &'a Expr, right: &'a Expr, context: Context) -> Result<Option<bool>, EvalError> {
        let (known, other) = match (self.likeness_along(left, context)?, self.likeness_along(right, context)?) {
            (Some(Likeness::Nothing), _) | (_, Some(Likeness::Nothing)) => return Ok(Some(false)),
            // Whatever the other side holds, it differs from one of two different values.
            (Some(Likeness::Different), Some(_)) | (Some(_), Some(Likeness::Different)) => return Ok(Some(true)),
            (Some(Likeness::Alike(_, one)), Some(Likeness::Alike(_, another))) => {
                return Ok(Some(!self.has_value(one, &self.string_value(another)?)?));
            }
            (Some(known), None) => (known, right),
            (None, Some(known)) => (known, left),
            (None, None) => return Ok(None),
        };
        let expected = match known {
            Likeness::Nothing => return Ok(Some(false)),
            Likeness::Different => None,
            Likeness::Alike(_, node) => Some(self.string_value(node)?),
        };
        let differs = |node| match &expected {
            None => Ok(true),
            Some(expected) => Ok::<_, EvalError>(!self.has_value(node, expected)?),
        };
        self.any_of(other, context, &mut |node| halt_if(differs(node)?)).map(Some)
    }

    fn compare_sets(
        &self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Result<bool, EvalError> {
        if !op.is_equality() {
            return self.compare_extremes(op, left, right, context);
        }
        // The table is made of the side that is the same for each context node, if there is one.
        let anchor = |set: &Expr| {
            let path = fixed_path(set).filter(|path| !self.is_joinable(path))?;
            self.path_anchor(path, context)
        };
        let (anchor_left, anchor_right) = (anchor(left), anchor(right));
        if op == CompareOp::Equal && anchor_left.is_none() && anchor_right.is_none() {
            for (along, other) in [(right, left), (left, right)] {
                if let Some(holds) = self.compare_along(along, other, context)? {
                    return Ok(holds);
                }
            }
        }
        // What all siblings have in common may still differ for each element of a deep message.
        if op == CompareOp::NotEqual
            && anchor_left != Some(NO_NODE)
            && anchor_right != Some(NO_NODE)
            && let Some(holds) = self.differ_along(left, right, context)?
        {
            return Ok(holds);
        }
        let (table, other) = if anchor_left.is_some() { (left, right) } else { (right, left) };
        let is_fixed = anchor_left.or(anchor_right) == Some(NO_NODE);
        let strings = self.strings(table, context)?;
        let Some(one) = strings.all.iter().next() else { return Ok(false) };
        let holds = |node: NodeRef| match (op == CompareOp::Equal, strings.len()) {
            (equal, 1) => Ok(self.has_value(node, one)? == equal),
            (true, _) => {
                let text = self.short_reading(node, strings.longest)?;
                Ok(text.is_some_and(|text| strings.all.contains(&*text)))
            }
            // Whatever the other side holds, it differs from one of two different strings.
            (false, _) => Ok(true),
        };
        if is_fixed && let Some(holds) = self.set_in_table(other, context, &mut |node| holds(node))? {
            return Ok(holds);
        }
        self.any_of(other, context, &mut |node| halt_if(holds(node)?))
    }

    /// Has one node-set a value that another one has, whose values are known for all context nodes at once? Nothing if
    /// they are not.
    fn compare_along(&self, along: &'a Expr, other: &'a Expr, context: Context) -> Result<Option<bool>, EvalError> {
        let Some(path) = fixed_path(along).filter(|path| self.is_joinable(path)) else { return Ok(None) };
        self.joined((path, JoinedBy::Text), context, |longest, occurs| {
            self.any_of(other, context, &mut |node| {
                let text = self.short_reading(node, longest)?;
                halt_if(text.is_some_and(|text| occurs(&text)))
            })
        })
    }

    /// Returns the distinct string-values of a node-set, remembered where they do not depend on the context.
    fn strings(&self, expr: &'a Expr, context: Context) -> Result<Rc<StringValues>, EvalError> {
        let fixed = fixed_path(expr).and_then(|path| Some((path, self.path_anchor(path, context)?)));
        let cached = fixed.and_then(|fixed| self.cache.borrow().strings(fixed));
        if let Some(strings) = cached {
            return Ok(strings);
        }
        let mut strings = StringValues::default();
        self.any_of(expr, context, &mut |node| {
            strings.insert(&self.whole_reading(node)?);
            Ok(())
        })?;
        let strings = Rc::new(strings);
        if let Some(fixed) = fixed {
            self.cache.borrow_mut().keep_strings(fixed, &strings);
        }
        Ok(strings)
    }

    /// Compares node-sets by order: some pair satisfies iff the smallest of one and the largest of the other do.
    fn compare_extremes(
        &self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        context: Context,
    ) -> Result<bool, EvalError> {
        let Some((left_min, left_max)) = self.number_ends(left, context)?.ends else { return Ok(false) };
        let Some((right_min, right_max)) = self.number_ends(right, context)?.ends else { return Ok(false) };
        Ok(match op {
            CompareOp::Less | CompareOp::LessOrEqual => op.holds(left_min, right_max),
            _ => op.holds(left_max, right_min),
        })
    }

    /// Returns the least and the greatest number of a node-set, where these are found for many context nodes at once.
    fn numbers_known(&self, set: &'a Expr, context: Context) -> Result<Option<NumberEnds>, EvalError> {
        let is_same_everywhere = fixed_path(set).is_some_and(|path| self.path_anchor(path, context) == Some(NO_NODE));
        if is_same_everywhere { self.number_ends(set, context).map(Some) } else { self.numbers_along(set, context) }
    }

    /// Returns the least and the greatest number of a node-set, remembered where they do not depend on the context.
    fn number_ends(&self, expr: &'a Expr, context: Context) -> Result<NumberEnds, EvalError> {
        let fixed = fixed_path(expr).and_then(|path| Some((path, self.path_anchor(path, context)?)));
        let cached = fixed.and_then(|fixed| self.cache.borrow().extremes(fixed));
        if let Some((ends, has_other)) = cached {
            return Ok(NumberEnds { ends, has_other });
        }
        if fixed.is_none_or(|(_, anchor)| anchor != NO_NODE)
            && let Some(numbers) = self.numbers_along(expr, context)?
        {
            return Ok(numbers);
        }
        let mut ends = NumberEnds::NOTHING;
        self.any_of(expr, context, &mut |node: NodeRef| {
            ends = ends.and(NumberEnds::of(self.number_value(node)?));
            Ok(())
        })?;
        if let Some(fixed) = fixed {
            self.cache.borrow_mut().keep_extremes(fixed, (ends.ends, ends.has_other));
        }
        Ok(ends)
    }
}

fn fixed_path(expr: &Expr) -> Option<&Path> {
    match expr {
        Expr::Path(path) => Some(path),
        _ => None,
    }
}

fn halt_if(satisfied: bool) -> Result<(), Halt> {
    if satisfied { Err(Halt::Stopped) } else { Ok(()) }
}
