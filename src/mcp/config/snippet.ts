import { tomlValue } from "../../host/config-edit.ts";
import { dotted } from "../../host/config-file.ts";
import type { Client, Entry } from "./clients.ts";
import { nested } from "./jsonc.ts";

/** An entry, and where it belongs in the client's file. */
export interface Snippet {
  format: Client["format"];
  path: readonly string[];
  entry: Entry;
}

/** A snippet as data: all that a file would hold that holds nothing else. */
export function snippetObject({ path, entry }: Snippet): unknown {
  return nested(path, entry);
}

/** A snippet as the client's file has it. */
export function snippetText(snippet: Snippet): string {
  if (snippet.format !== "toml") return `${JSON.stringify(snippetObject(snippet), null, 2)}\n`;
  const lines = Object.entries(snippet.entry).map(([key, value]) => `${dotted([key])} = ${tomlValue(value)}\n`);
  return `[${dotted(snippet.path)}]\n${lines.join("")}`;
}
