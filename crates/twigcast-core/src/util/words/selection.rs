//! Selections of XQuery and XPath Full Text: conditions on the words of a text.
//!
//! For `window`, `distance` and `ordered`, a selection is expanded into alternatives, each a list of parts that all have to
//! occur. Occurrences are chosen in the order of the text, one for each part. Of earlier choices only the start of the
//! first, the end of the last and the set of parts matter, so each such state is tried once.

use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::phrase::{Phrase, WordSource};

/// A selection with the text that it was read from, by which it is compared.
#[derive(Clone, Debug)]
pub struct TextSelection {
    text: Box<str>,
    /// The selection.
    pub root: Selection,
}

impl PartialEq for TextSelection {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Hash for TextSelection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl TextSelection {
    /// Returns a selection.
    pub fn new(root: Selection) -> Self {
        Self { text: root.to_string().into(), root }
    }

    /// Returns the selection as queries write it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A question about the words of a text.
#[derive(Clone, Debug)]
pub enum Selection {
    /// `a ftor b`.
    Any(Vec<Selection>),
    /// `a ftand b`.
    All(Vec<Selection>),
    /// `ftnot a`.
    Not(Box<Selection>),
    /// One word, or several in a row.
    Phrase(Phrase),
    /// Words and phrases that are near each other.
    Near(Near),
}

impl Selection {
    /// Returns whether the selection holds of a text.
    pub fn holds<S: WordSource>(&self, source: &mut S) -> Result<bool, S::Error> {
        match self {
            Self::Any(members) => {
                for member in members {
                    if member.holds(source)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::All(members) => {
                for member in members {
                    if !member.holds(source)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Not(member) => Ok(!member.holds(source)?),
            Self::Phrase(phrase) => Ok(!phrase.starts(source)?.is_empty()),
            Self::Near(near) => near.holds(source),
        }
    }

    /// Returns how deeply the selection is nested.
    pub fn depth(&self) -> usize {
        match self {
            Self::Any(members) | Self::All(members) => 1 + members.iter().map(Self::depth).max().unwrap_or(0),
            Self::Not(member) => 1 + member.depth(),
            Self::Near(near) => 1 + near.source().depth(),
            Self::Phrase(_) => 2,
        }
    }

    /// Returns whether what is asked may hold of a text without the words.
    pub fn has_negation(&self) -> bool {
        match self {
            Self::Any(members) | Self::All(members) => members.iter().any(Self::has_negation),
            Self::Not(_) => true,
            Self::Phrase(_) | Self::Near(_) => false,
        }
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = |members: &[Self], operator: &str| {
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    formatter.write_str(operator)?;
                }
                match member {
                    Self::Any(_) | Self::All(_) | Self::Near(_) => write!(formatter, "({member})")?,
                    _ => write!(formatter, "{member}")?,
                }
            }
            Ok(())
        };
        match self {
            Self::Any(members) => list(members, " ftor "),
            Self::All(members) => list(members, " ftand "),
            Self::Not(member) => match **member {
                Self::Phrase(_) => write!(formatter, "ftnot {member}"),
                _ => write!(formatter, "ftnot ({member})"),
            },
            Self::Phrase(phrase) => phrase.fmt(formatter),
            Self::Near(near) => near.fmt(formatter),
        }
    }
}

// Nearness ------------------------------------------------------------------------------------------------------------

/// The most alternatives, and the most parts of one.
pub const ALTERNATIVES_MAX: usize = 64;
/// The most parts of an alternative.
pub const PARTS_MAX: usize = 12;

/// The most words that may lie between, or around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// All within so many words.
    Window(u32),
    /// The least and the most words between one and the next.
    Distance(i64, i64),
    /// Anywhere.
    Anywhere,
}

/// A selection whose parts have to be near each other.
#[derive(Clone, Debug)]
pub struct Near {
    source: Box<Selection>,
    alternatives: Vec<Vec<NearPart>>,
    nearness: Nearness,
    is_ordered: bool,
}

/// A part of a selection that is near others.
#[derive(Clone, Debug)]
enum NearPart {
    Phrase(Phrase),
    // Shared, since alternatives have the same parts over and over.
    Near(Arc<Near>),
}

/// The words from one place to another, both included.
type WordSpan = (u32, u32);

/// What matters of the occurrences chosen so far.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Chosen {
    /// Their parts, as bits.
    parts: u32,
    /// Where the first begins, where the last begins and ends, and where all have ended.
    first: u32,
    last: WordSpan,
    end: u32,
}

impl Near {
    /// Returns a selection of which all parts have to be near each other; the error says why it cannot be one.
    pub fn new(source: Selection, nearness: Nearness, is_ordered: bool) -> Result<Self, String> {
        let alternatives = alternatives(&source)?;
        Ok(Self { source: Box::new(source), alternatives, nearness, is_ordered })
    }

