/** What is in a directory, page by page; or a file alone. */

import { ApiError, type schema } from 'himalia';
import { gateway } from './gateway';

export interface FileList {
  entries: schema.FileEntry[];
  /** Where the next page begins; null at the end. */
  next: string | null;
  /** It is the file that was asked for. */
  isFile: boolean;
}

/** The first page of a directory, or a file. */
export async function filesAt(session: string, path: string, signal: AbortSignal): Promise<FileList> {
  try {
    return await moreFiles(session, path, null, signal);
  } catch (error) {
    if (path === '' || !(error instanceof ApiError) || error.status < 400 || error.status >= 500) throw error;
    const directory = path.split('/').slice(0, -1).join('/');
    for await (const entry of gateway.at(session).files.entries(directory, { signal })) {
      if (entry.path === path && entry.kind !== 'directory') return { entries: [entry], next: null, isFile: true };
    }
    throw error;
  }
}

/** The page of a directory at a cursor. */
export async function moreFiles(
  session: string,
  path: string,
  cursor: string | null,
  signal?: AbortSignal
): Promise<FileList> {
  const query = { cursor: cursor ?? undefined, path: path === '' ? undefined : path };
  const { entries, next } = await gateway.call('list_files', { path: { session_id: session }, query }, { signal });
  // A path of a file lists that.
  const [only] = entries;
  const isFile = entries.length === 1 && only?.path === path && only.kind !== 'directory';
  return { entries, next, isFile };
}
