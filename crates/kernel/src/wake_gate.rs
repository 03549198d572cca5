//! A group of sources that are polled only after one of them has woken the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Polls a group of sources only after one of them has woken the task, so that they cost nothing when others wake it.
#[derive(Debug)]
pub(super) struct WakeGate {
    group: Arc<Group>,
    waker: Waker,
}

#[derive(Debug)]
struct Group {
    woken: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Group {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl WakeGate {
    /// A group that was not polled yet.
    pub(super) fn new() -> Self {
        let group = Arc::new(Group {
            woken: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        let waker = Waker::from(Arc::clone(&group));
        Self { group, waker }
    }

    /// Polls the group with `look`, which must poll the same sources each time, or stop at the first that is ready.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        look: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        // Before the flag is read: a waker that sets it afterwards wakes the right task.
        self.group.task.lock().clone_from(cx.waker());
        if !self.group.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let found = look(&mut Context::from_waker(&self.waker));
        if found.is_ready() {
            // Those behind it were not polled.
            self.group.woken.store(true, Ordering::Release);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;

    struct Two {
        gate: WakeGate,
        polled: usize,
        sources: [mpsc::Receiver<u8>; 2],
    }

    impl Two {
        fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<u8>> {
            self.gate.poll(cx, |cx| {
                self.polled += 1;
                let mut found = self.sources.iter_mut().map(|source| source.poll_recv(cx));
                found.find(Poll::is_ready).unwrap_or(Poll::Pending)
            })
        }

        async fn next(&mut self) -> Option<u8> {
            let found = poll_fn(|cx| self.poll(cx));
            tokio::time::timeout(Duration::from_secs(30), found)
                .await
                .unwrap()
        }
    }

    #[tokio::test]
    async fn sources_are_polled_when_they_wake_and_none_is_forgotten() {
        let ((first, firsts), (second, seconds)) = (mpsc::channel(8), mpsc::channel(8));
        let mut two = Two {
            gate: WakeGate::new(),
            polled: 0,
            sources: [firsts, seconds],
        };
        second.send(2).await.unwrap();
        first.send(1).await.unwrap();
        assert_eq!((two.next().await, two.next().await), (Some(1), Some(2)));
        for _ in 0..3 {
            assert!(poll_fn(|cx| Poll::Ready(two.poll(cx))).await.is_pending());
        }
        assert_eq!(two.polled, 3, "twice ready, once not");
        let late = tokio::spawn(async move {
            tokio::task::yield_now().await;
            second.send(3).await.unwrap();
        });
        assert_eq!(two.next().await, Some(3));
        assert_eq!(two.polled, 4);
        late.await.unwrap();
    }
}
