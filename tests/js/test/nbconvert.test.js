// A session's notebook as nbconvert's HTML, in headless Chromium: hostile text stays text.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Browser } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { NativeSession } from '../lib/native-session.js';
import { isolated, Scratch, testPython } from '../lib/surroundings.js';

const ATTACK = 'globalThis.owned = 1';
const TAGS = `</pre></textarea></script><script>${ATTACK}</script><img src=x onerror="${ATTACK}">`;
/** Code whose source, streams, error and data are hostile, without a type that may hold markup. */
const TEXTS = [
  `# ${TAGS}\nprint(${JSON.stringify(TAGS)})\nimport sys; print(${JSON.stringify(TAGS)}, file=sys.stderr)\n${JSON.stringify(TAGS)}`,
  `raise type(${JSON.stringify(TAGS)}, (Exception,), {})(${JSON.stringify(TAGS)})`,
  ...[
    { 'application/json': { [TAGS]: TAGS }, 'text/plain': TAGS },
    { 'application/vnd.jupyter.widget-view+json': { model_id: TAGS, version_major: 2, version_minor: 0 }, 'text/plain': TAGS },
    { [`application/x-unknown`]: TAGS, 'text/plain': TAGS }
  ].map(display)
];
/** Outputs of the types that nbconvert trusts by default. */
const MARKUP = [
  { 'text/html': `<b>shown html</b>${TAGS}` },
  { 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" onload="${ATTACK}"><script>${ATTACK}</script></svg>` },
  { 'text/markdown': `**shown markdown** ${TAGS} [x](javascript:${ATTACK})` },
  { 'application/javascript': ATTACK, 'text/plain': 'shown script' },
  { 'text/latex': `$x$ ${TAGS}`, 'text/plain': 'x' }
].map(display);

let gateway;
let browser;
let scratch;

before(async () => {
  scratch = new Scratch();
  gateway = await Gateway.start();
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await gateway?.stop();
  scratch.remove();
});

const cases = [
  ['hostile text runs nothing in a notebook that nbconvert made a page of', TEXTS, []],
  ['nor does hostile markup where nbconvert sanitizes', [...TEXTS, ...MARKUP], ['--HTMLExporter.sanitize_html=True']]
];
const skip = process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server';

for (const [title, codes, flags] of cases) {
  test(title, { skip }, async () => {
    const session = await NativeSession.start(gateway, 'hostile-page');
    try {
      for (const code of codes) await session.run(code);
      const directory = scratch.directory('pages');
      writeFileSync(join(directory, 'hostile.ipynb'), JSON.stringify(await session.notebook()));
      execFileSync(testPython(), ['-m', 'nbconvert', '--to', 'html', '--log-level=ERROR', ...flags, 'hostile.ipynb'], { cwd: directory, env: isolated(scratch) });
      const page = await browser.page();
      // The page names scripts of other hosts; the test needs none of them.
      await page.route(/^https?:/, route => route.abort());
      await page.goto(pathToFileURL(join(directory, 'hostile.html')).href, { waitUntil: 'domcontentloaded' });
      // As many cells as were run, each with its output.
      assert.equal(await page.locator('.jp-CodeCell .jp-OutputArea-output').first().isVisible(), true);
      assert.equal(await page.locator('.jp-CodeCell').count(), codes.length);
      assert.equal(await page.evaluate(() => 'owned' in globalThis), false, 'a script of the notebook ran');
      await page.close();
    } finally {
      await session.end();
    }
  });
}

function display(bundle) {
  return `from IPython.display import display\nimport json\ndisplay(json.loads(${JSON.stringify(JSON.stringify(bundle))}), raw=True)`;
}
