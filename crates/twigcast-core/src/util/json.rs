//! JSON values, and their text.

use std::fmt::{self, Display, Formatter, Write};

/// A JSON value. Fields keep their order.
pub(crate) enum Json {
    Null,
    Boolean(bool),
    Number(f64),
    Text(String),
    List(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

impl Json {
    /// Returns an object with fields in order.
    pub fn object<const N: usize>(fields: [(&'static str, Self); N]) -> Self {
        Self::Object(fields.into())
    }

    /// Returns an object whose first field names its kind.
    pub fn of_kind<const N: usize>(kind: &str, fields: [(&'static str, Self); N]) -> Self {
        Self::Object(std::iter::once(("kind", kind.into())).chain(fields).collect())
    }

    /// Returns a list of what `convert` makes of each item.
    pub fn list<'i, T: 'i>(items: impl IntoIterator<Item = &'i T>, convert: impl FnMut(&'i T) -> Self) -> Self {
        Self::List(items.into_iter().map(convert).collect())
    }

    /// Returns what `convert` makes of a value, or null.
    pub fn optional<T>(value: Option<T>, convert: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, convert)
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Number(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        // Counts of nodes are far below 2^53.
        Self::Number(value as f64)
    }
}

impl Display for Json {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value}"),
            Self::Text(value) => write_text(f, value),
            Self::List(items) => {
                f.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    item.fmt(f)?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => {
                f.write_char('{')?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}\"{name}\":{value}", if index > 0 { "," } else { "" })?;
                }
                f.write_char('}')
            }
        }
    }
}

fn write_text(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(f, "\\{character}")?,
            '\0'..='\u{1f}' => write!(f, "\\u{:04x}", u32::from(character))?,
            other => f.write_char(other)?,
        }
    }
    f.write_char('"')
}
