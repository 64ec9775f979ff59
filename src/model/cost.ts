import type { Price, Usage } from "../host/models.ts";

const MILLION = 1_000_000;

/** What it cost in US dollars, by the prices of the configuration; nothing where one that is needed is not known. */
export function costOf(usage: Usage, name: string, prices: ReadonlyMap<string, Price>): number | undefined {
  const price = prices.get(name) ?? prices.get(name.slice(name.indexOf("/") + 1));
  if (!price) return undefined;
  const cached = Math.min(usage.cachedTokens, usage.inputTokens);
  const parts = [
    [usage.inputTokens - cached, price.input],
    [cached, price.cached ?? price.input],
    [usage.outputTokens, price.output],
  ] as const;
  let sum = 0;
  for (const [tokens, dollars] of parts) {
    if (tokens > 0 && dollars === undefined) return undefined;
    sum += tokens * (dollars ?? 0);
  }
  return sum / MILLION;
}
