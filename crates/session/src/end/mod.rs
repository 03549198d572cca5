//! End of a session, and the data that is kept of it.
//!
//! | question | answer | file |
//! |---|---|---|
//! | why does a session end? | its owner or an agent ends it (`Command::Stop`), | `engine` |
//! | | its idle time or its lifetime has passed, | `lifetimes` |
//! | | its kernel is idle by the rules of `jupyter_server`, | `culling` |
//! | | its sandbox has ended and it cannot get another one | `sandbox_exit` |
//! | what happens then? | the kernel's actor calls its host: sandbox, row, log and registry are released | `teardown` |
//! | what is kept? | a row and a log, | `ended_sessions`, `ended_log`, `snapshot`, `open_logs` |
//! | | files that outlive a sandbox | `kept_files` |
//! | when does that go? | after the retention time, or above its bounds | `collect`, `unknown_logs` |
//! | what else may be left? | sandboxes of a gateway that was killed | `left_sandboxes` |

mod collect;
mod culling;
mod ended_log;
mod ended_sessions;
mod kept_files;
mod left_sandboxes;
mod lifetimes;
mod open_logs;
mod sandbox_exit;
mod snapshot;
mod teardown;
mod unknown_logs;

pub(crate) use collect::Collection;
pub use collect::{Bounds, WHOLE};
pub(crate) use culling::{IdleCuller, Sessions};
pub(crate) use ended_sessions::BY_RETENTION;
pub use ended_sessions::{EndedSessions, MAX_KEPT, ended_session, over};
pub(crate) use kept_files::{
    forget_kept_files, known_files, new_name, remove_kept_files, remove_unknown_files,
};
pub(crate) use left_sandboxes::Sweep;
pub(crate) use lifetimes::Lifetimes;
pub(crate) use open_logs::OpenLogs;
pub use snapshot::{EndedSessionSnapshot, ended_info};
pub(crate) use teardown::{SESSION_ENDED, Teardown};
pub(crate) use unknown_logs::remove_unknown_logs;
