//! Pages of lists: `limit` and `cursor` in, `next` out. `next` is the cursor of the next page, and null at the end.
//!
//! A cursor names the last thing of a page by what its list is ordered by, so that a page neither repeats nor leaves out what was
//! there all the time, whatever comes and goes between two pages. To clients it is opaque.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error};

use super::Whole;

/// Things of a page of most lists: by default, and at most.
pub(crate) const PAGE_MOST: u64 = 1000;
const CURSOR_BYTES: usize = 8192;

/// `limit` of most lists.
pub(crate) type Limit = Whole<1, PAGE_MOST>;

/// A place in the list `LIST`: what the list is ordered by, of the last thing before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor<const LIST: char>(pub(in crate::v1) String);

impl<const LIST: char> Cursor<LIST> {
    /// As clients see it.
    pub(crate) fn write(key: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{LIST}{key}"))
    }

    /// The place of a text that [`Cursor::write`] made for this list.
    pub(in crate::v1) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let plain = String::from_utf8(bytes).ok()?;
        plain.strip_prefix(LIST).map(|key| Self(key.to_owned()))
    }
}

impl<'de, const LIST: char> Deserialize<'de> for Cursor<LIST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let read = Some(text).filter(|text| text.len() <= CURSOR_BYTES);
        read.and_then(|text| Self::read(&text))
            .ok_or_else(|| D::Error::custom("is not the `next` of a page of this list"))
    }
}

impl<const LIST: char> JsonSchema for Cursor<LIST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Cursor_{LIST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

/// Parameters of a list that has no others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery<const LIST: char> {
    /// The `next` of the page before.
    pub(in crate::v1) cursor: Option<Cursor<LIST>>,
    /// Entries of a page; default 1,000.
    limit: Option<Limit>,
}

impl<const LIST: char> ListQuery<LIST> {
    /// Entries of the page, at most.
    pub(in crate::v1) fn most(&self) -> usize {
        limit(self.limit, PAGE_MOST)
    }

    /// The page of a list that is in memory, and the cursor of the next one, as [`page`].
    pub(in crate::v1) fn page<T>(
        &self,
        all: impl IntoIterator<Item = T>,
        key: impl Fn(&T) -> String,
    ) -> (Vec<T>, Option<String>) {
        page(all, self.cursor.as_ref(), self.most(), key)
    }
}

/// As many as a client wants.
pub(crate) fn limit<const MIN: u64, const MOST: u64>(
    wanted: Option<Whole<MIN, MOST>>,
    otherwise: u64,
) -> usize {
    let limit = wanted.map_or(otherwise, |Whole(limit)| limit);
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The page of a list that is in memory: at most `limit` things after the cursor, and the cursor of the next page. The list is in
/// the order of its keys, which are unique.
pub(crate) fn page<T, const LIST: char>(
    all: impl IntoIterator<Item = T>,
    after: Option<&Cursor<LIST>>,
    limit: usize,
    key: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let is_after = |one: &T| after.is_none_or(|Cursor(after)| key(one) > *after);
    let mut rest = all.into_iter().filter(is_after);
    let shown: Vec<T> = rest.by_ref().take(limit).collect();
    let more = rest.next().is_some();
    let next = shown
        .last()
        .filter(|_| more)
        .map(|last| Cursor::<LIST>::write(&key(last)));
    (shown, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_everything_once() {
        let all: Vec<String> = (0..10).map(|n| format!("{n:02}")).collect();
        for limit in 1..12 {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let (shown, next) = page::<_, 'x'>(all.clone(), after.as_ref(), limit, String::clone);
                assert!(shown.len() <= limit);
                seen.extend(shown);
                let Some(next) = next else { break };
                after = Cursor::<'x'>::read(&next);
                assert!(after.is_some());
            }
            assert_eq!(seen, all, "{limit}");
        }
    }

    #[test]
    fn what_goes_between_two_pages_moves_nothing() {
        let after = Cursor::<'x'>("03".into());
        let left = ["01", "04", "05"].map(str::to_owned);
        let (shown, next) = page(left, Some(&after), 1, String::clone);
        assert_eq!(
            (shown, next),
            (vec!["04".to_owned()], Some(Cursor::<'x'>::write("04")))
        );
    }

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let one = Cursor::<'x'>::write("a");
        assert_eq!(Cursor::<'x'>::read(&one), Some(Cursor("a".into())));
        assert_eq!(Cursor::<'y'>::read(&one), None);
        for wrong in ["", "%", "eA=="] {
            assert_eq!(Cursor::<'y'>::read(wrong), None, "{wrong}");
        }
    }
}
