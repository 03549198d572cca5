/** Addresses of the gateway, below whatever base URL the page came from. */

export function url(path: string): string {
  return new URL(path, document.baseURI).href;
}

/** One segment of a path. */
export function segment(text: string): string {
  return encodeURIComponent(text);
}
