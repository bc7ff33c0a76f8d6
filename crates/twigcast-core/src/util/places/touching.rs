//! Relations of two shapes, found at the points where their edges meet.
//!
//! Which side of an edge a point is on is computed exactly. So edges that touch do not count as edges that cross, and areas
//! that share a part of their boundary are compared as they are drawn.

use std::ops::ControlFlow;

use super::bounds::{Bounds, Coordinate, edge_at};
use super::shape::{Lies, PlaneShape, side};
use super::{Effort, TooMuch};

/// Two shapes, of which one may be moved a turn to the east.
#[derive(Clone, Copy)]
pub(super) struct Moved<'s> {
    shape: &'s PlaneShape,
    by: f64,
}

/// How the edges of two shapes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meeting {
    Nowhere,
    Touching,
    Crossing,
}

/// Which parts of the edges of one shape lie where in another.
#[derive(Default)]
struct Pieces {
    outside: bool,
    inside: bool,
}

fn is_between(a: Coordinate, b: Coordinate, point: Coordinate) -> bool {
    let bounds = Bounds::of(a, b);
    bounds.covers(&Bounds::of(point, point))
}

/// Returns how two edges meet.
fn meeting(a: Coordinate, b: Coordinate, c: Coordinate, d: Coordinate) -> Meeting {
    let (of_c, of_d) = (side(a, b, c), side(a, b, d));
    if of_c > 0.0 && of_d > 0.0 || of_c < 0.0 && of_d < 0.0 {
        return Meeting::Nowhere;
    }
    let (of_a, of_b) = (side(c, d, a), side(c, d, b));
    if of_a > 0.0 && of_b > 0.0 || of_a < 0.0 && of_b < 0.0 {
        return Meeting::Nowhere;
    }
    if of_a != 0.0 && of_b != 0.0 && of_c != 0.0 && of_d != 0.0 {
        return Meeting::Crossing;
    }
    let touches = of_c == 0.0 && is_between(a, b, c)
        || of_d == 0.0 && is_between(a, b, d)
        || of_a == 0.0 && is_between(c, d, a)
        || of_b == 0.0 && is_between(c, d, b);
    if touches { Meeting::Touching } else { Meeting::Nowhere }
}

impl<'s> Moved<'s> {
    fn at(&self, point: Coordinate) -> Coordinate {
        Coordinate { x: point.x + self.by, y: point.y }
    }

    /// Returns a point as it is in the shape that was not moved.
    fn back(&self, point: Coordinate) -> Coordinate {
        Coordinate { x: point.x - self.by, y: point.y }
    }

    fn bounds(&self) -> Bounds {
        self.shape.bounds.moved(self.by)
    }

    fn locate(&self, at: Coordinate, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
        self.shape.locate_point(self.back(at), effort)
    }

    /// Calls back with each edge that may meet a box.
    fn edges_near<B>(
        &self,
        near: &Bounds,
        effort: &Effort<'_>,
        found: &mut dyn FnMut(usize, Coordinate, Coordinate) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, TooMuch> {
        let is_near = |bounds: &Bounds| bounds.moved(self.by).meets(near);
        self.shape
            .tree
            .visit(&self.shape.points, effort, &is_near, &mut |index, a, b| found(index, self.at(a), self.at(b)))
    }

    fn is_periodic(&self) -> bool {
        self.shape.is_periodic
    }
}

/// Returns the ways in which two shapes may lie beside each other: as they are, or one of them a turn to the east.
pub(super) fn layouts<'s>(one: &'s PlaneShape, other: &'s PlaneShape) -> impl Iterator<Item = (Moved<'s>, Moved<'s>)> {
    let turns: &[(f64, f64)] = match (one.is_periodic, other.is_periodic) {
        (false, false) => &[(0.0, 0.0), (0.0, 360.0), (360.0, 0.0)],
        // What is laid out several times is there already.
        _ => &[(0.0, 0.0)],
    };
    let moved = |&(by, of_other): &(f64, f64)| (Moved { shape: one, by }, Moved { shape: other, by: of_other });
    turns.iter().map(moved).filter(|(one, other)| one.bounds().meets(&other.bounds()))
}

