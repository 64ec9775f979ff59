import type { Discovered } from "../host/discover.ts";
import { ownSecrets } from "../run/secrets.ts";

/** A text with the values of these skills' variables in place of their names, for the eyes of whoever asked for it. */
export function withSecrets(text: string, skills: Iterable<string>, found: Discovered): string {
  let shown = text;
  for (const name of skills) {
    const skill = found.catalog.find(name);
    if (!skill) continue;
    for (const [variable, value] of ownSecrets(skill, found).secrets)
      shown = shown.replaceAll(`[${variable}]`, () => value);
  }
  return shown;
}
