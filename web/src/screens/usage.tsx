/** What a session's sandbox uses: memory and processor time, measured now and then. */

import type { schema } from 'himalia';
import { useEffect, useState } from 'preact/hooks';
import { gateway } from '../api/gateway';
import { bytes } from '../ui/format';

const EVERY_MS = 3000;
/** At first more often, so that there is a line to see. */
const FIRST_MS = 1000;
const FIRST = 8;
/** Measurements in the strip. */
const KEPT = 40;

interface Sample {
  at: number;
  usage: schema.SandboxUsage;
}

export function UsageStrip({ id, session }: { id: string; session: schema.Session }) {
  const [samples, setSamples] = useState<Sample[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const measure = async (): Promise<void> => {
      if (document.hidden) return;
      try {
        const usage = await gateway.at(id).usage({ signal: abort.signal });
        setSamples(before => [...before, { at: performance.now(), usage }].slice(-KEPT));
      } catch {
        // The head says what is wrong with the session; here there is nothing to show.
        if (!abort.signal.aborted) setSamples([]);
      }
    };
    let timer: ReturnType<typeof setTimeout>;
    const again = (turn: number): void => {
      void measure();
      timer = setTimeout(() => again(turn + 1), turn < FIRST ? FIRST_MS : EVERY_MS);
    };
    again(1);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [id, session.incarnation]);

  const last = samples.at(-1);
  if (!last) return null;
  const limit = session.limits.memory_bytes?.value;
  const cpu = loads(samples);
  const load = cpu.at(-1);
  const memory = samples.map(sample => sample.usage.memory_bytes);
  return (
    <span class="usage">
      <span title={`resident memory of ${last.usage.processes} processes, shared pages in each of them`}>
        {bytes(last.usage.memory_bytes)}
        {limit ? ` of ${bytes(limit)}` : ''}
      </span>
      <Strip values={memory} most={limit ?? Math.max(...memory)} />
      {load !== undefined && <span title="processor time, 100% is one core">{Math.round(load * 100)}% CPU</span>}
      <Strip values={cpu} most={Math.max(1, (session.limits.cpu_millis?.value ?? 0) / 1000, ...cpu)} />
    </span>
  );
}

/** Cores that were in use between two measurements. A process that ends takes its time with it. */
function loads(samples: Sample[]): number[] {
  return samples.slice(1).map((sample, i) => {
    const before = samples[i] as Sample;
    const spent = sample.usage.cpu_ms - before.usage.cpu_ms;
    return Math.max(0, spent / Math.max(1, sample.at - before.at));
  });
}

function Strip({ values, most }: { values: number[]; most: number }) {
  if (values.length < 2) return null;
  const points = values.map(
    (value, i) => `${(KEPT - values.length + i) * 2 + 1},${(15 - 14 * Math.min(1, value / (most || 1))).toFixed(1)}`
  );
  return (
    <svg
      class="strip"
      width={KEPT * 2}
      height="16"
      viewBox={`0 0 ${KEPT * 2} 16`}
      preserveAspectRatio="none"
      aria-hidden="true"
    >
      <polyline points={points.join(' ')} fill="none" stroke="currentColor" stroke-width="1" />
    </svg>
  );
}
