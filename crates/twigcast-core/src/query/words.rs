//! `contains text` of W3C XQuery and XPath Full Text 3.0, and its functions `twig:words()` and `twig:full-text()`.
//!
//! `P contains text S` is `boolean(P[C])`, where `C` is `S` written out: a word is `twig:words(.) = 'word'`, `ftand`, `ftor` and
//! `ftnot` are `and`, `or` and `not()`. So the words of a node are one operand that all queries share, each word is one equality,
//! and the planner needs to know nothing of full text. A phrase, and what is near each other, is its words and beside them
//! `twig:full-text(., S)`, which verifies the places.

use std::sync::Arc;

use super::ast::{Axis, CompareOp, Expr, Function, NameTest, NodeTest, Path, PathStart, Step};
use super::functions::ExprType;
use super::lexer::{Token, TokenKind};
use super::matching::{itself, size};
use super::operators::{Operator, Side, combine};
use super::options::ParseOptions;
use super::parser::{Parsed, Parser};
use super::quantified::filtered;
use crate::error::QueryErrorKind;
use crate::util::hours::RecurringHours;
use crate::util::number;
use crate::util::words::language;
use crate::util::words::phrase::WildWord;
use crate::util::words::selection::{Near, Nearness};
use crate::util::words::{Phrase, PhraseWord, Selection, StemLanguage, TextSelection, WordOptions, tokens};
use crate::vocabulary::{Name, NamespaceId};

/// The match options that are written at one place. Other options are as around it.
#[derive(Clone, Copy, Default)]
struct SaidOptions<'a> {
    case_sensitive: Option<bool>,
    diacritics_sensitive: Option<bool>,
    stemming: Option<bool>,
    wildcards: Option<bool>,
    language: Option<(&'a str, usize)>,
}

