import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions
} from '@tanstack/virtual-core';
import { useEffect, useLayoutEffect, useReducer, useState } from 'preact/hooks';

/** The present, again every so many milliseconds while the page is seen, and when it is seen again; 0 stands still. */
export function useNow(every: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (every === 0) return;
    setNow(Date.now());
    const turn = (): void => {
      if (!document.hidden) setNow(Date.now());
    };
    const timer = setInterval(turn, every);
    document.addEventListener('visibilitychange', turn);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', turn);
    };
  }, [every]);
  return now;
}

/** A value once it has stood for so many milliseconds. */
export function useSettled<T>(value: T, ms: number): T | null {
  const [settled, settle] = useState<T | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => settle(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

export interface Loaded<T> {
  value: T | null;
  error: Error | null;
  isLoading: boolean;
  reload: () => void;
}

/** What a call brings, called again whenever `inputs` change. The value before stays until the next one is there. */
export function useLoaded<T>(load: (signal: AbortSignal) => Promise<T>, inputs: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: Error | null; isLoading: boolean }>({
    value: null,
    error: null,
    isLoading: true
  });
  const [turn, reload] = useReducer<number, void>(count => count + 1, 0);
  useEffect(() => {
    const abort = new AbortController();
    setState(before => ({ ...before, isLoading: true }));
    load(abort.signal).then(
      value => {
        if (!abort.signal.aborted) setState({ value, error: null, isLoading: false });
      },
      (error: Error) => {
        if (!abort.signal.aborted) setState(before => ({ ...before, error, isLoading: false }));
      }
    );
    return () => abort.abort();
  }, [...inputs, turn]);
  return { ...state, reload: () => reload() };
}

type ListOptions = Pick<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  'count' | 'getScrollElement' | 'estimateSize' | 'getItemKey' | 'overscan' | 'paddingEnd'
>;

/** A list of which only what is in view is in the document. */
export function useVirtualList(options: ListOptions): Virtualizer<HTMLElement, HTMLElement> {
  const [, draw] = useReducer<number, void>(count => count + 1, 0);
  const whole: VirtualizerOptions<HTMLElement, HTMLElement> = {
    ...options,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    // So that a first part is drawn before anything was measured.
    initialRect: { width: 1000, height: 900 },
    onChange: () => draw()
  };
  const [list] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(whole));
  list.setOptions(whole);
  useLayoutEffect(() => list._didMount(), [list]);
  useLayoutEffect(() => list._willUpdate());
  return list;
}
