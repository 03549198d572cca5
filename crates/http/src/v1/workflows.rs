//! `/v1/workflows`: definitions whose steps are skills. Their runs are in `runs`.

use axum::Json;
use axum::extract::{Path, State};
use himalia_runs::{Workflow, WorkflowDefinition, WorkflowInfo};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{CreatedResponse, EitherResponse, Empty};
use super::dates::date;
use super::input::{ListQuery, Members, Parameters};
use super::skills::{DeleteVersionsQuery, VersionQuery};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// A workflow to publish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWorkflow {
    /// The definition of the workflow.
    definition: WorkflowDefinition,
}

/// The latest version of a workflow in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedWorkflow {
    name: String,
    /// The latest version.
    version: String,
    description: String,
    /// The address of its content: `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// The caller that published it.
    published_by: String,
    /// When it was published.
    #[schemars(extend("format" = "date-time"))]
    published: String,
    /// All versions, the latest first.
    versions: Vec<String>,
}

/// A version of a workflow.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Workflow")]
pub(crate) struct ShownWorkflow {
    name: String,
    version: String,
    /// The address of its content: `sha256:` and 64 hexadecimal digits. It covers the digests of its skills.
    digest: String,
    /// The caller that published it.
    published_by: String,
    /// When it was published.
    #[schemars(extend("format" = "date-time"))]
    published: String,
    /// The published definition. Each skill has its exact version and its digest.
    definition: WorkflowDefinition,
}

impl ShownWorkflow {
    fn of(info: &WorkflowInfo, workflow: &Workflow) -> Self {
        Self {
            name: info.name.clone(),
            version: info.version.to_string(),
            digest: info.digest.clone(),
            published_by: info.published_by.clone(),
            published: date(info.published_micros),
            definition: workflow.definition().clone(),
        }
    }
}

/// `POST /v1/workflows`: 201 with a new version, 200 with one that is there with the same content; 409 for another content.
pub(crate) async fn publish(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(NewWorkflow { definition }): Members<NewWorkflow>,
) -> Result<EitherResponse<CreatedResponse<ShownWorkflow>, Json<ShownWorkflow>>, ApiError> {
    let (info, workflow, new) = app.runs().publish_workflow(&principal, definition).await?;
    let shown = ShownWorkflow::of(&info, &workflow);
    Ok(if new {
        let path = format!("/v1/workflows/{}?version={}", info.name, info.version);
        EitherResponse::One(CreatedResponse::at(&app, &path, shown))
    } else {
        EitherResponse::Other(Json(shown))
    })
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkflowPage {
    workflows: Vec<ListedWorkflow>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'w';

/// `GET /v1/workflows`: the workflows of the caller's tenant, by name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<WorkflowPage>, ApiError> {
    let mut all: Vec<ListedWorkflow> = Vec::new();
    for info in app.runs().workflows(&principal).await? {
        match all.last_mut() {
            Some(last) if last.name == info.name => last.versions.push(info.version.to_string()),
            _ => all.push(ListedWorkflow {
                versions: vec![info.version.to_string()],
                version: info.version.to_string(),
                published: date(info.published_micros),
                name: info.name,
                description: info.description,
                digest: info.digest,
                published_by: info.published_by,
            }),
        }
    }
    let key = |one: &ListedWorkflow| one.name.clone();
    let (workflows, next) = wanted.page(all, key);
    Ok(Json(WorkflowPage { workflows, next }))
}

/// `GET /v1/workflows/{workflow}?version=`: with its definition.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(wanted): Parameters<VersionQuery>,
) -> Result<Json<ShownWorkflow>, ApiError> {
    let found = app.runs().workflow(&principal, &name, wanted.version.as_deref());
    let (info, workflow) = found.await?;
    Ok(Json(ShownWorkflow::of(&info, &workflow)))
}

/// `DELETE /v1/workflows/{workflow}?version=`: 204. Runs that began continue.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(wanted): Parameters<DeleteVersionsQuery>,
) -> Result<Empty<204>, ApiError> {
    app.runs()
        .delete_workflow(&principal, &name, wanted.version.as_deref())
        .await?;
    Ok(Empty)
}
