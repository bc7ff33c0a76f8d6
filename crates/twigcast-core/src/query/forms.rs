//! Forms: queries that differ in nothing but their constants are parsed once.
//!
//! Most populations are made of a few forms, each with thousands of values. The *outline* of a query is its text without the
//! strings in quotes and the whole numbers. Of an outline that is met again, the expression is kept in normal form, and the
//! next query of it gets a copy with its own constants.
//!
//! Constants may change what becomes of a query: two that are equal make one condition, a pattern without special characters
//! becomes a part of a text. So a form is kept only if constants that occur nowhere else come through parsing and normalising
//! one by one, in order and unchanged, all at places where their value does not count; and a query whose constants are not all
//! different is parsed.

use std::hash::Hasher;
use std::ops::Range;

use rustc_hash::FxHasher;

use super::ast::{Expr, Function, Path, PathStart, Step};
use super::lexer::first_forbidden_character;
use super::options::{Dialect, ParseOptions};
use super::{Query, normal, parse_noting};
use crate::vocabulary::Vocabulary;

/// The outlines that are known at most. Another one with the same place in the table takes that of the one before.
const FORMS_MAX: usize = 256;
/// The most constants of a form: these are compared each with each.
const CONSTANTS_MAX: usize = 16;
/// The most digits of a number that each double holds exactly.
const DIGITS_MAX: usize = 15;
/// The first of the numbers that stand for others while a form is learnt, and how far the next one is: no range is as long.
const PROBE_NUMBER: u64 = 918_273_645_000;
const PROBE_STEP: usize = 1_000_000_007;

/// What is known of an outline.
#[derive(Clone, Debug, Default)]
enum KnownForm<C> {
    /// Nothing.
    #[default]
    New,
    /// It was met once, as a hash says.
    Met(u64),
    /// Its queries have to be parsed.
    Unfit(u64),
    /// Its queries are copies of one expression.
    Fit(Box<QueryForm<C>>),
}

#[derive(Clone, Debug)]
struct QueryForm<C> {
    outline: String,
    context: C,
    constants: usize,
    expr: Expr,
}

/// A constant in the text of a query.
#[derive(Clone, Debug, PartialEq)]
enum FormConstant {
    Text(Range<usize>),
    Number(Range<usize>),
}

/// The forms of the queries that were parsed lately, each in the context that gives texts their meaning. See the module's
/// documentation.
#[derive(Debug)]
pub(crate) struct QueryForms<C> {
    known: Vec<KnownForm<C>>,
    /// The outline of the query at hand, its hash, and its constants.
    outline: String,
    hash: u64,
    constants: Vec<FormConstant>,
}

impl<C> Default for QueryForms<C> {
    fn default() -> Self {
        Self { known: Vec::new(), outline: String::new(), hash: 0, constants: Vec::new() }
    }
}

impl<C: Clone + Eq> QueryForms<C> {
    /// Returns the expression of a query, in normal form, if one of its form is known. `options` are those of the context.
    pub(crate) fn expression(&mut self, text: &str, context: &C, options: &ParseOptions<'_>) -> Option<Expr> {
        let is_short = text.len() <= options.limits.query_bytes_max;
        if options.dialect == Dialect::XQuery || !is_short || !self.take_apart(text) {
            self.constants.clear();
            return None;
        }
        let KnownForm::Fit(form) = self.known.get(place_of(self.hash))? else { return None };
        let is_same =
            form.constants == self.constants.len() && form.outline == self.outline && form.context == *context;
        if !is_same || first_forbidden_character(text).is_some() {
            return None;
        }
        let mut constants = self.constants.iter().map(|constant| constant.as_expr(text));
        copy(&form.expr, &mut constants)
    }

    /// Learns the form of the query that [`Self::expression`] was asked for last, if it is met again. `expr` is its expression in
    /// normal form.
    pub(crate) fn learn(
        &mut self,
        text: &str,
        context: &C,
        expr: &Expr,
        options: &ParseOptions<'_>,
        vocabulary: &mut Vocabulary,
    ) {
        if self.constants.is_empty() {
            return;
        }
        if self.known.is_empty() {
            self.known.resize_with(FORMS_MAX, KnownForm::default);
        }
        let place = place_of(self.hash);
        self.known[place] = match &self.known[place] {
            KnownForm::Met(hash) if *hash == self.hash => match self.form_of(text, expr, options, vocabulary) {
                Some(expr) => {
                    let (outline, context, constants) = (self.outline.clone(), context.clone(), self.constants.len());
                    KnownForm::Fit(Box::new(QueryForm { outline, context, constants, expr }))
                }
                None => KnownForm::Unfit(self.hash),
            },
            KnownForm::Unfit(hash) if *hash == self.hash => return,
            _ => KnownForm::Met(self.hash),
        };
    }

