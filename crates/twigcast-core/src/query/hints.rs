//! Hints on what to write instead of functions, axes and operators of later versions of XPath and of programming
//! languages.

use super::ast::{Axis, Function};
use super::functions::FUNCTIONS;

/// Returns `n arguments` in words.
pub(crate) fn arguments(count: usize) -> String {
    match count {
        0 => "no argument".into(),
        1 => "1 argument".into(),
        _ => format!("{count} arguments"),
    }
}

/// Functions that only a processor of XQuery has.
const FOR_SAXON: [&str; 30] = [
    "codepoints-to-string",
    "string-to-codepoints",
    "normalize-unicode",
    "encode-for-uri",
    "iri-to-uri",
    "escape-html-uri",
    "nilled",
    "filter",
    "for-each",
    "for-each-pair",
    "fold-left",
    "fold-right",
    "apply",
    "innermost",
    "outermost",
    "path",
    "in-scope-prefixes",
    "namespace-uri-for-prefix",
    "insert-before",
    "remove",
    "unordered",
    "format-integer",
    "serialize",
    "trace",
    "error",
    "parse-json",
    "parse-ietf-date",
    "resolve-uri",
    "function-lookup",
    "contains-key",
];

/// Returns what to write instead of a function of a later version of XPath, of XSLT or of another language. `None`: no function we
/// know of.
pub(crate) fn later_function(name: &str) -> Option<&'static str> {
    let local = name.strip_prefix("fn:").unwrap_or(name);
    let is_for_saxon =
        FOR_SAXON.contains(&local) || ["math:", "map:", "array:"].iter().any(|prefix| name.starts_with(prefix));
    if is_for_saxon {
        return Some("use dialect=\"xquery\"");
    }
    of_xpath(local).or_else(|| of_types(local)).or_else(|| of_other_languages(local))
}

/// Returns what to write instead of a function of XPath or XSLT.
fn of_xpath(name: &str) -> Option<&'static str> {
    Some(match name {
        "analyze-string" => "write tokenize(a, pattern) or replace(a, pattern, text), or use dialect=\"xquery\"",
        "data" => "write string(a) or number(a)",
        "compare" | "codepoint-equal" => "write a = b",
        "deep-equal" => "write string(a) = string(b) to compare texts, or use dialect=\"xquery\"",
        "head" => "write (a)[1]",
        "tail" => "write (a)[position() > 1]",
        "index-of" => "write count(a[. = b]/preceding-sibling::a) + 1",
        "root" => "write /",
        "node-name" => "write self::p:name for an element of that name, or name(a) for its text",
        "one-or-more" | "has" | "has-children" | "hasChild" => "write exists(a)",
        "exactly-one" => "write count(a) = 1",
        "zero-or-one" => "write count(a) <= 1",
        "round-half-to-even" => "write round(a * 100) div 100, which rounds halves up, or use dialect=\"xquery\"",
        "contains-token" => "write tokenize(a) = 'word'",
        "subsequence" => "write (a)[position() = 1 to 3]",
        "reverse" => "count from the end: (a)[last()]",
        "sort" => "write min(a) or max(a) for the ends of an order, or use dialect=\"xquery\"",
        "base-uri" | "document-uri" | "static-base-uri" => {
            "a message has no address here; its elements and their names tell it"
        }
        "if" => "put the whole expression in parentheses: (if (a) then b else c)",
        "switch" => "write if (a = 'x') then b else c, or use dialect=\"xquery\"",
        "typeswitch" => "texts have no types; use dialect=\"xquery\"",
        "some" | "every" => "a variable follows the word: some $x in a satisfies $x = 1",
        "for" | "let" => "a For-Where-Return query starts with the word and a variable: for $x in /a return $x",
        "doc" | "document" | "collection" | "doc-available" | "unparsed-text" | "json-doc" | "parse-xml" => {
            "a query is data: no function reads a file, the network or another message; for the message itself write \
             $doc, or begin the path with /"
        }
        "current-date" | "current-dateTime" | "current-time" | "now" | "today" | "getdate" | "sysdate" => {
            "no function reads the clock; write $now for the time at which the message was published, xs:date($now) for its day"
        }
        "current" => "write `.` in the outermost predicate",
        "generate-id" => "write a is b where both are the same node",
        "format-number" => "compare the numbers themselves, as in a = 1.5, or use dialect=\"xquery\" for their text",
        "key" | "system-property" => "that is XSLT; write a predicate on values",
        "element" => "write * or the element's name",
        "attribute" => "write @* or @name",
        "item" | "document-node" | "schema-element" => "write node()",
        "element-with-id" | "idref" => "write //*[@id = 'x']",
        _ => return None,
    })
}

