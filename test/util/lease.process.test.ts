import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { SkillError } from "../../src/errors/problem.ts";
import { runProcess } from "../../src/sandbox/process.ts";
import { fetchUnderLease, runWithLease } from "../../src/util/async.ts";
import { temporaryFolder } from "../support/folder.ts";

const LOST = new SkillError("run-busy", { message: "Another process has the run" });

/** A lease that has run out. `renew` is called when something is to be sent. */
function oldLease(renew: () => void) {
  const state = { isHeld: false };
  return {
    isHeld: () => state.isHeld,
    async renew() {
      renew();
      state.isHeld = true;
    },
  };
}

it("[E-08] sends no request and starts no process for a run whose lease was lost, and renews one that is old first", async () => {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    response.end("ok");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const file = join(temporaryFolder(), "written");
  const program = { file: "/usr/bin/touch", args: [file], env: {} };
  const run = () => runProcess(program, 10, { onOutput: () => true });
  const lost = oldLease(() => {
    throw LOST;
  });
  await expect(runWithLease(lost, () => fetchUnderLease(`${url}/lost`))).rejects.toBe(LOST);
  await expect(runWithLease(lost, run)).rejects.toBe(LOST);
  expect({ requests, isWritten: existsSync(file) }).toEqual({ requests: [], isWritten: false });

  let renewals = 0;
  const old = oldLease(() => renewals++);
  await runWithLease(old, async () => {
    expect((await fetchUnderLease(`${url}/renewed`)).status).toBe(200);
    await run();
  });
  expect({ requests, renewals, isWritten: existsSync(file) }).toEqual({
    ...{ requests: ["/renewed"], renewals: 1, isWritten: true },
  });
});
