//! Direct constructors: markup inside a For-Where-Return query.
//!
//! Markup has tokens of its own, so this part of the grammar reads characters; between `{` and `}` it hands over to the
//! token-based part. White space that only sets the query out (between tags, braces and the ends of the content) is
//! dropped, as XQuery does by default; white space written as a reference or in CDATA stays.

use super::flwr::{AttributeConstructor, AttributeValuePart, ElementConstructor, ElementContent, ItemExpr};
use super::lexer::TokenKind;
use super::markup::{ConstantText, flush, line_ends, namespace_declarations, ncname_length, skip_space, space};
use super::parser::{Parsed, Parser};
use crate::error::QueryErrorKind;
use crate::vocabulary::{Name, NamespaceId, XML_NAMESPACE, XMLNS_NAMESPACE};

/// A name as written in markup: where it starts and its parts.
#[derive(Clone, Copy)]
pub(super) struct MarkupName<'a> {
    pub offset: usize,
    pub text: &'a str,
    pub prefix: &'a str,
    pub local: &'a str,
}

/// An attribute of a start tag, before prefixes are resolved.
struct RawAttribute<'a> {
    name: MarkupName<'a>,
    value: Vec<AttributeValuePart>,
}

impl<'a> Parser<'a, '_> {
    /// Parses a DirectConstructor; the current token is its `<`.
    pub(super) fn constructor(&mut self) -> Parsed<ItemExpr> {
        let start = self.token.start;
        let (item, end) = self.constructor_at(start)?;
        self.lexer.position = end;
        self.advance();
        if matches!(self.token.kind, TokenKind::OpenBracket | TokenKind::Slash | TokenKind::DoubleSlash) {
            let message = "a constructed element takes no step or predicate".into();
            return Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]));
        }
        Ok(item)
    }

    /// Returns the constructor at an offset, and where it ends.
    fn constructor_at(&mut self, start: usize) -> Parsed<(ItemExpr, usize)> {
        let rest = &self.lexer.text[start..];
        if let Some(inner) = rest.strip_prefix("<!--") {
            return self.comment(start, inner);
        }
        if let Some(inner) = rest.strip_prefix("<?") {
            return self.processing_instruction(start, inner);
        }
        self.enter()?;
        self.constructors += 1;
        let (element, end) = self.element(start)?;
        self.constructors -= 1;
        self.leave();
        Ok((ItemExpr::Element(Box::new(element)), end))
    }

    fn comment(&self, start: usize, inner: &str) -> Parsed<(ItemExpr, usize)> {
        let Some(length) = inner.find("-->") else { return Err(self.unclosed_markup(start, "comment", "-->")) };
        let text = &inner[..length];
        if text.contains("--") || text.ends_with('-') {
            let message = "a comment cannot hold `--` or end in `-`".into();
            return Err(self.error(start, QueryErrorKind::Syntax, message, &[]));
        }
        Ok((ItemExpr::Comment(line_ends(text).into()), start + length + "<!---->".len()))
    }

    fn processing_instruction(&self, start: usize, inner: &str) -> Parsed<(ItemExpr, usize)> {
        let Some(length) = inner.find("?>") else {
            return Err(self.unclosed_markup(start, "processing instruction", "?>"));
        };
        let text = &inner[..length];
        let target = &text[..ncname_length(text)];
        let data = &text[target.len()..];
        if target.is_empty() || target.eq_ignore_ascii_case("xml") || !(data.is_empty() || data.starts_with(space)) {
            let message = "a processing instruction starts with a name that is not `xml`: <?target data?>".into();
            return Err(self.error(start, QueryErrorKind::Syntax, message, &["a name"]));
        }
        let data = line_ends(data.trim_start_matches(space)).into();
        Ok((ItemExpr::ProcessingInstruction { target: target.into(), data }, start + length + "<??>".len()))
    }

    fn unclosed_markup(&self, start: usize, what: &str, end: &str) -> Box<crate::error::QueryError> {
        let message = format!("the {what} that starts here is not closed; `{end}` is missing");
        self.error(start, QueryErrorKind::Syntax, message, &[end])
    }

    /// Returns the element whose `<` is at an offset, and where it ends.
    fn element(&mut self, start: usize) -> Parsed<(ElementConstructor, usize)> {
        let name = self.written_name(start + 1, "`<` must be followed by a name; in text write &lt;")?;
        let (declared, in_output) = (self.declared.len(), self.in_output.len());
        let mut declarations = self.declare_namespaces(name.offset + name.text.len())?;
        let (raw, position, empty) = self.attributes(&name)?;
        let element_name = self.constructed_name(name, true, &mut declarations)?;
        let attributes = self.resolve_attributes(raw, &mut declarations)?;
        let mut element = ElementConstructor {
            qname: name.text.into(),
            name: element_name,
            declarations,
            attributes,
            content: Vec::new(),
        };
        let end = if empty { position } else { self.content(start, name.text, position, &mut element.content)? };
        self.declared.truncate(declared);
        self.in_output.truncate(in_output);
        Ok((element, end))
    }

    /// Returns the QName at an offset.
    fn written_name(&self, offset: usize, otherwise: &str) -> Parsed<MarkupName<'a>> {
        let rest = &self.lexer.text[offset..];
        let first = ncname_length(rest);
        if first == 0 {
            return Err(self.error(offset, QueryErrorKind::Syntax, otherwise.into(), &["a name"]));
        }
        let second = rest[first..].strip_prefix(':').map_or(0, ncname_length);
        if second == 0 {
            let text = &rest[..first];
            return Ok(MarkupName { offset, text, prefix: "", local: text });
        }
        let text = &rest[..first + 1 + second];
        Ok(MarkupName { offset, text, prefix: &rest[..first], local: &text[first + 1..] })
    }

    /// Reads the start tag ahead for its namespace declarations: they hold in the whole tag, also to their left.
    fn declare_namespaces(&mut self, from: usize) -> Parsed<Vec<(Box<str>, Box<str>)>> {
        let mut declarations: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (prefix, offset, raw) in namespace_declarations(self.lexer.text, from) {
            let uri = self.namespace_value(offset, raw)?;
            let problem = match prefix {
                "xmlns" => Some("the prefix `xmlns` cannot be declared"),
                "xml" if uri != XML_NAMESPACE => Some("the prefix `xml` cannot be bound to another namespace"),
                _ if prefix != "xml" && uri == XML_NAMESPACE => {
                    Some("only the prefix `xml` can be bound to this namespace")
                }
                _ if uri == XMLNS_NAMESPACE => Some("no prefix can be bound to this namespace"),
                "" => None,
                _ if uri.is_empty() => Some("a prefix cannot be bound to no namespace"),
                _ if declarations.iter().any(|(existing, _)| **existing == *prefix) => {
                    Some("the prefix is declared twice")
                }
                _ => None,
            };
            let twice = prefix.is_empty() && declarations.iter().any(|(existing, _)| existing.is_empty());
            if let Some(problem) = problem.or(twice.then_some("the default namespace is declared twice")) {
                return Err(self.error(offset, QueryErrorKind::Syntax, problem.into(), &[]));
            }
            let id = self.vocabulary.intern_namespace(&uri);
            self.declared.push((prefix, id));
            self.in_output.push((prefix, id));
            declarations.push((prefix.into(), uri.into()));
        }
        Ok(declarations)
    }

    /// Returns the URI of a namespace declaration.
    fn namespace_value(&self, offset: usize, raw: &str) -> Parsed<String> {
        let mut uri = String::with_capacity(raw.len());
        let mut position = 0;
        while let Some(character) = raw[position..].chars().next() {
            let (value, length) = match character {
                '&' => self.reference(offset + position)?,
                '{' | '}' => {
                    let message = "a namespace must be a constant; it holds no `{ ... }`".into();
                    return Err(self.error(offset + position, QueryErrorKind::Syntax, message, &[]));
                }
                other => (other, other.len_utf8()),
            };
            uri.push(value);
            position += length;
        }
        Ok(uri.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// Reads the attributes of a start tag. Returns them with the end of the tag, and whether it is an empty-element
    /// tag.
    fn attributes(&mut self, element: &MarkupName<'a>) -> Parsed<(Vec<RawAttribute<'a>>, usize, bool)> {
        let text = self.lexer.text;
        let mut position = element.offset + element.text.len();
        let mut attributes = Vec::new();
        loop {
            let spaced = skip_space(text, &mut position);
            let rest = &text[position..];
            if rest.starts_with("/>") {
                return Ok((attributes, position + 2, true));
            }
            if rest.starts_with('>') {
                return Ok((attributes, position + 1, false));
            }
            if rest.is_empty() {
                let message =
                    format!("the tag <{} at column {} is not closed", element.text, self.column(element.offset - 1));
                return Err(self.error(position, QueryErrorKind::Syntax, message, &[">", "/>"]));
            }
            let name = self.written_name(position, "an attribute's name, `>` or `/>` is due in a tag")?;
            if !spaced {
                let message = format!("white space is due before the attribute `{}`", name.text);
                return Err(self.error(position, QueryErrorKind::Syntax, message, &["white space"]));
            }
            position += name.text.len();
            skip_space(text, &mut position);
            if !text[position..].starts_with('=') {
                let message = format!("the attribute `{}` has no value; write {}=\"...\"", name.text, name.text);
                return Err(self.error(position, QueryErrorKind::Syntax, message, &["="]));
            }
            position += 1;
            skip_space(text, &mut position);
            let value = self.attribute_value(&mut position, &name)?;
            if name.text != "xmlns" && name.prefix != "xmlns" {
                attributes.push(RawAttribute { name, value });
            }
        }
    }

    /// Parses an AttributeValue, quotes included.
    fn attribute_value(&mut self, position: &mut usize, name: &MarkupName<'a>) -> Parsed<Vec<AttributeValuePart>> {
        let text = self.lexer.text;
        let start = *position;
        let Some(quote) = text[start..].chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            let message = format!("the value of the attribute `{}` must be in quotes", name.text);
            return Err(self.error(start, QueryErrorKind::Syntax, message, &["\"", "'"]));
        };
        *position += 1;
        let (mut parts, mut constant) = (Vec::new(), String::new());
        loop {
            let Some(character) = text[*position..].chars().next() else {
                let message = format!("the value of the attribute `{}` is not closed; {quote} is missing", name.text);
                return Err(self.error(start, QueryErrorKind::Syntax, message, &[]));
            };
            let next = text[*position + character.len_utf8()..].chars().next();
            match character {
                _ if character == quote && next == Some(quote) => {
                    constant.push(quote);
                    *position += 2;
                }
                _ if character == quote => {
                    *position += 1;
                    flush(&mut constant, |text| parts.push(AttributeValuePart::Text(text)));
                    return Ok(parts);
                }
                '{' | '}' if next == Some(character) => {
                    constant.push(character);
                    *position += 2;
                }
                '{' => {
                    flush(&mut constant, |text| parts.push(AttributeValuePart::Text(text)));
                    let (item, end) = self.enclosed(*position)?;
                    self.refuse_constructors(&item, *position)?;
                    parts.push(AttributeValuePart::Enclosed(item));
                    *position = end;
                }
                '}' => return Err(self.lone_brace(*position)),
                '<' => {
                    let message = "`<` cannot stand in an attribute's value; write &lt;".into();
                    return Err(self.error(*position, QueryErrorKind::Syntax, message, &["&lt;"]));
                }
                '&' => {
                    let (referred, length) = self.reference(*position)?;
                    constant.push(referred);
                    *position += length;
                }
                '\r' if next == Some('\n') => *position += 1,
                '\t' | '\n' | '\r' => {
                    constant.push(' ');
                    *position += 1;
                }
                other => {
                    constant.push(other);
                    *position += other.len_utf8();
                }
            }
        }
    }

    /// Refuses elements in an attribute's value, which is made of values.
    pub(super) fn refuse_constructors(&self, item: &ItemExpr, offset: usize) -> Parsed<()> {
        match item {
            ItemExpr::Element(_)
            | ItemExpr::ComputedElement(_)
            | ItemExpr::Attribute(_)
            | ItemExpr::Text(_)
            | ItemExpr::Comment(_)
            | ItemExpr::ProcessingInstruction { .. } => {
                let message = "an attribute's value cannot hold markup".into();
                Err(self.error(offset, QueryErrorKind::Unsupported, message, &["a path", "a value"]))
            }
            ItemExpr::Sequence(items) => items.iter().try_for_each(|item| self.refuse_constructors(item, offset)),
            ItemExpr::Flwr(flwr) => self.refuse_constructors(&flwr.result, offset),
            ItemExpr::If(choice) => {
                self.refuse_constructors(&choice.then, offset)?;
                self.refuse_constructors(&choice.otherwise, offset)
            }
            ItemExpr::Value(_) => Ok(()),
        }
    }

    /// Parses `{ items }` at an offset. Returns the items, and where it ends.
    pub(super) fn enclosed(&mut self, open: usize) -> Parsed<(ItemExpr, usize)> {
        self.lexer.position = open + 1;
        self.advance();
        if self.token.kind == TokenKind::CloseBrace {
            let message = "`{ }` encloses nothing; for a brace in text write {{ or }}".into();
            return Err(self.error(open, QueryErrorKind::Syntax, message, &["a path", "a value"]));
        }
        let outer_brace = std::mem::replace(&mut self.open_brace, open);
        let item = self.items()?;
        self.open_brace = outer_brace;
        if self.token.kind != TokenKind::CloseBrace {
            if self.token.kind == TokenKind::End {
                return Err(self.unclosed(TokenKind::CloseBrace, open));
            }
            return Err(self.unexpected_in_flwr(&["}", ","]));
        }
        Ok((item, self.token.end))
    }

    fn lone_brace(&self, offset: usize) -> Box<crate::error::QueryError> {
        let message = "`}` closes nothing that is open here; for a brace in text write }}".into();
        self.error(offset, QueryErrorKind::Syntax, message, &["}}"])
    }

    /// Reads the content of an element up to and with its end tag. Returns where that ends.
    fn content(&mut self, start: usize, qname: &str, from: usize, content: &mut Vec<ElementContent>) -> Parsed<usize> {
        let text = self.lexer.text;
        let mut position = from;
        let mut run = ConstantText::default();
        loop {
            let rest = &text[position..];
            let Some(character) = rest.chars().next() else {
                let message = format!(
                    "the element <{qname}> at column {} is not closed; </{qname}> is missing",
                    self.column(start)
                );
                let expected = format!("</{qname}>");
                return Err(self.error(position, QueryErrorKind::Syntax, message, &[&expected]));
            };
            match character {
                '<' if rest.starts_with("</") => {
                    run.end(content);
                    return self.end_tag(start, qname, position);
                }
                '<' => {
                    if let Some(inner) = rest.strip_prefix("<![CDATA[") {
                        let Some(length) = inner.find("]]>") else {
                            return Err(self.unclosed_markup(position, "CDATA section", "]]>"));
                        };
                        run.push_kept(&line_ends(&inner[..length]));
                        position += length + "<![CDATA[]]>".len();
                        continue;
                    }
                    run.end(content);
                    let (item, end) = self.constructor_at(position)?;
                    content.push(ElementContent::Constructor(item));
                    position = end;
                }
                '{' if rest.starts_with("{{") => {
                    run.push_kept("{");
                    position += 2;
                }
                '}' if rest.starts_with("}}") => {
                    run.push_kept("}");
                    position += 2;
                }
                '{' => {
                    run.end(content);
                    let (item, end) = self.enclosed(position)?;
                    self.note_enclosed(&item, position);
                    content.push(ElementContent::Enclosed(item));
                    position = end;
                }
                '}' => return Err(self.lone_brace(position)),
                '&' => {
                    let (referred, length) = self.reference(position)?;
                    run.push_kept(referred.encode_utf8(&mut [0; 4]));
                    position += length;
                }
                _ => {
                    let length = rest.find(['<', '{', '}', '&']).unwrap_or(rest.len());
                    run.push(&rest[..length]);
                    position += length;
                }
            }
        }
    }

    /// Reads `</qname>` at an offset. Returns where it ends.
    fn end_tag(&self, start: usize, qname: &str, offset: usize) -> Parsed<usize> {
        let name = self.written_name(offset + 2, "`</` must be followed by a name")?;
        if name.text != qname {
            let message = format!(
                "</{}> cannot close <{qname}>, which opened at column {}; write </{qname}>",
                name.text,
                self.column(start)
            );
            let expected = format!("</{qname}>");
            return Err(self.error(offset, QueryErrorKind::Syntax, message, &[&expected]));
        }
        let mut position = offset + 2 + qname.len();
        skip_space(self.lexer.text, &mut position);
        if !self.lexer.text[position..].starts_with('>') {
            let message = format!("the end tag </{qname} is not closed; `>` is missing");
            return Err(self.error(position, QueryErrorKind::Syntax, message, &[">"]));
        }
        Ok(position + 1)
    }

    fn resolve_attributes(
        &mut self,
        raw: Vec<RawAttribute<'a>>,
        declarations: &mut Vec<(Box<str>, Box<str>)>,
    ) -> Parsed<Vec<AttributeConstructor>> {
        let mut attributes: Vec<AttributeConstructor> = Vec::with_capacity(raw.len());
        for RawAttribute { name: written, value } in raw {
            let name = self.constructed_name(written, false, declarations)?;
            if attributes.iter().any(|existing| existing.name == name) {
                let message = format!("the attribute `{}` stands twice in the tag", written.text);
                return Err(self.error(written.offset, QueryErrorKind::Syntax, message, &[]));
            }
            attributes.push(AttributeConstructor { qname: written.text.into(), name, value });
        }
        Ok(attributes)
    }

    /// Returns the expanded name of an element or attribute that is constructed. Its prefix is added to the
    /// declarations if nothing around declares it.
    pub(super) fn constructed_name(
        &mut self,
        written: MarkupName<'a>,
        element: bool,
        declarations: &mut Vec<(Box<str>, Box<str>)>,
    ) -> Parsed<Name> {
        let namespace = match (written.prefix, element) {
            ("", true) => self.default_namespace(),
            ("", false) => NamespaceId::NONE,
            (prefix, _) => self.namespace_of(prefix, written.offset)?,
        };
        let needed = written.prefix != "xml" && (element || !written.prefix.is_empty());
        let existing = self.in_output.iter().rev().find(|(prefix, _)| *prefix == written.prefix).map(|&(_, id)| id);
        let nothing = if written.prefix.is_empty() { Some(NamespaceId::NONE) } else { None };
        if needed && existing.or(nothing) != Some(namespace) {
            self.in_output.push((written.prefix, namespace));
            declarations.push((written.prefix.into(), self.vocabulary.namespace_uri(namespace).into()));
        }
        Ok(Name { namespace, local: self.vocabulary.intern_local(written.local) })
    }
}
