//! The cases of `tests/corpus`, whose README describes the files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Key of the subscription of a case that has one query only.
const QUERY_KEY: &str = "q";
const FOLDERS: [&str; 6] = ["xpath", "flwr", "namespaces", "messages", "limits", "sets"];
const SOURCES: [&str; 4] = ["message", "on", "hex", "file"];

/// How a message or a query is refused. What is `None` or empty is not compared.
#[derive(Clone, Debug, Default)]
pub struct ExpectedError {
    pub code: String,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub limit: Option<String>,
    pub contains: String,
}

/// A subscription of a case.
#[derive(Clone, Debug)]
pub struct CaseQuery {
    pub key: String,
    pub text: String,
    pub namespaces: BTreeMap<String, String>,
    pub dialect: String,
    pub error: Option<ExpectedError>,
}

/// A message, subscriptions, and what they say of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// File and name.
    pub id: String,
    /// `None` where its text is in another encoding than UTF-8.
    pub message: Option<Vec<u8>>,
    pub queries: Vec<CaseQuery>,
    pub limits: BTreeMap<String, usize>,
    /// `None` where the message or the query is refused.
    pub matches: Option<BTreeSet<String>>,
    pub nodes: BTreeMap<String, Vec<String>>,
    pub counts: BTreeMap<String, usize>,
    pub payloads: BTreeMap<String, String>,
    pub undecided: BTreeMap<String, String>,
    /// Of the message.
    pub error: Option<ExpectedError>,
    pub skip: BTreeMap<String, String>,
}

impl Case {
    /// The subscriptions that are accepted.
    pub fn accepted(&self) -> impl Iterator<Item = &CaseQuery> {
        self.queries.iter().filter(|query| query.error.is_none())
    }
}

/// All cases, in the order of the files.
pub fn all() -> Vec<Case> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
    let mut cases = Vec::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(corpus.join(folder)).expect("a folder of the corpus");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        for path in paths {
            let name = format!("{folder}/{}", path.file_name().expect("a file").to_string_lossy());
            let text = std::fs::read_to_string(&path).expect("a file of cases");
            cases_of(&corpus, &name, &text, &mut cases);
        }
    }
    cases
}

