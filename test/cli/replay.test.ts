import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

const RECORDING = "skills/sums/evals/recorded/total.json";

/** A skill of a workspace, recorded once with the loopback model, whose configuration is then removed. */
async function recorded(turns: Turn, { more = "", files = {} as Record<string, string>, mode = 0o777 } = {}) {
  const server = await startModelServer("openai", turns);
  const home = temporaryFolder({ ".skillet/config.toml": modelConfig("openai", server) });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  const cwd = temporaryFolder({
    "skills/sums/SKILL.md": skillText("sums", { body: "Add up the lines of the file.", more }),
    "sales.csv": "1\n2\n",
    ...files,
  });
  chmodSync(cwd, mode);
  const env = { HOME: home, SKILLS_DIR: "skills" };
  for (const name of ["sums", "adder"]) await skillet(["trust", name, "--yes"], { cwd, env });
  const ran = await skillet(["run", "sums", "total of sales.csv", "--record", RECORDING, "--yes"], { cwd, env });
  const calls = server.requests.length;
  rmSync(join(home, ".skillet/config.toml"));
  const skillFile = join(cwd, "skills/sums/SKILL.md");
  return {
    ...{ ran, cwd, server, calls },
    /** Another user on another machine: no key, no model, no trust. */
    replay: (...args: string[]) => skillet(["test", "skills/sums", ...args], { cwd, env: { HOME: temporaryFolder() } }),
    edit: (from: string, to: string) => writeFileSync(skillFile, readFileSync(skillFile, "utf8").replace(from, to)),
    recording: () => JSON.parse(readFileSync(join(cwd, RECORDING), "utf8")),
  };
}

const adds: Turn = ({ results }) => {
  if (results.length === 0) return [{ tool: "read_file", input: { path: "sales.csv" } }];
  if (results.length === 1) return [{ tool: "bash", input: { command: "echo $((1+2)); pwd" } }];
  return "The total is 3.";
};

describe("skillet run --record and skillet test", () => {
  it("replays a run without its model, and passes while nothing changed", async () => {
    const { ran, replay, recording, server, calls } = await recorded(adds);
    expect(ran.stdout).toContain("The total is 3.");
    expect(ran.stderr).toContain("`skillet test sums` replays the recordings");
    expect(recording()).toMatchObject({ version: 1, kind: "recorded-run", skill: "sums", turns: [{}, {}, {}] });
    const { code, stdout } = await replay();
    expect(stdout).toBe("✓ sums/total.json: 3 steps as recorded\n");
    expect(code).toBe(0);
    expect(server.requests).toHaveLength(calls);
    const json = JSON.parse((await replay("--json")).stdout);
    expect(json).toMatchObject({ level: "replay", skills: [{ rates: [{ name: "replay", successes: 1, total: 1 }] }] });
  });

  it("names the first step whose prompt differs, with the words that changed", async () => {
    const { replay, edit } = await recorded(adds);
    edit("Add up the lines", "Multiply the lines");
    const { code, stdout } = await replay();
    expect(code).toBe(1);
    expect(stdout).toContain("✗ sums/total.json: step 1, prompt: the system prompt differs");
    expect(stdout).toContain("-Add up the lines of the file.");
    expect(stdout).toContain("+Multiply the lines of the file.");
  });

  it("names a call that is refused now, and one that is allowed now", async () => {
    const allowed = "allowed_tools: [read_file, bash]\n";
    const some = "allowed_tools: [read_file, 'Bash(ls:*)']\n";
    const before = await recorded(adds, { more: allowed });
    before.edit(allowed, some);
    const refused = await before.replay();
    expect(refused.stdout).toContain("step 2, tool call: the call of bash is refused now: Tool 'bash' is not allowed");
    const after = await recorded(adds, { more: some });
    expect((await after.replay()).stdout).toContain("3 steps as recorded");
    after.edit(some, allowed);
    const made = await after.replay();
    expect(made.stdout).toContain(
      "step 2, tool call: the call of bash was refused in the recorded run and is made now",
    );
  });

  it("names other tools, another outcome, and a run that does not start", async () => {
    const { replay, edit } = await recorded(adds);
    edit("---\n\n", "disallowed-tools: [grep]\n---\n\n");
    const tools = await replay();
    expect(tools.stdout).toContain("step 1, tools: other tools are offered");
    expect(tools.stdout).toContain("-grep");
    const other = await recorded(adds);
    other.edit("---\n\n", "max_iterations: 2\n---\n\n");
    expect((await other.replay()).stdout).toContain("prompt: the system prompt differs");
    const gone = await recorded(adds);
    gone.edit("---\n\n", "env: [SUMS_KEY]\n---\n\n");
    expect((await gone.replay()).stdout).toContain("not run: ");
  });

  it("replays nested runs of other skills", async () => {
    const nests: Turn = ({ instructions, results }) => {
      if (instructions.includes("Only answer 3.")) return "3";
      if (results.length === 0) return [{ tool: "use_skill", input: { skill: "adder", message: "1 and 2" } }];
      return "The total is 3.";
    };
    const files = { "skills/adder/SKILL.md": skillText("adder", { body: "Only answer 3." }) };
    const { replay, cwd } = await recorded(nests, { files });
    expect((await replay()).stdout).toContain("✓ sums/total.json: 3 steps as recorded");
    const file = join(cwd, "skills/adder/SKILL.md");
    writeFileSync(file, readFileSync(file, "utf8").replace("Only answer 3.", "Only answer 4."));
    expect((await replay()).stdout).toContain("step 2, prompt: the system prompt differs");
  });

  it("records no secret and no path of this machine", async () => {
    const { cwd, recording } = await recorded(({ results }) =>
      results.length === 0 ? [{ tool: "bash", input: { command: "echo $HOME; pwd" } }] : `done in ${cwdOf()}`,
    );
    function cwdOf() {
      return "the workspace";
    }
    const text = JSON.stringify(recording());
    expect(text).not.toContain(cwd);
    expect(text).not.toContain("test-key");
  });

  it.runIf(process.getuid?.() === 0)("warns that a workspace without access makes the replay differ", async () => {
    const { ran, replay } = await recorded(() => "done", { mode: 0o755 });
    expect(ran.stderr).toContain(
      "! the workspace was not writable, which its prompt says: give access to it and record again",
    );
    expect((await replay()).stdout).toContain("step 1, prompt: the system prompt differs");
  });

  it("explains what to record if there is nothing, and which file is not a recording", async () => {
    const cwd = temporaryFolder({ "skills/plain/SKILL.md": skillText("plain") });
    const none = await skillet(["test", "skills/plain"], { cwd });
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining("[eval-empty]")]);
    writeFileSync(join(temporaryFolder(), "x"), "");
    const bad = temporaryFolder({
      "skills/plain/SKILL.md": skillText("plain"),
      "skills/plain/evals/recorded/x.json": '{"kind": "other"}',
    });
    const { code, stderr } = await skillet(["test", "skills/plain"], { cwd: bad });
    expect([code, stderr]).toEqual([1, expect.stringContaining("is not a recorded run of `skillet run --record`")]);
  });
});
