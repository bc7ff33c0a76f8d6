//! Notes: what a parser sees in a query that is accepted, and that its author may not have meant.

/// A note on a place of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryNote {
    /// The kind of note.
    pub kind: NoteKind,
    /// The column of the place, in characters from 1.
    pub column: u32,
}

/// A kind of note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A text in quotes is compared by order, and read as a number.
    OrderOfNumber,
    /// A text in quotes is compared by order, and is no number, so that nothing compares so with it.
    OrderOfText,
    /// No double is the number that is written.
    InexactNumber,
    /// A constructor copies attributes of one name, of which an element can have only one.
    SeveralAttributes,
    /// Something is compared with a child element whose name is a word for a truth value, or for nothing.
    NameOfConstant,
}
