/** Where a file of a published skill is: `skill://name/path/to/file`. */
export interface Address {
  /** The skill's name as it is published. */
  name: string;
  /** Relative to the skill's folder, with `/` between its parts; empty for the folder itself. */
  path: string;
}

export const SKILL_FILE = "SKILL.md";

/** The one spelling of an address: as every URL parser writes it. Nothing for a path that has none. */
export function uriOf(name: string, path = ""): string | undefined {
  const parts = path === "" ? [] : path.split("/");
  return parts.every(isName) ? ["skill:/", name, ...parts.map(encode)].join("/") : undefined;
}

/** That of a skill itself. */
export function skillUri(name: string): string {
  return `skill://${name}/${SKILL_FILE}`;
}

/** What a URI says, however it is escaped. Nothing when it leads out of the skill, or is none of ours. */
export function addressIn(uri: string): Address | undefined {
  const [, name = "", rest] = /^skill:\/\/([^/?#]+)(?:\/([^?#]+))?$/i.exec(uri) ?? [];
  if (name === "") return undefined;
  const parts = (rest?.split("/") ?? []).map(decode);
  return parts.every((part) => part !== undefined && isName(part)) ? { name, path: parts.join("/") } : undefined;
}

// A backslash is a letter here and a separator on Windows, where a client may write the files down.
function isName(part: string): boolean {
  return part !== "" && part !== "." && part !== ".." && !/[/\\\0\p{Surrogate}]/u.test(part);
}

// What URL parsers leave as it is in a path stays, so that a link resolved against SKILL.md is spelled the same.
function encode(part: string): string {
  return part.replace(/[^\w!$&'()*+,.:;=@[\]|~-]/gu, encodeURIComponent);
}

function decode(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}
