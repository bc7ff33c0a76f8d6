//! Regular expressions of XPath 3.1 (Functions and Operators, section 5.6), on an engine that takes linear time.
//!
//! A pattern is translated, compiled when the query is registered, and says which texts it cannot do without, so that an index
//! of parts of texts leads to it. What linear time cannot have (back-references) is refused.

use std::hash::{Hash, Hasher};
use std::iter::Peekable;
use std::str::Chars;

use super::pattern_shape::PatternShape;
use regex::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Literal};
use regex_syntax::hir::{Hir, HirKind, Look};

/// The most bytes of a compiled pattern, and of what an evaluation remembers.
const BYTES_MAX: usize = 1 << 20;
/// The most characters of all that a pattern repeats a number of times, written out. Where an automaton does not fit its memory,
/// each of them is a place that is kept for each character of a text.
const WRITTEN_OUT_MAX: usize = 1_000;
/// Places that are kept in the time of a look-up in an automaton.
const PLACES_PER_LOOKUP: usize = 2;
/// The most texts of which a pattern needs one.
const REQUIRED_MAX: usize = 32;
const NAME_START: &str = ":A-Z_a-z\\u{C0}-\\u{D6}\\u{D8}-\\u{F6}\\u{F8}-\\u{2FF}\\u{370}-\\u{37D}\\u{37F}-\\u{1FFF}\
    \\u{200C}-\\u{200D}\\u{2070}-\\u{218F}\\u{2C00}-\\u{2FEF}\\u{3001}-\\u{D7FF}\\u{F900}-\\u{FDCF}\\u{FDF0}-\\u{FFFD}\
    \\u{10000}-\\u{EFFFF}";
const NAME_MORE: &str = "\\-.0-9\\u{B7}\\u{300}-\\u{36F}\\u{203F}-\\u{2040}";

/// A regular expression with its flags.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Box<str>,
    flags: Box<str>,
    regex: Regex,
    required: Vec<Box<str>>,
    literals: Option<PatternLiterals>,
    shape: Option<Box<PatternShape>>,
    ignores_case: bool,
    /// How many times as long as a plain pattern's the evaluation on a text may take.
    weight: usize,
    /// A match may be preceded by a look at all the rest of a text.
    looks_far: bool,
    /// What `replace()` puts in place of each match.
    replacement: Vec<ReplacementPart>,
}

/// A part of what is put in place of a match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ReplacementPart {
    Text(Box<str>),
    /// What a group of the pattern matched; 0 is the whole match.
    Group(usize),
}

/// The only texts that a pattern finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternLiterals {
    /// Texts of which one is to occur.
    pub texts: Vec<Box<str>>,
    /// They are to stand at the beginning.
    pub at_start: bool,
    /// They are to stand at the end.
    pub at_end: bool,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.flags == other.flags && self.replacement == other.replacement
    }
}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
        self.flags.hash(state);
        self.replacement.hash(state);
    }
}

