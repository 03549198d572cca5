//! The kernelspecs of this host, remembered for a moment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use himalia_model::{EngineConfig, EngineError, KernelSpec, KernelSpecs, SpecFile};
use tokio::sync::Mutex;

use super::files;
use super::files::Refusal;
use super::host::HostEnvironment;
use super::search::{Search, is_name};

/// Time for which a search is used.
pub(crate) const FRESH: Duration = Duration::from_secs(5);
/// Shortest time between searches for unknown names.
const SOONEST: Duration = Duration::from_secs(1);

/// The kernelspec of Python 3 …
const NATIVE: &str = "python3";
/// … and the name that means it since there was another one (`jupyter_client`'s `NATIVE_KERNEL_NAME`).
const OLD_NATIVE: &str = "python";

/// Finds kernelspecs. At most one search runs at a time; who comes meanwhile waits for its result.
#[derive(Debug)]
pub struct Catalog {
    search: Arc<Search>,
    last: Mutex<Option<(Instant, Arc<KernelSpecs>)>>,
}

impl Catalog {
    /// A catalog of what `search` finds.
    pub(crate) fn new(search: Search) -> Self {
        Self {
            search: Arc::new(search),
            last: Mutex::new(None),
        }
    }

    /// The catalog that the configuration asks for, on the host that `host` describes.
    pub fn of(config: &EngineConfig, host: HostEnvironment) -> Self {
        let mut first = config.kernelspec_dirs.clone();
        first.push(config.data_dir.join("kernelspecs"));
        Self::new(Search {
            first,
            everywhere: !config.only_these_kernelspecs,
            allowed: config.allowed_kernelspecs.clone(),
            default: config.default_kernel.clone(),
            host,
        })
    }

    /// The variables of the host that searches and starts look at.
    pub fn host(&self) -> &HostEnvironment {
        &self.search.host
    }

    /// All kernelspecs, at most 5 s old.
    pub async fn list(&self) -> Result<Arc<KernelSpecs>, EngineError> {
        self.not_older_than(FRESH).await
    }

    /// One kernelspec, broken or not. Names are compared in lower case.
    ///
    /// # Errors
    /// [`EngineError::NoSuchKernelspec`].
    pub async fn get(&self, name: &str) -> Result<KernelSpec, EngineError> {
        let key = name.to_ascii_lowercase();
        let unknown = || EngineError::NoSuchKernelspec {
            name: name.chars().take(128).collect(),
        };
        if !is_name(&key) {
            return Err(unknown());
        }
        for age in [FRESH, SOONEST] {
            if let Some(spec) = self.not_older_than(age).await?.specs.get(&key) {
                return Ok(spec.clone());
            }
        }
        Err(unknown())
    }

    /// The kernelspec for a start: the named one, or the default. `python` means `python3`, as for Jupyter's own clients, unless
    /// there is one of that name.
    pub async fn get_or_default(&self, name: Option<&str>) -> Result<KernelSpec, EngineError> {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let found = self.get(name).await;
            return match found {
                Err(unknown) if name == OLD_NATIVE => self.get(NATIVE).await.map_err(|_| unknown),
                other => other,
            };
        }
        let default = self.list().await?.default.clone();
        self.get(&default).await
    }

    /// A file beside a `kernel.json`.
    ///
    /// # Errors
    /// [`EngineError::NoSuchKernelspec`], [`EngineError::NotFound`] for everything that may not be served,
    /// [`EngineError::BadRequest`] for a file above 8 MiB.
    pub async fn file(&self, name: &str, file: &str) -> Result<SpecFile, EngineError> {
        let dir = self.get(name).await?.dir;
        let wanted = file.to_owned();
        let read = tokio::task::spawn_blocking(move || files::read(&dir, &wanted)).await;
        match read.map_err(|error| EngineError::internal("reading a kernelspec's file", error))? {
            Ok(file) => Ok(file),
            Err(Refusal::Missing) => {
                let id: String = format!("{name}/{file}").chars().take(256).collect();
                Err(EngineError::NotFound {
                    what: "Kernelspec file",
                    id,
                })
            }
            Err(Refusal::TooLong) => {
                let limit = files::MAX_FILE_BYTES;
                Err(EngineError::bad_request(
                    "file",
                    format!("has more than {limit} bytes"),
                ))
            }
            Err(Refusal::Io(error)) => Err(EngineError::internal("reading a kernelspec's file", error)),
        }
    }

    async fn not_older_than(&self, age: Duration) -> Result<Arc<KernelSpecs>, EngineError> {
        let mut last = self.last.lock().await;
        if let Some((_, specs)) = last.as_ref().filter(|(at, _)| at.elapsed() < age) {
            return Ok(Arc::clone(specs));
        }
        let search = Arc::clone(&self.search);
        let specs = tokio::task::spawn_blocking(move || search.run()).await;
        let specs = Arc::new(specs.map_err(|error| EngineError::internal("searching kernelspecs", error))?);
        *last = Some((Instant::now(), Arc::clone(&specs)));
        Ok(specs)
    }
}
