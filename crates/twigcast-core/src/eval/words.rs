//! `twig:words()` and `twig:full-text()`: the words of a text, and what a selection asks of them.
//!
//! Where an element begins or ends, a word ends too: `<b>Flood</b><i>Bern</i>` has two words. Comments and processing
//! instructions are not seen.

use std::borrow::Cow;
use std::rc::Rc;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::{BarePath, Context, EvalError, Value, bare};
use crate::document::{NodeId, NodeKind};
use crate::query::ast::Expr;
use crate::query::functions::ExprType;
use crate::util::words::phrase::WordSource;
use crate::util::words::tokens::each_word;
use crate::util::words::{PlacedWords, StemLanguage, WordOptions};

/// Visits that a word of a table counts as, and one of a list.
const TABLE_WORD_VISITS: u64 = 8;
const WORD_VISITS: u64 = 3;
/// Bytes of a text whose division into words counts as one visit.
const BYTES_PER_VISIT: usize = 8;
/// Visits that stemming a word counts as.
const STEM_VISITS: u64 = 30;

/// The text that words are read from.
struct Wording<'a> {
    /// The node, if it is one of the message.
    node: Option<NodeRef>,
    /// Its text, in pieces between which words end.
    pieces: Vec<Cow<'a, str>>,
}

/// The words of one text, for a selection.
struct TextWords<'e, 'a> {
    evaluator: &'e Evaluator<'a>,
    text: &'a Expr,
    context: Context,
    node: Option<NodeRef>,
    /// The pieces, once they were asked for.
    pieces: Option<Vec<Cow<'a, str>>>,
    language: Option<StemLanguage>,
}

impl WordSource for TextWords<'_, '_> {
    type Error = EvalError;

    fn table(&mut self, options: WordOptions, language: Option<StemLanguage>) -> Result<Rc<PlacedWords>, EvalError> {
        let language = language.filter(|_| options.stemming);
        let key = self.node.map(|node| (node, options, language));
        let tables = &self.evaluator.word_tables;
        if let Some(table) = key.and_then(|key| tables.borrow().get(&key).cloned()) {
            return Ok(table);
        }
        if self.pieces.is_none() {
            self.pieces = Some(match self.node {
                Some(node) => self.evaluator.pieces(node)?,
                None => self.evaluator.wording(self.text, self.context)?.pieces,
            });
        }
        let mut table = PlacedWords::default();
        for piece in self.pieces.iter().flatten() {
            self.evaluator.charge_bytes(piece.len(), BYTES_PER_VISIT)?;
            each_word(piece, |word| {
                self.evaluator.charge_word(TABLE_WORD_VISITS, language)?;
                table.push(&options.fold(word, language));
                Ok(())
            })?;
        }
        let table = Rc::new(table);
        if let Some(key) = key {
            tables.borrow_mut().insert(key, Rc::clone(&table));
        }
        Ok(table)
    }

    fn language(&self) -> Option<StemLanguage> {
        self.language
    }

    fn charge(&self, visits: u64) -> Result<(), EvalError> {
        self.evaluator.charge(visits)
    }
}

/// A text whose words are read, and the form in which they are compared.
pub(crate) struct WordReading<'a> {
    /// The text, in pieces between which words end.
    pub pieces: Vec<Cow<'a, str>>,
    /// The options by which words are compared.
    pub options: WordOptions,
    /// The language, if words are stemmed.
    pub language: Option<StemLanguage>,
}

fn visits_of_stem(language: Option<StemLanguage>) -> u64 {
    if language.is_some() { STEM_VISITS } else { 0 }
}

impl<'a> Evaluator<'a> {
    fn charge_word(&self, visits: u64, language: Option<StemLanguage>) -> Result<(), EvalError> {
        self.charge(visits + visits_of_stem(language))
    }

    /// Evaluates `twig:words()`.
    pub(super) fn words(&self, arguments: &'a [Expr], context: Context) -> Result<Vec<NodeRef>, EvalError> {
        let mut words = Vec::new();
        self.each_folded(arguments, context, &mut |word| {
            words.push(self.kept_text(&word)?);
            Ok(())
        })?;
        Ok(words)
    }

    /// Appends the words that `twig:words()` with such arguments gives at a node, which are not kept as values then.
    pub(super) fn append_words_at(
        &self,
        arguments: &'a [Expr],
        node: NodeRef,
        texts: &mut Vec<Cow<'a, str>>,
    ) -> Result<(), EvalError> {
        self.each_folded(arguments, Context { node, position: 1, size: 1 }, &mut |word| {
            texts.push(word);
            Ok(())
        })
    }

