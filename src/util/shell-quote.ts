/** Quotes a path for a shell if it contains special characters. */
export function quoteIfNeeded(path: string): string {
  return /^[\w./~@%+:,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
}

/** Quotes any value as a single shell argument. */
export function quoteShellArgument(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}