impl Pattern {
    /// Returns a pattern, compiled; the error says what is wrong with it.
    pub fn new(text: &str, flags: &str) -> Result<Self, String> {
        if let Some(flag) = flags.chars().find(|flag| !"isxq".contains(*flag)) {
            let hint = if flag == 'm' { "; use dialect=\"xquery\" for lines" } else { "" };
            return Err(format!("there is no flag `{flag}` here; the flags are i, s, x and q{hint}"));
        }
        let has = |flag| flags.contains(flag);
        let ignores_case = has('i');
        let translated = if has('q') {
            regex::escape(text)
        } else {
            let translator = Translator {
                rest: text.chars().peekable(),
                out: String::with_capacity(2 * text.len()),
                dot_is_all: has('s'),
                skips_space: has('x'),
                ignores_case,
            };
            translator.translated()?
        };
        let mut builder = RegexBuilder::new(&translated);
        let regex = builder.case_insensitive(ignores_case).size_limit(BYTES_MAX).dfa_size_limit(BYTES_MAX).build();
        let regex = regex.map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => too_long(),
            _ => "a bracket, a range or a repetition in it is not complete".to_owned(),
        })?;
        let hir = regex_syntax::parse(&translated).map_err(|error| error.to_string())?;
        let places = written_out(&hir);
        if places > WRITTEN_OUT_MAX {
            return Err(too_long());
        }
        let (weight, looks_far) = (1 + places / PLACES_PER_LOOKUP, looks_far(&hir, false, false));
        let needed = required(&hir).unwrap_or_default();
        let needed = if ignores_case { folded(&needed) } else { needed };
        let required = needed.into_iter().map(String::into_boxed_str).collect();
        let literals = if ignores_case { None } else { literals(&hir) };
        let shape = if literals.is_none() { PatternShape::of(&translated, ignores_case).map(Box::new) } else { None };
        let (text, flags, replacement) = (text.into(), flags.into(), Vec::new());
        Ok(Self { text, flags, regex, required, literals, shape, ignores_case, weight, looks_far, replacement })
    }

    /// Returns the pattern with what is put in place of its matches, where `$1` is what the first group matched.
    pub fn with_replacement(mut self, replacement: &str) -> Result<Self, String> {
        if self.flags.contains('q') {
            self.replacement = vec![ReplacementPart::Text(replacement.into())];
            return Ok(self);
        }
        let groups = self.regex.captures_len() - 1;
        let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), replacement.chars().peekable());
        while let Some(c) = rest.next() {
            match c {
                '\\' => match rest.next() {
                    Some(escaped @ ('\\' | '$')) => text.push(escaped),
                    _ => return Err("in the replacement, `\\` stands before `\\` or `$` only".into()),
                },
                '$' => {
                    let Some(first) = rest.next().and_then(|digit| digit.to_digit(10)) else {
                        return Err(
                            "in the replacement, `$` stands before the number of a group; the character is \\$".into(),
                        );
                    };
                    let mut group = first as usize;
                    // As many digits count as there are groups for.
                    while let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
                        let longer = 10 * group + digit as usize;
                        if longer > groups {
                            break;
                        }
                        group = longer;
                        rest.next();
                    }
                    if !text.is_empty() {
                        parts.push(ReplacementPart::Text(std::mem::take(&mut text).into()));
                    }
                    parts.push(ReplacementPart::Group(group));
                }
                other => text.push(other),
            }
        }
        if !text.is_empty() {
            parts.push(ReplacementPart::Text(text.into()));
        }
        self.replacement = parts;
        Ok(self)
    }

    /// Returns the parts of a text between its matches.
    pub fn split<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.regex.split(text)
    }

    /// Returns a text with each match replaced. `charge` gets the bytes of each replacement, and may end the work.
    pub fn replaced<E>(&self, text: &str, charge: &mut dyn FnMut(usize) -> Result<(), E>) -> Result<String, E> {
        let (mut replaced, mut end) = (String::new(), 0);
        // To find what the groups of a pattern match takes longer than to find the matches.
        if let [] | [ReplacementPart::Text(_)] = &*self.replacement {
            let by = match self.replacement.first() {
                Some(ReplacementPart::Text(by)) => by,
                _ => "",
            };
            for whole in self.regex.find_iter(text) {
                replaced.push_str(&text[end..whole.start()]);
                replaced.push_str(by);
                charge(by.len())?;
                end = whole.end();
            }
            replaced.push_str(&text[end..]);
            return Ok(replaced);
        }
        for captures in self.regex.captures_iter(text) {
            let Some(whole) = captures.get(0) else { continue };
            replaced.push_str(&text[end..whole.start()]);
            let start = replaced.len();
            for part in &self.replacement {
                replaced.push_str(match part {
                    ReplacementPart::Text(text) => text,
                    ReplacementPart::Group(group) => captures.get(*group).map_or("", |group| group.as_str()),
                });
            }
            charge(replaced.len() - start)?;
            end = whole.end();
        }
        replaced.push_str(&text[end..]);
        Ok(replaced)
    }

    /// Returns the pattern as the query writes it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns how many times as long as that of a plain pattern its evaluation may take.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns whether each match may be preceded by a look at all the rest of a text, so that finding all takes more than linear
    /// time.
    pub fn looks_far(&self) -> bool {
        self.looks_far
    }

    /// Returns whether a part of a text is as the pattern says.
    pub fn is_match(&self, text: &str) -> bool {
        let known = self.shape.as_ref().and_then(|shape| shape.is_match(text));
        known.unwrap_or_else(|| self.regex.is_match(text))
    }

    /// Returns texts of which each matching text contains at least one; empty if none are known. Those of a pattern that
    /// ignores the case are in lower case.
    pub fn required(&self) -> &[Box<str>] {
        &self.required
    }

    /// Returns texts that each matching text contains besides one of [`Self::required`].
    pub fn others_required(&self) -> impl Iterator<Item = &str> {
        let texts = self.shape.iter().flat_map(|shape| shape.texts());
        texts.filter(|text| !self.required.iter().any(|required| **required == **text))
    }

    /// Returns the texts that the pattern is another way to write, if it is no more than that.
    pub fn literals(&self) -> Option<&PatternLiterals> {
        self.literals.as_ref()
    }

    /// Returns the pattern in the syntax of the engine.
    #[cfg(test)]
    pub(super) fn translated_text(&self) -> String {
        self.regex.as_str().to_owned()
    }

    /// Returns whether letters match in either case.
    pub fn ignores_case(&self) -> bool {
        self.ignores_case
    }
}

