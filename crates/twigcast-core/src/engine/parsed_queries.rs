//! Expressions of queries of which the engine keeps only the text.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::query::ast::Expr;
use crate::vocabulary::Vocabulary;

/// Parsed expressions that are kept at most.
const EXPRESSIONS_MAX: usize = 1 << 16;

/// A cache of the expressions of queries that the engine keeps as text, parsed on demand. One per matcher.
#[derive(Debug, Default)]
pub(super) struct ParsedQueries {
    /// A copy of the engine's vocabulary: a name has the same id in both. Parsing adds no name, since registration has
    /// added all of them.
    vocabulary: Vocabulary,
    expressions: FxHashMap<u32, Arc<Expr>>,
    /// The identity and version of the engine that the cache belongs to.
    valid_for: (u64, u64),
}

impl ParsedQueries {
    /// Returns the expression of a query, parsing it if the cache does not have it; `None` if `parse` returns none.
    pub(super) fn expression(
        &mut self,
        valid_for: (u64, u64),
        vocabulary: &Vocabulary,
        query: u32,
        parse: impl FnOnce(&mut Vocabulary) -> Option<Expr>,
    ) -> Option<Arc<Expr>> {
        if self.valid_for != valid_for {
            *self = Self { vocabulary: vocabulary.clone(), expressions: FxHashMap::default(), valid_for };
        }
        if let Some(expr) = self.expressions.get(&query) {
            return Some(Arc::clone(expr));
        }
        let expr = Arc::new(parse(&mut self.vocabulary)?);
        if self.expressions.len() >= EXPRESSIONS_MAX {
            self.expressions.clear();
        }
        self.expressions.insert(query, Arc::clone(&expr));
        Some(expr)
    }
}