/// A selection as it is written: options and nearness may follow what they are about.
enum Written<'a> {
    Any(Vec<Written<'a>>),
    All(Vec<Written<'a>>),
    Not(Box<Written<'a>>),
    Texts { texts: Vec<Box<str>>, mode: TextsMode, offset: usize },
    With { selection: Box<Written<'a>>, options: SaidOptions<'a> },
    Near { selection: Box<Written<'a>>, nearness: Nearness, is_ordered: bool, offset: usize },
}

/// How several texts go together.
#[derive(Clone, Copy, PartialEq)]
enum TextsMode {
    Any,
    AnyWord,
    All,
    AllWords,
    Phrase,
}

/// What the words of a condition are read from.
struct Worded {
    value: Expr,
    /// The language that the text says it is in.
    language: Option<Expr>,
}

impl<'a> Parser<'a, '_> {
    /// Returns whether the current token and the next one are `contains text`.
    pub(super) fn is_contains_text(&self) -> bool {
        let mut lexer = self.lexer;
        let next = lexer.next();
        next.kind == TokenKind::Name && &self.lexer.text[next.start..next.end] == "text"
    }

    /// Parses what follows `contains`, and returns the condition on `operand`.
    pub(super) fn contains_text(&mut self, operand: Expr, symbol: Token) -> Parsed<Expr> {
        self.advance();
        let height = self.height;
        let selection = self.whole_selection()?;
        self.height = height + selection.depth() + 6;
        self.check_height()?;
        let operand_type = self.type_of(&operand);
        if !matches!(operand_type, ExprType::NodeSet | ExprType::String) {
            let message = format!(
                "`contains text` reads the words of nodes or of a text, and this is a {}; write string(...) for its text",
                operand_type.name()
            );
            return Err(self.error(symbol.start, QueryErrorKind::Unsupported, message, &[]));
        }
        let condition = self.held_by(operand, operand_type, &selection);
        self.write_out(size(&condition), symbol.start)?;
        Ok(condition)
    }

    /// Returns the condition that a selection holds of one of some nodes, or of a text.
    fn held_by(&mut self, operand: Expr, operand_type: ExprType, selection: &Selection) -> Expr {
        if operand_type == ExprType::String {
            return written_out(selection, &Worded { value: operand, language: None });
        }
        let language = Some(self.language_of_text());
        match operand {
            // An attribute is there once, and an index has it by its element.
            Expr::Path(Path { start, mut steps }) if steps.last().is_some_and(is_plain_attribute) => {
                let last = steps.pop().unwrap_or_else(itself);
                let value = Expr::Path(Path { start: PathStart::Context, steps: vec![last] });
                let mut condition = written_out(selection, &Worded { value: value.clone(), language });
                if selection.has_negation() {
                    condition = combine(Operator::And, call(Function::Boolean, vec![value]), condition);
                }
                match (start, steps.is_empty()) {
                    (PathStart::Context, true) => condition,
                    (start, true) => {
                        let owner = Expr::Path(Path { start, steps });
                        call(Function::Boolean, vec![filtered(owner, condition)])
                    }
                    (start, false) => {
                        call(Function::Boolean, vec![filtered(Expr::Path(Path { start, steps }), condition)])
                    }
                }
            }
            nodes => {
                let value = Expr::Path(Path { start: PathStart::Context, steps: vec![itself()] });
                let condition = written_out(selection, &Worded { value, language });
                if is_itself(&nodes) { condition } else { call(Function::Boolean, vec![filtered(nodes, condition)]) }
            }
        }
    }

    /// Returns the path to the language of the context node: `ancestor-or-self::*[@xml:lang][1]/@xml:lang`.
    fn language_of_text(&mut self) -> Expr {
        let name = Name { namespace: NamespaceId::XML, local: self.vocabulary.intern_local("lang") };
        let attribute = Step { axis: Axis::Attribute, test: NodeTest::Name(NameTest::Name(name)), predicates: vec![] };
        let has_language = Expr::Path(Path { start: PathStart::Context, steps: vec![attribute.clone()] });
        let position = Expr::Compare {
            op: CompareOp::Equal,
            left: Box::new(call(Function::Position, Vec::new())),
            right: Box::new(Expr::Number(1.0)),
        };
        let ancestor = Step {
            axis: Axis::AncestorOrSelf,
            test: NodeTest::Name(NameTest::Any),
            predicates: vec![has_language, position],
        };
        Expr::Path(Path { start: PathStart::Context, steps: vec![ancestor, attribute] })
    }

    /// Checks the literals of `twig:words()` and `twig:full-text()`, and reads the selection of the latter.
    pub(super) fn compile_words(&mut self, function: Function, arguments: &mut [Expr], name: Token) -> Parsed<()> {
        let what = match function {
            Function::TwigWords => "options",
            Function::TwigFullText => "selection",
            _ => return Ok(()),
        };
        let text = match arguments.get(1) {
            None => return Ok(()),
            Some(Expr::Literal(text)) => text.clone(),
            Some(_) => {
                let message = format!("the {what} of {}() are a literal or a parameter here", function.name());
                return Err(self.error(name.start, QueryErrorKind::Unsupported, message, &[]));
            }
        };
        if let Some(Expr::Literal(tag)) = arguments.get(2) {
            self.known_language(tag, name.start)?;
        }
        if function == Function::TwigWords {
            return match WordOptions::parse(&text) {
                Ok(_) => Ok(()),
                Err(other) => {
                    let message = format!(
                        "twig:words() has no option `{other}`; its options are case, diacritics and stemming, as in \
                         twig:words(., 'case stemming', 'en')"
                    );
                    Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]))
                }
            };
        }
        let options = ParseOptions::new(self.options.namespaces, self.options.dialect, self.options.limits);
        let mut parser = Parser::new(&text, &options, self.vocabulary)?;
        let selection = parser.whole_selection().and_then(|selection| match parser.token.kind {
            TokenKind::End => Ok(selection),
            _ => Err(parser.unexpected_operand(&["the end of the selection"])),
        });
        let message = match selection {
            Ok(selection) if !selection.has_negation() => {
                arguments[1] = Expr::Selection(Arc::new(TextSelection::new(selection)));
                return Ok(());
            }
            Ok(_) => "`ftnot` is not there; write not(twig:full-text(...)), or `contains text`".to_owned(),
            Err(error) => format!("column {}: {}", error.column, error.message),
        };
        let message = format!("the selection of twig:full-text(): {message}");
        Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]))
    }

    /// Checks the windows and the zone of `time:within()`.
    pub(super) fn check_hours(&self, function: Function, arguments: &[Expr], name: Token) -> Parsed<()> {
        if function != Function::TimeWithin {
            return Ok(());
        }
        let [time, Expr::Literal(windows), Expr::Literal(zone)] = arguments else {
            let message = "the windows and the zone of time:within() are literals or parameters here".into();
            return Err(self.error(name.start, QueryErrorKind::Unsupported, message, &[]));
        };
        if matches!(self.type_of(time), ExprType::Number | ExprType::Boolean) {
            let message = "time:within() takes a date and time: $now, or a path to one".into();
            return Err(self.error(name.start, QueryErrorKind::Syntax, message, &[]));
        }
        match RecurringHours::parse(windows, zone) {
            Ok(_) => Ok(()),
            Err(message) => Err(self.error(name.start, QueryErrorKind::Syntax, message, &[])),
        }
    }

    // The grammar -----------------------------------------------------------------------------------------------------

    fn whole_selection(&mut self) -> Parsed<Selection> {
        let written = self.selection()?;
        self.refuse_rest_of_full_text()?;
        self.resolved(&written, SaidOptions::default())
    }

    /// Parses an FTSelection: an FTOr, and what it says of places.
    fn selection(&mut self) -> Parsed<Written<'a>> {
        self.enter()?;
        let offset = self.token.start;
        let mut selection = self.alternatives()?;
        let mut is_ordered = false;
        let mut is_near = false;
        loop {
            let start = self.token.start;
            let nearness = match self.word() {
                "ordered" if !is_ordered && !is_near => {
                    self.advance();
                    is_ordered = true;
                    continue;
                }
                "ordered" => {
                    return self.unsupported_text(start, "`ordered` is written once, before `window` or `distance`");
                }
                "window" => {
                    self.advance();
                    Nearness::Window(self.size_in_words()?)
                }
                "distance" => {
                    self.advance();
                    self.distance()?
                }
                _ => break,
            };
            if is_near {
                return self.unsupported_text(
                    start,
                    "a selection has one `window` or `distance`; put what the second is about in parentheses, as in \
                     (\"a\" ftand \"b\" window 5 words) ftand \"c\" distance at most 9 words",
                );
            }
            is_near = true;
            selection = Written::Near { selection: Box::new(selection), nearness, is_ordered, offset };
        }
        if is_ordered && !is_near {
            let nearness = Nearness::Anywhere;
            selection = Written::Near { selection: Box::new(selection), nearness, is_ordered, offset };
        }
        self.leave();
        Ok(selection)
    }

    fn alternatives(&mut self) -> Parsed<Written<'a>> {
        let mut members = vec![self.conjunction()?];
        while self.word() == "ftor" {
            self.advance();
            members.push(self.conjunction()?);
        }
        Ok(if members.len() == 1 { members.swap_remove(0) } else { Written::Any(members) })
    }

    fn conjunction(&mut self) -> Parsed<Written<'a>> {
        let mut members = vec![self.negation_of_text()?];
        while self.word() == "ftand" {
            self.advance();
            members.push(self.negation_of_text()?);
        }
        Ok(if members.len() == 1 { members.swap_remove(0) } else { Written::All(members) })
    }

    fn negation_of_text(&mut self) -> Parsed<Written<'a>> {
        if self.word() == "ftnot" {
            self.advance();
            return Ok(Written::Not(Box::new(self.text_with_options()?)));
        }
        let selection = self.text_with_options()?;
        if self.word() == "not" {
            return self.unsupported_text(
                self.token.start,
                "`not in` is not here; write \"a\" ftand ftnot \"a b\" for texts without the longer phrase",
            );
        }
        Ok(selection)
    }

    fn text_with_options(&mut self) -> Parsed<Written<'a>> {
        let selection = self.text_or_parentheses()?;
        let mut options = SaidOptions::default();
        let mut is_said = false;
        while self.word() == "using" {
            self.advance();
            self.option(&mut options)?;
            is_said = true;
        }
        Ok(if is_said { Written::With { selection: Box::new(selection), options } } else { selection })
    }

    fn text_or_parentheses(&mut self) -> Parsed<Written<'a>> {
        let token = self.token;
        let texts = match token.kind {
            TokenKind::OpenParen => {
                self.advance();
                let selection = self.selection()?;
                self.close(TokenKind::CloseParen, token.start)?;
                return Ok(selection);
            }
            TokenKind::Literal => {
                self.advance();
                vec![self.literal_of(token)?]
            }
            TokenKind::OpenBrace => {
                self.advance();
                let texts = self.operands(0)?;
                let texts = self.constant_texts(&texts, token.start)?;
                self.close(TokenKind::CloseBrace, token.start)?;
                texts
            }
            TokenKind::Variable => {
                let name = self.text_of(token);
                return self.unsupported_text(token.start, &format!("write a parameter in braces: {{{name}}}"));
            }
            _ => return Err(self.unexpected_operand(&["\"words\"", "ftnot", "("])),
        };
        let mode = match self.word() {
            "any" => self.mode("word", TextsMode::Any, TextsMode::AnyWord),
            "all" => self.mode("words", TextsMode::All, TextsMode::AllWords),
            "phrase" => {
                self.advance();
                TextsMode::Phrase
            }
            _ => TextsMode::Any,
        };
        Ok(Written::Texts { texts, mode, offset: token.start })
    }

    fn mode(&mut self, second: &str, whole: TextsMode, by_words: TextsMode) -> TextsMode {
        self.advance();
        if self.word() == second {
            self.advance();
            by_words
        } else {
            whole
        }
    }

    /// Returns the texts of an expression in braces.
    fn constant_texts(&self, side: &Side, offset: usize) -> Parsed<Vec<Box<str>>> {
        let text = |expr: &Expr| match expr {
            Expr::Literal(text) => Some(text.clone()),
            Expr::Number(number) => Some(number::format(*number).into()),
            _ => None,
        };
        match side.all().iter().map(text).collect() {
            Some(texts) => Ok(texts),
            None => self.unsupported_text(
                offset,
                "the words of `contains text` are literals or parameters here; use dialect=\"xquery\" and contains() for those \
                 that a message says",
            ),
        }
    }

    fn option(&mut self, options: &mut SaidOptions<'a>) -> Parsed<()> {
        let token = self.token;
        let is_set = self.word() != "no";
        if !is_set {
            self.advance();
        }
        let word = self.word();
        if self.token.kind == TokenKind::Name {
            self.advance();
        }
        match word {
            "stemming" => options.stemming = Some(is_set),
            "wildcards" => options.wildcards = Some(is_set),
            "case" if is_set => options.case_sensitive = Some(self.sensitivity()?),
            "diacritics" if is_set => options.diacritics_sensitive = Some(self.sensitivity()?),
            "language" if is_set => {
                let literal = self.token;
                if literal.kind != TokenKind::Literal {
                    return Err(self.unexpected_operand(&["\"de\""]));
                }
                self.advance();
                options.language = Some((&self.lexer.text[literal.start + 1..literal.end - 1], literal.start));
            }
            "thesaurus" | "stop" | "option" | "lowercase" | "uppercase" => {
                return self.unsupported_text(token.start, &format!("`using {word}` is not here; {OPTIONS_THERE}"));
            }
            _ => {
                let message = format!("what follows `using` is an option of words; {OPTIONS_THERE}");
                return Err(self.error(token.start, QueryErrorKind::Syntax, message, &["stemming", "wildcards"]));
            }
        }
        Ok(())
    }

    fn sensitivity(&mut self) -> Parsed<bool> {
        let is_sensitive = match self.word() {
            "sensitive" => true,
            "insensitive" => false,
            _ => return Err(self.unexpected_operand(&["sensitive", "insensitive"])),
        };
        self.advance();
        Ok(is_sensitive)
    }

    /// Parses `5 words`.
    fn size_in_words(&mut self) -> Parsed<u32> {
        let size = self.number_of_words()?;
        self.unit()?;
        Ok(size)
    }

    fn number_of_words(&mut self) -> Parsed<u32> {
        let token = self.token;
        let number = match token.kind {
            TokenKind::Number => self.text_of(token).parse().ok(),
            _ => None,
        };
        let Some(number) = number else { return Err(self.unexpected_operand(&["a whole number"])) };
        self.advance();
        Ok(number)
    }

    fn unit(&mut self) -> Parsed<()> {
        if matches!(self.word(), "sentences" | "paragraphs") {
            return self.unsupported_text(
                self.token.start,
                "sentences and paragraphs are not told apart here; count in `words`, or name the element of a paragraph: \
                 //p contains text ...",
            );
        }
        self.expect_word("words")
    }

    fn distance(&mut self) -> Parsed<Nearness> {
        let word = self.word();
        match word {
            "exactly" | "from" => {
                self.advance();
                let least = self.number_of_words()?;
                let mut most = least;
                if word == "from" {
                    self.expect_word("to")?;
                    most = self.number_of_words()?;
                }
                self.unit()?;
                Ok(Nearness::Distance(least.into(), most.into()))
            }
            "at" => {
                self.advance();
                let is_most = match self.word() {
                    "most" => true,
                    "least" => false,
                    _ => return Err(self.unexpected_operand(&["most", "least"])),
                };
                self.advance();
                let bound = i64::from(self.size_in_words()?);
                Ok(if is_most { Nearness::Distance(i64::MIN, bound) } else { Nearness::Distance(bound, i64::MAX) })
            }
            _ => Err(self.unexpected_operand(&["at most", "at least", "exactly", "from"])),
        }
    }

    /// Returns the current token, if it is a name; else an empty text.
    fn word(&self) -> &'a str {
        if self.token.kind == TokenKind::Name { self.text_of(self.token) } else { "" }
    }

    /// Refuses, by name, the rest of the language that may follow a selection.
    fn refuse_rest_of_full_text(&self) -> Parsed<()> {
        let instead = match self.word() {
            "occurs" => "count the nodes that hold the words: count(//p[. contains text \"a\"]) >= 2",
            "same" | "different" => "name the element of a sentence or paragraph, or write `window 20 words`",
            "at" | "entire" => "write matches(., '^...'), starts-with(...) or . = '...'",
            "weight" | "without" => "a query matches or does not; nothing is weighed, and no content left out",
            _ => return Ok(()),
        };
        let message = format!("`{}` of full text is not here; {instead}", self.word());
        Err(self.error(self.token.start, QueryErrorKind::Unsupported, message, &[]))
    }

    fn unsupported_text<T>(&self, offset: usize, message: &str) -> Parsed<T> {
        Err(self.error(offset, QueryErrorKind::Unsupported, message.to_owned(), &[]))
    }

    // What it means ---------------------------------------------------------------------------------------------------

    fn known_language(&self, tag: &str, offset: usize) -> Parsed<StemLanguage> {
        StemLanguage::of_tag(tag).ok_or_else(|| {
            let message = format!(
                "no stems are known of the language `{tag}`; those there are: {}; without `using stemming` words of any \
                 language are found",
                language::tags()
            );
            self.error(offset, QueryErrorKind::Unsupported, message, &[])
        })
    }

    fn resolved(&self, written: &Written<'a>, said: SaidOptions<'a>) -> Parsed<Selection> {
        let all = |members: &[Written<'a>]| {
            members.iter().map(|member| self.resolved(member, said)).collect::<Parsed<Vec<_>>>()
        };
        Ok(match written {
            Written::Any(members) => Selection::Any(all(members)?),
            Written::All(members) => Selection::All(all(members)?),
            Written::Not(member) => Selection::Not(Box::new(self.resolved(member, said)?)),
            Written::With { selection, options } => self.resolved(
                selection,
                SaidOptions {
                    case_sensitive: options.case_sensitive.or(said.case_sensitive),
                    diacritics_sensitive: options.diacritics_sensitive.or(said.diacritics_sensitive),
                    stemming: options.stemming.or(said.stemming),
                    wildcards: options.wildcards.or(said.wildcards),
                    language: options.language.or(said.language),
                },
            )?,
            Written::Near { selection, nearness, is_ordered, offset } => {
                let inner = self.resolved(selection, said)?;
                match Near::new(inner, *nearness, *is_ordered) {
                    Ok(near) => Selection::Near(near),
                    Err(message) => return self.unsupported_text(*offset, &message),
                }
            }
            Written::Texts { texts, mode, offset } => self.resolved_texts(texts, *mode, said, *offset)?,
        })
    }

    fn resolved_texts(
        &self,
        texts: &[Box<str>],
        mode: TextsMode,
        said: SaidOptions<'a>,
        offset: usize,
    ) -> Parsed<Selection> {
        let options = WordOptions {
            case_sensitive: said.case_sensitive.unwrap_or(false),
            diacritics_sensitive: said.diacritics_sensitive.unwrap_or(false),
            stemming: said.stemming.unwrap_or(false),
        };
        let language = match said.language {
            Some((tag, offset)) if options.stemming => Some(self.known_language(tag, offset)?),
            _ => None,
        };
        let mut phrases = Vec::new();
        for text in texts {
            phrases.push(self.words_of(text, said.wildcards == Some(true), options, offset)?);
        }
        let phrase = |words: Vec<PhraseWord>| Selection::Phrase(Phrase { words, options, language });
        let members: Vec<_> = match mode {
            TextsMode::Any | TextsMode::All => phrases.into_iter().map(phrase).collect(),
            TextsMode::AnyWord | TextsMode::AllWords => {
                phrases.into_iter().flatten().map(|word| phrase(vec![word])).collect()
            }
            TextsMode::Phrase => vec![phrase(phrases.into_iter().flatten().collect())],
        };
        Ok(match mode {
            _ if members.len() == 1 => members.into_iter().next().unwrap_or(Selection::Any(Vec::new())),
            TextsMode::All | TextsMode::AllWords => Selection::All(members),
            _ => Selection::Any(members),
        })
    }

    /// Returns the words of a text of the query, of which there has to be one.
    fn words_of(&self, text: &str, wildcards: bool, options: WordOptions, offset: usize) -> Parsed<Vec<PhraseWord>> {
        let plain = |text: &str| tokens::words(text).into_iter().map(|word| PhraseWord::Plain(word.into())).collect();
        let mut words: Vec<PhraseWord> = Vec::new();
        if wildcards {
            for part in text.split_ascii_whitespace() {
                if !part.contains(['.', '\\']) {
                    words.append(&mut plain(part));
                    continue;
                }
                match WildWord::new(part, options) {
                    Ok(word) => words.push(PhraseWord::Wild(word)),
                    Err(reason) => {
                        let message = format!("the word `{part}` with wildcards: {reason}");
                        return Err(self.error(offset, QueryErrorKind::Syntax, message, &[]));
                    }
                }
            }
        } else {
            words = plain(text);
        }
        if words.is_empty() {
            let message =
                format!("there is no word in `{text}`, so no text contains it; a word has a letter or a digit");
            return Err(self.error(offset, QueryErrorKind::Syntax, message, &["\"words\""]));
        }
        Ok(words)
    }
}

