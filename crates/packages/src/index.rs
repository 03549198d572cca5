//! The pages of projects, as the index has them: held for a while, and asked for again then.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use himalia_egress::Denial;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use url::Url;

use crate::fetch::{Fetch, RequestHeaders, next, shown};
use crate::page::{Form, Page};

/// `Accept` header for the index.
const ACCEPT: &str =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";
/// Most bytes of a page, also when it is unpacked.
const PAGE_BYTES: usize = 64 << 20;
/// Approximate memory for all cached pages, in bytes.
const HELD_BYTES: usize = 64 << 20;
/// Time that a page is cached: the default, and the maximum.
const FRESH: Duration = Duration::from_mins(1);
const FRESH_MAX: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(crate) struct Index {
    url: Url,
    fetch: Fetch,
    /// By project. The lock of one is held while it is fetched, so that all who want it wait for one response.
    held: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    page: Option<Arc<Page>>,
    tag: Option<HeaderValue>,
    until: Option<Instant>,
}

/// Reasons why there is no page.
#[derive(Clone, Debug)]
pub(crate) enum NoPage {
    /// The index has no such project.
    Unknown,
    /// It is not reached, or not understood.
    Failed(Denial),
}

impl From<Denial> for NoPage {
    fn from(denial: Denial) -> Self {
        Self::Failed(denial)
    }
}

impl Index {
    pub(crate) fn new(url: Url, fetch: Fetch) -> Self {
        Self {
            url,
            fetch,
            held: Mutex::default(),
        }
    }

    pub(crate) fn fetch(&self) -> &Fetch {
        &self.fetch
    }

    /// The page of a project, whose name is normalised.
    pub(crate) async fn page(&self, project: &str) -> Result<Arc<Page>, NoPage> {
        let slot = Arc::clone(self.held.lock().entry(project.to_owned()).or_default());
        let mut held = slot.lock().await;
        if let Some(page) = &held.page
            && held.until.is_some_and(|until| until > Instant::now())
        {
            return Ok(Arc::clone(page));
        }
        let fetched = self.fetch_page(project, &mut held).await;
        let page = held.page.clone();
        drop(held);
        drop(slot);
        self.shrink(project);
        fetched?;
        page.ok_or(NoPage::Unknown)
    }

    async fn fetch_page(&self, project: &str, held: &mut Slot) -> Result<(), NoPage> {
        let url = self.url.join(&format!("{project}/"));
        let url = url.map_err(|error| Denial::unreachable(format_args!("{project}: {error}")))?;
        let wanted = RequestHeaders {
            accept: Some(HeaderValue::from_static(ACCEPT)),
            compressed: true,
            unless: held.page.as_ref().and(held.tag.clone()),
        };
        let (base, response) = self.fetch.get(&url, &wanted).await?;
        let (head, mut body) = response.into_parts();
        let until = Some(Instant::now() + fresh(&head.headers));
        match head.status {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if held.page.is_some() => {
                held.until = until;
                return Ok(());
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                *held = Slot::default();
                return Err(NoPage::Unknown);
            }
            status => {
                *held = Slot::default();
                return Err(Denial::unreachable(format_args!("{} answered {status}", shown(&base))).into());
            }
        }
        let failed = |reason: String| Denial::unreachable(format_args!("{}: {reason}", shown(&base)));
        let mut bytes = Vec::new();
        while let Some(data) = next(&mut body).await.map_err(failed)? {
            bytes.extend_from_slice(&data);
            if bytes.len() > PAGE_BYTES {
                return Err(failed(format!("is larger than {PAGE_BYTES} bytes")).into());
            }
        }
        let text = |name| {
            head.headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let packed = text(CONTENT_ENCODING).eq_ignore_ascii_case("gzip");
        let form = if text(CONTENT_TYPE).contains("json") {
            Form::Json
        } else {
            Form::Html
        };
        let (name, from) = (project.to_owned(), base.clone());
        // Some pages have megabytes.
        let read = tokio::task::spawn_blocking(move || {
            let bytes = if packed { unpack(&bytes)? } else { bytes };
            Page::read(&name, &from, form, &bytes)
        });
        let page = read
            .await
            .map_err(|error| failed(error.to_string()))?
            .map_err(failed)?;
        *held = Slot {
            page: Some(Arc::new(page)),
            tag: head.headers.get(ETAG).cloned(),
            until,
        };
        Ok(())
    }

    /// Forgets pages until they have room, those first that are asked for again first.
    fn shrink(&self, latest: &str) {
        let mut held = self.held.lock();
        let mut known: Vec<(Instant, usize, String)> = Vec::new();
        held.retain(|name, slot| {
            // One that is being fetched stays.
            let Ok(slot) = slot.try_lock() else { return true };
            let Some((page, until)) = slot.page.as_ref().zip(slot.until) else {
                return false;
            };
            known.push((until, page.weight(), name.clone()));
            true
        });
        known.sort();
        let mut sum: usize = known.iter().map(|(_, weight, _)| weight).sum();
        for (_, weight, name) in known {
            if sum <= HELD_BYTES {
                return;
            }
            if name != latest {
                held.remove(&name);
                sum -= weight;
            }
        }
    }
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    let mut rest = GzDecoder::new(bytes).take(PAGE_BYTES as u64 + 1);
    rest.read_to_end(&mut out).map_err(|error| error.to_string())?;
    if out.len() > PAGE_BYTES {
        return Err(format!("is larger than {PAGE_BYTES} bytes"));
    }
    Ok(out)
}

/// Time for which a page may be used.
fn fresh(headers: &HeaderMap) -> Duration {
    let control = headers
        .get(CACHE_CONTROL)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let seconds = control
        .split(',')
        .find_map(|part| part.trim().strip_prefix("max-age=")?.parse().ok());
    seconds.map_or(FRESH, |seconds| Duration::from_secs(seconds).min(FRESH_MAX))
}
