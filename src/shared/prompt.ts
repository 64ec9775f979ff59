import { reveal, spellHidden } from "./hidden.ts";
import { count, oneLine } from "./text.ts";

/** Text of others as part of a line of a prompt: one line, bounded, without tags and without what cannot be seen. */
export function inLine(text: string, limit = 1024): string {
  return reveal(oneLine(text, limit)).replace(/<(?=[a-z/!?]|[\s/<]*(?:\/|skill_))/gi, "&lt;");
}

const OURS = /<(?=[\s/]*skill_(?:content|resource|files|scripts|output|context|input))/gi;

/** Text of others between tags of ours, which it can neither close nor forge. What cannot be seen is written out, and said. */
export function inTag(tag: string, attributes: Readonly<Record<string, string>>, written: string): string {
  const { text, count: hidden } = spellHidden(written);
  const given = Object.entries(attributes).map(
    ([name, value]) => ` ${name}="${inLine(value).replaceAll('"', "&quot;")}"`,
  );
  const body = text.replace(OURS, "&lt;");
  const note = hidden > 0 ? `[${count(hidden, "hidden character")} in this text, written out as \\u{…}]\n` : "";
  return `<${tag}${given.join("")}>\n${note}${body}\n</${tag}>`;
}
