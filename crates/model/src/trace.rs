//! Position of a call in a trace: the identity of a span, as in `traceparent` of W3C Trace Context.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A span in a trace, which other spans can be below.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    sampled: bool,
}

/// The text is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent of W3C Trace Context")]
pub struct NoTraceContext;

impl TraceContext {
    /// `None` if an id is 0.
    pub fn new(trace: u128, span: u64, sampled: bool) -> Option<Self> {
        (trace != 0 && span != 0).then_some(Self { trace, span, sampled })
    }

    /// The id of the trace.
    pub fn trace_id(&self) -> [u8; 16] {
        self.trace.to_be_bytes()
    }

    /// The id of the span.
    pub fn span_id(&self) -> [u8; 8] {
        self.span.to_be_bytes()
    }

    /// Returns true if spans of the trace are recorded. If not, no span below is recorded either.
    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn with_span(self, span: u64) -> Self {
        Self {
            span: span.max(1),
            ..self
        }
    }

    /// A span below this one whose id follows from `number`, so that one that knows both knows the id.
    #[must_use]
    pub fn numbered(self, number: u64) -> Self {
        // The finaliser of SplitMix64: a bijection, so two numbers never give one id.
        let mut mixed = self
            .span
            .wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.with_span(mixed ^ (mixed >> 31))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "00-{:032x}-{:016x}-{:02x}",
            self.trace,
            self.span,
            u8::from(self.sampled)
        )
    }
}

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    /// Reads the fields of version 00 also from later versions, as the specification requires.
    fn from_str(text: &str) -> Result<Self, NoTraceContext> {
        let bytes = text.as_bytes();
        let known = bytes.get(..55).ok_or(NoTraceContext)?;
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let dashes = [2, 35, 52];
        let well_formed = known.iter().enumerate().all(|(at, byte)| {
            if dashes.contains(&at) {
                *byte == b'-'
            } else {
                is_hex(byte)
            }
        });
        let ends = match (&known[..2], bytes.get(55)) {
            (b"ff", _) => false,
            (b"00", more) => more.is_none(),
            (_, more) => more.is_none_or(|byte| *byte == b'-'),
        };
        if !well_formed || !ends {
            return Err(NoTraceContext);
        }
        let number = |text: &str| u128::from_str_radix(text, 16).map_err(|_| NoTraceContext);
        let (trace, span, flags) = (
            number(&text[3..35])?,
            number(&text[36..52])?,
            number(&text[53..55])?,
        );
        let span = u64::try_from(span).map_err(|_| NoTraceContext)?;
        Self::new(trace, span, flags & 1 == 1).ok_or(NoTraceContext)
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_read_is_written_the_same() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), EXAMPLE);
        let json = serde_json::to_string(&context).unwrap();
        assert_eq!(serde_json::from_str::<TraceContext>(&json).unwrap(), context);
        let other = EXAMPLE.replace("-01", "-02").parse::<TraceContext>().unwrap();
        assert!(!other.is_sampled());
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let of = |text: String| text.parse::<TraceContext>();
        assert!(of(EXAMPLE.replacen("00", "cc", 1)).is_ok());
        assert!(of(format!("{}-what", EXAMPLE.replacen("00", "cc", 1))).is_ok());
        for bad in [
            format!("{EXAMPLE}-what"),
            format!("{}x", EXAMPLE.replacen("00", "cc", 1)),
            EXAMPLE.replacen("00", "ff", 1),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16)),
            EXAMPLE.replace('-', "_"),
            EXAMPLE[..54].to_owned(),
            "\u{e4}".repeat(40),
            String::new(),
        ] {
            assert_eq!(of(bad.clone()), Err(NoTraceContext), "{bad}");
        }
    }

    #[test]
    fn numbered_spans_differ_and_stay_in_the_trace() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        let ids: std::collections::HashSet<_> = (0..1000).map(|number| context.numbered(number)).collect();
        assert_eq!(ids.len(), 1000);
        assert!(
            ids.iter()
                .all(|one| one.trace_id() == context.trace_id() && one.is_sampled())
        );
        assert!(!ids.contains(&context));
    }
}
