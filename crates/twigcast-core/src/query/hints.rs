//! Hints on what to write instead of functions, axes and operators of later versions of XPath and of programming
//! languages.

use super::functions::FUNCTIONS;

/// Returns `n arguments` in words.
pub(crate) fn arguments(count: usize) -> String {
    match count {
        0 => "no argument".into(),
        1 => "1 argument".into(),
        _ => format!("{count} arguments"),
    }
}

/// Returns the XPath 1.0 way of saying what a function of a later version (or of XSLT) says. `None`: no function we
/// know of.
pub(crate) fn later_function(name: &str) -> Option<&'static str> {
    let local = name.strip_prefix("fn:").unwrap_or(name);
    Some(match local {
        "matches" | "replace" | "tokenize" | "analyze-string" => {
            "XPath 1.0 has no regular expressions; use contains(), starts-with() or translate()"
        }
        "ends-with" => "write substring(a, string-length(a) - string-length(b) + 1) = b",
        "lower-case" => "write translate(a, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz')",
        "upper-case" => "write translate(a, 'abcdefghijklmnopqrstuvwxyz', 'ABCDEFGHIJKLMNOPQRSTUVWXYZ')",
        "exists" => "write the path itself: [a] is true where a exists",
        "empty" => "write not(a)",
        "avg" => "write sum(a) div count(a)",
        "min" => "write a[not(../a < .)]",
        "max" => "write a[not(../a > .)]",
        "abs" => "compare both signs: a > 5 or a < -5",
        "data" => "write string(a) or number(a)",
        "string-join" => "write concat(a, ', ', b)",
        "distinct-values" => "write a[not(. = preceding::a)]",
        "compare" | "codepoint-equal" => "write a = b",
        "deep-equal" => "write string(a) = string(b)",
        "head" => "write (a)[1]",
        "tail" => "write (a)[position() > 1]",
        "index-of" => "write count(a[. = b]/preceding-sibling::a) + 1",
        "root" => "write /",
        "node-name" => "write name(a)",
        "one-or-more" | "zero-or-one" | "exactly-one" => "write count(a) = 1 or the like",
        "round-half-to-even" => "write round(a)",
        "if" => "write (a and b) or (not(a) and c)",
        "some" | "every" => "write the path with a predicate: [a[. = b]] for some, not(a[not(. = b)]) for every",
        "for" | "let" => "a For-Where-Return query starts with the word and a variable: for $x in /a return $x",
        "doc" | "document" | "collection" | "doc-available" | "unparsed-text" | "json-doc" | "parse-xml" => {
            "a query is data: no function reads a file, the network or another message"
        }
        "current-date" | "current-dateTime" | "current-time" | "now" => "a query is data: no function reads the clock",
        "current" => "write `.` in the outermost predicate",
        "key" | "generate-id" | "system-property" | "format-number" => "that is XSLT; write a predicate on values",
        "element" => "write * or the element's name",
        "attribute" => "write @* or @name",
        "item" | "document-node" | "schema-element" => "write node()",
        "element-with-id" | "idref" => "write //*[@id = 'x']",
        _ if name.starts_with("xs:") => "XPath 1.0 has no typed values; number(a) and string(a) convert",
        _ => return None,
    })
}

/// Returns what to write instead of an operator of later XPath or another language, and whether it is a construct of a
/// later version (rather than a slip).
pub(crate) fn instead_of_operator(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "eq" | "is" => ("write `=`", true),
        "ne" => ("write `!=`", true),
        "lt" => ("write `<`", true),
        "le" => ("write `<=`", true),
        "gt" => ("write `>`", true),
        "ge" => ("write `>=`", true),
        "idiv" => ("write floor(a div b)", true),
        "to" => ("write two comparisons: a >= 1 and a <= 5", true),
        "union" => ("write `|`", true),
        "intersect" => ("write a[count(. | b) = count(b)]", true),
        "except" => ("write a[count(. | b) != count(b)]", true),
        "instance" | "cast" | "castable" | "treat" => ("XPath 1.0 has no types; number(a) and string(a) convert", true),
        "satisfies" | "then" | "else" | "return" | "in" => ("XPath 1.0 has no such expression", true),
        "AND" | "And" => ("write `and` (lower case)", false),
        "OR" | "Or" => ("write `or` (lower case)", false),
        "xor" => ("write boolean(a) != boolean(b)", false),
        "not" => ("write not(...) around the condition", false),
        "like" | "LIKE" => ("write contains(a, 'part')", false),
        "contains" => ("write contains(a, 'part')", false),
        _ => return None,
    })
}

/// Returns a character or pair of characters of other languages that `rest` starts with, and what it should have been.
pub(crate) fn instead_of_symbol(rest: &str) -> Option<(&'static str, &'static str)> {
    const SYMBOLS: [(&str, &str); 25] = [
        ("&&", "write `and`"),
        ("&lt;", "the text is escaped for XML; write `<`"),
        ("&gt;", "the text is escaped for XML; write `>`"),
        ("&amp;", "the text is escaped for XML; write `and`"),
        ("&quot;", "the text is escaped for XML; write a quote"),
        ("&apos;", "the text is escaped for XML; write a quote"),
        ("&", "write `and`"),
        ("||", "write `or`, or concat(a, b) to join strings"),
        ("!", "write not(...), or `!=`"),
        ("%", "write `mod`"),
        ("\\", "steps are separated by `/`"),
        ("\u{201C}", "write straight quotes"),
        ("\u{201D}", "write straight quotes"),
        ("\u{2018}", "write straight quotes"),
        ("\u{2019}", "write straight quotes"),
        ("`", "write straight quotes"),
        ("\u{A0}", "that is a no-break space; write a plain space"),
        ("\u{D7}", "write `*`"),
        ("\u{F7}", "write `div`"),
        ("\u{2260}", "write `!=`"),
        ("\u{2264}", "write `<=`"),
        ("\u{2265}", "write `>=`"),
        (";", "a query is one expression; leave it out"),
        ("?", "XPath 1.0 has no such operator"),
        ("#", "XPath 1.0 has no such operator"),
    ];
    SYMBOLS.iter().copied().find(|(symbol, _)| rest.starts_with(symbol))
}

/// The axis names, for suggestions.
pub(crate) const AXIS_NAMES: [&str; 13] = [
    "child",
    "descendant",
    "descendant-or-self",
    "self",
    "attribute",
    "parent",
    "ancestor",
    "ancestor-or-self",
    "following",
    "following-sibling",
    "preceding",
    "preceding-sibling",
    "namespace",
];

/// Returns the core function that `name` is probably a misspelling of.
pub(crate) fn similar_function(name: &str) -> Option<&'static str> {
    similar(name, FUNCTIONS.iter().map(|row| row.name))
}

/// Returns the axis that `name` is probably a misspelling of.
pub(crate) fn similar_axis(name: &str) -> Option<&'static str> {
    similar(name, AXIS_NAMES.iter().copied())
}

/// The known word nearest to `name`, if it is near: at most a third of its letters differ.
fn similar(name: &str, existing: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if name.len() > 40 {
        return None;
    }
    let squeezed: String = name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect();
    existing
        .map(|word| (distance(&squeezed, &word.replace('-', "")), word))
        .filter(|&(distance, word)| distance * 3 <= word.len().min(name.len()))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, word)| word)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
