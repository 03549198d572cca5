/** All plots of a session in the order of time; one of them large. */

import { useLayoutEffect } from 'preact/hooks';
import { type Plot, plots } from '../log/plots';
import { multiline } from '../log/records';
import { Display } from '../output/display';
import { pictureUrl } from '../output/mime';
import { go, href } from '../state/route';
import type { SessionView } from '../state/session-view';
import { clock } from '../ui/format';
import { onKeys } from '../ui/keys';
import { Empty } from '../ui/parts';
import { save } from '../ui/save';
import { Earlier } from './earlier';

export function Plots({ view, item }: { view: SessionView; item: string | null }) {
  view.revision.value;
  const all = plots(view.log.entries);
  const at = item === null ? -1 : all.findIndex(plot => plot.key === item);
  const open = all[at];
  if (all.length === 0) {
    return (
      <div class="scroller">
        <Earlier view={view} what="The gallery leaves out the plots of" />
        <Empty title="No plots yet">
          <p>Figures of matplotlib, Plotly, Vega-Lite and others collect here as they are drawn.</p>
        </Empty>
      </div>
    );
  }
  if (open)
    return (
      <Single view={view} plot={open} before={all[at - 1]} after={all[at + 1]} place={`${at + 1} of ${all.length}`} />
    );
  return (
    <div class="scroller">
      <Earlier view={view} what="The gallery leaves out the plots of" />
      <ul class="gallery">
        {all.map(plot => (
          <li key={plot.key}>
            <a href={plotHref(view, plot)}>
              <Thumbnail plot={plot} />
              <span class="gallery-text">
                <span class="mono">[{plot.cell.count ?? ' '}]</span>
                <span class="gallery-name">{name(plot)}</span>
                <time>{clock(plot.output.at)}</time>
              </span>
            </a>
          </li>
        ))}
      </ul>
    </div>
  );
}

interface SingleProps {
  view: SessionView;
  plot: Plot;
  before: Plot | undefined;
  after: Plot | undefined;
  place: string;
}

function Single({ view, plot, before, after, place }: SingleProps) {
  const list = href({ screen: 'session', session: view.session, tab: 'plots', item: null });
  useLayoutEffect(() => {
    const to = (other: Plot | undefined) => () => {
      if (other) location.hash = plotHref(view, other);
    };
    return onKeys({
      ArrowLeft: to(before),
      ArrowRight: to(after),
      k: to(before),
      j: to(after),
      Escape: () => {
        location.hash = list;
      }
    });
  });
  return (
    <div class="scroller plot-page">
      <div class="plot-bar">
        <a class="button" href={list}>
          All plots
        </a>
        <span class="muted">{place}</span>
        <span class="bar-space" />
        <Step label="Previous plot" sign="←" view={view} to={before} />
        <Step label="Next plot" sign="→" view={view} to={after} />
        <button
          type="button"
          class="button"
          onClick={() => go({ screen: 'session', session: view.session, tab: 'cells', item: plot.cell.key })}
        >
          Go to cell [{plot.cell.count ?? ' '}]
        </button>
        <button type="button" class="button" onClick={() => download(plot)}>
          Download {extension(plot.picture ?? plot.type).toUpperCase()}
        </button>
      </div>
      <figure class={`plate is-${plot.type.startsWith('image/') ? 'picture' : 'chart'}`}>
        <Display key={plot.key} output={plot.output} models={view.log.widgets} type={plot.type} whole />
        <figcaption>{name(plot)}</figcaption>
      </figure>
    </div>
  );
}

function Step({ label, sign, view, to }: { label: string; sign: string; view: SessionView; to: Plot | undefined }) {
  return (
    <button
      type="button"
      class="button"
      aria-label={label}
      title={label}
      disabled={!to}
      onClick={() => {
        if (to) location.hash = plotHref(view, to);
      }}
    >
      {sign}
    </button>
  );
}

function Thumbnail({ plot }: { plot: Plot }) {
  const source = plot.picture ? pictureUrl(plot.picture, plot.output.data[plot.picture]) : null;
  if (source) return <img class="thumbnail" src={source} alt="" loading="lazy" decoding="async" />;
  return (
    <span class="thumbnail is-chart">
      <svg viewBox="0 0 64 40" aria-hidden="true">
        <path d="M4 34 18 20l10 8 14-20 18 14" />
        <path class="axis" d="M4 2v34h58" />
      </svg>
      {library(plot.type)}
    </span>
  );
}

function plotHref(view: SessionView, plot: Plot): string {
  return href({ screen: 'session', session: view.session, tab: 'plots', item: plot.key });
}

function name(plot: Plot): string {
  const text = multiline(plot.output.data['text/plain']).replace(/^<|>$/g, '').slice(0, 80);
  return text || library(plot.type);
}

function library(type: string): string {
  if (type.includes('plotly')) return 'Plotly';
  if (type.includes('vegalite')) return 'Vega-Lite';
  if (type.includes('vega')) return 'Vega';
  return extension(type).toUpperCase();
}

function extension(type: string): string {
  if (type.endsWith('+json')) return 'json';
  return type
    .replace(/^image\//, '')
    .replace('svg+xml', 'svg')
    .replace('jpeg', 'jpg');
}

function download(plot: Plot): void {
  const type = plot.picture ?? plot.type;
  const value = plot.output.data[type];
  const file = `plot-${plot.cell.count ?? plot.output.seq}.${extension(type)}`;
  if (type.endsWith('+json')) save(new Blob([JSON.stringify(value)], { type: 'application/json' }), file);
  else if (type === 'image/svg+xml') save(new Blob([multiline(value)], { type: 'application/octet-stream' }), file);
  else save(new Blob([bytesOf(multiline(value))], { type }), file);
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64.replace(/\s+/g, ''));
  return Uint8Array.from(text, char => char.charCodeAt(0));
}
