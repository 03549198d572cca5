//! Headers of content that kernels made, so that a browser runs nothing of it.

use axum::http::{HeaderMap, HeaderValue, header};

/// Types that a browser shows without running anything. All others are downloads.
const SHOWN: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp", "text/plain"];

/// Sets the headers of content that a kernel made: a browser that shows it as a page runs no scripts, and gives it no origin and no
/// network.
pub(super) fn set_kernel_made(headers: &mut HeaderMap) {
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        "cross-origin-resource-policy",
        HeaderValue::from_static("same-origin"),
    );
}

/// Sets the headers of content of this type that a kernel made.
pub(super) fn set_type(headers: &mut HeaderMap, media_type: &str) {
    set_kernel_made(headers);
    if !SHOWN.contains(&media_type) {
        headers.insert(
            header::CONTENT_DISPOSITION,
            HeaderValue::from_static("attachment"),
        );
    }
    if let Ok(kind) = HeaderValue::from_str(media_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
}

/// Forbids caches to store content that can change at any moment.
pub(super) fn no_store(headers: &mut HeaderMap) {
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
}
