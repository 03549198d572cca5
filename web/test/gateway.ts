// A gateway that is not there: answers of the API, and a log that the test writes to.

import type { schema } from 'himalia';
import type { LogRecord } from '../src/log/records';

export interface Call {
  method: string;
  path: string;
  body: Record<string, unknown> | null;
}

type Handler = (call: Call) => Response | Promise<Response>;

export const json = (body: unknown, status = 200): Response => new Response(JSON.stringify(body), { status });
export const problem = (status: number, code: string, detail: string): Response =>
  json({ type: 'about:blank', status, code, detail, retryable: false }, status);

export class FakeGateway {
  readonly calls: Call[] = [];
  sessions: schema.ListedSession[] = [];
  variables: schema.VariablePage = { variables: [], next: null, total: 0, truncated: false, incarnation: 1 };
  fileNames: string[] = [];
  page: ((query: URLSearchParams) => schema.VariablePart) | null = null;
  /** Answers instead of the usual ones, by method and the beginning of the path. */
  readonly instead = new Map<string, Handler>();
  private streams: { send: (text: string) => void; close: () => void }[] = [];
  private records: LogRecord[] = [];

  install(): void {
    globalThis.fetch = ((input: string, init: RequestInit = {}) => this.answer(input, init)) as typeof fetch;
  }

  /** Further records of the log. */
  write(records: LogRecord[]): void {
    this.records.push(...records);
    for (const stream of this.streams) stream.send(records.map(event).join(''));
  }

  /** Cuts all streams, as a gateway that is killed does. */
  cut(): void {
    for (const stream of this.streams.splice(0)) stream.close();
  }

  called(method: string, path: string): Call[] {
    return this.calls.filter(call => call.method === method && call.path.startsWith(path));
  }

  private async answer(input: string, init: RequestInit): Promise<Response> {
    const url = new URL(input);
    const path = url.pathname.slice(1);
    const call: Call = {
      method: init.method ?? 'GET',
      path: path + url.search,
      body: typeof init.body === 'string' ? JSON.parse(init.body) : null
    };
    this.calls.push(call);
    for (const [key, handler] of this.instead) {
      const [method, begin] = key.split(' ');
      if (call.method === method && path.startsWith(begin ?? '')) return handler(call);
    }
    const [, , session, what, name] = path.split('/');
    if (what === 'files' && !name) return this.files(url.searchParams);
    if (path === 'v1/sessions' && call.method === 'GET') return json({ sessions: this.sessions, next: null });
    if (what === 'events') return this.stream(Number(url.searchParams.get('after')), init.signal ?? null);
    if (what === 'history') return json({ history: [], next: null, offset: 0, total: 0, omitted: 0 });
    if (what === 'prompts' || path === 'v1/prompts') return json({ prompts: [] });
    if (what === 'usage') return json({ memory_bytes: 96 << 20, cpu_ms: 1200, processes: 3 });
    if (what === 'variables' && name && this.page) return json(this.page(url.searchParams));
    if (what === 'variables' && !name) return json(this.variables);
    if (call.method === 'GET' && session) {
      const found = this.sessions.find(one => one.id === session || one.name === session);
      return found ? json(found) : problem(404, 'not_found', `Session does not exist: ${session}`);
    }
    return call.method === 'POST' ? json({}, 202) : new Response(null, { status: 204 });
  }

  /** Files of one directory, two on a page. */
  private files(query: URLSearchParams): Response {
    const from = Number(query.get('cursor') ?? 0);
    const entries = this.fileNames
      .slice(from, from + 2)
      .map(path => ({ path, kind: 'file', bytes: 1, modified: null }));
    const next = from + 2 < this.fileNames.length ? String(from + 2) : null;
    return json({ path: '', entries, next, total: {}, truncated: next !== null });
  }

  private stream(after: number, signal: AbortSignal | null): Response {
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start: controller => {
        let isOpen = true;
        const close = (): void => {
          if (isOpen) controller.close();
          isOpen = false;
        };
        signal?.addEventListener('abort', close);
        const send = (text: string): void => {
          if (isOpen) controller.enqueue(encoder.encode(text));
        };
        this.streams.push({ send, close });
        send(
          this.records
            .filter(record => record.seq > after)
            .map(event)
            .join('')
        );
      }
    });
    return new Response(body, { status: 200, headers: { 'Content-Type': 'text/event-stream' } });
  }
}

function event(record: LogRecord): string {
  const { kind, execution, bufferBytes, ...rest } = record;
  const execution_id = execution === undefined ? undefined : `exe_1_${execution}`;
  return `id: ${record.seq}\nevent: ${kind}\ndata: ${JSON.stringify({ ...rest, event: kind, execution_id, buffer_bytes: bufferBytes })}\n\n`;
}

export function session(more: Partial<schema.ListedSession> = {}): schema.ListedSession {
  // The members that the viewer reads.
  const read: Partial<schema.ListedSession> = {
    id: '11111111-2222-4333-8444-555555555555',
    name: 'eda',
    owner: 'operator',
    kernelspec: 'python3',
    template: 'python3',
    state: 'idle',
    incarnation: 1,
    reason: null,
    origin: 'v1',
    isolation: 'namespaces',
    limits: { memory_bytes: { value: 2 ** 31, enforcement: 'cgroup' } } as schema.Limits,
    started_by: 'zygote',
    start_ms: 9,
    parent: null,
    connections: 0,
    created: '2026-01-02T03:04:05.000000Z',
    last_activity: '2026-01-02T03:04:05.000000Z',
    expires: null,
    labels: {},
    ...more
  };
  return read as schema.ListedSession;
}
