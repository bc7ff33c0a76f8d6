//! Reads an internal subset (XML 1.0, section 2.8), as strictly as everything else.
//!
//! Parameter entities of the subset itself are replaced; external ones are not read, and what follows them declares
//! nothing any more (section 5.1), unless the message is standalone.

use std::collections::HashMap;

use super::content::attribute_text;
use super::declarations::{AttributeDeclaration, Declarations, Entity, ExternalId, stands_for_html};
use crate::scan::bytes::{byte, skip_spaces};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::markup::{is_public_character, processing_instruction_end};
use crate::scan::names::{is_name_character, ncname_end, qname};
use crate::scan::references;

/// Nesting of parameter entities, and of parentheses in the content of an element.
const NESTING_MAX: usize = 100;
/// The most entities whose text refers to other entities: they are expanded by recursion.
const REFERRING_MAX: usize = 1_000;
/// Bytes that parameter entities may come to.
const PARAMETER_BYTES_MAX: usize = 8 << 20;

/// The state that a subset shares with the parameter entities in it.
pub struct SubsetState<'d> {
    pub declarations: &'d mut Declarations,
    pub standalone: bool,
    /// Replacement texts; none where the entity is external, with what the message calls it.
    parameters: HashMap<Box<[u8]>, Result<Box<str>, ExternalParameter>>,
    open: Vec<Box<[u8]>>,
    parameter_bytes: usize,
    /// An external parameter entity was not read: what follows declares nothing.
    is_blind: bool,
}

#[derive(Clone)]
struct ExternalParameter {
    shown: Box<str>,
    stands_for_html: bool,
}

impl<'d> SubsetState<'d> {
    pub fn new(declarations: &'d mut Declarations, standalone: bool) -> Self {
        let (parameters, open) = (HashMap::new(), Vec::new());
        Self { declarations, standalone, parameters, open, parameter_bytes: 0, is_blind: false }
    }
}

/// Reads declarations from `at` on up to the `]` that ends them, whose offset is the answer; of a parameter entity, up to
/// its end.
pub fn read(checked: LegalText<'_>, at: usize, state: &mut SubsetState<'_>) -> ScanResult<usize> {
    Reader { checked, source: checked.text.as_bytes(), state }.declarations(at)
}

struct Reader<'a, 's, 'd> {
    checked: LegalText<'a>,
    source: &'a [u8],
    state: &'s mut SubsetState<'d>,
}

impl<'a> Reader<'a, '_, '_> {
    fn declarations(&mut self, mut at: usize) -> ScanResult<usize> {
        let is_entity = !self.state.open.is_empty();
        loop {
            at = skip_spaces(self.source, at);
            let rest = self.source.get(at..).unwrap_or_default();
            at = match rest {
                [] if is_entity => return Ok(at),
                [b']', ..] if !is_entity => return Ok(at),
                [b'%', ..] => self.parameter_reference(at)?,
                [b'<', b'?', ..] => processing_instruction_end(self.checked, at)?,
                [b'<', b'!', b'-', b'-', ..] => self.comment(at)?,
                _ if rest.starts_with(b"<!ENTITY") => self.entity(at)?,
                _ if rest.starts_with(b"<!ATTLIST") => self.attribute_list(at)?,
                _ if rest.starts_with(b"<!ELEMENT") => self.element(at)?,
                _ if rest.starts_with(b"<!NOTATION") => self.notation(at)?,
                _ => return self.fault(at, "a declaration or \"]\""),
            };
        }
    }

    #[cold]
    fn fault<T>(&self, at: usize, expected: &str) -> ScanResult<T> {
        let found = describe_input(self.source, at);
        Err(Fault::malformed(at, format!("the DOCTYPE needs {expected} here, found {found}")))
    }

    /// Skips the white space that has to stand at `at`.
    fn space(&self, at: usize) -> ScanResult<usize> {
        let after = skip_spaces(self.source, at);
        if after == at { self.fault(at, "white space") } else { Ok(after) }
    }

