/** Characters that a person does not see, as the gateway decides it (crate `outcome`, `unseen.rs`). */

/** Marks of numbers and verses: format characters with a shape. */
const MARKS = '\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u{110bd}\\u{110cd}';
const UNSEEN = new RegExp(
  `(?![\\n${MARKS}])[\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}\\p{Noncharacter_Code_Point}\\u2800]`,
  'gu'
);

/** JSON in which each character is shown where it is: control characters but line feeds, and those that are not seen, are escapes. */
export function escapeUnseen(json: string): string {
  return json.replace(UNSEEN, char =>
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')
  );
}
