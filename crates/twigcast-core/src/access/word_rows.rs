//! Rows of the queries that wait for a word of a text, each with the other words that it asks for.
//!
//! A text has hundreds of words, and these lead to thousands of queries of which most ask for another word that the text does
//! not have. So what remains to be verified of them is written in one row of numbers, as clauses of which each has to hold: *the
//! text has one of these words, or has not one of those*. Who matches makes a row of the shared conditions when a message
//! leads to it, and keeps it beside those of other words. What asks for more than words is verified as everywhere.

use super::conditions::{SharedCondition, SharedConditions, TextMatch};
use super::entry::AccessEntry;
use crate::ids::{ConditionId, OperandId};
use crate::plan::Relation;
use crate::util::bits::has_bit;

/// Bits of a literal beside the number of its test.
const LAST: u32 = 1;
const NEGATED: u32 = 1 << 1;
const TEST_SHIFT: u32 = 2;
/// The most literals of a query; one that has more is verified as others are.
const LITERALS_MAX: usize = 64;

/// A clause: words of which the text has one, and those that are negated, of which it has not one.
type Clause = Vec<u32>;

/// A row of what waits for one word.
///
/// It begins with the number of numbers of all queries that ask for words alone, and the number of entries that ask for more.
/// Of each such query follow its own number, perhaps marked with [`super::entry::WHOLE`], the number of its literals, and these;
/// of each such entry its residual and its query.
#[derive(Clone, Copy, Debug)]
pub struct WordRow<'r> {
    queries: &'r [u32],
    others: &'r [u32],
}

/// Appends the row of some entries, for words of an operand.
pub fn append_row(entries: &[AccessEntry], operand: OperandId, conditions: &SharedConditions, rows: &mut Vec<u32>) {
    let start = rows.len();
    rows.extend([0, 0]);
    let mut others: Vec<&AccessEntry> = Vec::new();
    for entry in entries {
        let mut clauses = Vec::new();
        let is_words = entry.residual == ConditionId::NONE
            || append_clauses(entry.residual, false, operand, conditions, &mut clauses);
        let literals = clauses.iter().map(Vec::len).sum::<usize>();
        if !is_words || literals > LITERALS_MAX {
            others.push(entry);
            continue;
        }
        // Most often false comes first: words that few queries ask for are rare.
        clauses.sort_by_cached_key(|clause| {
            let asked = clause.iter().map(|literal| conditions.asked(ConditionId::from_u32(literal >> TEST_SHIFT)));
            (clause.iter().any(|literal| literal & NEGATED != 0), asked.sum::<u32>())
        });
        rows.extend([entry.query, literals as u32]);
        for clause in clauses {
            rows.extend(clause);
            rows.last_mut().into_iter().for_each(|last| *last |= LAST);
        }
    }
    rows[start] = (rows.len() - start - 2) as u32;
    rows[start + 1] = others.len() as u32;
    rows.extend(others.iter().flat_map(|entry| [entry.residual.as_u32(), entry.query]));
}

impl<'r> WordRow<'r> {
    /// Returns the row that begins at a position.
    #[inline(always)]
    pub fn at(rows: &'r [u32], position: usize) -> Self {
        let Some([queries, others, rest @ ..]) = rows.get(position..) else {
            return Self { queries: &[], others: &[] };
        };
        let (queries, rest) = rest.split_at_checked(*queries as usize).unwrap_or_default();
        Self { queries, others: rest.get(..2 * *others as usize).unwrap_or_default() }
    }

    /// Returns what asks for more than words.
    #[inline]
    pub fn others(self) -> impl ExactSizeIterator<Item = AccessEntry> + 'r {
        let entry =
            |[residual, query]: &[u32; 2]| AccessEntry { residual: ConditionId::from_u32(*residual), query: *query };
        self.others.as_chunks().0.iter().map(entry)
    }

    /// Calls back with each query of which all clauses hold of a text that has the words of some tests, given as bits. Returns
    /// the number of all others.
    #[inline(always)]
    pub fn for_each_held(self, held: &[u64], mut found: impl FnMut(u32)) -> u32 {
        let mut in_vain = 0;
        let mut rest = self.queries;
        while let [query, literals, after @ ..] = rest {
            let Some((literals, next)) = after.split_at_checked(*literals as usize) else { break };
            rest = next;
            if hold(literals, held) {
                found(*query);
            } else {
                in_vain += 1;
            }
        }
        in_vain
    }
}

#[inline(always)]
fn hold(literals: &[u32], held: &[u64]) -> bool {
    let mut holds = false;
    for literal in literals {
        let test = literal >> TEST_SHIFT;
        let has = has_bit(held, test as usize);
        holds |= has != (literal & NEGATED != 0);
        if literal & LAST != 0 {
            if !holds {
                return false;
            }
            holds = false;
        }
    }
    true
}

