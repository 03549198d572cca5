// After the builds: adds Plotly, compresses every file beside itself, and holds the size of what the first page loads.

import { copyFileSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
/** Bytes of the main bundle, scripts and styles, after gzip. */
const MAIN_MOST = 120 * 1024;
/** Kinds of files that do not get smaller, and what keeps the empty directory in the repository. */
const PACKED = /\.(png|jpg|gif|webp|woff2|gz|br|gitkeep)$/;

copyFileSync(join(root, 'node_modules/plotly.js-strict-dist-min/plotly-strict.min.js'), join(dist, 'frame/plotly.js'));

const manifest = JSON.parse(readFileSync(join(dist, '.vite/manifest.json'), 'utf8'));
const main = new Set();
const visit = name => {
  const chunk = manifest[name];
  if (!chunk || main.has(chunk.file)) return;
  main.add(chunk.file);
  for (const style of chunk.css ?? []) main.add(style);
  for (const other of chunk.imports ?? []) visit(other);
};
visit('index.html');
rmSync(join(dist, '.vite'), { recursive: true });

let bytes = 0;
for (const file of main) bytes += gzipSync(readFileSync(join(dist, file)), { level: 9 }).length;
console.log(`main bundle: ${(bytes / 1024).toFixed(1)} KB gzip in ${main.size} files (at most ${MAIN_MOST / 1024})`);

let [plain, packed] = [0, 0];
for (const file of readdirSync(dist, { recursive: true })) {
  const path = join(dist, String(file));
  if (!statSync(path).isFile() || PACKED.test(path)) continue;
  const content = readFileSync(path);
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: content.length > 1 << 20 ? 9 : 11,
    [constants.BROTLI_PARAM_SIZE_HINT]: content.length
  };
  const brotli = brotliCompressSync(content, { params });
  writeFileSync(`${path}.br`, brotli);
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
  plain += content.length;
  packed += brotli.length;
}
console.log(`all files: ${(plain / 1024).toFixed(0)} KB, ${(packed / 1024).toFixed(0)} KB as brotli`);
if (bytes > MAIN_MOST) {
  console.error('the main bundle is too large');
  process.exit(1);
}