    /// Returns an expression in normal form of which copies with other constants are those of all queries of the outline at hand;
    /// `None` if there may be others.
    fn form_of(
        &self,
        text: &str,
        expr: &Expr,
        options: &ParseOptions<'_>,
        vocabulary: &mut Vocabulary,
    ) -> Option<Expr> {
        let probes: Vec<Expr> = self
            .constants
            .iter()
            .zip((PROBE_NUMBER..).step_by(PROBE_STEP))
            .map(|(of, number)| of.probe(number))
            .collect();
        let mut probe = String::with_capacity(2 * text.len());
        let mut copied = 0;
        for (constant, value) in self.constants.iter().zip(&probes) {
            let range = constant.range();
            probe.push_str(&text[copied..range.start]);
            match value {
                Expr::Literal(value) => probe.push_str(value),
                Expr::Number(number) => probe.push_str(&number.to_string()),
                _ => {}
            }
            copied = range.end;
        }
        probe.push_str(&text[copied..]);
        let Ok((Query::XPath(parsed), None)) = parse_noting(&probe, options, vocabulary) else { return None };
        if !takes_constants(&parsed) {
            return None;
        }
        let form = normal::normalise(parsed);
        let mut found = Vec::new();
        append_constants(&form, &mut found);
        if !found.into_iter().eq(&probes) {
            return None;
        }
        let mut constants = self.constants.iter().map(|constant| constant.as_expr(text));
        (copy(&form, &mut constants).as_ref() == Some(expr)).then_some(form)
    }

    /// Finds the outline and the constants of a query. Returns `false` if it has none, or such that are not all different.
    fn take_apart(&mut self, text: &str) -> bool {
        self.constants.clear();
        self.outline.clear();
        let bytes = text.as_bytes();
        let (mut position, mut copied) = (0, 0);
        while let Some(&byte) = bytes.get(position) {
            let constant = match byte {
                b'\'' | b'"' => {
                    let Some(length) = memchr::memchr(byte, &bytes[position + 1..]) else { return false };
                    let end = position + 1 + length;
                    // A doubled quote is part of the string.
                    if bytes.get(end + 1) == Some(&byte) {
                        return false;
                    }
                    FormConstant::Text(position + 1..end)
                }
                b'0'..=b'9' => match whole_number(bytes, position) {
                    Ok(end) => FormConstant::Number(position..end),
                    Err(end) => {
                        position = end;
                        continue;
                    }
                },
                // Stands for a number in outlines.
                b'#' => return false,
                _ if is_in_name(byte) => {
                    position += 1;
                    while bytes.get(position).is_some_and(|&next| is_in_name(next)) {
                        position += 1;
                    }
                    continue;
                }
                _ => {
                    position += 1;
                    continue;
                }
            };
            let (range, is_text) = (constant.range(), matches!(constant, FormConstant::Text(_)));
            if self.constants.len() == CONSTANTS_MAX || self.has_constant(text, &constant) {
                return false;
            }
            self.outline.push_str(&text[copied..range.start]);
            if !is_text {
                self.outline.push('#');
            }
            self.constants.push(constant);
            (copied, position) = (range.end, range.end + usize::from(is_text));
        }
        self.outline.push_str(&text[copied..]);
        let mut hasher = FxHasher::default();
        hasher.write(self.outline.as_bytes());
        self.hash = hasher.finish();
        !self.constants.is_empty()
    }

    fn has_constant(&self, text: &str, constant: &FormConstant) -> bool {
        let is_same = |other: &FormConstant| {
            std::mem::discriminant(other) == std::mem::discriminant(constant)
                && text[other.range()] == text[constant.range()]
        };
        self.constants.iter().any(is_same)
    }
}

impl FormConstant {
    fn range(&self) -> Range<usize> {
        match self {
            Self::Text(range) | Self::Number(range) => range.clone(),
        }
    }

