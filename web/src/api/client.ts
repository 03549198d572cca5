/** Calls to the gateway. Who calls is known by a cookie that scripts cannot read. */

import { signal } from '@preact/signals';
import { isObject } from '../log/records';
import { segment, url } from './base';
import type { FileList, History, Problem, Session, SessionKernel, Usage, VariableList, VariablePage } from './types';

/** Milliseconds for a call that starts nothing, and for one that may start a process. */
const WAIT_MS = 30_000;
const START_MS = 120_000;
/** Time for a file on its way. */
const UPLOAD_MS = 3_600_000;
/** Time for a text to come as a whole. */
const DOWNLOAD_MS = 600_000;

/** The gateway does not know this browser (any more). */
export const signedOut = signal(false);

/** A refusal of the gateway, or no answer at all (status 0). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryable: boolean,
    /** The session that has ended, of which its log is left. */
    readonly session: string | null = null
  ) {
    super(message);
  }
}

interface CallOptions {
  body?: unknown;
  signal?: AbortSignal;
  timeout?: number;
  accept?: string;
  /** Sent as it is, in place of `body`. */
  content?: Blob;
  /** Bytes from the beginning that are wanted. */
  range?: number;
}

/** One call; an answer that is no success throws [`ApiError`]. */
export async function call(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const timeout = AbortSignal.timeout(options.timeout ?? WAIT_MS);
  const headers: Record<string, string> = { Accept: options.accept ?? 'application/json' };
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  if (options.range !== undefined) headers.Range = `bytes=0-${options.range - 1}`;
  const body = options.content ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  let response: Response;
  try {
    response = await fetch(url(path), {
      method,
      headers,
      credentials: 'same-origin',
      cache: 'no-store',
      signal: options.signal ? AbortSignal.any([options.signal, timeout]) : timeout,
      ...(body === undefined ? {} : { body })
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
  return new ApiError(
    response.status,
    String(problem.code ?? 'unknown'),
    detail,
    problem.retryable === true,
    typeof problem.session === 'string' ? problem.session : null
  );
}

async function json<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  return (await (await call(method, path, options)).json()) as T;
}

/** All things of a list, page by page. */
async function all<T>(path: string, member: string, options: CallOptions = {}): Promise<T[]> {
  const things: T[] = [];
  for (let cursor = ''; ; ) {
    const page = await json<{ [name: string]: unknown; next?: string | null }>('GET', path + cursor, options);
    things.push(...(page[member] as T[]));
    if (!page.next) return things;
    cursor = `${path.includes('?') ? '&' : '?'}cursor=${segment(page.next)}`;
  }
}

const session = (id: string): string => `v1/sessions/${segment(id)}`;

const filePath = (id: string, path: string): string => `${session(id)}/files/${path.split('/').map(segment).join('/')}`;

export const api = {
  /** The identity provider that people sign in with, by name. */
  provider: (signal: AbortSignal) =>
    json<{ oidc: { name: string } | null }>('GET', 'viewer/sign-in', { signal }).then(ways => ways.oidc),

  signIn: (credential: { token: string } | { code: string }) =>
    call('POST', 'viewer/sign-in', { body: credential }).then(() => {
      signedOut.value = false;
    }),

  signOut: () =>
    call('POST', 'viewer/sign-out').then(() => {
      signedOut.value = true;
    }),

  sessions: (signal?: AbortSignal) => all<Session>('v1/sessions', 'sessions', signal ? { signal } : {}),

  /** Those that have ended and whose logs are kept, the latest end first. */
  ended: (signal: AbortSignal) => all<Session>('v1/sessions?ended=true', 'sessions', { signal }),

  /** All kernels in the sandbox of a session, its first one first. */
  kernels: (id: string, signal: AbortSignal) => all<SessionKernel>(`${session(id)}/kernels`, 'kernels', { signal }),

  session: (id: string, signal?: AbortSignal) => json<Session>('GET', session(id), signal ? { signal } : {}),

  usage: (id: string, signal?: AbortSignal) => json<Usage>('GET', `${session(id)}/usage`, signal ? { signal } : {}),

  /** At most `limit` entries from `offset` on, or the latest ones. */
  history: (id: string, offset: number | null, limit: number, signal: AbortSignal) =>
    json<History>('GET', `${session(id)}/history?${offset === null ? '' : `offset=${offset}&`}limit=${limit}`, {
      signal
    }),

  start: (request: { name?: string }) => json<Session>('POST', 'v1/sessions', { body: request, timeout: START_MS }),

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

  variable: (id: string, name: string, query: URLSearchParams, signal?: AbortSignal) =>
    json<VariablePage>('GET', `${session(id)}/variables/${segment(name)}?${query}`, signal ? { signal } : {}),

  /** All text of an execution as one file, which the browser keeps where it has room. */
  async output(execution: string): Promise<Blob> {
    const path = `v1/executions/${segment(execution)}/output`;
    const response = await call('GET', path, { accept: 'text/plain', timeout: DOWNLOAD_MS });
    return response.blob();
  },

  /** What is in a directory, or a file alone. */
  async files(id: string, path: string, signal: AbortSignal): Promise<FileList> {
    const list = (at: string) => json<FileList>('GET', `${session(id)}/files?path=${segment(at)}`, { signal });
    try {
      return await list(path);
    } catch (error) {
      if (path === '' || !(error instanceof ApiError) || error.status < 400 || error.status >= 500) throw error;
      const { entries } = await list(path.split('/').slice(0, -1).join('/'));
      const file = entries.filter(entry => entry.path === path && entry.kind !== 'directory');
      if (file.length === 0) throw error;
      return { entries: file, truncated: false };
    }
  },

  /** The first bytes of a file. */
  filePart: (id: string, path: string, bytes: number, signal: AbortSignal) =>
    call('GET', filePath(id, path), { signal, accept: '*/*', range: bytes }).then(answer => answer.blob()),

  putFile: (id: string, path: string, content: Blob) =>
    call('PUT', filePath(id, path), { content, timeout: UPLOAD_MS }),

  deleteFile: (id: string, path: string) => call('DELETE', filePath(id, path)),

  fileUrl: (id: string, path: string): string => url(filePath(id, path)),

  notebookUrl: (id: string): string => url(`${session(id)}/notebook.ipynb`),
  scriptUrl: (id: string): string => url(`${session(id)}/script.py`)
};

/** The id of a native execution: its session, and the number of its first record. */
export function executionId(sessionId: string, seq: number): string {
  return `exe_${sessionId.replaceAll('-', '')}_${seq}`;
}
