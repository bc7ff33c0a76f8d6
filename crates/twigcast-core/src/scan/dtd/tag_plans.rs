//! Keeps what is declared for an element ready for start tags as most are written: `<name name="value">`, with one space
//! before each attribute and nothing to decode.

use hashbrown::HashTable;

use super::chain::DeclarationChain;
use super::tokens::PlainTokens;
use crate::scan::bytes::{NAME_START, byte, is, name_at, value_stop};
use crate::util::packed_name::PackedName;

/// The declarations of one element whose names are all in their keys.
#[derive(Debug)]
struct TagPlan {
    attributes: Vec<PlannedAttribute>,
    /// A bit for each attribute with a default.
    defaults: u64,
    /// The attributes that the last start tag lacked, and what they come to.
    missing: u64,
    addition: String,
    tokens: PlainTokens,
    /// The attributes of the last start tags, in their order: the next one is likely to have the same.
    order: Vec<ExpectedAttribute>,
}

#[derive(Clone, Copy, Debug)]
struct ExpectedAttribute {
    key: PackedName,
    length: usize,
    /// The declared attribute that it is.
    index: Option<usize>,
}

#[derive(Debug)]
struct PlannedAttribute {
    key: PackedName,
    is_tokenised: bool,
    addition: Option<Box<str>>,
}

/// The plans of elements, made when their start tags are first read.
#[derive(Debug, Default)]
pub struct TagPlans {
    /// None for an element that has to be read in another way.
    plans: Vec<Option<TagPlan>>,
    numbers: HashTable<(PackedName, usize)>,
    /// The last one that was found: elements of a kind often follow each other.
    last: Option<LastElement>,
}

#[derive(Clone, Copy, Debug)]
struct LastElement {
    key: PackedName,
    length: usize,
    number: usize,
}

/// Returns the end of the ASCII name that starts at `at`, where a byte stands that may start one, and its key. It may have a
/// prefix.
#[inline(always)]
pub fn prefixed_name_at(source: &[u8], at: usize) -> (usize, PackedName) {
    let (end, key) = name_at(source, at);
    if byte(source, end) == b':' && is(byte(source, end + 1), NAME_START) {
        let (end, _) = name_at(source, end + 1);
        return (end, PackedName::of(&source[at..end]));
    }
    (end, key)
}

/// A place in a message up to which it has been written.
pub struct WrittenPart(pub usize);

impl TagPlans {
    /// Returns how many elements have been looked up.
    pub fn len(&self) -> usize {
        self.plans.len()
    }

    /// Returns the end of the name at `at`, and its key, if it is that of the last element.
    #[inline(always)]
    pub fn last_name_at(&self, source: &[u8], at: usize) -> Option<(usize, PackedName)> {
        let LastElement { key, length, .. } = self.last?;
        let is_last = key.begins_at(source, at, length) && matches!(byte(source, at + length), b' ' | b'>' | b'/');
        is_last.then_some((at + length, key))
    }

    /// Writes what changes in the start tag at `start`, whose name ends at `at`, as far as something does, and moves `written`
    /// there; answers with what follows the tag. None, and nothing written: the tag has to be read in another way. `key` is
    /// that of the name.
    #[inline(always)]
    pub fn write(
        &mut self,
        chain: DeclarationChain<'_>,
        text: &str,
        (start, at, key): (usize, usize, PackedName),
        written: &mut WrittenPart,
        out: &mut String,
    ) -> Option<usize> {
        if key.is_cut() {
            return None;
        }
        let number = match self.last {
            Some(last) if last.key == key => last.number,
            _ => match self.numbers.find(key.hash(), |(other, _)| *other == key) {
                Some(&(_, number)) => number,
                None => return self.make(chain, &text.as_bytes()[start + 1..at], key),
            },
        };
        self.last = Some(LastElement { key, length: at - start - 1, number });
        let plan = &mut self.plans[number];
        let (before, length) = (written.0, out.len());
        let end = plan.as_mut()?.write(text, at, written, out);
        if end.is_none() {
            written.0 = before;
            out.truncate(length);
        }
        end
    }

