//! Tells which elements are records: by name or by path, or one of several.

/// The test of an element's name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordNameTest {
    /// `name`: with any prefix.
    Local(Box<[u8]>),
    /// `prefix:name`, as the document writes it.
    Written(Box<[u8]>),
    /// `{namespace}name`.
    Expanded(Box<str>, Box<[u8]>),
    /// `*`, as a step of a path.
    Any,
}

/// A path that leads to records: its steps, the last one first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordPath {
    steps: Vec<RecordNameTest>,
    /// The path begins at the root.
    is_absolute: bool,
}

/// The elements at which a document is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordNames(Vec<RecordPath>);

/// Returns the part of a written name behind its colon.
pub fn local_part(name: &[u8]) -> &[u8] {
    memchr::memrchr(b':', name).map_or(name, |colon| &name[colon + 1..])
}

impl RecordNames {
    /// Reads `name`, `prefix:name`, `{namespace}name`, paths of these (`a/b`, `/a/b`), and several of those with `|`
    /// between.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let paths: Result<Vec<_>, String> =
            split(text, '|').into_iter().map(|path| RecordPath::parse(path.trim())).collect();
        paths.map(Self)
    }

    /// Returns whether any of them names a namespace.
    pub fn use_namespaces(&self) -> bool {
        let is_expanded = |step: &RecordNameTest| matches!(step, RecordNameTest::Expanded(..));
        self.0.iter().any(|path| path.steps.iter().any(is_expanded))
    }

    /// Returns whether an element is a record. `names`: its name and those of the elements around it, as written,
    /// innermost first. `namespace`: the namespace of each of them, by position.
    pub fn matches<'n, N>(&self, names: &N, namespace: impl Fn(usize) -> String + Copy) -> bool
    where
        N: Fn(usize) -> Option<&'n [u8]>,
    {
        self.0.iter().any(|path| path.matches(names, namespace))
    }
}

impl RecordPath {
    fn parse(text: &str) -> Result<Self, String> {
        // `//item` is how XPath writes what a path without a slash means here.
        let (is_absolute, rest) = match (text.strip_prefix("//"), text.strip_prefix('/')) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => (false, text),
        };
        let parts = split(rest, '/');
        let step = |&part: &&str| match part {
            "*" if parts.len() > 1 => Ok(RecordNameTest::Any),
            part => RecordNameTest::parse(part),
        };
        let steps: Result<Vec<_>, _> = parts.iter().rev().map(step).collect();
        match steps {
            Ok(steps) => Ok(Self { steps, is_absolute }),
            Err(wrong) => Err(format!(
                "{text:?} names no element: {wrong}; write name, prefix:name, {{namespace}}name or a path of these, such \
                 as /feed/entry or /feed/*"
            )),
        }
    }

    fn matches<'n, N>(&self, names: &N, namespace: impl Fn(usize) -> String + Copy) -> bool
    where
        N: Fn(usize) -> Option<&'n [u8]>,
    {
        let leads = self
            .steps
            .iter()
            .enumerate()
            .all(|(position, step)| names(position).is_some_and(|name| step.matches(name, || namespace(position))));
        leads && (!self.is_absolute || names(self.steps.len()).is_none())
    }
}

impl RecordNameTest {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let checked = |name: &str| {
            let is_wrong = |c: char| c.is_whitespace() || "{}<>&\"'=[]()@*|/!?,;#".contains(c);
            match name.is_empty() || name.contains(is_wrong) {
                true => Err("a name is missing or has characters that names do not have"),
                false => Ok(name.as_bytes().into()),
            }
        };
        if let Some(rest) = text.strip_prefix('{') {
            let (namespace, local) = rest.split_once('}').ok_or("the { of a namespace is not closed")?;
            return Ok(Self::Expanded(namespace.into(), checked(local)?));
        }
        let name = checked(text)?;
        Ok(if text.contains(':') { Self::Written(name) } else { Self::Local(name) })
    }

    fn matches(&self, written: &[u8], namespace: impl Fn() -> String) -> bool {
        match self {
            Self::Local(name) => local_part(written) == &**name,
            Self::Written(name) => written == &**name,
            Self::Expanded(uri, local) => local_part(written) == &**local && *namespace() == **uri,
            Self::Any => true,
        }
    }

    fn local(&self) -> &[u8] {
        match self {
            Self::Local(name) | Self::Expanded(_, name) => name,
            Self::Written(name) => local_part(name),
            Self::Any => b"",
        }
    }
}

/// A name of elements and attributes around or before records that these inherit: `name` and `prefix:name` are elements
/// and attributes, `{namespace}name` as well, and with `@` before it each is attributes alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InheritedName {
    test: RecordNameTest,
    is_attribute: bool,
}

impl InheritedName {
    /// Reads a name.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let name = text.strip_prefix('@');
        let is_attribute = name.is_some();
        match RecordNameTest::parse(name.unwrap_or(text)) {
            Ok(test) => Ok(Self { test, is_attribute }),
            Err(wrong) => Err(format!(
                "{text:?} names nothing that can be inherited: {wrong}; write name, prefix:name or {{namespace}}name, \
                 with @ before it for attributes alone"
            )),
        }
    }

    /// Returns whether an element is meant.
    pub fn is_element(&self, written: &[u8], namespace: impl Fn() -> String) -> bool {
        !self.is_attribute && self.test.matches(written, namespace)
    }

    /// Returns whether an element may be meant, whatever its namespace.
    pub fn may_be_element(&self, written: &[u8]) -> bool {
        !self.is_attribute && self.test.local() == local_part(written)
    }

    /// Returns whether an attribute is meant. One without a prefix is in no namespace.
    pub fn is_attribute(&self, written: &[u8], namespace: impl Fn() -> String) -> bool {
        match &self.test {
            RecordNameTest::Local(name) | RecordNameTest::Written(name) => written == &**name,
            RecordNameTest::Expanded(uri, local) => {
                let of_prefix = || if written.contains(&b':') { namespace() } else { String::new() };
                local_part(written) == &**local && *of_prefix() == **uri
            }
            RecordNameTest::Any => false,
        }
    }
}

/// Splits a text at a character, but not inside of braces.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut depth = 0;
    text.split(|c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        depth == 0 && c == separator
    })
    .collect()
}