    fn end(&self, at: usize) -> ScanResult<usize> {
        let at = skip_spaces(self.source, at);
        if byte(self.source, at) == b'>' { Ok(at + 1) } else { self.fault(at, "\">\"") }
    }

    fn starts(&self, at: usize, keyword: &str) -> bool {
        self.source.get(at..).is_some_and(|rest| rest.starts_with(keyword.as_bytes()))
    }

    /// Reads a name without colon; answers with its end.
    fn name(&self, at: usize, what: &str) -> ScanResult<usize> {
        let end = ncname_end(self.checked, at);
        if end == at { self.fault(at, &format!("the name of {what}")) } else { Ok(end) }
    }

    /// Reads a quoted string; answers with its text and what follows.
    fn literal(&self, at: usize) -> ScanResult<(&'a str, usize)> {
        let quote = byte(self.source, at);
        if !matches!(quote, b'"' | b'\'') {
            return self.fault(at, "a quoted string");
        }
        match memchr::memchr(quote, &self.source[at + 1..]) {
            Some(length) => Ok((&self.checked.text[at + 1..at + 1 + length], at + length + 2)),
            None => Err(Fault::malformed(at, "a quoted string of the DOCTYPE is not closed")),
        }
    }

    fn comment(&self, start: usize) -> ScanResult<usize> {
        match memchr::memmem::find(&self.source[start + 4..], b"--") {
            Some(length) if byte(self.source, start + 4 + length + 2) == b'>' => Ok(start + 4 + length + 3),
            Some(length) => Err(Fault::malformed(start + 4 + length, "\"--\" may not stand in a comment")),
            None => Err(Fault::malformed(start, "the comment is not closed with \"-->\"")),
        }
    }

    fn parameter_reference(&mut self, start: usize) -> ScanResult<usize> {
        let end = self.name(start + 1, "a parameter entity")?;
        if byte(self.source, end) != b';' {
            return self.fault(end, "\";\"");
        }
        let name = &self.source[start + 1..end];
        self.state.declarations.refers_to_parameters = true;
        match self.state.parameters.get(name).cloned() {
            None if !self.state.standalone => self.state.is_blind = true,
            None => {
                let reason = format!("undeclared parameter entity {:?}", shown(name));
                return Err(Fault::malformed(start, reason));
            }
            Some(Err(external)) if external.stands_for_html => self.state.declarations.declares_html = true,
            Some(Err(external)) => {
                self.state.declarations.unread.get_or_insert(external.shown);
                self.state.is_blind = true;
            }
            Some(Ok(text)) => self.include(start, name, &text)?,
        }
        Ok(end + 1)
    }

    /// Reads the declarations in a parameter entity. What is wrong there is wrong where it is referred to.
    fn include(&mut self, at: usize, name: &[u8], text: &str) -> ScanResult<()> {
        if self.state.open.iter().any(|open| **open == *name) {
            let reason = format!("the parameter entity {:?} refers to itself", shown(name));
            return Err(Fault::malformed(at, reason));
        }
        self.state.parameter_bytes += text.len();
        if self.state.open.len() >= NESTING_MAX || self.state.parameter_bytes > PARAMETER_BYTES_MAX {
            let reason = "the parameter entities of the message expand to far more than the message itself";
            return Err(Fault::fixed_limit(at, "parameter_bytes_max", PARAMETER_BYTES_MAX, reason));
        }
        self.state.open.push(name.into());
        let checked = LegalText { text, carriage_returns: true, ascii: text.is_ascii() };
        let done = read(checked, 0, self.state);
        self.state.open.pop();
        done.map(|_| ()).map_err(|fault| fault.moved_to(at, &format!("in the parameter entity {:?}", shown(name))))
    }

