/** Code to run, and the answer to what running code asks. */

import { newKey, type schema } from 'himalia';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { executionId, gateway, said } from '../api/gateway';
import type { Cell } from '../log/cell';
import { VIEWER_KEY } from '../log/session-log';
import type { SessionView } from '../state/session-view';
import { onKeys } from '../ui/keys';

export function RunBox({ view, session }: { view: SessionView; session: schema.Session | null }) {
  view.revision.value;
  const [code, setCode] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const past = useRef<{ list: string[]; at: number }>({ list: [], at: 0 });
  const asking = view.log.asking;
  const isOver = view.connection.value === 'ended';

  useLayoutEffect(() => onKeys({ r: () => field.current?.focus() }), []);

  const run = async (): Promise<void> => {
    if (code.trim() === '' || isBusy || isOver) return;
    setBusy(true);
    try {
      // The key makes a repeated request harmless, and shows in the log where the code came from.
      await gateway.at(view.session).start(code, { allow_stdin: true, idempotency_key: VIEWER_KEY + newKey() });
      past.current.list.push(code);
      past.current.at = past.current.list.length;
      setCode('');
      setFailure(null);
      view.following.value = true;
    } catch (error) {
      setFailure(said(error));
    }
    setBusy(false);
  };

  const recall = (by: number): void => {
    const { list, at } = past.current;
    past.current.at = Math.min(list.length, Math.max(0, at + by));
    setCode(list[past.current.at] ?? '');
  };

  if (asking) return <Answer key={asking.key} cell={asking} session={session} />;
  return (
    <form
      class="run-box"
      onSubmit={event => {
        event.preventDefault();
        void run();
      }}
    >
      <textarea
        ref={field}
        class="mono"
        aria-label="Code to run"
        placeholder={isOver ? 'The session has ended' : 'Run code in this session'}
        rows={Math.min(12, code.split('\n').length)}
        value={code}
        disabled={isOver}
        spellcheck={false}
        autocapitalize="off"
        onInput={event => setCode(event.currentTarget.value)}
        onKeyDown={event => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey || event.shiftKey)) {
            event.preventDefault();
            void run();
          } else if (event.key === 'Escape') event.currentTarget.blur();
          else if (event.key === 'ArrowUp' && event.ctrlKey) recall(-1);
          else if (event.key === 'ArrowDown' && event.ctrlKey) recall(1);
        }}
      />
      <button type="submit" class="button is-main" disabled={isBusy || isOver || code.trim() === ''} title="Ctrl Enter">
        {isBusy ? 'Sending…' : 'Run'}
      </button>
      {failure && (
        <p class="is-bad run-failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}

function Answer({ cell, session }: { cell: Cell; session: schema.Session | null }) {
  const [value, setValue] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const question = cell.question;
  if (!question) return null;
  if (cell.execution === null) {
    return (
      <p class="run-box asking" role="status">
        A notebook's cell waits for input{question.prompt && <>: “{question.prompt.trim()}”</>}. It is answered in the
        notebook.
      </p>
    );
  }
  const send = async (): Promise<void> => {
    if (!session || cell.execution === null) return;
    setBusy(true);
    try {
      await gateway.at(session.id).answer(executionId(session.id, cell.execution), value);
      setValue('');
      setFailure(null);
    } catch (error) {
      setFailure(said(error));
    }
    setBusy(false);
  };
  return (
    <form
      class="run-box asking"
      onSubmit={event => {
        event.preventDefault();
        void send();
      }}
    >
      <label for="answer">
        <span class="asking-prompt">
          {question.prompt || 'The code waits for input.'} <em>cell {cell.count ?? ''}</em>
        </span>
        {question.password ? (
          <input
            id="answer"
            class="mono"
            type="password"
            value={value}
            autocomplete="off"
            onInput={event => setValue(event.currentTarget.value)}
          />
        ) : (
          <input
            id="answer"
            class="mono"
            type="text"
            value={value}
            autocomplete="off"
            onInput={event => setValue(event.currentTarget.value)}
          />
        )}
      </label>
      <button type="submit" class="button is-main" disabled={isBusy}>
        Answer
      </button>
      {failure && (
        <p class="is-bad run-failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}
