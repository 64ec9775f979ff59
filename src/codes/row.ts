/** What a code means, in a sentence, and what to do about it. The message of the moment says more. */
export interface CodeRow {
  means: string;
  fix: string;
}

export function row(means: string, fix: string): CodeRow {
  return { means, fix };
}
