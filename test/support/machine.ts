import { beforeEach } from "vitest";
import { findSystemProgram } from "../../src/util/system.ts";

// What runs code needs bubblewrap. `npm test` installs it; where that could not be done, these are skipped, and the gate says so
// loudly. In CI they fail.
const RUNS_CODE =
  /\/test\/(?:run\/|sandbox\/|session\/script|cli\/(?:script|trust|packages)|bad-input\/(?:scripts|packages|trust))/;

if (findSystemProgram("bwrap") === undefined && !process.env["CI"]) {
  beforeEach(({ task, skip }) => {
    if (RUNS_CODE.test(task.file.filepath)) skip("bubblewrap is not installed");
  });
}
