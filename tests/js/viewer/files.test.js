// Files of a session: listed, looked at, brought, taken and deleted.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { violations } from '../lib/axe.js';
import { shot } from '../lib/browser.js';
import { NativeSession } from '../lib/native-session.js';
import { until } from '../lib/until.js';
import { viewerSuite } from '../lib/viewer-suite.js';

const suite = viewerSuite();

for (const [theme, width] of [['light', 1280], ['dark', 360]]) {
  suite.test(`files are listed, looked at, uploaded, downloaded and deleted: ${theme}, ${width} px`, async viewer => {
    const name = `files-${width}`;
    const session = await NativeSession.start(suite.gateway, name);
    await session.write('report.txt', 'two moons\n<script>top.owned = 1</script>');
    await session.write('data/deep dir/100%.csv', 'a,b\n1,2\n');
    await session.write('hostile.svg', '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20" onload="top.owned=1"><text y="15">drawn</text></svg>');
    await session.write('binary.bin', 'a\0b');
    await viewer.go(`s/${name}`);
    await viewer.state('idle');
    await viewer.page.keyboard.press('4');
    const row = text => viewer.page.locator('.files tbody tr', { hasText: text });
    await row('report.txt').waitFor();
    assert.deepEqual(await violations(viewer.page), []);
    assert.equal(await viewer.isTooWide(), false);
    await shot(viewer.page, `viewer-files-${theme}-${width === 360 ? 'narrow' : 'wide'}`);

    await row('report.txt').getByRole('link', { name: 'report.txt', exact: true }).click();
    await viewer.page.locator('.file pre', { hasText: 'two moons' }).waitFor();
    assert.deepEqual(await violations(viewer.page), []);
    await viewer.page.goBack();
    await row('hostile.svg').getByRole('link', { name: 'hostile.svg', exact: true }).click();
    await viewer.page.locator('.file img').waitFor();
    await viewer.page.goBack();
    await row('binary.bin').getByRole('link', { name: 'binary.bin', exact: true }).click();
    await viewer.page.getByText('This file is no text').waitFor();
    await viewer.page.getByRole('link', { name: 'files', exact: true }).click();
    for (const directory of ['data', 'deep dir']) await row(directory).getByRole('link', { name: `${directory}/` }).click();
    const download = viewer.page.waitForEvent('download');
    await viewer.page.getByRole('link', { name: 'Download 100%.csv' }).click();
    assert.equal(readFileSync(await (await download).path(), 'utf8'), 'a,b\n1,2\n');

    await viewer.page.getByLabel('Files to upload').setInputFiles({ name: 'new & odd.txt', mimeType: 'text/plain', buffer: Buffer.from('brought') });
    await row('new & odd.txt').waitFor();
    const read = async path => (await suite.gateway.call('GET', `${session.path}/files/${path}`));
    assert.equal(await (await read('data/deep%20dir/new%20%26%20odd.txt')).text(), 'brought');
    await viewer.page.getByRole('button', { name: 'Delete 100%.csv' }).click();
    await viewer.page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    assert.equal((await read('data/deep%20dir/100%25.csv')).status, 200);
    await viewer.page.getByRole('button', { name: 'Delete 100%.csv' }).click();
    await viewer.page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
    await row('100%.csv').waitFor({ state: 'detached' });
    await until('the file is gone', async () => (await read('data/deep%20dir/100%25.csv')).status === 404);
    assert.equal(await viewer.page.evaluate(() => 'owned' in globalThis), false);
  }, { theme, width, height: 780, isNoisy: true });
}
