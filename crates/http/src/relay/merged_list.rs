//! Lists that all replicas have a part of: what the room of a list needs to merge its pages.

use std::collections::HashSet;

use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use himalia_cluster::Part;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::ApiError;

/// Merges the parts of all replicas. The last argument has the names of the replicas that did not respond.
pub(crate) type MergeParts = fn(&ListRequest<'_>, &[Part], &[String]) -> Result<Response, ApiError>;

/// A list that all replicas have a part of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergedList {
    /// If a replica does not respond, the request fails. Otherwise a header of the response names the replica.
    pub(crate) complete: bool,
    pub(crate) merge: MergeParts,
}

/// The request of a client for a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRequest<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) uri: &'a Uri,
}

/// The members that order a list and identify its items.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedItem {
    pub(crate) id: String,
    pub(crate) created: Option<String>,
    pub(crate) ended: Option<String>,
    #[serde(default)]
    pub(crate) turn: u32,
}

impl ListedItem {
    /// Reads the members of an item; `None` if it has other ones.
    pub(crate) fn of(item: &RawValue) -> Option<Self> {
        serde_json::from_str(item.get()).ok()
    }
}

pub(crate) fn read_part<'a, T: Deserialize<'a>>(part: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(part).map_err(|_| ApiError::internal("reading the list of a replica"))
}

/// Removes duplicates: an object that has just moved is at two replicas.
pub(crate) fn unique(all: Vec<&RawValue>) -> Vec<&RawValue> {
    let mut seen = HashSet::new();
    all.into_iter()
        .filter(|one| ListedItem::of(one).is_some_and(|listed| seen.insert(listed.id)))
        .collect()
}

#[cfg(test)]
pub(crate) mod testing {
    use axum::body::to_bytes;
    use serde_json::Value;

    use super::*;

    /// Merges these parts for a request with this address, and returns the body of the response.
    pub(crate) async fn merged(list: MergedList, uri: &str, parts: &[&str], unanswered: &[&str]) -> Value {
        let parts: Vec<_> = parts
            .iter()
            .map(|bytes| Part {
                headers: HeaderMap::new(),
                bytes: bytes.as_bytes().to_vec().into(),
            })
            .collect();
        let unanswered: Vec<_> = unanswered.iter().map(|&name| name.to_owned()).collect();
        let request = ListRequest {
            headers: &HeaderMap::new(),
            uri: &uri.parse().unwrap(),
        };
        let response = (list.merge)(&request, &parts, &unanswered).unwrap();
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    pub(crate) fn ids(list: &Value) -> Vec<&str> {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one["id"].as_str().unwrap()).collect()
    }
}
