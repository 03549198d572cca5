//! Errors in the form that Azure's clients read: `{"error": {"code", "message"}}`.

use himalia_facade::Shape;
use serde_json::{Value, json};

/// Errors of this facade.
pub(crate) type Failure = himalia_facade::Failure<Azure>;

/// The form of Azure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Azure;

impl Shape for Azure {
    fn body(failure: &Failure) -> Value {
        json!({ "error": { "code": failure.code, "message": failure.message } })
    }
}
