//! What an engine says of a case, and how that differs from what the case expects.

use std::collections::{BTreeMap, BTreeSet};

use twigcast_core::error::{MessageError, MessageErrorKind};

use super::cases::{Case, ExpectedError};
use super::engines::expanded;

/// What an engine says of a message; `None` where it was not asked.
#[derive(Debug, Default)]
pub struct Answer {
    pub keys: Option<BTreeSet<String>>,
    pub counts: BTreeMap<String, usize>,
    /// The selected nodes of some subscriptions, as locations.
    pub nodes: BTreeMap<String, Vec<String>>,
    /// What each subscription that matches gets; `None`: the message itself.
    pub payloads: Option<BTreeMap<String, Option<Vec<u8>>>>,
    /// Subscriptions that matched, but of which no result could be made.
    pub undecided: BTreeMap<String, String>,
    pub error: Option<MessageError>,
}

impl Answer {
    pub fn refused(error: MessageError) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// The part that is about one case: keys that begin with its number, without it.
    pub fn part(&self, number: usize) -> Self {
        let prefix = format!("{number} ");
        let own = |key: &String| key.strip_prefix(&prefix).map(str::to_owned);
        Self {
            keys: self.keys.as_ref().map(|keys| keys.iter().filter_map(own).collect()),
            counts: self.counts.iter().filter_map(|(key, &count)| Some((own(key)?, count))).collect(),
            nodes: self.nodes.iter().filter_map(|(key, nodes)| Some((own(key)?, nodes.clone()))).collect(),
            payloads: self
                .payloads
                .as_ref()
                .map(|all| all.iter().filter_map(|(key, payload)| Some((own(key)?, payload.clone()))).collect()),
            undecided: self.undecided.iter().filter_map(|(key, text)| Some((own(key)?, text.clone()))).collect(),
            error: self.error.clone(),
        }
    }

    fn faults(&self, case: &Case) -> Vec<String> {
        if let Some(expected) = &case.error {
            return match &self.error {
                Some(error) => error_faults(expected, error),
                None => vec!["is not refused".to_owned()],
            };
        }
        if let Some(error) = &self.error {
            return vec![format!("is refused: {error}")];
        }
        let mut faults = Vec::new();
        let expected = case.matches.as_ref().expect("something is expected");
        // A subscription that fails while its result is made has matched, but delivers nothing.
        let delivering: BTreeSet<String> =
            expected.iter().filter(|key| !case.undecided.contains_key(*key)).cloned().collect();
        if let Some(keys) = &self.keys {
            let wanted = if self.payloads.is_some() { &delivering } else { expected };
            if keys != wanted {
                faults.push(format!("matches {keys:?}, expected {wanted:?}"));
            }
        }
        for (key, count) in &self.counts {
            if case.counts.get(key).is_some_and(|expected| expected != count) {
                faults.push(format!("{key} selects {count} nodes, expected {}", case.counts[key]));
            }
        }
        for (key, nodes) in &self.nodes {
            if case.nodes.get(key).is_some_and(|expected| expected != nodes) {
                faults.push(format!("{key} selects {nodes:?}, expected {:?}", case.nodes[key]));
            }
        }
        if let Some(payloads) = &self.payloads {
            for (key, expected) in &case.payloads {
                match payloads.get(key) {
                    Some(Some(payload)) if expanded(payload) == expanded(expected.as_bytes()) => {}
                    Some(Some(payload)) => {
                        let text = String::from_utf8_lossy(payload);
                        faults.push(format!("{key} gets {text}, expected {expected}"));
                    }
                    other => faults.push(format!("{key} gets {other:?}, expected {expected}")),
                }
            }
            if !self.undecided.keys().eq(case.undecided.keys()) {
                faults.push(format!("undecided {:?}, expected {:?}", self.undecided, case.undecided));
            }
            for (key, reason) in &case.undecided {
                if self.undecided.get(key).is_some_and(|said| !said.contains(reason.as_str())) {
                    faults.push(format!("{key} is undecided because {}, expected {reason}", self.undecided[key]));
                }
            }
        }
        faults
    }
}

fn error_faults(expected: &ExpectedError, error: &MessageError) -> Vec<String> {
    let (code, limit) = match error.kind {
        MessageErrorKind::Malformed => ("message-malformed", None),
        MessageErrorKind::Limit { limit, .. } => ("message-limit", Some(limit)),
        MessageErrorKind::NeedsConversion => ("message-needs-conversion", None),
    };
    let limit_differs = expected.limit.as_deref().is_some_and(|expected| limit != Some(expected));
    if code != expected.code
        || limit_differs
        || expected.line.is_some_and(|line| line != error.line)
        || expected.column.is_some_and(|column| column != error.column)
        || !error.reason.contains(&expected.contains)
    {
        return vec![format!("is refused by {code}: {error}, expected {expected:?}")];
    }
    Vec::new()
}

/// The work of one runner: each case is run, or skipped with a reason.
pub struct Runner {
    name: &'static str,
    run: BTreeSet<String>,
    skipped: BTreeMap<String, BTreeSet<String>>,
    faults: Vec<String>,
}

impl Runner {
    pub fn new(name: &'static str) -> Self {
        Self { name, run: BTreeSet::new(), skipped: BTreeMap::new(), faults: Vec::new() }
    }

    /// Whether the runner takes a case; if not, the case is counted with its own reason, or with that of the runner.
    pub fn takes(&mut self, case: &Case, reason: impl Fn(&Case) -> Option<&'static str>) -> bool {
        match case.skip.get(self.name).map(String::as_str).or_else(|| reason(case)) {
            Some(reason) => {
                let reason = reason.to_owned();
                self.skip(case, reason);
                false
            }
            None => true,
        }
    }

    /// Notes what an engine says of a case. What has to be converted first is none of the core's business.
    pub fn answer(&mut self, case: &Case, answer: &Answer) {
        if answer.error.as_ref().is_some_and(|error| error.kind == MessageErrorKind::NeedsConversion) {
            self.skip(case, "the message is converted before the core reads it".to_owned());
            return;
        }
        self.add(case, answer.faults(case));
    }

    /// Counts a case that is not run, once for each reason.
    pub fn skip(&mut self, case: &Case, reason: String) {
        self.skipped.entry(reason).or_default().insert(case.id.clone());
    }

    /// Notes how a case went.
    pub fn add(&mut self, case: &Case, faults: Vec<String>) {
        self.run.insert(case.id.clone());
        self.faults.extend(faults.into_iter().map(|fault| format!("{}: {fault}", case.id)));
    }

    /// Tells how many cases were run and skipped, and panics with all that is wrong.
    pub fn finish(self) {
        let skipped: usize = self.skipped.values().map(BTreeSet::len).sum();
        println!("{}: {} run, {skipped} skipped", self.name, self.run.len());
        for (reason, cases) in &self.skipped {
            println!("    {} skipped: {reason}", cases.len());
        }
        assert!(self.faults.is_empty(), "{} faults\n{}", self.faults.len(), self.faults.join("\n"));
        assert!(!self.run.is_empty(), "{} ran nothing", self.name);
    }
}
