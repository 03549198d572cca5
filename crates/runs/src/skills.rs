//! Commands on skills: publish, find, delete, run (`run`, and for code of sessions `inside`), and draft one of a session's history.

mod inside;
mod prepared;
mod result;
mod rights;
mod run;

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use himalia_engine::Object;
use himalia_executions::MAX_HISTORY_PAGE;
use himalia_kernel::Language;
use himalia_model::{Action, ArgumentViolation, EngineError, KernelId, LlmConfig, OPERATOR, Principal};
use himalia_session::not_stored;
use himalia_skills::{
    Draft, Files, Invalid, Kind, MAX_SKILL_BYTES, Manifest, Skill, Version, Violation, draft, release_order,
};
use himalia_store::{SkillBrief, SkillRecord, StoreError, VersionAdded, VersionQuota};
use serde_json::{Map, Value};

use crate::Commands;
pub(crate) use inside::SandboxSkills;
pub(super) use prepared::PreparedRun;
pub(super) use result::{SkillRun, SkillRunStatus};
pub use run::{BegunRun, RunSkill, SkillStep};
pub(super) use run::{LABEL, RUN_LABEL, STEP_MEMBER};

/// Versions of skills of an owner.
pub const MAX_SKILL_VERSIONS: usize = 1000;
/// Bytes of all skills of an owner: files and manifests.
pub const MAX_SKILLS_BYTES: usize = 64 << 20;
/// A skill in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillInfo {
    /// The name.
    pub name: String,
    /// The version.
    pub version: Version,
    /// `instructions`, `code`.
    pub kind: String,
    /// The description.
    pub description: String,
    /// The address of its content.
    pub digest: String,
    /// The name of the caller who published it.
    pub published_by: String,
    /// When, microseconds since 1970.
    pub published_micros: i64,
}

