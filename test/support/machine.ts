import { enableCompileCache } from "node:module";
import { beforeEach } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";
import { KEPT, SHARED_CODE } from "./program.ts";
import { RUNS_CODE } from "./tiers.ts";

// The threads of toolsets use it too.
if (KEPT !== undefined) enableCompileCache(SHARED_CODE.NODE_COMPILE_CACHE);

// Tests that run code need bubblewrap. `npm test` installs it. If that fails, these tests are skipped, and the gate prints
// a warning. In CI they fail.
if (findSystemProgram("bwrap") === undefined && !process.env["CI"]) {
  beforeEach(({ task, skip }) => {
    const { filepath } = task.file;
    if (RUNS_CODE.some((path) => filepath.includes(`/test/${path}`))) skip("bubblewrap is not installed");
  });
}