    /// Makes the plan of an element, for its further start tags.
    #[cold]
    fn make(&mut self, chain: DeclarationChain<'_>, name: &[u8], key: PackedName) -> Option<usize> {
        self.numbers.insert_unique(key.hash(), (key, self.plans.len()), |(key, _)| key.hash());
        self.plans.push(TagPlan::new(chain, name));
        None
    }
}

impl TagPlan {
    fn new(chain: DeclarationChain<'_>, name: &[u8]) -> Option<Self> {
        let attributes: Vec<PlannedAttribute> = chain
            .of_element(name)
            .iter()
            .map(|declared| PlannedAttribute {
                key: PackedName::of(&declared.name),
                is_tokenised: declared.is_tokenised,
                addition: declared.addition.clone(),
            })
            .collect();
        if attributes.len() > u64::BITS as usize || attributes.iter().any(|planned| planned.key.is_cut()) {
            return None;
        }
        let bits = attributes.iter().enumerate().filter(|(_, planned)| planned.addition.is_some());
        let defaults = bits.fold(0, |bits, (index, _)| bits | 1 << index);
        Some(Self {
            attributes,
            defaults,
            missing: 0,
            addition: String::new(),
            tokens: PlainTokens::default(),
            order: Vec::new(),
        })
    }

    #[inline(always)]
    fn write(&mut self, text: &str, mut at: usize, written: &mut WrittenPart, out: &mut String) -> Option<usize> {
        let source = text.as_bytes();
        let (mut present, mut position) = (0, 0);
        while byte(source, at) == b' ' {
            let (name_end, index) = self.attribute_at(source, at + 1, position)?;
            position += 1;
            let value = name_end + 2;
            let value_end = value_stop(source, value);
            if byte(source, value_end) != b'"' {
                return None;
            }
            if let Some(index) = index {
                present |= 1 << index;
                let raw = &text[value..value_end];
                if self.attributes[index].is_tokenised
                    && let Some(tokens) = self.tokens.of(raw)
                {
                    out.push_str(&text[written.0..value]);
                    out.push_str(tokens);
                    written.0 = value_end;
                }
            }
            at = value_end + 1;
        }
        let end = match (byte(source, at), byte(source, at + 1)) {
            (b'>', _) => at + 1,
            (b'/', b'>') => at + 2,
            _ => return None,
        };
        let missing = self.defaults & !present;
        if missing != 0 {
            out.push_str(&text[written.0..at]);
            out.push_str(self.addition(missing));
            written.0 = at;
        }
        Some(end)
    }

    /// Returns the end of the name at `at`, and the declared attribute that it names. `position`: that of the attribute in its
    /// tag. None: it has to be read in another way.
    #[inline(always)]
    fn attribute_at(&mut self, source: &[u8], at: usize, position: usize) -> Option<(usize, Option<usize>)> {
        let begins_value = |end: usize| source.get(end..end + 2) == Some(b"=\"");
        if let Some(&ExpectedAttribute { key, length, index }) = self.order.get(position)
            && key.begins_at(source, at, length)
            && begins_value(at + length)
        {
            return Some((at + length, index));
        }
        self.other_attribute_at(source, at, position).filter(|&(end, _)| begins_value(end))
    }

    #[inline(never)]
    fn other_attribute_at(&mut self, source: &[u8], at: usize, position: usize) -> Option<(usize, Option<usize>)> {
        if !is(byte(source, at), NAME_START) {
            return None;
        }
        let (end, key) = prefixed_name_at(source, at);
        let index = self.attributes.iter().position(|planned| planned.key == key);
        let expected = ExpectedAttribute { key, length: end - at, index };
        if !key.is_cut() {
            match self.order.get_mut(position) {
                Some(other) => *other = expected,
                // Behind a long name nothing is expected.
                None => self.order.extend((position == self.order.len()).then_some(expected)),
            }
        }
        Some((end, index))
    }

    /// Returns the attributes that are missing, as start tags without them get them.
    #[inline(always)]
    fn addition(&mut self, missing: u64) -> &str {
        if self.missing != missing {
            self.missing = missing;
            self.addition.clear();
            for (index, planned) in self.attributes.iter().enumerate() {
                if missing >> index & 1 == 1 {
                    self.addition.push_str(planned.addition.as_deref().unwrap_or_default());
                }
            }
        }
        &self.addition
    }
}
