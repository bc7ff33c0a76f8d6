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
    /// Visits of one query in one message, where it is evaluated by itself; what the message's size adds to
    /// `message_visits_max` comes on top.
    pub query_visits_max: usize,
    /// Visits of all queries together in one message, of about 5 ns each; 128 for each of its nodes and 32 for each 64 bytes
    /// come on top.
    pub message_visits_max: usize,
    /// The same for the queries of each group of subscriptions, of those that are evaluated by themselves.
    pub group_visits_max: usize,
    /// Messages on which a query may overrun before it is set aside for some messages; 0: it never is.
    pub overruns_max: usize,
    /// Bytes of one For-Where-Return result.
    pub result_bytes_max: usize,
    /// Bytes of the different results of one message together.
    pub message_result_bytes_max: usize,
}

impl Limits {
    /// Returns what one query may visit in a message whose size adds so many visits.
    pub fn query_visits(&self, visits_of_size: u64) -> u64 {
        visits_of_size.saturating_add(self.query_visits_max as u64)
    }
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
            message_visits_max: 10_000_000,
            group_visits_max: 10_000_000,
            overruns_max: 3,
            result_bytes_max: 256 << 20,
            message_result_bytes_max: 1 << 30,
        }
    }
}
