import assert from 'node:assert/strict';
import { createE2BSandbox } from '@e2b/ai-sdk-sandbox';

const session = await createE2BSandbox({ template: 'base' }).createSession();
try {
  await session.writeTextFile({ path: 'a.txt', content: 'content' });
  const { stdout, exitCode } = await session.run({ command: 'cat a.txt; exit 3' });
  assert.deepEqual([stdout, exitCode], ['content', 3]);
  assert.equal(await session.readTextFile({ path: 'a.txt' }), 'content');
  assert.equal(await session.readTextFile({ path: 'absent' }), null);
  const spawned = await session.spawn({ command: 'echo tick; sleep 30' });
  const { value } = await spawned.stdout.getReader().read();
  assert.equal(new TextDecoder().decode(value), 'tick\n');
  await spawned.kill();
  await spawned.wait();
  await assert.rejects(() => session.stop(), /pause/);
} finally {
  await session.destroy();
}