/// Returns the texts that are all that matches an expression, and whether they are to stand at an end.
fn literals(hir: &Hir) -> Option<PatternLiterals> {
    let is_look = |part: &Hir, look: Look| matches!(part.kind(), HirKind::Look(found) if *found == look);
    let mut parts = match hir.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => std::slice::from_ref(hir),
    };
    let at_start = parts.first().is_some_and(|part| is_look(part, Look::Start));
    parts = &parts[usize::from(at_start)..];
    let at_end = parts.last().is_some_and(|part| is_look(part, Look::End));
    parts = &parts[..parts.len() - usize::from(at_end)];
    let between = Hir::concat(parts.to_vec());
    if !between.properties().look_set().is_empty() {
        return None;
    }
    let found = Extractor::new().extract(&between);
    let literals =
        found.literals().filter(|literals| (1..=REQUIRED_MAX).contains(&literals.len()) && found.is_exact())?;
    let text = |literal: &Literal| Some(std::str::from_utf8(literal.as_bytes()).ok()?.into());
    Some(PatternLiterals { texts: literals.iter().map(text).collect::<Option<_>>()?, at_start, at_end })
}

/// Returns texts of which each match contains at least one; `None` if none are known.
fn required(hir: &Hir) -> Option<Vec<String>> {
    let shortest = |texts: &[String]| texts.iter().map(String::len).min().unwrap_or(0);
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![String::from_utf8(literal.0.to_vec()).ok()?]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Concat(parts) => parts.iter().filter_map(required).max_by_key(|texts| shortest(texts)),
        HirKind::Alternation(parts) => {
            let texts = parts.iter().map(required).collect::<Option<Vec<_>>>()?.concat();
            (texts.len() <= REQUIRED_MAX).then_some(texts)
        }
        _ => None,
    }
}

/// Returns, in lower case, the longest part of each text in which each letter is of ASCII and no other letter folds to it;
/// empty if some text has no such part.
fn folded(texts: &[String]) -> Vec<String> {
    let folds_alone = |c: char| c.is_ascii() && !matches!(c, 's' | 'S' | 'k' | 'K');
    let runs = texts.iter().map(|text| {
        let longest = text.split(|c| !folds_alone(c)).max_by_key(|run| run.len()).unwrap_or_default();
        longest.to_ascii_lowercase()
    });
    let runs: Vec<String> = runs.collect();
    if runs.iter().any(String::is_empty) { Vec::new() } else { runs }
}

/// Writes a pattern of XPath as one of the engine.
struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    dot_is_all: bool,
    skips_space: bool,
    ignores_case: bool,
}

