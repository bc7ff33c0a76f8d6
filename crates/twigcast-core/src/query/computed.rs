//! Computed constructors: `element name { ... }`, `attribute { ... } { ... }`, `text { ... }`.

use super::constructor::MarkupName;
use super::flwr::{ComputedAttribute, ComputedElement, ComputedName, ElementConstructor, ElementContent, ItemExpr};
use super::lexer::{Lexer, TokenKind};
use super::parser::{Parsed, Parser};
use crate::error::QueryErrorKind;
use crate::vocabulary::NamespaceId;

impl<'a> Parser<'a, '_> {
    /// Returns whether a computed constructor starts at the current token, which is a name.
    pub(super) fn starts_computed(&self) -> bool {
        Self::is_computed(self.text_of(self.token), self.lexer)
    }

    /// Returns whether a computed constructor starts with a word, after which the text goes on as it does for a lexer.
    pub(super) fn is_computed(word: &str, mut lookahead: Lexer<'_>) -> bool {
        let next = lookahead.next();
        match word {
            "text" => next.kind == TokenKind::OpenBrace,
            "element" | "attribute" => {
                next.kind == TokenKind::OpenBrace
                    || next.kind == TokenKind::Name && lookahead.next().kind == TokenKind::OpenBrace
            }
            _ => false,
        }
    }

    /// Parses a computed constructor.
    pub(super) fn computed(&mut self) -> Parsed<ItemExpr> {
        let (word, start) = (self.text_of(self.token), self.token.start);
        self.advance();
        let item = match word {
            "text" => {
                let content = self.braces(true)?.unwrap_or(ItemExpr::Sequence(Vec::new()));
                ItemExpr::Text(Box::new(content))
            }
            "attribute" => self.computed_attribute(start)?,
            _ => self.computed_element()?,
        };
        if matches!(self.token.kind, TokenKind::OpenBracket | TokenKind::Slash | TokenKind::DoubleSlash) {
            let message = "a constructed node takes no step or predicate".into();
            return Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]));
        }
        Ok(item)
    }

    fn computed_element(&mut self) -> Parsed<ItemExpr> {
        let (declared, in_output) = (self.declared.len(), self.in_output.len());
        let mut declarations = Vec::new();
        let fixed = self.fixed_name();
        let item = match fixed {
            Some(written) => {
                let name = self.constructed_name(written, true, &mut declarations)?;
                self.advance();
                let content = self.element_content()?;
                let qname = written.text.into();
                let attributes = Vec::new();
                ItemExpr::Element(Box::new(ElementConstructor { qname, name, declarations, attributes, content }))
            }
            None => {
                let name = self.name_expression()?;
                // A name without a prefix is in the default namespace.
                let namespace = self.default_namespace();
                let existing = self.in_output.iter().rev().find(|(prefix, _)| prefix.is_empty()).map(|&(_, id)| id);
                if existing.unwrap_or(NamespaceId::NONE) != namespace {
                    self.in_output.push(("", namespace));
                    declarations.push(("".into(), self.vocabulary.namespace_uri(namespace).into()));
                }
                let content = self.element_content()?;
                ItemExpr::ComputedElement(Box::new(ComputedElement { name, declarations, content }))
            }
        };
        self.declared.truncate(declared);
        self.in_output.truncate(in_output);
        Ok(item)
    }

    fn element_content(&mut self) -> Parsed<Vec<ElementContent>> {
        self.enter()?;
        self.constructors += 1;
        let content = self.braces(false)?;
        self.constructors -= 1;
        self.leave();
        Ok(content.map(ElementContent::Enclosed).into_iter().collect())
    }

    fn computed_attribute(&mut self, start: usize) -> Parsed<ItemExpr> {
        if self.constructors == 0 {
            let message = "an attribute cannot stand on its own in a result; put it into an element: element x { \
                           attribute y { ... } }"
                .into();
            return Err(self.error(start, QueryErrorKind::Syntax, message, &[]));
        }
        let (name, declaration) = match self.fixed_name() {
            Some(written) => {
                let namespace = if written.prefix.is_empty() {
                    NamespaceId::NONE
                } else {
                    self.namespace_of(written.prefix, written.offset)?
                };
                if written.text == "xmlns" || written.prefix == "xmlns" {
                    let message = "a namespace is declared in a tag, as in <x xmlns:p=\"urn:...\">".into();
                    return Err(self.error(written.offset, QueryErrorKind::Syntax, message, &[]));
                }
                let uri: Box<str> = self.vocabulary.namespace_uri(namespace).into();
                self.advance();
                (ComputedName::Fixed(written.text.into()), uri)
            }
            None => (ComputedName::Value(self.name_expression()?), "".into()),
        };
        let value = self.braces(true)?;
        Ok(ItemExpr::Attribute(Box::new(ComputedAttribute { name, namespace: declaration, value })))
    }

    /// Returns the name at the current token; `None` where it is computed.
    fn fixed_name(&self) -> Option<MarkupName<'a>> {
        let token = self.token;
        let text = self.text_of(token);
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        (token.kind == TokenKind::Name).then_some(MarkupName { offset: token.start, text, prefix, local })
    }

    /// Parses the `{ ... }` of a name.
    fn name_expression(&mut self) -> Parsed<super::ast::Expr> {
        let open = self.token.start;
        self.expect_brace()?;
        self.advance();
        let name = self.expression()?;
        self.close(TokenKind::CloseBrace, open)?;
        Ok(name)
    }

    fn expect_brace(&self) -> Parsed<()> {
        if self.token.kind == TokenKind::OpenBrace { Ok(()) } else { Err(self.unexpected_in_flwr(&["{"])) }
    }

    /// Parses `{ items }`, where there may be none. `is_value`: they become a text, and hold no markup.
    fn braces(&mut self, is_value: bool) -> Parsed<Option<ItemExpr>> {
        self.expect_brace()?;
        let open = self.token.start;
        let mut lookahead = self.lexer;
        if lookahead.next().kind == TokenKind::CloseBrace {
            self.advance();
            self.advance();
            return Ok(None);
        }
        let (item, end) = self.enclosed(open)?;
        if is_value {
            self.refuse_constructors(&item, open)?;
        } else {
            self.note_enclosed(&item, open);
        }
        self.lexer.position = end;
        self.advance();
        Ok(Some(item))
    }
}
