// Starts the command line for `skilletProcess()`. In JavaScript: Node takes as long to read TypeScript as to start.
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const { KILL_BEFORE_RENAME, SKILLET_TEST_PROGRAM } = process.env;
if (Number(KILL_BEFORE_RENAME) > 0) killBefore(Number(KILL_BEFORE_RENAME));
const { run } = await import(SKILLET_TEST_PROGRAM);
run();

/** The calls do what they do; only the process ends, as by `kill -9`. */
function killBefore(count) {
  const real = fs.renameSync;
  let left = count;
  fs.renameSync = (...paths) => {
    if (--left === 0) process.kill(process.pid, "SIGKILL");
    real(...paths);
  };
  syncBuiltinESMExports();
}
