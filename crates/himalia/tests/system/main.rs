//! The real `himalia` and `himalia-shim`, with scripted and hostile kernels: what a user relies on, seen from outside.
//!
//! | module | what |
//! |---|---|
//! | `crash` | kill -9 of the gateway while a cell runs, and with fifty kernels |
//! | `stopping` | SIGTERM, kernels kept or ended |
//! | `clients` | several clients on one kernel, lost and slow ones |
//! | `floods` | large and many outputs, interrupts meanwhile |
//! | `deaths` | kernels that die, fork, hang, are restarted or shut down |
//! | `starts` | the kernel limit, starts that fail |
//! | `environment` | what kernels see of the gateway's and of each other's variables: nothing |
//! | `bad_requests`, `bad_messages`, `secrets` | what the gateway refuses, and how |
//! | `hostile` | kernels that attack |
//! | `idle` | what a gateway costs that has nothing to do |
//! | `unproven` | processes that call a sandbox's socket without its key |
//! | `silence` | kernels that do not answer |
//! | `lifetimes` | culling, orphans |
//! | `logs` | logs of kernels that have ended |
//! | `executions` | code over REST: waited for, streamed, read later, over a kill of the gateway; `himalia exec` |
//! | `turns` | many callers of one session: who waits for whom, over REST and WebSockets |
//! | `sessions` | the native API: templates, limits, branches, `himalia session` |
//! | `session_kernels` | additional kernels of a session, over a kill of the gateway |
//! | `files` | files of a session over REST: up, down, listed, removed; what leads out is refused |
//! | `viewer` | the sign-in link that is printed, and what the viewer asks for: owner, usage, executions of records, passwords |
//! | `namespaces` | the same kernels in sandboxes, over a crash of the gateway |
//! | `neighbours` | gateways of root side by side: no sandbox has a user of another gateway's |

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod bad_messages;
mod bad_requests;
mod clients;
mod common;
mod crash;
mod deaths;
mod environment;
mod executions;
mod files;
mod floods;
mod hostile;
mod idle;
mod lifetimes;
mod logs;
mod namespaces;
mod neighbours;
mod secrets;
mod session_kernels;
mod sessions;
mod silence;
mod starts;
mod stopping;
mod turns;
mod unproven;
mod viewer;
