//! Log records that the caller sends, and waits for.

use std::io;

use opentelemetry_proto::tonic::logs::v1::{LogRecord, SeverityNumber};
use serde_json::{Map, Value};
use tokio::runtime::{Builder, Runtime};

use crate::collector::{Collector, ExportOutcome, Signal};
use crate::encode;

/// One log record.
#[derive(Debug)]
pub struct LogEntry<'a> {
    /// When it happened, nanoseconds of Unix time.
    pub unix_nanos: u64,
    /// The kind of record (`event_name`).
    pub event: &'static str,
    /// The text of the record.
    pub body: String,
    /// Attributes: numbers stay numbers, all other values become text.
    pub attributes: &'a Map<String, Value>,
}

/// Sends log records with the severity `INFO`. For a thread outside of any runtime: it blocks.
#[derive(Debug)]
pub struct LogSender {
    collector: Collector,
    resource: Vec<(&'static str, String)>,
    runtime: Runtime,
}

impl LogSender {
    /// `resource` describes this gateway (`service.name` …).
    pub fn new(collector: Collector, resource: Vec<(&'static str, String)>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            collector,
            resource,
            runtime,
        })
    }

    /// Sends these records with one request, and waits for the answer, for at most 10 s. Returns how many of them the collector refused permanently.
    /// After an error it has none of them, or its answer was lost.
    pub fn send<'a>(&self, entries: impl Iterator<Item = LogEntry<'a>>) -> io::Result<u64> {
        let body = encode::logs(&self.resource, entries.map(record));
        match self.runtime.block_on(self.collector.send(Signal::Logs, body)) {
            ExportOutcome::Taken { refused } => Ok(refused),
            ExportOutcome::Later(reason) | ExportOutcome::Never(reason) => Err(io::Error::other(format!(
                "the collector takes no log records: {reason}"
            ))),
        }
    }
}

fn record(entry: LogEntry<'_>) -> LogRecord {
    let attributes = entry.attributes.iter().map(|(name, value)| {
        let value = match (value.as_i64(), value.as_str()) {
            (Some(number), _) => encode::number(number),
            (None, Some(text)) => encode::text(text.to_owned()),
            (None, None) => encode::text(value.to_string()),
        };
        encode::attribute(name, value)
    });
    LogRecord {
        time_unix_nano: entry.unix_nanos,
        observed_time_unix_nano: entry.unix_nanos,
        severity_number: SeverityNumber::Info.into(),
        severity_text: "INFO".to_owned(),
        body: Some(encode::text(entry.body)),
        attributes: attributes.collect(),
        event_name: entry.event.to_owned(),
        ..LogRecord::default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends by panicking")]
mod tests {
    use himalia_testkit::otlp::LogReceiver;
    use opentelemetry_proto::tonic::collector::logs::v1::{
        ExportLogsPartialSuccess, ExportLogsServiceResponse,
    };
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
    use prost::Message as _;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn records_arrive_as_they_were_and_an_answer_says_how_many_were_refused() {
        let partial = ExportLogsServiceResponse {
            partial_success: Some(ExportLogsPartialSuccess {
                rejected_log_records: 1,
                error_message: String::new(),
            }),
        };
        let partial = partial.encode_to_vec();
        let respond = move |number| match number {
            0 => (200, Vec::new()),
            1 => (200, partial.clone()),
            2 => (503, Vec::new()),
            _ => (401, Vec::new()),
        };
        let mut receiver = LogReceiver::start(respond).await.unwrap();
        let endpoint = receiver.endpoint.clone();
        let answers = tokio::task::spawn_blocking(move || {
            let collector = Collector::new(&endpoint, "X-Key: k").unwrap();
            let sender = LogSender::new(collector, vec![("service.name", "himalia".to_owned())]).unwrap();
            let attributes = json!({ "command": "execute", "ms": 7 });
            let entry = || LogEntry {
                unix_nanos: 1_700_000_000_000_000_001,
                event: "a.b",
                body: "execute".to_owned(),
                attributes: attributes.as_object().unwrap(),
            };
            (0..4)
                .map(|_| sender.send([entry(), entry()].into_iter()))
                .collect::<Vec<_>>()
        });
        let answers = answers.await.unwrap();
        assert_eq!(*answers[0].as_ref().unwrap(), 0);
        assert_eq!(*answers[1].as_ref().unwrap(), 1);
        for (answer, status) in [(&answers[2], "503"), (&answers[3], "401")] {
            let text = answer.as_ref().unwrap_err().to_string();
            assert_eq!(text, format!("the collector takes no log records: HTTP {status}"));
        }
        let (head, request) = receiver.requests.recv().await.unwrap();
        assert!(head.starts_with("POST /v1/logs HTTP/1.1\r\n"), "{head}");
        assert!(head.to_lowercase().contains("x-key: k\r\n"), "{head}");
        let resource = &request.resource_logs[0];
        assert_eq!(
            resource.resource.as_ref().unwrap().attributes[0].key,
            "service.name"
        );
        let records = &resource.scope_logs[0].log_records;
        assert_eq!(records.len(), 2);
        let record = &records[0];
        assert_eq!(record.time_unix_nano, 1_700_000_000_000_000_001);
        assert_eq!(
            (record.event_name.as_str(), record.severity_text.as_str()),
            ("a.b", "INFO")
        );
        let value = |key: &str| {
            let found = record.attributes.iter().find(|one| one.key == key).unwrap();
            found.value.as_ref().unwrap().value.clone().unwrap()
        };
        assert_eq!(value("command"), Any::StringValue("execute".to_owned()));
        assert_eq!(value("ms"), Any::IntValue(7));
    }
}
