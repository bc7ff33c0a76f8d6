//! Pieces of markup that may stand both in a DOCTYPE and elsewhere.

use crate::scan::bytes::{SPACE, byte, is};
use crate::scan::characters::LegalText;
use crate::scan::fault::{Fault, ScanResult, describe_input, shown};
use crate::scan::names::ncname_end;

/// Returns the end of the processing instruction at `start`.
pub fn processing_instruction_end(checked: LegalText<'_>, start: usize) -> ScanResult<usize> {
    let source = checked.text.as_bytes();
    let target_end = ncname_end(checked, start + 2);
    let target = &source[start + 2..target_end];
    let next = byte(source, target_end);
    let reason = if target.is_empty() {
        format!("a processing instruction needs a target, found {}", describe_input(source, target_end))
    } else if target == b"xml" {
        "an XML declaration may only stand at the very start of the message".into()
    } else if target.eq_ignore_ascii_case(b"xml") {
        format!("the target {:?} of a processing instruction is reserved", shown(target))
    } else if next == b':' {
        format!("the target {:?} of a processing instruction may not hold a colon", shown(target))
    } else if next != b'?' && next != 0 && !is(next, SPACE) {
        format!("{} may not stand in the target of a processing instruction", describe_input(source, target_end))
    } else {
        return instruction_data_end(source, start, target_end);
    };
    Err(Fault::malformed(start, reason))
}

fn instruction_data_end(source: &[u8], start: usize, target_end: usize) -> ScanResult<usize> {
    for question in memchr::memchr_iter(b'?', &source[target_end..]) {
        let at = target_end + question;
        if byte(source, at + 1) == b'>' {
            return Ok(at + 2);
        }
        if question == 0 {
            let reason = "the target of a processing instruction must be followed by white space or \"?>\"";
            return Err(Fault::malformed(at, reason));
        }
    }
    Err(Fault::malformed(start, "the processing instruction is not closed with \"?>\""))
}

/// Returns whether a byte may stand in a public identifier (production PubidChar).
pub fn is_public_character(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b" \r\n-'()+,./:=?;!*#@$_%".contains(&b)
}