impl Commands {
    pub(crate) async fn publish_skill(
        &self,
        principal: &Principal,
        skill: &Skill,
    ) -> Result<(SkillInfo, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Skills)?;
        self.services.check_open()?;
        let manifest = skill.manifest();
        self.check_needed(principal, manifest).await?;
        let json =
            serde_json::to_string(manifest).map_err(|error| EngineError::internal("a manifest", error))?;
        let bytes = skill.bytes() + json.len();
        let brief = SkillBrief {
            owner: principal.owner().to_owned(),
            name: manifest.name.clone(),
            version: manifest.version.to_string(),
            kind: manifest.kind.as_str().to_owned(),
            description: manifest.description.clone(),
            digest: skill.digest().to_owned(),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            published_by: principal.name().to_owned(),
            published_micros: self.services.now_micros(),
        };
        let record = SkillRecord {
            brief: brief.clone(),
            manifest: json,
            files: pack(skill.files()),
        };
        let _turn = self.services.turn(principal).await?;
        let _room = self.room(principal.owner(), bytes).await?;
        let quota = VersionQuota {
            versions: i64::try_from(MAX_SKILL_VERSIONS).unwrap_or(i64::MAX),
            bytes: i64::try_from(MAX_SKILLS_BYTES).unwrap_or(i64::MAX),
        };
        let conflict = |reason: String| Err(EngineError::Conflict { reason });
        match self
            .services
            .store()
            .add_skill(record, quota)
            .await
            .map_err(stored)?
        {
            VersionAdded::Added => Ok((info(brief)?, true)),
            VersionAdded::Present(digest) if digest == skill.digest() => {
                let (name, version) = (brief.name, brief.version);
                let there = self
                    .services
                    .store()
                    .skills(brief.owner, Some(name))
                    .await
                    .map_err(stored)?;
                let same = there.into_iter().find(|one| one.version == version);
                Ok((info(same.ok_or_else(|| unknown("", None))?)?, false))
            }
            VersionAdded::Present(_) => conflict(format!(
                "version {} of {} is published with another content; a change needs another version",
                brief.version, brief.name
            )),
            VersionAdded::Full => conflict(format!(
                "there are {MAX_SKILL_VERSIONS} versions of skills, or {MAX_SKILLS_BYTES} bytes of them: delete some"
            )),
        }
    }

    pub(crate) async fn skills(
        &self,
        principal: &Principal,
        name: Option<&str>,
    ) -> Result<Vec<SkillInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Skills)?;
        let owner = principal.owner().to_owned();
        let all = self
            .services
            .store()
            .skills(owner, name.map(str::to_owned))
            .await
            .map_err(stored)?;
        let mut all = all.into_iter().map(info).collect::<Result<Vec<_>, _>>()?;
        all.sort_by(|one, other| (&one.name, &other.version).cmp(&(&other.name, &one.version)));
        Ok(all)
    }

    pub(crate) async fn skill(
        &self,
        principal: &Principal,
        name: &str,
        version: Option<&str>,
    ) -> Result<(SkillInfo, Skill), EngineError> {
        self.allow(principal, Action::Read, Object::Skills)?;
        let _turn = self.services.turn(principal).await?;
        let version = match version {
            Some(version) => version.to_owned(),
            None => self.latest(principal, name).await?,
        };
        self.stored_skill(principal.owner(), name, &version).await
    }

    pub(crate) async fn delete_skill(
        &self,
        principal: &Principal,
        name: &str,
        version: Option<&str>,
    ) -> Result<usize, EngineError> {
        self.allow(principal, Action::Delete, Object::Skills)?;
        let owner = principal.owner().to_owned();
        let deleting = self
            .services
            .store()
            .delete_skill(owner, name.to_owned(), version.map(str::to_owned));
        match deleting.await.map_err(stored)? {
            0 => Err(unknown(name, version)),
            deleted => Ok(deleted),
        }
    }

    pub(crate) async fn draft_skill(
        &self,
        principal: &Principal,
        kernel: KernelId,
        cells: &[u64],
        wanted: Draft,
    ) -> Result<Skill, EngineError> {
        let history = self
            .engine
            .history(principal, kernel, None, MAX_HISTORY_PAGE as u64)
            .await?;
        let kernelspec = self.engine.logged_kernel(principal, kernel)?.kernelspec;
        self.check_python(&kernelspec).await?;
        let mut seen = BTreeSet::new();
        if let Some(twice) = cells.iter().find(|seq| !seen.insert(**seq)) {
            return Err(EngineError::bad_request("cells", format!("has {twice} twice")));
        }
        let mut bytes = 0;
        let chosen = cells.iter().map(|seq| {
            let entry = history.history.iter().find(|entry| entry.seq == *seq);
            let entry = entry.filter(|entry| entry.language == Language::Kernel);
            let reason = || {
                format!(
                    "{seq} must be Python code among the latest {MAX_HISTORY_PAGE} entries of the history"
                )
            };
            let code = entry.map(|entry| &entry.code);
            let code = code.ok_or_else(|| EngineError::bad_request("cells", reason()))?;
            bytes += code.len();
            Ok(code)
        });
        let chosen: Vec<&String> = chosen.collect::<Result<_, EngineError>>()?;
        if bytes > MAX_SKILL_BYTES {
            let reason =
                format!("have {bytes} bytes of code together, at most {MAX_SKILL_BYTES} are allowed");
            return Err(EngineError::bad_request("cells", reason));
        }
        // The code of the cells, of the function, and of the skill.
        let _memory = self.engine.hold_memory(principal, 3 * bytes as u64)?;
        let cells = chosen.into_iter().cloned().collect();
        self.in_turn(principal, || draft(&Draft { cells, ..wanted }).map_err(invalid))
            .await
    }

    /// Refuses a skill that runs skills of which no version is there.
    async fn check_needed(&self, principal: &Principal, manifest: &Manifest) -> Result<(), EngineError> {
        for (name, required) in &manifest.skills {
            let there = self.skills(principal, Some(name)).await?;
            let fits =
                |info: &&SkillInfo| info.kind == Kind::Code.as_str() && required.matches(&info.version);
            if !there.iter().any(|info| fits(&info)) {
                let reason = format!("there is no skill {name} {required} that runs");
                return Err(EngineError::bad_request("skills", reason));
            }
        }
        self.check_models(principal, manifest)
    }

    /// Checks that the gateway has the models that a skill asks, for the owner, and in the template that it names.
    fn check_models(&self, principal: &Principal, manifest: &Manifest) -> Result<(), EngineError> {
        let config = self.services.config();
        let template = manifest.template.as_ref();
        let template = template.and_then(|name| Some((name, config.templates.get(name)?)));
        let wrong = |reason: String| Err(EngineError::bad_request("models", reason));
        for name in &manifest.models {
            let visible = |model: &&LlmConfig| {
                model.name == *name && (model.owner == OPERATOR || model.owner == principal.owner())
            };
            if !config.models.iter().any(|model| visible(&model)) {
                let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
                return wrong(format!("there is no model {shown}"));
            }
            if let Some((template, offered)) = template
                && !offered.models.models.contains(name)
            {
                return wrong(format!("the template {template} does not have the model {name}"));
            }
        }
        Ok(())
    }

    async fn check_python(&self, kernelspec: &str) -> Result<(), EngineError> {
        let spec = self.services.kernelspec(kernelspec).await?;
        if spec.spec.language.eq_ignore_ascii_case("python") {
            return Ok(());
        }
        Err(EngineError::Unsupported {
            reason: format!("code of skills is Python, and the kernel {kernelspec} is not"),
        })
    }

    /// The latest version of a skill; one before a release if there is no other.
    async fn latest(&self, principal: &Principal, name: &str) -> Result<String, EngineError> {
        let owner = principal.owner().to_owned();
        let there = self
            .services
            .store()
            .skills(owner, Some(name.to_owned()))
            .await
            .map_err(stored)?;
        let versions = there.into_iter().map(info).collect::<Result<Vec<_>, _>>()?;
        let versions = versions.into_iter().map(|info| info.version);
        let latest = versions.max_by(|one, other| release_order(one).cmp(&release_order(other)));
        latest
            .map(|version| version.to_string())
            .ok_or_else(|| unknown(name, None))
    }

    pub(super) async fn stored_skill(
        &self,
        owner: &str,
        name: &str,
        version: &str,
    ) -> Result<(SkillInfo, Skill), EngineError> {
        let found = self
            .services
            .store()
            .skill(owner.to_owned(), name.to_owned(), version.to_owned());
        let record = found
            .await
            .map_err(stored)?
            .ok_or_else(|| unknown(name, Some(version)))?;
        let bytes = record.manifest.len() + record.files.len();
        let skill = himalia_budget::work(bytes, || {
            let manifest = serde_json::from_str(&record.manifest).map_err(|error| error.to_string())?;
            Ok::<_, String>(Skill::stored(manifest, unpack(&record.files)?))
        });
        let skill = skill.map_err(|error| EngineError::internal("reading a skill", error))?;
        Ok((info(record.brief)?, skill))
    }
}

