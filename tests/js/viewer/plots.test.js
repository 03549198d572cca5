// Plots: in their cells and in the gallery, sharp, and alive without any network.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const suite = viewerSuite();

const show = bundle => `import json\nfrom IPython.display import display\ndisplay(json.loads(${JSON.stringify(JSON.stringify(bundle))}), raw=True)`;

/** As Plotly's own renderer sends a figure: the HTML beside it would load the library from elsewhere. */
const PLOTLY = {
  'application/vnd.plotly.v1+json': {
    data: [{ type: 'bar', x: ['a', 'b', 'c'], y: [3, 1, 2], hovertemplate: 'bar %{x} has %{y}<extra></extra>' }],
    layout: { title: { text: 'Bars' }, height: 360 }, config: { plotlyServerURL: 'https://plot.ly' }
  },
  'text/html': '<script src="https://cdn.plot.ly/plotly-3.0.0.min.js"></script>'
};
/** As Altair sends a chart that can be moved and zoomed. */
const VEGA = {
  'application/vnd.vegalite.v5+json': {
    $schema: 'https://vega.github.io/schema/vega-lite/v5.json', width: 360, height: 200,
    data: { values: [{ x: 1, y: 2 }, { x: 2, y: 5 }, { x: 3, y: 3 }] }, mark: { type: 'point', size: 900, filled: true, tooltip: true },
    params: [{ name: 'grid', select: 'interval', bind: 'scales' }],
    encoding: { x: { field: 'x', type: 'quantitative' }, y: { field: 'y', type: 'quantitative' } }
  },
  'text/plain': '<VegaLite 5 object>'
};

suite.test('9: a plot appears in its cell and in the gallery, a sharp one in the size that it asks for; it can be downloaded', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'figures');
  await viewer.go('s/figures');
  await session.run('%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 3, 2]);');
  const picture = viewer.cell(1).locator('img.picture');
  // Half a second is wanted after the kernel's message, which came before this; a machine that is loaded may take ten times as long.
  await picture.waitFor({ timeout: 5000 });
  await viewer.page.locator('.tabs').getByText('1', { exact: true }).first().waitFor();
  await session.run('%config InlineBackend.figure_format = "retina"\nfig = plt.figure(figsize=(4, 3))\nplt.bar([1, 2], [1, 2]);');
  const sharp = viewer.cell(2).locator('img.picture');
  await sharp.waitFor();
  const [natural, shown] = await sharp.evaluate(async img => {
    await img.decode();
    const box = getComputedStyle(img);
    return [img.naturalWidth, img.clientWidth - parseFloat(box.paddingLeft) - parseFloat(box.paddingRight)];
  });
  assert.ok(Math.abs(natural / 2 - shown) <= 13, `${natural} pixels shown as ${shown}`);

  await viewer.page.keyboard.press('2');
  await viewer.page.locator('.gallery img').nth(1).waitFor();
  assert.equal(await viewer.page.locator('.gallery li').count(), 2);
  await viewer.page.locator('.gallery a').first().click();
  await viewer.page.getByText('1 of 2').waitFor();
  await viewer.page.keyboard.press('ArrowRight');
  await viewer.page.getByText('2 of 2').waitFor();
  const download = viewer.page.waitForEvent('download');
  await viewer.page.getByRole('button', { name: 'Download PNG' }).click();
  const file = await download;
  assert.equal(file.suggestedFilename(), 'plot-2.png');
  assert.equal(readFileSync(await file.path()).subarray(1, 4).toString(), 'PNG');
  await viewer.page.getByRole('button', { name: 'Go to cell [2]' }).click();
  await viewer.page.locator('.cell.is-selected .cell-count', { hasText: '[2]' }).waitFor();
});

suite.test('10: Plotly and Vega-Lite are drawn without the network, answer the mouse and zoom', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'charts');
  await session.run(show(PLOTLY));
  await session.run(show(VEGA));
  await viewer.go('s/charts');
  const plotly = await viewer.frame('.plotly .bars .point', viewer.cell(1));
  // The page may still move under the mouse: frames above and below grow when they are drawn.
  await until('Plotly tells of a bar', async () => {
    await plotly.locator('.plotly .bars .point').first().hover({ force: true });
    return plotly.getByText('bar a has 3').isVisible();
  });
  const ticks = () => plotly.locator('.yaxislayer-above text').allInnerTexts();
  const before = await ticks();
  const plot = await plotly.locator('.nsewdrag').first().boundingBox();
  await viewer.page.mouse.move(plot.x + 30, plot.y + 30);
  await viewer.page.mouse.down();
  await viewer.page.mouse.move(plot.x + plot.width / 2, plot.y + plot.height / 2, { steps: 8 });
  await viewer.page.mouse.up();
  await until('Plotly has zoomed', async () => `${await ticks()}` !== `${before}`);

  const vega = await viewer.frame('svg.marks .mark-symbol path', viewer.cell(2));
  // Its tooltip is the title of the chart, which has none before the mouse comes, and another one for another point.
  const tooltip = () => vega.locator('[title]').evaluateAll(all => all.map(element => element.getAttribute('title')).join());
  assert.equal(await tooltip(), '');
  for (const [at, wanted] of [[0, /x.*1.*y.*2/s], [1, /x.*2.*y.*5/s]]) {
    await until(`Vega tells of point ${at}`, async () => {
      await vega.locator('.mark-symbol path').nth(at).hover({ force: true });
      return wanted.test(await tooltip());
    });
  }
  const labels = () => vega.locator('.role-axis-label').first().textContent();
  const scale = await labels();
  const chart = await vega.locator('svg.marks').boundingBox();
  await viewer.page.mouse.move(chart.x + 180, chart.y + 100);
  await until('Vega has zoomed', async () => {
    await viewer.page.mouse.wheel(0, -120);
    return (await labels()) !== scale;
  });
});

suite.test('36: a session without charts loads neither Plotly nor Vega', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'plain');
  await session.run('print(1)');
  await session.run(show({ 'text/html': '<p id="there">there</p>' }));
  await viewer.go('s/plain');
  await viewer.frame('#there', viewer.cell(2));
  const assets = viewer.paths.filter(path => !path.startsWith('/v1/'));
  assert.ok(assets.some(path => path.endsWith('/frame/frame.js')), assets.join(' '));
  assert.deepEqual(assets.filter(path => /plotly|vega|katex|math/.test(path)), []);
});

suite.test('31: a chart and a plot stand on a light plate in the dark theme', async viewer => {
  const session = await NativeSession.start(suite.gateway, 'plates');
  await session.run('%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);');
  await session.run(show(VEGA));
  await viewer.go('s/plates');
  const ground = locator => locator.evaluate(element => getComputedStyle(element).backgroundColor);
  assert.equal(await ground(viewer.cell(1).locator('img.picture')), 'rgb(255, 255, 255)');
  const frame = await viewer.frame('svg.marks', viewer.cell(2));
  assert.equal(await ground(frame.locator('html')), 'rgb(255, 255, 255)');
}, { theme: 'dark' });