impl Translator<'_> {
    fn translated(mut self) -> Result<String, String> {
        // Whether a quantifier may follow, or the `?` that makes one reluctant.
        let (mut is_quantified, mut is_reluctant) = (false, false);
        while let Some(c) = self.rest.next() {
            let quantifies = matches!(c, '*' | '+' | '?' | '{');
            if quantifies && is_quantified && (c != '?' || is_reluctant) {
                let hint = if c == '+' {
                    "leave it out: time is linear without it"
                } else {
                    "put what comes before it in parentheses"
                };
                return Err(format!("`{c}` follows a quantifier; {hint}"));
            }
            match c {
                ' ' | '\t' | '\n' | '\r' if self.skips_space => continue,
                '\\' => self.escape(false)?,
                '[' => {
                    let class = self.class()?;
                    self.out.push_str(&class);
                }
                '.' => self.out.push_str(if self.dot_is_all { "(?s:.)" } else { "[^\\n\\r]" }),
                '^' => self.out.push_str("\\A"),
                '$' => self.out.push_str("\\z"),
                '(' => self.group()?,
                '{' if !self.rest.peek().is_some_and(char::is_ascii_digit) => {
                    return Err("`{` repeats a number of times, as in a{2,3}; the character is \\{".into());
                }
                '{' => {
                    self.out.push('{');
                    for c in self.rest.by_ref() {
                        self.out.push(c);
                        if c == '}' {
                            break;
                        }
                    }
                }
                '}' | ']' => return Err(format!("`{c}` closes nothing; the character is \\{c}")),
                other => self.out.push(other),
            }
            (is_quantified, is_reluctant) = (quantifies, quantifies && is_quantified);
        }
        Ok(self.out)
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if self.rest.peek() == Some(&'?') {
            self.rest.next();
            match self.rest.next() {
                Some(':') => {}
                other => return Err(unknown_group(other, self.rest.peek().copied())),
            }
            self.out.push_str("?:");
        }
        Ok(())
    }

    /// Translates an escape, of which the backslash is read.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(c) = self.rest.next() else { return Err("nothing follows the last `\\`".into()) };
        match c {
            'n' | 'r' | 't' => self.out.extend(['\\', c]),
            '\\' | '|' | '.' | '-' | '^' | '?' | '*' | '+' | '{' | '}' | '(' | ')' | '[' | ']' | '$' => {
                self.out.extend(['\\', c]);
            }
            's' => self.out.push_str("[ \\t\\n\\r]"),
            'S' => self.out.push_str("[^ \\t\\n\\r]"),
            'd' => self.out.push_str("\\p{Nd}"),
            'D' => self.out.push_str("\\P{Nd}"),
            'w' => self.out.push_str("[^\\p{P}\\p{Z}\\p{C}]"),
            'W' => self.out.push_str("[\\p{P}\\p{Z}\\p{C}]"),
            'i' => self.out.push_str(&format!("[{NAME_START}]")),
            'I' => self.out.push_str(&format!("[^{NAME_START}]")),
            'c' => self.out.push_str(&format!("[{NAME_START}{NAME_MORE}]")),
            'C' => self.out.push_str(&format!("[^{NAME_START}{NAME_MORE}]")),
            'p' | 'P' => self.category(c, in_class)?,
            '0'..='9' => {
                return Err(format!(
                    "`\\{c}` refers back to a group, which linear time does not allow; use dialect=\"xquery\""
                ));
            }
            other => return Err(unknown_escape(other)),
        }
        Ok(())
    }

    fn category(&mut self, letter: char, in_class: bool) -> Result<(), String> {
        let is_open = self.rest.next() == Some('{');
        let name: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        let is_category = is_open && (1..=2).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphabetic());
        if !is_category {
            return Err(format!("after `\\{letter}` a general category of Unicode is due, as in \\p{{Lu}}; no blocks"));
        }
        let escape = format!("\\{letter}{{{name}}}");
        match (self.ignores_case, in_class) {
            (false, _) => self.out.push_str(&escape),
            (true, false) => self.out.push_str(&format!("(?-i:{escape})")),
            (true, true) => return Err("a category in brackets cannot stand beside the flag i".into()),
        }
        Ok(())
    }

    /// Translates a class, of which the bracket is read.
    fn class(&mut self) -> Result<String, String> {
        let before = std::mem::take(&mut self.out);
        let class = self.class_items();
        self.out = before;
        class
    }

    fn class_items(&mut self) -> Result<String, String> {
        let unclosed = || "a `[` is not closed".to_owned();
        let mut opening = "[";
        if self.rest.next_if_eq(&'^').is_some() {
            opening = "[^";
        }
        let mut subtracted = None;
        loop {
            match self.rest.next().ok_or_else(unclosed)? {
                ']' => break,
                '[' if self.rest.peek() == Some(&':') => {
                    return Err("classes have no names; write \\p{L} for letters, \\p{Lu} for capitals, \\d for digits, \\s for \
                                white space, \\p{P} for punctuation"
                        .into());
                }
                '[' => return Err("a `[` in brackets is written \\[".into()),
                '\\' => self.escape(true)?,
                '-' if self.rest.peek() == Some(&'[') => {
                    self.rest.next();
                    subtracted = Some(self.class()?);
                    if self.rest.next() != Some(']') {
                        return Err("what is subtracted comes last in its brackets".into());
                    }
                    break;
                }
                '-' if self.out.is_empty() || self.rest.peek() == Some(&']') => self.out.push_str("\\-"),
                '-' => self.out.push('-'),
                c if c.is_ascii_punctuation() => self.out.push_str(&format!("\\x{{{:X}}}", c as u32)),
                c => self.out.push(c),
            }
        }
        if self.out.is_empty() {
            return Err("brackets hold one character at least".into());
        }
        let class = format!("{opening}{}]", self.out);
        Ok(match subtracted {
            Some(subtracted) => format!("[{class}--{subtracted}]"),
            None => class,
        })
    }
}

