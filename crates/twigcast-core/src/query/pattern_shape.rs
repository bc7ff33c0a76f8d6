//! Patterns that are texts with gaps between, such as `(^|\W)storm(\W|$)` and `flood.*warning`, found without an automaton.
//!
//! Before a pattern is verified, an index has usually found one of its texts. Thousands of patterns are then verified on one
//! value, and each automaton would have to be loaded into the cache for a few bytes. The matches found here are those of the
//! regular expression; if that is not certain, the regular expression decides.

use memchr::memmem;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, Hir, HirKind, Look, Repetition};

/// A set of characters.
#[derive(Clone, Debug)]
struct CharacterSet {
    ascii: u128,
    /// The others: first and last of each range, in order.
    ranges: Box<[(char, char)]>,
}

/// The most bytes of a text: each of its occurrences is compared as a whole.
const TEXT_MAX: usize = 64;
const PIECES_MAX: usize = 8;

/// The edge of a text: a character of a set next to it, or the end of the value.
#[derive(Clone, Debug)]
struct Edge {
    set: CharacterSet,
    or_end: Option<Look>,
}

/// A text of a pattern, with its edges.
#[derive(Clone, Debug)]
struct Piece {
    before: Option<Edge>,
    text: Text,
    after: Option<Edge>,
}

#[derive(Clone, Debug)]
enum Text {
    Exact(Box<memmem::Finder<'static>>),
    /// In ASCII and lower case; found in any case.
    AnyCase {
        lower: Box<[u8]>,
        /// The place of the byte that is sought first.
        sought: usize,
    },
}

/// Characters of a set, any number of them.
#[derive(Clone, Debug)]
struct Gap {
    set: CharacterSet,
    /// There has to be one.
    is_some: bool,
}

/// A part of a pattern, in the order in which they are written.
enum Part {
    Text(String),
    Edge(Edge),
    Gap(Gap),
}

/// Texts in order with gaps between.
#[derive(Clone, Debug)]
pub(super) struct PatternShape {
    /// What the value begins with is the first piece, behind a gap if there is one.
    at_start: bool,
    /// The gap before each piece. The first has none, but for one at the start.
    pieces: Vec<(Option<Gap>, Piece)>,
    /// The gap behind the last piece.
    last: Option<Gap>,
    at_end: bool,
    ignores_case: bool,
}

impl CharacterSet {
    fn of(class: &ClassUnicode) -> Self {
        let (mut ascii, mut ranges) = (0, Vec::new());
        for range in class.iter() {
            let (first, last) = (range.start(), range.end());
            for code in u32::from(first)..=u32::from(last).min(127) {
                ascii |= 1 << code;
            }
            if !last.is_ascii() {
                ranges.push((first, last));
            }
        }
        Self { ascii, ranges: ranges.into() }
    }

    fn contains(&self, character: char) -> bool {
        if character.is_ascii() {
            return self.ascii >> u32::from(character) & 1 == 1;
        }
        let next = self.ranges.partition_point(|&(first, _)| first <= character);
        next > 0 && character <= self.ranges[next - 1].1
    }

    fn contains_all(&self, text: &str) -> bool {
        text.chars().all(|character| self.contains(character))
    }
}

impl Text {
    fn new(text: &str, ignores_case: bool) -> Option<Self> {
        if !ignores_case {
            return Some(Self::Exact(Box::new(memmem::Finder::new(text).into_owned())));
        }
        let lower = text.is_ascii().then(|| text.to_ascii_lowercase().into_bytes().into_boxed_slice())?;
        // Characters other than letters are rarer, and have one case.
        let sought = lower.iter().position(|byte| !byte.is_ascii_alphabetic()).unwrap_or(0);
        Some(Self::AnyCase { lower, sought })
    }

    /// Returns the first place from `from` on at which the text begins, and where it ends there.
    fn find(&self, value: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Exact(finder) => {
                let start = from + finder.find(value.get(from..)?)?;
                Some((start, start + finder.needle().len()))
            }
            Self::AnyCase { lower, sought } => {
                let byte = lower[*sought];
                let mut at = from + sought;
                loop {
                    let rest = value.get(at..)?;
                    at += memchr::memchr2(byte, byte.to_ascii_uppercase(), rest)?;
                    let start = at - sought;
                    let found = value.get(start..start + lower.len())?;
                    if found.eq_ignore_ascii_case(lower) {
                        return Some((start, start + lower.len()));
                    }
                    at += 1;
                }
            }
        }
    }
}

