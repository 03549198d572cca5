import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

// Everything is addressed relative to the page, so that the gateway can serve it below any base URL.
export default defineConfig({
  base: './',
  // The client for JavaScript, from its sources.
  resolve: { alias: { himalia: fileURLToPath(new URL('../clients/javascript/src/index.ts', import.meta.url)) } },
  server: { fs: { allow: ['..'] } },
  build: {
    outDir: 'dist',
    target: 'es2022',
    // Data URLs for small files would be one more kind of source for the page's CSP.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true
  },
  test: {
    environment: 'jsdom',
    include: ['test/**/*.test.{ts,tsx}'],
    setupFiles: ['test/setup.ts'],
    testTimeout: 60_000
  }
});
