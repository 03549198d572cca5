/** Where the steps of a workflow are drawn: each in the column after those that it needs. */

export interface Node {
  id: string;
  needs: readonly string[];
}

/** A step in the drawing. */
export interface Placed {
  id: string;
  /** Its column, from 0. */
  column: number;
  /** Its row in the column, from 0. */
  row: number;
}

/** Columns, and in each the steps in an order that keeps lines short. Steps of a cycle are left out: a workflow has none. */
export function layers(nodes: readonly Node[]): Placed[][] {
  const placed = new Map<string, Placed>();
  const columns: Placed[][] = [];
  let open = [...nodes];
  while (open.length > 0) {
    const known = new Set(nodes.map(node => node.id));
    const ready = open.filter(node => node.needs.every(need => placed.has(need) || !known.has(need)));
    if (ready.length === 0) break;
    const heights = ready.map((node, at) => {
      const rows = node.needs.map(need => placed.get(need)?.row ?? 0);
      const mean = rows.length === 0 ? at : rows.reduce((sum, row) => sum + row, 0) / rows.length;
      return { node, mean };
    });
    heights.sort((one, other) => one.mean - other.mean);
    const column = heights.map(({ node }, row) => ({ id: node.id, column: columns.length, row }));
    columns.push(column);
    for (const one of column) placed.set(one.id, one);
    open = open.filter(node => !placed.has(node.id));
  }
  return columns;
}
