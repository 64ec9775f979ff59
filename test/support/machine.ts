import { beforeEach } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";

// What runs code needs bubblewrap. `npm test` installs it; where that could not be done, these are skipped, and the gate says so
// loudly. In CI they fail.
const AGENT_FILES = [
  ...["approvals", "brought", "capability", "dynamic", "enclosure", "given-packages", "journal-port", "mcp", "mcp-use"],
  ...["missing-package", "network", "port", "progress-line", "python", "result", "resume", "revocation", "run-taint"],
  ...["script", "script-workspace", "session-script", "tools", "tools-files", "toolset", "toolset-uncalled", "use"],
  ...["use-edges", "use-limits", "use-seams", "uv", "web-search"],
];
/** Files and folders of `test/` whose tests run code, without the ending that depends on the tier. */
export const RUNS_CODE: readonly string[] = [
  ...AGENT_FILES.map((name) => `agent/${name}.`),
  ...["agent/workspace/", "sandbox/", "cli/script.", "cli/trust.", "cli/trust-mine."],
  ...["cli/packages.", "bad-input/scripts.", "bad-input/packages."],
  ...["bad-input/trust.", "bad-input/trust-effect."],
];

if (findSystemProgram("bwrap") === undefined && !process.env["CI"]) {
  beforeEach(({ task, skip }) => {
    const { filepath } = task.file;
    if (RUNS_CODE.some((path) => filepath.includes(`/test/${path}`))) skip("bubblewrap is not installed");
  });
}
