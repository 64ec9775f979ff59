import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { skillText } from "../support/folder.ts";
import { ERAS } from "../support/mcp-client.ts";
import { createHomeWith } from "../support/mcp-process.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { readAll } from "../support/read-all.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { startTeamServer, type TeamServer } from "../support/team-server.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

/** Waits until a file of the workspace exists. */
const WAIT_SCRIPT = "#!/bin/sh\nwhile [ ! -e /workspace/go ]; do sleep 0.05; done\necho went on\n";

/** A team with one skill of the workspace, which is trusted, and a model that follows a script. */
async function busyTeam(turn: Turn) {
  const config = modelConfig("openai", await startModelServer("openai", turn));
  const place = createHomeWith({
    "skills/worker/SKILL.md": skillText("worker"),
    "skills/worker/scripts/wait.sh": WAIT_SCRIPT,
    "home/.skillet/config.toml": config,
  });
  const server = await startTeamServer(place);
  await server.command("trust", "worker", "--yes");
  const { token, id } = await server.createToken("ada");
  const home = join(place.home, ".skillet");
  return {
    server,
    home,
    token,
    id,
    go: () => writeFileSync(join(place.cwd, "go"), ""),
    runs: createRunStore(home),
    audit: async () => readAll(createAuditLog(home).read()),
  };
}

/** The number of milliseconds between what a command recorded and what the server recorded about it. */
async function reactionOf(
  audit: () => Promise<{ method: string; at: string; account?: string }[]>,
  method: string,
  reaction: string,
) {
  const lines = await waitFor(async () => {
    const all = await audit();
    const from = all.findLast((line) => line.method === method);
    const to = all.findLast((line) => line.method === reaction && line.at >= (from?.at ?? "~"));
    expect({ from: from?.method, to: to?.method }).toEqual({ from: method, to: reaction });
    return [from?.at ?? "", to?.at ?? ""] as const;
  });
  return Date.parse(lines[1]) - Date.parse(lines[0]);
}

function reached(stdout: string): { kind: string; isApplied: boolean }[] {
  return JSON.parse(stdout).running;
}

async function startUse({ server, token }: { server: TeamServer; token: string }, era: (typeof ERAS)[number]) {
  const client = await server.connect(token, era);
  const use = client.call("use_skill", { skill: "worker", message: "Work." }).then(
    (result) => ({ text: result.text, meta: result.meta }),
    (error: Error) => ({ text: `failed: ${error.message}`, meta: {} }),
  );
  return { client, use };
}

const CALL_WAIT = [{ tool: "run_skill_script", input: { skill: "worker", script: "wait.sh" } }];

describe.each(sampleRows(ERAS, 1))("a revocation, for clients of %s", { timeout: 120_000 }, (era) => {
  it.each([
    ["trust.revoke", ["trust", "--revoke", "worker"], "untrusted"],
    ["skill.disable", ["disable", "worker"], "disabled"],
  ])("[E-33] %s stops the next call of an active run, within two seconds", async (method, command, code) => {
    const seen: string[] = [];
    const team = await busyTeam(({ results }) => {
      seen.push(...results.map(({ content }) => content));
      return results.length < 2 ? CALL_WAIT : "I stop.";
    });
    const { use } = await startUse(team, era);
    await waitFor(() => expect(countIn(team.home, "tool-called")).toBe(1));
    const printed = await team.server.command(...command, "--json");
    expect(reached(printed)).toMatchObject([{ kind: "server", isApplied: true }]);
    team.go();
    await use;
    expect(seen.join("\n")).toContain("went on");
    expect({ made: countIn(team.home, "tool-ended"), blocked: countIn(team.home, "tool-blocked") }).toEqual({
      made: 1,
      blocked: 1,
    });
    expect(seen.join("\n")).toContain(code === "disabled" ? "is disabled" : "was revoked");
    expect(await reactionOf(team.audit, method, "server.apply")).toBeLessThan(2000);
  });

  it("[E-33] of a token ends its sessions and its active run, within two seconds", async () => {
    const team = await busyTeam(() => ({ hangs: true }));
    const { client, use } = await startUse(team, era);
    await waitFor(async () => expect((await team.runs.list()).map(({ state }) => state)).toEqual(["running"]));
    const printed = await team.server.command("token", "revoke", team.id, "--json");
    expect(reached(printed)).toMatchObject([{ kind: "server", isApplied: true }]);
    expect((await use).text).not.toContain("done");
    await waitFor(async () => expect((await team.runs.list()).map(({ state }) => state)).not.toContain("running"));
    await expect(client.call("list_skills")).rejects.toThrow();
    expect((await team.server.send("/mcp", { token: team.token })).status).toBe(401);
    expect(await reactionOf(team.audit, "token.revoke", "server.drop")).toBeLessThan(2000);
    const dropped = (await team.audit()).find(({ method }) => method === "server.drop");
    expect(dropped).toMatchObject({ user: "ada", account: `token ${team.id}` });
  });

  it("[E-33] of a person in the configuration refuses all tokens of that person and no others", async () => {
    const team = await busyTeam(() => "Done.");
    const bob = await team.server.createToken("bob");
    const client = await team.server.connect(team.token, era);
    await client.call("list_skills");
    await team.server.command("config", "set", "server.people.ada.enabled", "false");
    await waitFor(async () => expect((await team.server.send("/mcp", { token: team.token })).status).toBe(401));
    await expect(client.call("list_skills")).rejects.toThrow();
    expect((await (await team.server.connect(bob.token, era)).call("list_skills")).isError).toBe(false);
    await team.server.command("config", "set", "server.people.ada.enabled", "true");
    await waitFor(async () => expect((await team.server.send("/mcp", { token: team.token })).status).not.toBe(401));
  });
});

/** The number of events of this type in the journals of all runs. */
function countIn(home: string, type: string): number {
  const folder = join(home, "runs");
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")) : [];
  const lines = names.flatMap((name) => readFileSync(join(folder, name), "utf8").split("\n"));
  return lines.filter((line) => line.includes(`"type":"${type}"`)).length;
}
