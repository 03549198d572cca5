//! Words of names and descriptions, as they are searched for.

/// Words in the order in which they are in a text, in lower case. `listOpenInvoices`, `list_open_invoices` and "List open invoices" have the
/// same ones.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut before = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if !letter.is_alphanumeric() {
            end(&mut word, &mut found);
            before = None;
            continue;
        }
        // `listOpen`, and `HTTPServer` before its `S`.
        let begins = letter.is_uppercase()
            && (before.is_some_and(|before: char| before.is_lowercase() || before.is_numeric())
                || (before.is_some_and(char::is_uppercase)
                    && letters.peek().is_some_and(|next| next.is_lowercase())));
        if begins {
            end(&mut word, &mut found);
        }
        word.extend(letter.to_lowercase());
        before = Some(letter);
    }
    end(&mut word, &mut found);
    found
}

/// Words that say little: almost every description has them.
const COMMON: [&str; 28] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "for", "from", "given", "in", "into", "is", "it",
    "its", "of", "on", "or", "that", "the", "this", "to", "use", "used", "which", "with",
];

fn end(word: &mut String, found: &mut Vec<String>) {
    let word = std::mem::take(word);
    if !word.is_empty() && COMMON.binary_search(&word.as_str()).is_err() {
        found.push(singular(word));
    }
}

/// `charges` and `charge`, `queries` and `query` are the same word.
fn singular(word: String) -> String {
    let stem = |end: &str, instead: &str| {
        let stem = word.strip_suffix(end).filter(|stem| stem.len() >= 2)?;
        Some(format!("{stem}{instead}"))
    };
    if word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word;
    }
    stem("ies", "y")
        .or_else(|| {
            ["sses", "shes", "ches", "xes"]
                .iter()
                .find_map(|end| stem(end, &end[..end.len() - 2]))
        })
        .or_else(|| stem("s", ""))
        .unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_have_the_same_words() {
        let expected = ["list", "open", "invoice"];
        for text in [
            "listOpenInvoices",
            "list_open_invoices",
            "List the open invoices.",
            "list-open.INVOICE",
            "ListOpenInvoice",
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        assert_eq!(
            words("HTTPServer of S3Buckets, v2"),
            ["http", "server", "s3", "bucket", "v2"]
        );
        assert_eq!(
            words("queries, addresses, status, boxes"),
            ["query", "address", "status", "box"]
        );
        assert_eq!(words("  … "), [""; 0]);
    }

    #[test]
    fn the_common_words_are_in_order() {
        assert!(COMMON.is_sorted());
    }
}
