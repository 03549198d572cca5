//! Telemetry for an OpenTelemetry collector: traces, and the audit log.

use std::io;

use himalia_engine::{Audit, AuditRecord, AuditSink, Engine};
use himalia_otlp::{Collector, Exporter, LogEntry, LogSender};
use uuid::Uuid;

use crate::config::{AuditLog, Config};

/// The kind of the records of the audit log.
const AUDIT_EVENT: &str = "himalia.audit";

/// Description of this gateway for a collector, and the collector that gets traces.
pub(crate) struct Telemetry {
    resource: Vec<(&'static str, String)>,
    collector: Option<Collector>,
}

impl Telemetry {
    pub(crate) fn new(config: &Config) -> Self {
        // The name of a gateway that is alone is that of any other one.
        let instance = match config.replica.store {
            Some(_) => config.replica.name.clone(),
            None => Uuid::new_v4().to_string(),
        };
        Self {
            resource: vec![
                ("service.name", "himalia".to_owned()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
                ("service.instance.id", instance),
            ],
            collector: config.collector.clone(),
        }
    }

    /// Sends spans to the collector, if there is one. Must be called within a tokio runtime.
    pub(crate) fn export_traces(&self, engine: &Engine) -> Option<Exporter> {
        let collector = self.collector.clone()?;
        let spans = engine.traces().open()?;
        let counts = engine.counted().exports().traces.clone();
        Some(Exporter::start(collector, self.resource.clone(), spans, counts))
    }

    /// Opens the audit log.
    pub(crate) fn audit(&self, config: &Config, engine: &Engine) -> io::Result<Audit> {
        let counts = engine.counted().audit().clone();
        match &config.audit {
            AuditLog::At(target) => Audit::open(target, config.audit_reads, counts),
            AuditLog::Collector(collector) => {
                let sender = LogSender::new((**collector).clone(), self.resource.clone())?;
                Audit::send_to(Box::new(CollectorSink(sender)), config.audit_reads, counts)
            }
        }
    }
}

/// The audit log at a collector.
struct CollectorSink(LogSender);

impl AuditSink for CollectorSink {
    fn write(&mut self, entries: &[AuditRecord]) -> io::Result<u64> {
        self.0.send(entries.iter().map(|entry| LogEntry {
            unix_nanos: u64::try_from(entry.at.unix_timestamp_nanos()).unwrap_or(0),
            event: AUDIT_EVENT,
            body: entry.members["command"].as_str().unwrap_or_default().to_owned(),
            attributes: &entry.members,
        }))
    }
}
