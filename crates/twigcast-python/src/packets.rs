//! Reads and writes packets between brokers, and the spans in them.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use twigcast_packets::{CarriedMessage, Frame, PacketError, Span};

/// The size from which on the checksum of a packet is computed without the GIL.
const LARGE_BYTES: usize = 64 << 10;
/// The number of fields of a `twigcast.overlay.onyx.messages.OverlayMessage`.
const FIELDS: usize = 12;
/// The number of its fields that are strings which mostly equal those of the message before.
const REPEATED_STRINGS: usize = 4;

/// A frame of a packet. See the stub file.
#[pyclass(frozen, get_all, module = "twigcast._core")]
pub struct PacketFrame {
    kind: u64,
    start: usize,
    end: usize,
}

/// A string of Python, and its text.
type LastString = (String, Py<PyString>);

fn refused(error: PacketError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn frames_in(py: Python<'_>, packet: &[u8]) -> PyResult<Vec<Frame>> {
    let matches_found = if packet.len() < LARGE_BYTES {
        twigcast_packets::frames(packet)
    } else {
        py.detach(|| twigcast_packets::frames(packet))
    };
    matches_found.map_err(refused)
}

fn packet_frame(frame: &Frame) -> PacketFrame {
    PacketFrame { kind: frame.kind, start: frame.start, end: frame.end }
}

/// Writes frames as one packet. See the stub file.
#[pyfunction]
pub fn packet_of<'py>(py: Python<'py>, frames: &Bound<'py, PyList>) -> PyResult<Bound<'py, PyBytes>> {
    let frames: Vec<Bound<'py, PyBytes>> =
        frames.iter().map(|frame| Ok(frame.cast_into()?)).collect::<PyResult<_>>()?;
    let parts = || frames.iter().map(|frame| frame.as_bytes());
    let size = twigcast_packets::HEADER_BYTES + parts().map(<[u8]>::len).sum::<usize>();
    let header = if size < LARGE_BYTES {
        twigcast_packets::header(parts())
    } else {
        let parts: Vec<&[u8]> = parts().collect();
        py.detach(|| twigcast_packets::header(parts.iter().copied()))
    };
    PyBytes::new_with(py, size, |out| {
        fill(out, [&header[..]].into_iter().chain(parts()));
        Ok(())
    })
}

/// Writes parts one after the other.
fn fill<'a>(mut out: &mut [u8], parts: impl IntoIterator<Item = &'a [u8]>) {
    for part in parts {
        let (here, rest) = out.split_at_mut(part.len());
        here.copy_from_slice(part);
        out = rest;
    }
}

/// Reads and writes spans. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct SpanCodec {
    span: Py<PyType>,
    message: Py<PyType>,
    /// `tuple.__new__`, which the constructors of named tuples call in the end.
    tuple_new: Py<PyAny>,
    empty: Py<PyString>,
    /// By field, the last string: most messages have the same scope, source and type.
    last: Mutex<[Option<LastString>; REPEATED_STRINGS]>,
}

#[pymethods]
impl SpanCodec {
    #[new]
    fn new(py: Python<'_>, span: Py<PyType>, message: Py<PyType>) -> PyResult<Self> {
        let tuple_new = py.get_type::<PyTuple>().getattr("__new__")?.unbind();
        Ok(Self { span, message, tuple_new, empty: PyString::intern(py, "").unbind(), last: Mutex::default() })
    }

    #[pyo3(signature = (data, start, end, agreed=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        start: usize,
        end: usize,
        agreed: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, usize)> {
        let (span, at) = Span::read(data.get(..end).unwrap_or(data), start.min(end)).map_err(refused)?;
        let message = match &span.message {
            None => py.None().into_bound(py),
            Some(message) => self.carried(py, message, agreed)?,
        };
        let parts = (span.root, span.after, span.upto, message).into_pyobject(py)?;
        Ok((self.tuple_new.bind(py).call1((self.span.bind(py), parts))?, at))
    }

    /// Reads the spans that a packet begins with. Returns them, and the frames behind the last one.
    #[pyo3(signature = (kind, packet, agreed=None))]
    fn packet<'py>(
        &self,
        py: Python<'py>,
        kind: u64,
        packet: &[u8],
        agreed: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyList>, Vec<PacketFrame>)> {
        let frames = frames_in(py, packet)?;
        let spans = frames.iter().take_while(|frame| frame.kind == kind);
        let list = PyList::empty(py);
        for frame in spans {
            let (span, at) = self.read(py, packet, frame.start, frame.end, agreed)?;
            if at != frame.end {
                return Err(PyValueError::new_err(format!("{} bytes are left over", frame.end - at)));
            }
            list.append(span)?;
        }
        let rest = frames[list.len()..].iter().map(packet_frame).collect();
        Ok((list, rest))
    }

    fn fields<'py>(&self, py: Python<'py>, span: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
        with_span(span, |span| {
            let (around, target) = around_body(span);
            let (before, behind) = around.split_at(target);
            joined(py, &[before, span.body(), behind])
        })
    }

    fn frame<'py>(&self, py: Python<'py>, kind: u64, span: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
        with_span(span, |span| {
            let (around, target) = around_body(span);
            let header = twigcast_packets::frame_header(kind, around.len() + span.body().len());
            let (before, behind) = around.split_at(target);
            joined(py, &[&header, before, span.body(), behind])
        })
    }
}

