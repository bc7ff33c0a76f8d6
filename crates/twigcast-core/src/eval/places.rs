//! The functions of places, and the places of nodes: as CAP, GeoRSS, GML and KML write them.
//!
//! A node that is no place itself stands for the places below it. Attributes, texts and elements of other names are read as
//! plain text, latitudes first. What is no place has none.

use std::rc::Rc;

use super::evaluator::Evaluator;
use super::node::NodeRef;
use super::value::{Context, EvalError};
use crate::document::{NO_NODE, NodeId, NodeKind};
use crate::query::ast::{Expr, Function};
use crate::query::functions::ExprType;
use crate::util::places::reading::{self, AxisOrder, written_area, written_line};
use crate::util::places::shape::WrittenPosition;
use crate::util::places::{Effort, Geometry, GeometryPart, Region, RegionQuestion, TooMuch};

/// Visits that reading a byte of a place counts as, and a step of comparing places, as measured.
const BYTE_VISITS: u64 = 2;
const STEP_VISITS: u64 = 8;
/// A distance that there is not on the Earth.
const MOST_KILOMETRES: f64 = 20_016.0;

/// How an element writes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceElement {
    /// As text, latitudes first: a point, a line, an area, the corners of a box.
    Point,
    Line,
    Area,
    Corners,
    /// A circle with its radius in kilometres, or in metres.
    Circle,
    CircleInMetres,
    /// `lat` and `long` of W3C Basic Geo.
    Basic,
    Gml(GmlElement),
    Kml(GmlElement),
}

/// The elements of GML and KML that are places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GmlElement {
    Point,
    Line,
    Polygon,
    Envelope,
    /// Several places that are one.
    Multiple,
}

/// A vocabulary that has elements for places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceVocabulary {
    Cap,
    GeoRss,
    Gml,
    Kml,
    Basic,
    None,
    Other,
}

impl PlaceVocabulary {
    fn of(namespace: &str) -> Self {
        match namespace {
            "" => Self::None,
            "http://www.georss.org/georss" | "http://www.georss.org/georss/10" => Self::GeoRss,
            "http://www.opengis.net/gml" | "http://www.opengis.net/gml/3.2" => Self::Gml,
            "http://www.w3.org/2003/01/geo/wgs84_pos#" => Self::Basic,
            "http://www.incident.com/cap/1.0" => Self::Cap,
            other if other.starts_with("urn:oasis:names:tc:emergency:cap:") => Self::Cap,
            other if other.starts_with("http://www.opengis.net/kml/") => Self::Kml,
            other if other.starts_with("http://earth.google.com/kml/") => Self::Kml,
            _ => Self::Other,
        }
    }

    /// Returns how an element of a local name writes a place, if it does.
    fn element(self, local: &str) -> Option<PlaceElement> {
        use PlaceElement as E;
        Some(match (self, local) {
            (Self::GeoRss | Self::None, "point") => E::Point,
            (Self::GeoRss | Self::None, "line") => E::Line,
            (Self::GeoRss | Self::None, "box") => E::Corners,
            (Self::Cap | Self::GeoRss | Self::None, "polygon") => E::Area,
            (Self::Cap | Self::None, "circle") => E::Circle,
            (Self::GeoRss, "circle") => E::CircleInMetres,
            (Self::Basic, "Point") => E::Basic,
            (Self::Gml, local) => E::Gml(gml_element(local)?),
            (Self::Kml, "MultiGeometry") => E::Kml(GmlElement::Multiple),
            (Self::Kml, "Point") => E::Kml(GmlElement::Point),
            (Self::Kml, "LineString" | "LinearRing") => E::Kml(GmlElement::Line),
            (Self::Kml, "Polygon") => E::Kml(GmlElement::Polygon),
            _ => return None,
        })
    }
}