/// Appends the clauses that a condition, or what it denies, is for words of an operand. Returns whether it is nothing else.
fn append_clauses(
    id: ConditionId,
    is_negated: bool,
    operand: OperandId,
    conditions: &SharedConditions,
    clauses: &mut Vec<Clause>,
) -> bool {
    let literal = |test: ConditionId| test.as_u32() << TEST_SHIFT | if is_negated { NEGATED } else { 0 };
    let fits = |test: &ConditionId| test.as_u32() < 1 << (u32::BITS - TEST_SHIFT);
    match (conditions.condition(id), is_negated) {
        (Some(SharedCondition::Test(of, Relation::Equals(_))), _) if *of == operand && fits(&id) => {
            clauses.push(vec![literal(id)]);
            true
        }
        (Some(SharedCondition::OneOf(of, TextMatch::Equal, tests)), _) if *of == operand && tests.iter().all(fits) => {
            let literals = tests.iter().map(|&test| literal(test));
            match is_negated {
                true => clauses.extend(literals.map(|literal| vec![literal])),
                false => clauses.push(literals.collect()),
            }
            true
        }
        (Some(SharedCondition::Not(inner)), _) => append_clauses(*inner, !is_negated, operand, conditions, clauses),
        (Some(SharedCondition::All(parts)), false) | (Some(SharedCondition::Any(parts)), true) => {
            parts.iter().all(|&part| append_clauses(part, is_negated, operand, conditions, clauses))
        }
        (Some(SharedCondition::Any(parts)), false) | (Some(SharedCondition::All(parts)), true) => {
            let mut joined = Vec::new();
            for &part in parts {
                let mut of_part = Vec::new();
                if !append_clauses(part, is_negated, operand, conditions, &mut of_part) || of_part.len() != 1 {
                    return false;
                }
                joined.append(&mut of_part[0]);
            }
            clauses.push(joined);
            !parts.is_empty()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::rc::Rc;

    use super::*;
    use crate::plan::{Condition, Operand, ValueTest};
    use crate::query::ast::{Expr, Function};
    use crate::testing::Random;

    const WORDS: [&str; 6] = ["flood", "storm", "snow", "fire", "wind", "hail"];

    fn test(word: &str) -> ValueTest {
        let words = Expr::Call { function: Function::TwigWords, arguments: Vec::new() };
        ValueTest { operand: Operand::Nodes(Box::new(words)), relation: Relation::Equals(word.into()) }
    }

    fn condition(random: &mut Random, depth: u32) -> Rc<Condition> {
        let several = |random: &mut Random| (0..1 + random.below(3)).map(|_| condition(random, depth - 1)).collect();
        Rc::new(match random.below(if depth == 0 { 1 } else { 4 }) {
            0 => Condition::Test(test(WORDS[random.below(6) as usize])),
            1 => Condition::All(several(random)),
            2 => Condition::Any(several(random)),
            _ => Condition::Not(condition(random, depth - 1)),
        })
    }

    fn holds(condition: &Condition, text: &HashSet<&str>) -> bool {
        match condition {
            Condition::Test(ValueTest { relation: Relation::Equals(word), .. }) => text.contains(&**word),
            Condition::All(parts) => parts.iter().all(|part| holds(part, text)),
            Condition::Any(parts) => parts.iter().any(|part| holds(part, text)),
            Condition::Not(inner) => !holds(inner, text),
            other => panic!("{other:?} is not made here"),
        }
    }

    /// Conditions at random, over all texts of six words: those that are clauses hold where the conditions do.
    #[test]
    fn clauses_hold_where_conditions_do() {
        let mut random = Random(27);
        let mut conditions = SharedConditions::default();
        let ids = WORDS.map(|word| conditions.acquire_test(&test(word)));
        let Some(&SharedCondition::Test(operand, _)) = conditions.condition(ids[0]) else { panic!("a test") };
        let mut made = 0;
        for query in 0..2_000 {
            let asked = condition(&mut random, 3);
            let entry = AccessEntry { residual: conditions.acquire(&asked), query };
            let mut rows = vec![7; 3];
            append_row(&[entry], operand, &conditions, &mut rows);
            let row = WordRow::at(&rows, 3);
            if row.others().len() > 0 {
                continue;
            }
            made += 1;
            for bits in 0..1 << WORDS.len() {
                let has = |index: &usize| bits >> index & 1 == 1;
                let text: HashSet<&str> = (0..WORDS.len()).filter(has).map(|index| WORDS[index]).collect();
                let mut held = vec![0_u64; conditions.len() / 64 + 1];
                (0..WORDS.len())
                    .filter(has)
                    .for_each(|index| held[ids[index].index() / 64] |= 1 << (ids[index].index() % 64));
                let mut found = Vec::new();
                let in_vain = row.for_each_held(&held, |query| found.push(query));
                assert_eq!(found == [query], holds(&asked, &text), "{asked:?} of {text:?}");
                assert_eq!(in_vain, u32::from(found.is_empty()));
            }
        }
        assert!(made > 1_000, "{made}");
    }

    #[test]
    fn what_is_more_than_words_stays_as_it_is() {
        let mut conditions = SharedConditions::default();
        let id = conditions.acquire_test(&test("flood"));
        let Some(&SharedCondition::Test(operand, _)) = conditions.condition(id) else { panic!("a test") };
        let other = Condition::Test(ValueTest { operand: Operand::Own, relation: Relation::Equals("x".into()) });
        let entry = AccessEntry { residual: conditions.acquire(&other), query: 1 };
        let plain = AccessEntry { residual: ConditionId::NONE, query: 2 };
        let mut rows = Vec::new();
        append_row(&[entry, plain], operand, &conditions, &mut rows);
        let row = WordRow::at(&rows, 0);
        let mut found = Vec::new();
        assert_eq!(row.for_each_held(&[], |query| found.push(query)), 0);
        assert_eq!((row.others().collect::<Vec<_>>(), found), (vec![entry], vec![2]));
    }
}
