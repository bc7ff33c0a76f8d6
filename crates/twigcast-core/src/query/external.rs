//! Finds necessary conditions of queries that another processor evaluates, without understanding the whole query.
//!
//! Most queries in full XQuery have no result unless certain paths select something: the path of a `for` clause at the
//! beginning, or those of a condition. By these paths the shared structures find, for most messages, that the query
//! need not be evaluated. The paths are taken from the text: up to the word or operator that ends a path, with those
//! conditions of its predicates that mean the same in this language. If no path is found, the necessary condition is
//! always true.

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart};
use super::flwr_parser::is_flwr;
use super::lexer::{Lexer, Token, TokenKind};
use super::options::{Dialect, ParseOptions};
use super::parser::Parser;
use super::position::is_positional;
use crate::vocabulary::Vocabulary;

/// Words that end the path of a `for` clause.
const AFTER_PATH: [&str; 9] = ["where", "return", "let", "for", "order", "stable", "group", "count", "at"];
/// Words that compare the path before them. A comparison with nothing is never true.
const COMPARISONS: [&str; 9] = ["eq", "ne", "lt", "le", "gt", "ge", "is", "intersect", "except"];

/// Returns a condition that holds for each message on which the query has a result.
pub(super) fn necessary_condition(text: &str, options: &ParseOptions, vocabulary: &mut Vocabulary) -> Expr {
    let options = ParseOptions { dialect: Dialect::XPath, ..*options };
    let mut narrower = Narrower { options, vocabulary };
    let narrowed =
        if is_flwr(text) { binding_path(text).and_then(|path| narrower.path(path)) } else { narrower.condition(text) };
    narrowed.unwrap_or(Expr::Call { function: Function::True, arguments: Vec::new() })
}

/// A part of a text between operators, outside of brackets.
type TextParts<'t> = Vec<&'t str>;

/// Finds necessary conditions.
struct Narrower<'o, 'v> {
    options: ParseOptions<'o>,
    vocabulary: &'v mut Vocabulary,
}

impl Narrower<'_, '_> {
    /// Returns a condition without which a condition on the message does not hold.
    fn condition(&mut self, text: &str) -> Option<Expr> {
        let parts = split(text, "or")?;
        let all: Option<Vec<Expr>> = parts.into_iter().map(|part| self.conjunction(part)).collect();
        let mut all = all?;
        if all.len() > 1 { Some(Expr::Or(all)) } else { all.pop() }
    }

    fn conjunction(&mut self, text: &str) -> Option<Expr> {
        let known = split(text, "and")?.into_iter().filter_map(|part| self.conjunct(part));
        let mut known: Vec<Expr> = known.collect();
        if known.len() > 1 { Some(Expr::And(known)) } else { known.pop() }
    }

    fn conjunct(&mut self, text: &str) -> Option<Expr> {
        let text = text.trim();
        if let Some(inner) = inside(text, "(").or_else(|| inside(text, "exists(")).or_else(|| inside(text, "boolean("))
        {
            return self.condition(inner);
        }
        self.exact(text).or_else(|| self.path(text))
    }

    /// Returns a condition that this language reads, if it means the same.
    fn exact(&mut self, text: &str) -> Option<Expr> {
        let expr = Parser::new(text, &self.options, self.vocabulary).ok()?.whole_expression().ok()?;
        means_the_same(&expr).then_some(expr)
    }

    /// Returns the path that a text begins with, without what is not understood of its predicates.
    fn path(&mut self, text: &str) -> Option<Expr> {
        let exact = self.exact(text).filter(|expr| matches!(expr, Expr::Path(path) if path.start == PathStart::Root));
        if exact.is_some() {
            return exact;
        }
        let skeleton =
            self.skeleton(text.strip_prefix("$doc").or_else(|| text.strip_prefix("$msg")).unwrap_or(text))?;
        let expr = Parser::new(&skeleton, &self.options, self.vocabulary).ok()?.whole_expression().ok()?;
        matches!(&expr, Expr::Path(path) if path.start == PathStart::Root && !path.steps.is_empty()).then_some(expr)
    }

