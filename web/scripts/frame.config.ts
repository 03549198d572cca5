import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

const path = (name: string): string => fileURLToPath(new URL(`../${name}`, import.meta.url));

// The scripts of the output frame. Its origin is opaque, so they are classic scripts, each in one file with a fixed name.
export default defineConfig(({ mode }) => ({
  base: './',
  publicDir: false,
  define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    outDir: path('dist/frame'),
    emptyOutDir: false,
    target: 'es2022',
    lib: { entry: path(`frame/${mode}.ts`), name: `himalia_${mode}`, formats: ['iife'], fileName: () => `${mode}.js` },
    chunkSizeWarningLimit: 2000
  }
}));
