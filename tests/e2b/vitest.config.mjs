// The settings of E2B's suites in JavaScript, without browsers and other runtimes. `tests/e2b/run.py` copies them to the suites.
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitest/config'

const limit = 1000 * Number(process.env.LIMIT)
const setup = 'tests/globalFetchFallback.setup.ts'

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    exclude: ['tests/runtimes/**', 'tests/bundle/**', 'tests/**/*.browser.test.ts'],
    setupFiles: existsSync(setup) ? [setup] : [],
    testTimeout: limit,
    hookTimeout: limit,
    reporters: ['default', ['junit', { addFileAttribute: true }]],
  },
})
