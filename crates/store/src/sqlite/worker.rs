//! A thread that owns one connection and runs jobs on it in order. A job can write some megabytes, so messages of kernels may run first:
//! the thread has a long time slice.

use std::fs::File;
use std::path::PathBuf;

use himalia_proc::with_long_slice;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use crate::StoreError;

/// Jobs that may wait for one connection; the next caller waits for room.
pub const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

#[derive(Debug)]
pub(super) struct Worker {
    jobs: mpsc::Sender<Message>,
}

enum Message {
    Job(Job),
    Close(oneshot::Sender<()>),
}

impl Worker {
    /// Starts the thread. It ends when the last sender is gone or after [`Worker::close`], closes the
    /// connection, and only then drops `lock`.
    pub(super) fn spawn(name: &str, connection: Connection, lock: Option<File>) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || with_long_slice(|| serve(connection, queue, lock)))
            .map_err(|source| StoreError::Io {
                path: PathBuf::from(name),
                source,
            })?;
        Ok(Self { jobs })
    }

    /// Queues `job` and waits for its result.
    pub(super) async fn run<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> Result<T, Failure> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // The caller may have gone; the work is done all the same.
            let _ = reply.send(job(connection).map_err(StoreError::from));
        });
        self.jobs
            .send(Message::Job(job))
            .await
            .map_err(|_| StoreError::Closed)?;
        result.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs what is queued and waits until the connection is closed.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, closed) = oneshot::channel();
        self.jobs
            .send(Message::Close(reply))
            .await
            .map_err(|_| StoreError::Closed)?;
        closed.await.map_err(|_| StoreError::Closed)
    }
}

fn serve(mut connection: Connection, mut queue: mpsc::Receiver<Message>, lock: Option<File>) {
    let mut closers = Vec::new();
    while let Some(message) = queue.blocking_recv() {
        match message {
            Message::Job(job) => job(&mut connection),
            Message::Close(reply) => {
                closers.push(reply);
                // Nothing new gets in; what is queued is still received.
                queue.close();
            }
        }
    }
    if let Err((_, error)) = connection.close() {
        tracing::warn!(%error, "the database did not close cleanly");
    }
    drop(lock);
    for reply in closers {
        let _ = reply.send(());
    }
}
