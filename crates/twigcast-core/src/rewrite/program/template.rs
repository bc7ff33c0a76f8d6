//! Results that are constant markup around the nodes of paths, by far the most frequent kind.
//!
//! The constant part is the *skeleton*. The nodes that paths select from the bindings are the *columns*, with one entry
//! for each binding. Two queries with equal skeletons and equal columns make equal results of equal bindings, however
//! their paths are spelt.

use std::sync::Arc;

use crate::query::ast::Expr;

use super::instructions::{BoundExpr, ContentPart, ElementInstruction, Instruction, is_path};

/// The constant part of a result: markup before, around and after the columns.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::rewrite) struct Skeleton {
    /// Markup before all bindings.
    pub prefix: Vec<u8>,
    /// The start tag of a binding's element that has content.
    pub open: Vec<u8>,
    /// The whole element of a binding whose columns are all empty.
    pub empty: Vec<u8>,
    pub pieces: Vec<TemplatePiece>,
    /// The end tag of a binding's element.
    pub close: Vec<u8>,
    /// Markup after all bindings.
    pub suffix: Vec<u8>,
}

/// A part of the content of a binding's element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::rewrite) enum TemplatePiece {
    Constant(Vec<u8>),
    /// The entry of the column with this index.
    Column(usize),
}

impl Skeleton {
    /// Returns `true` if an element has content even when all columns are empty.
    pub fn has_content(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, TemplatePiece::Constant(_)))
    }
}

/// Returns the skeleton of a program's body and the paths of its columns, if it is of this kind.
pub(in crate::rewrite) fn of(body: &Instruction) -> Option<(Skeleton, Vec<Arc<Expr>>)> {
    match body {
        Instruction::Loop(each) => match &*each.result {
            Instruction::Element(element) => of_element(element),
            _ => None,
        },
        Instruction::Element(element) => of_wrapped(element),
        _ => None,
    }
}

/// Returns the start tag, without its `>`, of an element that is constant up to there and declares no namespace.
fn constant_head(element: &ElementInstruction) -> Option<&[u8]> {
    match &element.head[..] {
        [ContentPart::Constant(head)] if element.declarations.is_empty() => Some(head),
        _ => None,
    }
}

fn of_wrapped(element: &ElementInstruction) -> Option<(Skeleton, Vec<Arc<Expr>>)> {
    let mut before = [constant_head(element)?, b">"].concat();
    let mut inner = None;
    let mut after = Vec::new();
    for part in &element.content {
        match (part, &inner) {
            (ContentPart::Constant(bytes), None) => before.extend_from_slice(bytes),
            (ContentPart::Constant(bytes), Some(_)) => after.extend_from_slice(bytes),
            (ContentPart::Enclosed(op), None) => inner = Some(of(op)?),
            (ContentPart::Enclosed(_), Some(_)) => return None,
        }
    }
    let (mut skeleton, columns) = inner?;
    before.append(&mut skeleton.prefix);
    skeleton.prefix = before;
    skeleton.suffix.append(&mut after);
    skeleton.suffix.extend_from_slice(&element.close);
    Some((skeleton, columns))
}

fn of_element(element: &ElementInstruction) -> Option<(Skeleton, Vec<Arc<Expr>>)> {
    let head = constant_head(element)?;
    let (mut pieces, mut columns) = (Vec::new(), Vec::new());
    for part in &element.content {
        match part {
            ContentPart::Constant(bytes) => pieces.push(TemplatePiece::Constant(bytes.clone())),
            ContentPart::Enclosed(Instruction::Value(BoundExpr::Node(_, path))) if is_path(path) => {
                pieces.push(TemplatePiece::Column(columns.len()));
                columns.push(Arc::clone(path));
            }
            ContentPart::Enclosed(_) => return None,
        }
    }
    let skeleton = Skeleton {
        prefix: Vec::new(),
        open: [head, b">"].concat(),
        empty: [head, b"/>"].concat(),
        pieces,
        close: element.close.to_vec(),
        suffix: Vec::new(),
    };
    Some((skeleton, columns))
}
