//! Raw slices of a message to the values that XML gives them.

/// The value of a raw text run: references replaced, CDATA markup removed, line ends normalised to LF.
pub fn text(_raw: &str) -> String {
    unimplemented!()
}

/// The value of a raw attribute value: references replaced, white space characters normalised to spaces.
pub fn attribute(_raw: &str) -> String {
    unimplemented!()
}
