/** Files that the code of one cell has written to be kept, from its messages and its reply. */

import { type JsonObject, type LogRecord, number, object, text } from './records';

/** Files of one cell, as in `crates/outcome/src/kept.rs`. */
const MAX_FILES = 64;
/** Characters of a name and of a media type that are kept. */
const NAME_CHARS = 400;

export interface KeptFile {
  name: string;
  mediaType: string;
  bytes: number;
}

/** The files of one cell. */
export class KeptFiles {
  shown: KeptFile[] = [];
  /** Files that are not kept, and why, one line each. */
  omitted: string[] = [];

  /** Characters of names. */
  get chars(): number {
    let chars = 0;
    for (const file of this.shown) chars += file.name.length + file.mediaType.length;
    for (const line of this.omitted) chars += line.length;
    return chars;
  }

  /** A file; one of the same name takes the place of the one before. */
  add(record: LogRecord, content: JsonObject): void {
    const name = text(content.name).slice(0, NAME_CHARS);
    const bytes = record.bufferBytes?.[0];
    if (!name || bytes === undefined) return;
    const others = this.shown.filter(file => file.name !== name);
    if (others.length >= MAX_FILES) return;
    this.shown = [...others, { name, mediaType: text(content.media_type).slice(0, NAME_CHARS), bytes }];
  }

  /** What the kernel says of files that it left out. */
  leftOut(said: JsonObject): void {
    const files = Array.isArray(said.files) ? said.files.slice(0, MAX_FILES).map(object) : [];
    this.omitted = files.map(
      file => `${text(file.name).slice(0, NAME_CHARS)}: ${text(file.reason).replaceAll('_', ' ')}`
    );
    const more = number(said.more) ?? 0;
    if (more > 0) this.omitted.push(`${more} more`);
    if (said.truncated === true) this.omitted.push('there may be others, which were not looked at');
  }
}
