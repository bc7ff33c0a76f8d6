//! What is written is read again; whatever else comes is refused.

use super::{CarriedMessage, FORM, Frame, HEADER_BYTES, Span, frame_header, frames, header};

fn written(span: &Span<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let position = span.write_around_body(&mut out);
    out.splice(position..position, span.body().iter().copied());
    out
}

fn packet(frames: &[&[u8]]) -> Vec<u8> {
    let mut out = header(frames.iter().copied()).to_vec();
    frames.iter().for_each(|frame| out.extend_from_slice(frame));
    out
}

fn message() -> Span<'static> {
    let message = CarriedMessage {
        root: u64::MAX,
        number: i64::MAX,
        scope: "default",
        source: "größe",
        message_id: "",
        content_type: "application/xml",
        form: "text",
        path: vec![0, 127, 128, u64::MAX],
        published: -0.5,
        body: b"<a>\0\xFF</a>",
        reduced: "",
    };
    Span { root: 1 << 63, after: i64::MIN, upto: -1, message: Some(message) }
}

#[test]
fn what_is_written_is_read_again() {
    for span in [message(), Span { message: None, ..message() }] {
        let fields = written(&span);
        assert_eq!(Span::read(&fields, 0), Ok((span, fields.len())));
    }
}

#[test]
fn a_span_that_is_cut_off_is_refused() {
    let fields = written(&message());
    for end in 0..fields.len() {
        assert!(Span::read(&fields[..end], 0).is_err(), "{end} of {} bytes", fields.len());
    }
    for start in [fields.len(), fields.len() + 1, usize::MAX] {
        assert!(Span::read(&fields, start).is_err(), "from {start} on");
    }
}

#[test]
fn frames_are_told_apart() {
    let head = frame_header(300, 2);
    let one = [&head[..], b"xy"].concat();
    let data = packet(&[&one, &[5, 0]]);
    let second = HEADER_BYTES + one.len() + 2;
    let first = Frame { kind: 300, start: HEADER_BYTES + 3, end: HEADER_BYTES + 5 };
    assert_eq!(frames(&data), Ok(vec![first, Frame { kind: 5, start: second, end: second }]));
    assert_eq!(frames(&packet(&[])), Ok(vec![]));
}

#[test]
fn damage_is_seen() {
    let data = packet(&[&[5, 2, 1, 2]]);
    for end in 0..data.len() {
        assert!(frames(&data[..end]).is_err());
    }
    for position in 0..data.len() {
        for bit in 0..8 {
            let mut damaged = data.clone();
            damaged[position] ^= 1 << bit;
            assert!(frames(&damaged).is_err(), "bit {bit} of byte {position}");
        }
    }
    assert!(frames(&packet(&[&[5, 3, 1, 2]])).expect_err("too short").to_string().contains("a frame of 3 bytes has 2"));
    assert_eq!(data[0], FORM);
}

#[test]
fn a_number_has_64_bits() {
    let mut longest = vec![0xFF; 9];
    longest.push(1);
    assert!(Span::read(&longest, 0).expect_err("no more").to_string().contains("cut off"));
    longest[9] = 2;
    assert!(Span::read(&longest, 0).expect_err("too large").to_string().contains("64 bits"));
}