impl Piece {
    /// Returns the range of a match around an occurrence of the text, edges included; `None` if an edge does not match.
    fn around(&self, value: &str, (start, end): (usize, usize)) -> Option<(usize, usize)> {
        let start = match &self.before {
            None => start,
            Some(edge) => match value[..start].chars().next_back() {
                None if edge.or_end == Some(Look::Start) => start,
                Some(before) if edge.set.contains(before) => start - before.len_utf8(),
                _ => return None,
            },
        };
        let end = match &self.after {
            None => end,
            Some(edge) => match value[end..].chars().next() {
                None if edge.or_end == Some(Look::End) => end,
                Some(after) if edge.set.contains(after) => end + after.len_utf8(),
                _ => return None,
            },
        };
        Some((start, end))
    }
}

impl PatternShape {
    /// Returns the shape of a pattern in the syntax of the engine, if it has one.
    pub(super) fn of(translated: &str, ignores_case: bool) -> Option<Self> {
        let hir = ParserBuilder::new().case_insensitive(ignores_case).build().parse(translated).ok()?;
        let mut flat = Vec::new();
        flatten(&hir, &mut flat);
        let is_look = |part: &&Hir, look: Look| matches!(part.kind(), HirKind::Look(found) if *found == look);
        let at_start = flat.first().is_some_and(|part| is_look(part, Look::Start));
        flat.drain(..usize::from(at_start));
        let at_end = flat.last().is_some_and(|part| is_look(part, Look::End));
        flat.truncate(flat.len() - usize::from(at_end));
        let parts = flat.iter().map(|part| Part::of(part, ignores_case)).collect::<Option<Vec<_>>>()?;
        let mut shape = Self { at_start, pieces: Vec::new(), last: None, at_end, ignores_case };
        shape.add(parts)?;
        Some(shape)
    }

    /// Adds parts; `None` if they are not texts with edges and gaps.
    fn add(&mut self, parts: Vec<Part>) -> Option<()> {
        let mut parts = joined(parts).into_iter().peekable();
        let (mut gap, mut edge) = (None, None);
        while let Some(part) = parts.next() {
            match part {
                // One beside another has more than one way to be matched.
                Part::Gap(_) if gap.is_some() || edge.is_some() => return None,
                Part::Gap(found) => gap = Some(found),
                Part::Edge(_) if edge.is_some() => return None,
                Part::Edge(found) => edge = Some(found),
                Part::Text(text) => {
                    let after = parts.next_if(|part| matches!(part, Part::Edge(_)));
                    let after = after.and_then(|part| if let Part::Edge(edge) = part { Some(edge) } else { None });
                    if text.len() > TEXT_MAX || self.pieces.len() == PIECES_MAX {
                        return None;
                    }
                    let text = Text::new(&text, self.ignores_case)?;
                    self.pieces.push((gap.take(), Piece { before: edge.take(), text, after }));
                }
            }
        }
        if edge.is_some() || self.pieces.is_empty() {
            return None;
        }
        self.last = gap;
        // A gap at an end of the pattern that is at no end of the value asks for a character at most.
        let asks = |gap: &Option<Gap>| gap.as_ref().is_some_and(|gap| gap.is_some);
        if !self.at_start && asks(&self.pieces[0].0) || !self.at_end && asks(&self.last) {
            return None;
        }
        Some(())
    }

