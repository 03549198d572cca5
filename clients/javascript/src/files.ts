/** The files of a session's work directory. */

import type { FileEntry } from './schema.js';
import { all, type CallOptions, route, type Transport } from './transport.js';

/** Seconds for a file on its way. */
const TRANSFER_S = 3600;

export interface ListOptions extends CallOptions {
  /** How many directories deep; default 1. */
  depth?: number | undefined;
}

/** The files of a session. Paths are relative to its work directory; nothing outside of it is reached. */
export class Files {
  constructor(
    private readonly transport: Transport,
    private readonly session: string
  ) {}

  /** The content of a file, or its first `bytes` bytes. */
  async read(path: string, options: CallOptions & { bytes?: number | undefined } = {}): Promise<Blob> {
    const response = await this.open(path, options);
    return this.transport.whole(response, () => response.blob());
  }

  /** The content of a file as text, in UTF-8. */
  async text(path: string, options: CallOptions = {}): Promise<string> {
    return (await this.read(path, options)).text();
  }

  /** The response with a file, to read it as it arrives. */
  open(path: string, options: CallOptions & { bytes?: number | undefined } = {}): Promise<Response> {
    const range = options.bytes === undefined ? {} : { Range: `bytes=0-${options.bytes - 1}` };
    return this.transport.request('GET', this.path(path), { ...options, headers: { Accept: '*/*', ...range } });
  }

  /** Writes a file, with its missing parent directories. Readers see the old content or the new one. A stream is sent once. */
  async write(
    path: string,
    content: Blob | BufferSource | string | ReadableStream,
    options: CallOptions = {}
  ): Promise<void> {
    const headers = { 'Content-Type': 'application/octet-stream' };
    const repeat = !(content instanceof ReadableStream);
    const response = await this.transport.request('PUT', this.path(path), {
      timeoutS: TRANSFER_S,
      ...options,
      content,
      headers,
      repeat
    });
    await response.body?.cancel();
  }

  /** What is in a directory, `depth` directories deep, in the order of paths. */
  list(path = '', options: ListOptions = {}): Promise<FileEntry[]> {
    return all(this.entries(path, options));
  }

  /** The same, one after the other: pages are read as they are needed. */
  entries(path = '', options: ListOptions = {}): AsyncGenerator<FileEntry> {
    const input = {
      path: { session_id: this.session },
      query: { depth: options.depth, path: path === '' ? undefined : path }
    };
    return this.transport.pages('list_files', 'entries', input, options);
  }

  /** Removes a file, or a directory, which must be empty without `recursive`. */
  async delete(path: string, options: CallOptions & { recursive?: boolean | undefined } = {}): Promise<void> {
    const input = { path: { session_id: this.session, path }, query: { recursive: options.recursive } };
    await this.transport.call('delete_file', input, options);
  }

  /** The address of a file. */
  url(path: string): string {
    return this.transport.address(this.path(path));
  }

  private path(path: string): string {
    return route('read_file', { session_id: this.session, path })[1];
  }
}