impl SpanCodec {
    fn carried<'py>(
        &self,
        py: Python<'py>,
        message: &CarriedMessage<'_>,
        agreed: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let [scope, source, content_type, mut form] =
            self.repeated_strings(py, [message.scope, message.source, message.content_type, message.form]);
        let mut lexicon = py.None().into_bound(py);
        if let Some(agreed) = agreed
            && let Some(meaning) = agreed.get_item(&form)?
        {
            (form, lexicon) = meaning.extract()?;
        }
        let path = PyTuple::new(py, &message.path)?;
        let parts: [Bound<'py, PyAny>; FIELDS] = [
            message.root.into_pyobject(py)?.into_any(),
            message.number.into_pyobject(py)?.into_any(),
            scope,
            source,
            PyString::new(py, message.message_id).into_any(),
            content_type,
            PyBytes::new(py, message.body).into_any(),
            form,
            path.into_any(),
            message.published.into_pyobject(py)?.into_any(),
            match message.reduced {
                "" => self.empty.bind(py).clone().into_any(),
                reduced => PyString::new(py, reduced).into_any(),
            },
            lexicon,
        ];
        self.tuple_new.bind(py).call1((self.message.bind(py), PyTuple::new(py, parts)?))
    }

    /// Returns values as strings of Python: mostly those of the message before.
    fn repeated_strings<'py>(
        &self,
        py: Python<'py>,
        values: [&str; REPEATED_STRINGS],
    ) -> [Bound<'py, PyAny>; REPEATED_STRINGS] {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = last.iter_mut();
        values.map(|value| match kept.next() {
            Some(Some((text, string))) if text == value => string.bind(py).clone().into_any(),
            repeated => {
                let string = PyString::new(py, value);
                if let Some(target) = repeated {
                    *target = Some((value.to_owned(), string.clone().unbind()));
                }
                string.into_any()
            }
        })
    }
}

/// Writes a span without its body. Returns it, and the position of the body in it.
fn around_body(span: &Span<'_>) -> (Vec<u8>, usize) {
    let mut out = Vec::with_capacity(256);
    let target = span.write_around_body(&mut out);
    (out, target)
}

fn joined<'py>(py: Python<'py>, parts: &[&[u8]]) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, parts.iter().map(|part| part.len()).sum(), |out| {
        fill(out, parts.iter().copied());
        Ok(())
    })
}

/// Writes the fields of a message, with the name of its lexicon behind the form.
type MessageFields<'py> = (
    u64,
    i64,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyBytes>,
    Bound<'py, PyString>,
    Vec<u64>,
    f64,
    Bound<'py, PyString>,
    Option<Bound<'py, PyAny>>,
);

/// Calls `work` with the content of a span of Python.
fn with_span<'py, T>(span: &Bound<'py, PyTuple>, work: impl FnOnce(&Span<'_>) -> PyResult<T>) -> PyResult<T> {
    let (root, after, upto, message): (u64, i64, i64, Option<Bound<'py, PyTuple>>) = extracted(span)?;
    let Some(message) = message else {
        return work(&Span { root, after, upto, message: None });
    };
    let (of, number, scope, source, message_id, content_type, body, form, path, published, reduced, lexicon): MessageFields<
        'py,
    > = extracted(&message)?;
    let mut named = Cow::Borrowed(form.to_str()?);
    if let Some(lexicon) = lexicon {
        let name = lexicon.getattr(intern!(span.py(), "name"))?;
        named = Cow::Owned(format!("{named}:{}", name.cast::<PyString>()?.to_str()?));
    }
    let message = CarriedMessage {
        root: of,
        number,
        scope: scope.to_str()?,
        source: source.to_str()?,
        message_id: message_id.to_str()?,
        content_type: content_type.to_str()?,
        form: &named,
        path,
        published,
        body: body.as_bytes(),
        reduced: reduced.to_str()?,
    };
    work(&Span { root, after, upto, message: Some(message) })
}

fn extracted<'a, 'py, T>(from: &'a Bound<'py, PyTuple>) -> PyResult<T>
where
    T: FromPyObject<'a, 'py, Error = PyErr>,
{
    from.as_any().extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(from.py()) {
        true => PyValueError::new_err(format!("a number of a span is out of range: {}", error.value(from.py()))),
        false => error,
    })
}
