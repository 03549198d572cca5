//! Translates errors of the store for callers. Its text is for the operator, so it goes to the log.

use himalia_model::EngineError;
use himalia_store::StoreError;

/// Error for a read or a write that failed. A gateway that has lost its lease, or a session, has written nothing: the same call may succeed at
/// another gateway.
pub fn not_stored(context: &str, error: StoreError) -> EngineError {
    let reason = match &error {
        StoreError::LeaseLost => "this gateway has lost its lease and ends",
        StoreError::Fenced { .. } => "another gateway has taken the session",
        _ => return EngineError::internal(context, error),
    };
    tracing::warn!(%error, "{context}");
    EngineError::unavailable(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_gateway_can_do_is_worth_another_try() {
        let fenced = StoreError::Fenced {
            id: uuid::Uuid::nil(),
            held: Some(1),
            current: 2,
        };
        for (error, code) in [
            (StoreError::LeaseLost, "unavailable"),
            (fenced, "unavailable"),
            (StoreError::Closed, "internal"),
        ] {
            let error = not_stored("writing a row", error);
            assert_eq!((error.code(), error.retryable()), (code, code == "unavailable"));
            assert_eq!(error.retry_after_s().is_some(), code == "unavailable");
        }
    }
}
