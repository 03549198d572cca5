/** Files that a cell has written to be kept: a row for each, pictures with a preview. */

import { useEffect, useState } from 'preact/hooks';
import { executionId, gateway, said } from '../api/gateway';
import type { KeptFile, KeptFiles } from '../log/kept-files';
import { bytes } from '../ui/format';
import { save } from '../ui/save';

/** Types that an `<img>` draws and that run nothing. */
const PICTURES = ['image/png', 'image/jpeg', 'image/webp', 'image/gif'];
/** Bytes of a picture that is shown without being asked for. */
const PREVIEW_BYTES = 1 << 20;
/** Pictures that are shown. */
const PREVIEWS = 4;

interface ListProps {
  files: KeptFiles;
  session: string;
  /** The native execution that can be asked for them; null: the session's files have them. */
  execution: number | null;
  isOver: boolean;
  revision: number;
}

export function KeptFileRows({ files, session, execution, isOver }: ListProps) {
  if (files.shown.length === 0 && files.omitted.length === 0) return null;
  const source = execution !== null && isOver ? { session, id: executionId(session, execution) } : null;
  const previews = files.shown.filter(isSmallPicture).slice(0, PREVIEWS);
  return (
    <ul class="kept" aria-label="Kept files">
      {files.shown.map(file => (
        <KeptRow key={file.name} file={file} source={source} hasPreview={previews.includes(file)} />
      ))}
      {files.omitted.map(line => (
        <li key={line} class="note is-loss">
          not kept: {line}
        </li>
      ))}
    </ul>
  );
}

interface Source {
  session: string;
  id: string;
}

function KeptRow({ file, source, hasPreview }: { file: KeptFile; source: Source | null; hasPreview: boolean }) {
  const [failed, setFailed] = useState('');
  const run = async (): Promise<void> => {
    if (!source) return;
    setFailed('');
    try {
      save(await content(source, file), file.name.split('/').pop() ?? file.name);
    } catch (error) {
      setFailed(said(error));
    }
  };
  return (
    <li>
      {source ? (
        <button type="button" class="more mono" onClick={() => void run()}>
          {file.name}
        </button>
      ) : (
        <span class="mono">{file.name}</span>
      )}{' '}
      <span class="kept-size">{bytes(file.bytes)}</span>
      {failed && <span class="is-bad"> {failed}</span>}
      {source && hasPreview && <Preview file={file} session={source.session} id={source.id} />}
    </li>
  );
}

function Preview({ file, session, id }: { file: KeptFile } & Source) {
  const [url, setUrl] = useState<string | null>(null);
  const { name, mediaType, bytes: size } = file;
  useEffect(() => {
    let made: string | null = null;
    let isGone = false;
    const load = async (): Promise<void> => {
      const picture = await content({ session, id }, { name, mediaType, bytes: size });
      if (isGone) return;
      made = URL.createObjectURL(picture);
      setUrl(made);
    };
    // The row stays, and says why when it is asked for.
    load().catch(() => undefined);
    return () => {
      isGone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [session, id, name, mediaType, size]);
  return url && <img class="kept-preview" src={url} alt={name} decoding="async" onError={() => setUrl(null)} />;
}

function isSmallPicture(file: KeptFile): boolean {
  return PICTURES.includes(file.mediaType) && file.bytes <= PREVIEW_BYTES;
}

/** The result of the execution knows under which hash a file is kept. */
async function content({ session, id }: Source, file: KeptFile): Promise<Blob> {
  const result = await gateway.at(session).execution(id, { imageBytes: 0 });
  const found = result.artifacts?.find(one => one.name === file.name);
  if (!found) throw new Error('It is no longer kept.');
  return gateway.artifact(found.artifact);
}