    /// Returns what is asked apart from nearness.
    pub fn source(&self) -> &Selection {
        &self.source
    }

    /// Returns `true` if nothing but the order is asked.
    pub fn is_order_only(&self) -> bool {
        self.nearness == Nearness::Anywhere
    }

    pub(super) fn holds<S: WordSource>(&self, source: &mut S) -> Result<bool, S::Error> {
        for parts in &self.alternatives {
            if !self.spans_of(parts, true, source)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn spans<S: WordSource>(&self, source: &mut S) -> Result<Vec<WordSpan>, S::Error> {
        let mut all = Vec::new();
        for parts in &self.alternatives {
            all.append(&mut self.spans_of(parts, false, source)?);
        }
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// Returns from where to where parts occur together, once or as often as they do.
    fn spans_of<S: WordSource>(
        &self,
        parts: &[NearPart],
        once: bool,
        source: &mut S,
    ) -> Result<Vec<WordSpan>, S::Error> {
        let mut occurrences = Vec::new();
        for (part, index) in parts.iter().zip(0_u32..) {
            let spans = part.spans(source)?;
            if spans.is_empty() {
                return Ok(Vec::new());
            }
            occurrences.extend(spans.into_iter().map(|span| (span, index)));
        }
        source.charge(occurrences.len() as u64)?;
        occurrences.sort_unstable();
        let all = (1_u32 << parts.len()) - 1;
        let mut found = Vec::new();
        let mut tried: HashSet<(Chosen, usize), RandomState> = HashSet::default();
        let mut open: Vec<(Chosen, usize)> = Vec::new();
        for (index, &(span, part)) in occurrences.iter().enumerate() {
            if !self.is_ordered || part == 0 {
                open.push((Chosen { parts: 1 << part, first: span.0, last: span, end: span.1 }, index));
            }
        }
        while let Some((chosen, index)) = open.pop() {
            source.charge(1)?;
            if chosen.parts == all {
                if self.fits(chosen) {
                    found.push((chosen.first, chosen.end));
                    if once {
                        return Ok(found);
                    }
                }
                continue;
            }
            // An occurrence of one part may be one of another, too: the same place is looked at again.
            let from = match self.is_ordered {
                // In order are also those that begin at the same place.
                true => occurrences.partition_point(|(span, _)| span.0 < chosen.last.0),
                false => index + 1,
            };
            for (next, &(span, part)) in occurrences.iter().enumerate().skip(from) {
                source.charge(1)?;
                if self.is_beyond(chosen, span) {
                    break;
                }
                let is_due =
                    if self.is_ordered { part == chosen.parts.count_ones() } else { chosen.parts >> part & 1 == 0 };
                if !is_due || !self.is_near(chosen, span) {
                    continue;
                }
                let parts = chosen.parts | 1 << part;
                let chosen = Chosen { parts, last: chosen.last.max(span), end: chosen.end.max(span.1), ..chosen };
                if tried.insert((chosen, next)) {
                    open.push((chosen, next));
                }
            }
        }
        Ok(found)
    }

    /// Returns whether no occurrence from there on can belong to what is chosen.
    fn is_beyond(&self, chosen: Chosen, span: WordSpan) -> bool {
        match self.nearness {
            Nearness::Window(size) => span.0 - chosen.first >= size,
            Nearness::Distance(_, most) => between(chosen.last, span) > most,
            Nearness::Anywhere => false,
        }
    }

    fn is_near(&self, chosen: Chosen, span: WordSpan) -> bool {
        match self.nearness {
            Nearness::Window(size) => span.1 - chosen.first < size,
            Nearness::Distance(least, most) => (least..=most).contains(&between(chosen.last, span)),
            Nearness::Anywhere => true,
        }
    }

    /// Returns whether what is chosen is short enough: one part alone may be too long for its window.
    fn fits(&self, chosen: Chosen) -> bool {
        match self.nearness {
            Nearness::Window(size) => chosen.end - chosen.first < size,
            _ => true,
        }
    }
}

/// Returns how many words are between two occurrences; less than none if they overlap.
fn between(before: WordSpan, after: WordSpan) -> i64 {
    i64::from(after.0) - i64::from(before.1) - 1
}

impl NearPart {
    fn spans<S: WordSource>(&self, source: &mut S) -> Result<Vec<WordSpan>, S::Error> {
        match self {
            Self::Phrase(phrase) => {
                let more = phrase.words.len() as u32 - 1;
                Ok(phrase.starts(source)?.into_iter().map(|start| (start, start + more)).collect())
            }
            Self::Near(near) => near.spans(source),
        }
    }
}

/// Returns a selection as alternatives of parts that all have to occur.
fn alternatives(selection: &Selection) -> Result<Vec<Vec<NearPart>>, String> {
    let written = match selection {
        Selection::Phrase(phrase) => vec![vec![NearPart::Phrase(phrase.clone())]],
        // Order alone has no extent, so its parts stay as they are.
        Selection::Near(near) if near.is_order_only() => {
            return Err("`ordered` is written beside `window` or `distance`, not inside of what these are about".into());
        }
        Selection::Near(near) => vec![vec![NearPart::Near(Arc::new(near.clone()))]],
        Selection::Not(_) => {
            return Err("`ftnot` cannot be a part of what `window`, `distance` or `ordered` is about; write \
                        `... window 5 words ftand ftnot ...` in parentheses of its own"
                .into());
        }
        Selection::Any(members) => {
            let mut all = Vec::new();
            for member in members {
                all.append(&mut alternatives(member)?);
            }
            all
        }
        Selection::All(members) => {
            let mut all = vec![Vec::new()];
            for member in members {
                let member = alternatives(member)?;
                if all.len() * member.len() > ALTERNATIVES_MAX {
                    return Err(too_many());
                }
                all = all
                    .iter()
                    .flat_map(|parts| member.iter().map(move |more| parts.iter().chain(more).cloned().collect()))
                    .collect();
            }
            all
        }
    };
    if written.len() > ALTERNATIVES_MAX || written.iter().any(|parts| parts.len() > PARTS_MAX) {
        return Err(too_many());
    }
    Ok(written)
}

fn too_many() -> String {
    format!(
        "what `window`, `distance` or `ordered` is about has at most {ALTERNATIVES_MAX} alternatives of {PARTS_MAX} parts; make \
         it several subscriptions"
    )
}

impl fmt::Display for Near {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "({})", self.source)?;
        if self.is_ordered {
            formatter.write_str(" ordered")?;
        }
        match self.nearness {
            Nearness::Window(size) => write!(formatter, " window {size} words"),
            Nearness::Distance(least, most) if least == most => write!(formatter, " distance exactly {most} words"),
            Nearness::Distance(i64::MIN, most) => write!(formatter, " distance at most {most} words"),
            Nearness::Distance(least, i64::MAX) => write!(formatter, " distance at least {least} words"),
            Nearness::Distance(least, most) => write!(formatter, " distance from {least} to {most} words"),
            Nearness::Anywhere => Ok(()),
        }
    }
}
