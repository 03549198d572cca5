/** A gateway: its sessions, templates and executions. */

import type { ListedSession, NewSessionWithNoId, Operations, Prompt, Template } from './schema.js';
import { newKey, Session } from './session.js';
import {
  all,
  type CallOptions,
  type GatewayOptions,
  type Operation,
  type RequestOptions,
  Transport,
  WAIT_S
} from './transport.js';

/** Seconds for an artifact on its way. */
const DOWNLOAD_S = 600;

/** A gateway. It has no connection of its own: nothing has to be closed. */
export class Gateway {
  private readonly transport: Transport;

  constructor(options: GatewayOptions) {
    this.transport = new Transport(options);
  }

  get url(): string {
    return this.transport.url;
  }

  /** The session with this name, started now if there is none. For a session that exists, only `template` is checked. */
  async session(name: string, request: NewSessionWithNoId = {}, options: CallOptions = {}): Promise<Session> {
    const input = { path: { session_id: name }, body: request };
    const info = await this.transport.call('put_session', input, { waitS: WAIT_S, ...options });
    return new Session(this.transport, info.id, info);
  }

  /** A new session. */
  async create(
    request: Operations['create_session']['input']['body'] = {},
    options: CallOptions = {}
  ): Promise<Session> {
    const input = { body: { idempotency_key: newKey(), ...request } };
    const info = await this.transport.call('create_session', input, { waitS: WAIT_S, repeat: true, ...options });
    return new Session(this.transport, info.id, info);
  }

  /** A session that exists, by its id or name. Throws `NotFound`, or `Gone` for one that has ended and is not kept. */
  async attach(session: string, options: CallOptions = {}): Promise<Session> {
    const found = this.at(session);
    await found.refresh(options);
    return found;
  }

  /** A session by its id or name, without asking whether it exists. */
  at(session: string): Session {
    return new Session(this.transport, session);
  }

  /** The sessions that the token may see. `ended`: those that have ended and are kept. */
  sessions(
    query: Operations['list_sessions']['input']['query'] = {},
    options: CallOptions = {}
  ): Promise<ListedSession[]> {
    return all(this.transport.pages<ListedSession>('list_sessions', 'sessions', { query }, options));
  }

  /** What waits for an answer of a person in all sessions and workflows, oldest first. */
  async prompts(options: CallOptions = {}): Promise<Prompt[]> {
    const prompts = await all(this.transport.pages<Prompt>('list_open_prompts', 'prompts', {}, options));
    // Pages are fair by owner, and each is in order of time.
    return prompts.sort((one, other) => Number(one.created > other.created) - Number(one.created < other.created));
  }

  /** Answers a prompt of any session or workflow, once. Approvals need a token with the scope `admin`. */
  answerPrompt(prompt: string, value: string, options: CallOptions = {}): Promise<Prompt> {
    return this.transport.call('answer_prompt', { path: { prompt_id: prompt }, body: { value } }, options);
  }

  /** What sessions can be started from. */
  templates(options: CallOptions = {}): Promise<Template[]> {
    return all(this.transport.pages<Template>('list_templates', 'templates', {}, options));
  }

  /** The bytes of an image or another large value, named with or without `sha256:`. */
  async artifact(artifact: string, options: CallOptions = {}): Promise<Blob> {
    const path = `/v1/artifacts/${artifact.replace(/^sha256:/, '')}`;
    const response = await this.transport.request('GET', path, {
      timeoutS: DOWNLOAD_S,
      ...options,
      headers: { Accept: '*/*' }
    });
    return this.transport.whole(response, () => response.blob());
  }

  /** Any operation of the API, by its name in the description, and its JSON. */
  call<O extends Operation>(
    operation: O,
    input: Operations[O]['input'],
    options: CallOptions = {}
  ): Promise<Operations[O]['result']> {
    return this.transport.call(operation, input, options);
  }

  /** A response of the gateway at a path whose status says success. */
  request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    return this.transport.request(method, path, options);
  }

  /** The address of a path of the gateway. */
  address(path: string): string {
    return this.transport.address(path);
  }
}