    /// Returns the texts that each matching value contains, as far as their case is given.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|(_, piece)| match &piece.text {
            Text::Exact(finder) => std::str::from_utf8(finder.needle()).ok(),
            Text::AnyCase { .. } => None,
        })
    }

    /// Returns whether a part of a value is as the pattern says; `None` if that is not certain.
    pub(super) fn is_match(&self, value: &str) -> Option<bool> {
        // These are an `s` and a `k` but for the case.
        if self.ignores_case && !value.is_ascii() && value.contains(['\u{17F}', '\u{212A}']) {
            return None;
        }
        // The places up to which the pieces so far are matched, in order.
        let mut matched: Vec<usize>;
        let mut ends: &[usize] = &[0];
        for (index, (gap, piece)) in self.pieces.iter().enumerate() {
            let is_anywhere = index == 0 && !self.at_start;
            let is_last = index + 1 == self.pieces.len() && !self.at_end;
            let mut next = Vec::new();
            let mut reach = Reach { value, ends, gap: gap.as_ref(), passed: 0, at: 0, free_from: 0 };
            let mut from = 0;
            while let Some(found) = piece.text.find(value.as_bytes(), from) {
                // Occurrences may overlap.
                from = found.0 + 1;
                let Some((start, end)) = piece.around(value, found) else { continue };
                if is_anywhere || reach.has(start) {
                    if is_last {
                        return Some(true);
                    }
                    next.push(end);
                }
            }
            if next.is_empty() {
                return Some(false);
            }
            matched = next;
            ends = &matched;
        }
        let end = *ends.last()?;
        Some(match &self.last {
            None => end == value.len(),
            Some(gap) => {
                let last = if gap.is_some { ends.iter().rfind(|&&end| end < value.len()) } else { Some(&end) };
                last.is_some_and(|&end| gap.set.contains_all(&value[end..]))
            }
        })
    }
}

/// Says which places can be reached from the ends of what is matched so far, through a gap. Places are asked for in order.
struct Reach<'s> {
    value: &'s str,
    ends: &'s [usize],
    gap: Option<&'s Gap>,
    /// How many of the ends are before the place that was asked for last, or at it where that suffices.
    passed: usize,
    /// How far the value was looked at, and from where on all characters up to there are of the gap.
    at: usize,
    free_from: usize,
}

impl Reach<'_> {
    fn has(&mut self, place: usize) -> bool {
        let Some(gap) = self.gap else { return self.ends.binary_search(&place).is_ok() };
        let is_before = |end: usize| if gap.is_some { end < place } else { end <= place };
        while self.passed < self.ends.len() && is_before(self.ends[self.passed]) {
            self.passed += 1;
        }
        while self.at < place {
            let Some(character) = self.value[self.at..].chars().next() else { break };
            self.at += character.len_utf8();
            if !gap.set.contains(character) {
                self.free_from = self.at;
            }
        }
        self.passed > 0 && self.ends[self.passed - 1] >= self.free_from
    }
}

impl Part {
    fn of(hir: &Hir, ignores_case: bool) -> Option<Self> {
        match hir.kind() {
            HirKind::Literal(literal) => Some(Self::Text(std::str::from_utf8(&literal.0).ok()?.to_owned())),
            HirKind::Class(Class::Unicode(class)) => Some(match letter(class).filter(|_| ignores_case) {
                Some(letter) => Self::Text(letter.to_string()),
                None => Self::Edge(Edge { set: CharacterSet::of(class), or_end: None }),
            }),
            HirKind::Repetition(Repetition { min, max: None, sub, .. }) if *min <= 1 => {
                let set = CharacterSet::of(&class_of(sub)?);
                Some(Self::Gap(Gap { set, is_some: *min == 1 }))
            }
            HirKind::Alternation(choices) => {
                let [one, other] = choices.as_slice() else { return None };
                let edge = |end: &Hir, class: &Hir| {
                    let HirKind::Look(look @ (Look::Start | Look::End)) = end.kind() else { return None };
                    Some(Edge { set: CharacterSet::of(&class_of(class)?), or_end: Some(*look) })
                };
                edge(one, other).or_else(|| edge(other, one)).map(Self::Edge)
            }
            _ => None,
        }
    }
}

/// Returns the letter of ASCII that a class is in both cases, and whatever else is the same but for the case.
fn letter(class: &ClassUnicode) -> Option<char> {
    let first = class.iter().next()?.start();
    if !first.is_ascii_uppercase() {
        return None;
    }
    let range = regex_syntax::hir::ClassUnicodeRange::new(first, first);
    let mut folded = ClassUnicode::new([range]);
    folded.try_case_fold_simple().ok()?;
    (folded == *class).then(|| first.to_ascii_lowercase())
}