/// Returns what to write instead of a function with a type, a date or a version.
fn of_types(name: &str) -> Option<&'static str> {
    Some(match name {
        "xs:duration" => "write xs:dayTimeDuration or xs:yearMonthDuration",
        "xs:normalizedString" | "xs:token" | "xs:anyURI" | "xs:untypedAtomic" => "write string(a)",
        "xs:boolean" => "write a = ('true', '1')",
        "xs:float" => "write xs:double(a)",
        "xs:dateTimeStamp" => "write xs:dateTime(a)",
        "dateTime" => "write xs:dateTime(concat(a, 'T', b)) for a date and a time",
        "date" | "DATE" | "to_date" | "toDate" | "parseDate" => "write xs:date(a)",
        "time" | "TIME" => "write xs:time(a)",
        "datetime" | "timestamp" | "TIMESTAMP" | "to_timestamp" => "write xs:dateTime(a)",
        "duration" | "interval" => "write xs:dayTimeDuration(a) or xs:yearMonthDuration(a)",
        "gYear" => "write year-from-date(xs:date(a)), or @year = 2026 where there is only a year",
        "xs:int"
        | "xs:long"
        | "xs:short"
        | "xs:byte"
        | "xs:nonNegativeInteger"
        | "xs:positiveInteger"
        | "xs:unsignedInt"
        | "xs:unsignedLong" => "write xs:integer(a)",
        "implicit-timezone" | "timezone-from-dateTime" | "timezone-from-date" | "timezone-from-time" => {
            "dates and times are compared across offsets, and one without is of UTC; use dialect=\"xquery\" for the offset itself"
        }
        "adjust-dateTime-to-timezone" | "adjust-date-to-timezone" | "adjust-time-to-timezone" => {
            "dates and times are compared across offsets as they are; use dialect=\"xquery\" for their text in another"
        }
        "format-date" | "format-dateTime" | "format-time" => {
            "write string(a), or year-from-date(xs:date(a)) and the like, or use dialect=\"xquery\""
        }
        "QName" | "namespace-uri-from-QName" | "local-name-from-QName" | "prefix-from-QName" => {
            "write @a = xs:QName('prefix:name') to compare names"
        }
        "version" | "version-compare" | "compare-versions" => "write twig:version(a) < twig:version('2.17.1')",
        _ if name.starts_with("xs:") => {
            "of the types there are xs:double, xs:decimal, xs:integer, xs:dateTime, xs:date, xs:time, xs:dayTimeDuration, \
             xs:yearMonthDuration and xs:QName"
        }
        _ => return None,
    })
}

/// Returns what to write instead of a function of SQL or of a programming language.
fn of_other_languages(name: &str) -> Option<&'static str> {
    Some(match name {
        "isnull" | "is_null" | "isNull" | "isEmpty" | "is-empty" => "write empty(a)",
        "equals" | "equal" | "eq" => "write a = b",
        "equalsIgnoreCase" | "equals-ignore-case" => "write lower-case(a) = 'text'",
        "containsIgnoreCase" | "contains-ignore-case" | "icontains" => "write contains(lower-case(a), 'part')",
        "toLowerCase" | "tolower" | "toLower" | "lower" | "LOWER" => "write lower-case(a)",
        "toUpperCase" | "toupper" | "toUpper" | "upper" | "UPPER" => "write upper-case(a)",
        "length" | "len" | "LEN" | "LENGTH" | "size" => "write string-length(a) for a text, count(a) for nodes",
        "substr" | "mid" | "SUBSTR" => "write substring(a, 1, 3)",
        "trim" | "TRIM" | "strip" => "write normalize-space(a)",
        "split" => "write tokenize(a, ',')",
        "indexOf" | "index_of" | "position-of" => "write contains(a, 'part')",
        "regex" | "regexp" | "regexp_like" | "REGEXP_LIKE" | "match" | "like" | "LIKE" => "write matches(a, 'pattern')",
        "year" | "YEAR" => "write year-from-date(xs:date(a))",
        "month" | "MONTH" => "write month-from-date(xs:date(a))",
        "day" | "DAY" => "write day-from-date(xs:date(a))",
        "random" | "rand" | "random-number-generator" => "a query is data: it answers alike each time",
        "function" => "functions cannot be defined here; use dialect=\"xquery\"",
        _ => return None,
    })
}

/// Returns what to write for more arguments than a function has.
pub(crate) fn instead_of_arguments(function: Function) -> Option<&'static str> {
    Some(match function {
        Function::Round => ", or round(a * 100) div 100 for two digits",
        Function::Contains | Function::StartsWith | Function::EndsWith => {
            ", with lower-case(a) where the case does not count"
        }
        _ => return None,
    })
}

