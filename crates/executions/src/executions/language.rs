//! The languages that a kernel can be given code in.

use himalia_kernel::Language;
use himalia_kernelspecs::is_ours;
use himalia_model::{EngineError, KernelSpec};

use crate::Execute;

/// Characters of an unknown language that are shown.
const NAME_CHARS: usize = 40;

/// Language for a kernel by its name: the kernel's own, or one that its kernel package runs. `spec`: that of `kernelspec`, if it is still there.
pub fn language(spec: Option<&KernelSpec>, kernelspec: &str, name: &str) -> Result<Language, EngineError> {
    let own = spec.map_or("", |spec| spec.spec.language.as_str());
    if !own.is_empty() && name.eq_ignore_ascii_case(own) {
        return Ok(Language::Kernel);
    }
    let is_bash = name.eq_ignore_ascii_case("bash");
    if is_bash && spec.is_some_and(is_ours) {
        return Ok(Language::Bash);
    }
    let shown: String = name.chars().take(NAME_CHARS).collect();
    let offered = match (own.is_empty(), is_bash) {
        (true, _) => "its language is not known".to_owned(),
        (false, true) => format!("{own:?} alone"),
        (false, false) if spec.is_some_and(is_ours) => format!("{own:?} and \"bash\""),
        (false, false) => format!("{own:?}"),
    };
    Err(EngineError::LanguageNotSupported {
        reason: format!("{shown:?} is not run by the kernel {kernelspec:?}: {offered}"),
    })
}

/// Checks that the kernel can give one execution an environment and a directory of its own.
pub fn scoped(spec: Option<&KernelSpec>, kernelspec: &str, wanted: &Execute) -> Result<(), EngineError> {
    if !wanted.is_scoped() || spec.is_some_and(is_ours) {
        return Ok(());
    }
    let field = if wanted.env.is_empty() { "cwd" } else { "env" };
    Err(EngineError::Unsupported {
        reason: format!(
            "{field}: the kernel {kernelspec:?} has one environment and one directory for all executions; change them with code"
        ),
    })
}

#[cfg(test)]
mod tests {
    use himalia_model::KernelJson;

    use super::*;

    fn kernelspec(name: &str, argv: &[&str], language: &str) -> KernelSpec {
        KernelSpec {
            name: name.into(),
            spec: KernelJson {
                argv: argv.iter().map(ToString::to_string).collect(),
                language: language.into(),
                ..KernelJson::default()
            },
            resources: std::collections::BTreeMap::new(),
            dir: std::path::PathBuf::new(),
            problem: None,
        }
    }

    #[test]
    fn a_kernel_runs_its_own_language_and_ours_bash() {
        let ours = kernelspec("python3", &["python3", "-m", "himalia_kernel"], "python");
        let other = kernelspec("ir", &["R"], "R");
        let asked = |spec: &KernelSpec, name: &str| language(Some(spec), &spec.name, name);
        let there = Execute {
            cwd: Some("/tmp".to_owned()),
            ..Execute::default()
        };
        assert!(scoped(Some(&ours), "python3", &there).is_ok());
        let refused = scoped(Some(&other), "ir", &there).unwrap_err();
        assert!(refused.to_string().starts_with("cwd: "), "{refused}");
        assert!(scoped(Some(&other), "ir", &Execute::default()).is_ok());
        assert_eq!(asked(&ours, "Python").unwrap(), Language::Kernel);
        assert_eq!(asked(&ours, "bash").unwrap(), Language::Bash);
        assert_eq!(asked(&other, "r").unwrap(), Language::Kernel);
        for (spec, name, wanted) in [
            (
                &ours,
                "ruby",
                r#"language: "ruby" is not run by the kernel "python3": "python" and "bash""#,
            ),
            (
                &other,
                "bash",
                r#"language: "bash" is not run by the kernel "ir": "R" alone"#,
            ),
            (&other, "", r#"language: "" is not run by the kernel "ir": "R""#),
        ] {
            let error = asked(spec, name).unwrap_err();
            assert_eq!(
                (error.to_string().as_str(), error.code()),
                (wanted, "language_not_supported")
            );
        }
        assert!(language(None, "gone", "bash").is_err());
    }
}
