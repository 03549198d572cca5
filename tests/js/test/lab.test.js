// JupyterLab in gateway mode, in headless Chromium, on the gateway's kernels.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, shot } from '../lib/browser.js';
import { Gateway } from '../lib/gateway.js';
import { Lab } from '../lib/lab.js';
import { NativeSession } from '../lib/native-session.js';
import { NotebookPage, PROMPT } from '../lib/notebook-page.js';

const NOTEBOOKS = {
  'plot.ipynb': [
    'import math\nxs = [i / 10 for i in range(63)]\nprint(len(xs), "points")',
    '%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot(xs, [math.sin(x) for x in xs])\nplt.title("sine");',
    'max(xs)'
  ],
  'interrupt.ipynb': ['kept = "kept"', 'import time\nprint("running", flush=True)\nwhile True:\n    time.sleep(0.01)', 'print(kept)'],
  'restart.ipynb': ['gone = 41', 'print("gone" in globals())'],
  'input.ipynb': ['name = input("Which moon? ")', 'print("hello", name)'],
  'debug.ipynb': ['def f(n):\n    m = n + 1\n    return m\nprint(f(41))']
};

let gateway;
let lab;
let browser;

before(async () => {
  gateway = await Gateway.start();
  lab = await Lab.start(gateway, NOTEBOOKS);
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await lab?.stop();
  await gateway?.stop();
});

/** A test on one notebook; when it fails there are a screenshot and the servers' last words. */
function notebookTest(title, name, body) {
  test(title, async t => {
    const notebook = new NotebookPage(await browser.page());
    try {
      await notebook.open(lab, name, NOTEBOOKS[name].length);
      await body(notebook);
    } catch (error) {
      await shot(notebook.page, `failed-${name}`);
      t.diagnostic(`page: ${notebook.page.errors.join('\n')}`);
      t.diagnostic(`JupyterLab: ${lab.output.slice(-4000)}`);
      t.diagnostic(`gateway: ${gateway.output.slice(-4000)}`);
      throw error;
    } finally {
      await notebook.close();
    }
  });
}

notebookTest('run all cells: text, a plot, a result', 'plot.ipynb', async notebook => {
  await notebook.menu('Run', 'runmenu:run-all');
  await notebook.prompt(2, '[3]:');
  await notebook.shows(0, '63 points');
  const image = notebook.output(1).locator('img');
  await image.waitFor();
  const [width, height] = await image.evaluate(async img => {
    await img.decode();
    return [img.naturalWidth, img.naturalHeight];
  });
  assert.ok(width > 200 && height > 150, `${width} x ${height}`);
  await notebook.shows(2, '6.2');
  await shot(notebook.page, 'lab-plot');
});

test('the notebook of a session of agents opens with its outputs, and continues', { skip: process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server' }, async t => {
  const session = await NativeSession.start(gateway, 'exported');
  let notebook;
  try {
    await session.run('print("made by an agent")');
    await session.run('import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()');
    await session.run('1 / 0');
    await session.run('import pandas as pd\npd.DataFrame({"moon": ["Himalia", "Elara"]})');
    await session.run('echo "in bash: $((6 * 7))"', { language: 'bash' });
    lab.write('exported.ipynb', JSON.stringify(await session.notebook()));
    notebook = new NotebookPage(await browser.page());
    await notebook.open(lab, 'exported.ipynb', 5);
    await notebook.shows(0, 'made by an agent');
    await notebook.prompt(0, '[1]:');
    const image = notebook.output(1).locator('img');
    await image.waitFor();
    assert.ok(await image.evaluate(async img => { await img.decode(); return img.naturalWidth; }) > 200);
    await notebook.shows(2, 'ZeroDivisionError');
    await notebook.output(3).locator('table', { hasText: 'Elara' }).waitFor();
    await notebook.shows(4, 'in bash: 42');
    await shot(notebook.page, 'lab-exported');
    // Its kernel is a new one of the gateway's; the cells run there as they stand.
    await notebook.runCell(4);
    await notebook.prompt(4, '[1]:');
    await notebook.shows(4, 'in bash: 42');
  } catch (error) {
    if (notebook) await shot(notebook.page, 'failed-exported');
    t.diagnostic(`JupyterLab: ${lab.output.slice(-4000)}`);
    throw error;
  } finally {
    await notebook?.close();
    await session.end();
  }
});

