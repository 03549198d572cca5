//! What the tests of this suite share beyond the fixture of the testkit.

use std::fs;
use std::path::Path;

use himalia_testkit::client::Received;
use himalia_testkit::gateway::Gateway;
use himalia_testkit::http::Events;
use himalia_testkit::patience::Deadline;
use serde_json::Value;

/// A gateway with these arguments of `serve`.
pub(crate) async fn gateway(args: &[&str]) -> Gateway {
    let builder = args
        .iter()
        .fold(Gateway::builder(), |builder, arg| builder.arg(*arg));
    builder.start().await.unwrap()
}

/// Starts a kernel with this body; the value is its id.
pub(crate) async fn start_with(gateway: &Gateway, body: &Value) -> String {
    let reply = gateway.http().post("/api/kernels", Some(body)).await.unwrap();
    let model = reply.expect(201).unwrap().json().unwrap();
    model["id"].as_str().unwrap().to_owned()
}

/// The kernel's model; null if there is no such kernel.
pub(crate) async fn model(gateway: &Gateway, kernel: &str) -> Value {
    let reply = gateway
        .http()
        .get(&format!("/api/kernels/{kernel}"))
        .await
        .unwrap();
    match reply.status {
        404 => Value::Null,
        _ => reply.expect(200).unwrap().json().unwrap(),
    }
}

/// Waits until the model is as wanted, and fails with what it was.
pub(crate) async fn until(gateway: &Gateway, kernel: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Deadline::new();
    loop {
        let model = model(gateway, kernel).await;
        if wanted(&model) {
            return model;
        }
        assert!(!deadline.is_over(), "still {model}");
        deadline.pause().await;
    }
}

/// Waits for an execution state.
pub(crate) async fn until_state(gateway: &Gateway, kernel: &str, state: &str) -> Value {
    until(gateway, kernel, |model| model["execution_state"] == state).await
}

/// Waits until there is no such kernel.
pub(crate) async fn until_gone(gateway: &Gateway, kernel: &str) {
    until(gateway, kernel, Value::is_null).await;
}

/// Ends a kernel.
pub(crate) async fn delete(gateway: &Gateway, kernel: &str) {
    let reply = gateway
        .http()
        .delete(&format!("/api/kernels/{kernel}"))
        .await
        .unwrap();
    reply.expect(204).unwrap();
}

/// POSTs `interrupt` or `restart`; the value is the status.
pub(crate) async fn order(gateway: &Gateway, kernel: &str, what: &str) -> u16 {
    let path = format!("/api/kernels/{kernel}/{what}");
    gateway.http().post(&path, None).await.unwrap().status
}

/// The numbers that `count` printed, in the order of the messages.
pub(crate) fn numbers<'a>(messages: impl IntoIterator<Item = &'a Received>) -> Vec<u64> {
    let streams = messages
        .into_iter()
        .filter(|received| received.msg_type == "stream");
    streams.map(|received| number(&received.text("text"))).collect()
}

/// The digits that a text begins with.
pub(crate) fn number(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end]
        .parse()
        .unwrap_or_else(|_| panic!("no number: {:?}", &text[..text.len().min(100)]))
}

/// Fails with the first number that is not its index.
pub(crate) fn assert_counts(numbers: &[u64], to: u64) {
    if let Some((at, number)) = (0..).zip(numbers).find(|(at, number)| at != *number) {
        panic!("number {number} where {at} was due");
    }
    assert_eq!(numbers.len() as u64, to);
}

/// The pid of a process with this argument or program name below the gateway.
pub(crate) fn process(gateway: &Gateway, argument: &str) -> u32 {
    let pids = gateway.processes();
    let found = pids.iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(argument)
    });
    *found.unwrap_or_else(|| panic!("no process has {argument} among {pids:?}"))
}

/// Whether a process runs (a zombie does not).
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim().chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The resident memory of a process, in MiB.
pub(crate) fn resident(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// The most resident memory of a process since [`forget_peak`], in MiB.
pub(crate) fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// Begins to measure [`peak`] anew. See `clear_refs` in proc(5).
pub(crate) fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

fn status(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Everything below a directory but the directories of the kernelspecs, sorted, relative.
pub(crate) fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(path);
            }
        }
    }
    found.sort();
    found
}

/// What kernels leave behind: everything in the run directory and in `data/kernels`.
pub(crate) fn leftovers(gateway: &Gateway) -> Vec<String> {
    let mut found = tree(&gateway.file("run"));
    found.retain(|path| path != "lock");
    found.extend(tree(&gateway.file("data/kernels")));
    found
}

/// Waits until no process and no file of any kernel is left.
pub(crate) async fn assert_clean(gateway: &Gateway) {
    let deadline = Deadline::new();
    loop {
        let (processes, files) = (gateway.processes(), leftovers(gateway));
        if processes.is_empty() && files.is_empty() {
            return;
        }
        assert!(!deadline.is_over(), "left: {processes:?} {files:?}");
        deadline.pause().await;
    }
}

/// A kernel's log, as a native client reads it.
pub(crate) struct Log {
    events: Events,
    /// The number of the last record that was read.
    pub(crate) last: u64,
}

impl Log {
    /// Reads on after a record.
    pub(crate) async fn after(gateway: &Gateway, kernel: &str, last: u64) -> Self {
        let path = format!("/v1/sessions/{kernel}/events");
        let events = gateway.http().events(&path, Some(last)).await.unwrap();
        Self { events, last }
    }

    /// The next record's data; `None` at the end of the stream. Numbers must be dense.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let event = self.events.next().await.ok()?;
        let data: Value = serde_json::from_str(&event.data).unwrap();
        if event.event == "end" {
            return None;
        }
        let seq = data["seq"].as_u64().unwrap();
        assert_eq!(event.id.unwrap(), seq.to_string());
        assert_eq!(seq, self.last + 1, "{data}");
        self.last = seq;
        Some(data)
    }

    /// Records up to one that is wanted, that one included.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        loop {
            let data = self
                .next()
                .await
                .unwrap_or_else(|| panic!("the log ended after {seen:?}"));
            let found = wanted(&data);
            seen.push(data);
            if found {
                return seen;
            }
        }
    }
}

/// The text of a `stream` record.
pub(crate) fn stream_text(record: &Value) -> Option<&str> {
    (record["header"]["msg_type"] == "stream").then(|| record["content"]["text"].as_str())?
}
