//! The names, the labels, and what is made of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use super::*;

/// Labels whose values the code, the table of routes or the configuration chooses.
const LABELS: &[&str] = &[
    "version",
    "path",
    "source",
    "outcome",
    "direction",
    "transport",
    "kind",
    "operation",
    "method",
    "route",
    "status",
    "interface",
    "reason",
    "state",
];
const MORE_LABELS: &[&str] = &["template", "resource", "task"];

#[test]
fn no_label_has_values_of_callers() {
    let metrics = Metrics::new();
    for metric in metrics.described() {
        for label in &metric.labels {
            assert!(
                LABELS.contains(label) || MORE_LABELS.contains(label),
                "{} has the label {label}: are its values bounded, and no session, kernel, caller or tenant?",
                metric.name
            );
        }
    }
}

#[test]
fn every_name_is_written_once_and_follows_the_conventions() {
    let metrics = Metrics::new();
    let names: BTreeSet<&str> = metrics.described().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names.len(), metrics.described().len());
    for metric in metrics.described() {
        let ours = metric.name.starts_with("himalia_") || metric.name.starts_with("process_");
        assert!(ours, "{}", metric.name);
        assert_eq!(
            metric.name.ends_with("_total"),
            metric.kind == Kind::Counter,
            "{}",
            metric.name
        );
        let is_time = [
            "process_start_time_seconds",
            "himalia_lease_seconds",
            "himalia_periodic_last_success_seconds",
            "himalia_periodic_interval_seconds",
        ];
        let is_time = is_time.contains(&&*metric.name);
        assert_eq!(
            metric.name.ends_with("_seconds"),
            metric.kind == Kind::Histogram || is_time,
            "{}",
            metric.name
        );
    }
}

#[test]
fn text_has_what_was_counted() {
    let metrics = Metrics::new();
    metrics.starts().started("pool", Duration::from_millis(3));
    metrics
        .kernels()
        .execution_ended("ok", Some(Duration::from_millis(20)));
    metrics.kernels().bytes_in.inc_by(7);
    metrics.store().called("kernel", Duration::from_micros(30), true);
    metrics
        .clients()
        .answered("GET", "/v1/sessions", "200", Duration::ZERO);
    metrics.state().set_kernels(|state| usize::from(state == "idle"));
    metrics.state().set_refused("memory", 4);
    let text = metrics.encode();
    for line in [
        "himalia_start_seconds_count{path=\"pool\"} 1",
        "himalia_start_seconds_bucket{le=\"0.0025\",path=\"pool\"} 0",
        "himalia_start_seconds_bucket{le=\"0.005\",path=\"pool\"} 1",
        "himalia_executions_total{outcome=\"ok\"} 1",
        "himalia_executions_total{outcome=\"timeout\"} 0",
        "himalia_kernel_bytes_total{direction=\"in\"} 7",
        "himalia_store_failures_total{operation=\"kernel\"} 1",
        "himalia_http_requests_total{method=\"GET\",route=\"/v1/sessions\",status=\"200\"} 1",
        "himalia_kernels{state=\"idle\"} 1.0",
        "himalia_kernels{state=\"busy\"} 0.0",
        "himalia_refusals_total{resource=\"memory\"} 4",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(
        text.lines()
            .any(|line| line.starts_with("process_resident_memory_bytes ") && line.len() > 35)
    );
}

/// Words of a text that look like metrics of ours, without the suffixes of histograms.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| {
        (word.starts_with("himalia_") || word.starts_with("process_")) && word.split('_').count() > 1
    });
    let bare = |word: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        let stripped = suffixes.iter().find_map(|suffix| word.strip_suffix(suffix));
        stripped.unwrap_or(word).to_owned()
    };
    ours.map(bare).collect()
}

#[test]
fn dashboard_rules_and_page_name_what_there_is() {
    let metrics = Metrics::new();
    let names: BTreeSet<String> = metrics.described().iter().map(|one| one.name.clone()).collect();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| fs::read_to_string(format!("{root}/{path}")).unwrap();
    for path in [
        "docker/monitoring/dashboard.json",
        "docker/monitoring/alerts.yaml",
    ] {
        let unknown: Vec<String> = named(&read(path)).difference(&names).cloned().collect();
        assert!(unknown.is_empty(), "{path} names {unknown:?}");
    }
}

const BEGIN: &str = "<!-- metrics: made by `make metrics` -->\n";
const END: &str = "<!-- metrics end -->";

fn table(metrics: &Metrics) -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in metrics.described() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let (name, help) = (&metric.name, metric.help);
        writeln!(table, "| `{name}` | {kind} | {} | {help} |", labels.join(", ")).unwrap();
    }
    table
}

#[test]
fn the_table_of_metrics_is_that_of_the_code() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/operations.md");
    let page = fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table(&Metrics::new());
    if std::env::var_os("HIMALIA_WRITE_METRICS").is_some() {
        fs::write(path, format!("{before}{BEGIN}\n{table}\n{END}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found.trim(),
        table.trim(),
        "docs/operate/operations.md has an old table: make metrics"
    );
}
