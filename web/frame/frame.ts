/**
 * Draws one output in a document of its own. It runs what the kernel sent, with nothing within reach: the header of this document
 * gives it an opaque origin and no network, and all that it can ask of the viewer is a height.
 */

import type { FrameMessage, RenderMessage } from '../src/output/frame-protocol';
import style from './frame.css?inline';
import { elements, harden } from './harden';

declare global {
  interface Window {
    Plotly?: { newPlot(element: Element, data: unknown, layout: unknown, config: unknown): Promise<unknown> };
    himaliaVega?: { draw(element: Element, kind: 'vega' | 'vega-lite', spec: unknown, dark: boolean): Promise<void> };
  }
}

harden();
const scripts = new URL('.', (document.currentScript as HTMLScriptElement).src).href;
let isUsed = false;

addEventListener('message', event => {
  // The viewer speaks first and once; whatever the output itself posts to its window is none of ours.
  const [port] = event.ports;
  const message = event.data as RenderMessage | null;
  if (isUsed || !port || event.source !== parent || message?.type !== 'render') return;
  isUsed = true;
  void render(port, message);
});

async function render(port: MessagePort, message: RenderMessage): Promise<void> {
  const send = (answer: FrameMessage): void => port.postMessage(answer);
  document.documentElement.dataset.theme = message.theme;
  document.documentElement.dataset.kind = message.kind;
  // It stays when a script replaces the whole document, and all that the output brings goes before it.
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(`@layer viewer { ${style} }`);
  document.adoptedStyleSheets = [sheet];
  const root = document.createElement('div');
  root.id = 'output';
  document.body.append(root);
  const measure = followHeight(height => send({ type: 'resize', height }));
  try {
    if (message.kind === 'html') await html(root, String(message.data));
    else if (message.kind === 'plotly') await plotly(root, message);
    else await vega(root, message.kind, message);
    send({ type: 'ready' });
  } catch (error) {
    send({ type: 'failed', reason: String(error) });
  }
  measure();
}

/** Milliseconds in which changes of the content are reported as one. */
const SETTLE_MS = 20;

/**
 * Tells the height of what the document shows, whenever it has changed: also when a script has replaced the body, or all that was in it.
 * Returns what tells it at once.
 */
function followHeight(tell: (height: number) => void): () => void {
  let told = -1;
  let timer = 0;
  let body: Element | null = null;
  const resized = new ResizeObserver(() => measure());
  const measure = (): void => {
    timer = 0;
    if (document.body !== body) {
      if (body) resized.unobserve(body);
      body = document.body;
      if (body) resized.observe(body);
    }
    if (!body) return;
    // A bar for scrolling sideways stands below the content.
    const bar = Math.max(0, innerHeight - document.documentElement.clientHeight);
    const height = Math.ceil(Math.max(body.scrollHeight, body.getBoundingClientRect().height)) + bar;
    if (height === told) return;
    told = height;
    tell(height);
  };
  resized.observe(document.documentElement);
  new MutationObserver(() => {
    if (timer === 0) timer = window.setTimeout(measure, SETTLE_MS);
  }).observe(document, { childList: true, subtree: true, characterData: true, attributes: true });
  return measure;
}

/** Markup, its scripts included, in their order. */
async function html(root: Element, markup: string): Promise<void> {
  root.append(elements(markup));
  for (const old of root.querySelectorAll('script')) {
    const script = document.createElement('script');
    for (const { name, value } of old.attributes) script.setAttribute(name, value);
    script.textContent = old.textContent;
    const isLoaded =
      script.src === '' || script.async
        ? null
        : new Promise(done => {
            script.onload = done;
            script.onerror = done;
          });
    old.replaceWith(script);
    await isLoaded;
  }
}

async function plotly(root: Element, message: RenderMessage): Promise<void> {
  await load('plotly.js');
  const { data, layout, config } = message.data as { data: unknown; layout?: Record<string, unknown>; config?: object };
  const height = typeof layout?.height === 'number' ? layout.height : 450;
  root.setAttribute('style', `height: ${height}px`);
  // Without the links that Plotly offers to its own service.
  const own = { ...config, responsive: true, displaylogo: false, showLink: false, plotlyServerURL: '' };
  await window.Plotly?.newPlot(root, data, { ...layout, autosize: true }, own);
}

async function vega(root: Element, kind: 'vega' | 'vega-lite', message: RenderMessage): Promise<void> {
  await load('vega.js');
  await window.himaliaVega?.draw(root, kind, message.data, message.theme === 'dark');
}

function load(name: string): Promise<void> {
  return new Promise((done, failed) => {
    const script = document.createElement('script');
    script.src = scripts + name;
    script.onload = () => done();
    script.onerror = () => failed(new Error(`${name} could not be loaded`));
    document.head.append(script);
  });
}
