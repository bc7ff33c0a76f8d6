//! Tests of the evaluator: tables of document, query, answer.

mod numbers;