test('hostile outputs of a session run nothing where its notebook is opened in JupyterLab', { skip: process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server' }, async t => {
  const session = await NativeSession.start(gateway, 'hostile-export');
  let notebook;
  try {
    const attack = 'globalThis.owned = 1; top.owned = 1';
    for (const bundle of [
      { 'text/html': `<b>shown html</b><script>${attack}</script><img src=x onerror="${attack}"><iframe srcdoc="<script>${attack}</script>"></iframe>` },
      { 'application/javascript': attack, 'text/plain': 'shown script' },
      { 'image/svg+xml': `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20" onload="${attack}"><script>${attack}</script><text y="15">svg</text></svg>` },
      { 'text/markdown': `**shown markdown** <img src=x onerror="${attack}"> [x](javascript:${attack})` }
    ]) await session.run(`from IPython.display import display\ndisplay(${JSON.stringify(bundle)}, raw=True)`);
    const exported = await session.notebook();
    // Nothing in it says that a user has trusted it.
    assert.ok(!JSON.stringify(exported).includes('"trusted"'));
    assert.equal(exported.metadata.signature, undefined);
    lab.write('hostile-export.ipynb', JSON.stringify(exported));
    notebook = new NotebookPage(await browser.page());
    await notebook.open(lab, 'hostile-export.ipynb', 4);
    await notebook.output(0).getByText('shown html').waitFor();
    await notebook.output(3).getByText('shown markdown').waitFor();
    assert.equal(await notebook.page.evaluate(() => 'owned' in globalThis), false);
  } catch (error) {
    if (notebook) await shot(notebook.page, 'failed-hostile-export');
    t.diagnostic(`JupyterLab: ${lab.output.slice(-4000)}`);
    throw error;
  } finally {
    await notebook?.close();
    await session.end();
  }
});

notebookTest('interrupt a running cell with the toolbar button', 'interrupt.ipynb', async notebook => {
  await notebook.runCell(0);
  await notebook.prompt(0, '[1]:');
  await notebook.runCell(1);
  await notebook.shows(1, 'running');
  await notebook.prompt(1, PROMPT.running);
  await shot(notebook.page, 'lab-busy');
  await notebook.toolbar('interrupt');
  await notebook.shows(1, 'KeyboardInterrupt');
  await notebook.prompt(1, '[2]:');
  await notebook.runCell(2);
  await notebook.shows(2, 'kept');
  await shot(notebook.page, 'lab-interrupted');
});

notebookTest('restart the kernel: variables are gone, counting starts again', 'restart.ipynb', async notebook => {
  await notebook.menu('Run', 'runmenu:run-all');
  await notebook.prompt(1, '[2]:');
  await notebook.shows(1, 'True');
  await notebook.toolbar('restart');
  const restarted = notebook.page.waitForResponse(response => /\/kernels\/[^/]+\/restart/.test(response.url()));
  await notebook.accept();
  assert.equal((await restarted).status(), 200);
  await notebook.runCell(1);
  await notebook.shows(1, 'False');
  await notebook.prompt(1, '[1]:');
  await shot(notebook.page, 'lab-restarted');
});

notebookTest('input() is answered in the page', 'input.ipynb', async notebook => {
  await notebook.runCell(0);
  const box = notebook.output(0).locator('input.jp-Stdin-input');
  await box.waitFor();
  await shot(notebook.page, 'lab-input');
  await box.fill('Himalia');
  await box.press('Enter');
  await notebook.prompt(0, '[1]:');
  await notebook.shows(0, 'Which moon? Himalia');
  await notebook.runCell(1);
  await notebook.shows(1, 'hello Himalia');
  await shot(notebook.page, 'lab-answered');
});

notebookTest('debugger: a breakpoint stops the cell, continue ends it', 'debug.ipynb', async notebook => {
  const { page } = notebook;
  const gutter = await notebook.debug(0);
  await gutter.nth(3).click(); // the first is a spacer: line 3
  await page.locator('.jp-DebuggerBreakpoints-body', { hasText: '3' }).waitFor();
  await shot(page, 'lab-breakpoint');
  await notebook.runCell(0);
  await page.locator('.jp-DebuggerCallstack-body li', { hasText: 'f' }).first().waitFor();
  await page.locator('.jp-DebuggerVariables').getByText('42', { exact: true }).waitFor();
  await notebook.prompt(0, PROMPT.running);
  await shot(page, 'lab-stopped');
  await page.locator('jp-button[data-command="debugger:continue"]').click();
  await notebook.shows(0, '42');
  await notebook.prompt(0, '[1]:');
  await shot(page, 'lab-continued');
});
