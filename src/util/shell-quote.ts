/** A path for a shell. */
export function quoteIfNeeded(path: string): string {
  return /^[\w./~@%+:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** A value as one word of a shell, whatever is in it. */
export function quoteShellArgument(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}
