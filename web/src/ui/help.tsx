import { Dialog } from './dialog';

const KEYS: [string, string][] = [
  ['j, k', 'next, previous cell'],
  ['Enter', 'open or close the code of the cell'],
  ['f', 'follow the newest output, or stop following'],
  ['r', 'write code to run'],
  ['Ctrl Enter', 'run what was written'],
  ['i i', 'interrupt the kernel'],
  ['1, 2, 3, 4', 'cells, plots, variables, files'],
  ['/', 'filter the list'],
  ['g s', 'all sessions'],
  ['?', 'this help'],
  ['Esc', 'close']
];

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <div class="dialog-actions">
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
