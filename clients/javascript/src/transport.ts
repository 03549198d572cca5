/** Requests to a gateway: authentication, repetition, and errors as exceptions. */

import { type ApiError, ConfigurationError, ConnectionFailed, ofProblem } from './errors.js';
import type { Problem } from './schema.js';
import { type Operations, ROUTES } from './schema.js';
import { Deadline, pause } from './waiting.js';

/** Seconds that a response takes at most, beyond the time that the request asks the gateway to wait. */
const PATIENCE_S = 60;
/** The longest pause between two attempts, in seconds. */
export const LONGEST_PAUSE_S = 5;
/** What one request waits for the gateway to start or execute something, in seconds: its maximum for executions is 600. */
export const WAIT_S = 60;
/** Characters that are read of the body of a refusal. */
const MAX_PROBLEM_CHARS = 1 << 20;

export type Operation = keyof Operations;
type Query = { readonly [name: string]: unknown };

/** How a gateway is reached. */
export interface GatewayOptions {
  /** The URL of the gateway, with its base path. */
  url: string | URL;
  /** The access token. A page of the gateway itself needs none: its cookie is sent. */
  token?: string | undefined;
  /** The name that this client gives itself: executions show it, and clients with different names take turns. */
  caller?: string | undefined;
  /** `same-origin` by default. */
  credentials?: RequestCredentials | undefined;
  /** Attempts of one request that may be repeated; default 5. */
  attempts?: number | undefined;
  /** Called for each refused request, before its error is thrown. */
  onRefusal?: ((error: ApiError) => void) | undefined;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Seconds that the request asks the gateway to wait. */
  waitS?: number | undefined;
  /** Seconds until the answer has to be there; in place of the usual time. */
  timeoutS?: number | undefined;
}

export interface RequestOptions extends CallOptions {
  query?: Query | undefined;
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, in place of `body`. */
  content?: BodyInit | undefined;
  headers?: { readonly [name: string]: string } | undefined;
  /**
   * Whether it may be sent again when it is not known what became of it; without it, if it is a GET, PUT or DELETE. What the gateway
   * refuses as retryable is always sent again.
   */
  repeat?: boolean | undefined;
}

export class Transport {
  readonly url: string;
  readonly #token: string | undefined;
  readonly #options: GatewayOptions;

  constructor(options: GatewayOptions) {
    const url = new URL(options.url);
    if (url.username !== '' || url.password !== '' || url.search !== '') {
      throw new ConfigurationError('a URL contains no credentials: give the token as `token`');
    }
    url.hash = '';
    this.url = url.href.replace(/\/*$/, '');
    this.#token = options.token;
    const { token: _, ...rest } = options;
    this.#options = rest;
  }

  /** An address of the gateway. */
  address(path: string, query: Query = {}): string {
    const search = searchOf(query);
    return this.url + path + (search === '' ? '' : `?${search}`);
  }

  /** An operation of the API, and its JSON. */
  async call<O extends Operation>(
    operation: O,
    input: Operations[O]['input'],
    options: Omit<RequestOptions, 'query' | 'body'> = {}
  ): Promise<Operations[O]['result']> {
    const { path, query, body } = input as { path?: Query; query?: Query; body?: unknown };
    const [method, address] = route(operation, path ?? {});
    const response = await this.request(method, address, { ...options, query, body });
    const text = await this.whole(response, () => response.text());
    return (text === '' ? undefined : JSON.parse(text)) as Operations[O]['result'];
  }

  /** A response whose status says success. */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const again = options.repeat ?? ['GET', 'PUT', 'DELETE'].includes(method);
    const attempts = this.#options.attempts ?? 5;
    for (let attempt = 0; ; attempt++) {
      const found = await this.attempt(method, path, options);
      if (!(found instanceof Error)) return found;
      const wait = found instanceof ConnectionFailed ? (again ? usualPause(attempt) : null) : pauseOf(found, attempt);
      if (wait === null || attempt + 1 >= attempts) throw found;
      await pause(wait * 1000, options.signal);
    }
  }

  /** One attempt: the response, or why there is none. Throws the reason of the caller's signal. */
  async attempt(
    method: string,
    path: string,
    options: RequestOptions
  ): Promise<Response | ApiError | ConnectionFailed> {
    const body = options.content ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
    const deadline = new Deadline((options.timeoutS ?? PATIENCE_S + (options.waitS ?? 0)) * 1000, options.signal);
    try {
      const response = await (this.#options.fetch ?? globalThis.fetch)(this.address(path, options.query), {
        method,
        headers: this.headers(options),
        credentials: this.#options.credentials ?? 'same-origin',
        cache: 'no-store',
        // Streams have no end in time: only their head has to arrive. Their reader watches them.
        signal: deadline.signal,
        ...(body === undefined ? {} : { body, ...(body instanceof ReadableStream ? { duplex: 'half' } : {}) })
      });
      if (response.ok) {
        // The caller's signal still ends the body; the time does not.
        deadline.extend(Number.POSITIVE_INFINITY);
        return response;
      }
      const refusal = ofProblem(response.status, await problemOf(response));
      deadline.done();
      this.#options.onRefusal?.(refusal);
      return refusal;
    } catch (error) {
      deadline.done();
      if (options.signal?.aborted) throw options.signal.reason;
      const why = deadline.expired ? 'no answer in time' : reasonOf(error);
      return new ConnectionFailed(`${method} ${path} at ${this.url}: ${why}`, deadline.expired);
    }
  }