fn gml_element(local: &str) -> Option<GmlElement> {
    Some(match local {
        "Point" => GmlElement::Point,
        "LineString" | "LineStringSegment" | "LinearRing" => GmlElement::Line,
        "Polygon" | "PolygonPatch" => GmlElement::Polygon,
        "Envelope" | "Box" => GmlElement::Envelope,
        "MultiPoint" | "MultiLineString" | "MultiCurve" | "MultiPolygon" | "MultiSurface" | "MultiGeometry"
        | "Curve" | "Surface" | "CompositeCurve" | "CompositeSurface" => GmlElement::Multiple,
        _ => return None,
    })
}

/// Returns whether an element of a local name may be a place, as far as its first letter says. Most names are ruled out so.
fn may_be_place(local: &str) -> bool {
    matches!(local.as_bytes(), [b'p' | b'l' | b'b' | b'c' | b'P' | b'L' | b'E' | b'B' | b'M' | b'C' | b'S', _, _, ..])
}

/// Returns the place of a plain text, if it has one.
fn place_of_text(text: &str) -> Option<Rc<Geometry>> {
    reading::plain(text).map(|part| Rc::new(Geometry::of(vec![part])))
}

/// Returns the order of the numbers of a system of coordinates; `None` if it is not one of latitudes and longitudes.
fn order_of_system(name: &str) -> Option<AxisOrder> {
    let code = name.rsplit([':', '#', '/']).next().unwrap_or_default();
    match code {
        "CRS84" => Some(AxisOrder::LongitudeFirst),
        // WGS 84, with heights too, and ETRS89, which is within a metre of it.
        "4326" | "4979" | "4258" => {
            // The old names have the order of maps.
            let is_old =
                name.contains('#') || name.strip_suffix(code).is_some_and(|rest| rest.eq_ignore_ascii_case("EPSG:"));
            Some(if is_old { AxisOrder::LongitudeFirst } else { AxisOrder::LatitudeFirst })
        }
        _ => None,
    }
}

/// The distance of the nearest of some places from a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RegionDistance {
    /// None: a point in common.
    Meets,
    /// A distance in kilometres.
    Kilometres(f64),
    /// No point in common; the distance is not known.
    Apart,
}

impl<'a> Evaluator<'a> {
    /// Returns how far the nearest place of an expression is from a region; `None` if there is no place.
    pub(crate) fn nearest_of_places(
        &self,
        places: &'a Expr,
        region: &Region,
        context: Context,
    ) -> Result<Option<RegionDistance>, EvalError> {
        let mut nearest: Option<RegionDistance> = None;
        for place in self.places(places, context)? {
            if self.with_effort(|effort| place.intersects(region.part(), effort))? {
                return Ok(Some(RegionDistance::Meets));
            }
            let kilometres = self.kilometres_between(&place, region)?;
            nearest = Some(match nearest {
                // Two bands around the Earth have no corners.
                _ if kilometres > MOST_KILOMETRES => nearest.unwrap_or(RegionDistance::Apart),
                Some(RegionDistance::Kilometres(least)) => RegionDistance::Kilometres(least.min(kilometres)),
                _ => RegionDistance::Kilometres(kilometres),
            });
        }
        Ok(nearest)
    }

    /// Returns whether a place is as a question asks.
    pub(crate) fn holds_of_geometry(&self, question: &RegionQuestion, place: &Geometry) -> Result<bool, EvalError> {
        self.with_effort(|effort| question.holds(place, effort))
    }

