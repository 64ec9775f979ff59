import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { listHeldChanges } from "../../../src/agent/workspace/held-changes.ts";
import { resolveSandbox } from "../../../src/agent/workspace/run-sandbox.ts";
import type { Sandbox } from "../../../src/host/sandbox-contract.ts";
import { describeWithBubblewrap } from "../../sandbox/contract.ts";
import { createRunTools, openToolSandbox } from "../../support/run-tools.ts";
import { waitFor } from "../../support/wait-for.ts";

const WRITABLE = '[sandbox]\nworkspace = "read-write"\n';

describeWithBubblewrap("a command that starts in a workspace", () => {
  it("[Q-14, Q-27] is alone between the walk of the workspace and its mounts", async () => {
    const { found } = await createRunTools({ config: WRITABLE });
    const sandbox = await resolveSandbox(found);
    const order: string[] = [];
    const watched: Sandbox = {
      ...sandbox,
      run(command, options) {
        order.push("walked");
        const onMounted = () => {
          order.push("mounted");
          options.onMounted?.();
        };
        return sandbox.run(command, { ...options, onMounted });
      },
    };
    const { enclosure } = await openToolSandbox(found, { ...found, sandbox: watched });
    const access = { access: "read" } as const;
    await Promise.all([{}, access, {}, access, {}].map((options) => enclosure.run(["/bin/true"], options)));
    expect(order).toEqual(Array(5).fill(["walked", "mounted"]).flat());
  });

  it("[Q-14, Q-27] starts although another one was killed while it started", async () => {
    const { found, enclosure } = await createRunTools({ config: WRITABLE });
    const folder = join(found.home ?? "", "held/starting");
    await enclosure.run(["/bin/true"]);
    expect(readdirSync(folder)).toEqual([]);
    const [first] = await Promise.all([nameOfClaim(folder), enclosure.run(["/bin/true"])]);
    const killed = { pid: 2 ** 22 + 1, host: hostname(), start: "1" }; // No process has this number.
    writeFileSync(join(folder, first), JSON.stringify(killed));
    expect(await enclosure.run(["/bin/true"])).toMatchObject({ exitCode: 0 });
  });

  it("[Q-27] changes no repository below a folder that a running command renames meanwhile", async () => {
    const files = { "sub/.git/HEAD": "ref: refs/heads/main\n", "sub/.git/config": "[core]\n" };
    const { found, enclosure } = await createRunTools({ config: WRITABLE, files });
    const at = (path: string) => join(found.workspace, path);
    const sandbox = await resolveSandbox(found);
    const first = enclosure.run(["/bin/sh", "-c", "touch runs; while [ ! -e stops ]; do sleep 0.02; done"]);
    await waitFor(() => existsSync(at("runs")));
    // What code of the first command can do after the workspace of the second was walked, and before it is mounted.
    const swapped: Sandbox = {
      ...sandbox,
      run(command, options) {
        renameSync(at("sub"), at("moved"));
        mkdirSync(at("sub/.git"), { recursive: true });
        return sandbox.run(command, options);
      },
    };
    const second = await openToolSandbox(found, { ...found, sandbox: swapped });
    const evil = 'echo "fsmonitor = evil" >> moved/.git/config; cat moved/.git/config; mv sub decoy; mv moved sub';
    const { stdout } = await second.enclosure.run(["/bin/sh", "-c", evil]);
    writeFileSync(at("stops"), "");
    await first;
    expect(stdout).toContain("evil"); // It could write there.
    expect(readFileSync(at("sub/.git/config"), "utf8")).toBe("[core]\n");
    expect(listHeldChanges(found.home ?? "")).not.toEqual([]);
  });
});

async function nameOfClaim(folder: string): Promise<string> {
  let name: string | undefined;
  await waitFor(() => {
    name = readdirSync(folder).find((one) => !one.includes("."));
    return name !== undefined;
  });
  return name ?? "";
}
