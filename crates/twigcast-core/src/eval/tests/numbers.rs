//! Reading, writing and rounding numbers.

use crate::util::number::{format, parse, round};

#[test]
fn reads_what_the_recommendation_calls_a_number() {
    let table = [
        ("0", 0.0),
        ("12", 12.0),
        ("-7", -7.0),
        ("3.", 3.0),
        (".5", 0.5),
        ("-.25", -0.25),
        (" \t\r\n42\n", 42.0),
        ("007", 7.0),
        ("0.1", 0.1),
        ("123456789012345678901234567890", 123_456_789_012_345_678_901_234_567_890.0),
    ];
    for (text, number) in table {
        assert_eq!(parse(text), number, "{text:?}");
    }
    assert!(parse("-0").is_sign_negative());
}

#[test]
fn reads_nothing_else() {
    let texts = [
        "", " ", "-", ".", "-.", "+1", "1e5", "1E5", "0x10", "1 2", "- 1", "--1", "1,5", "inf", "Infinity", "NaN",
        "nan", "1.2.3", "\u{a0}1", "٣", "1_000",
    ];
    for text in texts {
        assert!(parse(text).is_nan(), "{text:?}");
    }
}

#[test]
fn writes_numbers_without_exponent() {
    let table = [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-12.5, "-12.5"),
        (0.1, "0.1"),
        (1e21, "1000000000000000000000"),
        (1e-7, "0.0000001"),
        (1.0 / 3.0, "0.3333333333333333"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ];
    for (number, text) in table {
        assert_eq!(format(number), text);
    }
}

#[test]
fn rounds_halves_up_and_keeps_the_sign_of_zero() {
    let table = [(2.5, 3.0), (-2.5, -2.0), (2.4, 2.0), (-2.6, -3.0), (0.499_999_999_999_999_94, 0.0), (1e300, 1e300)];
    for (number, rounded) in table {
        assert_eq!(round(number), rounded, "{number}");
    }
    assert!(round(-0.2).is_sign_negative());
    assert!(round(-0.5).is_sign_negative());
    assert!(round(f64::NAN).is_nan());
    assert_eq!(round(f64::INFINITY), f64::INFINITY);
}
