/** What the native API answers with, as far as the viewer reads it (docs/api.md, docs/kernel.md). */

export interface Problem {
  detail: string;
  code: string;
  retryable: boolean;
  /** Of an unused name: the id of the last session that had it, if its log is kept. */
  session?: string;
}

export interface Limit {
  value: number | null;
  enforcement: string;
}

export interface Session {
  id: string;
  name: string | null;
  owner: string;
  kernelspec: string;
  template: string;
  state: string;
  incarnation: number;
  reason: string | null;
  origin: string;
  isolation: string;
  limits: Record<string, Limit>;
  started_by: string;
  start_ms: number;
  parent: string | null;
  connections: number;
  created: string;
  last_activity: string;
  expires: string | null;
  labels: Record<string, string>;
  /** Memory that its sandbox uses; in lists, null if it is not measured. */
  memory_used_bytes?: number | null;
  /** When it ended; null or absent while it lives. */
  ended?: string | null;
  /** When the log of one that ended goes at the latest. */
  kept_until?: string | null;
}

/** One of several kernels in a session's sandbox. */
export interface SessionKernel {
  id: string;
  name: string | null;
  kernelspec: string;
  state: string;
}

/** A page of what was run, in the order in which the kernel came to it. */
export interface History {
  history: { seq: number; status: string }[];
  /** Entries before the page, and in all. */
  offset: number;
  total: number;
}

/** Something in a session's work directory; `path` is relative to that. */
export interface FileEntry {
  path: string;
  kind: 'file' | 'directory' | 'symlink' | 'other';
  bytes: number | null;
  modified: string | null;
}

export interface FileList {
  entries: FileEntry[];
  truncated: boolean;
}

/** What its sandbox uses now. */
export interface Usage {
  memory_bytes: number;
  cpu_ms: number;
  processes: number;
}

export interface Variable {
  name: string;
  type: string;
  module: string | null;
  shape: number[] | null;
  dtype: string | null;
  bytes: number | null;
  length: number | null;
  preview: string | null;
}

export interface VariableList {
  variables: Variable[];
  total: number;
  truncated: boolean;
  incarnation: number;
}

export type Scalar = null | boolean | number | string;

export interface Page {
  offset?: number;
  total?: number;
  matched?: number;
  columns?: { name: string; dtype: string }[] | string[];
  columns_total?: number;
  rows?: unknown[];
  index?: unknown[] | null;
  text?: string;
  cut?: boolean;
}

export interface VariablePage {
  variable: Variable;
  kind: 'table' | 'array' | 'items' | 'text' | 'object';
  page?: Page;
  incarnation: number;
}
