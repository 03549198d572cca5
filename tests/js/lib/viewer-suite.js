// Tests of the viewer in one file: a gateway, the viewer before it, and a browser without any network but this machine.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Browser, shot } from './browser.js';
import { Gateway } from './gateway.js';
import { ViewerPage } from './viewer-page.js';
import { ViewerSite } from './viewer-site.js';

/** No name is found but that of the machine itself: the network is cut. */
const OFFLINE = ['--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'];

/**
 * Starts everything before the tests of this file and stops it after them.
 * @param {(gateway: Gateway) => Promise<unknown>} prepare what the tests find in the gateway.
 * @param {() => {flags: string[], localState?: object}} browser what the browser is started with.
 */
export function viewerSuite(prepare = async () => {}, browser = () => ({ flags: OFFLINE })) {
  const suite = {};
  before(async () => {
    suite.gateway = await Gateway.start();
    suite.site = await ViewerSite.start(suite.gateway);
    const { flags, localState } = browser();
    suite.browser = await Browser.start(flags, localState);
    // All tabs of the browser share the cookie: the tests themselves begin signed in.
    const viewer = await ViewerPage.open(suite.browser, suite.site);
    await viewer.go();
    await viewer.close();
    await prepare(suite.gateway);
  });
  after(async () => {
    await suite.browser?.stop();
    await suite.site?.stop();
    await suite.gateway?.stop();
  });

  /**
   * A test on one tab. Afterwards no request has left the viewer's origin (point 35), and unless `isNoisy`, the console has no error:
   * neither of a script nor of a policy.
   * @param {{theme?: string, width?: number, height?: number, isNoisy?: boolean}} options
   */
  suite.test = (title, body, options = {}) => test(title, async t => {
    const viewer = await ViewerPage.open(suite.browser, suite.site, options);
    try {
      await body(viewer, suite.gateway, t);
      assert.deepEqual(viewer.left(), [], 'requests to other origins');
      if (!options.isNoisy) assert.deepEqual(viewer.page.errors, [], 'errors in the console');
    } catch (error) {
      await shot(viewer.page, `failed-${title.replace(/\W+/g, '-').slice(0, 60)}`).catch(() => {});
      t.diagnostic(`page: ${viewer.page.errors.join('\n')}`);
      t.diagnostic(`gateway: ${suite.gateway.output.slice(-2000)}`);
      throw error;
    } finally {
      await viewer.close();
    }
  });
  return suite;
}