    fn with_effort<T>(&self, ask: impl FnOnce(&Effort<'_>) -> Result<T, TooMuch>) -> Result<T, EvalError> {
        let charge = |steps: u64| self.charge(STEP_VISITS * steps).is_ok();
        ask(&Effort::new(&charge)).map_err(|TooMuch| EvalError::BudgetExceeded { visits_max: self.visits_max.get() })
    }

    /// Evaluates `geo:intersects()`, `geo:disjoint()`, `geo:within()` or `geo:contains()`: some place is as it says.
    pub(super) fn places_lie(
        &self,
        function: Function,
        arguments: &'a [Expr],
        context: Context,
    ) -> Result<bool, EvalError> {
        // The parser has put the region there.
        let [places, Expr::Region(region)] = arguments else { return Ok(false) };
        let part = region.part();
        for place in self.places(places, context)? {
            let lies = self.with_effort(|effort| match function {
                Function::GeoIntersects => place.intersects(part, effort),
                Function::GeoDisjoint => place.intersects(part, effort).map(|meets| !meets),
                Function::GeoWithin => place.is_within(part, effort),
                _ => place.contains(part, effort),
            })?;
            if lies {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Evaluates `geo:distance()`: kilometres to the nearest place; NaN if there is none.
    pub(super) fn distance_of_places(&self, arguments: &'a [Expr], context: Context) -> Result<f64, EvalError> {
        let [places, Expr::Region(region)] = arguments else { return Ok(f64::NAN) };
        let mut least = f64::NAN;
        for place in self.places(places, context)? {
            least = least.min(self.kilometres_between(&place, region)?);
        }
        Ok(least)
    }

    /// Returns the kilometres from a region, a point or a circle, to a place.
    fn kilometres_between(&self, place: &Geometry, region: &Region) -> Result<f64, EvalError> {
        self.with_effort(|effort| place.kilometres_to(region.part(), f64::INFINITY, effort))
    }

    /// Appends the places that an expression has at a node.
    pub(crate) fn append_places_at(
        &self,
        expr: &'a Expr,
        node: NodeRef,
        places: &mut Vec<Rc<Geometry>>,
    ) -> Result<(), EvalError> {
        places.append(&mut self.places(expr, Context { node, position: 1, size: 1 })?);
        Ok(())
    }

    /// Returns the places of the nodes that an expression selects, or of the text that it is.
    pub(crate) fn places(&self, expr: &'a Expr, context: Context) -> Result<Vec<Rc<Geometry>>, EvalError> {
        if self.type_of(expr) != ExprType::NodeSet {
            let text = self.string(expr, context)?;
            self.charge(BYTE_VISITS * text.len() as u64)?;
            return Ok(place_of_text(&text).into_iter().collect());
        }
        let mut places = Vec::new();
        for node in self.nodes(expr, context)? {
            places.extend_from_slice(&self.places_of(node)?);
        }
        Ok(places)
    }

    /// Returns the places of a node, which are read once.
    fn places_of(&self, node: NodeRef) -> Result<Rc<[Rc<Geometry>]>, EvalError> {
        if let Some(known) = self.places.borrow().get(&node) {
            return Ok(Rc::clone(known));
        }
        let mut found = Vec::new();
        match node {
            NodeRef::Node(id) if matches!(self.kind(id), NodeKind::Element | NodeKind::Document) => {
                self.append_places_of_element(id, &mut found)?;
            }
            _ => {
                let text = self.string_value(node)?;
                self.charge(BYTE_VISITS * text.len() as u64)?;
                found.extend(place_of_text(&text));
            }
        }
        let found: Rc<[Rc<Geometry>]> = found.into();
        self.places.borrow_mut().insert(node, Rc::clone(&found));
        Ok(found)
    }

    fn kind(&self, id: NodeId) -> NodeKind {
        self.message.document.nodes[id as usize].kind
    }

    /// Appends the place that an element is, or those below it.
    fn append_places_of_element(&self, id: NodeId, found: &mut Vec<Rc<Geometry>>) -> Result<(), EvalError> {
        let mut add = |parts: Vec<GeometryPart>| {
            if !parts.is_empty() {
                found.push(Rc::new(Geometry::of(parts)));
            }
        };
        if self.kind(id) == NodeKind::Element {
            if let Some(element) = self.place_element(id)? {
                add(self.parts_of(id, element)?);
                return Ok(());
            }
            let mut children = self.message.document.children(id);
            if children.all(|child| self.kind(child) != NodeKind::Element) {
                found.extend(place_of_text(&self.text_of_place(id)?));
                return Ok(());
            }
        }
        self.read_places_below(id, |_| true, &mut add)
    }

    /// Calls back with the parts of each element below one that is a place as sought. What is below such a place is not looked
    /// at.
    fn read_places_below(
        &self,
        id: NodeId,
        is_sought: fn(PlaceElement) -> bool,
        found: &mut dyn FnMut(Vec<GeometryPart>),
    ) -> Result<(), EvalError> {
        let nodes = &self.message.document.nodes;
        let (mut next, end) = (id + 1, nodes[id as usize].end);
        while next < end {
            self.charge(1)?;
            let mut after = next + 1;
            if self.kind(next) == NodeKind::Element
                && let Some(element) = self.place_element(next)?
                && is_sought(element)
            {
                found(self.parts_of(next, element)?);
                after = nodes[next as usize].end;
            }
            next = after;
        }
        Ok(())
    }

    /// Returns how an element writes a place, if it does.
    fn place_element(&self, id: NodeId) -> Result<Option<PlaceElement>, EvalError> {
        let local = self.local_name(NodeRef::Node(id));
        if !may_be_place(local) {
            return Ok(None);
        }
        self.charge(2)?;
        Ok(PlaceVocabulary::of(&self.namespace_uri(NodeRef::Node(id))).element(local))
    }

    fn text_of_place(&self, id: NodeId) -> Result<std::borrow::Cow<'a, str>, EvalError> {
        let node = &self.message.document.nodes[id as usize];
        self.charge(u64::from(node.end - id))?;
        let text = self.message.string_value(id);
        self.charge(BYTE_VISITS * text.len() as u64)?;
        Ok(text)
    }

    /// Returns the child elements of a local name.
    fn children_named(&self, id: NodeId, names: &'static [&'static str]) -> impl Iterator<Item = NodeId> + '_ {
        let children = self.message.document.children(id);
        children.filter(|&child| {
            self.kind(child) == NodeKind::Element && names.contains(&self.local_name(NodeRef::Node(child)))
        })
    }

    /// Returns the parts of the place that an element is; none if it is not written as it should be.
    fn parts_of(&self, id: NodeId, element: PlaceElement) -> Result<Vec<GeometryPart>, EvalError> {
        let (element, is_kml) = match element {
            PlaceElement::Gml(element) => (element, false),
            PlaceElement::Kml(element) => (element, true),
            PlaceElement::Basic => {
                let read = |name| match self.children_named(id, name).next() {
                    Some(child) => self.text_of_place(child).map(|text| text.into_owned()),
                    None => Ok(String::new()),
                };
                let text = format!("{} {}", read(&["lat"])?, read(&["long"])?);
                return Ok(reading::point(&text).into_iter().collect());
            }
            of_text => {
                let text = self.text_of_place(id)?;
                let part = match of_text {
                    PlaceElement::Point => reading::point(&text),
                    PlaceElement::Line => reading::line(&text),
                    PlaceElement::Corners => reading::corners(&text),
                    PlaceElement::Circle => reading::circle(&text, false),
                    PlaceElement::CircleInMetres => reading::circle(&text, true),
                    _ => reading::area(&text),
                };
                return Ok(part.into_iter().collect());
            }
        };
        if element == GmlElement::Multiple {
            let mut found = Vec::new();
            let is_single = |inner| {
                !matches!(inner, PlaceElement::Gml(GmlElement::Multiple) | PlaceElement::Kml(GmlElement::Multiple))
            };
            self.read_places_below(id, is_single, &mut |mut parts| found.append(&mut parts))?;
            return Ok(found);
        }
        Ok(self.gml_part(id, element, is_kml)?.into_iter().collect())
    }

    fn gml_part(&self, id: NodeId, element: GmlElement, is_kml: bool) -> Result<Option<GeometryPart>, EvalError> {
        let order = if is_kml { Some(AxisOrder::LongitudeFirst) } else { self.axis_order(id)? };
        let Some(order) = order else { return Ok(None) };
        Ok(match element {
            GmlElement::Point => match self.gml_positions(id, order)?.as_deref() {
                Some([only]) => Some(GeometryPart::Point(only.position)),
                _ => None,
            },
            GmlElement::Line => self.gml_positions(id, order)?.and_then(|line| written_line(&line)),
            GmlElement::Envelope => match self.gml_positions(id, order)?.as_deref() {
                Some(&[low, high]) => reading::between(low, high),
                _ => None,
            },
            GmlElement::Polygon => {
                let mut rings: Vec<Vec<WrittenPosition>> = Vec::new();
                for names in [&["exterior", "outerBoundaryIs"], &["interior", "innerBoundaryIs"]] {
                    for boundary in self.children_named(id, names) {
                        for ring in self.children_named(boundary, &["LinearRing"]) {
                            let Some(ring) = self.gml_positions(ring, order)? else { return Ok(None) };
                            rings.push(ring);
                        }
                    }
                    if rings.is_empty() {
                        return Ok(None);
                    }
                }
                written_area(&rings)
            }
            GmlElement::Multiple => None,
        })
    }

    /// Returns the positions that the children of an element write.
    fn gml_positions(&self, id: NodeId, order: AxisOrder) -> Result<Option<Vec<WrittenPosition>>, EvalError> {
        let mut all = Vec::new();
        for child in self.message.document.children(id).filter(|&child| self.kind(child) == NodeKind::Element) {
            let positions = match self.local_name(NodeRef::Node(child)) {
                "coordinates" => reading::tuples(&self.text_of_place(child)?, order),
                "coord" => {
                    let mut text = String::new();
                    for part in self.children_named(child, &["X", "Y"]) {
                        text.push_str(&self.text_of_place(part)?);
                        text.push(' ');
                    }
                    reading::numbers(&text).and_then(|numbers| reading::positions(&numbers, order, 2))
                }
                "posList" => {
                    let dimension = match self.attribute_above(child, "srsDimension")? {
                        Some(text) => text.trim().parse().unwrap_or(0),
                        None => 2,
                    };
                    let numbers = reading::numbers(&self.text_of_place(child)?);
                    numbers.and_then(|numbers| reading::positions(&numbers, order, dimension))
                }
                "pos" | "lowerCorner" | "upperCorner" => {
                    let numbers = reading::numbers(&self.text_of_place(child)?);
                    let numbers = numbers.filter(|numbers| matches!(numbers.len(), 2 | 3));
                    numbers.and_then(|numbers| reading::positions(&numbers, order, numbers.len()))
                }
                _ => continue,
            };
            match positions {
                Some(mut positions) => all.append(&mut positions),
                None => return Ok(None),
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// Returns the order of the numbers of an element of GML: that of its system of coordinates, or else latitudes first.
    fn axis_order(&self, id: NodeId) -> Result<Option<AxisOrder>, EvalError> {
        Ok(match self.attribute_above(id, "srsName")? {
            Some(name) => order_of_system(name.trim()),
            None => Some(AxisOrder::LatitudeFirst),
        })
    }

    /// Returns the value of an attribute without a namespace, of an element or else of the nearest one around it that has it.
    fn attribute_above(&self, id: NodeId, name: &str) -> Result<Option<std::borrow::Cow<'a, str>>, EvalError> {
        let document = self.message.document;
        let mut element = id;
        while element != NO_NODE && element != 0 {
            self.charge(1)?;
            for attribute in document.attributes_of(element) {
                if attribute.qname.of(self.message.source) == name.as_bytes() {
                    return Ok(Some(self.message.attribute_value(attribute)));
                }
            }
            element = document.nodes[element as usize].parent;
        }
        Ok(None)
    }
}
