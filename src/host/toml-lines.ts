/** The line of a TOML text on which a key stands, or that of its table; 1 when it is not found. */
export function lineOfKey(text: string, parts: readonly string[]): number {
  const wanted = parts.join("\0");
  let table: string[] = [];
  let best = 1;
  for (const [index, line] of text.split("\n").entries()) {
    const header = /^\s*\[\[?\s*([^\]]+?)\s*\]/.exec(line)?.[1];
    if (header !== undefined) table = names(header);
    const key =
      header === undefined
        ? /^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=/.exec(line)?.[1]
        : undefined;
    if (header === undefined && key === undefined) continue;
    const here = [...table, ...(key === undefined ? [] : names(key))].join("\0");
    if (here === wanted) return index + 1;
    if (wanted.startsWith(`${here}\0`)) best = index + 1;
  }
  return best;
}

function names(dotted: string): string[] {
  return (dotted.match(/"[^"]*"|'[^']*'|[\w-]+/g) ?? []).map((name) => name.replace(/^["']|["']$/g, ""));
}
