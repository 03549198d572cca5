/** What the viewer and an output's frame say to each other, over a port that the viewer hands to the frame. */

/** Bytes, about, of one message of a frame that are looked at. */
const MAX_MESSAGE_CHARS = 200;
/** Pixels that a frame may ask for. */
export const MAX_FRAME_HEIGHT = 20_000;

/** To the frame. */
export interface RenderMessage {
  type: 'render';
  kind: 'html' | 'plotly' | 'vega' | 'vega-lite';
  /** Markup, or a chart's JSON. */
  data: unknown;
  theme: 'light' | 'dark';
}

/** From the frame. Everything else is ignored. */
export type FrameMessage = { type: 'ready' } | { type: 'resize'; height: number } | { type: 'failed'; reason: string };

/** A message of a frame, which runs code of strangers; null if it is none of ours. */
export function readFrameMessage(value: unknown): FrameMessage | null {
  if (typeof value !== 'object' || value === null) return null;
  const { type, height, reason } = value as Record<string, unknown>;
  if (type === 'ready') return { type };
  if (type === 'resize' && typeof height === 'number' && Number.isFinite(height) && height >= 0) {
    return { type, height: Math.min(Math.ceil(height), MAX_FRAME_HEIGHT) };
  }
  if (type === 'failed' && typeof reason === 'string') return { type, reason: reason.slice(0, MAX_MESSAGE_CHARS) };
  return null;
}
