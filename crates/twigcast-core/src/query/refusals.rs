//! Errors of the parser: where, what construct, what was expected, what to write instead.

use super::ast::{Axis, Function};
use super::hints;
use super::lexer::{Token, TokenKind};
use super::parser::Parser;
use crate::error::{QueryError, QueryErrorKind};

impl Parser<'_, '_> {
    /// Returns an error at a byte offset.
    pub(super) fn error(
        &self,
        offset: usize,
        kind: QueryErrorKind,
        message: String,
        expected: &[&str],
    ) -> Box<QueryError> {
        // What a larger language would have here is no slip: the message says what to write instead.
        let expected = if kind == QueryErrorKind::Unsupported { &[] } else { expected };
        let expected = expected.iter().map(|&text| text.to_owned()).collect();
        Box::new(QueryError { kind, message, column: self.column(offset), expected })
    }

    /// Returns a byte offset as a column in characters, from 1.
    pub(super) fn column(&self, offset: usize) -> u32 {
        let before = self.lexer.text.char_indices().take_while(|&(at, _)| at < offset).count();
        u32::try_from(before).unwrap_or(u32::MAX - 1) + 1
    }

    pub(super) fn over_limit(&self, limit: &'static str, value: usize, what: &str, offset: usize) -> Box<QueryError> {
        let message = format!("{what}: over the limit {limit} = {value}");
        self.error(offset, QueryErrorKind::Limit { limit, value }, message, &[])
    }

    pub(super) fn too_nested(&self) -> Box<QueryError> {
        let limit = self.options.limits.query_nesting_max;
        self.over_limit("query_nesting_max", limit, "the query is nested too deeply", self.token.start)
    }

    pub(super) fn undeclared_prefix(&self, prefix: &str, offset: usize) -> Box<QueryError> {
        let message = if prefix == "xmlns" {
            "the prefix `xmlns` declares namespaces and can be bound to none; namespace::* lists those in scope".into()
        } else {
            let uri = hints::usual_namespace(prefix).unwrap_or("urn:...");
            format!(
                "the prefix `{prefix}` has no namespace; declare it, as in namespaces={{\"{prefix}\": \"{uri}\"}}, \
                 or write *:name for any namespace"
            )
        };
        self.error(offset, QueryErrorKind::UndeclaredPrefix, message, &[])
    }

    pub(super) fn undeclared_variable(&self, token: Token, name: &str) -> Box<QueryError> {
        if self.flwr && self.options.parameters.is_empty() {
            let mut existing: Vec<String> = self.variables.iter().map(|(name, _)| format!("${name}")).collect();
            existing.push("$doc".into());
            let message = format!(
                "the variable ${name} is not declared here; in scope: {}; the value of a parameter is given beside the query, as in \
                 params={{\"{name}\": \"...\"}}",
                existing.join(", ")
            );
            let mut error = self.error(token.start, QueryErrorKind::Syntax, message, &[]);
            error.expected = existing;
            return error;
        }
        self.missing_parameter(token, name)
    }

    pub(super) fn unknown_axis(&self) -> Box<QueryError> {
        let name = self.text_of(self.token);
        let message = match hints::similar_axis(name) {
            Some(axis) => format!("there is no axis `{name}`; do you mean `{axis}::`?"),
            None => format!("there is no axis `{name}`"),
        };
        self.error(self.token.start, QueryErrorKind::Syntax, message, &Axis::ALL.map(|(_, name)| name))
    }

