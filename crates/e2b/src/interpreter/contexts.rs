//! Contexts: they are started, listed, restarted and ended.

use std::collections::HashMap;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use himalia_engine::{Engine, EngineError, KernelId, NewKernel, Principal, SessionId, SessionInfo};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::caller::{Caller, SandboxName, message};
use crate::facade::Facade;
use crate::failure::{Failure, TextFailure};

type Answer<T> = Result<T, TextFailure>;

#[derive(Debug, Serialize)]
pub(super) struct Context {
    id: String,
    language: String,
    cwd: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct ContextRequest {
    language: Option<String>,
    cwd: Option<String>,
}

pub(super) async fn create(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    body: Body,
) -> Answer<Json<Context>> {
    let ContextRequest { language, cwd } = message(body).await?;
    let session = named.running(&facade.engine, &principal)?;
    let languages = Languages::read(&facade.engine, &principal).await?;
    let wanted = NewKernel {
        kernelspec: match language.filter(|language| !language.is_empty()) {
            None => None,
            Some(language) => {
                let first = facade.engine.session_info(&principal, session.first_kernel())?;
                Some(languages.kernelspec(&language, &first.session.kernelspec)?)
            }
        },
        cwd: cwd.filter(|cwd| !cwd.is_empty()),
        ..NewKernel::default()
    };
    let started = facade
        .engine
        .start_session_kernel(&principal, session, wanted)
        .await;
    let info = started.map_err(|error| Failure::at_sandbox(error, &named.0))?;
    Ok(Json(languages.context(&info)))
}

pub(super) async fn list(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
) -> Answer<Json<Vec<Context>>> {
    let session = named.running(&facade.engine, &principal)?;
    let languages = Languages::read(&facade.engine, &principal).await?;
    let kernels = facade.engine.session_kernels(&principal, session);
    let kernels = kernels.map_err(|error| Failure::at_sandbox(error, &named.0))?;
    Ok(Json(kernels.iter().map(|info| languages.context(info)).collect()))
}

pub(super) async fn remove(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Path(context): Path<String>,
) -> Answer<Json<Value>> {
    let session = named.running(&facade.engine, &principal)?;
    find(&facade.engine, &principal, session, &context)?;
    facade
        .engine
        .end_session_kernel(&principal, session, &context)
        .await?;
    Ok(Json(Value::Null))
}

pub(super) async fn restart(
    State(facade): State<Facade>,
    Caller(principal): Caller,
    named: SandboxName,
    Path(context): Path<String>,
) -> Answer<Json<Value>> {
    let session = named.running(&facade.engine, &principal)?;
    let kernel = find(&facade.engine, &principal, session, &context)?;
    facade.engine.restart_kernel(&principal, kernel).await?;
    Ok(Json(Value::Null))
}

/// The kernel of a context; 404 if there is none.
pub(super) fn find(
    engine: &Engine,
    principal: &Principal,
    session: SessionId,
    context: &str,
) -> Result<KernelId, Failure> {
    let found = engine.session_kernel(principal, session, Some(context));
    found.map_err(|error| match error {
        EngineError::NotFound { .. } => {
            let context: String = context.chars().take(64).flat_map(char::escape_debug).collect();
            Failure::new(StatusCode::NOT_FOUND, format!("Context {context} not found"))
        }
        other => other.into(),
    })
}

/// The languages of kernelspecs, by their names.
pub(super) struct Languages(HashMap<String, String>);

impl Languages {
    pub(super) async fn read(engine: &Engine, principal: &Principal) -> Result<Self, EngineError> {
        let all = engine.kernelspecs(principal).await?.specs;
        let languages = all
            .into_iter()
            .filter(|(_, spec)| spec.problem.is_none())
            .map(|(name, spec)| (name, spec.spec.language.to_lowercase()));
        Ok(Self(languages.collect()))
    }

    /// The language of a kernelspec; that of E2B's default, where it is not known.
    fn of(&self, kernelspec: &str) -> String {
        let known = self.0.get(kernelspec).filter(|language| !language.is_empty());
        known.map_or_else(|| "python".to_owned(), Clone::clone)
    }

    /// A kernelspec for a language, `usual` if it has that one.
    pub(super) fn kernelspec(&self, language: &str, usual: &str) -> Result<String, Failure> {
        let wanted = match language.to_lowercase().as_str() {
            "js" => "javascript".to_owned(),
            "ts" => "typescript".to_owned(),
            other => other.to_owned(),
        };
        if self.of(usual) == wanted {
            return Ok(usual.to_owned());
        }
        let mut fitting: Vec<&String> = self
            .0
            .iter()
            .filter(|(_, has)| **has == wanted)
            .map(|(name, _)| name)
            .collect();
        fitting.sort();
        fitting.first().map(|name| (*name).clone()).ok_or_else(|| {
            let mut offered: Vec<&String> = self.0.values().collect();
            offered.sort();
            offered.dedup();
            Failure::field(
                "language",
                format!("no kernel runs {language:?}; there are {offered:?}"),
            )
        })
    }

    fn context(&self, info: &SessionInfo) -> Context {
        Context {
            id: info.kernel.id.to_string(),
            language: self.of(&info.session.kernelspec),
            cwd: info.session.cwd.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_run_by_a_kernelspec_that_has_it() {
        let all = [
            ("python3", "python"),
            ("ir", "r"),
            ("py2", "python"),
            ("deno", "typescript"),
        ];
        let all = all.map(|(name, language)| (name.to_owned(), language.to_owned()));
        let languages = Languages(all.into_iter().collect());
        let of = |language: &str, usual: &str| languages.kernelspec(language, usual);
        assert_eq!(of("Python", "py2").unwrap(), "py2");
        assert_eq!(of("python", "ir").unwrap(), "py2");
        assert_eq!(of("R", "python3").unwrap(), "ir");
        assert_eq!(of("ts", "python3").unwrap(), "deno");
        let refused = of("java", "python3").unwrap_err();
        assert_eq!(refused.answer.status, StatusCode::BAD_REQUEST);
        assert!(refused.message.starts_with("language: "), "{}", refused.message);
    }
}
