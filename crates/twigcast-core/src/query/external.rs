//! Queries that another processor evaluates: what can be said of them without understanding them.
//!
//! A query in full XQuery that starts with `for $v in PATH` has no result where the path leads nowhere, so the shared
//! structures can decide for most messages that it need not be evaluated. The path is taken out of the text: from `in`
//! to the next word or comma outside brackets that can only go on after it. Where what stands there is not a path of
//! this language from the message's root, or the query starts otherwise, nothing is known.

use super::ast::{CompareOp, Expr, Function, Path, PathStart};
use super::options::{Dialect, ParseOptions};
use super::parser::Parser;
use crate::vocabulary::Vocabulary;

/// Words that end the path of a `for` clause.
const AFTER_PATH: [&str; 9] = ["where", "return", "let", "for", "order", "stable", "group", "count", "at"];

/// Returns a condition that holds for each message on which the query has a result.
pub(super) fn necessary_condition(text: &str, options: &ParseOptions, vocabulary: &mut Vocabulary) -> Expr {
    let anything = Expr::Call { function: Function::True, arguments: Vec::new() };
    let Some(path) = binding_path(text) else { return anything };
    let options = ParseOptions { dialect: Dialect::XPath, ..*options };
    match Parser::new(path, &options, vocabulary).and_then(|mut parser| parser.whole_expression()) {
        Ok(Expr::Path(path @ Path { start: PathStart::Root, .. })) => Expr::Path(unquestioned(path)),
        _ => anything,
    }
}

/// A path without its predicates, if one of them may mean something else in XQuery. A predicate cannot be left out alone,
/// since positions after it count what it lets through.
fn unquestioned(mut path: Path) -> Path {
    if !path.steps.iter().flat_map(|step| &step.predicates).all(means_the_same) {
        path.steps.iter_mut().for_each(|step| step.predicates.clear());
    }
    path
}

/// Does a predicate mean the same in XPath 1.0 and in XQuery? Orders compare texts there, numbers are written in more
/// ways, and truth values are compared with what is written.
fn means_the_same(predicate: &Expr) -> bool {
    let position = |expr: &Expr| {
        matches!(expr, Expr::Call { function: Function::Position | Function::Last, .. } | Expr::Number(_))
    };
    match predicate {
        Expr::And(operands) | Expr::Or(operands) => operands.iter().all(means_the_same),
        Expr::Call { function: Function::Not, arguments } => arguments.iter().all(means_the_same),
        Expr::Compare { left, right, .. } if position(left) && position(right) => true,
        Expr::Compare { op: CompareOp::Equal | CompareOp::NotEqual, left, right } => {
            [left, right].iter().all(|side| matches!(***side, Expr::Literal(_)) || is_plain_path(side))
        }
        other => is_plain_path(other),
    }
}

fn is_plain_path(expr: &Expr) -> bool {
    match expr {
        Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }) => {
            steps.iter().flat_map(|step| &step.predicates).all(means_the_same)
        }
        _ => false,
    }
}

/// The text of the path of the `for` clause that the query starts with.
fn binding_path(text: &str) -> Option<&str> {
    let rest = text.trim_start().strip_prefix("for")?.trim_start().strip_prefix('$')?;
    let rest = rest[name_length(rest)..].trim_start().strip_prefix("in")?;
    if !rest.starts_with([' ', '\t', '\r', '\n', '/', '$', '(']) {
        return None;
    }
    let path = &rest[..path_length(rest)?];
    let path = path.trim();
    let from_message = ["$doc", "$msg"].iter().find_map(|name| path.strip_prefix(name));
    // A comment may hold anything.
    Some(from_message.unwrap_or(path)).filter(|path| path.starts_with('/') && !path.contains("(:"))
}

/// Bytes up to the word or comma that ends the path.
fn path_length(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut word_start = true;
    for (at, character) in text.char_indices() {
        if let Some(open) = quote {
            if character == open {
                quote = None;
            }
            continue;
        }
        match character {
            '"' | '\'' => quote = Some(character),
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => return Some(at),
            _ if depth == 0 && word_start && ends_path(&text[at..]) => return Some(at),
            _ => {}
        }
        word_start = character.is_whitespace() || matches!(character, ']' | ')');
    }
    None
}

fn ends_path(text: &str) -> bool {
    AFTER_PATH.contains(&&text[..name_length(text)])
}

fn name_length(text: &str) -> usize {
    let is_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ':');
    text.find(|character| !is_name(character)).unwrap_or(text.len())
}
