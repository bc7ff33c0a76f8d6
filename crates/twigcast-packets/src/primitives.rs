//! Numbers, texts and bytes as parts of a frame.

use crate::error::{PacketError, refused};

/// Bytes of the longest number: 64 bits, seven in each.
pub const NUMBER_BYTES_MAX: usize = 10;

/// Appends a number.
pub fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number with its sign.
pub fn put_signed(value: i64, out: &mut Vec<u8>) {
    put_number((value << 1 ^ value >> 63) as u64, out);
}

/// Appends a text.
pub fn put_text(value: &str, out: &mut Vec<u8>) {
    put_number(value.len() as u64, out);
    out.extend_from_slice(value.as_bytes());
}

/// Reads the number at `at` and moves `at` behind it.
#[inline(always)]
pub fn number(bytes: &[u8], at: &mut usize) -> Result<u64, PacketError> {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(u64::from(byte))
        }
        _ => long_number(bytes, at),
    }
}

fn long_number(bytes: &[u8], at: &mut usize) -> Result<u64, PacketError> {
    let mut value = 0;
    for (position, &byte) in bytes[*at..].iter().take(NUMBER_BYTES_MAX).enumerate() {
        let bits = u64::from(byte & 0x7F);
        if position == NUMBER_BYTES_MAX - 1 && byte > 1 {
            break;
        }
        value |= bits << (7 * position);
        if byte < 0x80 {
            *at += position + 1;
            return Ok(value);
        }
    }
    match bytes.len() - *at < NUMBER_BYTES_MAX {
        true => refused("a number is cut off"),
        false => refused("a number takes more than 64 bits"),
    }
}

/// Reads the parts of one frame.
#[derive(Clone, Copy)]
pub struct FrameReader<'a> {
    /// Up to the end of the frame.
    pub bytes: &'a [u8],
    /// The offset of the next part.
    pub at: usize,
}

impl<'a> FrameReader<'a> {
    #[inline(always)]
    pub fn number(&mut self) -> Result<u64, PacketError> {
        number(self.bytes, &mut self.at)
    }

    pub fn signed(&mut self) -> Result<i64, PacketError> {
        let folded = self.number()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    pub fn flag(&mut self) -> Result<bool, PacketError> {
        match self.number()? {
            value @ 0..=1 => Ok(value == 1),
            value => refused(format!("{value} is neither yes nor no")),
        }
    }

    pub fn real(&mut self) -> Result<f64, PacketError> {
        let Some(bytes) = self.bytes[self.at..].first_chunk::<8>() else {
            return refused("a real number is cut off");
        };
        self.at += 8;
        Ok(f64::from_be_bytes(*bytes))
    }

    /// Reads bytes, at most so many.
    pub fn bytes(&mut self, most: usize) -> Result<&'a [u8], PacketError> {
        let size = self.number()?;
        if size > most as u64 {
            return refused(format!("{size} bytes where at most {most} may be"));
        }
        let (start, left) = (self.at, self.bytes.len() - self.at);
        let size = size as usize;
        if size > left {
            return refused(format!("{size} bytes are announced and {left} there"));
        }
        self.at += size;
        Ok(&self.bytes[start..start + size])
    }

    pub fn text(&mut self, most: usize) -> Result<&'a str, PacketError> {
        let bytes = self.bytes(most)?;
        std::str::from_utf8(bytes).or_else(|error| refused(format!("a text is not UTF-8: {error}")))
    }

    /// Reads numbers, at most so many.
    pub fn numbers(&mut self, most: usize) -> Result<Vec<u64>, PacketError> {
        let (count, left) = (self.number()?, self.bytes.len() - self.at);
        if count > most as u64 {
            return refused(format!("{count} things where at most {most} may be"));
        }
        if count > left as u64 {
            return refused(format!("{count} things are announced in {left} bytes"));
        }
        (0..count).map(|_| self.number()).collect()
    }
}
