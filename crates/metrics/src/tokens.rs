//! Requests for tokens of credentials.

use crate::describe::{Catalog, Counters};

/// By what became of them.
#[derive(Clone, Debug)]
pub struct TokenRequests(Counters<1>);

impl TokenRequests {
    pub(crate) fn new(catalog: &mut Catalog) -> Self {
        Self(catalog.counters(
            "himalia_token_requests_total",
            "Requests to authorization servers for tokens of credentials, by outcome",
            ["outcome"],
            &["got", "refused", "failed"].map(|outcome| [outcome]),
        ))
    }

    /// A request has ended: `got`, `refused`, `failed`.
    pub fn ended(&self, outcome: &'static str) {
        self.0.inc([outcome]);
    }
}
