//! Which short pieces the text of a message has, so that most texts that it does not contain are known not to be in it
//! without reading it again.
//!
//! Of each eight bytes in a row, and each four, a bit is kept under their hash. A text can only be contained if the bits of
//! all its pieces are there. One walk through the text makes the table; it serves all queries, however many texts they ask
//! for, and pays once the message has been searched a few times.

use crate::query::ast::{Axis, Expr, Function, NodeTest, Path, PathStart, Step};

use super::texts::MessageText;
use super::{BarePath, Evaluator, bare};

/// How many times the message has been searched when the table is made.
const SEARCHES_MIN: u64 = 4;

/// Shorter messages are searched at once.
const SEARCHED_MIN: u64 = 1 << 16;

/// Bits for each byte of text, and limits of their number as powers of two.
const BITS_PER_BYTE: usize = 8;
const BITS_MIN: u32 = 12;
const BITS_MAX: u32 = 26;

/// Any odd number whose bits are mixed.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The pieces of one length.
#[derive(Debug)]
struct GramTable<const LENGTH: usize> {
    bits: Box<[u64]>,
    /// What remains of a hash is its highest bits, as many as number the bits.
    shift: u32,
}

impl<const LENGTH: usize> GramTable<LENGTH> {
    fn of(text: &[u8]) -> Self {
        let power = (text.len() * BITS_PER_BYTE).next_power_of_two().ilog2().clamp(BITS_MIN, BITS_MAX);
        let mut pieces = Self { bits: vec![0; 1 << (power - 6)].into(), shift: u64::BITS - power };
        for piece in text.windows(LENGTH) {
            let position = pieces.position(piece);
            pieces.bits[position / 64] |= 1 << (position % 64);
        }
        pieces
    }

    fn position(&self, piece: &[u8]) -> usize {
        let word = piece.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        (word.wrapping_mul(MULTIPLIER) >> self.shift) as usize
    }

    fn has_all(&self, text: &[u8]) -> bool {
        text.windows(LENGTH).all(|piece| {
            let position = self.position(piece);
            self.bits[position / 64] >> (position % 64) & 1 == 1
        })
    }
}

/// The pieces of a text.
#[derive(Debug)]
pub(super) struct Grams {
    long: GramTable<8>,
    short: GramTable<4>,
}

impl Grams {
    pub(super) fn of(text: &str) -> Self {
        Self { long: GramTable::of(text.as_bytes()), short: GramTable::of(text.as_bytes()) }
    }

    /// Returns the most bytes that the table of a text of some length takes.
    pub(super) fn bytes_at_most(length: usize) -> usize {
        let bits = (length * BITS_PER_BYTE).next_power_of_two().clamp(1 << BITS_MIN, 1 << BITS_MAX);
        2 * bits / 8
    }

    /// May the text contain another one?
    fn may_contain(&self, part: &str) -> bool {
        if part.len() >= 8 { self.long.has_all(part.as_bytes()) } else { self.short.has_all(part.as_bytes()) }
    }
}

impl Evaluator<'_> {
    /// Records that so many bytes have been searched for a text.
    pub(super) fn note_search(&self, bytes: usize) {
        let searched = self.searched.get() + bytes as u64;
        self.searched.set(searched);
        let source = self.message.source.len() as u64;
        if searched >= SEARCHED_MIN.max(SEARCHES_MIN * source) && self.grams.get().is_none() {
            self.grams.get_or_init(|| self.build_grams());
        }
    }

    fn build_grams(&self) -> Option<Grams> {
        let texts: &MessageText = self.texts_now()?;
        let text = texts.all();
        let fits = self.cache.borrow_mut().admit_bytes(Grams::bytes_at_most(text.len()));
        fits.then(|| Grams::of(text))
    }

    /// Returns `true` if the pieces of the message's text are collected.
    pub(super) fn has_grams(&self) -> bool {
        self.grams.get().is_some_and(Option::is_some)
    }

    /// Returns `true` if a constant text of the query certainly does not occur in the value of an expression.
    pub(super) fn is_nowhere(&self, part: &Expr, text: &Expr, context_is_tree: bool) -> bool {
        let Some(Some(grams)) = self.grams.get() else { return false };
        matches!(part, Expr::Literal(part) if !grams.may_contain(part)) && is_of_tree(text, context_is_tree)
    }
}

/// Does a step lead only to nodes whose string-values are parts of the message's text?
fn leads_to_tree(step: &Step) -> bool {
    match step.test {
        NodeTest::Name(_) => !matches!(step.axis, Axis::Attribute | Axis::Namespace),
        NodeTest::Text => true,
        NodeTest::Node | NodeTest::Comment | NodeTest::ProcessingInstruction(_) => false,
    }
}

/// Is the string that an expression stands for a part of the message's text?
fn is_of_tree(text: &Expr, context_is_tree: bool) -> bool {
    match text {
        Expr::Call { function: Function::String, arguments } => {
            arguments.first().map_or(context_is_tree, |argument| is_of_tree(argument, context_is_tree))
        }
        Expr::Path(path) => match bare(path) {
            Some(BarePath::Expression(primary)) => is_of_tree(primary, context_is_tree),
            Some(BarePath::Variable(_)) => false,
            None => path_is_of_tree(path, context_is_tree),
        },
        _ => false,
    }
}

fn path_is_of_tree(path: &Path, context_is_tree: bool) -> bool {
    match (path.steps.last(), &path.start) {
        (Some(step), _) => {
            leads_to_tree(step)
                || is_self(step) && path.steps.len() == 1 && path.start == PathStart::Context && context_is_tree
        }
        (None, PathStart::Root) => true,
        (None, PathStart::Context) => context_is_tree,
        (None, PathStart::Variable(_) | PathStart::Filter { .. }) => false,
    }
}

/// `.`, as it may be written.
fn is_self(step: &Step) -> bool {
    step.axis == Axis::SelfAxis && step.test == NodeTest::Node
}
