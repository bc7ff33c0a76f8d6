//! Matching an element stream without a document, for queries that need only structure.

use super::early_stop::MatchObserver;
use super::product::{DEAD_STATE, DOCUMENT_STATE, ProductDfa, SegmentCaches};
use crate::ids::ProductStateId;
use crate::stream::element_walker::{ElementVisitor, VisitNext};
use crate::vocabulary::Name;

/// Elements after which the observer is asked for the first time whether the results are enough. It is asked again
/// whenever there are twice as many.
const FIRST_POLL: usize = 8;

/// The point and the reason where reading a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamProgress {
    /// At the end of the stream.
    ToTheEnd,
    /// The results were enough.
    Enough,
    /// At an element where some query needs more than structure.
    NeedsDocument,
    /// The DFAs need more states than the cache holds.
    CacheIsFull,
}

/// The state of matching one element stream: the element walker reports start and end tags to it.
pub(super) struct StreamMatcher<'a, W> {
    product: &'a mut ProductDfa,
    caches: SegmentCaches<'a>,
    message_number: u64,
    observer: &'a mut W,
    /// The product states of the ancestors of the current element.
    ancestors: &'a mut Vec<ProductStateId>,
    state: ProductStateId,
    element_count: usize,
    next_poll: usize,
    pub(super) progress: StreamProgress,
}

impl<'a, W: MatchObserver> StreamMatcher<'a, W> {
    /// Starts before the first element. The product DFA has begun with the message.
    pub(super) fn new(
        product: &'a mut ProductDfa,
        caches: SegmentCaches<'a>,
        ancestors: &'a mut Vec<ProductStateId>,
        message_number: u64,
        observer: &'a mut W,
    ) -> Self {
        ancestors.clear();
        product.keep_notes_of(observer.notes_of());
        Self {
            product,
            caches,
            message_number,
            observer,
            ancestors,
            state: DOCUMENT_STATE,
            element_count: 0,
            next_poll: FIRST_POLL,
            progress: StreamProgress::ToTheEnd,
        }
    }

    fn stop(&mut self, progress: StreamProgress) -> VisitNext {
        self.progress = progress;
        VisitNext::NoFurther
    }
}

impl<W: MatchObserver> ElementVisitor for StreamMatcher<'_, W> {
    #[inline(always)]
    fn enter(&mut self, name: Name) -> VisitNext {
        let entered = self.product.enter(&mut self.caches, self.state, name, self.message_number, self.observer);
        let state = match entered {
            Ok(Some(state)) => state,
            Ok(None) => return self.stop(StreamProgress::NeedsDocument),
            Err(_) => return self.stop(StreamProgress::CacheIsFull),
        };
        if self.observer.is_satisfied() {
            return self.stop(StreamProgress::Enough);
        }
        self.element_count += 1;
        if self.element_count == self.next_poll {
            self.next_poll *= 2;
            if self.observer.is_satisfied_by_matches() {
                return self.stop(StreamProgress::Enough);
            }
        }
        if state == DEAD_STATE {
            return VisitNext::Past;
        }
        self.ancestors.push(std::mem::replace(&mut self.state, state));
        VisitNext::In
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.state = self.ancestors.pop().unwrap_or(DEAD_STATE);
    }
}