    fn as_expr(&self, text: &str) -> Expr {
        match self {
            Self::Text(range) => Expr::Literal(text[range.clone()].into()),
            Self::Number(range) => Expr::Number(text[range.clone()].parse().unwrap_or(f64::NAN)),
        }
    }

    /// Returns a constant of the same type that no query has.
    fn probe(&self, number: u64) -> Expr {
        match self {
            Self::Text(_) => Expr::Literal(format!("~{number}~").into()),
            Self::Number(_) => Expr::Number(number as f64),
        }
    }
}

fn place_of(hash: u64) -> usize {
    (hash >> 32) as usize % FORMS_MAX
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.') || byte >= 0x80
}

/// Returns where the whole number ends that begins at a position; as an error, where anything else ends that does.
fn whole_number(bytes: &[u8], start: usize) -> Result<usize, usize> {
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let end = start + length;
    let after = bytes[end..].iter().take_while(|&&byte| is_in_name(byte)).count();
    let is_whole = after == 0 && length <= DIGITS_MAX && (length == 1 || bytes[start] != b'0');
    if is_whole { Ok(end) } else { Err(end + after) }
}

/// Returns whether all constants of an expression stand where nothing but the message decides what becomes of them.
fn takes_constants(expr: &Expr) -> bool {
    match expr {
        Expr::Or(operands) | Expr::And(operands) | Expr::Union(operands) => operands.iter().all(takes_constants),
        Expr::Compare { op, left, right } => [left, right].into_iter().all(|side| match &**side {
            Expr::Literal(_) => op.is_equality(),
            Expr::Number(_) => true,
            other => takes_constants(other),
        }),
        Expr::Arithmetic { left, right, .. } => [left, right].into_iter().all(|side| match &**side {
            Expr::Number(_) => true,
            other => takes_constants(other),
        }),
        Expr::Path(Path { start, steps }) => {
            let of_start = match start {
                PathStart::Root | PathStart::Context => true,
                PathStart::Variable(_) => false,
                PathStart::Filter { primary, predicates } => {
                    takes_constants(primary) && predicates.iter().all(takes_constants)
                }
            };
            of_start && steps.iter().flat_map(|step| &step.predicates).all(takes_constants)
        }
        Expr::Call { function, arguments } => arguments.iter().all(|argument| match (function, argument) {
            (
                Function::Contains
                | Function::StartsWith
                | Function::EndsWith
                | Function::Concat
                | Function::SubstringBefore
                | Function::SubstringAfter
                | Function::Translate,
                Expr::Literal(_),
            )
            | (Function::Substring, Expr::Number(_)) => true,
            _ => is_of_nodes(*function) && takes_constants(argument),
        }),
        Expr::Negate(_)
        | Expr::Map { .. }
        | Expr::Number(_)
        | Expr::Literal(_)
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => false,
    }
}

/// Returns whether a function of XPath 1.0 is parsed as it stands, whatever constants are in its arguments.
fn is_of_nodes(function: Function) -> bool {
    matches!(
        function,
        Function::Last
            | Function::Position
            | Function::Count
            | Function::LocalName
            | Function::NamespaceUri
            | Function::Name
            | Function::String
            | Function::Concat
            | Function::StartsWith
            | Function::Contains
            | Function::EndsWith
            | Function::SubstringBefore
            | Function::SubstringAfter
            | Function::Substring
            | Function::StringLength
            | Function::NormalizeSpace
            | Function::Translate
            | Function::Boolean
            | Function::Not
            | Function::True
            | Function::False
            | Function::Number
            | Function::Sum
            | Function::LowerCase
            | Function::UpperCase
    )
}

/// Appends the constants of an expression in the order in which [`copy`] replaces them.
fn append_constants<'e>(expr: &'e Expr, constants: &mut Vec<&'e Expr>) {
    if matches!(expr, Expr::Number(_) | Expr::Literal(_)) {
        constants.push(expr);
    }
    expr.operands().chain(expr.predicates()).for_each(|part| append_constants(part, constants));
}

