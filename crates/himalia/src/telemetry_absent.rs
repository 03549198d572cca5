//! The audit log, in a build that sends nothing to an `OpenTelemetry` collector.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use himalia_engine::{Audit, Engine};

use crate::config::{AuditLog, Config};

pub(crate) struct Telemetry;

/// No build without the feature has one.
pub(crate) struct Exporter(Infallible);

impl Telemetry {
    pub(crate) fn new(_config: &Config) -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn export_traces(&self, _engine: &Engine) -> Option<Exporter> {
        None
    }

    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn audit(&self, config: &Config, engine: &Engine) -> io::Result<Audit> {
        match &config.audit {
            AuditLog::At(target) => Audit::open(target, config.audit_reads, engine.counted().audit().clone()),
            AuditLog::Collector(collector) => match **collector {},
        }
    }
}

impl Exporter {
    #[expect(clippy::unused_async, reason = "as with the feature")]
    pub(crate) async fn finish(self, _most: Duration) {
        match self.0 {}
    }
}