    pub(super) fn unknown_function(&self) -> Box<QueryError> {
        let name = self.text_of(self.token);
        if let Some(hint) = hints::later_function(name) {
            let message = format!("{name}() is not XPath 1.0; {hint}");
            return self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]);
        }
        let message = match hints::similar_function(name) {
            Some(function) => format!("there is no function {name}(); do you mean {function}()?"),
            None => {
                format!("there is no function {name}() here; the reference of the language lists those that there are")
            }
        };
        self.error(self.token.start, QueryErrorKind::Syntax, message, &[])
    }

    /// Returns the error of `name(` where a node test is due.
    pub(super) fn no_kind_test(&self) -> Box<QueryError> {
        let name = self.text_of(self.token);
        let hint = match hints::later_function(name) {
            Some(hint) if matches!(name, "element" | "attribute" | "item" | "document-node" | "schema-element") => hint,
            _ if Function::named(name).is_some() => {
                "a path cannot call a function in a step; write it around the path or in a predicate"
            }
            _ => "write a name, *, node(), text(), comment() or processing-instruction()",
        };
        let message = format!("{name}() is no node test of XPath 1.0; {hint}");
        self.error(self.token.start, QueryErrorKind::Unsupported, message, &["a name", "*", "node()", "text()"])
    }

    /// Returns the error of a bracket that is not closed where it should be.
    pub(super) fn unclosed(&self, kind: TokenKind, open: usize) -> Box<QueryError> {
        let (opening, closing) = match kind {
            TokenKind::CloseBracket => ("[", "]"),
            TokenKind::CloseBrace => ("{", "}"),
            _ => ("(", ")"),
        };
        if self.token.kind == TokenKind::End {
            let message =
                format!("the `{opening}` at column {} is not closed; `{closing}` is missing", self.column(open));
            return self.error(self.token.start, QueryErrorKind::Syntax, message, &[closing]);
        }
        self.unexpected_after_operand(&[closing, "an operator"])
    }

    /// Returns the error of a token that starts no operand, where an operand is due.
    pub(super) fn unexpected_operand(&self, expected: &[&str]) -> Box<QueryError> {
        if let Some(error) = self.broken_token() {
            return error;
        }
        let (token, previous) = (self.token, self.previous);
        let adjacent = previous.end == token.start && previous.start < previous.end;
        let slip = match (previous.kind, token.kind) {
            (TokenKind::Equal, TokenKind::Greater) if adjacent && self.is_arrow() => {
                Some(("=>", "put what stands before it into the parentheses: lower-case(a) for a => lower-case()"))
            }
            (TokenKind::Equal, TokenKind::Equal) if adjacent => Some(("==", "write `=`")),
            (TokenKind::NotEqual, TokenKind::Equal) if adjacent => Some(("!==", "write `!=`")),
            (TokenKind::Equal, TokenKind::Greater) if adjacent => Some(("=>", "write `>=`")),
            (TokenKind::Equal, TokenKind::Less) if adjacent => Some(("=<", "write `<=`")),
            (TokenKind::Less, TokenKind::Greater) if adjacent => Some(("<>", "write `!=`, or use dialect=\"legacy\"")),
            (TokenKind::DoubleSlash, TokenKind::Slash) if adjacent => Some(("///", "write `//`")),
            (TokenKind::DoubleSlash, TokenKind::DoubleSlash) => Some(("////", "write `//`")),
            (TokenKind::Slash, TokenKind::DoubleSlash) => Some(("/ //", "write `//`")),
            _ => None,
        };
        if let Some((slip, hint)) = slip {
            let message = format!("`{slip}` is no operator of XPath 1.0; {hint}");
            return self.error(previous.start, QueryErrorKind::Syntax, message, expected);
        }
        if previous.kind == TokenKind::Slash && token.kind == TokenKind::OpenBracket {
            let message =
                "a predicate follows its step without `/`: write `a[b]` for `a/[b]` (or use dialect=\"legacy\")".into();
            return self.error(previous.start, QueryErrorKind::Syntax, message, expected);
        }
        if let Some((symbol, hint)) = hints::instead_of_symbol(&self.lexer.text[token.start..]) {
            let message = format!("`{symbol}` is not XPath 1.0; {hint}");
            return self.error(token.start, QueryErrorKind::Syntax, message, expected);
        }
        let message = match token.kind {
            TokenKind::OpenBracket if previous.start == previous.end || previous.kind == TokenKind::Equal => {
                "there are no arrays; a list is written ('x', 'y')".into()
            }
            TokenKind::OpenBrace => {
                "`{` stands where a path, a value or a function is due; braces stand in a constructor: <x>{ ... }</x>"
                    .into()
            }
            TokenKind::End => {
                format!("the query ends after {}, where {} is due", self.shown(previous), any_of(expected))
            }
            _ => format!("{} stands where {} is due", self.shown(token), any_of(expected)),
        };
        self.error(token.start, QueryErrorKind::Syntax, message, expected)
    }

    /// Returns whether a function is called after the current token, as after the arrow of XPath 3.1.
    fn is_arrow(&self) -> bool {
        let mut lookahead = self.lexer;
        lookahead.next().kind == TokenKind::Name && lookahead.next().kind == TokenKind::OpenParen
    }

    /// Returns what is probably meant by two operands without an operator between them.
    fn missing_operator(&self) -> Option<String> {
        let (token, previous) = (self.token, self.previous);
        let (text, before) = (self.text_of(token), self.text_of(previous));
        let adjacent = previous.end == token.start;
        Some(match (previous.kind, token.kind) {
            (TokenKind::Literal, _) if adjacent => {
                "a quote in a text is doubled, as in 'it''s', or the text stands in the other quotes".into()
            }
            (TokenKind::Star, TokenKind::Number) => "there are no powers; write a * a".into(),
            (TokenKind::Number, TokenKind::Number) if adjacent && text.starts_with('.') && before.contains('.') => {
                if before.ends_with('.') {
                    "a range is written 1 to 5".into()
                } else {
                    "a version is written twig:version('2.17.1')".into()
                }
            }
            (TokenKind::Name, TokenKind::At | TokenKind::Name) if before == "not" => {
                "write not(...) around what does not hold".into()
            }
            (TokenKind::Name, TokenKind::Literal) if matches!(before, "DATE" | "date" | "TIMESTAMP" | "timestamp") => {
                "write xs:date('2026-11-30') or xs:dateTime('2026-11-30T12:00:00Z')".into()
            }
            (TokenKind::Name, TokenKind::Name | TokenKind::At) if adjacent && before.ends_with('-') => {
                "a name may end with `-`; write spaces around a minus".into()
            }
            (TokenKind::Name, TokenKind::Variable) if matches!(before, "any" | "all") => {
                let word = if before == "any" { "some" } else { "every" };
                format!("write {word} $x in a satisfies $x = 1")
            }
            (TokenKind::Name, TokenKind::Name) if before == "for" && matches!(text, "tumbling" | "sliding") => {
                "windows are not supported; use dialect=\"xquery\"".into()
            }
            (TokenKind::Name, TokenKind::Name) if matches!(before, "some" | "every" | "for" | "let") => {
                format!("a variable has a dollar sign: {before} ${text}")
            }
            (TokenKind::Name, TokenKind::Name) if self.begins_like_sql() => {
                "queries are no SQL; write a path with a predicate, as in //alert[event = 'Flood']".into()
            }
            _ => return None,
        })
    }

    fn begins_like_sql(&self) -> bool {
        self.lexer.text.trim_start().get(..6).is_some_and(|word| word.eq_ignore_ascii_case("select"))
    }

    /// Returns the error of a word of the For-Where-Return language where an expression is due.
    pub(super) fn unexpected_word(&self) -> Box<QueryError> {
        let message = format!("{} stands where a path, a value or a function is due", self.shown(self.token));
        self.error(self.token.start, QueryErrorKind::Syntax, message, &["a path", "a value", "a function"])
    }

    /// Returns the error of a token that is no operator, after a complete operand.
    pub(super) fn unexpected_after_operand(&self, expected: &[&str]) -> Box<QueryError> {
        if let Some(error) = self.broken_token() {
            return error;
        }
        let (token, previous) = (self.token, self.previous);
        let text = self.text_of(token);
        if token.kind == TokenKind::Name
            && let Some((hint, later)) = hints::instead_of_operator(text)
        {
            let kind = if later { QueryErrorKind::Unsupported } else { QueryErrorKind::Syntax };
            return self.error(token.start, kind, format!("`{text}` is no operator of XPath 1.0; {hint}"), expected);
        }
        if token.kind == TokenKind::Variable && matches!(self.text_of(previous), "FOR" | "LET" | "For" | "Let") {
            let word = self.text_of(previous);
            let message = format!(
                "`{word}`: the words of a For-Where-Return query are in lower case: for $x in /a where $x/b return $x"
            );
            return self.error(previous.start, QueryErrorKind::Syntax, message, &[]);
        }
        if token.kind == TokenKind::Variable && matches!(self.text_of(previous), "some" | "every" | "for" | "let") {
            let word = self.text_of(previous);
            let hint = if matches!(word, "some" | "every") {
                "put the whole expression in parentheses"
            } else {
                "write the path with a predicate, as in [a[. = b]]"
            };
            let message = format!("`{word} $...` cannot stand here; {hint}");
            return self.error(previous.start, QueryErrorKind::Unsupported, message, expected);
        }
        if let Some((symbol, hint)) = hints::instead_of_symbol(&self.lexer.text[token.start..]) {
            let message = format!("`{symbol}` is no operator of XPath 1.0; {hint}");
            return self.error(token.start, QueryErrorKind::Syntax, message, expected);
        }
        self.error(token.start, QueryErrorKind::Syntax, self.misplaced_token(), expected)
    }

    /// Returns what is wrong with a token that is no operator behind an operand.
    fn misplaced_token(&self) -> String {
        let (token, previous) = (self.token, self.previous);
        let text = self.text_of(token);
        match token.kind {
            TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace => {
                format!("`{text}` closes nothing that is open here")
            }
            TokenKind::OpenParen
                if previous.kind == TokenKind::CloseParen || previous.kind == TokenKind::CloseBracket =>
            {
                "`(` follows a complete expression; an operator is missing".into()
            }
            TokenKind::OpenBracket => "a predicate cannot stand here; it follows a step or a parenthesis".into(),
            TokenKind::OpenBrace if self.text_of(previous) == "Q" => {
                "a namespace in braces is not read; declare a prefix, as in namespaces={\"p\": \"urn:...\"}, and write p:name".into()
            }
            TokenKind::OpenBrace if matches!(self.text_of(previous), "map" | "array") => {
                "there are no maps and no arrays; use dialect=\"xquery\"".into()
            }
            TokenKind::OpenBrace if self.text_of(previous) == "try" => {
                "no comparison and no function raises an error here; leave `try` out, or use dialect=\"xquery\"".into()
            }
            TokenKind::OpenBrace => {
                "`{` belongs to For-Where-Return queries, which start with `for`, `let` or a tag".into()
            }
            TokenKind::Name if self.text_of(previous) == "contains" && self.text_of(token) == "text" => {
                "`contains text` stands behind the nodes whose words it asks for: write . contains text \"storm\" for those \
                 of the context node"
                    .into()
            }
            TokenKind::Assign => "`:=` belongs to `let` in For-Where-Return queries".into(),
            TokenKind::Comma if self.flwr => "a sequence can stand only in `return` and in constructors; \
                 write a | b for the nodes of both, or two comparisons joined by `or`"
                .into(),
            TokenKind::Comma => {
                "`,` separates the arguments of a function, and the values of a list that is compared: a = \
                 ('x', 'y'); for messages with either of two paths write //a | //b"
                    .into()
            }
            _ => {
                let (token, previous) = (self.shown(token), self.shown(previous));
                let hint = self.missing_operator().map(|hint| format!("; {hint}")).unwrap_or_default();
                format!("{token} follows {previous}; an operator is missing between them{hint}")
            }
        }
    }

    /// Returns the error of a token that is wrong in any position.
    pub(super) fn broken_token(&self) -> Option<Box<QueryError>> {
        let token = self.token;
        let rest = &self.lexer.text[token.start..];
        let (message, expected) = match token.kind {
            TokenKind::UnclosedLiteral => {
                let quote = &rest[..1];
                (format!("the string that starts here is not closed; {quote} is missing"), vec![quote])
            }
            TokenKind::UnclosedComment => {
                ("the comment that starts here is not closed; `:)` is missing".into(), vec![":)"])
            }
            TokenKind::OpenParen if rest.starts_with("(:") => {
                ("XPath 1.0 has no comments; leave `(: ... :)` out".into(), Vec::new())
            }
            TokenKind::Other if rest.starts_with("$.") || rest.starts_with("$[") => {
                ("`$` begins a path of JSONPath; write /alert/event, //event for any depth, and [b > 1] for [?(@.b > 1)]".into(), Vec::new())
            }
            TokenKind::Other if rest.starts_with('$') => ("a variable's name must follow `$`".into(), vec!["a name"]),
            TokenKind::Other if rest.starts_with(':') => {
                ("a prefix and its colon must touch the name: write `p:name` or `*:name`".into(), Vec::new())
            }
            _ => return None,
        };
        Some(self.error(token.start, QueryErrorKind::Syntax, message, &expected))
    }

    /// Returns a token as messages show it.
    pub(super) fn shown(&self, token: Token) -> String {
        if token.start == token.end {
            return if token.end == 0 { "the start".into() } else { "the end of the query".into() };
        }
        let text = self.text_of(token);
        if text.chars().count() <= 40 {
            return format!("`{text}`");
        }
        format!("`{}...`", text.chars().take(37).collect::<String>())
    }
}

/// Returns alternatives as `a, b or c`.
pub(super) fn any_of(choices: &[&str]) -> String {
    match choices {
        [] => "something else".into(),
        [only] => (*only).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
