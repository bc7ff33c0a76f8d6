//! A document back to the text of a message.

use crate::document::{ByteRange, Message, NodeId, NodeKind};

/// The text would be longer than allowed; it holds as many bytes at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextTooLong(pub usize);

/// Writes the message, which was scanned or decoded wanting everything, as text: at most `bytes_max` bytes. CDATA
/// sections, references and line ends stay as they are in the message; namespace declarations come before attributes.
///
/// # Errors
/// The text would be longer: names that a stream spells out once may fill a text many times its size.
pub fn text(message: Message<'_>, bytes_max: usize) -> Result<Vec<u8>, TextTooLong> {
    let mut writer = TextWriter { message, out: Vec::with_capacity(message.source.len()), declaration: 0, bytes_max };
    let nodes = &message.document.nodes;
    let mut open: Vec<NodeId> = Vec::new();
    for id in 1..nodes.len() as NodeId {
        writer.close(&mut open, id)?;
        let node = &nodes[id as usize];
        if node.kind == NodeKind::Element {
            writer.start_tag(id)?;
            if node.end > id + 1 {
                open.push(id);
            }
        } else {
            writer.out.extend_from_slice(node.span.of(message.source));
        }
        writer.fits()?;
    }
    writer.close(&mut open, nodes.len() as NodeId)?;
    Ok(writer.out)
}

struct TextWriter<'a> {
    message: Message<'a>,
    out: Vec<u8>,
    /// The next namespace declaration.
    declaration: usize,
    bytes_max: usize,
}

impl TextWriter<'_> {
    fn fits(&self) -> Result<(), TextTooLong> {
        if self.out.len() > self.bytes_max { Err(TextTooLong(self.out.len())) } else { Ok(()) }
    }

    fn start_tag(&mut self, id: NodeId) -> Result<(), TextTooLong> {
        self.out.push(b'<');
        self.out.extend_from_slice(self.message.qname(id).as_bytes());
        self.declarations(id)?;
        for attribute in self.message.document.attributes_of(id) {
            self.attribute(b"", attribute.qname, attribute.value)?;
        }
        let empty = self.message.document.nodes[id as usize].end == id + 1;
        self.out.extend_from_slice(if empty { b"/>" } else { b">" });
        Ok(())
    }

    fn declarations(&mut self, owner: NodeId) -> Result<(), TextTooLong> {
        let all = &self.message.document.declarations;
        while let Some(declaration) = all.get(self.declaration).filter(|declaration| declaration.owner == owner) {
            self.declaration += 1;
            let name: &[u8] = if declaration.prefix.start == declaration.prefix.end { b"xmlns" } else { b"xmlns:" };
            self.attribute(name, declaration.prefix, declaration.uri)?;
        }
        Ok(())
    }

    fn attribute(&mut self, before_name: &[u8], name: ByteRange, value: ByteRange) -> Result<(), TextTooLong> {
        let value = value.of(self.message.source);
        let quote = if memchr::memchr(b'"', value).is_some() { b'\'' } else { b'"' };
        self.out.push(b' ');
        self.out.extend_from_slice(before_name);
        self.out.extend_from_slice(name.of(self.message.source));
        self.out.extend_from_slice(&[b'=', quote]);
        self.out.extend_from_slice(value);
        self.out.push(quote);
        self.fits()
    }

    /// Writes the end tags of elements that end before the node `next`.
    fn close(&mut self, open: &mut Vec<NodeId>, next: NodeId) -> Result<(), TextTooLong> {
        while let Some(&id) = open.last().filter(|&&id| self.message.document.nodes[id as usize].end <= next) {
            open.pop();
            self.out.extend_from_slice(b"</");
            self.out.extend_from_slice(self.message.qname(id).as_bytes());
            self.out.push(b'>');
            self.fits()?;
        }
        Ok(())
    }
}
