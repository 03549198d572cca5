//! `/api/me`: identity and permissions.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query;

/// The resources that have permissions.
const RESOURCES: &[&str] = &["api", "kernels", "kernelspecs", "sessions"];
const ACTIONS: &[&str] = &["read", "write", "execute"];

/// `GET /api/me?permissions={"resource": ["action"]}`: of the permissions asked about, those that the caller has. What of kernels
/// and sessions is not its own is not there for it, so it may do everything that its scope includes.
pub(crate) async fn show(
    State(_): State<App>,
    Caller(principal): Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let asked = match query::last(&uri, "permissions") {
        None => Map::new(),
        Some(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => map,
            Ok(_) => return Err(bad("expected an object")),
            Err(error) => return Err(bad(&format!("invalid JSON: {error}"))),
        },
    };
    let may = |action: &str| ACTIONS.contains(&action) && (action == "read" || !principal.is_read_only());
    let mut permissions = Map::new();
    for (resource, actions) in asked {
        let Value::Array(actions) = actions else {
            return Err(bad("expected {\"resource\": [\"action\"]}"));
        };
        if !actions.iter().all(Value::is_string) {
            return Err(bad("expected {\"resource\": [\"action\"]}"));
        }
        let known = RESOURCES.contains(&resource.as_str());
        let allowed = actions
            .into_iter()
            .filter(|a| known && a.as_str().is_some_and(&may));
        permissions.insert(resource, Value::Array(allowed.collect()));
    }
    permissions.insert("updatable_fields".into(), json!([]));
    let username = principal.name();
    // Of a tenant's caller: its own name.
    let name = username.rsplit('/').next().unwrap_or(username);
    Ok(Json(json!({
        "identity": {
            "username": username,
            "name": name,
            "display_name": name,
            "initials": null,
            "avatar_url": null,
            "color": null,
        },
        "permissions": permissions,
    }))
    .into_response())
}

fn bad(reason: &str) -> ApiError {
    ApiError::bad_request(format!("permissions: {reason}"))
}

/// `PATCH /api/me`: the one identity comes from the configuration.
pub(crate) async fn change(_: Caller) -> ApiError {
    ApiError::new(
        StatusCode::NOT_IMPLEMENTED,
        "not_supported",
        "the identity cannot be changed",
    )
}
