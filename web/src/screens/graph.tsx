/** The steps of a run as a picture: columns from left to right, a line from each step to those that need it. */

import type { schema } from 'himalia';
import { href } from '../state/route';
import { toneOf } from '../ui/parts';
import { layers, type Placed } from './layers';

const WIDTH = 180;
const HEIGHT = 52;
const GAP_X = 56;
const GAP_Y = 18;
const PAD = 8;
const LABEL_CHARS = 22;

export function Graph({ run, chosen }: { run: schema.Run; chosen: string | null }) {
  const columns = layers(run.steps);
  const rows = Math.max(1, ...columns.map(column => column.length));
  const size = {
    width: columns.length * (WIDTH + GAP_X) - GAP_X + 2 * PAD,
    height: rows * (HEIGHT + GAP_Y) - GAP_Y + 2 * PAD
  };
  const at = new Map<string, { x: number; y: number }>();
  for (const column of columns) {
    for (const placed of column) at.set(placed.id, corner(placed, column.length, rows));
  }
  const steps = run.steps.filter(step => at.has(step.id));
  return (
    <section class="graph" aria-label="Steps">
      <svg {...size} viewBox={`0 0 ${size.width} ${size.height}`}>
        <title>Steps</title>
        {steps.flatMap(step =>
          step.needs.map(need => <Line key={`${need} ${step.id}`} from={at.get(need)} to={at.get(step.id)} />)
        )}
        {steps.map(step => (
          <Step key={step.id} run={run.id} step={step} at={at.get(step.id)} isChosen={step.id === chosen} />
        ))}
      </svg>
    </section>
  );
}

/** Columns with fewer steps are in the middle. */
function corner({ column, row }: Placed, count: number, rows: number): { x: number; y: number } {
  const above = ((rows - count) * (HEIGHT + GAP_Y)) / 2;
  return { x: PAD + column * (WIDTH + GAP_X), y: PAD + above + row * (HEIGHT + GAP_Y) };
}

function Line({ from, to }: { from: { x: number; y: number } | undefined; to: { x: number; y: number } | undefined }) {
  if (!from || !to) return null;
  const [x, y] = [from.x + WIDTH, from.y + HEIGHT / 2];
  const [endX, endY] = [to.x, to.y + HEIGHT / 2];
  const bend = GAP_X / 2;
  return <path class="graph-line" d={`M${x} ${y}C${x + bend} ${y} ${endX - bend} ${endY} ${endX} ${endY}`} />;
}

function Step({
  run,
  step,
  at,
  isChosen
}: {
  run: string;
  step: schema.WorkflowRunStep;
  at: { x: number; y: number } | undefined;
  isChosen: boolean;
}) {
  const items = step.items == null ? '' : ` ${step.succeeded}/${step.items}`;
  return (
    <g transform={`translate(${at?.x ?? 0} ${at?.y ?? 0})`}>
      <a
        class={`graph-step is-${toneOf(step.status)}${isChosen ? ' is-chosen' : ''}`}
        href={href({ screen: 'run', run, step: step.id })}
        aria-current={isChosen ? 'true' : undefined}
      >
        <rect width={WIDTH} height={HEIGHT} rx="8" />
        <circle cx="18" cy="20" r="5" />
        <text class="graph-name" x="32" y="24">
          {step.id.length > LABEL_CHARS ? `${step.id.slice(0, LABEL_CHARS - 1)}…` : step.id}
        </text>{' '}
        <text class="graph-status" x="32" y="42">
          {step.status}
          {items}
        </text>
      </a>
    </g>
  );
}