/// Returns an expression as a set of characters, if it is one.
fn class_of(hir: &Hir) -> Option<ClassUnicode> {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
        HirKind::Literal(literal) => {
            let mut characters = std::str::from_utf8(&literal.0).ok()?.chars();
            let (only, None) = (characters.next()?, characters.next()) else { return None };
            Some(ClassUnicode::new([regex_syntax::hir::ClassUnicodeRange::new(only, only)]))
        }
        HirKind::Capture(capture) => class_of(&capture.sub),
        _ => None,
    }
}

/// Appends the parts of an expression that follow each other. Groups do not matter where nothing is put in their place.
fn flatten<'h>(hir: &'h Hir, parts: &mut Vec<&'h Hir>) {
    match hir.kind() {
        HirKind::Concat(all) => all.iter().for_each(|part| flatten(part, parts)),
        HirKind::Capture(capture) => flatten(&capture.sub, parts),
        _ => parts.push(hir),
    }
}

/// Returns parts of which texts that follow each other are one.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        match (all.last_mut(), part) {
            (Some(Part::Text(text)), Part::Text(more)) => text.push_str(&more),
            (_, part) => all.push(part),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::PatternShape;
    use crate::query::pattern::Pattern;
    use crate::testing::Random;
    use regex::RegexBuilder;

    const PIECES: [&str; 18] = [
        "a", "ab", "ba", "k", "s", "é", "1", ".*", ".+", "[ab]*", "[^a]+", " ", "\\W", "(^|\\W)", "(\\W|$)", "( |$)",
        "[Aa]", "(ab)",
    ];
    const CHARACTERS: [char; 14] =
        ['a', 'b', 'A', 'B', 'k', 'K', '\u{212A}', 's', '\u{17F}', '\u{E9}', 'É', '1', ' ', '\n'];

    /// Patterns with a shape find what the regular expression finds.
    #[test]
    fn a_shape_finds_what_the_regular_expression_finds() {
        let (mut shapes, mut answers, mut found) = (0, 0, 0);
        for seed in 1..4_000_u64 {
            let mut random = Random(seed);
            let count = 1 + random.below(6);
            let mut text: String = (0..count).map(|_| PIECES[random.below(PIECES.len())]).collect();
            if random.below(4) == 0 {
                text.insert(0, '^');
            }
            if random.below(4) == 0 {
                text.push('$');
            }
            let ignores_case = random.below(2) == 0;
            let translated =
                Pattern::new(&text, if ignores_case { "i" } else { "" }).expect("a pattern").translated_text();
            let Some(shape) = PatternShape::of(&translated, ignores_case) else { continue };
            shapes += 1;
            let regex =
                RegexBuilder::new(&translated).case_insensitive(ignores_case).build().expect("a regular expression");
            for _ in 0..30 {
                let length = random.below(12);
                let value: String = (0..length).map(|_| CHARACTERS[random.below(CHARACTERS.len())]).collect();
                if let Some(answer) = shape.is_match(&value) {
                    assert_eq!(answer, regex.is_match(&value), "seed {seed}: {text:?} on {value:?}");
                    answers += 1;
                    found += usize::from(answer);
                }
            }
        }
        assert!(shapes > 300 && answers > 5_000 && found > 500, "{shapes} {answers} {found}");
    }

    /// What occurs thousands of times and matches nowhere is gone through once.
    #[test]
    fn repeated_texts_take_linear_time() {
        for pattern in ["(^|\\W)a(\\W|$)", "a.*a.*a.*b$", "aa[^b]*aab", "^a*b.*ab$"] {
            let translated = Pattern::new(pattern, "").expect("a pattern").translated_text();
            if let Some(shape) = PatternShape::of(&translated, false) {
                let started = std::time::Instant::now();
                assert_eq!(shape.is_match(&"a".repeat(1 << 20)), Some(false));
                assert!(started.elapsed().as_secs() < 5, "{pattern}");
            }
        }
    }
}
