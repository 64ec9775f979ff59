import { join } from "node:path";
import type { HermeticHome } from "../install/home.ts";

type Variables = Readonly<Record<string, string | undefined>>;

/** Variables whose values nobody is shown, nor any program that the agent starts. */
export const SECRET: readonly string[] = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];

/** What an isolated process is given of the environment: what programs need, the way to the network, and who pays. */
const KEPT = [
  ...["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "SystemRoot", "ComSpec", "PATHEXT"],
  ...["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"],
  ...["ANTHROPIC_BASE_URL", ...SECRET],
];

const ALWAYS = {
  // A run is over with its answer: it waits for no command that goes on behind it, and is not answered twice.
  CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
};

/** It reads nothing but its home, and reports to nobody. */
const ISOLATED = {
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  CLAUDE_CODE_DISABLE_BUNDLED_SKILLS: "1",
  CLAUDE_CODE_DISABLE_CLAUDE_MDS: "1",
  CLAUDE_CODE_DISABLE_AUTO_MEMORY: "1",
  DISABLE_AUTOUPDATER: "1",
};

/** The variables of a process in this home, or of one in the user's. */
export function environmentIn(home: HermeticHome | undefined, outer: Variables, given: Variables = {}): Variables {
  if (!home) return { ...outer, ...ALWAYS, ...given };
  const kept = Object.fromEntries(KEPT.flatMap((name) => (outer[name] === undefined ? [] : [[name, outer[name]]])));
  const own = { ...home.env, CLAUDE_CODE_TMPDIR: join(home.path, "tmp"), TMPDIR: join(home.path, "tmp") };
  // Who gives all of their own variables, as the SDK wants them, gives HOME too, and means no other home by it.
  return { ...kept, ...ALWAYS, ...ISOLATED, ...given, ...own };
}
