//! `POST /v1/sessions/{id}/fork`: branches of a live session.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use himalia_engine::{ForkFiles, ForkKernel, ForkPolicy, MAX_BRANCHES, MAX_LABELS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{EitherResponse, JsonWithStatus};
use super::input::{Members, Whole, or_empty};
use super::session_json::Session;
use super::sessions::{first_kernel, of_session};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::problem::{ForkHazard, Problem};
use crate::variables;

/// The requested branches; every member is optional.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewBranches {
    /// Number of branches; default 1.
    count: Option<Whole<1, { MAX_BRANCHES as u64 }>>,
    /// `strict` unless said.
    policy: Option<ForkPolicy>,
    /// `copy` unless said.
    files: Option<Files>,
    /// Larger files are not copied; default 256 MiB. Only for `copy`.
    max_copy_bytes: Option<u64>,
    /// All or none; default false.
    atomic: Option<bool>,
    /// Variables that differ in the branches.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(with = "Option<BTreeMap<String, String>>", extend("maxProperties" = variables::COUNT))]
    env: BTreeMap<String, String>,
    /// Default: the labels of the parent.
    #[schemars(extend("maxProperties" = MAX_LABELS))]
    labels: Option<BTreeMap<String, String>>,
}

/// The files that a branch works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Files {
    /// A copy of the files of its parent.
    Copy,
    /// The files of its parent.
    Share,
}

/// A new branch.
#[derive(Debug, Serialize, JsonSchema)]
struct Branch {
    session: Session,
    /// The copy of its parent's files.
    copied_bytes: u64,
    /// Parts that the branch may have lost.
    hazards: Vec<ForkHazard>,
    /// Duration of each step.
    ms: BTreeMap<String, u64>,
}

impl From<himalia_engine::Branch> for Branch {
    fn from(branch: himalia_engine::Branch) -> Self {
        Self {
            session: branch.session.into(),
            copied_bytes: branch.copied_bytes,
            hazards: branch.hazards.into_iter().map(ForkHazard::from).collect(),
            ms: branch.ms,
        }
    }
}

/// The new branches.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Branches {
    branches: Vec<Branch>,
}

/// Fewer branches than requested.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SomeBranches {
    branches: Vec<Branch>,
    /// The reason why there are no more.
    error: Problem,
}

/// 201 with `count` branches. When one fails the rest is not tried: with `atomic`, or when it was the
/// first, the reply is its error; otherwise it is 207 with the branches that there are and the problem as `error`.
pub(crate) async fn fork(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(wanted): Members<NewBranches>,
) -> Result<EitherResponse<JsonWithStatus<201, Branches>, JsonWithStatus<207, SomeBranches>>, ApiError> {
    let wanted = wanted.read()?;
    let kernel = first_kernel(&app, &principal, &id)?;
    let made = app.engine().fork_kernel(&principal, kernel, wanted).await;
    let (mut branches, mut failure) = (Vec::new(), None);
    for outcome in made.map_err(|error| of_session(error, &id))? {
        match outcome {
            Ok(branch) => branches.push(Branch::from(branch)),
            Err(error) => failure = failure.or(Some(ApiError::from(error))),
        }
    }
    match failure {
        None => Ok(EitherResponse::One(JsonWithStatus(Branches { branches }))),
        Some(error) if branches.is_empty() => Err(error),
        Some(error) => {
            let error = Problem::from(&error);
            Ok(EitherResponse::Other(JsonWithStatus(SomeBranches {
                branches,
                error,
            })))
        }
    }
}

impl NewBranches {
    fn read(self) -> Result<ForkKernel, ApiError> {
        let plain = ForkKernel::default();
        variables::check("env", &self.env)?;
        let count = self.count.and_then(|Whole(count)| u32::try_from(count).ok());
        Ok(ForkKernel {
            count: count.unwrap_or(plain.count),
            policy: self.policy.unwrap_or_default(),
            files: match (self.files, self.max_copy_bytes) {
                (Some(Files::Share), None) => ForkFiles::Share,
                (Some(Files::Share), Some(_)) => {
                    return Err(ApiError::bad_field("max_copy_bytes", "is for files = copy"));
                }
                (_, Some(max_bytes)) => ForkFiles::Copy { max_bytes },
                (_, None) => plain.files,
            },
            atomic: self.atomic.unwrap_or(plain.atomic),
            env: self.env,
            labels: self.labels,
        })
    }
}
