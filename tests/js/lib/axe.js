// axe-core on what a page shows.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const SOURCE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/**
 * Violations as lines of text. Frames are left out: what kernels draw is not the viewer's.
 * @param {import('playwright-core').Page} page
 * @param {string} within a selector: only what is in it.
 */
export async function violations(page, within = 'html') {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(SOURCE);
  const found = await page.evaluate(async within => {
    const { violations } = await globalThis.axe.run({ include: [within] }, { iframes: false, resultTypes: ['violations'] });
    return violations.flatMap(({ id, nodes }) => nodes.map(node => [id, node.html, node.failureSummary]));
  }, within);
  return found.map(([id, html, summary]) => `${id}: ${html.slice(0, 200)}\n  ${summary.replaceAll('\n', '\n  ')}`);
}
