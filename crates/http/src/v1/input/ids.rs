//! Ids in paths.

use himalia_engine::EngineError;
use uuid::Uuid;

/// Asks by the id in a path. A text that is no id is that of nothing, once the caller may know; the error has the text.
pub(crate) async fn by_id<T>(
    text: String,
    ask: impl AsyncFnOnce(Uuid) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let asked = ask(Uuid::try_parse(&text).unwrap_or(Uuid::nil())).await;
    asked.map_err(|error| match error {
        EngineError::NotFound { what, .. } => EngineError::NotFound { what, id: text },
        other => other,
    })
}
