// One notebook open in JupyterLab, used as a person uses it: menus, toolbar buttons, keys, clicks.

import { until } from './until.js';

/** What stands before a cell that has not run, runs, or has run. */
export const PROMPT = { never: '[ ]:', running: '[*]:' };

/** A JupyterLab page that shows one notebook. */
export class NotebookPage {
  /** @param {import('playwright-core').Page} page */
  constructor(page) {
    this.page = page;
    this.panel = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden)');
    this.cells = this.panel.locator('.jp-Notebook-cell');
  }

  /** Opens the notebook and waits until its cells are shown and its kernel is idle. */
  async open(lab, name, cells) {
    await this.page.goto(lab.address(name));
    await until(`${name} shows ${cells} cells`, async () =>
      (await this.panel.locator('.jp-Spinner').count()) === 0 && (await this.cells.count()) === cells);
    await this.status('Idle');
  }

  /** Waits until the status bar shows this kernel status. */
  async status(status) {
    await this.page.locator('#jp-main-statusbar', { hasText: `| ${status}` }).waitFor();
  }

  /** Chooses an entry of the menu bar by its command. */
  async menu(name, command) {
    await this.page.locator('.lm-MenuBar-item', { hasText: new RegExp(`^${name}$`) }).click();
    await this.page.locator(`.lm-Menu-item[data-command="${command}"]`).click();
  }

  /** Presses a button of the notebook's toolbar. */
  async toolbar(name) {
    await this.panel.locator(`.jp-NotebookPanel-toolbar [data-jp-item-name="${name}"] jp-button`).click();
  }

  /** Says yes to the dialog that is open. */
  async accept() {
    await this.page.locator('.jp-Dialog button.jp-mod-accept').click();
  }

  /** Clicks into a cell and runs it, with the cursor left in it. */
  async runCell(index) {
    await this.cells.nth(index).locator('.cm-content').click();
    await this.page.keyboard.press('Control+Enter');
  }

  /** Waits until the cell's prompt is `text`. */
  async prompt(index, text) {
    await until(`the prompt of cell ${index} is ${text}`, async () =>
      (await this.cells.nth(index).locator('.jp-InputPrompt').innerText()) === text);
  }

  /** The output area of a cell. */
  output(index) {
    return this.cells.nth(index).locator('.jp-Cell-outputArea');
  }

  /** Waits until a cell's output contains `text`. */
  async shows(index, text) {
    await this.output(index).filter({ hasText: text }).waitFor();
  }

  /**
   * Switches the debugger on and returns the gutter of a cell: its first element is a spacer, then come the lines.
   * JupyterLab loses a click while it still asks the kernel for the debugger's state; then it is clicked again.
   */
  async debug(index) {
    const button = this.panel.locator('.jp-NotebookPanel-toolbar jp-button.jp-DebuggerBugButton');
    const gutter = this.cells.nth(index).locator('.cm-breakpoint-gutter .cm-gutterElement');
    let clicked = 0;
    await until('the cell has a breakpoint gutter', async () => {
      if ((await gutter.count()) > 1) return true;
      if ((await button.getAttribute('aria-pressed')) !== 'true' && Date.now() - clicked > 5000) {
        await button.click();
        clicked = Date.now();
      }
      return false;
    });
    return gutter;
  }

  async close() {
    await this.page.close();
  }
}
