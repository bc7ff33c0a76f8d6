//! The core function library (Recommendation, section 4).

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::document::{Attribute, NO_NODE, NodeId, NodeKind};
use crate::query::ast::{Expr, Function, PathStart};
use crate::vocabulary::NamespaceId;

use super::{Context, EvalError, Evaluator, NodeRef, Value};
use crate::util::number::{self, SPACES};

impl<'a> Evaluator<'a> {
    /// Returns the value of a function call.
    pub(super) fn call(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<Value<'a>, EvalError> {
        use Function as F;
        Ok(match function {
            F::Last => Value::Number(f64::from(context.size)),
            F::Position => Value::Number(f64::from(context.position)),
            F::Count => Value::Number(self.count(&arguments[0], context)? as f64),
            F::Sum => Value::Number(self.sum(&arguments[0], context)?),
            F::Number => Value::Number(match arguments.first() {
                Some(argument) => self.number(argument, context)?,
                None => self.number_value(context.node)?,
            }),
            F::Floor => Value::Number(self.number(&arguments[0], context)?.floor()),
            F::Ceiling => Value::Number(self.number(&arguments[0], context)?.ceil()),
            F::Round => Value::Number(number::round(self.number(&arguments[0], context)?)),
            F::StringLength => Value::Number(self.string_length(arguments, context)? as f64),
            F::Id => Value::Nodes(self.elements_by_id(&arguments[0], context)?),
            F::LocalName | F::NamespaceUri | F::Name => Value::String(self.name_of(function, arguments, context)?),
            F::String => Value::String(self.string_or_context(arguments, context)?),
            F::Concat => {
                let mut text = String::new();
                for argument in arguments {
                    text.push_str(&self.text(argument, context)?.text);
                }
                self.charge_text(text.len())?;
                Value::String(Cow::Owned(text))
            }
            F::SubstringBefore | F::SubstringAfter => {
                let (text, mark) = (self.string(&arguments[0], context)?, self.string(&arguments[1], context)?);
                let part = text
                    .split_once(&*mark)
                    .map_or("", |(before, after)| if function == F::SubstringBefore { before } else { after });
                Value::String(Cow::Owned(part.to_owned()))
            }
            F::Substring => Value::String(Cow::Owned(self.substring(arguments, context)?)),
            F::NormalizeSpace => Value::String(normalize_space(self.string_or_context(arguments, context)?)),
            F::Translate => {
                let text = self.string(&arguments[0], context)?;
                let (from, to) = (self.string(&arguments[1], context)?, self.string(&arguments[2], context)?);
                Value::String(Cow::Owned(translate(&text, &from, &to)))
            }
            F::StartsWith | F::Contains | F::Boolean | F::Not | F::True | F::False | F::Lang => {
                Value::Boolean(self.call_boolean(function, arguments, context)?)
            }
        })
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
            Function::Contains | Function::StartsWith
                if self.has_grams() && self.is_nowhere(&arguments[1], &arguments[0], self.is_in_tree(context.node)) =>
            {
                Ok(false)
            }
            Function::Contains => {
                let (text, part) = (self.text(&arguments[0], context)?, self.text(&arguments[1], context)?);
                self.contains(&text, &arguments[1], &part.text)
            }
            Function::StartsWith => {
                let (text, start) = (self.text(&arguments[0], context)?, self.text(&arguments[1], context)?);
                if text.range.is_some() {
                    self.charge_text(start.text.len())?;
                }
                Ok(text.text.starts_with(&*start.text))
            }
            Function::Lang => {
                let expected = self.string(&arguments[0], context)?;
                Ok(self.language(context.node)?.is_some_and(|language| is_language(&language, &expected)))
            }
            _ => Ok(super::truth(&self.call(function, arguments, context)?)),
        }
    }

    /// The string that a function with an optional argument works on.
    fn string_or_context(&self, arguments: &'a [Expr], context: Context) -> Result<Cow<'a, str>, EvalError> {
        match arguments.first() {
            Some(argument) => self.string(argument, context),
            None => self.string_value(context.node),
        }
    }

    /// Is the string-value of a node a part of the message's text?
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
            None => Ok(reading.text.chars().count()),
        }
    }

    fn sum(&self, argument: &'a Expr, context: Context) -> Result<f64, EvalError> {
        let mut sum = 0.0;
        for node in self.nodes(argument, context)? {
            sum += self.number_value(node)?;
        }
        Ok(sum)
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

    /// `substring()`: the characters whose position `p` satisfies `round(start) <= p < round(start) + round(length)`;
    /// no comparison with NaN succeeds.
    fn substring(&self, arguments: &'a [Expr], context: Context) -> Result<String, EvalError> {
        let text = self.string(&arguments[0], context)?;
        let start = number::round(self.number(&arguments[1], context)?);
        let end = match arguments.get(2) {
            Some(length) => start + number::round(self.number(length, context)?),
            None => f64::INFINITY,
        };
        if start.is_nan() {
            return Ok(String::new());
        }
        let inside = |(position, _): &(f64, char)| *position >= start && *position < end;
        let positions = (1_u32..).map(f64::from).zip(text.chars());
        Ok(positions.filter(inside).map(|(_, character)| character).collect())
    }

    /// The value of `xml:lang` that is in force at a node.
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

    /// Does any element say which language it is in?
    fn has_languages(&self) -> Result<bool, EvalError> {
        if let Some(&cached) = self.has_languages.get() {
            return Ok(cached);
        }
        let attributes = &self.message.document.attributes;
        self.charge(attributes.len() as u64)?;
        let is_language = |attribute: &Attribute| attribute.qname.of(self.message.source) == b"xml:lang";
        Ok(*self.has_languages.get_or_init(|| attributes.iter().any(is_language)))
    }

    /// The attribute `xml:local` of an element. Only the prefix `xml` can be bound to its namespace.
    fn xml_attribute(&self, element: NodeId, local: &[u8]) -> Option<u32> {
        let node = &self.message.document.nodes[element as usize];
        (node.attributes_start..node.attributes_end).find(|&attribute| {
            let attribute = self.attribute(attribute);
            attribute.name.namespace == NamespaceId::XML
                && attribute.qname.of(self.message.source).strip_prefix(b"xml:") == Some(local)
        })
    }

    /// `id()`. Messages are read without their DTD, so the identifiers are those that need none: `xml:id`.
    fn elements_by_id(&self, argument: &'a Expr, context: Context) -> Result<Vec<NodeRef>, EvalError> {
        let texts = match self.value(argument, context)? {
            Value::Nodes(nodes) => nodes.into_iter().map(|node| self.string_value(node)).collect::<Result<_, _>>()?,
            Value::String(text) => vec![text],
            Value::Number(number) => vec![number::format(number)],
            Value::Boolean(truth) => vec![Cow::Borrowed(if truth { "true" } else { "false" })],
        };
        // Each identifier once: the first element that has it.
        let tokens = texts.iter().flat_map(|text| text.split(SPACES)).filter(|token| !token.is_empty());
        let mut expected: FxHashMap<&str, bool> = tokens.map(|token| (token, false)).collect();
        let nodes = self.message.document.nodes.len() as u32;
        self.charge(u64::from(nodes))?;
        let mut elements = Vec::new();
        for element in 1..nodes {
            let Some(attribute) = self.xml_attribute(element, b"id") else { continue };
            let value = self.string_value(NodeRef::Attribute(attribute))?;
            if let Some(taken @ false) = expected.get_mut(value.trim_matches(SPACES)) {
                *taken = true;
                elements.push(NodeRef::Node(element));
            }
        }
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

/// Is a language the wanted one or a sublanguage of it? Case does not matter.
fn is_language(language: &str, expected: &str) -> bool {
    language.get(..expected.len()).is_some_and(|start| {
        start.eq_ignore_ascii_case(expected) && matches!(language.as_bytes().get(expected.len()), None | Some(b'-'))
    })
}

fn normalize_space(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_space = |c: char| SPACES.contains(&c);
    let is_normal = !text.starts_with(is_space)
        && !text.ends_with(is_space)
        && !text.contains(['\t', '\r', '\n'])
        && !text.contains("  ");
    if is_normal {
        return text;
    }
    let mut normal = String::with_capacity(text.len());
    for word in text.split(is_space).filter(|word| !word.is_empty()) {
        if !normal.is_empty() {
            normal.push(' ');
        }
        normal.push_str(word);
    }
    Cow::Owned(normal)
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let mut replacements: FxHashMap<char, Option<char>> = FxHashMap::default();
    let mut to = to.chars();
    for character in from.chars() {
        // The first occurrence counts, but a later one still takes up a place in `to`.
        let replacement = to.next();
        replacements.entry(character).or_insert(replacement);
    }
    text.chars().filter_map(|c| replacements.get(&c).copied().unwrap_or(Some(c))).collect()
}
