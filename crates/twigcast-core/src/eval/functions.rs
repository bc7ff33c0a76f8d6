//! The function library (`query/functions.rs` has the rows).

use std::borrow::Cow;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::document::{Attribute, Message, NO_NODE, NodeId, NodeKind};
use crate::ids::AttributeId;
use crate::query::ast::{Expr, Function, PathStart};
use crate::vocabulary::NamespaceId;

use super::cached::ElementsById;
use super::evaluator::{Evaluator, OPERATION_VISITS};
use super::node::NodeRef;
use super::texts::MessageText;
use super::value::{Context, EvalError, Value};
use crate::util::number::{self, SPACES};

/// Bytes of text that take as long as a visit, as measured: to fold the case of ASCII, to look for spaces to take out, and
/// to translate ASCII by a table.
const BYTES_IN_CASE: usize = 32;
const BYTES_NORMALIZED: usize = 4;
const BYTES_BY_TABLE: usize = 4;

impl<'a> Evaluator<'a> {
    /// Returns the value of a function call.
    pub(super) fn call(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<Value<'a>, EvalError> {
        use Function as F;
        self.charge(OPERATION_VISITS)?;
        Ok(match function {
            F::Last => Value::Number(f64::from(context.size)),
            F::Position => Value::Number(f64::from(context.position)),
            F::Count => Value::Number(self.count(&arguments[0], context)? as f64),
            F::Sum => Value::Number(self.sum(&arguments[0], context)?),
            F::Number => Value::Number(match arguments.first() {
                Some(argument) => self.number(argument, context)?,
                None => self.number_value(context.node)?,
            }),
            F::Floor | F::Ceiling | F::Round | F::Abs => {
                Value::Number(in_whole(function, self.number(&arguments[0], context)?))
            }
            F::StringLength => Value::Number(self.string_length(arguments, context)? as f64),
            F::Id => Value::Nodes(self.elements_by_id(&arguments[0], context)?),
            F::LocalName | F::NamespaceUri | F::Name => Value::String(self.name_of(function, arguments, context)?),
            F::String => Value::String(self.string_or_context(arguments, context)?),
            F::Concat => Value::String(Cow::Owned(self.concatenation(arguments, context)?)),
            F::SubstringBefore | F::SubstringAfter => {
                Value::String(Cow::Owned(self.part_beside(function, arguments, context)?))
            }
            F::Substring => Value::String(Cow::Owned(self.substring(arguments, context)?)),
            F::NormalizeSpace => {
                let text = self.string_or_context(arguments, context)?;
                self.charge_bytes(text.len(), BYTES_NORMALIZED)?;
                let normal = normalize_space(text);
                if let Cow::Owned(normal) = &normal {
                    self.charge_characters(normal.len())?;
                }
                Value::String(normal)
            }
            F::Translate => Value::String(Cow::Owned(self.translated(arguments, context)?)),
            F::GeoDistance => Value::Number(self.distance_of_places(arguments, context)?),
            // The parser makes constants of these.
            F::GeoPoint | F::GeoCircle | F::GeoBox | F::GeoPolygon => Value::String(Cow::Borrowed("")),
            F::XsString => Value::String(self.text_in_xquery(&arguments[0], context)?),
            F::LowerCase | F::UpperCase => self.in_case(function, &arguments[0], context)?,
            F::StringJoin => Value::String(Cow::Owned(self.string_join(arguments, context)?)),
            F::Min | F::Max | F::Avg => Value::Number(self.extreme(function, &arguments[0], context)?),
            F::DistinctValues => Value::Nodes(self.distinct_values(&arguments[0], context)?),
            F::Tokenize => Value::Nodes(self.tokens(arguments, context)?),
            F::TwigWords => Value::Nodes(self.words(arguments, context)?),
            F::Replace => Value::String(Cow::Owned(self.replaced(arguments, context)?)),
            F::Intersect | F::Except => Value::Nodes(self.set_operation(function, arguments, context)?),
            #[rustfmt::skip]
            F::StartsWith | F::EndsWith | F::Contains | F::Matches | F::TwigFullText | F::TimeWithin | F::Boolean
            | F::GeoIntersects | F::GeoDisjoint | F::GeoWithin | F::GeoContains | F::Not | F::True | F::False | F::Lang => Value::Boolean(self.call_boolean(function, arguments, context)?),
            #[rustfmt::skip]
            F::XsDouble | F::XsDecimal | F::XsInteger | F::XsDateTime
            | F::XsDate | F::XsTime | F::XsDayTimeDuration | F::XsYearMonthDuration
            | F::YearFromDateTime | F::MonthFromDateTime | F::DayFromDateTime | F::HoursFromDateTime
            | F::MinutesFromDateTime | F::SecondsFromDateTime | F::YearFromDate | F::MonthFromDate
            | F::DayFromDate | F::HoursFromTime | F::MinutesFromTime | F::SecondsFromTime
            | F::YearsFromDuration | F::MonthsFromDuration | F::DaysFromDuration | F::HoursFromDuration
            | F::MinutesFromDuration | F::SecondsFromDuration | F::XsQName | F::ResolveQName
            | F::TwigVersion | F::TwigNow => self.typed_call_result(function, arguments, context)?,
        })
    }

