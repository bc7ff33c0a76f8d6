//! The rows of the core's table of XPath functions.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use twigcast_core::query::functions::{ContextUse, Dependence, FUNCTIONS, FunctionFacts, ValueWithoutNodes};

/// The facts of one function. See the stub file.
#[pyclass(frozen, module = "twigcast._core")]
pub struct XPathFunction(&'static FunctionFacts);

#[pymethods]
impl XPathFunction {
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    #[getter]
    fn usage(&self) -> &'static str {
        self.0.usage
    }

    #[getter]
    fn result_type(&self) -> &'static str {
        self.0.result_type.name()
    }

    #[getter]
    fn arguments_min(&self) -> usize {
        self.0.arguments_min
    }

    #[getter]
    fn arguments_max(&self) -> Option<usize> {
        (self.0.arguments_max != usize::MAX).then_some(self.0.arguments_max)
    }

    #[getter]
    fn takes_node_set(&self) -> bool {
        self.0.takes_node_set
    }

    #[getter]
    fn has_implicit_context(&self) -> bool {
        self.0.context == ContextUse::WithoutArgument
    }

    #[getter]
    fn without_nodes<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0
            .without_nodes
            .map(|value| match value {
                ValueWithoutNodes::Boolean(truth) => truth.into_bound_py_any(py),
                ValueWithoutNodes::Number(number) => number.into_bound_py_any(py),
                ValueWithoutNodes::EmptyString => "".into_bound_py_any(py),
                ValueWithoutNodes::Nothing => PyTuple::empty(py).into_bound_py_any(py),
            })
            .transpose()
    }

    #[getter]
    fn uses_first_node(&self) -> bool {
        self.0.uses_first_node
    }

    #[getter]
    fn is_positional(&self) -> bool {
        self.0.depends_on != Dependence::Node
    }

    #[getter]
    fn looks_elsewhere(&self) -> bool {
        self.0.looks_elsewhere
    }

    #[getter]
    fn is_of_xpath_1(&self) -> bool {
        self.0.is_of_xpath_1
    }

    fn __repr__(&self) -> String {
        format!("<XPathFunction {}>", self.0.usage)
    }
}

/// Returns the rows of all functions that are called by their names.
#[pyfunction]
pub fn functions() -> Vec<XPathFunction> {
    FUNCTIONS.iter().filter(|row| !row.is_operator).map(XPathFunction).collect()
}
