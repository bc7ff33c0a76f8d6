//! The words of a text: the tests that they lead to, and the queries that wait for these.

use std::convert::Infallible;
use std::ops::Range;

use super::condition_memo::{ConditionMemo, OperandRecord, RecordIndex, span};
use super::state::{Decisions, MessageRun};
use super::word_cache::{NO_ROW, ROW_NOT_KEPT, WordCache, WordLead, WordLookUp, WordReader, short_word};
use crate::access::conditions::{TextMatch, hash_operand, hash_text_of};
use crate::access::entry::{AccessEntry, WHOLE};
use crate::access::samples::{SampledWords, TestVisits};
use crate::access::table::AccessTable;
use crate::access::word_rows::WordRow;
use crate::document::NodeId;
use crate::eval::{EvalError, NodeRef};
use crate::ids::{ConditionId, OperandId};
use crate::plan::Operand;
use crate::query::ast::Expr;
use crate::util::bits::has_bit;
use crate::util::words::WordOptions;
use crate::util::words::tokens::each_span;

/// Words, and rows, that are fetched together before they are used.
const BATCH: usize = 32;

/// Words of a text that wait to be looked up together. Those that are not kept wait, too, for the memory of the others.
struct WordBatch {
    words: [(u128, u32, u32); BATCH],
    pairs: [u32; BATCH],
    count: usize,
}

impl WordBatch {
    fn new() -> Self {
        Self { words: [(0, 0, 0); BATCH], pairs: [0; BATCH], count: 0 }
    }

    /// Adds a word. Returns whether there is space for another one.
    #[inline(always)]
    fn push(&mut self, text: &str, word: Range<usize>, options: WordOptions) -> bool {
        let number = short_word(text.as_bytes(), word.clone(), options.case_sensitive).unwrap_or(0);
        self.words[self.count] = (number, word.start as u32, word.end as u32);
        self.count += 1;
        self.count < BATCH
    }

    /// Calls back with where each word leads.
    #[inline(always)]
    fn look_up(
        &mut self,
        text: &str,
        cache: &mut WordCache,
        (reader, look_up): (u32, WordLookUp<'_>),
        mut found: impl FnMut(WordLead),
    ) {
        let words = &self.words[..self.count];
        let mut read = 0;
        for (pair, (word, ..)) in self.pairs.iter_mut().zip(words) {
            *pair = cache.pair_of(*word, reader);
            read ^= cache.touch(*pair);
        }
        std::hint::black_box(read);
        for (pair, (word, start, end)) in self.pairs.iter().zip(words) {
            let kept = cache.kept(*pair, *word, reader);
            found(kept.unwrap_or_else(|| {
                let text = &text[*start as usize..*end as usize];
                match *word {
                    0 => cache.look_up(text, look_up),
                    word => cache.find(*pair, word, text, look_up, reader),
                }
            }));
        }
        self.count = 0;
    }
}

impl<'a> MessageRun<'a, '_> {
    /// Reads the words of a text: the tests for them, and the rows of the queries that wait in a table.
    pub(super) fn read_words(
        &mut self,
        operand: OperandId,
        arguments: &'a [Expr],
        (node, table): (NodeId, Option<&AccessTable>),
        record: &mut OperandRecord,
    ) -> Result<(), EvalError> {
        let reading = self.evaluator.word_reading_at(arguments, NodeRef::Node(node))?;
        let conditions = &self.query_index.shared;
        let words_edition = conditions.words_edition();
        let table_edition = table.map_or(0, AccessTable::words_edition);
        let reader = WordReader { words_edition, table_edition, operand, language: reading.language };
        let look_up = WordLookUp { conditions, table, reader, options: reading.options };
        let (start, first_row) = (self.values.tests.len(), self.values.rows.len());
        let number = self.memo.words.number_of(reader);
        self.memo.held.begin(start);
        if self.is_sampled {
            self.values.words.push(SampledWords { operand, hashes: Vec::new() });
        }
        let mut read = Ok(());
        for piece in &reading.pieces {
            let count = self.append_leads(piece, (number, look_up));
            if self.is_sampled {
                self.note_words(piece, look_up);
            }
            read = self.evaluator.charge_words(piece, count, reading.language);
            if read.is_err() {
                break;
            }
        }
        self.memo.held.keep(&self.values.tests[start..]);
        if read.is_err() || self.values.tests.len() == start {
            // The next list begins at the same position.
            self.values.tests.truncate(start);
            self.memo.held.forget();
        }
        record.equalities = Some((start as u32, self.values.tests.len() as u32));
        record.rows = (first_row as u32, self.values.rows.len() as u32);
        record.rows_of = table_edition;
        record.are_words = true;
        read
    }