  /** What is read of a response, with the errors of this package. */
  async whole<T>(response: Response, read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error;
      throw new ConnectionFailed(
        `the response of ${new URL(response.url || this.url).pathname} broke off: ${reasonOf(error)}`
      );
    }
  }

  /** The elements of a list, page by page. */
  async *pages<T>(
    operation: Operation,
    member: string,
    input: { path?: Query; query?: Query },
    options: CallOptions = {}
  ): AsyncGenerator<T> {
    for (let cursor: string | undefined; ; ) {
      const query = { ...input.query, ...(cursor === undefined ? {} : { cursor }) };
      const page = (await this.call(
        operation,
        { ...input, query } as Operations[typeof operation]['input'],
        options
      )) as {
        [name: string]: unknown;
      };
      yield* page[member] as T[];
      if (typeof page.next !== 'string') return;
      cursor = page.next;
    }
  }

  private headers(options: RequestOptions): { [name: string]: string } {
    return {
      Accept: 'application/json',
      ...(this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` }),
      ...(this.#options.caller === undefined ? {} : { 'X-Himalia-Caller': this.#options.caller }),
      ...(options.body === undefined || options.content !== undefined ? {} : { 'Content-Type': 'application/json' }),
      ...options.headers
    };
  }
}

/** The method and the path of an operation. */
export function route(operation: Operation, path: Query): [string, string] {
  const [method, template] = ROUTES[operation].split(' ') as [string, string];
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(path[name] ?? '');
    // The path of a file has its slashes.
    return name === 'path' ? value.split('/').map(encodeURIComponent).join('/') : encodeURIComponent(value);
  });
  return [method, filled];
}

/** All elements of a list. */
export async function all<T>(list: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const element of list) found.push(element);
  return found;
}

export const usualPause = (attempt: number): number => Math.min(0.1 * 2 ** attempt, LONGEST_PAUSE_S);

/** The pause before a refused request is sent again; null if that is of no use, or not soon. */
function pauseOf(refusal: ApiError, attempt: number): number | null {
  const after = refusal.retryAfterS ?? 0;
  return !refusal.retryable || after > LONGEST_PAUSE_S ? null : Math.max(usualPause(attempt), after);
}

function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) search.append(name, String(one));
    }
  }
  return search.toString();
}

/** In the words of the network layer, which has no headers in them. */
function reasonOf(error: unknown): string {
  const cause = (error as { cause?: { code?: unknown } }).cause?.code;
  return typeof cause === 'string' ? cause : (error as Error).message;
}

async function problemOf(response: Response): Promise<Partial<Problem>> {
  try {
    const text = await response.text();
    const problem: unknown = text.length <= MAX_PROBLEM_CHARS ? JSON.parse(text) : null;
    return typeof problem === 'object' && problem !== null ? problem : {};
  } catch {
    // Not the gateway's own words: a proxy's.
    return {};
  }
}
