//! Findings about a running gateway.

use std::collections::BTreeMap;

use super::finding::{Finding, Level};

/// The status of periodic work, from the metrics of a gateway.
pub(super) fn periodic(metrics: &str) -> Finding {
    let mut runs: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for (task, outcome, count) in metrics.lines().filter_map(run) {
        let (all, failed) = runs.entry(task).or_default();
        *all += count;
        *failed += if outcome == "failed" { count } else { 0 };
    }
    let failed: Vec<String> = runs
        .iter()
        .filter(|(_, (_, failed))| *failed > 0)
        .map(|(task, (all, failed))| format!("{task}: {failed} of {all} runs failed"))
        .collect();
    let topic = "periodic work";
    if failed.is_empty() {
        return Finding::new(Level::Good, topic, format!("{} tasks, no failures", runs.len()));
    }
    let text = format!("{}\nthe log of the gateway has the reasons", failed.join("\n"));
    Finding::new(Level::Warn, topic, text)
}

/// Task, outcome and count of a line such as `himalia_periodic_runs_total{task="cull",outcome="ok"} 3`.
fn run(line: &str) -> Option<(&str, &str, u64)> {
    let rest = line.strip_prefix("himalia_periodic_runs_total{task=\"")?;
    let (task, rest) = rest.split_once("\",outcome=\"")?;
    let (outcome, count) = rest.split_once("\"} ")?;
    Some((task, outcome, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use himalia_engine::Metrics;

    use super::*;

    #[test]
    fn failures_of_periodic_work_are_warnings() {
        let metrics = Metrics::new();
        metrics.periodic().ended("cull", true);
        let good = periodic(&metrics.encode());
        assert_eq!((good.level, &*good.text), (Level::Good, "7 tasks, no failures"));
        metrics.periodic().ended("cull", false);
        let bad = periodic(&metrics.encode());
        assert_eq!(bad.level, Level::Warn);
        assert!(bad.text.starts_with("cull: 1 of 2 runs failed\n"), "{}", bad.text);
    }
}