    /// Returns the text of the path that a text begins with; `None` if it begins with none, or if what follows the path
    /// may hold without it.
    fn skeleton(&mut self, text: &str) -> Option<String> {
        let tokens = tokens(text)?;
        let is_union = |token: &Token| {
            let written = &text[token.start..token.end];
            matches!(token.kind, TokenKind::Pipe | TokenKind::DoublePipe) || written == "union"
        };
        if tokens.iter().any(is_union) {
            return None;
        }
        let mut tokens = tokens.into_iter().peekable();
        let (mut skeleton, mut whole) = (String::new(), 0);
        while let Some(token) = tokens.next() {
            let written = &text[token.start..token.end];
            match token.kind {
                // A product, which is no path.
                TokenKind::Star if follows_operand(&skeleton) => return None,
                TokenKind::Slash
                | TokenKind::DoubleSlash
                | TokenKind::Star
                | TokenKind::NamespaceStar
                | TokenKind::LocalStar
                | TokenKind::At
                | TokenKind::ColonColon
                | TokenKind::Dot
                | TokenKind::DotDot => skeleton.push_str(written),
                TokenKind::Name if !skeleton.is_empty() && follows_operand(&skeleton) => {
                    return COMPARISONS.contains(&written).then_some(skeleton);
                }
                TokenKind::Name => match tokens.peek() {
                    Some(next) if next.kind == TokenKind::OpenParen => {
                        let is_kind =
                            matches!(written, "text" | "node" | "comment") && text[next.start..next.end].len() == 2;
                        if !is_kind {
                            // What calls a function at each node of a path has no value without the path.
                            skeleton.truncate(whole);
                            return (!skeleton.is_empty()).then_some(skeleton);
                        }
                        tokens.next();
                        skeleton.push_str(written);
                        skeleton.push_str("()");
                    }
                    _ => skeleton.push_str(written),
                },
                TokenKind::OpenBracket => {
                    let inner = &text[token.start + 1..token.end - 1];
                    skeleton.push_str(&self.predicate(inner));
                }
                TokenKind::Equal
                | TokenKind::NotEqual
                | TokenKind::Less
                | TokenKind::LessOrEqual
                | TokenKind::Greater
                | TokenKind::GreaterOrEqual
                | TokenKind::Before
                | TokenKind::After
                | TokenKind::Bang => return (!skeleton.is_empty()).then_some(skeleton),
                _ => return None,
            }
            if follows_operand(&skeleton) {
                whole = skeleton.len();
            }
        }
        Some(skeleton)
    }

    /// Returns the part of a predicate that is understood, as text. Positions are left out, since they depend on the
    /// predicates before them.
    fn predicate(&mut self, text: &str) -> String {
        if let Some(whole) = self.unchanged(text) {
            return whole;
        }
        // Of alternatives, none has to hold.
        if split(text, "or").is_none_or(|parts| parts.len() > 1) {
            return String::new();
        }
        let parts = split(text, "and").unwrap_or_default();
        parts.into_iter().map(|part| self.unchanged(part).unwrap_or_else(|| self.path_of(part))).collect()
    }

    /// Returns a text as a predicate if it means the same in both languages.
    fn unchanged(&mut self, text: &str) -> Option<String> {
        let text = text.trim();
        let bracketed = format!("[{text}]");
        let probe = format!("/self::node(){bracketed}");
        let parsed = Parser::new(&probe, &self.options, self.vocabulary)
            .ok()
            .and_then(|mut parser| parser.whole_expression().ok());
        if let Some(Expr::Path(Path { steps, .. })) = parsed
            && let [step] = steps.as_slice()
            && let [predicate] = step.predicates.as_slice()
            && !is_positional(predicate)
            && means_the_same(predicate)
        {
            return Some(bracketed);
        }
        None
    }

    /// Returns the predicate that the path exists with which a text begins.
    fn path_of(&mut self, text: &str) -> String {
        let text = text.trim();
        let starts_inside = !text.starts_with(['/', '$', '(']);
        match self.skeleton(text).filter(|skeleton| starts_inside && !skeleton.is_empty()) {
            Some(skeleton) => format!("[{skeleton}]"),
            None => String::new(),
        }
    }
}

