//! `GET /v1/prompts` of all replicas, from the pages of each.

use axum::response::Response;
use himalia_cluster::Part;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::prompts::{key_of, next_of, page_key, page_size};
use crate::error::ApiError;
use crate::etag;
use crate::relay::{ListRequest, ListedItem, MergedList, read_part, unique};

/// An object with an array, in pages.
pub(crate) const MERGED: MergedList = MergedList {
    complete: false,
    merge,
};

/// The format of `OpenPromptPage` in `prompts`.
#[derive(Serialize, Deserialize)]
struct PromptList<'a> {
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(default)]
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

fn merge(request: &ListRequest<'_>, parts: &[Part], unanswered: &[String]) -> Result<Response, ApiError> {
    let (mut all, mut end) = (Vec::new(), None);
    for part in parts {
        let part = read_part::<PromptList<'_>>(&part.bytes)?;
        let ends = part.next.as_deref().and_then(key_of);
        end = [end, ends].into_iter().flatten().min();
        all.extend(part.prompts);
    }
    // Each replica has the prompts of workflow steps.
    let (mut prompts, limit) = (unique(all), page_size(request.uri));
    // A part can end before its limit. The prompts of other parts behind that place are on the next page, with the rest of that part.
    prompts.retain(|prompt| end.as_ref().is_none_or(|end| page_order(prompt) <= *end));
    prompts.sort_by_cached_key(|prompt| page_order(prompt));
    if prompts.len() > limit {
        prompts.truncate(limit);
        end = prompts.last().map(|last| page_order(last));
    }
    let next = end.as_deref().map(next_of);
    prompts.sort_by_cached_key(|prompt| order(prompt));
    let unanswered = unanswered.to_vec();
    let merged = PromptList {
        prompts,
        next,
        unanswered,
    };
    etag::json(request.headers, &merged)
}

/// The key that orders the prompts of a page.
fn order(prompt: &RawValue) -> String {
    ListedItem::of(prompt).map_or_else(String::new, |listed| {
        format!("{} {}", listed.created.unwrap_or_default(), listed.id)
    })
}

/// The key that orders the pages.
fn page_order(prompt: &RawValue) -> String {
    ListedItem::of(prompt).map_or_else(String::new, |listed| {
        page_key(listed.turn, &listed.created.unwrap_or_default(), &listed.id)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::relay::testing::{ids, merged};

    #[tokio::test]
    async fn prompts_are_in_order_and_those_of_steps_are_there_once() {
        let parts = [
            r#"{"prompts":[{"id":"prm_b","created":"2026-01-02"},{"id":"prs_c","created":"2026-01-03"}]}"#,
            r#"{"prompts":[{"id":"prm_a","created":"2026-01-01"},{"id":"prs_c","created":"2026-01-03"}]}"#,
        ];
        let all = merged(MERGED, "/", &parts, &["r3"]).await;
        assert_eq!(ids(&all["prompts"]), ["prm_a", "prm_b", "prs_c"]);
        assert_eq!((&all["unanswered"], &all["next"]), (&json!(["r3"]), &Value::Null));
    }

    /// The page of the parts: ids, and the key of `next`.
    async fn page_of(parts: &[Value], uri: &str) -> (Vec<String>, Option<String>) {
        let parts: Vec<_> = parts.iter().map(Value::to_string).collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let all = merged(MERGED, uri, &parts, &[]).await;
        let ids = ids(&all["prompts"]).into_iter().map(str::to_owned).collect();
        (ids, all["next"].as_str().and_then(key_of))
    }

    #[tokio::test]
    async fn a_page_of_prompts_ends_where_one_of_its_parts_does() {
        let one = |id: &str, day: u8| json!({ "id": id, "created": format!("2026-01-0{day}") });
        let next = next_of("0000000000 2026-01-02 prm_c");
        let full = json!({ "prompts": [one("prm_a", 1), one("prm_c", 2)], "next": next });
        let other = json!({ "prompts": [one("prm_b", 1), one("prm_d", 3)] });
        // The first part has more, which may be before what the second one has.
        let wanted = ["prm_a", "prm_b", "prm_c"].map(str::to_owned).to_vec();
        let end = |key: &str| Some(format!("0000000000 2026-01-0{key}"));
        let parts = [full.clone(), other.clone()];
        assert_eq!(
            page_of(&parts, "/?limit=9").await,
            (wanted.clone(), end("2 prm_c"))
        );
        assert_eq!(
            page_of(&parts, "/?limit=2").await,
            (wanted[..2].to_vec(), end("1 prm_b"))
        );
        // All of its page have ended meanwhile.
        let ended = json!({ "prompts": [], "next": next_of("0000000000 2026-01-01 prm_a") });
        assert_eq!(
            page_of(&[ended, other.clone()], "/?limit=9").await,
            (vec![], end("1 prm_a"))
        );
        let ids = ["prm_b", "prm_d"].map(str::to_owned).to_vec();
        assert_eq!(page_of(&[other], "/?limit=9").await, (ids, None));
    }

    #[tokio::test]
    async fn a_page_of_prompts_has_low_turns_first_and_is_in_order_of_time() {
        let parts = [
            r#"{"prompts":[{"id":"prm_b","created":"2026-01-02","turn":1},{"id":"prm_c","created":"2026-01-04"}]}"#,
            r#"{"prompts":[{"id":"prm_a","created":"2026-01-01","turn":2},{"id":"prm_d","created":"2026-01-05"}]}"#,
        ];
        let all = merged(MERGED, "/?limit=3", &parts, &[]).await;
        assert_eq!(ids(&all["prompts"]), ["prm_b", "prm_c", "prm_d"]);
        assert_eq!(all["next"], next_of("0000000001 2026-01-02 prm_b"));
    }
}
