/**
 * What can go wrong: one class for each kind of problem.
 *
 * A request that the gateway refused is an `ApiError` with the stable `code` of the problem. Code that raises an exception in a session is
 * not an error of the API: it is an execution whose status is `error`, and `check` turns that into a `CodeError`.
 */

import type { ExecutionResult, Problem } from './schema.js';

/** The base of all errors of this package. */
export class HimaliaError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** It is not known which gateway is meant, or its token is missing. */
export class ConfigurationError extends HimaliaError {}

/** The gateway cannot be reached, gave no answer in time, or the connection broke off and the request may not be repeated. */
export class ConnectionFailed extends HimaliaError {
  constructor(
    message: string,
    /** There was no answer in time. */
    readonly timedOut = false
  ) {
    super(message);
  }
}

/** A stream of events ended before its execution did. */
export class StreamEnded extends HimaliaError {
  constructor(
    readonly executionId: string,
    /** The reason of the gateway, such as `kernel_gone`. */
    readonly reason: string
  ) {
    super(`the events of ${executionId} ended: ${reason}`);
  }
}

/** A request that the gateway refused. */
export class ApiError extends HimaliaError {
  /** A stable word. */
  readonly code: string;
  /** One line for people. */
  readonly detail: string;
  /** The name of an invalid member or parameter. */
  readonly field: string | null;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** Seconds after which to try again. */
  readonly retryAfterS: number | null;
  /** The HTTP status with which the server of a tool refused a call. */
  readonly serverStatus: number | null;
  /** In the log of the gateway. */
  readonly requestId: string | null;

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The problem document (RFC 9457); empty if the answer was none. */
    readonly problem: Partial<Problem>
  ) {
    const code = problem.code ?? `http_${status}`;
    const detail = problem.detail ?? problem.title ?? '';
    super(detail === '' ? code : `${code}: ${detail}`);
    this.code = code;
    this.detail = detail;
    this.field = problem.field ?? null;
    this.retryable = problem.retryable === true;
    this.retryAfterS = problem.retry_after_s ?? null;
    this.serverStatus = problem.server_status ?? null;
    this.requestId = problem.request_id ?? null;
  }
}

/** 400, 413, 415, 416 or 422: the request is invalid, or asks for more than is allowed. `field` may name what. */
export class BadRequest extends ApiError {}
/** 422 `limit_exceeded`: more than the template allows. */
export class LimitExceeded extends BadRequest {}
/** 401: the token is missing, wrong, expired or revoked. */
export class AuthenticationError extends ApiError {}
/** 403: the token does not allow this. */
export class PermissionDenied extends ApiError {}
/** 404: `code` says what does not exist. */
export class NotFound extends ApiError {}
/** 409: the state of the session, kernel or file does not allow this. */
export class Conflict extends ApiError {}
/** 410: the session has ended, or what is asked for was removed. */
export class Gone extends ApiError {}
/** 429: a rate, a queue or a quota. */
export class TooMany extends ApiError {}
/** 501: the kernel or the sandbox cannot do this. */
export class Unsupported extends ApiError {}
/** Another 5xx: the gateway cannot do this now. */
export class Unavailable extends ApiError {}

/** Code in a session failed, timed out, was interrupted, or lost its kernel process. */
export class CodeError extends HimaliaError {
  /** The name of the exception, else the status. */
  readonly exception: string;
  readonly value: string;
  readonly traceback: string[];

  constructor(readonly execution: ExecutionResult) {
    const { error, status } = execution;
    super(error?.value ? `${error.name}: ${error.value}` : (error?.name ?? status));
    this.exception = error?.name ?? status;
    this.value = error?.value ?? '';
    this.traceback = error?.traceback ?? [];
  }
}

const BY_STATUS: { readonly [status: number]: typeof ApiError } = {
  400: BadRequest,
  401: AuthenticationError,
  403: PermissionDenied,
  404: NotFound,
  409: Conflict,
  410: Gone,
  413: BadRequest,
  415: BadRequest,
  416: BadRequest,
  422: BadRequest,
  429: TooMany,
  501: Unsupported
};

/** The error for a problem document. */
export function ofProblem(status: number, problem: Partial<Problem>): ApiError {
  if (problem.code === 'limit_exceeded') return new LimitExceeded(status, problem);
  const Kind = BY_STATUS[status] ?? (status >= 500 ? Unavailable : ApiError);
  return new Kind(status, problem);
}
