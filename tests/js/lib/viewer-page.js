// The viewer in a browser's page, used as a person uses it, with a log of every request that it makes.

import { until } from './until.js';

/** One tab with the viewer. */
export class ViewerPage {
  /** Requests that were sent to another origin than the viewer's. */
  foreign = [];
  /** Paths that were asked for, as the page saw them. */
  paths = [];

  /**
   * @param {import('./browser.js').Browser} browser
   * @param {import('./viewer-site.js').ViewerSite} site
   * @param {{theme?: 'light' | 'dark', width?: number, height?: number}} options
   */
  static async open(browser, site, { theme = 'light', width = 1280, height = 860 } = {}) {
    const viewer = new ViewerPage();
    viewer.site = site;
    viewer.page = await browser.page();
    viewer.#watch();
    await viewer.page.setViewportSize({ width, height });
    await viewer.page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' });
    return viewer;
  }

  #watch() {
    const { origin } = new URL(this.site.url);
    this.page.on('request', request => {
      const url = new URL(request.url());
      if (['data:', 'blob:', 'about:', 'chrome-extension:'].includes(url.protocol)) return;
      if (url.origin === origin) this.paths.push(url.pathname + url.search);
      else this.foreign.push(request);
    });
    this.page.on('websocket', socket => this.paths.push(socket.url()));
  }

  /** What really left for another origin: requests that the browser refused to make by policy are not among it. */
  left() {
    return this.foreign.filter(request => !/csp|BLOCKED/i.test(request.failure()?.errorText ?? '')).map(request => request.url());
  }

  /** Goes to a route such as `s/eda/plots`, and signs in where the viewer asks for it. */
  async go(route = '') {
    await this.page.goto(`${this.site.url}/#/${route}`);
    const field = this.page.locator('.sign-in input');
    await this.page.locator('main').waitFor();
    await until('the viewer shows a screen or asks for the token', async () =>
      (await field.count()) > 0 || (await this.page.locator('.loading').count()) === 0);
    if ((await field.count()) > 0) {
      await field.fill(this.site.token);
      await this.page.getByRole('button', { name: 'Sign in' }).click();
      await field.waitFor({ state: 'detached' });
    }
  }

  /** The cell with this execution count. */
  cell(count) {
    return this.page.locator('article.cell').filter({ has: this.page.locator('.cell-count', { hasText: `[${count}]` }) });
  }

  /** Waits until the cell with this count has ended so. */
  async ended(count, status = 'ok') {
    await this.page.locator(`article.cell.is-${status}`).filter({ has: this.page.locator('.cell-count', { hasText: `[${count}]` }) }).waitFor();
  }

  /** The kernel's state as the head of the session shows it. */
  async state(word) {
    await this.page.locator('.head .pill', { hasText: new RegExp(`^${word}$`) }).waitFor();
  }

  /** The text of a cell's streams as it would be copied. */
  async text(count) {
    return (await this.cell(count).locator('.stream pre').allInnerTexts()).join('');
  }

  /** Runs code from the viewer's own box. */
  async run(code) {
    const box = this.page.getByLabel('Code to run');
    await box.fill(code);
    await box.press('Control+Enter');
    // Where the code asks at once, the box has given its place to the answer's.
    await until('the code is sent', () => box.evaluateAll(boxes => boxes.every(box => box.value === '')));
  }

  /** The document inside of an output's frame, once `selector` is in it. */
  async frame(selector, place = this.page) {
    const frame = place.frameLocator('iframe').first();
    await frame.locator(selector).first().waitFor();
    return frame;
  }

  /** The screen is wider than the window: then the page itself scrolls sideways. */
  async isTooWide() {
    return this.page.evaluate(() => {
      const root = document.documentElement;
      return Math.max(root.scrollWidth, document.body.scrollWidth) > root.clientWidth;
    });
  }

  async close() {
    await this.page.close();
  }
}
