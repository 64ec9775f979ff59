import { dirname } from "node:path";
import type { Discovered } from "../host/discover.ts";
import { shownPath } from "../policy/shown-path.ts";
import { quoted } from "../policy/trust.ts";
import { isTextOnly } from "../skill/text-only.ts";

/** Skills whose code waits for trust, and the command that shows and trusts them; undefined if there are none. */
export function codeWaiting(found: Discovered): { skills: number; command: string } | undefined {
  const { catalog, trust } = found;
  const waiting = trust.steadily(() =>
    catalog.skills.filter((skill) => trust.standingOf(skill) === "untrusted" && !isTextOnly(skill)),
  );
  if (waiting.length === 0) return undefined;
  const folders = waiting.flatMap(({ origin: { folder } }) => (folder === undefined ? [] : [dirname(folder)]));
  const named = [...new Set(folders)].map((folder) => {
    const short = shownPath(folder, found);
    return quoted(short) === short ? short : quoted(folder); // A shell understands ~ only outside of quotes.
  });
  return { skills: waiting.length, command: ["skillet trust", ...named].join(" ") };
}
