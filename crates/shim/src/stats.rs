use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::Stats;
use tokio::time::{MissedTickBehavior, interval};

use crate::kernel::Kernel;
use crate::proc_tree;

/// Between two looks at what the kernels use.
const PERIOD: Duration = Duration::from_secs(10);

/// Samples the resource use of all kernels for ever. `kernels` is called once for each look.
pub(crate) async fn run(kernels: impl Fn() -> Vec<Rc<Kernel>>) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for kernel in kernels() {
            let Some(pid) = kernel.pid() else { continue };
            let processes = proc_tree::tree(pid);
            let stats = Stats {
                rss: processes
                    .iter()
                    .map(|process| process.rss)
                    .fold(0, u64::saturating_add),
                cpu_ms: processes
                    .iter()
                    .map(|process| process.cpu_ms)
                    .fold(0, u64::saturating_add),
                pids: u32::try_from(processes.len()).unwrap_or(u32::MAX),
            };
            kernel.report(stats);
        }
    }
}
