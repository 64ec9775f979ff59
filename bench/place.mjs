import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs `work` with a temporary folder, and removes the folder in any case, also after an interruption. */
export async function withPlace(work) {
  const place = mkdtempSync(join(tmpdir(), "skillet-bench-"));
  const clean = () => rmSync(place, { recursive: true, force: true });
  const stop = (signal) => {
    clean();
    process.kill(process.pid, signal);
  };
  const signals = ["SIGINT", "SIGTERM"];
  for (const signal of signals) process.once(signal, stop);
  try {
    return await work(place);
  } finally {
    for (const signal of signals) process.off(signal, stop);
    clean();
  }
}
