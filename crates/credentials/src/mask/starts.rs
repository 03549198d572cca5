//! Finds the places of a text where a pattern may begin. Three bytes decide that, so that most of a text is passed over quickly.
//!
//! A text with a pattern begins with two of its characters as they are, with one and then an escape or the end of a line, or with an escape. The
//! first two are shapes: sets of bytes for three places. A shape has a bit, which patterns with the same first character share, and for each
//! place there is a table from bytes to the bits of the shapes whose sets have them. An escape stands for one character.

use zeroize::Zeroize as _;

use super::forms;
use super::pattern::Pattern;

/// Places of a text that are looked at.
const PLACES: usize = 3;
/// Places that are looked at in one step.
const STEP: usize = 8;
/// Bytes that a step reads.
const READ: usize = STEP + PLACES - 1;

/// Bits of the shape with two characters as they are.
const PLAIN: u8 = 32;
/// Bits of the shape with an escape or the end of a line after a character.
const BROKEN: u8 = 31;
/// The bit of escapes.
const ESCAPE: u64 = 1 << 63;

type Table = [u64; 256];

/// The places at which patterns may begin.
pub(super) struct Starts {
    tables: Box<[Table; PLACES]>,
    /// Numbers of patterns, by a byte that their first character may be.
    plain: Vec<Vec<usize>>,
    /// The same by the first character.
    first: Vec<Vec<usize>>,
    /// Forms whose first character may be an entity with a name.
    named: Vec<usize>,
    all: Vec<usize>,
}

/// Sets of bytes for the places.
type Shape = [Vec<u8>; PLACES];

impl Drop for Starts {
    /// Overwrites the tables, which have the first bytes of secrets.
    fn drop(&mut self) {
        self.tables.zeroize();
    }
}

impl Starts {
    pub(super) fn new(all: &[Pattern]) -> Self {
        let mut made = Self {
            tables: Box::new([[0; 256]; PLACES]),
            plain: vec![Vec::new(); 256],
            first: vec![Vec::new(); 256],
            named: Vec::new(),
            all: (0..all.len()).collect(),
        };
        for (number, pattern) in all.iter().enumerate() {
            let first = pattern.character(0);
            for byte in forms::plain_bytes(first, pattern.any_case()) {
                made.plain[usize::from(byte)].push(number);
            }
            made.first[usize::from(first)].push(number);
            made.named.extend(forms::may_be_named(first).then_some(number));
            let [plain, broken] = shapes(pattern);
            made.add(plain, 1 << (first % PLAIN));
            made.add(broken, 1 << (PLAIN + first % BROKEN));
        }
        if !all.is_empty() {
            let any: Vec<u8> = (0..=u8::MAX).collect();
            made.add([forms::ESCAPES.to_vec(), any.clone(), any], ESCAPE);
        }
        made
    }

    fn add(&mut self, mut shape: Shape, bit: u64) {
        for (table, bytes) in self.tables.iter_mut().zip(&shape) {
            for byte in bytes {
                table[usize::from(*byte)] |= bit;
            }
        }
        shape.zeroize();
    }

    /// Calls for each place in a text, and each pattern that may begin there.
    pub(super) fn each(&self, patterns: &[Pattern], text: &[u8], mut found: impl FnMut(usize, &Pattern)) {
        let mut at = 0;
        let mut rest = text;
        let [one, two, three] = &*self.tables;
        let bits = |first: u8, second: u8, third: u8| {
            one[usize::from(first)] & two[usize::from(second)] & three[usize::from(third)]
        };
        while let Some(read) = rest.first_chunk::<READ>() {
            let mut any = 0;
            for place in 0..STEP {
                any |= bits(read[place], read[place + 1], read[place + 2]);
            }
            if any != 0 {
                for place in 0..STEP {
                    let bits = bits(read[place], read[place + 1], read[place + 2]);
                    if bits != 0 {
                        let rest = rest.get(place..).unwrap_or_default();
                        self.each_at(patterns, rest, bits, |pattern| found(at + place, pattern));
                    }
                }
            }
            at += STEP;
            rest = rest.get(STEP..).unwrap_or_default();
        }
        // A pattern may begin at the end of a text and continue in the next one.
        while let Some(first) = rest.first() {
            let mut bits = one[usize::from(*first)];
            for (table, byte) in self.tables.iter().zip(rest) {
                bits &= table[usize::from(*byte)];
            }
            self.each_at(patterns, rest, bits, |pattern| found(at, pattern));
            at += 1;
            rest = rest.get(1..).unwrap_or_default();
        }
    }

    /// Calls for each pattern that may be at the beginning of a text.
    fn each_at(&self, patterns: &[Pattern], text: &[u8], bits: u64, mut found: impl FnMut(&Pattern)) {
        let mut each = |numbers: &[usize], may: &dyn Fn(&Pattern) -> bool| {
            let all = numbers.iter().filter_map(|number| patterns.get(*number));
            all.filter(|pattern| may(pattern)).for_each(&mut found);
        };
        let Some(first) = text.first() else { return };
        if bits & !ESCAPE != 0 {
            let second = text.get(1).copied();
            each(by(&self.plain, *first), &|pattern| {
                second.is_none_or(|second| pattern.may_continue(second))
            });
        }
        if bits & ESCAPE != 0 {
            let numbers = match forms::unescaped(text) {
                // It may be any one, when the text continues.
                _ if text.len() < forms::LONGEST => self.all.as_slice(),
                Some(character) => by(&self.first, character),
                None if *first == b'&' => self.named.as_slice(),
                None => &[][..],
            };
            each(numbers, &|_| true);
        }
    }
}

/// Numbers of patterns that a byte has.
fn by(lists: &[Vec<usize>], byte: u8) -> &[usize] {
    lists.get(usize::from(byte)).map_or(&[], Vec::as_slice)
}

/// A set may have more bytes than there are in texts of the shape, and none less.
fn shapes(pattern: &Pattern) -> [Shape; 2] {
    let plain = |number: usize| forms::plain_bytes(pattern.character(number), pattern.any_case());
    let mut after = forms::ESCAPES.to_vec();
    if pattern.has_lines() {
        after.extend(forms::LINE_ENDS);
    }
    let or_after = |number: usize| [plain(number), after.clone()].concat();
    let mut within: Vec<u8> = forms::ESCAPES
        .iter()
        .flat_map(|escape| forms::second_bytes(*escape, pattern.character(1)))
        .collect();
    if pattern.has_lines() {
        // An end of a line, as it is or as in JSON, and what follows it.
        within.extend(b"nr \t");
        within.extend(or_after(1));
    }
    [
        [plain(0), plain(1), or_after(2)],
        [plain(0), after.clone(), within],
    ]
}
