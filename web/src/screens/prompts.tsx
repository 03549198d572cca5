/** What a person is asked: questions of the code, and calls of tools that are to be approved. */

import type { schema } from 'himalia';
import { useState } from 'preact/hooks';
import { gateway, said } from '../api/gateway';
import { JsonTree } from '../output/json-tree';
import type { SessionView } from '../state/session-view';
import { useLoaded } from '../ui/hooks';

/** The prompts of a session that are open, oldest first. They are asked for again whenever the log has something of one. */
export function Prompts({ view, id }: { view: SessionView; id: string }) {
  view.revision.value;
  const isOver = view.connection.value === 'ended';
  const { value } = useLoaded(
    async signal => (isOver ? [] : gateway.at(id).prompts({ open: true, signal })),
    [id, view.log.prompts, isOver]
  );
  if (!value || value.length === 0) return null;
  return (
    <section class="prompts" aria-label="Waiting for you">
      {value.map(prompt => (
        <PromptCard key={prompt.id} prompt={prompt} session={id} />
      ))}
    </section>
  );
}

function PromptCard({ prompt, session }: { prompt: schema.Prompt; session: string }) {
  const [value, setValue] = useState('');
  const [failure, setFailure] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const field = `answer-${prompt.id}`;

  const answer = async (given: string): Promise<void> => {
    setBusy(true);
    try {
      await gateway.at(session).answerPrompt(prompt.id, given);
      setFailure(null);
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
        {prompt.tool ? (
          <>
            The code of this session wants to call <code class="mono">{prompt.tool}</code>
          </>
        ) : (
          'The code of this session asks'
        )}
      </p>
      <p class="asking-prompt" id={`${field}-text`}>
        {prompt.text}
      </p>
      {prompt.arguments !== undefined && (
        <div class="prompt-arguments">
          <JsonTree value={prompt.arguments as never} />
        </div>
      )}
      {prompt.options.length > 0 ? (
        <fieldset class="prompt-options" aria-labelledby={`${field}-text`}>
          {prompt.options.map(option => (
            <button
              key={option}
              type="button"
              class={`button ${option === 'deny' ? 'is-quiet-bad' : ''}`}
              disabled={isBusy}
              onClick={() => void answer(option)}
            >
              {option}
            </button>
          ))}
        </fieldset>
      ) : (
        <div class="prompt-options">
          <input
            id={field}
            class="mono"
            type="text"
            aria-labelledby={`${field}-text`}
            value={value}
            autocomplete="off"
            onInput={event => setValue(event.currentTarget.value)}
          />
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
