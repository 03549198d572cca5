// A key and a certificate for 127.0.0.1 that no authority has signed.

import { execFileSync } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Made in `scratch`. `pin` is the digest of its public key, with which Chromium accepts it. */
export function certificate(scratch) {
  const [keyPath, certPath] = ['key.pem', 'cert.pem'].map(name => join(scratch.path, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
    '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', keyPath, '-out', certPath], { stdio: 'ignore' });
  const cert = readFileSync(certPath);
  const spki = new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' });
  return { key: readFileSync(keyPath), cert, pin: createHash('sha256').update(spki).digest('base64') };
}
