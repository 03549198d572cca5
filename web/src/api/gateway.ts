/** The gateway that this page came from. Who calls is known by a cookie that scripts cannot read. */

import { signal } from '@preact/signals';
import { ApiError, ConnectionFailed, Gateway } from 'himalia';

/** The gateway does not know this browser (any more). */
export const signedOut = signal(false);

/** Below whatever base URL the page has. What fails is shown, and asked for again by a person or with the next look. */
export const gateway = new Gateway({
  url: new URL('.', document.baseURI),
  attempts: 1,
  onRefusal: error => {
    if (error.status === 401) signedOut.value = true;
  }
});

/** An error in words for people. */
export function said(error: unknown): string {
  if (error instanceof ApiError) return error.detail || error.message;
  if (error instanceof ConnectionFailed) {
    return error.timedOut ? 'The gateway gave no answer in time.' : 'The gateway cannot be reached.';
  }
  return (error as Error).message;
}

/** The id of a native execution: its session, and the number of its first record. */
export function executionId(sessionId: string, seq: number): string {
  return `exe_${sessionId.replaceAll('-', '')}_${seq}`;
}
