//! Limits that keep hostile messages and queries from exhausting a machine. Each names itself when it is hit.

/// Limits of one engine. `Default` gives safe values for feeds of news, alerts and business documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message. At most `u32::MAX - 1`, since nodes keep 32-bit offsets.
    pub message_bytes_max: usize,
    /// Open elements at one time.
    pub depth_max: usize,
    /// Attributes and namespace declarations of one start tag.
    pub attributes_max: usize,
    /// Bytes of one query's text.
    pub query_bytes_max: usize,
    /// Steps of one query, nested paths included. A path that a list compares with many values counts once.
    pub query_steps_max: usize,
    /// Nesting of brackets and parentheses in one query.
    pub query_nesting_max: usize,
    /// Bytes that the lazily built automata and memo tables may take, per matching thread.
    pub cache_bytes_max: usize,
    /// Nodes that one query may look at in one message where it is evaluated by itself.
    pub query_visits_max: usize,
    /// Bytes of one For-Where-Return result.
    pub result_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 256 << 20,
            depth_max: 2_000,
            attributes_max: 10_000,
            query_bytes_max: 1_000_000,
            query_steps_max: 1_000,
            query_nesting_max: 100,
            cache_bytes_max: 64 << 20,
            query_visits_max: 10_000_000,
            result_bytes_max: 256 << 20,
        }
    }
}
