import assert from 'node:assert/strict';
import { E2BSandbox } from '@mastra/e2b';

await assert.rejects(() => new E2BSandbox()._start(), /POST \/v3\/templates: this gateway does not offer this/);
await assert.rejects(() => new E2BSandbox({ template: 'base' })._start(), /autoPause: this gateway does not offer this/);