    fn entity(&mut self, start: usize) -> ScanResult<usize> {
        let mut at = self.space(start + b"<!ENTITY".len())?;
        let is_parameter = byte(self.source, at) == b'%';
        if is_parameter {
            at = self.space(at + 1)?;
        }
        let end = self.name(at, "an entity")?;
        let name = &self.source[at..end];
        at = self.space(end)?;
        if matches!(byte(self.source, at), b'"' | b'\'') {
            let (literal, after) = self.literal(at)?;
            let text = self.entity_value(at + 1, literal)?;
            if is_parameter {
                self.state.parameters.entry(name.into()).or_insert(Ok(text.into()));
            } else {
                self.add(start, name, Entity::Text(text.into()))?;
            }
            return self.end(after);
        }
        let (id, mut at) = external_id(self.checked, at, false)?;
        if is_parameter {
            let stands_for_html = id.public.is_some_and(|public| stands_for_html(public.as_bytes()));
            let external = ExternalParameter { shown: id.shown(), stands_for_html };
            self.state.parameters.entry(name.into()).or_insert(Err(external));
            return self.end(at);
        }
        let spaced = skip_spaces(self.source, at);
        let is_unparsed = spaced > at && self.starts(spaced, "NDATA");
        if is_unparsed {
            let notation = self.space(spaced + b"NDATA".len())?;
            at = self.name(notation, "a notation")?;
        }
        let external = || Entity::External(id.system.unwrap_or_default().into());
        self.add(start, name, if is_unparsed { Entity::Unparsed } else { external() })?;
        self.end(at)
    }

    fn add(&mut self, at: usize, name: &[u8], entity: Entity) -> ScanResult<()> {
        if self.state.is_blind && !self.state.standalone {
            return Ok(());
        }
        // A standalone message may not refer to an entity that is declared in a parameter entity (section 4.1).
        let counts = !self.state.standalone || self.state.open.is_empty();
        self.state.declarations.add_entity(name, if counts { entity } else { Entity::Hidden });
        if self.state.declarations.referring > REFERRING_MAX {
            let reason = "too many entities refer to other entities";
            return Err(Fault::fixed_limit(at, "entities_with_references_max", REFERRING_MAX, reason));
        }
        Ok(())
    }

    /// Returns the replacement text of a literal at `start`.
    fn entity_value(&self, start: usize, literal: &str) -> ScanResult<String> {
        let mut value = String::with_capacity(literal.len());
        let mut at = 0;
        let bytes = literal.as_bytes();
        while at < bytes.len() {
            let plain = bytes[at..].iter().position(|b| matches!(b, b'&' | b'%' | b'\r')).unwrap_or(bytes.len() - at);
            value.push_str(&literal[at..at + plain]);
            at += plain;
            match byte(bytes, at) {
                b'%' => {
                    let reason = "a reference to a parameter entity may not stand in a declaration of the message";
                    return Err(Fault::malformed(start + at, reason));
                }
                b'&' => {
                    let end = references::check(self.checked, start + at, |_, _| None)? - start;
                    match references::numbered(&bytes[at + 1..end - 1]) {
                        Some(character) => value.push(character),
                        None => value.push_str(&literal[at..end]),
                    }
                    at = end;
                }
                b'\r' => {
                    value.push('\n');
                    at += if byte(bytes, at + 1) == b'\n' { 2 } else { 1 };
                }
                _ => {}
            }
        }
        Ok(value)
    }

    fn attribute_list(&mut self, start: usize) -> ScanResult<usize> {
        let at = self.space(start + b"<!ATTLIST".len())?;
        let mut end = qname(self.checked, at, "element in a declaration")?.end;
        let element = &self.source[at..end];
        loop {
            let at = skip_spaces(self.source, end);
            if byte(self.source, at) == b'>' {
                return Ok(at + 1);
            }
            if at == end {
                return self.fault(at, "white space");
            }
            end = self.attribute(element, at)?;
        }
    }

