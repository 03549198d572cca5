/** A client of Himalia, a gateway of live Jupyter kernels. */

export * from './errors.js';
export { Files, type ListOptions } from './files.js';
export { Gateway } from './gateway.js';
export type * as schema from './schema.js';
export { isEnded, newKey, resultText, Session, type Submission, type WaitOptions } from './session.js';
export { EventParser, type ServerEvent } from './sse.js';
export type { Connection, FollowOptions } from './stream.js';
export type { CallOptions, GatewayOptions, Operation, RequestOptions } from './transport.js';