/// Returns the namespace that a prefix nearly always stands for.
pub(crate) fn usual_namespace(prefix: &str) -> Option<&'static str> {
    Some(match prefix {
        "xsi" => "http://www.w3.org/2001/XMLSchema-instance",
        "xlink" => "http://www.w3.org/1999/xlink",
        "cap" => "urn:oasis:names:tc:emergency:cap:1.2",
        "atom" => "http://www.w3.org/2005/Atom",
        "dc" => "http://purl.org/dc/elements/1.1/",
        _ => return None,
    })
}

/// Returns what to write instead of an operator of later XPath or another language, and whether it is a construct of a
/// later version (rather than a slip).
pub(crate) fn instead_of_operator(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "idiv" => ("write floor(a div b), where neither is negative", true),
        "cast" => ("write the type as a function: xs:date(a)", true),
        "castable" => ("write the type as a function, which is true of what is a value of it: [xs:date(a)]", true),
        "instance" | "treat" => ("texts have no types; xs:date(a) and the like read them as values of one", true),
        "satisfies" | "then" | "else" | "return" => ("it belongs to some, every, if or for", false),
        "in" | "IN" => ("write a = ('x', 'y') for one of a list", false),
        "between" | "BETWEEN" => ("write a >= 1 and a <= 2", false),
        "where" | "WHERE" => {
            ("write a predicate, as in //a[b = 'x'], or for $x in //a where $x/b = 'x' return $x", false)
        }
        "order" | "ORDER" | "sort" => ("write for $x in //a order by $x/b return $x", false),
        "limit" | "LIMIT" | "top" | "TOP" => {
            ("a subscription gets each message that matches; (a)[position() <= 3] takes nodes", false)
        }
        "null" | "NULL" => ("write exists(a) or empty(a)", false),
        "matches" | "regexp" | "REGEXP" | "rlike" => ("write matches(a, 'pattern')", false),
        "startswith" | "starts-with" | "startsWith" => ("write starts-with(a, 'text')", false),
        "endswith" | "ends-with" | "endsWith" => ("write ends-with(a, 'text')", false),
        "AND" | "And" => ("write `and` (lower case)", false),
        "OR" | "Or" => ("write `or` (lower case)", false),
        "xor" => ("write boolean(a) != boolean(b)", false),
        "not" => ("write not(...) around the condition", false),
        "like" | "LIKE" => ("write contains(a, 'part')", false),
        "contains" => ("write contains(a, 'part'), or a contains text \"word\"", false),
        _ => return None,
    })
}

/// Returns a character or pair of characters of other languages that `rest` starts with, and what it should have been.
pub(crate) fn instead_of_symbol(rest: &str) -> Option<(&'static str, &'static str)> {
    const SYMBOLS: [(&str, &str); 27] = [
        ("&&", "write `and`"),
        ("&lt;", "the text is escaped for XML; write `<`"),
        ("&gt;", "the text is escaped for XML; write `>`"),
        ("&amp;", "the text is escaped for XML; write `and`"),
        ("&quot;", "the text is escaped for XML; write a quote"),
        ("&apos;", "the text is escaped for XML; write a quote"),
        ("&", "write `and`"),
        (
            "!",
            "write not(...) for `not`, `!=` for `not equal`; `!` stands between nodes and what is made of each, as in a ! (b * c)",
        ),
        ("%", "write `mod` for the rest of a division, and a number such as 0.1 for a share"),
        ("~", "write matches(a, 'pattern')"),
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
        ("?(", "that is JSONPath; a condition stands in the brackets alone: a[b > 1]"),
        ("{\"", "there are no maps; use dialect=\"xquery\""),
        ("?", "there are no maps and no arrays; leave it out, or use dialect=\"xquery\""),
        ("#", "a function is called: f(a)"),
    ];
    SYMBOLS.iter().copied().find(|(symbol, _)| rest.starts_with(symbol))
}

/// Returns the core function that `name` is probably a misspelling of.
pub(crate) fn similar_function(name: &str) -> Option<&'static str> {
    similar(name, FUNCTIONS.iter().map(|row| row.name))
}

/// Returns the axis that `name` is probably a misspelling of.
pub(crate) fn similar_axis(name: &str) -> Option<&'static str> {
    similar(name, Axis::ALL.iter().map(|(_, name)| *name))
}

/// Returns the known word nearest to `name`, if it is near: at most a third of its letters differ.
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

/// Returns the edit distance of two words, by Levenshtein.
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
