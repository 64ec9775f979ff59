import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { escapeInvisible } from "../src/util/untrusted-text.ts";

/** HTML of a text stays text, and links are not guessed. */
const markdown = new MarkdownIt({ html: false, linkify: false });
// An image would be a request to another host, which the policy refuses: its text is shown.
markdown.disable("image");

// The page has its own headings: those of a text come below them.
markdown.core.ruler.push("lower-headings", ({ tokens }) => {
  for (const token of tokens)
    if (/^heading_/.test(token.type)) token.tag = `h${Math.min(6, Number(token.tag.slice(1)) + 2)}`;
});

/** What Markdown needs, without attributes that load, style or run something. */
const PURIFY_OPTIONS = {
  ALLOWED_TAGS: [
    ...["h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "ul", "ol", "li", "blockquote", "pre", "code"],
    ...["em", "strong", "s", "a", "table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
  RETURN_TRUSTED_TYPE: true,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("rel", "noopener noreferrer");
  node.setAttribute("target", "_blank");
});

/** Renders untrusted Markdown as markup that was sanitized. The browser accepts no other markup: see the page's policy. */
export function renderMarkdown(text: string): string {
  return DOMPurify.sanitize(markdown.render(escapeInvisible(text).text), PURIFY_OPTIONS) as unknown as string;
}
