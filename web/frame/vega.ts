/** Vega and Vega-Lite for the frame. Expressions are interpreted, so nothing is compiled from a string. */

import * as vega from 'vega';
import { expressionInterpreter } from 'vega-interpreter';
import { compile } from 'vega-lite';

/** Nothing is loaded: data stands in the specification. */
const loader = {
  load: () => Promise.reject(new Error('data from elsewhere is not loaded')),
  sanitize: () => Promise.reject(new Error('addresses are not followed')),
  http: () => Promise.reject(new Error('data from elsewhere is not loaded')),
  file: () => Promise.reject(new Error('data from elsewhere is not loaded'))
};

async function draw(element: Element, kind: 'vega' | 'vega-lite', spec: unknown): Promise<void> {
  const own = kind === 'vega-lite' ? compile(spec as never).spec : (spec as vega.Spec);
  const view = new vega.View(vega.parse(own, {}, { ast: true } as never), {
    renderer: 'svg',
    container: element as HTMLElement,
    hover: true,
    loader: loader as never,
    expr: expressionInterpreter
  } as never);
  await view.runAsync();
}

Object.assign(window, { himaliaVega: { draw } });
