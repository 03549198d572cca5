//! State that handlers share.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use himalia_cluster::Cluster;
use himalia_engine::{Engine, IssuedTokens};
use himalia_runs::Runs;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{Backoff, SignIns, Tokens, ValidTokens};
use crate::config::{ConfigError, HttpConfig};
use crate::listen::Holders;

/// Shared by all handlers; clones name the same.
#[derive(Clone, Debug)]
pub(crate) struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runs: Runs,
    config: HttpConfig,
    tokens: RwLock<Arc<Tokens>>,
    issued: watch::Receiver<Arc<IssuedTokens>>,
    backoff: Backoff,
    sign_ins: SignIns,
    holders: Arc<Holders>,
    shutdown: CancellationToken,
    streams: TaskTracker,
    describe: fn(&str) -> Value,
    description: OnceLock<Value>,
}

impl App {
    /// Validates the configuration. `describe` makes the description of the API from the base URL.
    pub(crate) fn new(
        runs: Runs,
        config: HttpConfig,
        shutdown: CancellationToken,
        describe: fn(&str) -> Value,
    ) -> Result<Self, ConfigError> {
        let mut config = config.validated()?;
        let engine = runs.engine();
        let traces = engine.traces();
        config.cluster = config.cluster.map(|cluster| cluster.traced(traces.clone()));
        let sign_ins = SignIns::new(
            config.sign_in_code.clone(),
            config.sign_ins_file.clone(),
            SystemTime::now(),
        );
        let (backoff, streams) = (Backoff::default(), TaskTracker::new());
        let issued = engine.issued_tokens();
        let tokens = RwLock::new(Arc::new(config.tokens.clone()));
        Ok(Self(Arc::new(Inner {
            runs,
            config,
            tokens,
            issued,
            backoff,
            sign_ins,
            holders: Arc::default(),
            shutdown,
            streams,
            describe,
            description: OnceLock::new(),
        })))
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.0.runs.engine()
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.0.runs
    }

    pub(crate) fn config(&self) -> &HttpConfig {
        &self.0.config
    }

    /// The replicas of which this is one.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        self.0.config.cluster.as_ref()
    }

    /// The tokens that count now.
    pub(crate) fn tokens(&self) -> ValidTokens {
        let configured = Arc::clone(&self.0.tokens.read());
        let issued = Arc::clone(&self.0.issued.borrow());
        ValidTokens::new(configured, issued, self.engine().now_micros())
    }

    /// From now on these count in the place of those of the configuration.
    pub(crate) fn set_tokens(&self, tokens: Tokens) {
        *self.0.tokens.write() = Arc::new(tokens);
        self.end_revoked();
    }

    /// Ends the connections that showed a token that does not count any more.
    pub(crate) fn end_revoked(&self) {
        let ended = self.0.holders.end_revoked(&self.tokens());
        for _ in 0..ended {
            self.engine().clients().ended("revoked");
        }
        tracing::info!(
            connections = ended,
            "tokens have changed; connections of revoked ones end"
        );
    }

    pub(crate) fn backoff(&self) -> &Backoff {
        &self.0.backoff
    }

    pub(crate) fn sign_ins(&self) -> &SignIns {
        &self.0.sign_ins
    }

    /// Connections by whose they are.
    pub(crate) fn holders(&self) -> &Arc<Holders> {
        &self.0.holders
    }

    /// Cancelled when the gateway stops.
    pub(crate) fn shutdown(&self) -> &CancellationToken {
        &self.0.shutdown
    }

    /// Tasks that serve upgraded connections; the drain waits for them.
    pub(crate) fn streams(&self) -> &TaskTracker {
        &self.0.streams
    }

    /// The description of the API, with the base URL of this gateway. Made once: that takes longer than most answers.
    pub(crate) fn description(&self) -> &Value {
        let describe = || (self.0.describe)(&self.url(""));
        self.0.description.get_or_init(describe)
    }

    /// A path below the base URL, as clients see it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.config.base_url)
    }
}
