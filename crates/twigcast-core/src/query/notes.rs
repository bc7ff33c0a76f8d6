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
    /// The number that is written is greater than any double, or nearer to zero.
    NumberOutOfRange,
    /// A date without quotes is the difference of numbers.
    SubtractedDate,
    /// A text or a number stands where a condition is due, so that it is true or false of each message.
    ConstantCondition,
    /// A text in letters of one case is compared with one that has letters of the other.
    OtherCase,
    /// Nodes are compared with a truth value, which asks whether there are any.
    TruthOfNodes,
    /// A constructor copies attributes of one name, of which an element can have only one.
    SeveralAttributes,
    /// Something is compared with a child element whose name is a word for a truth value, for nothing or for no number.
    NameOfConstant,
}
