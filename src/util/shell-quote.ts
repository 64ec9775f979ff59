/** Quotes a value for a shell if it contains special characters. */
export function quoteIfNeeded(value: string): string {
  return /^[\w./~@%+:,-]+$/.test(value) ? value : quoteShellArgument(value);
}

/** Quotes any value as a single shell argument. */
export function quoteShellArgument(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}