/// Returns why an escape of other languages is refused, and what to write instead.
fn unknown_escape(letter: char) -> String {
    let hint = match letter {
        'b' | 'B' | '<' | '>' => {
            "; write (^|\\W) before a word and (\\W|$) behind it, or ask for it by contains text \"word\""
        }
        'A' | 'z' | 'Z' | 'G' => "; write ^ for the start of the text and $ for its end",
        'x' | 'u' | 'U' | 'N' => "; write the character itself",
        'h' | 'v' | 'R' | 'f' => "; write \\s for white space",
        'Q' | 'E' => "; write the flag q for a text as it is: matches(a, 'text', 'q')",
        'k' | 'g' => ", since there is no reference back to a group; use dialect=\"xquery\"",
        'X' | 'K' => "",
        _ if letter.is_ascii_punctuation() || letter == ' ' => "; the character stands for itself",
        _ => "",
    };
    format!("there is no escape `\\{letter}`{hint}")
}

/// Returns why a group that begins with `(?` and two characters is refused, and what to write instead.
fn unknown_group(first: Option<char>, second: Option<char>) -> String {
    match (first, second) {
        (Some('='), _) | (Some('!'), _) | (Some('<'), Some('=' | '!')) => {
            "there is no looking ahead or back; write two conditions: matches(a, 'x') and not(matches(a, 'y'))".into()
        }
        (Some('P' | '<' | '\''), _) => "groups have no names; write `(` alone".into(),
        (Some('i' | 's' | 'm' | 'x' | 'u' | '-' | 'U'), _) => {
            "flags stand behind the pattern: matches(a, 'x', 'i')".into()
        }
        (Some('#'), _) => "a pattern has no comments".into(),
        _ => "after `(?` only `:` can stand".into(),
    }
}

/// Returns why a pattern is refused that is too long.
fn too_long() -> String {
    format!("it is too long, its repetitions written out ({WRITTEN_OUT_MAX} characters at most); ask for less")
}

/// Returns the number of characters that are repeated a number of times, written out.
fn written_out(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min) as usize;
            if times > 1 { times.saturating_mul(length(&repetition.sub)) } else { written_out(&repetition.sub) }
        }
        HirKind::Capture(capture) => written_out(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(written_out).sum(),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => 0,
    }
}

/// Returns the number of characters of a pattern, written out.
fn length(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min).max(1) as usize;
            times.saturating_mul(length(&repetition.sub))
        }
        HirKind::Capture(capture) => length(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(length).fold(0, usize::saturating_add),
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Empty | HirKind::Look(_) => 0,
    }
}

/// Returns whether a part that may be left for another one repeats without end, and has to be followed by something: all the rest
/// of a text may be read before the other part is taken.
fn looks_far(hir: &Hir, is_optional: bool, is_followed: bool) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            let is_endless = repetition.max.is_none();
            is_endless && is_optional && is_followed
                || looks_far(&repetition.sub, is_optional || repetition.min == 0, is_followed)
        }
        HirKind::Capture(capture) => looks_far(&capture.sub, is_optional, is_followed),
        HirKind::Alternation(parts) => parts.iter().any(|part| looks_far(part, true, is_followed)),
        HirKind::Concat(parts) => parts.iter().enumerate().any(|(index, part)| {
            let follows = |part: &Hir| part.properties().minimum_len().is_some_and(|least| least > 0);
            let is_anchored = |part: &Hir| matches!(part.kind(), HirKind::Look(_));
            let is_followed = is_followed || parts[index + 1..].iter().any(|part| follows(part) || is_anchored(part));
            looks_far(part, is_optional, is_followed)
        }),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => false,
    }
}