    /// Appends what the words of a piece of a text lead to, each once. Returns how many words it has.
    fn append_leads(&mut self, piece: &str, (reader, look_up): (u32, WordLookUp<'_>)) -> u64 {
        let ConditionMemo { words: cache, held, .. } = &mut *self.memo;
        let (tests, rows) = (&mut self.values.tests, &mut self.values.rows);
        let mut append = |batch: &mut WordBatch, cache: &mut WordCache| {
            batch.look_up(piece, cache, (reader, look_up), |WordLead { test, row }| {
                if test != ConditionId::NONE && held.insert(test) {
                    tests.push(test);
                    if row != NO_ROW {
                        rows.push((test, row));
                    }
                }
            });
        };
        let mut batch = WordBatch::new();
        let mut count = 0;
        let divided: Result<(), Infallible> = each_span(piece, |word| {
            count += 1;
            if !batch.push(piece, word, look_up.options) {
                append(&mut batch, cache);
            }
            Ok(())
        });
        let Ok(()) = divided;
        append(&mut batch, cache);
        count
    }

    /// Notes the words of a piece of a text, of a message that is sampled.
    fn note_words(&mut self, piece: &str, look_up: WordLookUp<'_>) {
        let WordReader { operand, language, .. } = look_up.reader;
        let Some(shared) = look_up.conditions.operand(operand) else { return };
        let hash = hash_operand(&shared.operand);
        let Some(SampledWords { hashes, .. }) = self.values.words.last_mut() else { return };
        let divided: Result<(), Infallible> = each_span(piece, |word| {
            hashes.push(hash_text_of(hash, &look_up.options.fold(&piece[word], language)));
            Ok(())
        });
        let Ok(()) = divided;
    }

    /// Returns whether the values of a record are the words of a text.
    #[inline]
    pub(super) fn are_words(&self, record: RecordIndex) -> bool {
        self.values.records[record.0 as usize].are_words
    }

    /// Returns whether some value of a record is the text of a test for an equal one.
    #[inline]
    pub(super) fn has_equality(&mut self, record: RecordIndex, test: ConditionId) -> bool {
        let are_words = self.are_words(record);
        let tests = self.equalities_of(record);
        let (position, tests) = (tests.start, self.values.tests(tests));
        if !are_words || tests.is_empty() {
            return self.memo.held.contains(position, tests, test);
        }
        has_bit(self.memo.held.bits_of(position, tests), test.index())
    }

    /// Returns whether an operand has one of some texts, or contains it.
    pub(super) fn has_one_of(
        &mut self,
        operand: OperandId,
        how: TextMatch,
        tests: &[ConditionId],
        node: NodeId,
    ) -> Result<bool, EvalError> {
        let record = self.operand(operand, node)?;
        let satisfied = match how {
            TextMatch::Equal if self.are_words(record) => {
                return Ok(tests.iter().any(|&test| self.has_equality(record, test)));
            }
            TextMatch::Equal => self.equalities_of(record),
            TextMatch::Contain => {
                self.read_texts(record, node)?;
                self.substrings_of(record)?
            }
        };
        let position = satisfied.start;
        let satisfied = self.values.tests(satisfied);
        Ok(if tests.len() < satisfied.len() {
            tests.iter().any(|&test| self.memo.held.contains(position, satisfied, test))
        } else {
            satisfied.iter().any(|test| tests.binary_search(test).is_ok())
        })
    }

    /// Reads the texts of a record's values, if these are words of which only the tests are known.
    pub(super) fn read_texts(&mut self, record: RecordIndex, node: NodeId) -> Result<(), EvalError> {
        let OperandRecord { operand, are_words, texts_are_read, .. } = self.values.records[record.0 as usize];
        if !are_words || texts_are_read {
            return Ok(());
        }
        let Some(shared) = self.query_index.shared.operand(operand) else { return Ok(()) };
        let Operand::Nodes(expr) = &shared.operand else { return Ok(()) };
        self.resume_operand(operand);
        let start = self.values.texts.len();
        self.evaluator.append_texts_at(expr, NodeRef::Node(node), &mut self.values.texts)?;
        let record = &mut self.values.records[record.0 as usize];
        record.texts = (start as u32, self.values.texts.len() as u32);
        record.texts_are_read = true;
        Ok(())
    }

    /// Decides what waits for words of a text. What remains of most queries is decided by the other words alone.
    pub(super) fn decide_words(
        &mut self,
        decisions: &mut Decisions,
        node: NodeId,
        table: &AccessTable,
        record: RecordIndex,
    ) {
        let OperandRecord { rows_of, rows, .. } = self.values.records[record.0 as usize];
        let tests = self.equalities_of(record);
        if tests.is_empty() {
            return;
        }
        // Entries that are verified one by one, after the rows.
        let mut later: Vec<(ConditionId, AccessEntry)> = Vec::new();
        let all_of = |test: ConditionId| table.list(test).iter().map(move |&entry| (test, entry));
        if rows_of != table.words_edition() || !decisions.set_aside.is_empty() {
            later.extend(self.values.tests(tests).iter().flat_map(|&test| all_of(test)));
        } else {
            let (position, tests) = (tests.start, self.values.tests(tests));
            let bits = self.memo.held.bits_of(position, tests);
            let all_rows = self.memo.words.rows.as_slice();
            for batch in self.values.rows[span(rows)].chunks(BATCH) {
                let first = |(_, row): &(_, u32)| all_rows.get(*row as usize).copied().unwrap_or(0);
                std::hint::black_box(batch.iter().map(first).fold(0, |read, number| read ^ number));
                for &(test, row) in batch {
                    if row == ROW_NOT_KEPT {
                        later.extend(all_of(test));
                        continue;
                    }
                    let row = WordRow::at(all_rows, row as usize);
                    let in_vain = row.for_each_held(bits, |query| match query & WHOLE {
                        0 => decisions.match_if_open(query),
                        _ => later.push((test, AccessEntry { residual: ConditionId::NONE, query })),
                    });
                    if self.is_sampled && in_vain > 0 {
                        decisions.visits.push((test, TestVisits { elements: 1, in_vain }));
                    }
                    later.extend(row.others().map(|entry| (test, entry)));
                }
            }
        }
        for (test, entry) in later {
            self.decide_tested(decisions, node, test, &[entry]);
        }
    }
}
