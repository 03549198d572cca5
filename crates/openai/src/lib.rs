//! The facade of `OpenAI`'s containers and container files, over one [`Engine`](himalia_engine::Engine).
//!
//! [`service`] is a tower service. The code that mounts it authenticates before it, and puts the
//! [`Principal`](himalia_engine::Principal) into the request's extensions.
//!
//! A container is a session, with its name as a label. The API has no call that runs code: that is for the other interfaces of the
//! gateway, by the id of the session, which is in that of the container.
//!
//! * `containers` starts, lists, shows and ends them.
//! * `files` lists, reads, writes and removes their files. The id of a file is its path.
//! * `ids` are the ids of both.
//! * `page` is the form of a list.
//! * `failure` gives errors the body that clients read.
//!
//! Invariant: there is no state between requests. What a client asks for that this gateway does not have is refused.

mod containers;
mod facade;
mod failure;
mod files;
mod ids;
mod limits;
mod page;

pub use facade::service;
