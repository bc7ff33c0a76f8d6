//! Spans: what goes down the trees, with a message or with silence.

use super::primitives::{FrameReader, NUMBER_BYTES_MAX, put_number, put_signed, put_text};
use super::{BODY_BYTES_MAX, BROKERS_MAX, NAME_BYTES_MAX, PacketError, REDUCED_BYTES_MAX};

/// All there is to know of the numbers of a root above `after` up to `upto`.
#[derive(Clone, Debug, PartialEq)]
pub struct Span<'a> {
    /// The broker that numbers.
    pub root: u64,
    /// The number before the first of the span.
    pub after: i64,
    /// The last number of the span.
    pub upto: i64,
    /// The message of the number `upto`.
    pub message: Option<CarriedMessage<'a>>,
}

/// A message on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct CarriedMessage<'a> {
    /// The broker that stored it first.
    pub root: u64,
    /// Its number there.
    pub number: i64,
    /// The scope that it belongs to.
    pub scope: &'a str,
    /// Name of its source.
    pub source: &'a str,
    /// Its publisher's name for it.
    pub message_id: &'a str,
    /// With its charset, if any.
    pub content_type: &'a str,
    /// In which form its body is.
    pub form: &'a str,
    /// The brokers that it has passed.
    pub path: Vec<u64>,
    /// The time when it was accepted.
    pub published: f64,
    /// The bytes.
    pub body: &'a [u8],
    /// The projection of which the body is the result; empty if it is the whole message.
    pub reduced: &'a str,
}

impl<'a> Span<'a> {
    /// Reads the span that begins at `at`; also where it ends. Strings are those of `bytes`, which end with the frame.
    ///
    /// # Errors
    /// It ends too early, breaks a bound, or says what no span says.
    pub fn read(bytes: &'a [u8], at: usize) -> Result<(Self, usize), PacketError> {
        let mut parts = FrameReader { bytes, at: at.min(bytes.len()) };
        let (root, after, upto) = (parts.number()?, parts.signed()?, parts.signed()?);
        let message = if parts.flag()? { Some(CarriedMessage::read(&mut parts)?) } else { None };
        Ok((Self { root, after, upto, message }, parts.at))
    }

    /// Writes all of it but its body, and returns the offset at which the body belongs.
    pub fn write_around_body(&self, out: &mut Vec<u8>) -> usize {
        put_number(self.root, out);
        put_signed(self.after, out);
        put_signed(self.upto, out);
        out.push(u8::from(self.message.is_some()));
        match &self.message {
            None => out.len(),
            Some(message) => message.write_around_body(out),
        }
    }

    /// Returns its body; empty without a message.
    pub fn body(&self) -> &'a [u8] {
        self.message.as_ref().map_or(&[], |message| message.body)
    }
}

impl<'a> CarriedMessage<'a> {
    fn read(parts: &mut FrameReader<'a>) -> Result<Self, PacketError> {
        Ok(Self {
            root: parts.number()?,
            number: parts.signed()?,
            scope: parts.text(NAME_BYTES_MAX)?,
            source: parts.text(NAME_BYTES_MAX)?,
            message_id: parts.text(NAME_BYTES_MAX)?,
            content_type: parts.text(NAME_BYTES_MAX)?,
            form: parts.text(NAME_BYTES_MAX)?,
            path: parts.numbers(BROKERS_MAX)?,
            published: parts.real()?,
            body: parts.bytes(BODY_BYTES_MAX)?,
            reduced: parts.text(REDUCED_BYTES_MAX)?,
        })
    }

    fn write_around_body(&self, out: &mut Vec<u8>) -> usize {
        put_number(self.root, out);
        put_signed(self.number, out);
        for text in [self.scope, self.source, self.message_id, self.content_type, self.form] {
            put_text(text, out);
        }
        put_number(self.path.len() as u64, out);
        self.path.iter().for_each(|&broker| put_number(broker, out));
        out.extend_from_slice(&self.published.to_be_bytes());
        put_number(self.body.len() as u64, out);
        let position = out.len();
        put_text(self.reduced, out);
        position
    }
}

/// Returns the kind and length of a frame whose fields take so many bytes.
pub fn frame_header(kind: u64, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * NUMBER_BYTES_MAX);
    put_number(kind, &mut out);
    put_number(length as u64, &mut out);
    out
}