/// The part of the plane that shows the Earth once, if both shapes go around it; else all that they have in common.
fn window(one: &Moved<'_>, other: &Moved<'_>) -> Bounds {
    let mut window = other.bounds();
    let bounds = one.bounds();
    window.west = window.west.max(bounds.west);
    window.east = window.east.min(bounds.east);
    window.south = window.south.max(bounds.south);
    window.north = window.north.min(bounds.north);
    if one.is_periodic() && other.is_periodic() {
        window.west = window.west.max(-180.0);
        window.east = window.east.min(180.0);
    }
    window
}

/// Returns how the edges of two shapes meet, at the most.
fn meeting_of(one: &Moved<'_>, other: &Moved<'_>, effort: &Effort<'_>) -> Result<Meeting, TooMuch> {
    let window = window(one, other);
    let (few, many) = if one.shape.points.len() <= other.shape.points.len() { (one, other) } else { (other, one) };
    let mut worst = Meeting::Nowhere;
    let flow = few.edges_near(&window, effort, &mut |_, a, b| {
        let found = many.edges_near(&Bounds::of(a, b), effort, &mut |_, c, d| match meeting(a, b, c, d) {
            Meeting::Crossing => ControlFlow::Break(()),
            Meeting::Touching => {
                worst = Meeting::Touching;
                ControlFlow::Continue(())
            }
            Meeting::Nowhere => ControlFlow::Continue(()),
        });
        match found {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
            Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(Meeting::Crossing)),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    })?;
    match flow {
        ControlFlow::Break(found) => found,
        ControlFlow::Continue(()) => Ok(worst),
    }
}

