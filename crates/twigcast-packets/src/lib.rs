//! Packets between brokers: the bytes that a broker reads and writes for each message that it passes on.
//!
//! ```text
//! packet  = version crc-32 frames            the sum, highest byte first, is of the frames
//! frame   = kind length fields
//! span    = root after upto flag [message]   flag 1: a message follows
//! message = root number scope source id content-type form way published body reduced
//! ```
//!
//! Numbers are LEB128 of at most 64 bits, those that may be negative (`after`, `upto`, `number`) folded (zigzag); texts
//! (UTF-8) and bytes say their length first; `way` is a count and so many numbers; `published` is a number with a
//! fraction, highest byte first. Frames of other kinds, which are rare compared with messages, are separated here and read
//! elsewhere.
//!
//! A length is compared with a bound and with the bytes that are left before it is used.

mod error;
mod primitives;
mod span;
#[cfg(test)]
mod tests;

use error::refused;

pub use error::PacketError;
pub use span::{CarriedMessage, Span, frame_header};

/// Version of the form of packets.
pub const FORM: u8 = 1;
/// Version and sum.
pub const HEADER_BYTES: usize = 5;
/// Most frames in one packet.
pub const FRAMES_MAX: usize = 1 << 16;
/// Most bytes of a message's body.
pub const BODY_BYTES_MAX: usize = 64 << 20;
/// Most bytes of a packet that is read: one message with the largest body fits.
pub const PACKET_BYTES_MAX: usize = BODY_BYTES_MAX + (2 << 20);
/// Most bytes of a name: of a scope, a source, a message, a type, a form.
pub const NAME_BYTES_MAX: usize = 4 << 10;
/// Most bytes of the text that tells what was taken of a message.
pub const REDUCED_BYTES_MAX: usize = 1 << 20;
/// Most brokers on a message's way.
pub const BROKERS_MAX: usize = 1 << 14;

/// The position of a frame in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: u64,
    /// The offset of its fields.
    pub start: usize,
    /// The offset behind its fields.
    pub end: usize,
}

/// Returns the frames of a packet, after checking its sum.
///
/// # Errors
/// It is damaged, cut off, of another form, or beyond a bound.
pub fn frames(packet: &[u8]) -> Result<Vec<Frame>, PacketError> {
    let size = packet.len();
    if size > PACKET_BYTES_MAX {
        return refused(format!("a packet of {size} bytes where at most {PACKET_BYTES_MAX} may be"));
    }
    let Some(([form, sum @ ..], content)) = packet.split_first_chunk::<HEADER_BYTES>() else {
        return refused(format!("a packet of {size} bytes is cut off"));
    };
    if *form != FORM {
        return refused(format!("the packet has the form {form}, this broker reads {FORM}"));
    }
    if crc32fast::hash(content) != u32::from_be_bytes(*sum) {
        return refused("the packet is damaged: its sum does not fit");
    }
    let mut frames_read = Vec::with_capacity(1);
    let mut at = HEADER_BYTES;
    while at < size {
        if frames_read.len() == FRAMES_MAX {
            return refused(format!("a packet of more than {FRAMES_MAX} frames"));
        }
        let kind = primitives::number(packet, &mut at)?;
        let length = primitives::number(packet, &mut at)?;
        let left = size - at;
        if length > left as u64 {
            return refused(format!("a frame of {length} bytes has {left}"));
        }
        let end = at + length as usize;
        frames_read.push(Frame { kind, start: at, end });
        at = end;
    }
    Ok(frames_read)
}

/// Returns the header of a packet of these frames.
pub fn header<'a>(frames: impl IntoIterator<Item = &'a [u8]>) -> [u8; HEADER_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    frames.into_iter().for_each(|frame| hasher.update(frame));
    let [a, b, c, d] = hasher.finalize().to_be_bytes();
    [FORM, a, b, c, d]
}
