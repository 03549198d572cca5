// What jsdom lacks and the viewer takes from a browser.

class NoObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
  takeRecords(): [] {
    return [];
  }
}
/** Everything is in view. */
class InView extends NoObserver {
  constructor(private readonly seen: (entries: { isIntersecting: boolean }[]) => void) {
    super();
  }
  override observe(): void {
    this.seen([{ isIntersecting: true }]);
  }
}
Object.assign(globalThis, { ResizeObserver: NoObserver, IntersectionObserver: InView });
window.matchMedia ??= (query: string) =>
  ({ matches: false, media: query, addEventListener() {}, removeEventListener() {} }) as unknown as MediaQueryList;
HTMLElement.prototype.scrollIntoView ??= () => {};
HTMLElement.prototype.scrollTo ??= () => {};
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
  this.dispatchEvent(new Event('close'));
};

// A window of 800 pixels over parts of 100: jsdom has no layout.
for (const name of ['offsetHeight', 'clientHeight']) {
  Object.defineProperty(HTMLElement.prototype, name, {
    configurable: true,
    get(this: HTMLElement) {
      return this.classList.contains('scroller') ? 800 : 100;
    }
  });
}
for (const name of ['offsetWidth', 'clientWidth']) {
  Object.defineProperty(HTMLElement.prototype, name, { configurable: true, get: () => 1000 });
}
