//! `GET /v1/sessions` of all replicas, from the pages of each.

use axum::response::Response;
use himalia_cluster::Part;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::sessions::{next_of, page_key, page_size};
use crate::error::ApiError;
use crate::etag;
use crate::relay::{ListRequest, ListedItem, MergedList, read_part, unique};

/// An object with an array, in pages.
pub(crate) const MERGED: MergedList = MergedList {
    complete: false,
    merge,
};

/// The format of `SessionPage` in `sessions`.
#[derive(Serialize, Deserialize)]
struct SessionPage<'a> {
    #[serde(borrow)]
    sessions: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

fn merge(request: &ListRequest<'_>, parts: &[Part], unanswered: &[String]) -> Result<Response, ApiError> {
    let (mut all, mut more, limit) = (Vec::new(), false, page_size(request.uri));
    for part in parts {
        let part = read_part::<SessionPage<'_>>(&part.bytes)?;
        more |= part.next.is_some();
        all.extend(part.sessions);
    }
    let mut sessions = unique(all);
    sessions.sort_by_cached_key(|session| order(session));
    // Each part is a page. The sessions behind the end of the merged page are on its next page.
    more |= sessions.len() > limit;
    sessions.truncate(limit);
    let last = sessions.last().filter(|_| more).map(|last| next_of(&order(last)));
    let unanswered = unanswered.to_vec();
    let merged = SessionPage {
        sessions,
        next: last,
        unanswered,
    };
    etag::json(request.headers, &merged)
}

/// The sessions of the parts of other replicas.
pub(crate) fn sessions_of(parts: &[Part]) -> Result<Vec<Value>, ApiError> {
    let mut sessions = Vec::new();
    for part in parts {
        for session in read_part::<SessionPage<'_>>(&part.bytes)?.sessions {
            sessions.push(read_part(session.get().as_bytes())?);
        }
    }
    Ok(sessions)
}

/// The key that orders the sessions.
fn order(session: &RawValue) -> String {
    ListedItem::of(session).map_or_else(String::new, |listed| {
        page_key(
            &listed.id,
            &listed.created.unwrap_or_default(),
            listed.ended.as_deref(),
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::relay::testing::{ids, merged};

    #[tokio::test]
    async fn sessions_are_in_order_of_their_start() {
        let parts = [
            r#"{"sessions":[{"id":"a","created":"2026-01-03"}]}"#,
            r#"{"sessions":[{"id":"b","created":"2026-01-01"},{"id":"c","created":"2026-01-05"}]}"#,
        ];
        let all = merged(MERGED, "/", &parts, &["r2"]).await;
        assert_eq!(
            (ids(&all["sessions"]), &all["unanswered"]),
            (vec!["b", "a", "c"], &json!(["r2"]))
        );
        assert_eq!(all["next"], Value::Null);
        // A merged page is no longer than one of its parts; the rest is on the next one.
        let page = merged(MERGED, "/?limit=2", &parts, &[]).await;
        assert_eq!(page["sessions"].as_array().unwrap().len(), 2);
        assert_eq!(page["next"], next_of("2026-01-03 a"));
        let ended = [
            r#"{"sessions":[{"id":"a","created":"1","ended":"2"}]}"#,
            r#"{"sessions":[{"id":"b","created":"1","ended":"3"}]}"#,
        ];
        let all = merged(MERGED, "/", &ended, &[]).await;
        assert_eq!(ids(&all["sessions"]), ["b", "a"]);
        assert_eq!(all.get("unanswered"), None);
    }
}
