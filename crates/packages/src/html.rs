//! The links of a page of HTML, as package indexes write them. Nothing else of HTML is understood.

use std::borrow::Cow;

/// Attributes of one link.
const ATTRIBUTES_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    attributes: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Anchor {
    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(has, _)| has == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// The links in order.
pub(crate) fn anchors(text: &str) -> impl Iterator<Item = Anchor> + '_ {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            (_, rest) = rest.split_once('<')?;
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = comment.split_once("-->")?.1;
                continue;
            }
            let Some(after) = rest
                .strip_prefix(['a', 'A'])
                .filter(|after| after.starts_with(|c: char| c.is_ascii_whitespace()))
            else {
                continue;
            };
            let (attributes, after) = attributes(after)?;
            let (text, after) = after.split_once('<')?;
            rest = after;
            return Some(Anchor {
                attributes,
                text: unescape(text).into_owned(),
            });
        }
    })
}

/// The attributes up to `>`, and what is behind it.
fn attributes(mut rest: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if let Some(after) = rest.strip_prefix('>') {
            return Some((found, after));
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace() || "=>/".contains(c))?;
        let (name, after) = rest.split_at_checked(end)?;
        let name = name.to_ascii_lowercase();
        rest = after.trim_start();
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            let after = after.trim_start();
            (value, rest) = match after.chars().next()? {
                quote @ ('"' | '\'') => after.strip_prefix(quote)?.split_once(quote)?,
                _ => after.split_at(after.find(|c: char| c.is_ascii_whitespace() || c == '>')?),
            };
        }
        if found.len() < ATTRIBUTES_MAX {
            found.push((name, unescape(value).into_owned()));
        } else if rest.is_empty() {
            return None;
        }
    }
}

const ENTITIES: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&#39;", "'"),
    ("&#x27;", "'"),
    ("&amp;", "&"),
];

fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return text.into();
    }
    let replaced = ENTITIES
        .iter()
        .fold(text.to_owned(), |text, (entity, character)| {
            text.replace(entity, character)
        });
    replaced.into()
}

/// Text as it is written in HTML, also between quotes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn links_are_found_as_indexes_write_them() {
        let text = "<html><!-- <a href=\"no\">x</a> --><abbr>no</abbr><A HREF='a&amp;b' data-yanked\n data-requires-python=\"&gt;=3.8\">one.whl</A>\
            <a href=two.tar.gz>two &lt;</a><a href=\"cut";
        let found: Vec<Anchor> = anchors(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].attribute("href"), found[0].text.as_str()),
            (Some("a&b"), "one.whl")
        );
        assert_eq!(
            (
                found[0].attribute("data-requires-python"),
                found[0].attribute("data-yanked")
            ),
            (Some(">=3.8"), Some(""))
        );
        assert_eq!(
            (found[1].attribute("href"), found[1].text.as_str()),
            (Some("two.tar.gz"), "two <")
        );
    }

    proptest! {
        #[test]
        fn no_page_is_too_strange(text in "[<>a =\"'/!&;-]{0,80}|.{0,80}") {
            anchors(&text).count();
        }

        #[test]
        fn what_is_escaped_is_read_back(value in ".{0,20}") {
            let text = format!("<a href=\"{}\">{}</a>", escape(&value), escape(&value));
            let anchor = anchors(&text).next().unwrap();
            prop_assert_eq!(anchor.attribute("href"), Some(value.as_str()));
            prop_assert_eq!(anchor.text, value);
        }
    }
}
