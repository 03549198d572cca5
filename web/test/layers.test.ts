import { describe, expect, it } from 'vitest';
import { layers } from '../src/screens/layers';

function ids(nodes: { id: string; needs: string[] }[]): string[][] {
  return layers(nodes).map(column => column.map(placed => placed.id));
}

describe('layers', () => {
  it('puts each step into the column after those that it needs', () => {
    const nodes = [
      { id: 'd', needs: ['b', 'c'] },
      { id: 'a', needs: [] },
      { id: 'c', needs: ['a'] },
      { id: 'b', needs: ['a'] },
      { id: 'e', needs: ['a', 'd'] }
    ];
    expect(ids(nodes)).toEqual([['a'], ['c', 'b'], ['d'], ['e']]);
  });

  it('keeps a step in the row of what it needs', () => {
    const nodes = [
      { id: 'one', needs: [] },
      { id: 'two', needs: [] },
      { id: 'of-two', needs: ['two'] },
      { id: 'of-one', needs: ['one'] }
    ];
    expect(ids(nodes)).toEqual([
      ['one', 'two'],
      ['of-one', 'of-two']
    ]);
  });

  it('leaves out a cycle, and ends', () => {
    const nodes = [
      { id: 'a', needs: [] },
      { id: 'b', needs: ['c'] },
      { id: 'c', needs: ['b'] }
    ];
    expect(ids(nodes)).toEqual([['a']]);
  });
});