fn cases_of(corpus: &Path, file: &str, text: &str, cases: &mut Vec<Case>) {
    let mut defaults: Table = text.parse().unwrap_or_else(|error| panic!("{file}: {error}"));
    let Some(Value::Array(entries)) = defaults.remove("case") else { panic!("{file} has no cases") };
    let messages = match defaults.remove("messages") {
        Some(Value::Table(messages)) => messages,
        _ => Table::new(),
    };
    for entry in entries {
        let Value::Table(entry) = entry else { panic!("{file}: a case is a table") };
        let has_source = SOURCES.iter().any(|&source| entry.contains_key(source));
        let mut fields: Table = defaults
            .iter()
            .filter(|(name, _)| !has_source || !SOURCES.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        fields.extend(entry);
        cases.push(case(corpus, file, &fields, &messages));
    }
}

fn case(corpus: &Path, file: &str, fields: &Table, messages: &Table) -> Case {
    let error = fields.get("error").map(expected_error);
    let (of_query, error) = match error {
        Some(error) if error.code.starts_with("message") => (None, Some(error)),
        other => (other, None),
    };
    let is_refused = of_query.is_some() || error.is_some();
    let several = fields.contains_key("subscriptions");
    let nodes: BTreeMap<String, Vec<String>> = by_key(fields, "nodes", several, texts);
    let mut counts: BTreeMap<String, usize> = by_key(fields, "count", several, number);
    counts.extend(nodes.iter().map(|(key, nodes)| (key.clone(), nodes.len())));
    let payloads = by_key(fields, "payload", several, |value| string(value).to_owned());
    let matches = (!is_refused).then(|| match fields.get("matches") {
        Some(Value::Array(keys)) => keys.iter().map(|key| string(key).to_owned()).collect(),
        Some(Value::Boolean(matches)) => matches.then(|| QUERY_KEY.to_owned()).into_iter().collect(),
        _ if !payloads.is_empty() || counts.get(QUERY_KEY).is_some_and(|&count| count > 0) => {
            BTreeSet::from([QUERY_KEY.to_owned()])
        }
        _ => BTreeSet::new(),
    });
    let name = fields.get("name").or(fields.get("query")).map(text_of).expect("a name");
    Case {
        id: format!("{file}: {name}"),
        message: message(corpus, fields, messages),
        queries: queries(fields, of_query),
        limits: by_name(fields.get("limits"), number),
        matches,
        nodes,
        counts,
        payloads,
        undecided: by_key(fields, "undecided", several, |value| string(value).to_owned()),
        error,
        skip: by_name(fields.get("skip"), |value| string(value).to_owned()),
    }
}

fn message(corpus: &Path, fields: &Table, messages: &Table) -> Option<Vec<u8>> {
    if let Some(hex) = fields.get("hex").map(string) {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
        return Some((0..hex.len()).step_by(2).map(byte).collect());
    }
    if let Some(file) = fields.get("file").map(string) {
        return Some(std::fs::read(corpus.join("files").join(file)).expect("a message"));
    }
    if fields.contains_key("encoding") {
        return None;
    }
    let text = match fields.get("on").map(string) {
        Some(name) => messages.get(name).expect("a message of that name"),
        None => fields.get("message").expect("a message"),
    };
    Some(text_of(text).into_bytes())
}

fn queries(fields: &Table, error: Option<ExpectedError>) -> Vec<CaseQuery> {
    let shared = by_name(fields.get("namespaces"), |value| string(value).to_owned());
    let dialect = |fields: &Table| fields.get("dialect").map_or("xpath", string).to_owned();
    let Some(Value::Array(rows)) = fields.get("subscriptions") else {
        let text = text_of(fields.get("query").expect("a query"));
        return vec![CaseQuery {
            key: QUERY_KEY.to_owned(),
            text,
            namespaces: shared,
            dialect: dialect(fields),
            error,
        }];
    };
    let query = |row: &Value| {
        let row = row.as_table().expect("a subscription");
        let mut namespaces = shared.clone();
        namespaces.extend(by_name(row.get("namespaces"), |value| string(value).to_owned()));
        CaseQuery {
            key: string(&row["key"]).to_owned(),
            text: text_of(&row["query"]),
            namespaces,
            dialect: dialect(row),
            error: row.get("error").map(expected_error),
        }
    };
    rows.iter().map(query).collect()
}

fn expected_error(value: &Value) -> ExpectedError {
    let text = |name: &str| value.get(name).map(|value| string(value).to_owned());
    let number = |name: &str| value.get(name).map(|value| number(value) as u32);
    ExpectedError {
        code: text("code").expect("a code"),
        line: number("line"),
        column: number("column"),
        limit: text("limit"),
        contains: text("contains").unwrap_or_default(),
    }
}

/// A text as it is, or in parts, of which some are repeated.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Table(part) => string(&part["repeat"]).repeat(number(&part["times"])),
        Value::Array(parts) => parts.iter().map(text_of).collect(),
        other => panic!("no text: {other:?}"),
    }
}

/// A field of one query, or of several by key.
fn by_key<T>(fields: &Table, name: &str, several: bool, read: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    match fields.get(name) {
        Some(value) if !several => BTreeMap::from([(QUERY_KEY.to_owned(), read(value))]),
        value => by_name(value, read),
    }
}

fn by_name<T>(value: Option<&Value>, read: impl Fn(&Value) -> T) -> BTreeMap<String, T> {
    let table = value.map(|value| value.as_table().expect("a table"));
    table.into_iter().flatten().map(|(name, value)| (name.clone(), read(value))).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().expect("a list").iter().map(|text| string(text).to_owned()).collect()
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no string: {value:?}"))
}

fn number(value: &Value) -> usize {
    value.as_integer().and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| panic!("no number: {value:?}"))
}
