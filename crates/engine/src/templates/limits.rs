//! Limits: what a template gives, what a caller asks for, what the sandbox is told.

use himalia_sandbox::Limits;

use crate::model::{SessionLimits, Template};
use crate::{EngineError, NotOffered};

/// The limits of a session: what was asked for where that is allowed, else the template's.
///
/// # Errors
/// [`EngineError::NotOffered`] names the first field that asks for more than the template allows;
/// [`EngineError::BadRequest`] one that is zero.
pub(super) fn settle(template: &Template, asked: &SessionLimits) -> Result<SessionLimits, EngineError> {
    let (has, max) = (&template.limits, &template.max);
    Ok(SessionLimits {
        memory_bytes: one(
            "limits.memory_bytes",
            has.memory_bytes,
            max.memory_bytes,
            asked.memory_bytes,
        )?,
        pids: one("limits.pids", has.pids, max.pids, asked.pids)?,
        cpu_millis: one(
            "limits.cpu_millis",
            has.cpu_millis,
            max.cpu_millis,
            asked.cpu_millis,
        )?,
        disk_bytes: one(
            "limits.disk_bytes",
            has.disk_bytes,
            max.disk_bytes,
            asked.disk_bytes,
        )?,
        tmp_bytes: one("limits.tmp_bytes", has.tmp_bytes, max.tmp_bytes, asked.tmp_bytes)?,
        shm_bytes: one("limits.shm_bytes", has.shm_bytes, max.shm_bytes, asked.shm_bytes)?,
        open_files: one(
            "limits.open_files",
            has.open_files,
            max.open_files,
            asked.open_files,
        )?,
        output_bytes: one(
            "limits.output_bytes",
            has.output_bytes,
            max.output_bytes,
            asked.output_bytes,
        )?,
        execution_ms: one(
            "limits.execution_ms",
            has.execution_ms,
            max.execution_ms,
            asked.execution_ms,
        )?,
    })
}

/// One limit. `has` and `max` that say nothing allow everything.
pub(super) fn one<T>(
    field: &'static str,
    has: Option<T>,
    max: Option<T>,
    asked: Option<T>,
) -> Result<Option<T>, EngineError>
where
    T: Copy + Ord + Default + std::fmt::Display,
{
    let default = has.or(max);
    let Some(asked) = asked else { return Ok(default) };
    if asked == T::default() {
        return Err(EngineError::bad_request(field, "must be above 0"));
    }
    match max.max(has) {
        Some(most) if asked > most => Err(EngineError::not_offered(
            NotOffered::Limit,
            field,
            format!("{asked} is asked for, this template allows at most {most}"),
        )),
        _ => Ok(Some(asked)),
    }
}

/// The part of the limits that the sandbox is made with.
pub(super) fn of_sandbox(limits: &SessionLimits) -> Limits {
    Limits {
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        cpu_millis: limits.cpu_millis,
        disk_bytes: limits.disk_bytes,
        tmp_bytes: limits.tmp_bytes,
        shm_bytes: limits.shm_bytes,
        open_files: limits.open_files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_always_allowed_and_more_up_to_the_maximum() {
        let template = Template {
            limits: SessionLimits {
                memory_bytes: Some(100),
                pids: Some(10),
                ..SessionLimits::default()
            },
            max: SessionLimits {
                memory_bytes: Some(200),
                cpu_millis: Some(4000),
                ..SessionLimits::default()
            },
            ..Template::default()
        };
        let nothing = settle(&template, &SessionLimits::default()).unwrap();
        assert_eq!(
            (
                nothing.memory_bytes,
                nothing.pids,
                nothing.cpu_millis,
                nothing.disk_bytes
            ),
            (Some(100), Some(10), Some(4000), None)
        );
        let memory = |bytes| SessionLimits {
            memory_bytes: Some(bytes),
            ..SessionLimits::default()
        };
        for bytes in [1, 100, 200] {
            assert_eq!(
                settle(&template, &memory(bytes)).unwrap().memory_bytes,
                Some(bytes)
            );
        }
        let more = settle(&template, &memory(201)).unwrap_err();
        assert_eq!(
            more.to_string(),
            "limits.memory_bytes: 201 is asked for, this template allows at most 200"
        );
        assert!(
            settle(&template, &memory(0))
                .unwrap_err()
                .to_string()
                .contains("above 0")
        );
        let pids = SessionLimits {
            pids: Some(11),
            disk_bytes: Some(1 << 60),
            ..SessionLimits::default()
        };
        assert!(matches!(
            settle(&template, &pids),
            Err(EngineError::NotOffered {
                field: "limits.pids",
                code: NotOffered::Limit,
                ..
            })
        ));
    }
}
