//! `/v1/skills`: typed, versioned pieces of instructions and code, and drafts of them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_runs::{Draft, Manifest, Skill, SkillFiles, SkillInfo, SkillKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{CreatedResponse, EitherResponse, Empty};
use super::dates::date;
use super::input::{ListQuery, Members, Parameters};
use super::kernels::kernel_id;
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The content of a file: one of the two.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillFile {
    /// UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// Content that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

impl SkillFile {
    fn of(content: &[u8]) -> Self {
        match std::str::from_utf8(content) {
            Ok(text) => Self {
                text: Some(text.to_owned()),
                base64: None,
            },
            Err(_) => Self {
                text: None,
                base64: Some(STANDARD.encode(content)),
            },
        }
    }

    fn content(self, path: &str) -> Result<Vec<u8>, ApiError> {
        let bad = |reason: &str| ApiError::bad_field("files", format!("{path}: {reason}"));
        match (self.text, self.base64) {
            (Some(text), None) => Ok(text.into_bytes()),
            (None, Some(text)) => STANDARD.decode(text).map_err(|_| bad("is not valid base64")),
            _ => Err(bad("expected text or base64")),
        }
    }
}

/// A skill to publish.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewSkill")]
pub(crate) struct PublishSkillRequest {
    /// The manifest. Default: `skill.json` among the files, or the front matter of `SKILL.md`.
    manifest: Option<Manifest>,
    /// The files by their relative paths.
    files: BTreeMap<String, SkillFile>,
}

/// The latest version of a skill in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedSkill {
    name: String,
    /// The latest version.
    version: String,
    kind: SkillKind,
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

/// A version of a skill. Manifest and files are as they are published.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Skill")]
pub(crate) struct ShownSkill {
    name: String,
    version: String,
    /// The address of its content: `sha256:` and 64 hexadecimal digits.
    digest: String,
    /// The caller that published it; null: it is a draft.
    published_by: Option<String>,
    /// When it was published; null: it is a draft.
    #[schemars(extend("format" = "date-time"))]
    published: Option<String>,
    manifest: Manifest,
    /// The files by their relative paths.
    files: BTreeMap<String, SkillFile>,
}

impl ShownSkill {
    fn of(skill: &Skill, info: Option<&SkillInfo>) -> Self {
        let manifest = skill.manifest().clone();
        let file = |(path, content): (&String, &Vec<u8>)| (path.clone(), SkillFile::of(content));
        Self {
            name: manifest.name.clone(),
            version: manifest.version.to_string(),
            digest: skill.digest().to_owned(),
            published_by: info.map(|info| info.published_by.clone()),
            published: info.map(|info| date(info.published_micros)),
            manifest,
            files: skill.files().iter().map(file).collect(),
        }
    }
}

/// `POST /v1/skills`: 201 with a new version, 200 with one that is there with the same content; 409 for another content.
pub(crate) async fn publish(
    State(app): State<App>,
    Caller(principal): Caller,
    Members(wanted): Members<PublishSkillRequest>,
) -> Result<EitherResponse<CreatedResponse<ShownSkill>, Json<ShownSkill>>, ApiError> {
    let mut files = SkillFiles::new();
    for (path, file) in wanted.files {
        let content = file.content(&path)?;
        files.insert(path, content);
    }
    let manifest = wanted.manifest;
    // Its schemas are compiled, and its tests are checked against them.
    let made = app
        .engine()
        .answer_in_turn(&principal, usize::MAX, || match manifest {
            Some(manifest) => Skill::new(manifest, files),
            None => Skill::from_folder(files),
        });
    let skill = made
        .await?
        .map_err(|wrong| ApiError::bad_field(wrong.field, wrong.reason))?;
    let (info, new) = app.runs().publish_skill(&principal, &skill).await?;
    let shown = ShownSkill::of(&skill, Some(&info));
    Ok(if new {
        let path = format!("/v1/skills/{}?version={}", info.name, info.version);
        EitherResponse::One(CreatedResponse::at(&app, &path, shown))
    } else {
        EitherResponse::Other(Json(shown))
    })
}

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SkillPage {
    skills: Vec<ListedSkill>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

/// The letter of its cursors.
const LIST: char = 'l';

/// `GET /v1/skills`: the skills of the caller's tenant, by name.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Parameters(wanted): Parameters<ListQuery<LIST>>,
) -> Result<Json<SkillPage>, ApiError> {
    let mut all: Vec<ListedSkill> = Vec::new();
    for info in app.runs().skills(&principal, None).await? {
        match all.last_mut() {
            Some(last) if last.name == info.name => last.versions.push(info.version.to_string()),
            _ => all.push(ListedSkill {
                versions: vec![info.version.to_string()],
                version: info.version.to_string(),
                kind: if info.kind == SkillKind::Code.as_str() {
                    SkillKind::Code
                } else {
                    SkillKind::Instructions
                },
                published: date(info.published_micros),
                name: info.name,
                description: info.description,
                digest: info.digest,
                published_by: info.published_by,
            }),
        }
    }
    let key = |one: &ListedSkill| one.name.clone();
    let (skills, next) = wanted.page(all, key);
    Ok(Json(SkillPage { skills, next }))
}

/// The version of a skill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VersionQuery {
    /// Default: the latest one.
    pub(crate) version: Option<String>,
}

/// The versions of a skill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteVersionsQuery {
    /// Default: all of them.
    pub(crate) version: Option<String>,
}

/// `GET /v1/skills/{skill}?version=`: with its files.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(wanted): Parameters<VersionQuery>,
) -> Result<Json<ShownSkill>, ApiError> {
    let found = app
        .runs()
        .skill(&principal, &name, wanted.version.as_deref())
        .await;
    let (info, skill) = found?;
    Ok(Json(ShownSkill::of(&skill, Some(&info))))
}

/// `DELETE /v1/skills/{skill}?version=`: 204.
pub(crate) async fn delete(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(name): Path<String>,
    Parameters(wanted): Parameters<DeleteVersionsQuery>,
) -> Result<Empty<204>, ApiError> {
    app.runs()
        .delete_skill(&principal, &name, wanted.version.as_deref())
        .await?;
    Ok(Empty)
}

/// Code of a session that becomes a skill.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDraft {
    /// The name of the skill.
    name: String,
    /// The purpose of the skill.
    description: String,
    /// Numbers of entries of the session's history (`seq`), in the order in which they run.
    #[schemars(extend("maxItems" = MAX_CELLS))]
    cells: Vec<u64>,
    /// Variables that the code assigns and that become arguments.
    #[serde(default)]
    inputs: Vec<String>,
    /// Variables that are returned.
    #[serde(default)]
    outputs: Vec<String>,
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
}

/// Entries of a history in one draft.
const MAX_CELLS: usize = 200;

/// `POST /v1/sessions/{id}/skill`: a draft, which is not published: to be edited, tested and published.
pub(crate) async fn draft(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Members(wanted): Members<NewDraft>,
) -> Result<Json<ShownSkill>, ApiError> {
    if wanted.cells.len() > MAX_CELLS {
        let reason = format!("are {}, at most {MAX_CELLS}", wanted.cells.len());
        return Err(ApiError::bad_field("cells", reason));
    }
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let draft = Draft {
        name: wanted.name,
        description: wanted.description,
        inputs: wanted.inputs,
        outputs: wanted.outputs,
        cells: Vec::new(),
    };
    let made = app
        .runs()
        .draft_skill(&principal, kernel, &wanted.cells, draft)
        .await;
    let skill = made.map_err(|error| of_session(error, &id))?;
    Ok(Json(ShownSkill::of(&skill, None)))
}