/// Returns whether two shapes have a point in common.
pub(super) fn intersect(one: &PlaneShape, other: &PlaneShape, effort: &Effort<'_>) -> Result<bool, TooMuch> {
    for (one, other) in layouts(one, other) {
        if meeting_of(&one, &other, effort)? != Meeting::Nowhere
            || holds_first_point(&one, &other, effort)?
            || holds_first_point(&other, &one, effort)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a point of each part of the boundary of one shape is in another, of which the edges meet none of its own.
fn holds_first_point(area: &Moved<'_>, other: &Moved<'_>, effort: &Effort<'_>) -> Result<bool, TooMuch> {
    if !area.shape.is_area {
        return Ok(false);
    }
    // Of a shape that goes around the Earth, a point of it that is there.
    let points = other.shape.points.iter().map(|&point| other.at(point));
    let is_seen = |point: &Coordinate| !other.is_periodic() || point.y.abs() <= 90.0 && point.x.abs() <= 180.0;
    match points.into_iter().find(is_seen) {
        Some(point) => Ok(area.locate(point, effort)? != Lies::Outside),
        // It has no point there, like a band around the Earth: one of its edges runs through.
        None => {
            let first = other.shape.points[0];
            Ok(area.locate(Coordinate { x: 0.0, y: first.y.clamp(-90.0, 90.0) }, effort)? != Lies::Outside)
        }
    }
}

/// Returns how one shape lies in another.
pub(super) fn lies_in(inner: &PlaneShape, outer: &PlaneShape, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
    if inner.is_area && !outer.is_area || inner.is_periodic && !outer.is_periodic {
        return Ok(Lies::Outside);
    }
    for (inner, outer) in layouts(inner, outer) {
        let lies = lies_as_laid_out(&inner, &outer, effort)?;
        if lies != Lies::Outside {
            return Ok(lies);
        }
    }
    Ok(Lies::Outside)
}

fn lies_as_laid_out(inner: &Moved<'_>, outer: &Moved<'_>, effort: &Effort<'_>) -> Result<Lies, TooMuch> {
    let (of_inner, of_outer) = (inner.bounds(), outer.bounds());
    let is_beyond = of_inner.south < of_outer.south || of_inner.north > of_outer.north;
    if is_beyond && !inner.is_periodic() || !outer.is_periodic() && !of_outer.covers(&of_inner) {
        return Ok(Lies::Outside);
    }
    match meeting_of(inner, outer, effort)? {
        Meeting::Crossing => return Ok(Lies::Outside),
        Meeting::Nowhere if !inner.is_periodic() && !outer.is_periodic() => {
            let is_in = !(has_point(inner, outer, effort, Lies::Outside)?
                || inner.shape.is_area && has_point(outer, inner, effort, Lies::Inside)?);
            return Ok(if is_in { Lies::Inside } else { Lies::Outside });
        }
        Meeting::Nowhere | Meeting::Touching => {}
    }
    let pieces = pieces_in(inner, outer, effort, |pieces| pieces.outside)?;
    if pieces.outside {
        return Ok(Lies::Outside);
    }
    if !inner.shape.is_area {
        return Ok(if pieces.inside { Lies::Inside } else { Lies::OnBoundary });
    }
    // What is not in the outer area must not lie in the inner one: holes, above all.
    if pieces_in(outer, inner, effort, |pieces| pieces.inside)?.inside {
        return Ok(Lies::Outside);
    }
    if !pieces.inside {
        // The boundaries are the same, or parts of each other: a point within shows whether that is an area or a hole.
        let within = point_within(inner, effort)?;
        if let Some(point) = within
            && outer.locate(point, effort)? == Lies::Outside
        {
            return Ok(Lies::Outside);
        }
    }
    Ok(Lies::Inside)
}

/// Returns whether the first point of a ring or line of one shape lies so in another, of which the edges meet none of its own.
fn has_point(of: &Moved<'_>, other: &Moved<'_>, effort: &Effort<'_>, lies: Lies) -> Result<bool, TooMuch> {
    for &start in &of.shape.starts {
        if other.locate(of.at(of.shape.points[start as usize]), effort)? == lies {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns where the edges of one shape lie in another, of which none cross its own, as far as `is_enough`.
fn pieces_in(
    inner: &Moved<'_>,
    outer: &Moved<'_>,
    effort: &Effort<'_>,
    is_enough: fn(&Pieces) -> bool,
) -> Result<Pieces, TooMuch> {
    let mut pieces = Pieces::default();
    let mut window = inner.bounds();
    if inner.is_periodic() || outer.is_periodic() {
        window.south = window.south.max(-90.0);
        window.north = window.north.min(90.0);
    }
    if inner.is_periodic() && outer.is_periodic() {
        (window.west, window.east) = (-180.0, 180.0);
    } else if inner.is_periodic() {
        // Only what is near the other one can be in it, and the rest is of no interest.
        (window.west, window.east) = (outer.bounds().west, outer.bounds().east);
    } else {
        window = self::window(inner, outer);
    }
    // Edges that meet none of the other's lie where their neighbours do, so one of each row decides.
    let mut last_clear: Option<usize> = None;
    let flow = inner.edges_near(&window, effort, &mut |index, a, b| {
        if !inner.shape.is_real(inner.back(a), inner.back(b)) {
            return ControlFlow::Continue(());
        }
        let touches = match touches_of(a, b, outer, effort) {
            Ok(touches) => touches,
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        if touches.cuts.is_empty() {
            let follows = last_clear.is_some_and(|last| last + 1 == index);
            last_clear = Some(index);
            if follows {
                return ControlFlow::Continue(());
            }
        } else {
            last_clear = None;
        }
        match touches.locate(a, b, outer, effort, &mut pieces) {
            Ok(()) if is_enough(&pieces) => ControlFlow::Break(Ok(())),
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    })?;
    match flow {
        ControlFlow::Break(Err(error)) => Err(error),
        _ => Ok(pieces),
    }
}

/// Where an edge meets those of another shape: as parts of its length.
#[derive(Default)]
struct Touches {
    cuts: Vec<f64>,
    /// The stretches that it has in common with an edge of the other.
    shared: Vec<(f64, f64)>,
}

fn touches_of(a: Coordinate, b: Coordinate, other: &Moved<'_>, effort: &Effort<'_>) -> Result<Touches, TooMuch> {
    let mut touches = Touches::default();
    let part = |point: Coordinate| {
        if (b.x - a.x).abs() >= (b.y - a.y).abs() {
            (point.x - a.x) / (b.x - a.x)
        } else {
            (point.y - a.y) / (b.y - a.y)
        }
    };
    let _ = other.edges_near::<()>(&Bounds::of(a, b), effort, &mut |_, c, d| {
        if meeting(a, b, c, d) == Meeting::Nowhere {
            return ControlFlow::Continue(());
        }
        let (of_c, of_d) = (side(a, b, c), side(a, b, d));
        if of_c == 0.0 && of_d == 0.0 {
            let (start, end) = (part(c).min(part(d)).max(0.0), part(c).max(part(d)).min(1.0));
            touches.shared.push((start, end));
            touches.cuts.extend([start, end]);
            return ControlFlow::Continue(());
        }
        for (point, of_point) in [(c, of_c), (d, of_d)] {
            if of_point == 0.0 && is_between(a, b, point) {
                touches.cuts.push(part(point));
            }
        }
        // An end of this edge is on the other one.
        for (point, at) in [(a, 0.0), (b, 1.0)] {
            if side(c, d, point) == 0.0 && is_between(c, d, point) {
                touches.cuts.push(at);
            }
        }
        ControlFlow::Continue(())
    })?;
    Ok(touches)
}

impl Touches {
    /// Finds out where the stretches between the points lie at which an edge meets another shape.
    fn locate(
        mut self,
        a: Coordinate,
        b: Coordinate,
        other: &Moved<'_>,
        effort: &Effort<'_>,
        pieces: &mut Pieces,
    ) -> Result<(), TooMuch> {
        self.cuts.extend([0.0, 1.0]);
        self.cuts.sort_unstable_by(f64::total_cmp);
        self.cuts.dedup();
        effort.charge(1 + self.cuts.len() as u64)?;
        self.shared.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut next = 0;
        let mut shared_to = f64::NEG_INFINITY;
        for cut in self.cuts.windows(2) {
            while next < self.shared.len() && self.shared[next].0 <= cut[0] {
                shared_to = shared_to.max(self.shared[next].1);
                next += 1;
            }
            if shared_to >= cut[1] {
                pieces.inside |= !other.shape.is_area;
                continue;
            }
            let middle = 0.5 * (cut[0] + cut[1]);
            let point = Coordinate { x: a.x + middle * (b.x - a.x), y: a.y + middle * (b.y - a.y) };
            match other.locate(point, effort)? {
                Lies::Outside => pieces.outside = true,
                Lies::Inside => pieces.inside = true,
                Lies::OnBoundary => {}
            }
        }
        Ok(())
    }
}

/// Returns a point in an area that is not on its boundary, if arithmetic finds one.
fn point_within(area: &Moved<'_>, effort: &Effort<'_>) -> Result<Option<Coordinate>, TooMuch> {
    let mut heights: Vec<f64> = area.shape.points.iter().map(|point| point.y).filter(|y| y.abs() <= 90.0).collect();
    effort.charge(heights.len() as u64)?;
    heights.sort_unstable_by(f64::total_cmp);
    heights.dedup();
    // The widest gap between latitudes of corners.
    let gap = heights.windows(2).max_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
    let Some(gap) = gap else { return Ok(None) };
    let height = 0.5 * (gap[0] + gap[1]);
    let mut crossings = Vec::new();
    let everywhere = Bounds { west: f64::NEG_INFINITY, east: f64::INFINITY, south: height, north: height };
    let _ = area.edges_near::<()>(&everywhere, effort, &mut |_, a, b| {
        if a.y != b.y {
            crossings.push(a.x + (height - a.y) / (b.y - a.y) * (b.x - a.x));
        }
        ControlFlow::Continue(())
    })?;
    crossings.sort_unstable_by(f64::total_cmp);
    let widest = crossings.chunks_exact(2).max_by(|one, other| (one[1] - one[0]).total_cmp(&(other[1] - other[0])));
    Ok(widest.map(|pair| Coordinate { x: 0.5 * (pair[0] + pair[1]), y: height }))
}

/// Returns a point at which edges of a shape cross each other, if any do.
pub(super) fn crossing_in(shape: &PlaneShape, effort: &Effort<'_>) -> Result<Option<Coordinate>, TooMuch> {
    for index in 0..shape.points.len() {
        let Some((a, b)) = edge_at(&shape.points, index) else { continue };
        let bounds = Bounds::of(a, b);
        let flow = shape.tree.visit(&shape.points, effort, &|near| near.meets(&bounds), &mut |other, c, d| {
            // Edges before this one were compared with it in their turn.
            if other > index && meeting(a, b, c, d) == Meeting::Crossing {
                ControlFlow::Break(crossing_of(a, b, c, d))
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if let ControlFlow::Break(at) = flow {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// Returns about where two edges cross.
fn crossing_of(a: Coordinate, b: Coordinate, c: Coordinate, d: Coordinate) -> Coordinate {
    let (of_a, of_b) = (side(c, d, a), side(c, d, b));
    let part = of_a / (of_a - of_b);
    let rounded = |value: f64| (value * 1e4).round() / 1e4;
    Coordinate { x: rounded(a.x + part * (b.x - a.x)), y: rounded(a.y + part * (b.y - a.y)) }
}
