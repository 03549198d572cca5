/** For Node: which gateway is meant, by the environment or by the data directory of one that runs on this machine. */

import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { ConfigurationError } from './errors.js';
import { Gateway } from './gateway.js';
import type { GatewayOptions } from './transport.js';

export interface ConnectOptions extends Partial<GatewayOptions> {
  /** A file whose first line is the token. */
  tokenFile?: string | undefined;
  /** The data directory of a gateway of this machine. */
  dataDir?: string | undefined;
}

/**
 * The gateway that the options name, else HIMALIA_URL and HIMALIA_TOKEN or HIMALIA_TOKEN_FILE, else the one of this machine and user that
 * `himalia up` has started. A token that is found in a data directory is sent to the address that is found there, and to no other.
 */
export async function connect(options: ConnectOptions = {}): Promise<Gateway> {
  const { tokenFile, dataDir, ...rest } = options;
  const { env } = process;
  if (rest.token !== undefined && tokenFile !== undefined)
    throw new ConfigurationError('give `token` or `tokenFile`, not both');
  const url = rest.url ?? (env.HIMALIA_URL || undefined);
  const file = tokenFile ?? (env.HIMALIA_TOKEN ? undefined : env.HIMALIA_TOKEN_FILE || undefined);
  const token = rest.token ?? (file === undefined ? env.HIMALIA_TOKEN || undefined : await readToken(file));
  if (url !== undefined) {
    if (token === undefined) {
      throw new ConfigurationError('a token is needed: `tokenFile`, `token`, HIMALIA_TOKEN_FILE or HIMALIA_TOKEN');
    }
    return new Gateway({ ...rest, url, token });
  }
  const directory = dataDir ?? (env.HIMALIA_DATA_DIR || usualDataDir());
  let address: { url: string; token_file?: string | null };
  try {
    address = JSON.parse(await readFile(join(directory, 'gateway.json'), 'utf8'));
  } catch {
    const hint = 'give `url`, set HIMALIA_URL, or start one on this machine with `himalia up`';
    throw new ConfigurationError(`no gateway has written its address to ${directory}: ${hint}`);
  }
  if (token === undefined && !address.token_file) {
    throw new ConfigurationError(
      'the token of the gateway is in no file: `tokenFile`, HIMALIA_TOKEN_FILE or HIMALIA_TOKEN'
    );
  }
  return new Gateway({ ...rest, url: address.url, token: token ?? (await readToken(address.token_file as string)) });
}

function usualDataDir(): string {
  const base = process.env.XDG_DATA_HOME ?? '';
  return join(isAbsolute(base) ? base : join(homedir(), '.local/share'), 'himalia/data');
}

async function readToken(path: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new ConfigurationError(
      `the token file ${path} cannot be read: ${(error as { code?: string }).code ?? 'unknown'}`
    );
  }
  const token = text.split('\n', 1)[0]?.trim() ?? '';
  if (token === '') throw new ConfigurationError(`the token file ${path} is empty`);
  return token;
}
