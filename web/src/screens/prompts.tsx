/** What a person is asked: questions of the code, `input()`, calls of tools and steps of workflows that are to be approved. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { gateway, said } from '../api/gateway';
import { href, type Tab } from '../state/route';
import type { SessionView } from '../state/session-view';
import { escapeUnseen } from '../text/unseen';
import { useLoaded } from '../ui/hooks';

/** Arguments of more characters or lines are folded. */
const FOLD_CHARS = 800;
const FOLD_LINES = 15;

/** What the answers to an approval mean. */
const APPROVALS: Record<string, { label: string; title: string }> = {
  once: { label: 'Once', title: 'This call, with these arguments' },
  session: { label: 'This session', title: 'Each call of this tool, as long as the session lives' },
  always: { label: 'Always', title: 'Each call of this tool, in later sessions of the same caller and template too' },
  deny: { label: 'Deny', title: 'The call is not made' }
};

/** The prompts of a session that are open, oldest first. They are asked for again whenever the log has something of one. */
export function Prompts({ view, id, tab }: { view: SessionView; id: string; tab: Tab }) {
  view.revision.value;
  const isOver = view.connection.value === 'ended';
  const asking = view.log.asking?.key;
  const { value } = useLoaded(
    async signal => (isOver ? [] : gateway.at(id).prompts({ open: true, signal })),
    [id, view.log.prompts, asking, isOver]
  );
  // Below the cells is a field for what `input()` asks.
  return <List prompts={(value ?? []).filter(prompt => tab !== 'cells' || prompt.kind !== 'input')} />;
}

/** What waits in all sessions and workflows; asked for again when `turn` changes. */
export function Waiting({ turn }: { turn: number }) {
  const { value, reload } = useLoaded(signal => gateway.prompts({ signal }), [turn]);
  return <List prompts={value ?? []} isOfAll onAnswered={reload} />;
}

interface ListProps {
  prompts: schema.Prompt[];
  isOfAll?: boolean;
  onAnswered?: () => void;
}

function List({ prompts, isOfAll = false, onAnswered = () => undefined }: ListProps) {
  if (prompts.length === 0) return null;
  return (
    <section class="prompts" aria-label="Waiting for you">
      {prompts.map(prompt => (
        <PromptCard key={prompt.id} prompt={prompt} isOfAll={isOfAll} onAnswered={onAnswered} />
      ))}
    </section>
  );
}

interface CardProps {
  prompt: schema.Prompt;
  isOfAll: boolean;
  onAnswered: () => void;
}

function PromptCard({ prompt, isOfAll, onAnswered }: CardProps) {
  const [value, setValue] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const field = `answer-${prompt.id}`;

  const answer = async (given: string): Promise<void> => {
    setBusy(true);
    try {
      await gateway.answerPrompt(prompt.id, given);
      setFailure(null);
      setValue('');
      onAnswered();
    } catch (error) {
      setFailure(said(error));
      setBusy(false);
    }
  };
  return (
    <form
      class="prompt asking"
      onSubmit={event => {
        event.preventDefault();
        void answer(value);
      }}
    >
      <p class="prompt-who" role="status">
        <Who prompt={prompt} />
        {isOfAll && <Where prompt={prompt} />}
      </p>
      <p class="asking-prompt" id={`${field}-text`}>
        {prompt.text || 'The code waits for input.'}
      </p>
      {prompt.arguments !== undefined && prompt.arguments !== null && <Arguments value={prompt.arguments} />}
      {prompt.options.length > 0 ? (
        <fieldset class="prompt-options" aria-labelledby={`${field}-text`}>
          {prompt.options.map(option => {
            const known = prompt.kind === 'approval' ? APPROVALS[option] : undefined;
            return (
              <button
                key={option}
                type="button"
                class={`button ${option === 'deny' ? 'is-quiet-bad' : ''}`}
                title={known?.title}
                disabled={isBusy}
                onClick={() => void answer(option)}
              >
                {known?.label ?? option}
              </button>
            );
          })}
        </fieldset>
      ) : (
        <div class="prompt-options">
          {prompt.password ? (
            <input
              id={field}
              class="mono"
              type="password"
              aria-labelledby={`${field}-text`}
              value={value}
              autocomplete="off"
              onInput={event => setValue(event.currentTarget.value)}
            />
          ) : (
            <input
              id={field}
              class="mono"
              type="text"
              aria-labelledby={`${field}-text`}
              value={value}
              autocomplete="off"
              onInput={event => setValue(event.currentTarget.value)}
            />
          )}
          <button type="submit" class="button is-main" disabled={isBusy}>
            Answer
          </button>
        </div>
      )}
      {failure && (
        <p class="is-bad run-failure" role="alert">
          {failure}
        </p>
      )}
    </form>
  );
}

function Who({ prompt }: { prompt: schema.Prompt }) {
  if (prompt.kind === 'step') return <>A step of a workflow asks</>;
  if (!prompt.tool) return <>The code of this session asks</>;
  return (
    <>
      The code of this session wants to call <code class="mono">{prompt.tool}</code>
    </>
  );
}

/** A link to what asks. */
function Where({ prompt }: { prompt: schema.Prompt }) {
  if (prompt.workflow_run) {
    const to = href({ screen: 'run', run: prompt.workflow_run, step: prompt.step ?? null });
    return (
      <>
        {' · '}
        <a href={to}>{prompt.step}</a>
      </>
    );
  }
  if (!prompt.session) return null;
  return (
    <>
      {' · '}
      <a class="mono" href={href({ screen: 'session', session: prompt.session, tab: 'cells', item: null })}>
        {prompt.session.slice(0, 8)}
      </a>
    </>
  );
}

/** The arguments of a call in full, as text. */
function Arguments({ value }: { value: unknown }) {
  // What was too long is a text, which says that it was cut.
  const text = escapeUnseen(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
  const lines = text.split('\n').length;
  const shown = <pre class="prompt-arguments mono">{text}</pre>;
  if (text.length <= FOLD_CHARS && lines <= FOLD_LINES) return shown;
  return (
    <details>
      <summary>
        Arguments: {text.length} characters, {lines} lines
      </summary>
      {shown}
    </details>
  );
}
