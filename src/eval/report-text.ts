import { formatNumber } from "../util/text.ts";
import type { EvalReport, EvalSpending } from "./eval-report.ts";

export const formatShare = (share: number | null) => (share === null ? "-" : `${Math.round(share * 100)} %`);
export const formatRange = ({ low, high }: { low: number; high: number }) =>
  `${Math.round(low * 100)} to ${Math.round(high * 100)} %`;
export const formatPoints = (share: number) => `${share > 0 ? "+" : ""}${Math.round(share * 100)}`;

/** Formats the cost with the date of the prices. */
export function formatDollars({ dollars = 0, priceDate }: Pick<EvalSpending, "dollars" | "priceDate">): string {
  return `$${dollars.toFixed(4)}${priceDate === undefined ? "" : ` (prices of ${priceDate})`}`;
}

export function formatSpending({ spent }: EvalReport): string {
  if (!spent) return "";
  const dollars = spent.dollars === undefined ? "" : `, ${formatDollars(spent)}`;
  return `${formatNumber(spent.calls)} model calls, ${formatNumber(spent.inputTokens)} input and ${formatNumber(spent.outputTokens)} output tokens${dollars}`;
}

export function escapeMarkup(text: string): string {
  // Other control characters are not allowed in XML.
  return text
    .replace(/[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]/g, "\ufffd")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}
