/** JSON as a tree that opens level by level. */

import type { Json } from '../log/records';

/** Members of one level that are drawn. */
const MEMBERS = 200;
const TEXT_CHARS = 2_000;

export function JsonTree({ value, name }: { value: Json; name?: string }) {
  const label = name === undefined ? null : <span class="json-name">{name}: </span>;
  if (value === null || typeof value !== 'object') {
    const shown = JSON.stringify(value);
    return (
      <div class="json-leaf">
        {label}
        <span class={`json-${value === null ? 'null' : typeof value}`}>
          {shown.length > TEXT_CHARS ? `${shown.slice(0, TEXT_CHARS)}…` : shown}
        </span>
      </div>
    );
  }
  const members: [string, Json][] = Array.isArray(value)
    ? value.slice(0, MEMBERS).map((item, at) => [String(at), item])
    : Object.entries(value).slice(0, MEMBERS);
  const total = Array.isArray(value) ? value.length : Object.keys(value).length;
  return (
    <details class="json" open={name === undefined}>
      <summary>
        {label}
        <span class="json-kind">{Array.isArray(value) ? `[${total}]` : `{${total}}`}</span>
      </summary>
      {members.map(([key, item]) => (
        <JsonTree key={key} name={key} value={item} />
      ))}
      {total > MEMBERS && <div class="json-leaf">… {total - MEMBERS} more</div>}
    </details>
  );
}
