/** Coloured text as spans. Colours of the 16 are classes, so that each theme has its own; others are adjusted values. */

import Anser, { type AnserJsonEntry } from 'anser';

export interface Span {
  text: string;
  className: string;
  /** `rgb(…)` values of 256-colour and true-colour text; empty if none. */
  color: string;
  background: string;
}

/** Links, titles and other control strings that are no colours. */
const OTHER_SEQUENCES = /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b\[[0-9;:?]*[A-Za-ln-z]/g;

export function spans(text: string): Span[] {
  if (!text.includes('\u001b')) return text === '' ? [] : [{ text, className: '', color: '', background: '' }];
  const entries = Anser.ansiToJson(text.replace(OTHER_SEQUENCES, ''), { use_classes: true, json: true });
  return entries.filter(entry => entry.content !== '').map(span);
}

function span(entry: AnserJsonEntry): Span {
  const classes = entry.decorations.map(name => `ansi-${name}`);
  const [foreground, background] = [colour(entry.fg, entry.fg_truecolor), colour(entry.bg, entry.bg_truecolor)];
  if (foreground.name) classes.push(foreground.name);
  if (background.name) classes.push(`${background.name}-bg`);
  if (foreground.value && !background.value && !background.name) classes.push('ansi-custom');
  return {
    text: entry.content,
    className: classes.join(' '),
    color: foreground.value,
    background: background.value
  };
}

/** Anser's names: `ansi-red`, `ansi-bright-red`, `ansi-palette-208`, `ansi-truecolor`. */
function colour(name: string | null, truecolor: string | null): { name: string; value: string } {
  if (!name) return { name: '', value: '' };
  if (name === 'ansi-truecolor') return { name: '', value: truecolor ? `rgb(${truecolor})` : '' };
  const palette = /^ansi-palette-(\d+)$/.exec(name);
  if (palette) return { name: '', value: `rgb(${palette256(Number(palette[1])).join(', ')})` };
  return { name, value: '' };
}

/** The colours 16 to 255 of xterm's palette. */
function palette256(index: number): [number, number, number] {
  if (index >= 232) {
    const grey = 8 + (index - 232) * 10;
    return [grey, grey, grey];
  }
  const level = (value: number): number => (value === 0 ? 0 : 55 + value * 40);
  const cube = Math.max(0, index - 16);
  return [level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)];
}