    fn each_folded(
        &self,
        arguments: &'a [Expr],
        context: Context,
        each: &mut dyn FnMut(Cow<'a, str>) -> Result<(), EvalError>,
    ) -> Result<(), EvalError> {
        let WordReading { pieces, options, language } = self.word_reading(arguments, context)?;
        for piece in pieces {
            self.charge_bytes(piece.len(), BYTES_PER_VISIT)?;
            match piece {
                Cow::Borrowed(piece) => each_word(piece, |word| {
                    self.charge_word(WORD_VISITS, language)?;
                    each(options.fold(word, language))
                })?,
                Cow::Owned(piece) => each_word(&piece, |word| {
                    self.charge_word(WORD_VISITS, language)?;
                    each(Cow::Owned(options.fold(word, language).into_owned()))
                })?,
            }
        }
        Ok(())
    }

    /// Returns what `twig:words()` reads with such arguments.
    fn word_reading(&self, arguments: &'a [Expr], context: Context) -> Result<WordReading<'a>, EvalError> {
        // The parser has checked the options.
        let options = match arguments.get(1) {
            Some(Expr::Literal(text)) => WordOptions::parse(text).unwrap_or_default(),
            _ => WordOptions::default(),
        };
        let language = if options.stemming { self.stem_language(arguments.get(2), context)? } else { None };
        Ok(WordReading { pieces: self.wording(&arguments[0], context)?.pieces, options, language })
    }

    /// Returns what `twig:words()` reads at a node with such arguments.
    pub(crate) fn word_reading_at(&self, arguments: &'a [Expr], node: NodeRef) -> Result<WordReading<'a>, EvalError> {
        self.word_reading(arguments, Context { node, position: 1, size: 1 })
    }

    /// Counts the reading of a piece of a text with so many words as [`Self::append_texts_at`] does.
    pub(crate) fn charge_words(
        &self,
        piece: &str,
        words: u64,
        language: Option<StemLanguage>,
    ) -> Result<(), EvalError> {
        let each = WORD_VISITS + visits_of_stem(language);
        self.charge((piece.len() / BYTES_PER_VISIT) as u64 + each * words)
    }

    /// Evaluates `twig:full-text()`.
    pub(super) fn full_text(&self, arguments: &'a [Expr], context: Context) -> Result<bool, EvalError> {
        // The parser has read the selection.
        let Expr::Selection(selection) = &arguments[1] else { return Ok(false) };
        let language = self.stem_language(arguments.get(2), context)?;
        let (node, pieces) = match self.node_read(&arguments[0], context)? {
            Some(Some(NodeRef::Value(_))) | None => {
                let wording = self.wording(&arguments[0], context)?;
                (wording.node, Some(wording.pieces))
            }
            Some(Some(node)) => (Some(node), None),
            Some(None) => return Ok(false),
        };
        let mut words = TextWords { evaluator: self, text: &arguments[0], context, node, pieces, language };
        selection.root.holds(&mut words)
    }

    /// Returns the language that an argument names; without it there is none.
    fn stem_language(&self, argument: Option<&'a Expr>, context: Context) -> Result<Option<StemLanguage>, EvalError> {
        Ok(match argument {
            Some(argument) => StemLanguage::of_tag(&self.string(argument, context)?),
            None => None,
        })
    }

    /// Returns the first node that an expression selects, if there is one; `None` if it is no path.
    fn node_read(&self, expr: &'a Expr, context: Context) -> Result<Option<Option<NodeRef>>, EvalError> {
        Ok(match expr {
            Expr::Path(path) => match bare(path) {
                None => Some(self.path_first(path, context)?),
                Some(BarePath::Expression(primary)) => return self.node_read(primary, context),
                Some(BarePath::Variable(variable)) => match &self.variables[variable] {
                    Value::Nodes(nodes) => Some(nodes.first().copied()),
                    _ => None,
                },
            },
            _ if self.type_of(expr) == ExprType::NodeSet => Some(self.nodes(expr, context)?.first().copied()),
            _ => None,
        })
    }

    /// Returns what the words of an expression are read from.
    fn wording(&self, expr: &'a Expr, context: Context) -> Result<Wording<'a>, EvalError> {
        Ok(match self.node_read(expr, context)? {
            Some(Some(node)) => {
                let is_node = !matches!(node, NodeRef::Value(_));
                Wording { node: is_node.then_some(node), pieces: self.pieces(node)? }
            }
            Some(None) => Wording { node: None, pieces: Vec::new() },
            None => Wording { node: None, pieces: vec![self.string(expr, context)?] },
        })
    }

    /// Returns the text of a node in pieces between which elements begin or end.
    fn pieces(&self, node: NodeRef) -> Result<Vec<Cow<'a, str>>, EvalError> {
        let NodeRef::Node(id) = node else { return Ok(vec![self.string_value(node)?]) };
        let nodes = &self.message.document.nodes;
        if !matches!(nodes[id as usize].kind, NodeKind::Document | NodeKind::Element) {
            return Ok(vec![self.string_value(node)?]);
        }
        let end = nodes[id as usize].end;
        self.charge(u64::from(end - id))?;
        let mut pieces: Vec<Cow<'a, str>> = Vec::new();
        let mut before: Option<NodeId> = None;
        for child in id + 1..end {
            match nodes[child as usize].kind {
                NodeKind::Text => {
                    let text = self.message.text(child);
                    let parent = nodes[child as usize].parent;
                    match pieces.last_mut() {
                        Some(last) if before == Some(parent) => last.to_mut().push_str(&text),
                        _ => pieces.push(text),
                    }
                    before = Some(parent);
                }
                NodeKind::Element => before = None,
                _ => {}
            }
        }
        Ok(pieces)
    }
}
