/** A short name for a text: FNV-1a, twice from two starts. Not for security, and free where loading `node:crypto` costs a start. */
export function shortHash(text: string): string {
  return fnv1a(text, 0x811c9dc5).toString(36) + fnv1a(text, 0x01000193).toString(36);
}

/** A number for a text: the same on every machine, and as good as drawn. */
export function hashNumber(text: string): number {
  return fnv1a(text, 0x811c9dc5);
}

function fnv1a(text: string, start: number): number {
  let hash = start;
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
