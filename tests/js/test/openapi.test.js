// Types that a generator makes of docs/openapi.json are those that a client needs: readable operations, typed results and events.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const DESCRIPTION = new URL('../../../docs/openapi.json', import.meta.url);

// What a client of the generated types writes; it has to compile.
const CLIENT = `
import type { components, operations } from './types';

type Result = components['schemas']['ExecutionResult'];
type Event = components['schemas']['ExecutionEvent'];
type Reply<O extends keyof operations, S extends number> =
  operations[O] extends { responses: { [K in S]: { content: { 'application/json': infer T } } } } ? T : never;

export function images(result: Result): string[] {
  return result.outputs.flatMap(output => {
    const image = output.data['image/png'];
    return image !== null && typeof image === 'object' && 'artifact' in image ? [String(image.artifact)] : [];
  });
}

export function printed(event: Event): string {
  switch (event.event) {
    case 'stdout':
    case 'stderr':
      return event.text;
    case 'exception':
      return event.traceback.join('\\n');
    case 'done':
      return event.result.status;
    default:
      return '';
  }
}

export const next = (page: Reply<'list_sessions', 200>): string | null => page.next ?? null;
export const names = (page: Reply<'list_variables', 200>): string[] => page.variables.map(one => one.name);
export const added = (result: Reply<'execute', 200>): string[] => result.variables?.added ?? [];
export const paths = (page: Reply<'list_files', 200>): string[] => page.entries.map(entry => entry.path);
export const body: operations['execute']['requestBody']['content']['application/json'] = {
  code: '1', timeout_s: 1.5, on_timeout: 'detach', image_bytes: 0, env: { A: 'b' }, metadata: { ticket: 7 }
};
export const order: NonNullable<operations['list_executions']['parameters']['query']>['order'] = 'desc';
// @ts-expect-error an unknown member
export const wrong: typeof body = { code: '1', timeout: 1 };
`;

test('generated types are those of a client', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'himalia-types-'));
  try {
    const types = astToString(await openapiTS(DESCRIPTION));
    await writeFile(join(directory, 'types.d.ts'), types);
    const file = join(directory, 'client.ts');
    await writeFile(file, CLIENT);
    const options = { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, types: [], lib: ['lib.es2022.d.ts'] };
    const program = ts.createProgram([file], options);
    const wrong = ts.getPreEmitDiagnostics(program).map(found => ts.flattenDiagnosticMessageText(found.messageText, '\n'));
    assert.deepEqual(wrong, []);
    assert.ok(!types.includes('get_v1') && types.includes('list_executions:'), 'operations have readable names');
  } finally {
    await rm(directory, { recursive: true });
  }
});
