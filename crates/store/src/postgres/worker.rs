//! A task that owns one connection and runs jobs on it in order.

use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::connection::{Connector, Link, PATIENCE, no_answer};
use crate::StoreError;
use crate::failure::Failure;

/// Jobs that may wait for one connection; the next caller waits for room.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce(Result<Arc<Link>, StoreError>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

#[derive(Debug)]
pub(super) struct Worker {
    jobs: mpsc::Sender<Message>,
}

enum Message {
    Job(Job),
    Close(oneshot::Sender<()>),
}

impl Worker {
    /// Starts the task. It ends when the last sender is gone or after [`Worker::close`]. It connects at its first job, and again when
    /// the connection broke.
    pub(super) fn spawn(connector: Arc<Connector>) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(serve(connector, queue));
        Self { jobs }
    }

    /// Queues `job` and waits for its result. A job that was queued runs even when its caller stops waiting; one that the database
    /// does not answer in time fails, done or not.
    pub(super) async fn run<T, F, R>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Link>) -> R + Send + 'static,
        R: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let (reply, result) = oneshot::channel();
        let job: Job = Box::new(move |link| {
            Box::pin(async move {
                let done = match link {
                    Ok(link) => job(link).await.map_err(StoreError::from),
                    Err(error) => Err(error),
                };
                // The caller may have gone; the work is done all the same.
                let _ = reply.send(done);
            })
        });
        self.jobs
            .send(Message::Job(job))
            .await
            .map_err(|_| StoreError::Closed)?;
        match result.await {
            Ok(done) => done,
            Err(_) if self.jobs.is_closed() => Err(StoreError::Closed),
            Err(_) => Err(no_answer().into()),
        }
    }

    /// Runs what is queued, and closes the connection.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let (reply, closed) = oneshot::channel();
        self.jobs
            .send(Message::Close(reply))
            .await
            .map_err(|_| StoreError::Closed)?;
        closed.await.map_err(|_| StoreError::Closed)
    }
}

async fn serve(connector: Arc<Connector>, mut queue: mpsc::Receiver<Message>) {
    let mut closers = Vec::new();
    let mut link: Option<Arc<Link>> = None;
    while let Some(message) = queue.recv().await {
        match message {
            Message::Job(job) => {
                link = link.filter(|link| !link.is_closed());
                let ready = match &link {
                    Some(link) => Ok(Arc::clone(link)),
                    None => connector
                        .connect()
                        .await
                        .map(|client| Arc::new(Link::new(client))),
                };
                link = ready.as_ref().ok().cloned();
                let job = job(ready.map_err(StoreError::from));
                if tokio::time::timeout(PATIENCE, job).await.is_err() {
                    // What became of it is unknown, so nothing more is asked on this connection.
                    link = None;
                }
            }
            Message::Close(reply) => {
                closers.push(reply);
                // Nothing new gets in; what is queued is still received.
                queue.close();
            }
        }
    }
    drop(link);
    for reply in closers {
        let _ = reply.send(());
    }
}