/// The options of words that exist, for errors.
const OPTIONS_THERE: &str = "the options are `using stemming`, `using wildcards`, `using case sensitive`, \
                             `using diacritics sensitive` and `using language \"de\"`";

fn call(function: Function, arguments: Vec<Expr>) -> Expr {
    Expr::Call { function, arguments }
}

fn is_plain_attribute(step: &Step) -> bool {
    step.axis == Axis::Attribute && step.predicates.is_empty() && matches!(step.test, NodeTest::Name(NameTest::Name(_)))
}

fn is_itself(expr: &Expr) -> bool {
    matches!(expr, Expr::Path(Path { start: PathStart::Context, steps }) if *steps == [itself()])
}

fn joined(operator: Operator, members: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    members.into_iter().reduce(|left, right| combine(operator, left, right))
}

/// Returns a selection as a condition on the words of a text.
fn written_out(selection: &Selection, words: &Worded) -> Expr {
    let each = |members: &[Selection]| members.iter().map(|member| written_out(member, words)).collect::<Vec<_>>();
    let written = match selection {
        Selection::Any(members) => joined(Operator::Or, each(members)),
        Selection::All(members) => joined(Operator::And, each(members)),
        Selection::Not(member) => Some(call(Function::Not, vec![written_out(member, words)])),
        Selection::Phrase(phrase) => match phrase.words.as_slice() {
            [PhraseWord::Plain(word)] if words.says_language_of(phrase) => Some(words.has(word, phrase)),
            _ => joined(Operator::And, words.needed(selection).into_iter().chain([words.verified(selection)])),
        },
        Selection::Near(_) => {
            joined(Operator::And, words.needed(selection).into_iter().chain([words.verified(selection)]))
        }
    };
    // A selection has a member.
    written.unwrap_or_else(|| call(Function::False, Vec::new()))
}

