import { chmodSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import type { Settings } from "../../src/config/settings.ts";
import { memoryNotes } from "../support/broker.ts";
import type { ModelRequest, Reply } from "../support/model-server.ts";
import { modelConfig, useScene } from "../support/use.ts";

const INVOKE = "skillet-sb capability invoke -c notes.notes -o list";
const GIVEN = '[skills.x]\ncapabilities = ["notes.notes"]\n';
const CALLER = { userId: "ada", chatType: "private", chatId: "7" };
const bash = (command: string, more: object = {}) => [{ tool: "bash", input: { command, ...more } }];

/** Replaces a configuration file, and waits until the change is read. */
function configureNow(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  chmodSync(`${file}.new`, 0o600);
  renameSync(`${file}.new`, file);
  // A file that just changed may be incomplete, and is read a moment later.
  while (Date.now() - statSync(file).ctimeMs < 200) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
}

/** Runs skill `x` with a model that makes these calls in turn. Returns the answers and a way to change the configuration meanwhile. */
async function underWay(turns: readonly ((configure: (config: string) => void) => Reply)[]) {
  const answers: string[] = [];
  let file = "";
  let model = "";
  const configure = (config: string) => configureNow(file, `${model}\n${config}`);
  const made = await useScene({
    skills: { x: { more: "capabilities: [notes.notes]\n" }, y: {} },
    config: GIVEN,
    turns: turns.map((turn) => ({ results }) => {
      const last = results.at(-1);
      if (last) answers.push(last.content);
      return turn(configure);
    }),
  });
  file = join(made.found.home, "config.toml");
  model = modelConfig("openai", made.server);
  const notes = memoryNotes();
  const capabilities = createCapabilities({ ...made.found, providers: [notes.provider] });
  const approve = async () => ({ isApproved: true });
  const host = { capabilities, approve, caller: CALLER };
  return { ...made, notes, answers, configure, run: () => made.use({ skill: "x" }, host) };
}

describe("an active run", () => {
  it("[Q-19] is refused an ungranted capability at its next call, and has it again after a new grant", async () => {
    const { run, answers, notes } = await underWay([
      () => bash(INVOKE),
      (configure) => {
        configure("");
        return bash(INVOKE);
      },
      (configure) => {
        configure(GIVEN);
        return bash(INVOKE);
      },
      () => "done",
    ]);
    const { result } = await run();
    expect(result).toMatchObject({ stop: "answer", isError: false });
    expect(answers[0]).toContain("label: untrusted");
    expect(answers[1]).toContain("capability-not-granted");
    expect(answers[2]).toContain("label: untrusted");
    expect(notes.asked, "the provider").toHaveLength(2);
  });

  it("[S-10] makes no further call when its skill is disabled, not even from a command that was started before", async () => {
    const wait = "while [ ! -e /workspace/go ]; do sleep 0.05; done";
    const scene = await underWay([
      () => bash(`${INVOKE}; touch /workspace/ready; ${wait}; ${INVOKE}`, { writes: true }),
      () => bash("echo still here"),
      () => [{ tool: "use_skill", input: { skill: "y", message: "Go." } }],
      () => "done",
    ]);
    const running = scene.run();
    const project = scene.found.workspace;
    await vi.waitFor(() => expect(existsSync(join(project, "ready"))).toBe(true), { timeout: 45_000 });
    scene.configure(`${GIVEN}enabled = false\n`);
    writeFileSync(join(project, "go"), "");
    const { result, events } = await running;
    expect(result, "it may still answer").toMatchObject({ stop: "answer", content: "done" });
    expect(scene.answers[0]).toMatch(/label: untrusted[\s\S]*code: disabled/);
    expect(scene.answers.slice(1)).toEqual([
      expect.stringContaining("Skill 'x' is disabled in the configuration"),
      expect.stringContaining("Skill 'x' is disabled in the configuration"),
    ]);
    expect(scene.notes.asked).toHaveLength(1);
    expect(events.flatMap((event) => (event.type === "tool-blocked" ? event.code : []))).toEqual([
      "disabled",
      "disabled",
    ]);
  });

  it("[S-10] makes no further call, nor asks a provider, when the skill of its parent run is disabled", async () => {
    const scene = await useScene({
      skills: {
        outer: { more: "allowed_tools: [use_skill, bash]\n" },
        middle: { more: "allowed_tools: [use_skill, bash]\n" },
        x: { more: "capabilities: [notes.notes]\n" },
      },
      config: GIVEN,
      turns: (request) => turn(request),
    });
    const file = join(scene.found.home, "config.toml");
    const before = readFileSync(file, "utf8");
    const notes = memoryNotes();
    const capabilities = createCapabilities({ ...scene.found, providers: [notes.provider] });
    const answers: string[] = [];
    const goOn = (skill: string) => [{ tool: "use_skill", input: { skill, message: "Go." } }];
    const ofInner: readonly (() => Reply)[] = [
      () => bash(INVOKE),
      () => {
        configureNow(file, `${before}\n[skills.outer]\nenabled = false\n`);
        return bash(INVOKE);
      },
      () => bash("echo still here"),
      () => {
        configureNow(file, before);
        return bash("echo here again");
      },
      () => "done",
    ];
    let at = 0;
    const turn = ({ instructions, results }: ModelRequest): Reply => {
      if (instructions.includes("Do outer.")) return results.length > 0 ? "outer is done" : goOn("middle");
      if (instructions.includes("Do middle.")) return results.length > 0 ? "middle is done" : goOn("x");
      const last = results.at(-1);
      if (last) answers.push(last.content);
      return ofInner[at++]?.() ?? "done";
    };
    const approve = async () => ({ isApproved: true });
    const { result } = await scene.use({ skill: "outer" }, { capabilities, approve, caller: CALLER });
    expect(result, "each may still answer").toMatchObject({ stop: "answer", content: "outer is done" });
    expect(answers[0]).toContain("label: untrusted");
    expect(answers.slice(1, 3)).toEqual([
      expect.stringContaining("Skill 'outer' is disabled in the configuration"),
      expect.stringContaining("Skill 'outer' is disabled in the configuration"),
    ]);
    expect(answers[3], "and has it again when it is enabled").toContain("here again");
    expect(notes.asked, "the provider").toHaveLength(1);
  });

  it("[S-10] has a command that it started before refused by the broker when the parent run is disabled", async () => {
    const scene = await useScene({
      skills: { outer: { more: "allowed_tools: [use_skill, bash]\n" }, x: { more: "capabilities: [notes.notes]\n" } },
      config: GIVEN,
      turns: ({ instructions, results }) => {
        if (instructions.includes("Do outer."))
          return results.length > 0 ? "done" : [{ tool: "use_skill", input: { skill: "x", message: "Go." } }];
        const last = results.at(-1);
        if (last) answers.push(last.content);
        const wait = "while [ ! -e /workspace/go ]; do sleep 0.05; done";
        return last ? "done" : bash(`${INVOKE}; touch /workspace/ready; ${wait}; ${INVOKE}`, { writes: true });
      },
    });
    const answers: string[] = [];
    const { home, workspace } = scene.found;
    const notes = memoryNotes();
    const capabilities = createCapabilities({ ...scene.found, providers: [notes.provider] });
    const approve = async () => ({ isApproved: true });
    const running = scene.use({ skill: "outer" }, { capabilities, approve, caller: CALLER });
    await vi.waitFor(() => expect(existsSync(join(workspace, "ready"))).toBe(true), { timeout: 45_000 });
    const file = join(home, "config.toml");
    configureNow(file, `${readFileSync(file, "utf8")}\n[skills.outer]\nenabled = false\n`);
    writeFileSync(join(workspace, "go"), "");
    expect((await running).result).toMatchObject({ stop: "answer" });
    expect(answers[0]).toMatch(/label: untrusted[\s\S]*code: disabled/);
    expect(notes.asked).toHaveLength(1);
  });

  it("calls no tool, and uses no skill, that is disabled meanwhile", async () => {
    const { run, answers } = await underWay([
      () => bash("echo one"),
      (configure) => {
        configure('[tools]\ndisabled = ["bash"]\n[skills.y]\nenabled = false\n');
        return bash("echo two");
      },
      () => [{ tool: "use_skill", input: { skill: "y", message: "Go." } }],
      () => "done",
    ]);
    await run();
    expect(answers[0]).toContain("one");
    expect(answers[1]).toContain("Tool 'bash' is disabled in the configuration");
    expect(answers[2]).toContain("Skill 'y' is disabled in the configuration");
  });
});

describe("settings that a program passes", () => {
  it("stay those of its run, whatever the configuration files contain meanwhile", async () => {
    const scene = await underWay([() => bash(INVOKE), () => "done"]);
    const settings: Settings = { ...scene.found.settings };
    const capabilities = createCapabilities({ ...scene.found, settings, providers: [scene.notes.provider] });
    scene.configure("[skills.x]\nenabled = false\n");
    expect(scene.found.settings.skills.get("x")?.enabled, "files that are followed").toBe(false);
    const { result } = await scene.use({ skill: "x" }, { settings, capabilities, caller: CALLER });
    expect(result).toMatchObject({ stop: "answer", content: "done" });
    expect(scene.answers[0]).toContain("label: untrusted");
  });
});
