/** What stands where a long log was not read from its beginning. */

import type { SessionView } from '../state/session-view';
import { count } from '../ui/format';

export function Earlier({ view, what }: { view: SessionView; what: string }) {
  const cells = view.earlier.value;
  if (cells === 0) return null;
  const isReading = view.isReading.value;
  return (
    <p class="earlier" role="status">
      <span>
        {what} {count(cells)} earlier {cells === 1 ? 'cell' : 'cells'}
      </span>
      <button type="button" class="button" disabled={isReading} onClick={() => void view.older()}>
        {isReading ? 'Reading…' : 'Read them'}
      </button>
    </p>
  );
}