impl Worded {
    /// Returns whether the stem of a word is the same whatever the text.
    fn says_language_of(&self, phrase: &Phrase) -> bool {
        !phrase.options.stemming || phrase.language.is_some() || self.language.is_none()
    }

    /// Returns the condition that a word, whose form is known, is one of the text's.
    fn has(&self, word: &str, phrase: &Phrase) -> Expr {
        self.has_form(&phrase.options.fold(word, phrase.language), phrase)
    }

    fn has_form(&self, form: &str, phrase: &Phrase) -> Expr {
        let options = phrase.options.to_string();
        let mut arguments = vec![self.value.clone()];
        if !options.is_empty() {
            arguments.push(Expr::Literal(options.into()));
        }
        if phrase.options.stemming {
            let said = phrase.language.map(|language| Expr::Literal(language.tag().into()));
            arguments.extend(said.or_else(|| self.language.clone()));
        }
        Expr::Compare {
            op: CompareOp::Equal,
            left: Box::new(call(Function::TwigWords, arguments)),
            right: Box::new(Expr::Literal(form.into())),
        }
    }

    /// Returns the words without which a selection without `ftnot` does not hold, as a condition. `None`: wildcards alone.
    fn needed(&self, selection: &Selection) -> Option<Expr> {
        match selection {
            Selection::Any(members) => {
                let members: Option<Vec<_>> = members.iter().map(|member| self.needed(member)).collect();
                joined(Operator::Or, members?)
            }
            Selection::All(members) => joined(Operator::And, members.iter().filter_map(|member| self.needed(member))),
            Selection::Not(_) => None,
            Selection::Near(near) => self.needed(near.source()),
            Selection::Phrase(phrase) => {
                let mut conditions: Vec<Expr> = Vec::new();
                for word in &phrase.words {
                    let PhraseWord::Plain(word) = word else { continue };
                    let condition = if self.says_language_of(phrase) {
                        Some(self.has(word, phrase))
                    } else {
                        self.has_some_stem(word, phrase)
                    };
                    conditions.extend(condition.filter(|condition| !conditions.contains(condition)));
                }
                joined(Operator::And, conditions)
            }
        }
    }

    /// Returns the condition that the text has a form that a word has in some language.
    fn has_some_stem(&self, word: &str, phrase: &Phrase) -> Option<Expr> {
        let mut forms = vec![phrase.options.fold(word, None).into_owned()];
        for language in StemLanguage::all() {
            let form = phrase.options.fold(word, Some(language)).into_owned();
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        joined(Operator::Or, forms.iter().map(|form| self.has_form(form, phrase)))
    }

    /// Returns the verification of a selection.
    fn verified(&self, selection: &Selection) -> Expr {
        let mut arguments = vec![self.value.clone(), Expr::Selection(Arc::new(TextSelection::new(selection.clone())))];
        if stems_by_text(selection) {
            arguments.extend(self.language.clone());
        }
        call(Function::TwigFullText, arguments)
    }
}

/// Returns whether the stems of a selection depend on the language of the text.
fn stems_by_text(selection: &Selection) -> bool {
    match selection {
        Selection::Any(members) | Selection::All(members) => members.iter().any(stems_by_text),
        Selection::Not(member) => stems_by_text(member),
        Selection::Phrase(phrase) => phrase.options.stemming && phrase.language.is_none(),
        Selection::Near(near) => stems_by_text(near.source()),
    }
}