fn pack(files: &Files) -> Vec<u8> {
    let packed: Map<String, Value> = files
        .iter()
        .map(|(path, content)| (path.clone(), STANDARD.encode(content).into()))
        .collect();
    Value::Object(packed).to_string().into_bytes()
}

fn unpack(packed: &[u8]) -> Result<Files, String> {
    let packed: BTreeMap<String, String> =
        serde_json::from_slice(packed).map_err(|error| error.to_string())?;
    let file = |(path, content): (String, String)| {
        let content = STANDARD.decode(content).map_err(|error| error.to_string())?;
        Ok((path, content))
    };
    packed.into_iter().map(file).collect()
}

fn info(brief: SkillBrief) -> Result<SkillInfo, EngineError> {
    let version = Version::parse(&brief.version)
        .map_err(|error| EngineError::internal("reading the version of a skill", error))?;
    Ok(SkillInfo {
        name: brief.name,
        version,
        kind: brief.kind,
        description: brief.description,
        digest: brief.digest,
        published_by: brief.published_by,
        published_micros: brief.published_micros,
    })
}

fn invalid(wrong: Invalid) -> EngineError {
    EngineError::bad_request(wrong.field, wrong.reason)
}

fn violation(one: Violation) -> ArgumentViolation {
    ArgumentViolation {
        path: one.path,
        rule: one.rule,
        text: one.text,
    }
}

fn unknown(name: &str, version: Option<&str>) -> EngineError {
    let id = version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}"));
    EngineError::NotFound {
        what: "Skill",
        id: id.chars().take(128).collect(),
    }
}

fn stored(error: StoreError) -> EngineError {
    not_stored("skills in the store", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_stored_as_they_are() {
        let files: Files = [("a/b".to_owned(), vec![0, 255]), ("c".to_owned(), Vec::new())].into();
        assert_eq!(unpack(&pack(&files)).unwrap(), files);
        assert!(unpack(b"{\"a\": \"?\"}").is_err());
    }
}