/// Returns an expression with other constants; `None` if it has more of them, or parts that no form has.
fn copy(expr: &Expr, constants: &mut impl Iterator<Item = Expr>) -> Option<Expr> {
    fn list(operands: &[Expr], constants: &mut impl Iterator<Item = Expr>) -> Option<Vec<Expr>> {
        let mut copies = Vec::with_capacity(operands.len());
        for operand in operands {
            copies.push(copy(operand, constants)?);
        }
        Some(copies)
    }
    Some(match expr {
        Expr::Number(_) | Expr::Literal(_) => constants.next()?,
        Expr::Or(operands) => Expr::Or(list(operands, constants)?),
        Expr::And(operands) => Expr::And(list(operands, constants)?),
        Expr::Union(operands) => Expr::Union(list(operands, constants)?),
        Expr::Compare { op, left, right } => {
            let (left, right) = (Box::new(copy(left, constants)?), Box::new(copy(right, constants)?));
            Expr::Compare { op: *op, left, right }
        }
        Expr::Arithmetic { op, left, right } => {
            let (left, right) = (Box::new(copy(left, constants)?), Box::new(copy(right, constants)?));
            Expr::Arithmetic { op: *op, left, right }
        }
        Expr::Path(Path { start, steps: of }) => {
            let start = match start {
                PathStart::Filter { primary, predicates } => {
                    let primary = Box::new(copy(primary, constants)?);
                    PathStart::Filter { primary, predicates: list(predicates, constants)? }
                }
                start => start.clone(),
            };
            let mut steps = Vec::with_capacity(of.len());
            for step in of {
                let predicates = list(&step.predicates, constants)?;
                steps.push(Step { axis: step.axis, test: step.test.clone(), predicates });
            }
            Expr::Path(Path { start, steps })
        }
        Expr::Call { function, arguments } => {
            Expr::Call { function: *function, arguments: list(arguments, constants)? }
        }
        Expr::Negate(_)
        | Expr::Map { .. }
        | Expr::Pattern(_)
        | Expr::Selection(_)
        | Expr::Region(_)
        | Expr::Typed(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    /// Whatever is met before: each query is what it is when it is parsed by itself.
    #[test]
    fn a_query_is_the_same_whatever_was_met_before() {
        let (namespaces, limits, mut vocabulary) = ([("p", "urn:p")], Limits::default(), Vocabulary::new());
        let outlines = [
            "/a[b = '{}' and c != '{}']",
            "//a[@k = {} or @k = {}][p:d > {}]",
            "//a[{}]/b[position() < {}]",
            "//a[exists(b) or {}]",
            "//a['{}' or c]",
            "//a[count(b) > {} and exists(c)]",
            "//a[matches(@k, '{}')]",
            "//a[contains(@k, '{}') or starts-with(., \"{}\")]",
            "//a[substring(@k, {}, {}) = '{}']",
            "//a[@k < '{}']",
            "//a[@k + {} = -{}]",
            "//a[b = ('{}', '{}')]",
            "//a[b = {} to {}]",
            "//a[b{}-{} = {}.5]",
            "//a[p{} = {}e1]",
            "//a[{} = {}]",
            "//a[. contains text '{}']",
            "//a[b = '{}''{}']",
            "//a[xs:date(@d) = xs:date('{}')]",
            "(//a[b = '{}'])[{}]/c | /d[not(. = '{}')]",
        ];
        let values = ["1", "2", "0", "00", "7", "a.b", "x", "", "12345678901234567890", "2026-01-02", "#", "x y"];
        for dialect in [Dialect::XPath, Dialect::Native, Dialect::Legacy, Dialect::Doubles] {
            let options = ParseOptions::new(&namespaces, dialect, &limits);
            let (mut forms, mut copies, context) = (QueryForms::default(), 0, 3);
            for round in 0..60 {
                for (number, outline) in outlines.into_iter().enumerate() {
                    let mut next = round * 7 + number;
                    let mut text = String::new();
                    for (index, part) in outline.split("{}").enumerate() {
                        if index > 0 {
                            next = next * 5 + 3;
                            text.push_str(values[next / 3 % values.len()]);
                        }
                        text.push_str(part);
                    }
                    let copied = forms.expression(&text, &context, &options);
                    let parsed = match parse_noting(&text, &options, &mut vocabulary) {
                        Ok((Query::XPath(expr), note)) => Some((normal::normalise(expr), note)),
                        _ => None,
                    };
                    if let Some(copied) = copied {
                        copies += 1;
                        assert_eq!(Some((copied, None)), parsed, "{text}");
                    } else if let Some((expr, None)) = &parsed {
                        forms.learn(&text, &context, expr, &options, &mut vocabulary);
                    }
                }
            }
            assert!(copies > 100, "{dialect:?}: {copies}");
        }
    }
}
