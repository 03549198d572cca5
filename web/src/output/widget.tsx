/** The widgets of progress bars, drawn from their models' state. Others show their plain text. */

import { type JsonObject, number, text } from '../log/records';
import type { WidgetModels } from '../log/widgets';

/** Boxes within boxes. */
const MAX_DEPTH = 8;

const DRAWN = [
  ...['HBoxModel', 'VBoxModel', 'BoxModel'],
  ...['FloatProgressModel', 'IntProgressModel', 'HTMLModel', 'HTMLMathModel', 'LabelModel']
];

export function canDraw(models: WidgetModels, id: string): boolean {
  const model = models.get(id);
  return model !== null && DRAWN.includes(text(model._model_name));
}

export function Widget({ models, id, depth = 0 }: { models: WidgetModels; id: string; depth?: number }) {
  const model = models.get(id);
  if (!model || depth > MAX_DEPTH) return null;
  const name = text(model._model_name);
  if (name.endsWith('BoxModel')) {
    const children = Array.isArray(model.children) ? model.children.map(text) : [];
    return (
      <div class={name === 'VBoxModel' ? 'widget-column' : 'widget-row'}>
        {children.map(child => (
          <Widget key={child} models={models} id={child.replace(/^IPY_MODEL_/, '')} depth={depth + 1} />
        ))}
      </div>
    );
  }
  if (name.endsWith('ProgressModel')) return <Progress model={model} />;
  return <span class="widget-text">{plain(text(model.value))}</span>;
}

function Progress({ model }: { model: JsonObject }) {
  const [min, max, value] = [number(model.min) ?? 0, number(model.max) ?? 100, number(model.value) ?? 0];
  const part = max > min ? Math.min(1, Math.max(0, (value - min) / (max - min))) : 0;
  const style = text(model.bar_style);
  return (
    <span
      class={`widget-bar ${style === 'danger' ? 'is-bad' : style === 'success' ? 'is-good' : ''}`}
      role="progressbar"
      aria-label={plain(text(model.description)) || 'progress'}
      aria-valuemin={min}
      aria-valuemax={max}
      aria-valuenow={value}
    >
      <span style={{ width: `${part * 100}%` }} />
    </span>
  );
}

/** The words of some HTML, without a parser: what comes of it is text in any case. */
function plain(html: string): string {
  if (!/[<&]/.test(html)) return html;
  return html
    .replace(/<[^>]*>/g, '')
    .replace(/&nbsp;|&#160;/g, '\u00a0')
    .replace(/&lt;/g, '<')
    .replace(/&gt;/g, '>')
    .replace(/&quot;/g, '"')
    .replace(/&amp;/g, '&');
}
