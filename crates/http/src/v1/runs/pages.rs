//! `GET /v1/runs` of all replicas, from the pages of each.

use axum::response::Response;
use himalia_cluster::Part;
use himalia_runs::RunPlace;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{next_of, page_size, place_of_next};
use crate::error::ApiError;
use crate::etag;
use crate::relay::{ListRequest, ListedItem, MergedList, read_part, unique};

/// An object with an array, in pages.
pub(crate) const MERGED: MergedList = MergedList {
    complete: false,
    merge,
};

/// The format of `RunPage` in `runs`.
#[derive(Serialize, Deserialize)]
struct RunList<'a> {
    #[serde(borrow)]
    runs: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

fn merge(request: &ListRequest<'_>, parts: &[Part], unanswered: &[String]) -> Result<Response, ApiError> {
    let (mut all, mut end) = (Vec::new(), None);
    for part in parts {
        let part = read_part::<RunList<'_>>(&part.bytes)?;
        all.extend(part.runs);
        // Runs behind the end of a part that has a next page are on a later page.
        end = end.max(part.next.as_deref().and_then(place_of_next));
    }
    // Each replica has the rows of workflows and triggers.
    let mut placed: Vec<(RunPlace, &RawValue)> = unique(all)
        .into_iter()
        .filter_map(|run| Some((place(run)?, run)))
        .filter(|(place, _)| end.as_ref().is_none_or(|end| place >= end))
        .collect();
    placed.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    let limit = page_size(request.uri);
    if placed.len() > limit {
        placed.truncate(limit);
        end = placed.last().map(|(place, _)| place.clone());
    }
    let merged = RunList {
        runs: placed.into_iter().map(|(_, run)| run).collect(),
        next: end.as_ref().map(next_of),
        unanswered: unanswered.to_vec(),
    };
    etag::json(request.headers, &merged)
}

/// The place of a run in the list.
fn place(run: &RawValue) -> Option<RunPlace> {
    let listed = ListedItem::of(run)?;
    let created = OffsetDateTime::parse(&listed.created?, &Rfc3339).ok()?;
    Some(RunPlace {
        created_micros: i64::try_from(created.unix_timestamp_nanos() / 1000).ok()?,
        id: listed.id,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;
    use crate::relay::testing::{ids, merged};

    fn run(at: u32, id: &str) -> Value {
        json!({"id": id, "created": format!("2026-01-01T00:00:00.{at:06}Z")})
    }

    fn cursor(at: u32, id: &str) -> String {
        next_of(&place(&to_raw_value(&run(at, id)).unwrap()).unwrap())
    }

    async fn page_of(parts: &[Value], uri: &str) -> (Vec<String>, Option<String>) {
        let parts: Vec<_> = parts.iter().map(Value::to_string).collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let all = merged(MERGED, uri, &parts, &["r3"]).await;
        assert_eq!(all["unanswered"], json!(["r3"]));
        let ids = ids(&all["runs"]).into_iter().map(str::to_owned).collect();
        (ids, all["next"].as_str().map(str::to_owned))
    }

    #[tokio::test]
    async fn runs_are_merged_up_to_the_end_of_the_shortest_part() {
        let page = |ids: &[&str], next: Option<String>| {
            let ids: Vec<_> = ids.iter().map(|&id| id.to_owned()).collect();
            (ids, next)
        };
        let whole = json!({"runs": [run(9, "c"), run(5, "row"), run(1, "a")], "next": null});
        let other = json!({"runs": [run(7, "b"), run(5, "row")], "next": null});
        let found = page_of(&[whole.clone(), other.clone()], "/v1/runs").await;
        assert_eq!(found, page(&["c", "b", "row", "a"], None));
        let found = page_of(&[whole.clone(), other], "/v1/runs?limit=2").await;
        assert_eq!(found, page(&["c", "b"], Some(cursor(7, "b"))));
        // Between 5 and 1 the second one may have more.
        let more = json!({"runs": [run(7, "b"), run(5, "row")], "next": cursor(5, "row")});
        let found = page_of(&[whole.clone(), more], "/v1/runs").await;
        assert_eq!(found, page(&["c", "b", "row"], Some(cursor(5, "row"))));
        // A page that the filters have left empty has a next one all the same.
        let empty = json!({"runs": [], "next": cursor(8, "x")});
        let found = page_of(&[whole, empty], "/v1/runs?status=failed").await;
        assert_eq!(found, page(&["c"], Some(cursor(8, "x"))));
    }
}
