/** What a page says, without its markup: one look at each character, since a page can be anything. Not for showing in a browser. */
export function plainHtml(html: string): string {
  const kept: string[] = [];
  for (let at = 0; at < html.length; ) {
    const open = html.indexOf("<", at);
    kept.push(html.slice(at, open === -1 ? html.length : open));
    if (open === -1) break;
    const isComment = html.startsWith("<!--", open);
    const close = html.indexOf(isComment ? "-->" : ">", open);
    if (close === -1) break;
    const [, slash = "", name = ""] = /^<(\/?)([a-z][a-z0-9]*)/i.exec(html.slice(open, open + 20)) ?? [];
    if (BLOCKS.test(name)) kept.push("\n");
    at = close + (isComment ? 3 : 1);
    if (slash === "" && UNSEEN.test(name)) at = afterEnd(html, at, name);
  }
  return kept
    .join("")
    .replace(/&(?:amp|lt|gt|quot|apos|nbsp|#39);/g, (entity) => ENTITIES[entity] ?? entity)
    .split("\n")
    .map((line) => line.replace(/[ \t\r\u00a0]+/g, " ").trim())
    .filter((line, index, lines) => line !== "" || (index > 0 && lines[index - 1] !== ""))
    .join("\n")
    .trim();
}

const UNSEEN = /^(?:script|style|template|svg|noscript)$/i;
const BLOCKS =
  /^(?:p|div|br|hr|li|ul|ol|tr|table|h[1-6]|section|article|header|footer|nav|main|pre|blockquote|title|dt|dd)$/i;
const ENTITIES: Record<string, string> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&#39;": "'",
  "&nbsp;": " ",
};

/** One that is never closed hides the rest, as in a browser. */
function afterEnd(html: string, from: number, name: string): number {
  const end = new RegExp(`</${name}`, "gi");
  end.lastIndex = from;
  const found = end.exec(html);
  const close = found ? html.indexOf(">", found.index) : -1;
  return close === -1 ? html.length : close + 1;
}
