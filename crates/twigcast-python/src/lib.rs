//! Python bindings of twigcast-core: conversion only. `python/twigcast/_core.pyi` documents what is here.

mod answer;
mod arrow_export;
mod batch;
mod batch_result;
mod borrowed_bytes;
mod buffers;
mod engine;
mod engine_handle;
mod errors;
mod events;
mod external;
mod functions;
mod key_objects;
mod keys;
mod limits;
mod locks;
mod ordered_output;
mod packets;
mod parameters;
mod payloads;
mod queries;
mod reading;
mod record_matching;
mod registration;
mod results;
mod routing;
mod simd;
mod stream;
mod yielding;

use pyo3::prelude::*;

/// The module `twigcast._core`.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::answer::Answer;
    #[pymodule_export]
    use super::batch_result::BatchResult;
    #[pymodule_export]
    use super::buffers::NumberBuffer;
    #[pymodule_export]
    use super::engine::{SelectedNode, ThrottledSubscription};
    #[pymodule_export]
    use super::engine_handle::Engine;
    #[pymodule_export]
    use super::events::{scan_events, scan_nodes};
    #[pymodule_export]
    use super::external::ExternalMatch;
    #[pymodule_export]
    use super::functions::{XPathFunction, functions};
    #[pymodule_export]
    use super::keys::KeyTable;
    #[pymodule_export]
    use super::packets::{PacketFrame, SpanCodec, packet_of};
    #[pymodule_export]
    use super::queries::{QueryCheck, check, condition_tree, parse_tree, truth_without_nodes};
    #[pymodule_export]
    use super::reading::{Declarations, RecordCutter, expand};
    #[pymodule_export]
    use super::registration::AddOutcome;
    #[pymodule_export]
    use super::results::Results;
    #[pymodule_export]
    use super::routing::{ConjunctionIndex, LabelRequest};
    #[pymodule_export]
    use super::stream::{NameDictionary, ParsedMessage};
    #[pymodule_export]
    use super::yielding::yielded_seconds;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        simd::choose();
        locks::install()?;
        module.add("PACKET_FORM", twigcast_packets::FORM)?;
        module.add("PACKET_BYTES_MAX", twigcast_packets::PACKET_BYTES_MAX)?;
        module.add("PACKET_FRAMES_MAX", twigcast_packets::FRAMES_MAX)?;
        module.add("BODY_BYTES_MAX", twigcast_packets::BODY_BYTES_MAX)?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))
    }
}
