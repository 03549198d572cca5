//! The pages of lists of all replicas, from the pages of each.

use std::collections::HashSet;

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use himalia_cluster::Part;
use himalia_engine::RunPlace;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::served_at::MergedList;
use crate::error::ApiError;
use crate::etag;
use crate::facades::e2b;
use crate::v1::sessions::{next_of, page_key, page_size};
use crate::v1::{prompts, runs};

/// Merges the parts of a list. The headers and the address are those of the client's request.
pub(super) fn merge(
    list: MergedList,
    (client_headers, uri): (&HeaderMap, &Uri),
    parts: &[Part],
    unanswered: &[String],
) -> Result<Response, ApiError> {
    match list {
        MergedList::Jupyter => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(read::<Vec<&RawValue>>(&part.bytes)?);
            }
            etag::json(client_headers, &once(all))
        }
        MergedList::Sessions => {
            let (mut all, mut more, limit) = (Vec::new(), false, page_size(uri));
            for part in parts {
                let part = read::<SessionPage<'_>>(&part.bytes)?;
                more |= part.next.is_some();
                all.extend(part.sessions);
            }
            let mut sessions = once(all);
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
            etag::json(client_headers, &merged)
        }
        MergedList::Prompts => {
            let (mut all, mut end) = (Vec::new(), None);
            for part in parts {
                let part = read::<PromptList<'_>>(&part.bytes)?;
                let ends = part.next.as_deref().and_then(prompts::key_of);
                end = [end, ends].into_iter().flatten().min();
                all.extend(part.prompts);
            }
            // Each replica has the prompts of workflow steps.
            let (mut prompts, limit) = (once(all), prompts::page_size(uri));
            // A part can end before its limit. The prompts of other parts behind that place are on the next page, with the rest of that part.
            prompts.retain(|prompt| end.as_ref().is_none_or(|end| prompt_order(prompt) <= *end));
            prompts.sort_by_cached_key(|prompt| prompt_order(prompt));
            if prompts.len() > limit {
                prompts.truncate(limit);
                end = prompts.last().map(|last| prompt_order(last));
            }
            let next = end.as_deref().map(prompts::next_of);
            prompts.sort_by_cached_key(|prompt| order(prompt));
            let unanswered = unanswered.to_vec();
            let merged = PromptList {
                prompts,
                next,
                unanswered,
            };
            etag::json(client_headers, &merged)
        }
        MergedList::Runs => {
            let (mut all, mut end) = (Vec::new(), None);
            for part in parts {
                let part = read::<RunList<'_>>(&part.bytes)?;
                all.extend(part.runs);
                // Runs behind the end of a part that has a next page are on a later page.
                end = end.max(part.next.as_deref().and_then(runs::place_of_next));
            }
            // Each replica has the rows of workflows and triggers.
            let mut placed: Vec<(RunPlace, &RawValue)> = once(all)
                .into_iter()
                .filter_map(|run| Some((run_place(run)?, run)))
                .filter(|(place, _)| end.as_ref().is_none_or(|end| place >= end))
                .collect();
            placed.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
            let limit = runs::page_size(uri);
            if placed.len() > limit {
                placed.truncate(limit);
                end = placed.last().map(|(place, _)| place.clone());
            }
            let merged = RunList {
                runs: placed.into_iter().map(|(_, run)| run).collect(),
                next: end.as_ref().map(runs::next_of),
                unanswered: unanswered.to_vec(),
            };
            etag::json(client_headers, &merged)
        }
        MergedList::Sandboxes => {
            let parts = parts.iter();
            let parts = parts.map(|part| (&*part.bytes, part.headers.contains_key(e2b::NEXT)));
            e2b::merge(uri, parts)
        }
        MergedList::Status => {
            let statuses: Result<Vec<Status>, _> = parts.iter().map(|part| read(&part.bytes)).collect();
            etag::json(client_headers, &sum(&statuses?))
        }
    }
}

/// The sessions of the parts of `/v1/sessions`.
pub(super) fn sessions_of(parts: &[Part]) -> Result<Vec<Value>, ApiError> {
    let mut sessions = Vec::new();
    for part in parts {
        for session in read::<SessionPage<'_>>(&part.bytes)?.sessions {
            sessions.push(read(session.get().as_bytes())?);
        }
    }
    Ok(sessions)
}

fn read<'a, T: Deserialize<'a>>(part: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(part).map_err(|_| ApiError::internal("reading the list of a replica"))
}

/// The format of `v1::sessions::SessionPage`.
#[derive(Serialize, Deserialize)]
struct SessionPage<'a> {
    #[serde(borrow)]
    sessions: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// The format of `v1::prompts::OpenPrompts`.
#[derive(Serialize, Deserialize)]
struct PromptList<'a> {
    #[serde(borrow)]
    prompts: Vec<&'a RawValue>,
    #[serde(default)]
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// The format of `v1::runs::RunPage`.
#[derive(Serialize, Deserialize)]
struct RunList<'a> {
    #[serde(borrow)]
    runs: Vec<&'a RawValue>,
    next: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unanswered: Vec<String>,
}

/// The members that order a list and identify its items.
#[derive(Deserialize)]
struct ListedItem {
    id: String,
    created: Option<String>,
    ended: Option<String>,
    #[serde(default)]
    turn: u32,
}

/// The key that orders the sessions of a list.
fn order(session: &RawValue) -> String {
    let Ok(listed) = serde_json::from_str::<ListedItem>(session.get()) else {
        return String::new();
    };
    page_key(
        &listed.id,
        &listed.created.unwrap_or_default(),
        listed.ended.as_deref(),
    )
}

/// The key that orders the pages of prompts.
fn prompt_order(prompt: &RawValue) -> String {
    let Ok(listed) = serde_json::from_str::<ListedItem>(prompt.get()) else {
        return String::new();
    };
    prompts::page_key(listed.turn, &listed.created.unwrap_or_default(), &listed.id)
}

/// The place of a run in the list.
fn run_place(run: &RawValue) -> Option<RunPlace> {
    let listed: ListedItem = serde_json::from_str(run.get()).ok()?;
    let created = OffsetDateTime::parse(&listed.created?, &Rfc3339).ok()?;
    Some(RunPlace {
        created_micros: i64::try_from(created.unix_timestamp_nanos() / 1000).ok()?,
        id: listed.id,
    })
}

/// Removes duplicates: an object that has just moved is at two replicas.
fn once(all: Vec<&RawValue>) -> Vec<&RawValue> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| {
            serde_json::from_str::<ListedItem>(one.get()).is_ok_and(|listed| seen.insert(listed.id))
        })
        .collect()
}

/// The response of `GET /api/status`.
#[derive(Deserialize)]
struct Status {
    connections: u64,
    kernels: u64,
    last_activity: String,
    started: String,
}

/// Sums the counts of all replicas, from the first start to the latest activity.
fn sum(statuses: &[Status]) -> Value {
    json!({
        "connections": statuses.iter().map(|status| status.connections).sum::<u64>(),
        "kernels": statuses.iter().map(|status| status.kernels).sum::<u64>(),
        "last_activity": statuses.iter().map(|status| &status.last_activity).max(),
        "started": statuses.iter().map(|status| &status.started).min(),
    })
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
