//! Messages on their way in: document types, and records of large documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use twigcast_core::records::cutter::{CutOptions, Cutter, RecordLocation};
use twigcast_core::records::names::{InheritedName, RecordNames};
use twigcast_core::records::record_id::IdPath;
use twigcast_core::records::skim::SplitPoint;
use twigcast_core::scan::dtd::expand::{OtherDeclarations, expand as expand_message};

use crate::buffers::NumberBuffer;
use crate::{errors, limits};

/// Declarations outside of messages. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct Declarations(Arc<twigcast_core::scan::dtd::Declarations>);

#[pymethods]
impl Declarations {
    #[new]
    fn new(
        texts: Vec<(String, String)>,
        external: Vec<(String, String)>,
        attributes: Vec<(String, String, String, Option<String>)>,
    ) -> Self {
        let mut declarations = twigcast_core::scan::dtd::Declarations::default();
        texts.iter().for_each(|(name, text)| declarations.add_text(name, text));
        external.iter().for_each(|(name, system)| declarations.add_external(name, system));
        for (element, name, kind, default) in &attributes {
            declarations.add_attribute(element, name, kind, default.as_deref());
        }
        Self(Arc::new(declarations))
    }
}

/// Returns a message with its entities expanded, and what remains of its DOCTYPE. See the stub file.
#[pyfunction]
#[pyo3(signature = (xml, limits, *, external=None, sets=None, uses_sets=false))]
pub fn expand<'py>(
    py: Python<'py>,
    xml: &[u8],
    limits: BTreeMap<String, usize>,
    external: Option<Py<Declarations>>,
    sets: Option<Py<Declarations>>,
    uses_sets: bool,
) -> PyResult<(Bound<'py, PyBytes>, usize, usize)> {
    let limits = limits::limits(&limits)?;
    let expanded = py.detach(|| {
        let (external, sets) = (external.as_ref().map(|d| &*d.get().0), sets.as_ref().map(|d| &*d.get().0));
        expand_message(xml, OtherDeclarations { external, sets, uses_sets }, &limits)
    });
    expanded
        .map(|message| (PyBytes::new(py, &message.xml), message.remains.start, message.remains.end))
        .map_err(|error| errors::message(py, &error))
}

/// Returns how a fault in the value of an option is raised: with the name of that option.
fn of_option(option: &'static str) -> impl Fn(String) -> PyErr {
    move |reason| PyValueError::new_err((option, reason))
}

/// Records: their bytes one after the other, 64-bit offsets as of an Arrow array, errors by index, ids, and the columns of
/// their places one after the other.
type RecordFields = (Py<NumberBuffer>, Py<NumberBuffer>, Vec<(usize, PyErr)>, Vec<Option<String>>, Py<NumberBuffer>);

/// The fields of a [`SplitPoint`].
type SplitFields<'py> = (u64, u64, u32, u32, Bound<'py, PyBytes>);

/// Cuts documents into records. See the stub file.
///
/// The cutter has memory of its own: it wants to be aligned to more bytes than objects of Python are.
#[pyclass(module = "twigcast._core")]
pub struct RecordCutter(pub Box<Cutter>);

#[pymethods]
impl RecordCutter {
    #[new]
    #[pyo3(signature = (record, limits, *, documents, inherit, record_id, external, sets, uses_sets))]
    #[expect(clippy::too_many_arguments, reason = "they are the options of a function in Python")]
    fn new(
        record: Option<&str>,
        limits: BTreeMap<String, usize>,
        documents: bool,
        inherit: Vec<String>,
        record_id: Option<&str>,
        external: Option<Py<Declarations>>,
        sets: Option<Py<Declarations>>,
        uses_sets: bool,
    ) -> PyResult<Self> {
        Ok(Self(Box::new(Cutter::new(CutOptions {
            records: record.map(RecordNames::parse).transpose().map_err(of_option("record"))?,
            documents,
            inherit: inherit
                .iter()
                .map(|name| InheritedName::parse(name))
                .collect::<Result<_, _>>()
                .map_err(of_option("inherit"))?,
            id: record_id.map(IdPath::parse).transpose().map_err(of_option("record_id"))?,
            external: external.map(|declarations| Arc::clone(&declarations.get().0)),
            sets: sets.map(|declarations| Arc::clone(&declarations.get().0)),
            uses_sets,
            limits: limits::limits(&limits)?,
        }))))
    }

    #[getter]
    fn pending(&self) -> usize {
        self.0.pending()
    }

    #[getter]
    fn position(&self) -> (u32, u32) {
        self.0.end()
    }

    #[getter]
    fn is_halted(&self) -> bool {
        self.0.is_halted()
    }

    #[getter]
    fn inherited(&self) -> Vec<usize> {
        self.0.inherited().collect()
    }

    #[pyo3(signature = (*, is_alone))]
    fn take_back<'py>(&mut self, py: Python<'py>, is_alone: bool) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.take_back(is_alone))
    }

    fn abandon(&mut self, reason: String) {
        self.0.abandon(reason);
    }

    #[pyo3(signature = (chunk, *, last=false))]
    fn feed(&mut self, py: Python<'_>, chunk: &[u8], last: bool) -> PyResult<RecordFields> {
        let cutter = &mut self.0;
        let (cut, offsets, places) = py.detach(|| {
            let cut = cutter.feed(chunk, last);
            let offsets: Vec<u64> = std::iter::once(0).chain(cut.ends.iter().map(|&end| end as u64)).collect();
            let column = |field: fn(&RecordLocation) -> u64| cut.places.iter().map(field);
            let places: Vec<u64> = column(|place| place.line.into())
                .chain(column(|place| place.column.into()))
                .chain(column(|place| place.added.into()))
                .chain(column(|place| place.offset))
                .chain(column(|place| place.length))
                .collect();
            (cut, offsets, places)
        });
        let errors = cut.errors.iter().map(|(index, error)| (*index, errors::message(py, error))).collect();
        let data = NumberBuffer::lend(py, cut.data)?;
        Ok((data, NumberBuffer::lend(py, offsets)?, errors, cut.ids, NumberBuffer::lend(py, places)?))
    }

    #[pyo3(signature = (chunk, every, *, last=false))]
    fn skim<'py>(&mut self, py: Python<'py>, chunk: &[u8], every: u64, last: bool) -> Vec<SplitFields<'py>> {
        let cutter = &mut self.0;
        let points = py.detach(|| cutter.skim(chunk, every, last));
        let fields = |point: SplitPoint| {
            let around = PyBytes::new(py, &point.around);
            (point.offset, point.records, point.line, point.column, around)
        };
        points.into_iter().map(fields).collect()
    }

    fn resume(&mut self, offset: u64, records: u64, line: u32, column: u32, around: Vec<u8>) {
        self.0.resume(&SplitPoint { offset, records, line, column, around });
    }
}