    /// Evaluates `translate()`.
    fn translated(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let text = self.string(&arguments[0], context)?;
        let (from, to) = (self.string(&arguments[1], context)?, self.string(&arguments[2], context)?);
        self.charge_characters(from.len() + to.len())?;
        let is_by_table = from.is_ascii() && to.is_ascii() && text.is_ascii();
        self.charge_bytes(text.len(), if is_by_table { BYTES_BY_TABLE } else { 1 })?;
        Ok(translate(&text, &from, &to))
    }

    /// Evaluates `matches()`.
    fn is_match(&self, arguments: &'a [Expr], context: Context) -> Result<bool, EvalError> {
        let text = self.text(&arguments[0], context)?.text;
        // The parser has compiled each pattern.
        let Expr::Pattern(pattern) = &arguments[1] else { return Ok(false) };
        self.charge_characters(text.len().saturating_mul(pattern.weight()))?;
        Ok(pattern.is_match(&text))
    }

    /// Returns `boolean()` of a function call, without a detour where the function gives a truth value.
    pub(super) fn call_boolean(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<bool, EvalError> {
        match function {
            Function::True => Ok(true),
            Function::False => Ok(false),
            Function::Boolean => self.boolean(&arguments[0], context),
            Function::Not => Ok(!self.boolean(&arguments[0], context)?),
            Function::Contains | Function::StartsWith | Function::EndsWith
                if self.has_grams() && self.is_nowhere(&arguments[1], &arguments[0], self.is_in_tree(context.node)) =>
            {
                Ok(false)
            }
            Function::Contains => {
                let (text, part) = (self.text(&arguments[0], context)?, self.text(&arguments[1], context)?);
                self.contains(&text, &arguments[1], &part.text)
            }
            Function::StartsWith | Function::EndsWith => {
                let (text, end) = (self.text(&arguments[0], context)?, self.text(&arguments[1], context)?);
                if text.range.is_some() {
                    self.charge_text(end.text.len())?;
                }
                Ok(match function {
                    Function::StartsWith => text.text.starts_with(&*end.text),
                    _ => text.text.ends_with(&*end.text),
                })
            }
            Function::Matches => self.is_match(arguments, context),
            Function::TwigFullText => self.full_text(arguments, context),
            Function::TimeWithin => self.is_within(arguments, context),
            Function::GeoIntersects | Function::GeoDisjoint | Function::GeoWithin | Function::GeoContains => {
                self.places_lie(function, arguments, context)
            }
            Function::Lang => {
                let expected = self.string(&arguments[0], context)?;
                Ok(self.language(context.node)?.is_some_and(|language| is_language(&language, &expected)))
            }
            // The rest is listed, so that a function that `call` sends here cannot be sent back by oversight.
            #[rustfmt::skip]
            Function::Last | Function::Position | Function::Count | Function::Id
            | Function::LocalName | Function::NamespaceUri | Function::Name | Function::String
            | Function::Concat | Function::SubstringBefore | Function::SubstringAfter | Function::Substring
            | Function::StringLength | Function::NormalizeSpace | Function::Translate | Function::Number
            | Function::Sum | Function::Floor | Function::Ceiling | Function::Round
            | Function::LowerCase | Function::UpperCase | Function::StringJoin | Function::Abs
            | Function::Min | Function::Max | Function::Avg | Function::DistinctValues
            | Function::Tokenize | Function::TwigWords | Function::Replace | Function::Intersect | Function::Except | Function::XsString
            | Function::GeoDistance | Function::GeoPoint | Function::GeoCircle | Function::GeoBox
            | Function::GeoPolygon => Ok(self.truth(&self.call(function, arguments, context)?)),
            #[rustfmt::skip]
            Function::XsDouble | Function::XsDecimal | Function::XsInteger
            | Function::XsDateTime | Function::XsDate | Function::XsTime
            | Function::XsDayTimeDuration | Function::XsYearMonthDuration | Function::YearFromDateTime
            | Function::MonthFromDateTime | Function::DayFromDateTime | Function::HoursFromDateTime
            | Function::MinutesFromDateTime | Function::SecondsFromDateTime | Function::YearFromDate
            | Function::MonthFromDate | Function::DayFromDate | Function::HoursFromTime
            | Function::MinutesFromTime | Function::SecondsFromTime | Function::YearsFromDuration
            | Function::MonthsFromDuration | Function::DaysFromDuration | Function::HoursFromDuration
            | Function::MinutesFromDuration | Function::SecondsFromDuration | Function::XsQName
            | Function::ResolveQName | Function::TwigVersion | Function::TwigNow => {
                Ok(self.truth(&self.typed_call_result(function, arguments, context)?))
            },
        }
    }

    /// Evaluates `xs:string()`: numbers are written as XQuery writes them.
    fn text_in_xquery(&self, argument: &'a Expr, context: Context) -> Result<Cow<'a, str>, EvalError> {
        let number = match self.value(argument, context)? {
            Value::Number(number) => Some(number),
            Value::Nodes(items) => items.first().and_then(|&item| self.number_among_values(item)),
            _ => None,
        };
        match number {
            Some(number) => Ok(number::format_xquery(number)),
            None => self.string(argument, context),
        }
    }

    /// Returns the string that a function with an optional argument works on.
    fn string_or_context(&self, arguments: &'a [Expr], context: Context) -> Result<Cow<'a, str>, EvalError> {
        match arguments.first() {
            Some(argument) => self.string(argument, context),
            None => self.string_value(context.node),
        }
    }

    /// Returns whether the string-value of a node is a part of the message's text.
    fn is_in_tree(&self, node: NodeRef) -> bool {
        let NodeRef::Node(id) = node else { return false };
        // Constants are evaluated without any message.
        let kind = self.message.document.nodes.get(id as usize).map(|node| node.kind);
        matches!(kind, Some(NodeKind::Document | NodeKind::Element | NodeKind::Text))
    }

    fn string_length(&self, arguments: &'a [Expr], context: Context) -> Result<usize, EvalError> {
        let reading = match arguments.first() {
            Some(argument) => self.text(argument, context)?,
            None => self.reading(context.node)?,
        };
        match reading.range {
            Some(range) => Ok(self.texts()?.map_or(0, |texts| texts.count(range))),
            None => {
                self.charge_text(reading.text.len())?;
                Ok(reading.text.chars().count())
            }
        }
    }

    fn sum(&self, argument: &'a Expr, context: Context) -> Result<f64, EvalError> {
        if let Some(sum) = self.sum_along(argument, context)? {
            return Ok(sum);
        }
        // The sum of negative zeros is one; that of nothing is not.
        let mut sum = None;
        self.numbers(argument, context, &mut |number| sum = Some(sum.map_or(number, |sum: f64| sum + number)))?;
        Ok(sum.unwrap_or(0.0))
    }

    fn in_case(&self, function: Function, argument: &'a Expr, context: Context) -> Result<Value<'a>, EvalError> {
        let text = self.text(argument, context)?.text;
        self.charge_bytes(text.len(), if text.is_ascii() { BYTES_IN_CASE } else { 1 })?;
        let changed = if function == Function::LowerCase { text.to_lowercase() } else { text.to_uppercase() };
        Ok(Value::String(Cow::Owned(changed)))
    }

    fn concatenation(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let mut text = String::new();
        for argument in arguments {
            let part = self.text(argument, context)?;
            self.charge(1)?;
            self.charge_new_text(text.len(), part.text.len())?;
            text.push_str(&part.text);
        }
        Ok(text)
    }

    /// Returns `substring-before()` or `substring-after()`.
    fn part_beside(&self, function: Function, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let (text, mark) = (self.string(&arguments[0], context)?, self.string(&arguments[1], context)?);
        // Both arguments and the part are texts of their own.
        self.charge(OPERATION_VISITS)?;
        self.charge_text(2 * text.len())?;
        let part = text
            .split_once(&*mark)
            .map_or("", |(before, after)| if function == Function::SubstringBefore { before } else { after });
        Ok(part.to_owned())
    }

    fn string_join(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let separator = match arguments.get(1) {
            Some(separator) => self.string(separator, context)?,
            None => Cow::Borrowed(""),
        };
        let mut joined = String::new();
        for (index, node) in self.nodes(&arguments[0], context)?.into_iter().enumerate() {
            if index > 0 {
                self.charge_new_text(joined.len(), separator.len())?;
                joined.push_str(&separator);
            }
            let value = self.whole_reading(node)?;
            self.charge_new_text(joined.len(), value.len())?;
            joined.push_str(&value);
            self.charge(1)?;
        }
        Ok(joined)
    }

    fn name_of(&self, function: Function, arguments: &'a [Expr], context: Context) -> Result<Cow<'a, str>, EvalError> {
        let node = match arguments.first() {
            Some(argument) => match self.first_node(argument, context)? {
                Some(node) => node,
                None => return Ok(Cow::Borrowed("")),
            },
            None => context.node,
        };
        self.charge(1)?;
        Ok(match function {
            Function::LocalName => Cow::Borrowed(self.local_name(node)),
            Function::Name => Cow::Borrowed(self.qualified_name(node)),
            _ => self.namespace_uri(node),
        })
    }

    /// Evaluates `substring()`: the characters whose position `p` satisfies `round(start) <= p < round(start) +
    /// round(length)`; no comparison with NaN succeeds.
    fn substring(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let text = self.text(&arguments[0], context)?;
        let start = number::round(self.number(&arguments[1], context)?);
        let end = match arguments.get(2) {
            Some(length) => start + number::round(self.number(length, context)?),
            None => f64::INFINITY,
        };
        // Positions count from 1; the comparisons below fail where one of the numbers is NaN.
        let first = start.max(1.0);
        let is_inside = first < end && first <= text.text.len() as f64;
        if !is_inside || start.is_nan() {
            return Ok(String::new());
        }
        let skipped = first as usize - 1;
        let taken = (end - first).min(text.text.len() as f64) as usize;
        let is_ascii = if text.range.is_some() {
            self.texts()?.is_some_and(MessageText::is_ascii)
        } else {
            self.charge_text(text.text.len())?;
            text.text.is_ascii()
        };
        if is_ascii {
            let end = text.text.len().min(skipped + taken);
            self.charge_text(end - skipped)?;
            return Ok(text.text[skipped..end].to_owned());
        }
        self.charge_characters(text.text.len().min(4 * (skipped + taken)))?;
        Ok(text.text.chars().skip(skipped).take(taken).collect())
    }

    /// Returns the value of `xml:lang` that is in force at a node.
    fn language(&self, node: NodeRef) -> Result<Option<Cow<'a, str>>, EvalError> {
        let document = self.message.document;
        if self.is_expensive() && !self.has_languages()? {
            return Ok(None);
        }
        let mut element = node.tree_node(document);
        while element != NO_NODE {
            self.charge(1)?;
            if let Some(attribute) = self.xml_attribute(element, b"lang") {
                return Ok(Some(self.string_value(NodeRef::Attribute(attribute))?));
            }
            element = document.nodes[element as usize].parent;
        }
        Ok(None)
    }

    /// Returns whether any element says which language it is in.
    fn has_languages(&self) -> Result<bool, EvalError> {
        if let Some(&cached) = self.has_languages.get() {
            return Ok(cached);
        }
        let attributes = &self.message.document.attributes;
        self.charge(attributes.len() as u64)?;
        let is_language = |attribute: &Attribute| attribute.qname.of(self.message.source) == b"xml:lang";
        Ok(*self.has_languages.get_or_init(|| attributes.iter().any(is_language)))
    }

    /// Returns the attribute `xml:local` of an element. Only the prefix `xml` can be bound to its namespace.
    fn xml_attribute(&self, element: NodeId, local: &[u8]) -> Option<AttributeId> {
        self.message.document.attribute_ids(element).find(|&attribute| {
            let attribute = self.attribute(attribute);
            attribute.name.namespace == NamespaceId::XML
                && attribute.qname.of(self.message.source).strip_prefix(b"xml:") == Some(local)
        })
    }

    /// Returns the attribute that identifies an element: `xml:id`, or what the internal subset declares as ID.
    fn id_attribute(&self, element: u32) -> Option<AttributeId> {
        let Message { source, document } = self.message;
        let declared = || {
            let element_name = self.message.qname(element).as_bytes();
            let names = document.id_attributes.iter().filter(|(owner, _)| **owner == *element_name);
            let mut candidates = names.flat_map(|(_, name)| {
                let attributes = document.attribute_ids(element);
                attributes.filter(move |&id| *document.attributes[id.index()].qname.of(source) == **name)
            });
            candidates.next()
        };
        let is_element = || document.nodes[element as usize].kind == NodeKind::Element;
        let has_declared = !document.id_attributes.is_empty() && is_element();
        self.xml_attribute(element, b"id").or_else(|| if has_declared { declared() } else { None })
    }

    /// Evaluates `id()`. Messages are read without any external DTD, which could declare more identifiers.
    fn elements_by_id(&self, argument: &'a Expr, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        let texts = match self.value(argument, context)? {
            Value::Nodes(nodes) => nodes.into_iter().map(|node| self.string_value(node)).collect::<Result<_, _>>()?,
            Value::String(text) => vec![text],
            Value::Number(number) => vec![number::format(number)],
            Value::Boolean(truth) => vec![Cow::Borrowed(if truth { "true" } else { "false" })],
            Value::Temporal(_) => Vec::new(),
        };
        let by_id = self.elements_with_ids()?;
        let tokens = texts.iter().flat_map(|text| text.split(SPACES)).filter(|token| !token.is_empty());
        let mut elements = Vec::new();
        for token in tokens {
            self.charge(1)?;
            elements.extend(by_id.get(token).map(|&element| NodeRef::Node(element)));
        }
        self.sort_unique(&mut elements)?;
        Ok(elements)
    }

    /// Returns the first element with each `xml:id`.
    fn elements_with_ids(&self) -> Result<Rc<ElementsById>, EvalError> {
        let cached = self.cache.borrow().elements_by_id();
        if let Some(elements) = cached {
            return Ok(elements);
        }
        let nodes = self.message.document.nodes.len() as u32;
        self.charge(u64::from(nodes))?;
        let mut elements = ElementsById::default();
        for element in 1..nodes {
            let Some(attribute) = self.id_attribute(element) else { continue };
            let value = self.string_value(NodeRef::Attribute(attribute))?;
            elements.entry(value.trim_matches(SPACES).into()).or_insert(element);
        }
        let elements = Rc::new(elements);
        self.cache.borrow_mut().keep_elements_by_id(&elements);
        Ok(elements)
    }

    /// Returns the first node of a node-set in document order.
    pub(super) fn first_node(&self, expr: &'a Expr, context: Context) -> Result<Option<NodeRef>, EvalError> {
        match expr {
            Expr::Path(path) if path.steps.is_empty() && path.start == PathStart::Context => Ok(Some(context.node)),
            Expr::Path(path) => self.path_first(path, context),
            _ => Ok(self.nodes(expr, context)?.first().copied()),
        }
    }
}

/// Returns what `floor()`, `ceiling()`, `round()` or `abs()` makes of a number.
fn in_whole(function: Function, number: f64) -> f64 {
    match function {
        Function::Floor => number.floor(),
        Function::Ceiling => number.ceil(),
        Function::Abs => number.abs(),
        _ => number::round(number),
    }
}

/// Is a language the wanted one or a sublanguage of it? Case does not matter.
fn is_language(language: &str, expected: &str) -> bool {
    language.get(..expected.len()).is_some_and(|start| {
        start.eq_ignore_ascii_case(expected) && matches!(language.as_bytes().get(expected.len()), None | Some(b'-'))
    })
}

fn normalize_space(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let is_normal = !text.starts_with(SPACES)
        && !text.ends_with(SPACES)
        && !text.contains(['\t', '\r', '\n'])
        && !text.contains("  ");
    if is_normal {
        return text;
    }
    let mut normal = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut start = 0;
    // Bytes of other characters are no spaces.
    while let Some(skipped) = bytes[start..].iter().position(|&byte| !is_space(byte)) {
        start += skipped;
        let length = bytes[start..].iter().position(|&byte| is_space(byte)).unwrap_or(bytes.len() - start);
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(&text[start..start + length]);
        start += length;
    }
    Cow::Owned(normal)
}

/// As `translate`, for what most queries translate: letters without accents. A table costs less than a hash map, which
/// is made anew for each text.
fn translate_ascii(text: &str, from: &[u8], to: &[u8]) -> String {
    let mut table: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    let (mut is_mapped, mut is_removed) = ([false; 256], [false; 256]);
    for (position, &character) in from.iter().enumerate() {
        let character = usize::from(character);
        // The first occurrence counts, but a later one still takes up a place in `to`.
        if std::mem::replace(&mut is_mapped[character], true) {
            continue;
        }
        match to.get(position) {
            Some(&replacement) => table[character] = replacement,
            None => is_removed[character] = true,
        }
    }
    if to.len() >= from.len() {
        return of_bytes(text.bytes().map(|byte| table[usize::from(byte)]).collect());
    }
    let mut translated = vec![0; text.len()];
    let mut length = 0;
    for byte in text.bytes() {
        // Written over by the next one if it is removed.
        translated[length] = table[usize::from(byte)];
        length += usize::from(!is_removed[usize::from(byte)]);
    }
    translated.truncate(length);
    of_bytes(translated)
}

/// Returns the text that a translation has made. One ASCII character in place of another leaves it UTF-8.
fn of_bytes(translated: Vec<u8>) -> String {
    String::from_utf8(translated).unwrap_or_default()
}

fn translate(text: &str, from: &str, to: &str) -> String {
    if from.is_ascii() && to.is_ascii() {
        return translate_ascii(text, from.as_bytes(), to.as_bytes());
    }
    let mut replacements: FxHashMap<char, Option<char>> = FxHashMap::default();
    let mut to = to.chars();
    for character in from.chars() {
        // The first occurrence counts, but a later one still takes up a place in `to`.
        let replacement = to.next();
        replacements.entry(character).or_insert(replacement);
    }
    text.chars().filter_map(|c| replacements.get(&c).copied().unwrap_or(Some(c))).collect()
}
