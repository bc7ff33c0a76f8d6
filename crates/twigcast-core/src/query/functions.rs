//! The core function library (section 4): names, arguments, result types; and the static types of expressions.

use super::ast::{Expr, Function, PathStart};

/// The type of an XPath 1.0 expression. All are known without evaluating, except that of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExprType {
    NodeSet,
    Boolean,
    Number,
    String,
}

impl ExprType {
    /// How messages call a value of the type.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::NodeSet => "a node-set",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
        }
    }
}

/// What the parser checks of a call.
pub(crate) struct Signature {
    pub function: Function,
    /// Fewest arguments.
    pub least: usize,
    /// Most arguments; `usize::MAX`: any number.
    pub most: usize,
    /// The first argument must be a node-set (no other type converts to one).
    pub node_set: bool,
    /// How it is called, for messages.
    pub usage: &'static str,
}

const fn signature(function: Function, least: usize, most: usize, node_set: bool, usage: &'static str) -> Signature {
    Signature { function, least, most, node_set, usage }
}

/// Looks a core function up by name.
pub(crate) fn signature_of(name: &str) -> Option<Signature> {
    use Function as F;
    Some(match name {
        "last" => signature(F::Last, 0, 0, false, "last()"),
        "position" => signature(F::Position, 0, 0, false, "position()"),
        "count" => signature(F::Count, 1, 1, true, "count(nodes)"),
        "id" => signature(F::Id, 1, 1, false, "id(object)"),
        "local-name" => signature(F::LocalName, 0, 1, true, "local-name(nodes?)"),
        "namespace-uri" => signature(F::NamespaceUri, 0, 1, true, "namespace-uri(nodes?)"),
        "name" => signature(F::Name, 0, 1, true, "name(nodes?)"),
        "string" => signature(F::String, 0, 1, false, "string(object?)"),
        "concat" => signature(F::Concat, 2, usize::MAX, false, "concat(string, string, ...)"),
        "starts-with" => signature(F::StartsWith, 2, 2, false, "starts-with(string, prefix)"),
        "contains" => signature(F::Contains, 2, 2, false, "contains(string, part)"),
        "substring-before" => signature(F::SubstringBefore, 2, 2, false, "substring-before(string, part)"),
        "substring-after" => signature(F::SubstringAfter, 2, 2, false, "substring-after(string, part)"),
        "substring" => signature(F::Substring, 2, 3, false, "substring(string, start, length?)"),
        "string-length" => signature(F::StringLength, 0, 1, false, "string-length(string?)"),
        "normalize-space" => signature(F::NormalizeSpace, 0, 1, false, "normalize-space(string?)"),
        "translate" => signature(F::Translate, 3, 3, false, "translate(string, from, to)"),
        "boolean" => signature(F::Boolean, 1, 1, false, "boolean(object)"),
        "not" => signature(F::Not, 1, 1, false, "not(condition)"),
        "true" => signature(F::True, 0, 0, false, "true()"),
        "false" => signature(F::False, 0, 0, false, "false()"),
        "lang" => signature(F::Lang, 1, 1, false, "lang(string)"),
        "number" => signature(F::Number, 0, 1, false, "number(object?)"),
        "sum" => signature(F::Sum, 1, 1, true, "sum(nodes)"),
        "floor" => signature(F::Floor, 1, 1, false, "floor(number)"),
        "ceiling" => signature(F::Ceiling, 1, 1, false, "ceiling(number)"),
        "round" => signature(F::Round, 1, 1, false, "round(number)"),
        _ => return None,
    })
}

/// Every function's name, for suggestions.
pub(crate) const FUNCTION_NAMES: [&str; 27] = [
    "last",
    "position",
    "count",
    "id",
    "local-name",
    "namespace-uri",
    "name",
    "string",
    "concat",
    "starts-with",
    "contains",
    "substring-before",
    "substring-after",
    "substring",
    "string-length",
    "normalize-space",
    "translate",
    "boolean",
    "not",
    "true",
    "false",
    "lang",
    "number",
    "sum",
    "floor",
    "ceiling",
    "round",
];

impl Function {
    /// The name a query writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Last => "last",
            Self::Position => "position",
            Self::Count => "count",
            Self::Id => "id",
            Self::LocalName => "local-name",
            Self::NamespaceUri => "namespace-uri",
            Self::Name => "name",
            Self::String => "string",
            Self::Concat => "concat",
            Self::StartsWith => "starts-with",
            Self::Contains => "contains",
            Self::SubstringBefore => "substring-before",
            Self::SubstringAfter => "substring-after",
            Self::Substring => "substring",
            Self::StringLength => "string-length",
            Self::NormalizeSpace => "normalize-space",
            Self::Translate => "translate",
            Self::Boolean => "boolean",
            Self::Not => "not",
            Self::True => "true",
            Self::False => "false",
            Self::Lang => "lang",
            Self::Number => "number",
            Self::Sum => "sum",
            Self::Floor => "floor",
            Self::Ceiling => "ceiling",
            Self::Round => "round",
        }
    }

    /// The type of its result.
    pub fn result_type(self) -> ExprType {
        match self {
            Self::Id => ExprType::NodeSet,
            Self::Last
            | Self::Position
            | Self::Count
            | Self::StringLength
            | Self::Number
            | Self::Sum
            | Self::Floor
            | Self::Ceiling
            | Self::Round => ExprType::Number,
            Self::StartsWith | Self::Contains | Self::Boolean | Self::Not | Self::True | Self::False | Self::Lang => {
                ExprType::Boolean
            }
            Self::LocalName
            | Self::NamespaceUri
            | Self::Name
            | Self::String
            | Self::Concat
            | Self::SubstringBefore
            | Self::SubstringAfter
            | Self::Substring
            | Self::NormalizeSpace
            | Self::Translate => ExprType::String,
        }
    }
}

impl Expr {
    /// The static type. `variable_types` gives the types of the variables by number; one that it does not list is a
    /// node-set.
    pub fn static_type(&self, variable_types: &[ExprType]) -> ExprType {
        match self {
            Self::Or(_) | Self::And(_) | Self::Compare { .. } => ExprType::Boolean,
            Self::Arithmetic { .. } | Self::Negate(_) | Self::Number(_) => ExprType::Number,
            Self::Union(_) => ExprType::NodeSet,
            Self::Literal(_) => ExprType::String,
            Self::Call { function, .. } => function.result_type(),
            Self::Path(path) => match path.start {
                PathStart::Variable(id) if path.steps.is_empty() => {
                    variable_types.get(id.index()).copied().unwrap_or(ExprType::NodeSet)
                }
                _ => ExprType::NodeSet,
            },
        }
    }
}
