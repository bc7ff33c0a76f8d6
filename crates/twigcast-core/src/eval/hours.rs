//! `twig:now()` and `time:within()`: when the message was published, and whether a time is in a window that recurs.

use crate::query::ast::Expr;
use crate::query::functions::ExprType;
use crate::query::typed::{CastType, TypedValue};
use crate::util::hours::RecurringHours;
use crate::util::temporal::{Temporal, TemporalType};

use super::evaluator::Evaluator;
use super::value::{Context, EvalError};

/// Visits that finding out what clocks show in a zone counts as.
const ZONE_VISITS: u64 = 60;

impl<'a> Evaluator<'a> {
    /// Returns when the message was published; nothing where there is no message.
    pub(super) fn published(&self) -> Option<Temporal> {
        Temporal::of_number(TemporalType::DateTime, self.message.document.published?)
    }

    /// Evaluates `time:within()`.
    pub(super) fn is_within(&self, arguments: &'a [Expr], context: Context) -> Result<bool, EvalError> {
        let cast = CastType::Temporal(TemporalType::DateTime);
        let time = match self.type_of(&arguments[0]) {
            ExprType::Temporal(_) => self.typed(&arguments[0], context)?,
            ExprType::NodeSet => match self.first_node(&arguments[0], context)? {
                Some(node) => self.typed_value(node, cast)?,
                None => None,
            },
            _ => cast.parse(&self.string(&arguments[0], context)?),
        };
        let (Some(TypedValue::Temporal(time)), [_, Expr::Literal(windows), Expr::Literal(zone)]) = (time, arguments)
        else {
            return Ok(false);
        };
        self.charge(ZONE_VISITS)?;
        // The parser has checked both.
        Ok(RecurringHours::parse(windows, zone).is_ok_and(|hours| hours.contain(time)))
    }
}
