/** Files of a session's work directory: what is there, a look at one of them, and bringing and taking them. */

import type { schema } from 'himalia';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type FileList, filesAt, moreFiles } from '../api/files';
import { gateway } from '../api/gateway';
import { href } from '../state/route';
import { Confirm } from '../ui/dialog';
import { ago, bytes, count } from '../ui/format';
import { useLoaded } from '../ui/hooks';
import { Empty, Loading, Problem } from '../ui/parts';

/** Bytes of a text, and of a picture, that are shown. */
const TEXT_BYTES = 64 << 10;
const PICTURE_BYTES = 8 << 20;
const PICTURES: Record<string, string> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml'
};

interface FilesProps {
  session: string;
  /** The directory or the file that is looked at, relative to the work directory. */
  item: string | null;
}

export function Files({ session, item }: FilesProps) {
  const path = item ?? '';
  const { value: first, error, reload } = useLoaded(signal => filesAt(session, path, signal), [session, path]);
  // With the pages that were asked for since it was read.
  const [read, setRead] = useState<{ first: FileList; list: FileList } | null>(null);
  const value = first && (read?.first === first ? read.list : first);
  const [isReading, setReading] = useState(false);
  const [failure, setFailure] = useState<Error | null>(null);
  const [sending, setSending] = useState<string | null>(null);
  const [removing, setRemoving] = useState<schema.FileEntry | null>(null);
  const field = useRef<HTMLInputElement>(null);

  const send = async (files: File[]): Promise<void> => {
    setFailure(null);
    try {
      for (const file of files) {
        setSending(file.name);
        await gateway.at(session).files.write(join(path, file.name), file);
      }
    } catch (problem) {
      setFailure(problem as Error);
    }
    setSending(null);
    reload();
  };
  const more = async (): Promise<void> => {
    if (!first || !value) return;
    setReading(true);
    try {
      const page = await moreFiles(session, path, value.next);
      setRead({ first, list: { ...page, entries: [...value.entries, ...page.entries] } });
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    setReading(false);
  };
  const remove = async (entry: schema.FileEntry): Promise<void> => {
    try {
      await gateway.at(session).files.delete(entry.path);
      setFailure(null);
    } catch (problem) {
      setFailure(problem as Error);
    }
    reload();
  };

  // A file has a list of one: itself.
  const only = value?.isFile ? value.entries[0] : undefined;
  const file = only?.kind === 'file' ? only : null;
  return (
    <div class="scroller files">
      <div class="files-head">
        <Path session={session} path={path} />
        <span class="bar-space" />
        <button type="button" class="button" onClick={reload}>
          Refresh
        </button>
        {!file && (
          <>
            <input
              ref={field}
              type="file"
              multiple
              hidden
              aria-label="Files to upload"
              onChange={event => {
                void send([...(event.currentTarget.files ?? [])]);
                event.currentTarget.value = '';
              }}
            />
            <button type="button" class="button" disabled={sending !== null} onClick={() => field.current?.click()}>
              {sending === null ? 'Upload' : `Sending ${sending}…`}
            </button>
          </>
        )}
      </div>
      {failure && <Problem error={failure} />}
      {error && <Problem error={error} onRetry={reload} />}
      {!value && !error && <Loading />}
      {file && <Preview key={file.path} session={session} entry={file} />}
      {value && !file && value.entries.length === 0 && (
        <Empty title="No files here">
          <p>Files that the code of this session writes are listed here, and you can upload some for it.</p>
        </Empty>
      )}
      {value && !file && value.entries.length > 0 && (
        <List session={session} entries={value.entries} onRemove={setRemoving} />
      )}
      {value && value.next !== null && (
        <button type="button" class="more" disabled={isReading} onClick={() => void more()}>
          {isReading ? 'Reading…' : `Show more than these ${count(value.entries.length)}`}
        </button>
      )}
      {removing && (
        <Confirm
          title={`Delete ${name(removing)}?`}
          action="Delete"
          onConfirm={() => void remove(removing)}
          onClose={() => setRemoving(null)}
        >
          <p>The file is gone then, for the code of the session too.</p>
        </Confirm>
      )}
    </div>
  );
}

function List({
  session,
  entries,
  onRemove
}: {
  session: string;
  entries: schema.FileEntry[];
  onRemove: (entry: schema.FileEntry) => void;
}) {
  const now = Date.now();
  return (
    <div class="table-box">
      <table class="variables">
        <thead>
          <tr>
            <th>Name</th>
            <th class="is-number">Size</th>
            <th>Changed</th>
            <th>
              <span class="unseen">What can be done</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {entries.map(entry => (
            <tr key={entry.path}>
              <td>
                <a href={to(session, entry.path)}>
                  {name(entry)}
                  {entry.kind === 'directory' && '/'}
                </a>
              </td>
              <td class="is-number">{entry.kind === 'file' ? bytes(entry.bytes ?? 0) : ''}</td>
              <td>{entry.modified ? <time dateTime={entry.modified}>{ago(entry.modified, now)}</time> : ''}</td>
              <td class="is-number">
                {entry.kind === 'file' && (
                  <>
                    <a
                      class="button"
                      href={gateway.at(session).files.url(entry.path)}
                      download
                      aria-label={`Download ${name(entry)}`}
                    >
                      Download
                    </a>{' '}
                    <button
                      type="button"
                      class="button is-quiet-bad"
                      aria-label={`Delete ${name(entry)}`}
                      onClick={() => onRemove(entry)}
                    >
                      Delete
                    </button>
                  </>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The beginning of a text, or a picture in an `<img>`, which runs nothing. */
function Preview({ session, entry }: { session: string; entry: schema.FileEntry }) {
  const size = entry.bytes ?? 0;
  const kind = PICTURES[/\.(\w+)$/.exec(entry.path)?.[1]?.toLowerCase() ?? ''];
  const isPicture = kind !== undefined && size <= PICTURE_BYTES;
  const { value, error, reload } = useLoaded(
    signal =>
      size === 0
        ? Promise.resolve(new Blob())
        : gateway.at(session).files.read(entry.path, { bytes: isPicture ? size : TEXT_BYTES, signal }),
    [session, entry.path, size, entry.modified]
  );
  const [shown, setShown] = useState<{ url: string } | { text: string } | null>(null);
  useEffect(() => {
    if (!value) return;
    if (isPicture) {
      const url = URL.createObjectURL(new Blob([value], { type: kind }));
      setShown({ url });
      return () => URL.revokeObjectURL(url);
    }
    let isOver = false;
    void value.text().then(text => {
      if (!isOver) setShown({ text });
    });
    return () => {
      isOver = true;
    };
  }, [value, isPicture, kind]);
  const isBinary = shown !== null && 'text' in shown && shown.text.includes('\0');
  return (
    <section class="file">
      <p class="facts">
        <span>{bytes(size)}</span>
        <a class="button" href={gateway.at(session).files.url(entry.path)} download>
          Download
        </a>
      </p>
      {error && <Problem error={error} onRetry={reload} />}
      {!shown && !error && <Loading rows={3} />}
      {shown && 'url' in shown && <img class="picture" src={shown.url} alt={name(entry)} />}
      {isBinary && <p class="note">This file is no text. Download it to look at it.</p>}
      {shown && 'text' in shown && !isBinary && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keys
        <section class="table-box" tabIndex={0} aria-label={`Content of ${name(entry)}`}>
          <pre>
            {shown.text}
            {size > TEXT_BYTES && `\n… ${count(size - TEXT_BYTES)} more bytes`}
          </pre>
        </section>
      )}
    </section>
  );
}

/** The way to what is looked at, each part of it a link. */
function Path({ session, path }: { session: string; path: string }) {
  const parts = path.split('/').filter(part => part !== '');
  return (
    <nav class="mono" aria-label="Directory">
      <a href={to(session, null)}>files</a>
      {parts.map((part, at) => (
        <span key={part + at}>
          {' / '}
          <a href={to(session, parts.slice(0, at + 1).join('/'))}>{part}</a>
        </span>
      ))}
    </nav>
  );
}

const to = (session: string, path: string | null): string =>
  href({ screen: 'session', session, tab: 'files', item: path });
const join = (directory: string, file: string): string => (directory === '' ? file : `${directory}/${file}`);
const name = (entry: schema.FileEntry): string => entry.path.split('/').at(-1) ?? entry.path;
