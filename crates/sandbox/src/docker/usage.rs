//! Resource use of a container, as the engine counts it.

use bollard::models::ContainerStatsResponse;
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::StreamExt as _;

use super::client::{CallError, Client};
use crate::Usage;

/// One measurement. `None` when the engine has none, for example since the container has just ended.
pub(super) async fn measure(client: &Client, container: &str) -> Option<Usage> {
    let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
    let stats = client
        .call(async |docker| docker.stats(container, Some(options)).next().await.transpose())
        .await;
    match stats {
        Ok(stats) => stats.map(read),
        Err(CallError::NotFound(_)) => None,
        Err(error) => {
            tracing::debug!(?error, "no measurement of a sandbox");
            None
        }
    }
}

fn read(stats: ContainerStatsResponse) -> Usage {
    let memory = stats.memory_stats.unwrap_or_default();
    let details = memory.stats.unwrap_or_default();
    // The first is cgroup 1, the second cgroup 2; what is mapped from files is not the sandbox's own.
    let own = details.get("total_rss").or_else(|| details.get("anon")).copied();
    let pids = stats.pids_stats.and_then(|pids| pids.current).unwrap_or(0);
    let cpu = stats
        .cpu_stats
        .and_then(|cpu| cpu.cpu_usage?.total_usage)
        .unwrap_or(0);
    Usage {
        processes: u32::try_from(pids).unwrap_or(u32::MAX),
        rss_bytes: own.or(memory.usage).unwrap_or(0),
        cpu_millis: cpu / 1_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_generations_of_cgroups_are_understood() {
        let parse = |text: &str| read(serde_json::from_str(text).unwrap());
        let one = parse(
            r#"{"memory_stats":{"usage":900,"stats":{"total_rss":500,"rss":500}},"pids_stats":{"current":3},
                "cpu_stats":{"cpu_usage":{"total_usage":2500000000}}}"#,
        );
        assert_eq!((one.rss_bytes, one.processes, one.cpu_millis), (500, 3, 2500));
        let two = parse(r#"{"memory_stats":{"usage":900,"stats":{"anon":400}}}"#);
        assert_eq!((two.rss_bytes, two.processes), (400, 0));
        assert_eq!(parse("{}"), Usage::default());
    }
}
