//! Element streams: parsed messages as bytes.

use std::collections::BTreeMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use twigcast_core::document::{Document, Message};
use twigcast_core::error::{MessageError, MessageErrorKind};
use twigcast_core::limits::Limits;
use twigcast_core::scan::{ScanOptions, Scanner};
use twigcast_core::stream::decode::{CheckLevel, DecodeOptions, Decoder};
use twigcast_core::stream::dictionary::Dictionary;
use twigcast_core::stream::encode::{NameEncoding, encode, encode_naming};
use twigcast_core::stream::text::{TextTooLong, text};
use twigcast_core::vocabulary::Vocabulary;

use crate::{errors, limits};

/// A list of names that both ends of a link know. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct NameDictionary {
    names: Dictionary,
}

#[pymethods]
impl NameDictionary {
    #[new]
    fn new(names: Vec<String>) -> PyResult<Self> {
        let names = Dictionary::new(names.iter().map(String::as_str));
        Ok(Self { names: names.map_err(|reason| PyValueError::new_err(reason.to_string()))? })
    }

    #[getter]
    fn id(&self) -> u64 {
        self.names.id()
    }

    fn __len__(&self) -> usize {
        self.names.len()
    }
}

/// Hands `work` the dictionary to read with.
pub fn with_dictionary<T>(input: Option<&NameDictionary>, work: impl FnOnce(&Dictionary) -> T) -> T {
    match input {
        Some(input) => work(&input.names),
        None => work(Dictionary::none()),
    }
}

/// A parsed message, to be written in any form. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct ParsedMessage {
    source: Vec<u8>,
    document: Document,
    bytes_max: usize,
}

impl ParsedMessage {
    fn message(&self) -> Message<'_> {
        Message { source: &self.source, document: &self.document }
    }
}

#[pymethods]
impl ParsedMessage {
    #[staticmethod]
    #[pyo3(signature = (xml, limits=BTreeMap::new()))]
    fn from_text(py: Python<'_>, xml: &[u8], limits: BTreeMap<String, usize>) -> PyResult<Self> {
        let limits = limits::limits(&limits)?;
        py.detach(|| {
            let mut document = Document::default();
            Scanner::new().scan(xml, &Vocabulary::new(), &limits, ScanOptions::ALL, &mut document)?;
            Ok(Self { source: xml.to_vec(), document, bytes_max: limits.message_bytes_max })
        })
        .map_err(|error| errors::message(py, &error))
    }

    #[staticmethod]
    #[pyo3(signature = (stream, dictionary=None, limits=BTreeMap::new()))]
    fn from_stream(
        py: Python<'_>,
        stream: &[u8],
        dictionary: Option<&NameDictionary>,
        limits: BTreeMap<String, usize>,
    ) -> PyResult<Self> {
        let limits = limits::limits(&limits)?;
        py.detach(|| with_dictionary(dictionary, |dictionary| read(stream, dictionary, &limits)))
            .map_err(|error| errors::message(py, &error))
    }

    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.bytes_max;
        let written = py.detach(|| text(self.message(), value)).map_err(|TextTooLong(_)| MessageError {
            kind: MessageErrorKind::Limit { limit: "message_bytes_max", value },
            reason: format!("the text of the message has more bytes than the limit message_bytes_max allows ({value})"),
            line: 1,
            column: 1,
        });
        Ok(PyBytes::new(py, &written.map_err(|error| errors::message(py, &error))?))
    }

    #[pyo3(signature = (dictionary=None, in_full=false))]
    fn stream<'py>(
        &self,
        py: Python<'py>,
        dictionary: Option<&NameDictionary>,
        in_full: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let names = match (dictionary, in_full) {
            (Some(_), true) => {
                return Err(PyValueError::new_err("names are written in full or by a dictionary, not both"));
            }
            (Some(dictionary), false) => NameEncoding::By(&dictionary.names),
            (None, true) => NameEncoding::InFull,
            (None, false) => NameEncoding::Once,
        };
        Ok(PyBytes::new(py, &py.detach(|| encode(self.message(), names))))
    }

    fn stream_and_names<'py>(
        &self,
        py: Python<'py>,
        dictionary: &NameDictionary,
    ) -> (Bound<'py, PyBytes>, Vec<String>) {
        let (stream, names) = py.detach(|| {
            let (stream, names) = encode_naming(self.message(), NameEncoding::By(&dictionary.names));
            (stream, names.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
        });
        (PyBytes::new(py, &stream), names)
    }
}

fn read(stream: &[u8], dictionary: &Dictionary, limits: &Limits) -> Result<ParsedMessage, MessageError> {
    let (mut decoder, mut document, vocabulary) = (Decoder::new(), Document::default(), Vocabulary::new());
    let reading = DecodeOptions {
        dictionary,
        vocabulary: &vocabulary,
        identity: 0,
        limits,
        record: ScanOptions::ALL,
        checks: CheckLevel::All,
    };
    decoder.decode(stream, reading, &mut document)?;
    Ok(ParsedMessage { source: decoder.source().to_vec(), document, bytes_max: limits.message_bytes_max })
}
