//! Paths that ask for nothing but structure, led along an element stream: no document is made of it.

use super::product::{Layers, NOWHERE, OUTSET, PlaceId, Walk};
use super::early_stop::Watch;
use crate::stream::element_walker::{Follow, Onward};
use crate::vocabulary::Name;

/// Elements after which it is looked for the first time whether what has been found is enough; then after twice as many.
const ASKED_AT_FIRST: usize = 8;

/// How far a stream was followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
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
pub(super) struct Follower<'a, W> {
    walk: &'a mut Walk,
    layers: Layers<'a>,
    message_number: u64,
    watch: &'a mut W,
    /// Places of the elements around that in hand.
    around: &'a mut Vec<PlaceId>,
    here: PlaceId,
    elements: usize,
    asked_at: usize,
    pub(super) followed: Followed,
}

impl<'a, W: Watch> Follower<'a, W> {
    /// At the start of a message, with which the walk has begun.
    pub(super) fn new(
        (walk, layers, around): (&'a mut Walk, Layers<'a>, &'a mut Vec<PlaceId>),
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
            here: OUTSET,
            elements: 0,
            asked_at: ASKED_AT_FIRST,
            followed: Followed::ToTheEnd,
        }
    }

    fn stop(&mut self, why: Followed) -> Onward {
        self.followed = why;
        Onward::NoFurther
    }
}

impl<W: Watch> Follow for Follower<'_, W> {
    #[inline(always)]
    fn enter(&mut self, name: Name) -> Onward {
        let place = match self.walk.enter(&mut self.layers, self.here, name, self.message_number, self.watch) {
            Ok(Some(place)) => place,
            Ok(None) => return self.stop(Followed::NeedsDocument),
            Err(_) => return self.stop(Followed::CacheIsFull),
        };
        if self.watch.is_satisfied() {
            return self.stop(Followed::Enough);
        }
        self.elements += 1;
        if self.elements == self.asked_at {
            self.asked_at *= 2;
            if self.watch.is_told_enough() {
                return self.stop(Followed::Enough);
            }
        }
        if place == NOWHERE {
            return Onward::Past;
        }
        self.around.push(std::mem::replace(&mut self.here, place));
        Onward::In
    }

    #[inline(always)]
    fn leave(&mut self) {
        self.here = self.around.pop().unwrap_or(NOWHERE);
    }
}
