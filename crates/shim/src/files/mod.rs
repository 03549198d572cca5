//! The files of a session: read, written, listed, removed, packed and unpacked on a stream of its own.
//!
//! Each stream has a thread that blocks, on files and on its socket alike, so that the one thread of the shim never does.

mod beneath;
#[cfg(test)]
mod beneath_tests;
mod connection;
mod delete;
mod failure;
mod get;
mod list;
mod merge;
mod metadata;
mod pack;
mod path;
mod put;
mod rename;
mod staging;
#[cfg(test)]
mod tests;
mod tick;
mod unpack;

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use himalia_link::{Gateway, Socket, WriteQueue};
use himalia_shim_protocol::{
    FileTask, Hello, StreamDone, StreamFailed, StreamFailure, StreamFrame, ToGateway,
};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use beneath::Root;
use connection::Connection;
use failure::Result;
use path::Relative;

/// Most streams at once. The gateway asks for fewer; those of one that has gone may still be ending.
pub(crate) const STREAMS_MAX: usize = 16;
/// Stack of a thread, in bytes: a walk goes through [`path::DEPTH_MAX`] directories.
const STACK_BYTES: usize = 1 << 20;

/// Longest time to send a refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(10);

/// One stream that is to be opened.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) gateway: Gateway,
    pub(crate) link: String,
    pub(crate) hello: Hello,
    /// The session's work directory.
    pub(crate) work_dir: PathBuf,
    pub(crate) task: FileTask,
    /// Paths that begin with `/` are those of the sandbox; else they are refused.
    pub(crate) absolute: bool,
}

impl Stream {
    /// Starts its thread. `permit` is its place among [`STREAMS_MAX`].
    pub(crate) fn spawn(self, permit: OwnedSemaphorePermit) -> std::io::Result<()> {
        let thread = std::thread::Builder::new()
            .name("stream".to_owned())
            .stack_size(STACK_BYTES);
        let run = move || {
            self.run();
            drop(permit);
        };
        thread.spawn(run).map(drop)
    }

    fn run(self) {
        let mut connection = match Connection::dial(&self.gateway, &self.link, self.hello) {
            Ok(connection) => connection,
            Err(failure) => return tracing::info!("no stream: {}", failure.reason),
        };
        let last = match carry_out((&self.work_dir, self.absolute), &self.task, &mut connection) {
            Ok(done) => StreamFrame::Done(done),
            Err(failure) => StreamFrame::Failed(failure.into_body()),
        };
        // The gateway may have gone.
        let _ = connection.send(&last);
    }
}

/// Opens a stream only to say on it that nothing is done, without a thread.
pub(crate) async fn refuse(
    connecting: impl Future<Output = io::Result<Socket>>,
    hello: Hello,
    code: StreamFailure,
    reason: String,
) {
    let mut out = WriteQueue::default();
    let failed = StreamFrame::Failed(StreamFailed { code, reason });
    let hello = ToGateway::Hello(Box::new(hello));
    let encoded = out.push_with(|out| hello.encode(out).and_then(|()| failed.encode(out)));
    if encoded.is_err() {
        return;
    }
    let said = timeout(REFUSAL_TIME, async {
        let mut socket = connecting.await?;
        while !out.write_to(&mut socket)? {
            poll_fn(|cx| socket.poll_room(cx)).await?;
        }
        io::Result::Ok(())
    });
    if !matches!(said.await, Ok(Ok(()))) {
        tracing::info!("a stream was not refused: there is no gateway");
    }
}

/// `absolute`: paths that begin with `/` are those of the sandbox.
fn carry_out(
    (work_dir, absolute): (&Path, bool),
    task: &FileTask,
    connection: &mut Connection,
) -> Result<StreamDone> {
    let below_work_dir =
        |path: &str| -> Result<(Root, Relative)> { Ok((Root::open(work_dir)?, Relative::parse(path)?)) };
    let find = |path: &str| match path.strip_prefix('/') {
        Some(path) if absolute => Ok((Root::whole()?, Relative::parse_absolute(path)?)),
        _ => below_work_dir(path),
    };
    match task {
        FileTask::Get { path, range } => {
            let (root, path) = find(path)?;
            get::run(&root, &path, *range, connection)
        }
        FileTask::Put {
            path,
            max_bytes,
            metadata,
        } => {
            let (root, path) = find(path)?;
            put::run(&root, &path, (*max_bytes, metadata), connection)
        }
        FileTask::List {
            path,
            depth,
            limit,
            after,
        } => {
            let (root, path) = find(path)?;
            list::run(&root, &path, (*depth, *limit, after.as_deref()), connection)
        }
        FileTask::Stat { path } => {
            let (root, path) = find(path)?;
            list::stat(&root, &path, connection)
        }
        FileTask::MakeDir { path } => {
            let (root, path) = find(path)?;
            rename::make(&root, &path)
        }
        FileTask::Move { from, to } => {
            let (from, to) = (find(from)?, find(to)?);
            rename::run((&from.0, &from.1), (&to.0, &to.1))
        }
        FileTask::Delete { path, recursive } => {
            let (root, path) = find(path)?;
            delete::run(&root, &path, *recursive)
        }
        FileTask::Pack { path, max_bytes } => {
            let (root, path) = below_work_dir(path)?;
            pack::run(&root, &path, *max_bytes, connection)
        }
        FileTask::Unpack { path, max_bytes } => {
            let (root, path) = below_work_dir(path)?;
            unpack::run(&root, &path, *max_bytes, connection)
        }
    }
}
