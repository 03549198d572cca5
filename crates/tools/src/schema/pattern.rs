//! Patterns of schemas. Each is an automaton whose states are made as a text needs them: linear in the text, in a bounded memory.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

use super::steps::{Steps, StepsSpent};

/// Patterns of a schema that are checked.
pub(super) const MAX_PATTERNS: usize = 64;
const MAX_BYTES: usize = 4096;
/// Bytes of the automaton of one.
const MAX_COMPILED: usize = 128 << 10;
/// Bytes of the automata of all patterns of a schema.
const MAX_ALL_COMPILED: usize = 1 << 20;
/// Classes of Unicode (`\p`) in one. Each is hundreds of ranges before it is compiled.
const MAX_CLASSES: usize = 32;
/// Bytes of the states of one, for one check.
const MAX_STATES: usize = 64 << 10;
/// Bytes of the states of all.
const MAX_ALL_STATES: usize = 4 << 20;
/// Number of times that these may be made again within one check.
const MAX_CLEARED: usize = 16;
/// Steps for each time.
const CLEARED: usize = 10_000;
/// Steps to make an automaton.
const NEW: usize = 2000;
/// Bytes of a text, and of states, that are a step.
const BYTES_OF_A_STEP: usize = 8;

/// Reason why a text is not a pattern.
const NONE: &str = "must be a regular expression of ECMAScript without back-references";

/// The patterns of a schema, by number.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    all: Vec<Pattern>,
    numbers: HashMap<String, usize>,
    /// Bytes of all automata that were made, and of those that were too large.
    compiled: AtomicUsize,
}

#[derive(Debug)]
struct Pattern {
    text: String,
    /// Made when it is first needed. `None`: it cannot be checked here.
    automaton: OnceLock<Option<Box<DFA>>>,
}

impl Patterns {
    /// The number of a pattern.
    pub(super) fn add(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len();
        self.numbers.insert(text.to_owned(), number);
        self.all.push(Pattern {
            text: text.to_owned(),
            automaton: OnceLock::new(),
        });
        number
    }

    /// Makes all of them. Says which one cannot be checked, if one cannot.
    pub(super) fn build(&self) -> Result<(), String> {
        if self.all.len() > MAX_PATTERNS {
            return Err(format!(
                "has {} different patterns, at most {MAX_PATTERNS} are allowed",
                self.all.len()
            ));
        }
        for pattern in &self.all {
            let automaton = self.compile(&pattern.text).map_err(|reason| {
                let shown: String = pattern
                    .text
                    .chars()
                    .take(100)
                    .flat_map(char::escape_debug)
                    .collect();
                format!("has the pattern {shown:?}, which {reason}")
            })?;
            let _ = pattern.automaton.set(Some(Box::new(automaton)));
        }
        Ok(())
    }

    pub(super) fn text(&self, number: usize) -> &str {
        self.all.get(number).map_or("", |pattern| &pattern.text)
    }

    /// Bytes, at most.
    pub(super) fn weight(&self) -> usize {
        (self.all.len().min(MAX_PATTERNS) * MAX_COMPILED).min(MAX_ALL_COMPILED + MAX_COMPILED)
    }

    fn is_new(&self, number: usize) -> bool {
        self.all
            .get(number)
            .is_some_and(|pattern| pattern.automaton.get().is_none())
    }

    fn automaton(&self, number: usize) -> Option<&DFA> {
        let pattern = self.all.get(number).filter(|_| number < MAX_PATTERNS)?;
        let made = pattern
            .automaton
            .get_or_init(|| self.compile(&pattern.text).ok().map(Box::new));
        made.as_deref()
    }

    fn compile(&self, pattern: &str) -> Result<DFA, &'static str> {
        let bytes = |made: &DFA| made.get_nfa().memory_usage();
        if self.compiled.load(Relaxed) >= MAX_ALL_COMPILED {
            return Err("takes too much memory together with the other patterns of the schema");
        }
        let made = compile(pattern);
        let bytes = made.as_ref().map_or(MAX_COMPILED, bytes);
        self.compiled.fetch_add(bytes, Relaxed);
        made
    }
}