    fn attribute(&mut self, element: &[u8], start: usize) -> ScanResult<usize> {
        let name_end = qname(self.checked, start, "attribute in a declaration")?.end;
        let at = self.space(name_end)?;
        let (kind, after) = self.attribute_type(at)?;
        let mut at = self.space(after)?;
        let mut default = None;
        if self.starts(at, "#REQUIRED") {
            at += b"#REQUIRED".len();
        } else if self.starts(at, "#IMPLIED") {
            at += b"#IMPLIED".len();
        } else {
            if self.starts(at, "#FIXED") {
                at = self.space(at + b"#FIXED".len())?;
            }
            let (literal, after) = self.literal(at)?;
            let value = attribute_text(self.checked, at + 1..at + 1 + literal.len(), self.state.declarations)?;
            default = Some(value);
            at = after;
        }
        if !self.state.is_blind || self.state.standalone {
            let declaration = AttributeDeclaration::new(&self.checked.text[start..name_end], kind, default.as_deref());
            self.state.declarations.declare_attribute(element, declaration);
        }
        Ok(at)
    }

    /// Reads the type of an attribute; answers with its keyword, which is empty for an enumeration.
    fn attribute_type(&self, at: usize) -> ScanResult<(&'static str, usize)> {
        const KEYWORDS: [&str; 8] = ["CDATA", "IDREFS", "IDREF", "ID", "ENTITY", "ENTITIES", "NMTOKENS", "NMTOKEN"];
        if byte(self.source, at) == b'(' {
            return Ok(("", self.enumeration(at, false)?));
        }
        if self.starts(at, "NOTATION") {
            let list = self.space(at + b"NOTATION".len())?;
            return Ok(("", self.enumeration(list, true)?));
        }
        match KEYWORDS.into_iter().find(|keyword| self.starts(at, keyword)) {
            Some(keyword) => Ok((keyword, at + keyword.len())),
            None => self.fault(at, "the type of an attribute"),
        }
    }

    fn enumeration(&self, at: usize, of_names: bool) -> ScanResult<usize> {
        if byte(self.source, at) != b'(' {
            return self.fault(at, "\"(\"");
        }
        let mut at = at + 1;
        loop {
            at = skip_spaces(self.source, at);
            let end = if of_names { self.name(at, "a notation")? } else { self.name_token(at)? };
            at = skip_spaces(self.source, end);
            match byte(self.source, at) {
                b'|' => at += 1,
                b')' => return Ok(at + 1),
                _ => return self.fault(at, "\"|\" or \")\""),
            }
        }
    }

    fn name_token(&self, at: usize) -> ScanResult<usize> {
        let characters = self.checked.text[at..].chars().take_while(|&c| c == ':' || is_name_character(c));
        let length: usize = characters.map(char::len_utf8).sum();
        if length == 0 { self.fault(at, "a name") } else { Ok(at + length) }
    }

    fn element(&self, start: usize) -> ScanResult<usize> {
        let at = self.space(start + b"<!ELEMENT".len())?;
        let end = qname(self.checked, at, "element in a declaration")?.end;
        let at = self.space(end)?;
        for keyword in ["EMPTY", "ANY"] {
            if self.starts(at, keyword) {
                return self.end(at + keyword.len());
            }
        }
        if byte(self.source, at) != b'(' {
            return self.fault(at, "EMPTY, ANY or \"(\"");
        }
        let first = skip_spaces(self.source, at + 1);
        let end = if self.starts(first, "#PCDATA") { self.mixed(first)? } else { self.children(at)? };
        self.end(end)
    }

    /// Reads the rest of `(#PCDATA | a | b)*`.
    fn mixed(&self, start: usize) -> ScanResult<usize> {
        let mut at = skip_spaces(self.source, start + b"#PCDATA".len());
        let mut has_names = false;
        while byte(self.source, at) == b'|' {
            has_names = true;
            at = skip_spaces(self.source, at + 1);
            at = skip_spaces(self.source, qname(self.checked, at, "element in a declaration")?.end);
        }
        match (byte(self.source, at), byte(self.source, at + 1)) {
            (b')', b'*') => Ok(at + 2),
            (b')', _) if !has_names => Ok(at + 1),
            (b')', _) => self.fault(at + 1, "\"*\""),
            _ => self.fault(at, "\"|\" or \")\""),
        }
    }

