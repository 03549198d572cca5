//! Work that its caller cannot stop half-way.

use himalia_model::EngineError;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::SessionManager;

impl SessionManager {
    /// Does work in a task of its own, and gives what comes of it. If the caller goes away meanwhile, the work is done all the
    /// same, and `unclaimed` gets its result. A stop of the gateway waits for the work; once it has begun, no work begins.
    pub(super) fn detached<T, W, U, F>(
        &self,
        work: W,
        unclaimed: U,
    ) -> impl Future<Output = Result<T, EngineError>> + use<T, W, U, F>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, EngineError>> + Send + 'static,
        U: FnOnce(T) -> F + Send + 'static,
        F: Future<Output = ()> + Send,
    {
        let (reply, answer) = oneshot::channel();
        // It counts before the gate is looked at, and a stop looks at what counts after it has closed the gate.
        let counted = self.starts.tasks.token();
        let open = self.check_open();
        let work = async move {
            let _counted = counted;
            if let Err(Ok(result)) = reply.send(work.await) {
                unclaimed(result).await;
            }
        };
        // Its log lines are those of the request that it is for.
        if open.is_ok() {
            self.background.spawn(work.in_current_span());
        }
        async {
            open?;
            answer
                .await
                .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
        }
    }
}
