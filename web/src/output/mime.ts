/**
 * Which type of a bundle is shown, and where. What is on the list of safe types is drawn by the viewer itself; everything else that
 * can be shown goes into a sandboxed frame.
 */

import type { JsonObject } from '../log/records';

export type Renderer =
  /** A frame of its own origin. */
  | 'frame'
  /** An `<img>`, which runs nothing. */
  | 'picture'
  | 'markdown'
  | 'latex'
  | 'json'
  | 'text'
  /** Widgets that the viewer draws from their state. */
  | 'widget';

/** The first one that a bundle has is shown. Charts come before the HTML that loads its library from elsewhere. */
const SHOWN: [string, Renderer][] = [
  ['application/vnd.jupyter.widget-view+json', 'widget'],
  ['application/vnd.plotly.v1+json', 'frame'],
  ['application/vnd.vegalite.v6+json', 'frame'],
  ['application/vnd.vegalite.v5+json', 'frame'],
  ['application/vnd.vega.v6+json', 'frame'],
  ['application/vnd.vega.v5+json', 'frame'],
  ['text/html', 'frame'],
  ['text/markdown', 'markdown'],
  ['image/svg+xml', 'picture'],
  ['text/latex', 'latex'],
  ['image/png', 'picture'],
  ['image/jpeg', 'picture'],
  ['image/webp', 'picture'],
  ['image/gif', 'picture'],
  ['application/json', 'json'],
  ['text/plain', 'text']
];

export function choose(
  data: JsonObject,
  canDrawWidget: (model: string) => boolean
): { type: string; renderer: Renderer } | null {
  for (const [type, renderer] of SHOWN) {
    const value = data[type];
    if (value === undefined || value === null) continue;
    if (renderer === 'widget') {
      const model = typeof value === 'object' && !Array.isArray(value) ? value.model_id : null;
      if (typeof model !== 'string' || !canDrawWidget(model)) continue;
    }
    return { type, renderer };
  }
  return null;
}

/** The `src` of a picture; null when the data is none. Kernels send base64 with line breaks. */
export function pictureUrl(type: string, value: unknown): string | null {
  const text = Array.isArray(value) ? value.join('') : value;
  if (typeof text !== 'string') return null;
  if (type === 'image/svg+xml') return `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  const base64 = text.replace(/\s+/g, '');
  return /^[A-Za-z0-9+/]+=*$/.test(base64) ? `data:${type};base64,${base64}` : null;
}
