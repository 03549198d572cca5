//! Sessions: a sandbox with its log and its kernels, from its start to what is kept of it after its end.
//!
//! | question | where |
//! |---|---|
//! | How does one start? | `start`: the steps and the sources of a start |
//! | What is it given? | `templates`: the template, the request, and the limits of both |
//! | What runs? | [`SessionManager`] with its `registry` of [`SessionKernel`]s, each in a sandbox (`sandbox_lease`) |
//! | How does one end, and what is kept? | `end` |
//!
//! All of it is one object, [`SessionManager`]. It authorises no caller: the engine has done that before.

mod callbacks;
mod change;
mod credentials;
mod disk;
mod end;
mod files;
mod gate;
mod llm;
mod log_cache;
mod log_sync;
mod logs;
mod manager;
mod memory_gauge;
mod meter;
mod metering;
mod network;
mod open;
mod periodic;
mod processes;
mod programs;
mod prompts;
mod provisioners;
mod quotas;
mod readiness;
mod record;
mod registry;
mod replica;
mod room;
mod sandbox_error;
mod sandbox_lease;
mod services;
mod session_kernel;
mod skills;
mod start;
mod stop_state;
mod store_error;
mod streams;
mod templates;
#[cfg(test)]
mod testing;
mod times;
mod tools;

pub use credentials::{Credentials, GrantAnswer, MAX_CREDENTIALS_OF_OWNER, StartedGrant};
pub use disk::{DiskUse, Room, free};
pub use end::{
    Bounds, EndedSessionSnapshot, EndedSessions, MAX_KEPT, WHOLE, ended_info, ended_session, over,
};
pub use files::{
    ByteRange, FileDownload, FileInfo, FileKind, FileListing, FileUpload, ListedFile, MAX_LISTED,
    MAX_TRANSFER_BYTES, MAX_TRANSFERS, PackedFiles, RemovedFiles, Transfer, WrittenFiles,
};
pub use gate::{Gate, Turn};
// What a credential is set with.
pub use himalia_credentials::{CredentialValue, GivenSecrets, SecretText};
pub use himalia_sandbox_api::RunOfSkill;
pub(crate) use llm::Llm;
pub use log_cache::{LogCache, SharedCache};
pub use manager::SessionManager;
pub use memory_gauge::MemoryGauge;
pub(crate) use meter::Meter;
pub use processes::{MAX_PROCESSES, Process, ProcessEvent, ProcessEvents, ProcessWriter};
pub(crate) use programs::SessionPrograms;
pub use prompts::prompt_error;
pub use provisioners::{Provisioners, RemoteSandboxes};
pub use record::provenance;
pub use registry::Registry;
pub use sandbox_error::not_done;
pub use sandbox_lease::Lease;
pub use session_kernel::SessionKernel;
// What a program checks before it opens a shared store.
pub use himalia_shared_log::ObjectStoreUrl;
pub use himalia_store::{PostgresUrl, REPLICA_FILE, check_replica_name};
pub use skills::SessionSkills;
pub use start::{
    MAX_NAME_CHARS, MAX_SESSION_KERNELS, MAX_START_KEY_BYTES, NAME_PATTERN, Pool, name_of_key, name_of_run,
};
pub use store_error::not_stored;
pub use templates::Templates;
pub use tools::{OpenCall, Tools};
