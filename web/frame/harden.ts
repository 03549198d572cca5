/**
 * What is taken from the frame's document before the output's scripts run. The policy of the document's headers holds the network
 * where the browser knows all of it; this holds what a policy does not cover in other browsers, and keeps documents within this one,
 * which would have all of it anew, from running anything.
 */

/** Interfaces that reach a network and that no directive of a Content-Security-Policy governs everywhere. */
const NETWORK = /^(webkit|moz)?RTC|^WebTransport|^WebSocketStream$/;
/** Elements that hold a document of their own. */
const HOLDERS = 'iframe, frame, object, embed, fencedframe';
/** Ways to make elements past the observer below: shadow trees out of markup, and a parser that begins the document anew. */
const PARSERS = /Unsafe$|^(open|write|writeln)$/;

type Method = (...parameters: unknown[]) => unknown;

/** Hardens this window. What it needs later it keeps from now: scripts of the output may replace everything else. */
export function harden(): void {
  const global = window as unknown as Record<string, unknown>;
  for (const name of Object.getOwnPropertyNames(window)) if (NETWORK.test(name)) delete global[name];
  for (const owner of [Document, Document.prototype, HTMLDocument.prototype, Element.prototype, ShadowRoot.prototype]) {
    for (const name of Object.getOwnPropertyNames(owner)) {
      if (PARSERS.test(name)) delete (owner as unknown as Record<string, unknown>)[name];
    }
  }
  const remove = removal();
  const watch = (root: Node): void =>
    new MutationObserver(() => remove(root)).observe(root, { childList: true, subtree: true });
  watch(document);
  // A copy of a shadow tree would not be watched.
  const attach = Element.prototype.attachShadow;
  const attachShadow = function (this: Element, init: ShadowRootInit): ShadowRoot {
    const root = Reflect.apply(attach, this, [{ ...init, clonable: false }]) as ShadowRoot;
    watch(root);
    return root;
  };
  Object.defineProperty(Element.prototype, 'attachShadow', {
    value: attachShadow,
    writable: false,
    configurable: false
  });
}

/**
 * Removes what holds a document. It runs before the browser begins with that document: mutations are reported at the end of the script that
 * made them, and a document is loaded by a separate task.
 */
function removal(): (root: Node) => void {
  const apply = Reflect.apply;
  const ofDocument = Document.prototype.querySelectorAll as Method;
  const ofFragment = DocumentFragment.prototype.querySelectorAll as Method;
  const remove = Element.prototype.remove as Method;
  return root => {
    const found = apply(root === document ? ofDocument : ofFragment, root, [HOLDERS]) as ArrayLike<Element>;
    for (let at = 0; found[at]; at += 1) apply(remove, found[at], []);
  };
}

/**
 * Markup as elements that are in no document yet, without what holds documents and without links, of which a frame can follow none:
 * a browser looks names up for some of them as soon as they are in a document.
 */
export function elements(markup: string): DocumentFragment {
  const template = document.createElement('template');
  template.innerHTML = markup;
  for (const element of template.content.querySelectorAll(`${HOLDERS}, link, script[type="speculationrules" i]`))
    element.remove();
  return template.content;
}
