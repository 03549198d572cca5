// Outputs in their places: as high as what they show, and never a blank card without a word.

import assert from 'node:assert/strict';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const suite = viewerSuite();

const show = bundle => `from IPython.display import display\ndisplay(${JSON.stringify(bundle)}, raw=True)`;

suite.test('a frame is as high as its content, also after a script has replaced the body, or all that was in it', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'heights');
  const later = code => show({ 'text/html': `<p>short</p><script>setTimeout(() => { ${code} }, 100)</script>` });
  await session.run(later('document.body.innerText = "replaced " + "word ".repeat(600)'));
  await session.run(later('document.documentElement.innerHTML = "<body><p>replaced " + "word ".repeat(600)'));
  await session.run(later('document.body.innerHTML = "<div style=\'position:absolute;top:300px\'>replaced</div>"'));
  await session.run(show({ 'text/html': '<p>replaced</p><section style="height: 400px"></section><script>setTimeout(() => document.querySelector("section").remove(), 100)</script>' }));
  await viewer.go('s/heights');
  await viewer.ended(4);
  for (const [count, least, most] of [[4, 24, 90], [3, 310, 360], [2, 200, 560], [1, 200, 560]]) {
    await viewer.page.keyboard.press('k');
    const frame = viewer.cell(count).frameLocator('iframe');
    await frame.getByText('replaced').first().waitFor();
    const element = viewer.cell(count).locator('iframe');
    const size = async () => [await element.evaluate(iframe => iframe.clientHeight), await frame.locator('html').evaluate(html => html.scrollHeight)];
    await until(`frame ${count} is as high as what it shows`, async () => {
      const [given, needed] = await size();
      return given >= needed && given >= least && given <= most;
    });
  }
});

suite.test('a picture that shows nothing says so', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'blank');
  const svg = inner => show({ 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200">${inner}</svg>` });
  await session.run(svg(''));
  await session.run(svg('<script>document.documentElement.innerHTML = "<text y=\'20\'>drawn</text>"</script>'));
  await session.run(show({ 'image/svg+xml': '<svg this is none' }));
  await session.run(show({ 'image/png': 'AAAA' }));
  await session.run(svg('<path d="M1 1 L299 199" stroke="#888"/>'));
  await viewer.go('s/blank');
  await viewer.ended(5);
  await viewer.cell(5).locator('img.picture').waitFor();
  for (const count of [1, 2, 3]) await viewer.cell(count).getByText('This SVG shows nothing').waitFor();
  await viewer.cell(4).getByText('cannot be drawn').waitFor();
  assert.equal(await viewer.page.locator('img.picture').count(), 1);
});

suite.test('a long line of code has a mark where it continues, until its end is in view', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'wide');
  await session.run('short = 1');
  await session.run(`wide = "${'word '.repeat(100)}"`);
  await viewer.go('s/wide');
  const mark = count => viewer.cell(count).locator('.code .has-more');
  await mark(2).waitFor();
  assert.equal(await mark(1).count(), 0);
  assert.notEqual(await mark(2).evaluate(place => getComputedStyle(place, '::after').content), 'none');
  await viewer.cell(2).locator('.code pre').evaluate(pre => { pre.scrollLeft = pre.scrollWidth; });
  await mark(2).waitFor({ state: 'detached' });
});
