// The rows of a tree whose columns are steps: the best branch is straight, others lie below the node where they start, and
// branches share a row if they do not overlap.

/**
 * Returns a map from nodes to rows. `visible(node)` tells which nodes to place, `alive(node)` which of them first, and
 * `compare` sorts siblings, best first. Leaves are placed last, all nearest to their parent.
 */
export function placeNodes(root, visible, alive, compare) {
  const rows = new Map();
  const taken = []; // by row, the columns
  const place = (nodes, first) => {
    let row = first;
    while (nodes.some((node) => taken[row]?.has(node.depth))) row++;
    for (const node of nodes) {
      (taken[row] ??= new Set()).add(node.depth);
      rows.set(node, row);
    }
  };
  const branch = (head, first, accepts) => {
    const chain = [head];
    const others = new Map();
    for (let node = head; node;) {
      const [best, ...rest] = node.children.filter(accepts).sort(compare);
      others.set(node, rest);
      if (best) chain.push(best);
      node = best;
    }
    place(chain, first);
    for (const node of chain.toReversed()) for (const child of others.get(node)) branch(child, rows.get(node), accepts);
  };
  const fromTop = () => [...rows].sort((one, other) => one[1] - other[1]);
  branch(root, 0, (node) => visible(node) && alive(node));
  for (const [node, row] of fromTop()) {
    for (const child of node.children.filter((one) => visible(one) && !alive(one)).sort(compare)) branch(child, row, visible);
  }
  for (const [node, row] of fromTop()) for (const leaf of node.leaves.filter(visible)) place([leaf], row);
  return rows;
}
