/** Calls to the gateway. Who calls is known by a cookie that scripts cannot read. */

import { signal } from '@preact/signals';
import { isObject } from '../log/records';
import { segment, url } from './base';
import type { History, Problem, Session, Usage, VariableList, VariablePage } from './types';

/** Time for a call that starts nothing, and for one that may start a process. */
const WAIT_MS = 30_000;
const START_MS = 120_000;
/** Bytes of a page of output. */
const OUTPUT_PAGE = 1 << 20;

/** The gateway does not know this browser (any more). */
export const signedOut = signal(false);

/** A refusal of the gateway, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryable: boolean
  ) {
    super(message);
  }
}

interface CallOptions {
  body?: unknown;
  signal?: AbortSignal;
  timeout?: number;
  accept?: string;
}

/** One call; an answer that is no success throws [`ApiError`]. */
export async function call(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const timeout = AbortSignal.timeout(options.timeout ?? WAIT_MS);
  const headers: Record<string, string> = { Accept: options.accept ?? 'application/json' };
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(url(path), {
      method,
      headers,
      credentials: 'same-origin',
      cache: 'no-store',
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
      ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) })
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const late = timeout.aborted;
    throw new ApiError(
      0,
      late ? 'timeout' : 'unreachable',
      late ? 'The gateway gave no answer in time.' : 'The gateway cannot be reached.',
      true
    );
  }
  if (response.ok) return response;
  if (response.status === 401) signedOut.value = true;
  throw await refusal(response);
}

async function refusal(response: Response): Promise<ApiError> {
  let problem: Partial<Problem> = {};
  try {
    const body: unknown = await response.json();
    if (isObject(body)) problem = body as Partial<Problem>;
  } catch {
    // Not the gateway's own words: a proxy's.
  }
  const detail = typeof problem.detail === 'string' ? problem.detail : `${response.status} ${response.statusText}`;
  return new ApiError(response.status, String(problem.code ?? 'unknown'), detail, problem.retryable === true);
}

async function json<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  return (await (await call(method, path, options)).json()) as T;
}

const session = (id: string): string => `v1/sessions/${segment(id)}`;

export const api = {
  signIn: (credential: { token: string } | { code: string }) =>
    call('POST', 'viewer/sign-in', { body: credential }).then(() => {
      signedOut.value = false;
    }),

  signOut: () =>
    call('POST', 'viewer/sign-out').then(() => {
      signedOut.value = true;
    }),

  sessions: (signal?: AbortSignal) =>
    json<{ sessions: Session[] }>('GET', 'v1/sessions', signal ? { signal } : {}).then(list => list.sessions),

  session: (id: string, signal?: AbortSignal) => json<Session>('GET', session(id), signal ? { signal } : {}),

  usage: (id: string, signal?: AbortSignal) => json<Usage>('GET', `${session(id)}/usage`, signal ? { signal } : {}),

  /** At most `limit` entries from `offset` on, or the latest ones. */
  history: (id: string, offset: number | null, limit: number, signal: AbortSignal) =>
    json<History>('GET', `${session(id)}/history?${offset === null ? '' : `offset=${offset}&`}limit=${limit}`, {
      signal
    }),

  start: (wish: { name?: string }) => json<Session>('POST', 'v1/sessions', { body: wish, timeout: START_MS }),

  end: (id: string) => call('DELETE', session(id), { timeout: START_MS }),

  interrupt: (id: string) => call('POST', `${session(id)}/interrupt`),

  restart: (id: string) => json<Session>('POST', `${session(id)}/restart`, { timeout: START_MS }),

  run: (id: string, code: string, key: string) =>
    call('POST', `${session(id)}/executions`, {
      body: { code, background: true, allow_stdin: true, idempotency_key: key }
    }),

  answer: (execution: string, value: string) =>
    call('POST', `v1/executions/${segment(execution)}/input`, { body: { value } }),

  variables: (id: string, signal?: AbortSignal) =>
    json<VariableList>('GET', `${session(id)}/variables`, signal ? { signal } : {}),

  variable: (id: string, name: string, wish: URLSearchParams, signal?: AbortSignal) =>
    json<VariablePage>('GET', `${session(id)}/variables/${segment(name)}?${wish}`, signal ? { signal } : {}),

  /** All text of an execution, page by page, so that no string holds it as a whole. */
  async output(execution: string): Promise<Blob> {
    const parts: string[] = [];
    let offset = 0;
    for (;;) {
      const path = `v1/executions/${segment(execution)}/output?offset=${offset}&limit=${OUTPUT_PAGE}`;
      const page = await json<{ text: string; next: number; bytes_total: number }>('GET', path);
      parts.push(page.text);
      if (page.next >= page.bytes_total || page.next <= offset) return new Blob(parts, { type: 'text/plain' });
      offset = page.next;
    }
  },

  notebookUrl: (id: string): string => url(`${session(id)}/notebook.ipynb`),
  scriptUrl: (id: string): string => url(`${session(id)}/script.py`)
};

/** The id of a native execution: its session, and the number of its first record. */
export function executionId(sessionId: string, seq: number): string {
  return `exe_${sessionId.replaceAll('-', '')}_${seq}`;
}
