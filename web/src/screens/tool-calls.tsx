/** The calls of tools of a cell: a row for each, which opens to its arguments and its reply. */

import type { Json } from '../log/records';
import type { ToolCall, ToolCalls } from '../log/tool-calls';
import { JsonTree } from '../output/json-tree';
import { bytes, duration } from '../ui/format';
import { Pill } from '../ui/parts';

/** Calls that are shown without being asked for. */
const OPEN_CALLS = 5;

export function CallRows({ calls }: { calls: ToolCalls; revision: number }) {
  if (calls.total === 0) return null;
  const failed = calls.failed > 0 ? `, ${calls.failed} not done` : '';
  return (
    <details class="calls" open={calls.total <= OPEN_CALLS}>
      <summary>
        {calls.total === 1 ? '1 tool call' : `${calls.total} tool calls`}
        {failed}
      </summary>
      <ol class="call-list">
        {calls.shown.map((call, at) => (
          <li key={call.key}>
            {calls.omitted > 0 && at === calls.firstHalf && <p class="cut">{calls.omitted} calls are not shown</p>}
            <CallRow call={call} />
          </li>
        ))}
      </ol>
    </details>
  );
}

function CallRow({ call }: { call: ToolCall }) {
  return (
    <details class="call">
      <summary>
        <span class="call-tool mono">{call.tool}</span>
        {call.line !== null && <span class="call-line">line {call.line}</span>}
        {call.state !== 'done' && <Pill word={call.state} />}
        <span class="bar-space" />
        {call.replyBytes > 0 && <span>{bytes(call.replyBytes)}</span>}
        {call.milliseconds !== null && <span>{duration(call.milliseconds)}</span>}
      </summary>
      <dl class="call-parts">
        {call.reason && <Part name="Why" value={call.reason} />}
        <Part name="Arguments" value={parsed(call.arguments)} />
        {call.reply && <Part name="Reply" value={parsed(call.reply)} />}
      </dl>
    </details>
  );
}

function Part({ name, value }: { name: string; value: Json }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{typeof value === 'string' ? <pre class="call-text">{value}</pre> : <JsonTree value={value} />}</dd>
    </>
  );
}

/** JSON that was cut is no JSON: it is shown as it is. */
function parsed(json: string): Json {
  try {
    return JSON.parse(json) as Json;
  } catch {
    return json;
  }
}
