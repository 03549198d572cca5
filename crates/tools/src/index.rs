//! The words of the tools of one server, and how well a tool fits some words: BM25, with fields that count differently (BM25F).
//!
//! Source of the formula: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009). A catalog has several
//! servers, so how rare a word is, is asked of all of them ([`Rarity`]).

use std::collections::HashMap;

use serde_json::Value;

use crate::tool::ToolDefinition;
use crate::words::words;

/// Weight limit of a repeated word (BM25 `k1`).
const SATURATION: f32 = 1.2;
/// Weight loss of a long text (BM25 `b`).
const LENGTH: f32 = 0.5;
/// A word of a name counts as much as so many of the description.
const NAME: f32 = 4.0;
const DESCRIPTION: f32 = 1.0;
const PARAMETER: f32 = 1.0;
const PARAMETER_DESCRIPTION: f32 = 0.5;
/// Words of one tool that are kept; the next ones are not found.
const MAX_WORDS: usize = 2000;

/// The words of some tools, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Index {
    words: HashMap<String, Vec<(u32, f32)>>,
    /// Weighted words of each tool.
    lengths: Vec<f32>,
}

/// Rarity of words over all searched texts.
#[derive(Debug, Default)]
pub(crate) struct Rarity {
    tools: usize,
    length: f32,
    having: HashMap<String, usize>,
}

impl Index {
    pub(crate) fn of<'a>(tools: impl Iterator<Item = &'a ToolDefinition>) -> Self {
        let mut index = Self::default();
        for (number, tool) in (0..).zip(tools) {
            let weights = weights(tool);
            index.lengths.push(weights.values().sum());
            for (word, weight) in weights {
                index.words.entry(word).or_default().push((number, weight));
            }
        }
        index
    }

    /// Adds what this one has of some words.
    pub(crate) fn count(&self, query: &[String], rarity: &mut Rarity) {
        rarity.tools += self.lengths.len();
        rarity.length += self.lengths.iter().sum::<f32>();
        for word in query {
            if let Some(having) = self.words.get(word) {
                *rarity.having.entry(word.clone()).or_default() += having.len();
            }
        }
    }

    /// Tools that have at least one of the words, with how well each fits.
    pub(crate) fn scores(&self, query: &[String], rarity: &Rarity) -> impl Iterator<Item = (u32, f32)> {
        let mut scores = vec![0.0_f32; self.lengths.len()];
        let mean = rarity.mean_length();
        for word in query {
            let Some(having) = self.words.get(word) else {
                continue;
            };
            let weight = rarity.weight(word);
            for (number, count) in having {
                let at = *number as usize;
                let length = self.lengths.get(at).copied().unwrap_or_default();
                let expected = 1.0 - LENGTH + LENGTH * length / mean;
                if let Some(score) = scores.get_mut(at) {
                    *score += weight * count * (SATURATION + 1.0) / (count + SATURATION * expected);
                }
            }
        }
        let scores = (0..).zip(scores);
        // The weight of a word and its count are above zero.
        scores.filter(|(_, score)| *score > 0.0)
    }
}

impl Rarity {
    #[allow(clippy::cast_precision_loss, reason = "numbers of tools are small")]
    fn weight(&self, word: &str) -> f32 {
        let having = self.having.get(word).copied().unwrap_or_default() as f32;
        (1.0 + (self.tools as f32 - having + 0.5) / (having + 0.5)).ln()
    }

    #[allow(clippy::cast_precision_loss, reason = "numbers of tools are small")]
    fn mean_length(&self) -> f32 {
        (self.length / self.tools.max(1) as f32).max(1.0)
    }
}

/// The words of a tool with what each counts.
fn weights(tool: &ToolDefinition) -> HashMap<String, f32> {
    let mut weights = HashMap::new();
    let mut left = MAX_WORDS;
    let mut add = |text: &str, weight: f32| {
        for word in words(text) {
            if left == 0 {
                return;
            }
            left -= 1;
            *weights.entry(word).or_default() += weight;
        }
    };
    add(&tool.name, NAME);
    add(&tool.description, DESCRIPTION);
    let parameters = tool.input_schema.get("properties").and_then(Value::as_object);
    for (name, schema) in parameters.into_iter().flatten() {
        add(name, PARAMETER);
        if let Some(text) = schema.get("description").and_then(Value::as_str) {
            add(text, PARAMETER_DESCRIPTION);
        }
    }
    weights
}
