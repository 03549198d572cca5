//! Skills without code as prompts, which hosts offer to their users by name.

use himalia_engine::{EngineError, Principal};
use himalia_runs::{Runs, SkillKind};
use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, Prompt, PromptMessage, Role};

use crate::tools::skill;

/// The latest version of each. Code is run with the tool `skill`.
pub(crate) async fn all(runs: &Runs, principal: &Principal) -> Result<Vec<Prompt>, EngineError> {
    let mut all = runs.skills(principal, None).await?;
    // They come by name, the latest version of each first.
    all.dedup_by(|later, first| later.name == first.name);
    let shown = all
        .into_iter()
        .filter(|info| info.kind == SkillKind::Instructions.as_str());
    Ok(shown
        .map(|info| Prompt::new(info.name, Some(info.description), None))
        .collect())
}

/// The instructions of one, as a message of the user.
pub(crate) async fn one(
    runs: &Runs,
    principal: &Principal,
    name: &str,
) -> Result<GetPromptResult, ErrorData> {
    let found = runs.skill(principal, name, None).await;
    let (info, skill) = found.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
    if skill.manifest().kind != SkillKind::Instructions {
        let text = format!("{name} is code: run it with the tool skill");
        return Err(ErrorData::invalid_params(text, None));
    }
    let message = PromptMessage::new_text(Role::User, skill::shown(&info, &skill));
    Ok(GetPromptResult::new(vec![message]).with_description(info.description))
}
