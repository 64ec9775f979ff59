import { randomBytes } from "node:crypto";

/** In the order of their beginning, and nobody else's. */
export function runId(): string {
  const time = new Date().toISOString().replace(/\D/g, "");
  return `${time.slice(0, 8)}-${time.slice(8, 14)}-${randomBytes(4).toString("hex")}`;
}
