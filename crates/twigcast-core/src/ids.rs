//! The ids of the core: numbers that are indexes into one kind of table each.
//!
//! Each kind of id is a type of its own, so that the id of a state cannot stand where the id of a query is meant. An id
//! takes the four bytes of its number and costs nothing at run time. Further reserved ids are constants beside the table
//! that they belong to.
//!
//! ```
//! use twigcast_core::ids::{DfaId, StateId};
//!
//! let state = StateId::new(7);
//! assert_eq!((state.index(), state.as_u32()), (7, 7));
//! assert_ne!(state, StateId::ABSENT);
//! // `DfaId::new(7) == state` does not compile: these are ids of different tables.
//! assert_eq!(DfaId::new(7).index(), state.index());
//! ```

/// The number of a live subscription: small, stable while it lives, reused after removal.
///
/// It is a plain number, unlike the other ids: lists of slots leave the core as buffers of 32-bit integers, and the kernel
/// that lists the members of a query set writes them.
pub type Slot = u32;

/// A number that is an index into one kind of table.
pub trait TableId: Copy + Eq {
    /// In place of an id: none.
    const ABSENT: Self;
    /// Returns the id of the entry at an index.
    fn new(index: usize) -> Self;
    /// Returns the index that the id stands for.
    fn index(self) -> usize;
    /// Returns the number of the id.
    fn as_u32(self) -> u32;
}

impl TableId for u32 {
    const ABSENT: Self = Self::MAX;

    fn new(index: usize) -> Self {
        u32::try_from(index).expect("a table has outgrown 32 bits")
    }

    fn index(self) -> usize {
        self as usize
    }

    fn as_u32(self) -> u32 {
        self
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
            /// In place of an id: none. [`Self::new`] never returns it.
            pub const ABSENT: Self = Self(u32::MAX);

            /// Returns the id of the entry at an index.
            ///
            /// # Panics
            /// The index does not fit into 32 bits: the table has outgrown its ids.
            #[inline]
            pub fn new(index: usize) -> Self {
                assert!(index < u32::MAX as usize, concat!("a table has outgrown ", stringify!($name)));
                Self(index as u32)
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
            const ABSENT: Self = Self::ABSENT;

            #[inline]
            fn new(index: usize) -> Self {
                Self::new(index)
            }

            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }

            #[inline(always)]
            fn as_u32(self) -> u32 {
                self.0
            }
        }
    )+};
}

define_ids! {
    /// An attribute of a message: its index in document order.
    AttributeId;
    /// A namespace name (URI) of the vocabulary. Equal ids mean equal URIs, except
    /// [`NamespaceId::UNKNOWN`], which stands for every URI that no query mentions.
    NamespaceId;
    /// A local name of the vocabulary. [`LocalId::UNKNOWN`] stands for every local name that no query mentions.
    LocalId;
    /// A variable of a For-Where-Return query, numbered in the order of the clauses that bind them.
    VariableId;
    /// A state of the NFA.
    StateId;
    /// The label of an edge of the NFA.
    EdgeLabelId;
    /// An item of an NFA state: what happens where a path accepts.
    ItemId;
    /// A state of the lazy DFA.
    DfaId;
    /// A set of NFA states that stay active below an element.
    DescendantSetId;
    /// A node of the tree of label paths, in preorder.
    PathNodeId;
    /// A state of the product DFA.
    ProductStateId;
    /// A text of a string arena: its position there.
    StringId;
    /// An atom: a comparison of an attribute or text with a constant. Its lowest bit tells comparisons that may hold in
    /// great numbers from others (see [`AtomId::is_comparison`]).
    AtomId;
    /// A branch: a part of nested paths.
    BranchId;
    /// A compiled query that does not fit into the four bytes that most take.
    OtherQueryId;
    /// A trigger: the element of a path at which the rest of a query is tested.
    TriggerId;
    /// A twig: a query that is decided by a structural condition at an element.
    TwigId;
    /// The accesses of a query that wait on one path.
    AccessId;
    /// An operand that accesses look at.
    OperandId;
    /// A condition of accesses.
    ConditionId;
    /// A shape of subtrees.
    ShapeId;
    /// A structural condition of triggers. An id is never used twice, so what was decided under it stays true.
    StructuralConditionId;
    /// A group of For-Where-Return queries that differ only in the constants they compare with.
    FamilyGroupId;
    /// A constant that For-Where-Return queries compare with, a text or a number.
    ConstantId;
    /// A path expression of For-Where-Return queries.
    SharedPathId;
    /// The constant part of results.
    SkeletonId;
    /// A binding path of the batch queries.
    BindingPathId;
    /// A binding path of the batch queries with a path relative to its bindings.
    ComparedPathId;
    /// The batch queries that ask for one condition.
    ConditionClassId;
    /// A plan for the results of the batch queries from the bindings of one path.
    ResultPlanId;
    /// A label path of the data guide.
    GuideNodeId;
    /// A list of bindings that several binding paths select on the data guide.
    BindingListId;
    /// The elements that relative paths select from the bindings of one list.
    BindingColumnId;
    /// A comparison of a column with a constant in the condition index.
    BindingConditionId;
    /// A constructor with its columns, for the bindings of one list.
    ResultConstructorId;
    /// The constant part of constructors, ready to be copied.
    ConstructorFormId;
    /// The nodes that a binding path selects from one message.
    NodeListId;
    /// A set of the bindings of one node list.
    NodeSetId;
    /// The nodes that a returned path selects from each binding of a node list.
    SharedColumnId;
    /// The sets of bindings by constant, for one node list and compared path.
    ConstantTableId;
    /// The payloads by set of bindings, for one node list.
    PayloadTableId;
    /// A conjunction of a [`ConjunctionIndex`](crate::engine::routing::ConjunctionIndex): stable while it lives, used again
    /// afterwards.
    ConjunctionId;
    /// A label that the user of the index gives a conjunction: one neighbour, or one of several parts of it.
    RouteLabel;
    /// A set of route labels that conjunctions have in common.
    RouteLabelSetId;
}