    /// Reads a content model in parentheses.
    fn children(&self, start: usize) -> ScanResult<usize> {
        // The separators of the open parentheses: 0 as long as there is none.
        let mut open: Vec<u8> = Vec::new();
        let mut at = start;
        loop {
            at = skip_spaces(self.source, at);
            if byte(self.source, at) == b'(' {
                if open.len() >= NESTING_MAX {
                    let reason = "the content of an element is declared in too many parentheses";
                    return Err(Fault::fixed_limit(at, "parentheses_max", NESTING_MAX, reason));
                }
                open.push(0);
                at += 1;
                continue;
            }
            at = self.occurrence(qname(self.checked, at, "element in a declaration")?.end);
            loop {
                let next = skip_spaces(self.source, at);
                match (byte(self.source, next), open.last_mut()) {
                    (b')', Some(_)) => {
                        open.pop();
                        at = self.occurrence(next + 1);
                        if open.is_empty() {
                            return Ok(at);
                        }
                    }
                    (separator @ (b',' | b'|'), Some(used)) if *used == 0 || *used == separator => {
                        *used = separator;
                        at = next + 1;
                        break;
                    }
                    _ => return self.fault(next, "\",\", \"|\" or \")\""),
                }
            }
        }
    }

    fn occurrence(&self, at: usize) -> usize {
        at + usize::from(matches!(byte(self.source, at), b'?' | b'*' | b'+'))
    }

    fn notation(&self, start: usize) -> ScanResult<usize> {
        let at = self.space(start + b"<!NOTATION".len())?;
        let at = self.space(self.name(at, "a notation")?)?;
        self.end(external_id(self.checked, at, true)?.1)
    }
}

/// Reads an external identifier; `of_notation`: whose system identifier may be missing.
pub fn external_id(checked: LegalText<'_>, start: usize, of_notation: bool) -> ScanResult<(ExternalId<'_>, usize)> {
    let source = checked.text.as_bytes();
    let is_public = source[start..].starts_with(b"PUBLIC");
    if !is_public && !source[start..].starts_with(b"SYSTEM") {
        let found = describe_input(source, start);
        return Err(Fault::malformed(
            start,
            format!("the DOCTYPE needs PUBLIC, SYSTEM or a quoted string, found {found}"),
        ));
    }
    let mut id = ExternalId::default();
    let mut at = start + 6;
    for public in [true, false] {
        if public && !is_public {
            continue;
        }
        let spaced = skip_spaces(source, at);
        let is_quoted = matches!(byte(source, spaced), b'"' | b'\'');
        if !public && is_public && of_notation && !is_quoted {
            break;
        }
        if spaced == at {
            let found = describe_input(source, at);
            return Err(Fault::malformed(at, format!("the DOCTYPE needs white space here, found {found}")));
        }
        let (literal, end) = identifier(checked, spaced, public)?;
        *(if public { &mut id.public } else { &mut id.system }) = Some(literal);
        at = end;
    }
    Ok((id, at))
}

fn identifier(checked: LegalText<'_>, at: usize, public: bool) -> ScanResult<(&str, usize)> {
    let source = checked.text.as_bytes();
    let kind = if public { "public" } else { "system" };
    let quote = byte(source, at);
    if !matches!(quote, b'"' | b'\'') {
        let reason = format!("the DOCTYPE needs a quoted {kind} identifier, found {}", describe_input(source, at));
        return Err(Fault::malformed(at, reason));
    }
    let start = at + 1;
    let Some(length) = memchr::memchr(quote, &source[start..]) else {
        return Err(Fault::malformed(at, format!("the {kind} identifier of the DOCTYPE is not closed")));
    };
    let value = &checked.text[start..start + length];
    match value.bytes().position(|b| public && !is_public_character(b)) {
        Some(bad) => {
            let found = describe_input(source, start + bad);
            Err(Fault::malformed(start + bad, format!("{found} may not stand in a public identifier")))
        }
        None => Ok((value, start + length + 1)),
    }
}
