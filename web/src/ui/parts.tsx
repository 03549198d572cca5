/** Small parts that all screens are made of. */

import type { ComponentChildren } from 'preact';
import { said } from '../api/gateway';
import { choice, turnTheme } from '../state/theme';

export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
      <circle class="mark-planet" cx="15" cy="17" r="12" />
      <circle class="mark-moon" cx="25.5" cy="6.5" r="4" />
    </svg>
  );
}

export function ThemeButton() {
  const names = { system: 'as the system', light: 'light', dark: 'dark' };
  const label = `Theme: ${names[choice.value]}`;
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={turnTheme}>
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <circle cx="10" cy="10" r="6.5" fill="none" stroke="currentColor" stroke-width="1.6" />
        {choice.value === 'system' && <path d="M10 3.5a6.5 6.5 0 0 1 0 13z" fill="currentColor" />}
        {choice.value === 'dark' && <circle cx="10" cy="10" r="6.5" fill="currentColor" />}
      </svg>
    </button>
  );
}

export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'calm';

const TONES: Record<string, Tone> = {
  idle: 'good',
  ok: 'good',
  live: 'good',
  succeeded: 'good',
  ready: 'good',
  busy: 'busy',
  running: 'busy',
  starting: 'warn',
  restarting: 'warn',
  connecting: 'warn',
  delayed: 'warn',
  waiting: 'warn',
  reconnecting: 'warn',
  grant_needed: 'warn',
  queued: 'calm',
  aborted: 'calm',
  ended: 'calm',
  due: 'calm',
  skipped: 'warn',
  missed: 'warn',
  stopped: 'bad',
  interrupted: 'warn',
  timeout: 'bad',
  error: 'bad',
  dead: 'bad',
  refused: 'bad',
  failed: 'bad',
  not_done: 'bad',
  unknown: 'warn',
  kernel_died: 'bad',
  oom_killed: 'bad'
};

export function toneOf(word: string): Tone {
  return TONES[word] ?? 'calm';
}

export function Pill({
  word,
  children,
  title
}: {
  word: string;
  children?: ComponentChildren;
  title?: string | undefined;
}) {
  return (
    <span class={`pill is-${toneOf(word)}`} title={title}>
      <span class="dot" aria-hidden="true" />
      {children ?? word.replaceAll('_', ' ')}
    </span>
  );
}

/** What stands where there is nothing (yet). */
export function Empty({
  title,
  isPage = false,
  children
}: {
  title: string;
  /** There is nothing else on the page, which needs a heading. */
  isPage?: boolean;
  children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Mark />
      {isPage ? <h1>{title}</h1> : <h2>{title}</h2>}
      {children}
    </div>
  );
}

export function Problem({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p>{said(error)}</p>
      {onRetry && (
        <button type="button" class="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Loading({ rows = 4 }: { rows?: number }) {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}
