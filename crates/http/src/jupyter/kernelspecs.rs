//! `/api/kernelspecs` and `/kernelspecs/{name}/{file}`.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{KernelSpec, Principal, TemplateInfo};

use super::models::{Kernelspec, Kernelspecs};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::etag;

/// `GET /api/kernelspecs`: all, broken ones with their problem, and templates that have a name of their own as
/// kernelspecs of that name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = app.engine().kernelspecs(&principal).await?;
    let mut kernelspecs: BTreeMap<String, Kernelspec> = BTreeMap::new();
    for template in app.engine().templates(&principal).await? {
        if let Some(spec) = (!template.implicit)
            .then(|| dressed(&found.specs, template))
            .flatten()
        {
            kernelspecs.insert(spec.name.clone(), Kernelspec::new(&app, spec));
        }
    }
    for (name, spec) in found.specs {
        kernelspecs.insert(name, Kernelspec::new(&app, spec));
    }
    etag::json(
        &headers,
        &Kernelspecs {
            default: found.default,
            kernelspecs,
        },
    )
}

/// `GET /api/kernelspecs/{name}`.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let spec = match app.engine().kernelspec(&principal, &name).await {
        Ok(spec) => spec,
        Err(error) => match template(&app, &principal, &name).await? {
            Some(spec) => spec,
            None => return Err(ApiError::from(error).for_kernelspec()),
        },
    };
    etag::json(&headers, &Kernelspec::new(&app, spec))
}

/// The template of this name as a kernelspec.
async fn template(app: &App, principal: &Principal, name: &str) -> Result<Option<KernelSpec>, ApiError> {
    let templates = app.engine().templates(principal).await?;
    let Some(template) = templates
        .into_iter()
        .find(|one| !one.implicit && one.name == name)
    else {
        return Ok(None);
    };
    let found = app.engine().kernelspecs(principal).await?;
    Ok(dressed(&found.specs, template))
}

/// A template as a kernelspec of its name, unless it has no kernelspec or hides one.
fn dressed(specs: &BTreeMap<String, KernelSpec>, template: TemplateInfo) -> Option<KernelSpec> {
    if specs.contains_key(&template.name) {
        return None;
    }
    let mut spec = specs.get(template.template.kernelspec.as_deref()?)?.clone();
    let display_name = if spec.spec.display_name.is_empty() {
        &spec.name
    } else {
        &spec.spec.display_name
    };
    spec.spec.display_name = format!("{display_name} ({})", template.name);
    spec.name = template.name;
    Some(spec)
}

/// `GET /kernelspecs/{name}/{file}`: logos, `kernel.js`. Kernelspecs may come from any package, so a file that a
/// browser opens directly is sandboxed.
pub(crate) async fn file(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((name, file)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let mut found = app.engine().kernelspec_file(&principal, &name, &file).await;
    if found.is_err() {
        // A template shows the pictures of its kernelspec.
        let templates = app.engine().templates(&principal).await?;
        let template = templates
            .into_iter()
            .find(|one| !one.implicit && one.name == name);
        if let Some(spec) = template.and_then(|one| one.template.kernelspec) {
            found = app.engine().kernelspec_file(&principal, &spec, &file).await;
        }
    }
    let found = found.map_err(|error| ApiError::from(error).for_kernelspec())?;
    let kind = mime_guess::from_path(&found.name).first_or_octet_stream();
    let tag = etag::tag(&found.bytes);
    let mut response = if etag::matches(&request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Response::new(Body::from(found.bytes))
    };
    let headers = response.headers_mut();
    etag::set(headers, &tag);
    // As jupyter_server: pictures for 30 days, everything else is asked for again.
    let cache = if kind.subtype() == mime_guess::mime::PNG {
        "max-age=2592000"
    } else {
        "no-cache"
    };
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    if let Ok(kind) = HeaderValue::from_str(kind.as_ref()) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::{KernelJson, Template};

    #[test]
    fn a_template_is_its_kernelspec_under_another_name() {
        let spec = KernelSpec {
            name: "python3".into(),
            spec: KernelJson {
                display_name: "Python 3".into(),
                ..KernelJson::default()
            },
            resources: BTreeMap::new(),
            dir: "/k".into(),
            problem: None,
        };
        let specs = BTreeMap::from([("python3".to_owned(), spec)]);
        let template = |name: &str, kernelspec: &str| TemplateInfo {
            name: name.into(),
            mounts: Vec::new(),
            implicit: false,
            template: Template {
                kernelspec: Some(kernelspec.into()),
                ..Template::default()
            },
        };
        let shown = dressed(&specs, template("small", "python3")).unwrap();
        assert_eq!(
            (shown.name.as_str(), shown.spec.display_name.as_str()),
            ("small", "Python 3 (small)")
        );
        assert!(dressed(&specs, template("python3", "python3")).is_none());
        assert!(dressed(&specs, template("small", "nothing")).is_none());
    }
}
