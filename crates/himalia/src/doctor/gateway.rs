//! Findings about a running gateway.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::finding::{Finding, Level};

/// The time that a run may take, or fail for, in addition to two intervals.
const GRACE: Duration = Duration::from_mins(1);

/// A periodic task, from the metrics.
#[derive(Default)]
struct Task {
    /// Seconds.
    interval: f64,
    /// Seconds since 1970.
    last_success: Option<f64>,
    runs: f64,
    failed: f64,
}

/// The status of periodic work, from the metrics of a gateway. A task that failed and has succeeded again is good.
pub(super) fn periodic(metrics: &str, now: SystemTime) -> Finding {
    let mut tasks: BTreeMap<&str, Task> = BTreeMap::new();
    for (name, task, outcome, value) in metrics.lines().filter_map(sample) {
        let task = tasks.entry(task).or_default();
        match name {
            "interval_seconds" => task.interval = value,
            "last_success_seconds" => task.last_success = Some(value),
            "runs_total" => {
                task.runs += value;
                task.failed += if outcome == "failed" { value } else { 0.0 };
            }
            _ => {}
        }
    }
    // Work that the configuration does not need has no interval.
    tasks.retain(|_, task| task.interval > 0.0);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let late: Vec<String> = tasks
        .iter()
        .filter_map(|(name, task)| Some(format!("{name}: {}", task.late(now)?)))
        .collect();
    let topic = "periodic work";
    if late.is_empty() {
        let text = format!("{} tasks, each has succeeded lately", tasks.len());
        return Finding::new(Level::Good, topic, text);
    }
    let text = format!("{}\nthe log of the gateway has the reasons", late.join("\n"));
    Finding::new(Level::Warn, topic, text)
}

impl Task {
    /// The reason why it is late, if it is.
    fn late(&self, now: f64) -> Option<String> {
        let Self {
            interval,
            runs,
            failed,
            ..
        } = self;
        let counts = format!("{failed} of {runs} runs failed");
        let Some(last) = self.last_success else {
            return (*failed > 0.0).then(|| format!("no run has succeeded; {counts}"));
        };
        let ago = now - last;
        let late = ago > 2.0 * interval + GRACE.as_secs_f64();
        late.then(|| format!("succeeded {ago:.0} s ago, due every {interval:.0} s; {counts}"))
    }
}

/// Name, task, outcome and value of a line such as `himalia_periodic_runs_total{task="cull",outcome="ok"} 3`.
fn sample(line: &str) -> Option<(&str, &str, &str, f64)> {
    let (name, rest) = line.strip_prefix("himalia_periodic_")?.split_once("{task=\"")?;
    let (task, rest) = rest.split_once('"')?;
    let (labels, value) = rest.split_once("} ")?;
    let outcome = labels
        .strip_prefix(",outcome=\"")
        .map_or("", |rest| rest.trim_end_matches('"'));
    Some((name, task, outcome, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use himalia_engine::Metrics;

    use super::*;

    const EVERY: Duration = Duration::from_mins(5);

    fn look(metrics: &Metrics, after: Duration) -> Finding {
        periodic(&metrics.encode(), SystemTime::now() + after)
    }

    #[test]
    fn work_that_does_not_succeed_is_a_warning() {
        let metrics = Metrics::new();
        let runs = metrics.periodic();
        runs.started("cull", EVERY);
        runs.started("meter", EVERY);
        let new = look(&metrics, Duration::ZERO);
        assert_eq!(
            (new.level, &*new.text),
            (Level::Good, "2 tasks, each has succeeded lately")
        );
        runs.ended("cull", false);
        let never = look(&metrics, Duration::ZERO);
        assert_eq!(never.level, Level::Warn);
        let expected =
            "cull: no run has succeeded; 1 of 1 runs failed\nthe log of the gateway has the reasons";
        assert_eq!(never.text, expected);
    }

    #[test]
    fn work_that_succeeds_again_is_good_until_it_is_late() {
        let metrics = Metrics::new();
        let runs = metrics.periodic();
        runs.started("cull", EVERY);
        runs.ended("cull", false);
        runs.ended("cull", true);
        let again = look(&metrics, 2 * EVERY);
        assert_eq!(again.level, Level::Good, "{}", again.text);
        let late = look(&metrics, 3 * EVERY);
        assert_eq!(late.level, Level::Warn);
        let expected = "cull: succeeded 900 s ago, due every 300 s; 1 of 2 runs failed\n";
        assert!(late.text.starts_with(expected), "{}", late.text);
    }
}
