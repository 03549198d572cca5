//! The lists and the status of all replicas.

use axum::response::Response;
use himalia_cluster::Part;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::etag;
use crate::relay::{ListRequest, MergedList, read_part, unique};

/// `GET /api/kernels`, `GET /api/sessions`: an array. Clients take an absent kernel for culled, so no part may be missing.
pub(crate) const LISTS: MergedList = MergedList {
    complete: true,
    merge: merge_lists,
};

/// `GET /api/status`: sums.
pub(crate) const STATUS: MergedList = MergedList {
    complete: false,
    merge: merge_status,
};

fn merge_lists(request: &ListRequest<'_>, parts: &[Part], _: &[String]) -> Result<Response, ApiError> {
    let mut all = Vec::new();
    for part in parts {
        all.extend(read_part::<Vec<&RawValue>>(&part.bytes)?);
    }
    etag::json(request.headers, &unique(all))
}

fn merge_status(request: &ListRequest<'_>, parts: &[Part], _: &[String]) -> Result<Response, ApiError> {
    let statuses: Result<Vec<Status>, _> = parts.iter().map(|part| read_part(&part.bytes)).collect();
    etag::json(request.headers, &sum(&statuses?))
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
mod tests {
    use super::*;
    use crate::relay::testing::merged;

    #[tokio::test]
    async fn lists_have_each_object_once() {
        let parts = [r#"[{"id":"a","x":1},{"id":"b"}]"#, r#"[{"id":"b"},{"id":"c"}]"#];
        assert_eq!(
            merged(LISTS, "/", &parts, &[]).await,
            json!([{"id": "a", "x": 1}, {"id": "b"}, {"id": "c"}])
        );
    }

    #[test]
    fn statuses_are_summed() {
        let status = |connections, last: &str, started: &str| Status {
            connections,
            kernels: 2,
            last_activity: last.into(),
            started: started.into(),
        };
        assert_eq!(
            sum(&[status(1, "b", "d"), status(2, "c", "a")]),
            json!({"connections": 3, "kernels": 4, "last_activity": "c", "started": "a"})
        );
    }
}