fn compile(pattern: &str) -> Result<DFA, &'static str> {
    if pattern.len() > MAX_BYTES {
        return Err("has more than 4096 bytes");
    }
    let pattern = with_ascii_words(pattern)?;
    let classes = pattern.matches(r"\p").count() + pattern.matches(r"\P").count();
    if classes > MAX_CLASSES {
        return Err("has more than 32 classes of Unicode (\\p)");
    }
    let syntax = syntax::Config::new().nest_limit(64);
    let translated = jsonschema_regex::to_rust_regex(&pattern).map_err(|()| NONE)?;
    if translated.len() > MAX_BYTES {
        return Err("has more than 4096 bytes when its classes are written out");
    }
    let parsed = syntax::parse_with(&translated, &syntax).map_err(|_| NONE)?;
    let too_large = |_| "takes too much memory: shorten its repetitions and classes";
    let automaton = NFA::compiler()
        .configure(
            thompson::Config::new()
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(MAX_COMPILED)),
        )
        .build_from_hir(&parsed)
        .map_err(too_large)?;
    DFA::builder()
        .configure(
            Config::new()
                .unicode_word_boundary(true)
                .cache_capacity(MAX_STATES)
                .skip_cache_capacity_check(true)
                .minimum_cache_clear_count(Some(MAX_CLEARED)),
        )
        .build_from_nfa(automaton)
        .map_err(|_| NONE)
}

/// The pattern, if its groups are those of linear ones, with the word boundaries of ECMAScript, which know ASCII letters alone, and with
/// control characters by number.
fn with_ascii_words(pattern: &str) -> Result<String, &'static str> {
    let mut made = String::with_capacity(pattern.len());
    let (mut in_class, mut letters) = (false, pattern.chars());
    while let Some(letter) = letters.next() {
        let rest = letters.as_str();
        match letter {
            '\\' => {
                let next = letters.next();
                let control = letters.clone().next().filter(char::is_ascii_alphabetic);
                match (next, control) {
                    (Some('b'), _) if !in_class => made.push_str(r"(?-u:\b)"),
                    // One at a time, they would be found by reading the whole pattern again.
                    (Some('c'), Some(letter)) => {
                        letters.next();
                        let _ = write!(made, "\\x{{{:x}}}", u32::from(letter) % 32);
                    }
                    _ => made.extend(['\\'].into_iter().chain(next)),
                }
                continue;
            }
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => check_group(rest)?,
            _ => {}
        }
        made.push(letter);
    }
    Ok(made)
}

/// Refuses a group by what is behind its `(`.
fn check_group(rest: &str) -> Result<(), &'static str> {
    let Some(kind) = rest.strip_prefix('?') else {
        return Ok(());
    };
    if ["=", "!", "<=", "<!"].iter().any(|look| kind.starts_with(look)) {
        return Err("looks around: such patterns cannot be checked in linear time");
    }
    if kind.starts_with([':', '<']) {
        return Ok(());
    }
    Err("has flags, which patterns of JSON Schema do not have")
}

/// The states of the patterns, within one check.
#[derive(Default)]
pub(super) struct PatternStates {
    caches: HashMap<usize, Cache>,
    bytes: usize,
}

impl PatternStates {
    /// True if a text has a part that a pattern describes. One that cannot be checked here describes all.
    pub(super) fn is_match(
        &mut self,
        patterns: &Patterns,
        number: usize,
        text: &str,
        steps: &mut Steps,
    ) -> Result<bool, StepsSpent> {
        steps.take(4 + text.len() / BYTES_OF_A_STEP)?;
        if patterns.is_new(number) {
            steps.take(NEW)?;
        }
        let Some(automaton) = patterns.automaton(number) else {
            return Ok(true);
        };
        let cache = self.caches.entry(number).or_insert_with(|| {
            let cache = automaton.create_cache();
            self.bytes += cache.memory_usage();
            cache
        });
        let (cleared, bytes) = (cache.clear_count(), cache.memory_usage());
        let input = Input::new(text).anchored(Anchored::No).earliest(true);
        let found = automaton.try_search_fwd(cache, &input);
        let cleared = cache.clear_count().saturating_sub(cleared);
        let more = cache.memory_usage().saturating_sub(bytes);
        self.bytes += more;
        if self.bytes > MAX_ALL_STATES {
            *self = Self::default();
        }
        steps.take(cleared * CLEARED + more / BYTES_OF_A_STEP)?;
        // It gives up at too many states, and at \B in a text that is not ASCII.
        found.map(|found| found.is_some()).map_err(|_| StepsSpent)
    }
}
