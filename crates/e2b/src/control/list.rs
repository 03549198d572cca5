//! `GET /v2/sandboxes`: the sandboxes of the caller, in pages.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use himalia_engine::{Origin, SessionInfo};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Answer;
use super::create::template;
use super::shown::ListedSandbox;
use crate::caller::{Caller, is_over};
use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::{LISTED, LISTED_MOST};

/// The number of sandboxes that a list has on all its pages.
const TOTAL_RUNNING: HeaderName = HeaderName::from_static("x-total-running");

/// Query of a list: filters, and the start of the page.
#[derive(Debug, Default, PartialEq)]
struct ListRequest {
    metadata: BTreeMap<String, String>,
    running: bool,
    started_after: Option<OffsetDateTime>,
    template: Option<String>,
    is_ascending: bool,
    limit: usize,
    after: Option<Position>,
}

/// A place in a list: when a sandbox was started, in microseconds since 1970, and its id.
type Position = (u64, String);

pub(super) async fn page(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Answer<(HeaderMap, Json<Vec<ListedSandbox>>)> {
    let mut requested = ListRequest::read(pairs)?;
    if let Some(name) = requested.template.take() {
        requested.template = Some(match template(&facade.engine, &principal, &name).await? {
            Some(name) => name,
            None => facade.engine.kernelspecs(&principal).await?.default,
        });
    }
    let mut all = facade.engine.session_infos(&principal)?;
    all.retain(|info| requested.has(info));
    all.sort_by_key(position);
    if !requested.is_ascending {
        all.reverse();
    }
    let mut headers = HeaderMap::from_iter([(TOTAL_RUNNING, HeaderValue::from(all.len()))]);
    let is_before = |info: &SessionInfo| {
        requested.after.as_ref().is_some_and(|after| {
            let position = position(info);
            if requested.is_ascending {
                position <= *after
            } else {
                position >= *after
            }
        })
    };
    let mut rest = all.into_iter().skip_while(is_before);
    let page: Vec<SessionInfo> = rest.by_ref().take(requested.limit).collect();
    if let (Some(last), Some(_)) = (page.last(), rest.next()) {
        let (at, id) = position(last);
        if let Ok(token) = HeaderValue::from_str(&format!("{at}-{id}")) {
            headers.insert("x-next-token", token);
        }
    }
    Ok((headers, Json(page.iter().map(ListedSandbox::from).collect())))
}

fn position(info: &SessionInfo) -> Position {
    (info.session.created_micros, info.id().to_string())
}

impl ListRequest {
    fn read(pairs: Vec<(String, String)>) -> Result<Self, Failure> {
        let mut read = Self {
            running: true,
            limit: LISTED,
            ..Self::default()
        };
        let mut states = Vec::new();
        for (name, value) in pairs {
            match name.as_str() {
                "metadata" => read.metadata = metadata(&value)?,
                "state" => states.extend(value.split(',').map(str::to_owned)),
                "startedAfter" => {
                    let time = OffsetDateTime::parse(&value, &Rfc3339);
                    read.started_after = Some(time.map_err(|error| Failure::field("startedAfter", error))?);
                }
                "template" => read.template = Some(value),
                "order" => {
                    read.is_ascending = match value.as_str() {
                        "asc" => true,
                        "desc" => false,
                        _ => return Err(Failure::field("order", "expected asc or desc")),
                    };
                }
                "limit" => {
                    let limit = value
                        .parse()
                        .ok()
                        .filter(|limit| (1..=LISTED_MOST).contains(limit));
                    let reason = format!("expected 1 to {LISTED_MOST}");
                    read.limit = limit.ok_or_else(|| Failure::field("limit", reason))?;
                }
                "nextToken" => {
                    let parts = value.split_once('-');
                    let position = parts.and_then(|(at, id)| Some((at.parse().ok()?, id.to_owned())));
                    read.after = Some(
                        position
                            .ok_or_else(|| Failure::field("nextToken", "must be the nextToken of a page"))?,
                    );
                }
                _ => return Err(Failure::field(&name, "unknown parameter")),
            }
        }
        // No sandbox is ever paused.
        if !states.is_empty() {
            read.running = states.iter().any(|state| state == "running");
        }
        Ok(read)
    }

    fn has(&self, info: &SessionInfo) -> bool {
        let session = &info.session;
        let labels = &session.labels;
        self.running
            && session.origin == Origin::V1
            && !is_over(info)
            && self.started_after.is_none_or(|after| session.created() >= after)
            && self
                .template
                .as_ref()
                .is_none_or(|template| session.template == *template)
            && self
                .metadata
                .iter()
                .all(|(name, value)| labels.get(name) == Some(value))
    }
}

/// Pairs in the form of a query, whose names and values are percent-encoded once more.
fn metadata(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    let bad = || Failure::field("metadata", "expected pairs in the form of a query");
    let uri = format!("/?{text}").parse().map_err(|_| bad())?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).map_err(|_| bad())?;
    let once_more = |text: String| {
        let uri = format!("/?x={}", text.replace('+', "%2B")).parse().ok()?;
        let Query(mut pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
        Some(pairs.pop()?.1)
    };
    let decoded = pairs
        .into_iter()
        .map(|(name, value)| Some((once_more(name)?, once_more(value)?)));
    decoded.collect::<Option<_>>().ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<ListRequest, String> {
        let pairs = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ListRequest::read(pairs.collect()).map_err(|failure| failure.message)
    }

    #[test]
    fn metadata_is_encoded_twice() {
        // What the clients send for {"a b": "x&y=z", "ä": "1+1"}, after the query was decoded.
        let text = "a%2520b=x%2526y%253Dz&%25C3%25A4=1%252B1";
        let expected = [("a b", "x&y=z"), ("ä", "1+1")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(metadata(text).unwrap(), BTreeMap::from(expected));
    }

    #[test]
    fn filters_and_pages() {
        let plain = read(&[]).unwrap();
        assert!(plain.running && !plain.is_ascending && plain.limit == LISTED);
        assert!(!read(&[("state", "paused")]).unwrap().running);
        assert!(read(&[("state", "paused,running")]).unwrap().running);
        assert!(
            read(&[("state", "paused"), ("state", "running")])
                .unwrap()
                .running
        );
        assert_eq!(
            read(&[("nextToken", "7-a-b")]).unwrap().after,
            Some((7, "a-b".to_owned()))
        );
        for (name, value) in [
            ("limit", "0"),
            ("limit", "x"),
            ("order", "up"),
            ("nextToken", "x"),
            ("startedAfter", "yesterday"),
            ("unknown", "1"),
        ] {
            let refused = read(&[(name, value)]).unwrap_err();
            assert!(refused.starts_with(name), "{refused}");
        }
    }
}
