//! The ids of the core: numbers that are indexes into one kind of table each.
//!
//! Each kind of id is a type of its own, so that the id of a state cannot stand where the id of a query is meant. An id
//! takes the four bytes of its number and costs nothing at run time. What the numbers 0 and `u32::MAX` stand for, where
//! they are reserved, is a constant of the type, defined beside its table.

/// A number that is an index into one kind of table.
pub trait TableId: Copy {
    /// Returns the id of the entry at an index.
    fn new(index: usize) -> Self;
    /// Returns the index that the id stands for.
    fn index(self) -> usize;
}

impl TableId for u32 {
    fn new(index: usize) -> Self {
        u32::try_from(index).expect("a table has outgrown 32 bits")
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// Defines the types of ids.
macro_rules! define_ids {
    ($($(#[$attribute:meta])* $name:ident;)+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// Returns the id of the entry at an index.
            ///
            /// # Panics
            /// The index does not fit into 32 bits: the table has outgrown its ids.
            #[inline]
            pub fn new(index: usize) -> Self {
                match u32::try_from(index) {
                    Ok(number) => Self(number),
                    Err(_) => panic!(concat!("a table has outgrown ", stringify!($name), ": index {}"), index),
                }
            }

            /// Returns the index that the id stands for.
            #[inline(always)]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// Returns the id of a number, for ids that are packed with other bits.
            #[inline(always)]
            pub const fn from_u32(number: u32) -> Self {
                Self(number)
            }

            /// Returns the number of the id.
            #[inline(always)]
            pub const fn as_u32(self) -> u32 {
                self.0
            }
        }

        impl TableId for $name {
            #[inline]
            fn new(index: usize) -> Self {
                Self::new(index)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    )+};
}

define_ids! {
    /// A namespace name (URI) of the vocabulary. Equal ids mean equal URIs, except
    /// [`NamespaceId::UNKNOWN`], which stands for every URI that no query mentions.
    NamespaceId;
    /// A local name of the vocabulary. [`LocalId::UNKNOWN`] stands for every local name that no query mentions.
    LocalId;
    /// A variable of a For-Where-Return query, numbered in the order of the clauses that bind them.
    VariableId;
    /// A conjunction of a [`ConjunctionIndex`](crate::engine::routing::ConjunctionIndex): stable while it lives, used again
    /// afterwards.
    ConjunctionId;
    /// A set of route labels that conjunctions have in common.
    RouteLabelSetId;
}