/// Returns the tokens of a text, what stands in brackets with its brackets as one; `None` if it is not a text of tokens.
fn tokens(text: &str) -> Option<Vec<Token>> {
    // A comment may hold anything, and an arrow makes something of nothing.
    if text.contains("(:") || text.contains("=>") {
        return None;
    }
    let mut lexer = Lexer { text, position: 0, comments: false, angle_not_equal: false };
    let (mut tokens, mut depth) = (Vec::<Token>::new(), 0_usize);
    loop {
        let token = lexer.next();
        match token.kind {
            TokenKind::End if depth == 0 => return Some(tokens),
            TokenKind::End | TokenKind::UnclosedLiteral | TokenKind::UnclosedComment => return None,
            TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace => {
                depth += 1;
                if depth == 1 {
                    tokens.push(token);
                }
            }
            TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    tokens.last_mut()?.end = token.end;
                }
            }
            _ if depth == 0 => tokens.push(token),
            _ => {}
        }
    }
}

/// Returns the parts of a text between a word, outside brackets. `None` if something there reaches over the word.
fn split<'t>(text: &'t str, word: &str) -> Option<TextParts<'t>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let mut previous: Option<Token> = None;
    for token in tokens(text)? {
        let written = &text[token.start..token.end];
        let is_name = token.kind == TokenKind::Name;
        let reaches =
            is_name && matches!(written, "return" | "satisfies" | "then" | "else" | "some" | "every" | "for" | "let");
        if reaches || token.kind == TokenKind::Comma {
            return None;
        }
        let after_operand = previous.is_some_and(|previous| follows_operand(&text[..previous.end]));
        if is_name && written == word && after_operand {
            parts.push(&text[start..token.start]);
            start = token.end;
        }
        previous = Some(token);
    }
    parts.push(&text[start..]);
    Some(parts)
}

/// Returns whether an operand ends where a text ends, rather than an operator or a slash.
fn follows_operand(text: &str) -> bool {
    text.ends_with(|last: char| {
        last.is_alphanumeric() || matches!(last, '_' | ']' | ')' | '*' | '\'' | '"' | '.' | '}')
    })
}

/// Returns what stands inside the parenthesis that a text begins with and ends with.
fn inside<'t>(text: &'t str, opening: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(opening)?.strip_suffix(')')?;
    tokens(rest).map(|_| rest)
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
        Expr::Call {
            function: Function::Contains | Function::StartsWith | Function::EndsWith | Function::Matches,
            arguments,
        } => match arguments.as_slice() {
            [text, Expr::Literal(_) | Expr::Pattern(_), ..] => is_single(text),
            _ => false,
        },
        Expr::Compare { left, right, .. } if position(left) && position(right) => true,
        Expr::Compare { op: CompareOp::Equal | CompareOp::NotEqual, left, right } => {
            [left, right].iter().all(|side| matches!(***side, Expr::Literal(_)) || is_plain_path(side))
        }
        other => is_plain_path(other),
    }
}

/// Returns whether an expression is one node at most: of several, functions take the first here and fail in XQuery.
fn is_single(expr: &Expr) -> bool {
    let Expr::Path(Path { start: PathStart::Context, steps }) = expr else { return false };
    let [step] = steps.as_slice() else { return false };
    let is_one = match step.axis {
        Axis::SelfAxis => true,
        Axis::Attribute => matches!(step.test, NodeTest::Name(NameTest::Name(_))),
        _ => false,
    };
    is_one && step.predicates.is_empty()
}

fn is_plain_path(expr: &Expr) -> bool {
    match expr {
        Expr::Path(Path { start: PathStart::Root | PathStart::Context, steps }) => {
            steps.iter().flat_map(|step| &step.predicates).all(means_the_same)
        }
        _ => false,
    }
}

/// Returns the text of the path of the `for` clause that the query starts with.
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

/// Returns the number of bytes up to the word or comma that ends the path.
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
