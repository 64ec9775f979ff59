// Starts the command line for `runSkilletProcess()`. In JavaScript: Node takes as long to read TypeScript as to start.
import diagnostics from "node:diagnostics_channel";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const { KILL_BEFORE_RENAME, FREEZE_BEFORE, SKILLET_TEST_PROGRAM } = process.env;
if (Number(KILL_BEFORE_RENAME) > 0) killBefore(Number(KILL_BEFORE_RENAME));
if (FREEZE_BEFORE) freezeBefore(FREEZE_BEFORE);
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

/** Stops this process at its first call of a tool of an MCP server, until it gets SIGCONT: before `fetch`, or before the request is written. */
function freezeBefore(place) {
  const real = JSON.stringify;
  const state = { isCalled: false, isFrozen: false };
  const freeze = () => {
    state.isFrozen = true;
    process.kill(process.pid, "SIGSTOP");
  };
  JSON.stringify = (value, ...more) => {
    if (value?.method === "tools/call" && !state.isFrozen) {
      state.isCalled = true;
      if (place === "fetch") freeze();
    }
    return real(value, ...more);
  };
  // The first subscriber: all others are called after the process continues.
  diagnostics.subscribe("undici:client:sendHeaders", ({ request }) => {
    if (place === "write" && state.isCalled && !state.isFrozen && request.path === "/mcp") freeze();
  });
}
