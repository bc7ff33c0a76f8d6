//! The header of a stream, and where its parts lie.

use super::dictionary::Dictionary;
use super::fault::malformed;
use super::{MAGIC, WITH_DICTIONARY, number};
use crate::error::MessageError;

/// A stream's parts.
pub(super) struct StreamHeader<'a> {
    pub(super) with_dictionary: bool,
    pub(super) structure: &'a [u8],
    pub(super) attributes: &'a [u8],
    /// Names, values, texts, then markup.
    pub(super) strings: &'a [u8],
    /// The offsets of values, texts and markup in `strings`.
    pub(super) starts: [usize; 3],
}

/// Splits a stream, which is written with `dictionary` or without one, into its parts.
pub(super) fn parts<'a>(stream: &'a [u8], dictionary: &Dictionary) -> Result<StreamHeader<'a>, MessageError> {
    let Some(([m0, m1, version], rest)) = stream.split_first_chunk::<3>() else {
        return refused("it ends before its header does");
    };
    if [*m0, *m1] != MAGIC[..2] {
        return refused("these bytes are no element stream");
    }
    if *version != MAGIC[2] {
        return refused(format!("it is of version {version}, this is version {}", MAGIC[2]));
    }
    let Some((&flags, mut rest)) = rest.split_first() else {
        return refused("it ends before its header does");
    };
    if flags & !WITH_DICTIONARY != 0 {
        return refused(format!("its flags 0x{flags:02X} are unknown"));
    }
    let with_dictionary = flags == WITH_DICTIONARY;
    if with_dictionary {
        let Some((bytes, behind)) = rest.split_first_chunk::<8>() else {
            return refused("it ends before its header does");
        };
        let id = u64::from_le_bytes(*bytes);
        if id != dictionary.id() {
            return refused(format!("it was written with the dictionary {id:016x}, not with {:016x}", dictionary.id()));
        }
        rest = behind;
    }
    lie(rest, with_dictionary)
}

/// Returns the header with its parts, whose lengths `rest` begins with.
fn lie(rest: &[u8], with_dictionary: bool) -> Result<StreamHeader<'_>, MessageError> {
    let mut at = 0;
    let mut lengths = [0; 5];
    for length in &mut lengths {
        match number::read(rest, &mut at).and_then(|length| usize::try_from(length).ok()) {
            Some(read) => *length = read,
            None => return refused("it ends before its header does"),
        }
    }
    let [structure, attributes, names, values, texts] = lengths;
    // Each length has at most 35 bits, so this cannot overflow.
    let starts = [names, names + values, names + values + texts];
    let behind = rest[at..].split_at_checked(structure);
    let Some((structure, (attributes, strings))) =
        behind.and_then(|(structure, rest)| Some((structure, rest.split_at_checked(attributes)?)))
    else {
        return refused("it ends before its parts do");
    };
    if starts[2] > strings.len() {
        return refused("it ends before its parts do");
    }
    Ok(StreamHeader { with_dictionary, structure, attributes, strings, starts })
}

#[cold]
fn refused<T>(reason: impl std::fmt::Display) -> Result<T, MessageError> {
    Err(malformed(format!("element stream: {reason}")))
}
