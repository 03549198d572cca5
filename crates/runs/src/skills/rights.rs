//! The rights of a run of a skill: within those of its template, and those that the skill says that it needs.

use himalia_model::network::AllowList;
use himalia_model::{EngineError, Session, SkillAccess, Template};
use himalia_provisioner::Network;
use himalia_skills::Manifest;

/// The network of a run: the hosts that both the template and the skill have.
pub(super) fn network_of(template: &Template, manifest: &Manifest) -> (Option<Network>, Option<AllowList>) {
    match template.network {
        Network::Allow => (None, Some(manifest.network.within(&template.allow))),
        // What it says that it needs are hosts; that network knows none.
        Network::Open(_) => (Some(Network::None), None),
        Network::None => (None, None),
    }
}

/// The skills that a run may run: those that it declares.
pub(super) fn skills_of(
    name: &str,
    template: &Template,
    manifest: &Manifest,
) -> Result<SkillAccess, EngineError> {
    if manifest.skills.is_empty() {
        return Ok(SkillAccess::None);
    }
    if !template.skills {
        let reason =
            format!("the skill runs other skills, and sessions of the template {name} may not (skills)");
        return Err(EngineError::bad_request("template", reason));
    }
    let named = manifest.skills.iter();
    Ok(SkillAccess::Named(
        named
            .map(|(name, required)| (name.clone(), required.to_string()))
            .collect(),
    ))
}

/// A skill that names an environment runs in no other one.
pub(super) fn check_environment(manifest: &Manifest, session: &Session) -> Result<(), EngineError> {
    let Some(wanted) = &manifest.environment else {
        return Ok(());
    };
    let has = [&session.sandbox.lock_hash, &session.sandbox.image_digest];
    if has.into_iter().flatten().any(|one| one == wanted) {
        return Ok(());
    }
    Err(EngineError::Conflict {
        reason: format!(
            "the skill needs the environment {wanted}, which is not that of the template {}",
            session.template
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest(network: &[&str]) -> Manifest {
        let json =
            json!({"name": "a", "version": "1.0.0", "kind": "code", "description": "d", "network": network});
        serde_json::from_value(json).unwrap()
    }

    fn template(network: Network, allow: &[&str]) -> Template {
        Template {
            network,
            allow: serde_json::from_value(json!(allow)).unwrap(),
            ..Template::default()
        }
    }

    #[test]
    fn a_run_reaches_what_both_the_template_and_the_skill_have() {
        let wide = template(Network::Allow, &["api.example.org", "*.example.com"]);
        let asked = |names: &[&str]| network_of(&wide, &manifest(names));
        let list = |names: &[&str]| (None, Some(serde_json::from_value(json!(names)).unwrap()));
        assert_eq!(asked(&["a.example.com", "other.net"]), list(&["a.example.com"]));
        assert_eq!(asked(&["*.net"]), list(&[]));
        assert_eq!(asked(&[]), list(&[]));
        let open = template(Network::Open("lab".into()), &[]);
        assert_eq!(
            network_of(&open, &manifest(&["a.net"])),
            (Some(Network::None), None)
        );
        let none = template(Network::None, &[]);
        assert_eq!(network_of(&none, &manifest(&["a.net"])), (None, None));
    }
}
