import { type Io, printer } from "./io.ts";

/** Called again and again while something is done: says what, once it has taken longer than a second. */
export function patience(io: Io, doing: string): () => void {
  const start = performance.now();
  let isSaid = false;
  return () => {
    if (isSaid || performance.now() - start < 1000) return;
    isSaid = true;
    const out = printer(io.stderr, io.env);
    out.line`${out.dim("·")} ${doing}`;
  };
}
