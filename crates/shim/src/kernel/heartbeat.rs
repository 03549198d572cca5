use std::rc::Rc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Kernel;
use super::sockets::Heart;

/// Between two beats, and for the answer to each.
const PERIOD: Duration = Duration::from_secs(5);
/// Beats without an answer until the kernel counts as silent.
const MISSES: u32 = 3;

/// Reports whether the kernel answers; it decides nothing. A kernel that computes still answers (another thread does
/// it), one that is stopped or thrashes does not.
pub(super) async fn watch(kernel: Rc<Kernel>, mut heart: Heart) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut misses = 0_u32;
    loop {
        ticks.tick().await;
        misses = if heart.beat(PERIOD).await {
            0
        } else {
            misses.saturating_add(1)
        };
        kernel.set_alive(misses < MISSES);
    }
}
