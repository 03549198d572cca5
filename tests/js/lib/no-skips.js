// A reporter that fails the run when a test was skipped: what a suite leaves out without a word is not tested.
// Only where the whole suite runs against another server may tests be left out.

const elsewhere = process.env.HIMALIA_TEST_GATEWAY === 'jupyter_server';

export default async function* noSkips(source) {
  for await (const { type, data } of source) {
    const left = data?.skip ?? data?.todo;
    // A user who runs some tests by name knows that the others do not run.
    if (left === 'test name does not match pattern') continue;
    if (elsewhere || !['test:pass', 'test:fail'].includes(type) || left === undefined || left === false) continue;
    // The runner's own exit code is 0 for a skip, and it exits without waiting for reporters.
    process.once('exit', () => { process.exitCode ||= 1; });
    yield `skipped, which fails this run: ${data.name}\n`;
  }
}
