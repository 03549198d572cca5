//! What `POST /v1/sessions` asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use himalia_engine::{Isolation, Network, Origin, Secrets, SessionLimits, StartKernel};

use crate::body::Fields;
use crate::error::ApiError;
use crate::jupyter::kernels::optional_kernel_id;
use crate::variables;

/// Reads the body; every member may be absent, none may be unknown.
pub(super) fn read(mut fields: Fields) -> Result<StartKernel, ApiError> {
    let levels = Isolation::ALL.map(|level| (level.as_str(), level));
    let start = StartKernel {
        name: filled(&mut fields, "template")?,
        id: optional_kernel_id(&mut fields, "id")?,
        cwd: filled(&mut fields, "cwd")?,
        env: variables::read(&mut fields, "env")?,
        secrets: Secrets(variables::read(&mut fields, "secrets")?),
        origin: Origin::V1,
        isolation: fields.word("isolation", &levels)?,
        limits: limits(&mut fields)?,
        image: filled(&mut fields, "image")?,
        network: filled(&mut fields, "network")?.map(|name| match name.as_str() {
            "none" => Network::None,
            _ => Network::Open(name),
        }),
        idle_timeout: seconds(&mut fields, "idle_timeout_s")?,
        lifetime: seconds(&mut fields, "lifetime_s")?,
        labels: match fields.object("labels")? {
            Some(labels) => labels.into_strings()?,
            None => BTreeMap::new(),
        },
        session_name: filled(&mut fields, "name")?,
    };
    fields.finish()?;
    Ok(start)
}

fn limits(fields: &mut Fields) -> Result<SessionLimits, ApiError> {
    let Some(mut fields) = fields.object("limits")? else {
        return Ok(SessionLimits::default());
    };
    let limits = SessionLimits {
        memory_bytes: positive(&mut fields, "memory_bytes")?,
        pids: small(&mut fields, "pids")?,
        cpu_millis: small(&mut fields, "cpu_millis")?,
        disk_bytes: positive(&mut fields, "disk_bytes")?,
        tmp_bytes: positive(&mut fields, "tmp_bytes")?,
        shm_bytes: positive(&mut fields, "shm_bytes")?,
        open_files: positive(&mut fields, "open_files")?,
        output_bytes: positive(&mut fields, "output_bytes")?,
        execution_ms: positive(&mut fields, "execution_ms")?,
    };
    fields.finish()?;
    Ok(limits)
}

/// A text; an empty one counts as absent.
fn filled(fields: &mut Fields, name: &str) -> Result<Option<String>, ApiError> {
    Ok(fields.string(name)?.filter(|text| !text.is_empty()))
}

fn positive(fields: &mut Fields, name: &str) -> Result<Option<u64>, ApiError> {
    match fields.number(name)? {
        Some(0) => Err(ApiError::bad_field(fields.name(name), "must be positive")),
        other => Ok(other),
    }
}

fn small(fields: &mut Fields, name: &str) -> Result<Option<u32>, ApiError> {
    let Some(number) = positive(fields, name)? else {
        return Ok(None);
    };
    match u32::try_from(number) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(ApiError::bad_field(fields.name(name), "is too large")),
    }
}

pub(super) fn seconds(fields: &mut Fields, name: &str) -> Result<Option<Duration>, ApiError> {
    const MOST: u64 = 10 * 366 * 86_400;
    match positive(fields, name)? {
        Some(seconds) if seconds > MOST => {
            Err(ApiError::bad_field(fields.name(name), "is longer than 10 years"))
        }
        seconds => Ok(seconds.map(Duration::from_secs)),
    }
}
