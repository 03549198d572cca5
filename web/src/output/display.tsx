/** A display or result: the best that its bundle has. */

import { useState } from 'preact/hooks';
import type { DisplayOutput } from '../log/cell';
import { type Json, multiline, number, object, text } from '../log/records';
import type { WidgetModels } from '../log/widgets';
import { ScrollPre } from '../ui/scroll-pre';
import { AnsiText } from './ansi-text';
import { isBlank } from './blank';
import { Frame } from './frame';
import type { RenderMessage } from './frame-protocol';
import { JsonTree } from './json-tree';
import { choose, pictureUrl } from './mime';
import { Formula, MarkdownText } from './rich-text';
import { canDraw, Widget } from './widget';

const UNREADABLE = 'A picture that cannot be drawn.';
const BLANK_SVG =
  'This SVG shows nothing: it is empty, or cannot be read, or would be drawn by scripts or from elsewhere, which is not done here.';

/** Characters of a plain text that are drawn. */
const TEXT_CHARS = 50_000;

interface DisplayProps {
  output: DisplayOutput;
  models: WidgetModels;
  /** For the screen of one plot: as large as there is room. */
  whole?: boolean;
  /** Shows this type in place of the best one. */
  type?: string;
}

export function Display({ output, models, whole = false, type }: DisplayProps) {
  const data = type === undefined ? output.data : { [type]: output.data[type] ?? null };
  const chosen = choose(data, id => canDraw(models, id));
  if (!chosen)
    return <p class="note">An output of {Object.keys(output.data).join(', ') || 'no type'} cannot be shown here.</p>;
  const value = output.data[chosen.type] ?? null;
  const plain = multiline(output.data['text/plain']).slice(0, 200);
  switch (chosen.renderer) {
    case 'widget':
      return <Widget models={models} id={text(object(value).model_id)} />;
    case 'frame':
      return (
        <Frame
          kind={frameKind(chosen.type)}
          data={frameData(chosen.type, value)}
          title={plain || chosen.type}
          whole={whole}
        />
      );
    case 'picture':
      return <Picture type={chosen.type} value={value} output={output} alt={plain} whole={whole} />;
    case 'markdown':
      return <MarkdownText source={multiline(value)} />;
    case 'latex':
      return <Formula source={multiline(value)} />;
    case 'json':
      return <JsonTree value={value} />;
    case 'text': {
      const shown = multiline(value);
      return (
        <ScrollPre label="Result" className="plain">
          <AnsiText text={shown.slice(0, TEXT_CHARS)} />
          {shown.length > TEXT_CHARS && `\n… ${shown.length - TEXT_CHARS} more characters`}
        </ScrollPre>
      );
    }
  }
}

function frameKind(type: string): RenderMessage['kind'] {
  if (type.includes('plotly')) return 'plotly';
  if (type.includes('vegalite')) return 'vega-lite';
  return type.includes('vega') ? 'vega' : 'html';
}

function frameData(type: string, value: Json): unknown {
  return type === 'text/html' ? multiline(value) : value;
}

interface PictureProps {
  type: string;
  value: Json;
  output: DisplayOutput;
  alt: string;
  whole: boolean;
}

function Picture({ type, value, output, alt, whole }: PictureProps) {
  const source = pictureUrl(type, value);
  const said = object(output.metadata[type]);
  const known = object(object(output.metadata.himalia).figure);
  const [width, height] = [number(said.width) ?? number(known.width), number(said.height) ?? number(known.height)];
  const [empty, setEmpty] = useState<string | null>(null);
  if (!source) return <p class="note">A picture that cannot be read ({type}).</p>;
  if (empty === source) return <p class="note">{type === 'image/svg+xml' ? BLANK_SVG : UNREADABLE}</p>;
  return (
    <img
      class={whole ? 'picture is-whole' : 'picture'}
      src={source}
      alt={alt || 'picture'}
      width={whole ? undefined : (width ?? undefined)}
      height={whole ? undefined : (height ?? undefined)}
      decoding="async"
      onError={() => setEmpty(source)}
      onLoad={event => {
        if (type === 'image/svg+xml' && isBlank(event.currentTarget)) setEmpty(source);
      }}
    />
  );
}
