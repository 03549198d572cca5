// Headless Chromium with a fresh profile, and screenshots of what it shows.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { isolated, Scratch } from './surroundings.js';
import { PATIENCE } from './until.js';

const SHOTS = fileURLToPath(new URL('../../out/', import.meta.url));
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync', '--disable-default-apps', '--disable-extensions'];

/** A running browser. `CHROMIUM` names another executable than Debian's. */
export class Browser {
  #context;
  #scratch;

  /**
   * @param {string[]} flags more of Chromium's own.
   * @param {object} localState settings of the browser itself.
   */
  static async start(flags = [], localState = {}) {
    const browser = new Browser();
    browser.#scratch = new Scratch();
    try {
      const profile = browser.#scratch.directory('profile');
      writeFileSync(join(profile, 'Local State'), JSON.stringify(localState));
      browser.#context = await chromium.launchPersistentContext(profile, {
        executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
        headless: true,
        args: [...FLAGS, ...flags],
        env: isolated(browser.#scratch),
        viewport: { width: 1400, height: 900 },
        timeout: PATIENCE
      });
    } catch (error) {
      browser.#scratch.remove();
      throw error;
    }
    browser.#context.setDefaultTimeout(PATIENCE);
    return browser;
  }

  /** A new page; `page.errors` collects what its console and its scripts report as errors. */
  async page() {
    const page = await this.#context.newPage();
    page.errors = [];
    page.on('pageerror', error => page.errors.push(String(error)));
    page.on('console', message => message.type() === 'error' && page.errors.push(message.text()));
    return page;
  }

  async stop() {
    await this.#context?.close();
    this.#scratch.remove();
  }
}

/** Saves what the page shows as `tests/out/<name>.png`. */
export async function shot(page, name) {
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: `${SHOTS}${name}.png` });
}
