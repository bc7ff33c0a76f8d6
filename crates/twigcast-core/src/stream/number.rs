//! Numbers in one to five bytes, seven bits in each, the lowest first (LEB128).

/// Bytes of the longest number: 35 bits, a 32-bit length and the bits of an item.
const BYTES_MAX: usize = 5;

/// Appends a number of at most 35 bits.
#[inline]
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads the number at `at`, and moves `at` behind it. `None`: the bytes end within it, or it is too long.
#[inline(always)]
pub fn read(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let first = *bytes.get(*at)?;
    *at += 1;
    if first < 0x80 { Some(u64::from(first)) } else { read_long(bytes, at, u64::from(first & 0x7F)) }
}

fn read_long(bytes: &[u8], at: &mut usize, mut value: u64) -> Option<u64> {
    for position in 1..BYTES_MAX {
        let byte = *bytes.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7F) << (7 * position);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
