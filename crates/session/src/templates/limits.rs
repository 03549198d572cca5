//! Limits: what a template gives, what a caller asks for, what the sandbox gets.

use himalia_model::{EngineError, FilesMode, NotOffered, SessionLimits, Template, usual_shm};
use himalia_provisioner::Limits;

/// A size that shrinks is a multiple of this, and not less.
const MIB: u64 = 1 << 20;

/// The limits of a session: what was asked for where that is allowed, else the template's. Sizes of file systems in memory
/// that neither of them chose shrink with the memory.
///
/// # Errors
/// [`EngineError::NotOffered`] names the first field that asks for more than the template allows;
/// [`EngineError::BadRequest`] one that is zero.
pub(super) fn settle(template: &Template, asked: &SessionLimits) -> Result<SessionLimits, EngineError> {
    let (has, max) = (&template.limits, &template.max);
    let settled = SessionLimits {
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
    };
    Ok(shrink(settled, template, asked))
}

/// With `/tmp`, `/dev/shm` and files that are not kept in at most half of the memory, as far as their sizes are defaults. `/dev/shm` is
/// memory that processes share, so its default is a part of their memory, and the others share the rest.
fn shrink(mut limits: SessionLimits, template: &Template, asked: &SessionLimits) -> SessionLimits {
    let Some(memory) = limits.memory_bytes else {
        return limits;
    };
    let usual = template.usual_sizes;
    if usual.shm && asked.shm_bytes.is_none() {
        limits.shm_bytes = limits.shm_bytes.map(|_| usual_shm(memory));
    }
    let in_memory = template.files == FilesMode::Ephemeral;
    let mut sizes = [
        (
            &mut limits.disk_bytes,
            usual.disk && asked.disk_bytes.is_none(),
            in_memory,
        ),
        (
            &mut limits.tmp_bytes,
            usual.tmp && asked.tmp_bytes.is_none(),
            true,
        ),
        (&mut limits.shm_bytes, false, true),
    ];
    let sum = |shrinks: bool, sizes: &[(&mut Option<u64>, bool, bool)]| {
        sizes
            .iter()
            .filter(|(_, is_usual, counts)| *counts && *is_usual == shrinks)
            .fold(0_u64, |sum, (size, ..)| sum.saturating_add(size.unwrap_or(0)))
    };
    let (chosen, unchosen) = (sum(false, &sizes), sum(true, &sizes));
    let room = (memory / 2).saturating_sub(chosen);
    if unchosen > room {
        for (size, _, _) in sizes
            .iter_mut()
            .filter(|(_, is_usual, counts)| *is_usual && *counts)
        {
            if let Some(bytes) = size {
                let share = u128::from(*bytes) * u128::from(room) / u128::from(unchosen);
                let share = u64::try_from(share).unwrap_or(u64::MAX);
                *bytes = (share / MIB * MIB).max(MIB);
            }
        }
    }
    limits
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
    use himalia_model::UsualSizes;

    use super::*;

    fn sized(memory: u64, usual: UsualSizes) -> Template {
        Template {
            limits: SessionLimits {
                memory_bytes: Some(memory * MIB),
                disk_bytes: Some(1024 * MIB),
                tmp_bytes: Some(256 * MIB),
                shm_bytes: Some(usual_shm(memory * MIB)),
                ..SessionLimits::default()
            },
            usual_sizes: usual,
            ..Template::default()
        }
    }

    #[test]
    fn sizes_that_are_defaults_fit_into_half_of_the_memory() {
        let all = UsualSizes {
            disk: true,
            tmp: true,
            shm: true,
        };
        let settled = |template: &Template, asked: &SessionLimits| {
            let limits = settle(template, asked).unwrap();
            let sizes = [limits.disk_bytes, limits.tmp_bytes, limits.shm_bytes];
            (
                sizes.map(|size| size.unwrap() / MIB),
                limits.memory_total(template.files, true).unwrap() / MIB,
            )
        };
        let nothing = SessionLimits::default();
        assert_eq!(
            settled(&sized(4096, all), &nothing),
            ([1024, 256, 512], 4096 + 1792)
        );
        assert_eq!(
            settled(&sized(2048, all), &nothing),
            ([614, 153, 256], 2048 + 1023)
        );
        assert_eq!(settled(&sized(512, all), &nothing), ([153, 38, 64], 512 + 255));
        // By the memory that is asked for, too.
        let little = SessionLimits {
            memory_bytes: Some(512 * MIB),
            ..SessionLimits::default()
        };
        assert_eq!(settled(&sized(4096, all), &little), ([153, 38, 64], 767));
        // What the caller or the template chose stays, and the others have the rest.
        let chosen = SessionLimits {
            disk_bytes: Some(190 * MIB),
            ..little.clone()
        };
        assert_eq!(settled(&sized(4096, all), &chosen), ([190, 2, 64], 768));
        let too_much = SessionLimits {
            disk_bytes: Some(1024 * MIB),
            ..little.clone()
        };
        assert_eq!(settled(&sized(4096, all), &too_much), ([1024, 1, 64], 512 + 1089));
        assert_eq!(
            settled(&sized(512, UsualSizes::default()), &nothing),
            ([1024, 256, 64], 512 + 1344)
        );
        // Kept files are not in memory.
        let kept = Template {
            files: FilesMode::Session,
            ..sized(512, all)
        };
        assert_eq!(settled(&kept, &nothing), ([1024, 192, 64], 512 + 256));
        let plain = settle(&sized(512, all), &nothing).unwrap();
        assert_eq!(
            plain.memory_total(FilesMode::Ephemeral, false),
            plain.memory_bytes
        );
        assert_eq!(
            SessionLimits::default().memory_total(FilesMode::Ephemeral, true),
            None
        );
    }

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
