//! Paths that ask for nothing but structure, led along an element stream: no document is made of it.

use super::early_stop::MatchObserver;
use super::product::{DOCUMENT_STATE, NOWHERE, ProductDfa, ProductStateId, SegmentCaches};
use crate::stream::element_walker::{ElementVisitor, VisitNext};
use crate::vocabulary::Name;

/// Elements after which it is looked for the first time whether what has been found is enough; then after twice as many.
const FIRST_POLL: usize = 8;

/// How far a stream was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProgress {
    /// To its end.
    ToTheEnd,
    /// Until what had been found was enough.
    Enough,
    /// To an element at which some query asks for more than structure.
    NeedsDocument,
    /// To where the automata need more states than the cache holds.
    CacheIsFull,
}

/// What leads the automata along.
pub(super) struct StreamMatcher<'a, W> {
    walk: &'a mut ProductDfa,
    layers: SegmentCaches<'a>,
    message_number: u64,
    watch: &'a mut W,
    /// Places of the elements around that in hand.
    around: &'a mut Vec<ProductStateId>,
    state: ProductStateId,
    elements: usize,
    polled_at: usize,
    pub(super) followed: StreamProgress,
}

impl<'a, W: MatchObserver> StreamMatcher<'a, W> {
    /// At the start of a message, with which the walk has begun.
    pub(super) fn new(
        (walk, layers, around): (&'a mut ProductDfa, SegmentCaches<'a>, &'a mut Vec<ProductStateId>),
        message_number: u64,
        watch: &'a mut W,
    ) -> Self {
        around.clear();
        walk.keep_notes_of(watch.notes_of());
        Self {
            walk,
            layers,
            message_number,
            watch,
            around,
            state: DOCUMENT_STATE,
            elements: 0,
            polled_at: FIRST_POLL,
            followed: StreamProgress::ToTheEnd,
        }
    }

    fn stop(&mut self, why: StreamProgress) -> VisitNext {
        self.followed = why;
        VisitNext::NoFurther
    }
}

impl<W: MatchObserver> ElementVisitor for StreamMatcher<'_, W> {
    #[inline(always)]
    fn enter(&mut self, name: Name) -> VisitNext {
        let state = match self.walk.enter(&mut self.layers, self.state, name, self.message_number, self.watch) {
            Ok(Some(state)) => state,
            Ok(None) => return self.stop(StreamProgress::NeedsDocument),
            Err(_) => return self.stop(StreamProgress::CacheIsFull),
        };
        if self.watch.is_satisfied() {
            return self.stop(StreamProgress::Enough);
        }
        self.elements += 1;
        if self.elements == self.polled_at {
            self.polled_at *= 2;
            if self.watch.has_enough_results() {
                return self.stop(StreamProgress::Enough);
            }
        }
        if state == NOWHERE {
            return VisitNext::Past;
        }
        self.around.push(std::mem::replace(&mut self.state, state));
        VisitNext::In
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.state = self.around.pop().unwrap_or(NOWHERE);
    }
}
