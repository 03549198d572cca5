// Waiting for conditions. Nothing in these tests waits for a fixed time.

/** How long any one condition may take on a loaded machine, in milliseconds. */
export const PATIENCE = 60_000;

/**
 * Calls `condition` until it returns something truthy, and returns that.
 * @param {string} what names the condition in the error.
 * @param {() => unknown} condition may be asynchronous; an exception counts as "not yet".
 */
export async function until(what, condition, patience = PATIENCE) {
  const deadline = Date.now() + patience;
  let last;
  for (;;) {
    try {
      last = await condition();
      if (last) return last;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`gave up waiting until ${what}; last seen: ${describe(last)}`);
    }
    await new Promise(resolve => setTimeout(resolve, 25));
  }
}

/** Rejects when `promise` is not settled in time. */
export async function within(what, promise, patience = PATIENCE) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`gave up waiting for ${what}`)), patience);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

function describe(value) {
  if (value instanceof Error) return value.message;
  return JSON.stringify(value) ?? String(value);
}
