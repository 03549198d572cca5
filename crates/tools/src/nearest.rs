//! Names that are like another one.

use strsim::{damerau_levenshtein, jaro_winkler};

use crate::words::words;

/// Names in one answer.
const TOLD: usize = 3;
/// From this likeness on; 1.0 is the same name.
const LIKE: f64 = 0.7;
/// Names longer than this are compared by their words alone.
const MAX_LETTERS: usize = 64;

/// Longer names are like no other one.
const MAX_BYTES: usize = 256;
/// Comparisons of letters for the name of an argument: about 5 ms.
pub(crate) const OF_ARGUMENT: usize = 300_000;
/// Comparisons of letters for the name of a tool.
pub(crate) const OF_TOOL: usize = 10 * OF_ARGUMENT;

/// Names that are most likely meant by `name`, the likeliest first. After so many comparisons of letters the rest of the names is not looked at.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    if name.len() > MAX_BYTES {
        return Vec::new();
    }
    let wanted = name.to_lowercase();
    let wanted_words = words(name);
    let mut left = most;
    let mut like: Vec<(f64, &str)> = names
        .filter(|other| other.len() <= MAX_BYTES)
        .map_while(|other| {
            left = left.checked_sub((wanted.len() + 1) * (other.len() + 1))?;
            Some(other)
        })
        .map(|other| (likeness(&wanted, &wanted_words, other), other))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .collect();
    like.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    like.into_iter().take(TOLD).map(|(_, name)| name).collect()
}

#[allow(clippy::cast_precision_loss, reason = "names are short")]
fn likeness(wanted: &str, wanted_words: &[String], other: &str) -> f64 {
    // `get_charges` is as much like `charges_get` as a misspelled letter would be.
    let other_words = words(other);
    let common = wanted_words
        .iter()
        .filter(|word| other_words.contains(word))
        .count();
    let all = wanted_words.len().max(other_words.len()).max(1);
    let of_words = common as f64 / all as f64;
    if wanted.len() > MAX_LETTERS || other.len() > MAX_LETTERS {
        return of_words;
    }
    let other = other.to_lowercase();
    let longest = wanted.chars().count().max(other.chars().count()).max(1);
    let of_letters = 1.0 - damerau_levenshtein(wanted, &other) as f64 / longest as f64;
    // A name that begins alike is a completion.
    let begins = if other.starts_with(wanted) && wanted.len() >= 3 {
        jaro_winkler(wanted, &other)
    } else {
        0.0
    };
    of_words.max(of_letters).max(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_rearranged_and_short_names_are_found() {
        let names = ["list_charges", "create_charge", "list_customers", "refund"];
        let find = |name| nearest(name, names.into_iter(), OF_TOOL);
        assert_eq!(find("list_chrages")[0], "list_charges");
        assert_eq!(find("chargesList")[0], "list_charges");
        assert_eq!(find("list_ch")[0], "list_charges");
        assert_eq!(find("refunds"), ["refund"]);
        assert_eq!(find("zzz"), [""; 0]);
    }

    #[test]
    fn names_are_compared_within_a_bound() {
        let names = ["list_charges", "refund"];
        // A comparison of the first one takes 104, of the second one 56.
        let find = |most| nearest("refunds", names.into_iter(), most);
        assert_eq!((find(160), find(159)), (vec!["refund"], vec![]));
        let long = "refund_".repeat(100_000);
        assert_eq!(
            nearest(&long, [long.as_str(), "refund"].into_iter(), usize::MAX),
            [""; 0]
        );
    }
}
