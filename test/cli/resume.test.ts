import { appendFileSync, existsSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createRunStore } from "../../src/store/runs.ts";
import { skillText } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { openTerminal } from "../support/terminal.ts";
import { modelConfig } from "../support/use.ts";

async function withModel(turns: readonly Turn[], files: Record<string, string>): Promise<Place> {
  return createHome(files, modelConfig("openai", await startModelServer("openai", turns)));
}

const own = (name: string) => ({ [`home/.skillet/skills/${name}/SKILL.md`]: skillText(name) });

describe("skillet resume", () => {
  const hangsOnce = "echo two >>log; if [ -e hung ]; then exit 0; fi; touch hung; sleep 60";
  const bash =
    (command: string): Turn =>
    () => [{ tool: "bash", input: { command, writes: true } }];

  it("continues a killed run without repeating finished steps", async () => {
    const spot = await withModel([bash("echo one >>log"), bash(hangsOnce), () => "Done."], own("x"));
    const there = openTerminal(["run", "x", "--yes"], { home: spot.home, cwd: spot.project });
    await expect.poll(() => existsSync(join(spot.project, "hung"))).toBe(true);
    there.signal("SIGKILL");
    await there.ended;
    const runs = createRunStore(join(spot.home, ".skillet"));
    const { id, state } = await runs.find("last");
    expect([state, existsSync(join(spot.home, ".skillet/runs", `${id}.owner`))]).toEqual(["interrupted", true]);
    const { code, stdout } = await spot.run(["resume", "last", "--yes"]);
    expect([code, stdout]).toEqual([0, "Done.\n"]);
    expect(readFileSync(join(spot.project, "log"), "utf8")).toBe("one\ntwo\ntwo\n");
    const shown = (await spot.run(["runs", "show", "last"])).stdout;
    expect(shown.match(/echo one/g)).toHaveLength(1);
    expect(shown).toMatch(/bash echo two .* not finished\n/);
    expect(shown).toMatch(/bash echo two .* ok .*again: it was started before\n/);
  });

  it("keeps a run that Ctrl-C stopped resumable, however often", async () => {
    const spot = await withModel([bash("touch here; sleep 60")], own("x"));
    const interrupted = async (...args: string[]) => {
      const stop = new AbortController();
      const running = spot.run([...args, "--yes"], { signal: stop.signal });
      await expect.poll(() => existsSync(join(spot.project, "here"))).toBe(true);
      stop.abort();
      rmSync(join(spot.project, "here"));
      return running;
    };
    const first = await interrupted("run", "x");
    const [, id = ""] = /skillet resume (\S+) {2}resumes the run/.exec(first.stderr) ?? [];
    expect([first.code, id]).toEqual([130, expect.stringContaining("-")]);
    const second = await interrupted("resume", id);
    expect([second.code, second.stderr]).toEqual([130, expect.stringContaining(`skillet resume ${id}`)]);
    const runs = createRunStore(join(spot.home, ".skillet"));
    expect((await runs.find(id)).state).toBe("interrupted");
    expect((await spot.run(["cancel", id])).code).toBe(0);
  });

  it("continues in the original workspace, and reports it when it is gone", async () => {
    const write: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "x" } }];
    const spot = await withModel([write, () => "Done."], own("x"));
    expect((await spot.run(["run", "x"])).code).toBe(5);
    const elsewhere = { cwd: spot.home };
    renameSync(spot.project, `${spot.project}-moved`);
    const gone = await spot.run(["resume", "last"], elsewhere);
    expect([gone.code, gone.stderr]).toEqual([1, expect.stringContaining("which no longer exists")]);
    renameSync(`${spot.project}-moved`, spot.project);
    expect((await spot.run(["approve", "last", "--resume", "--yes"], elsewhere)).stdout).toBe("Done.\n");
    expect(existsSync(join(spot.project, "out.txt"))).toBe(true);
    const ended = await spot.run(["resume", "last"]);
    expect([ended.code, ended.stdout]).toEqual([1, ""]);
    expect(ended.stderr).toMatch(
      /✗ Run \S+ has ended {2}\[run-ended\]\n {2}to see its result: skillet runs show \w{8}\n/,
    );
  });

  it("continues a chat with its messages, for programs too", async () => {
    const use: Turn = () => [{ tool: "use_skill", input: { skill: "x", message: "write" } }];
    const write: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "x" } }];
    const spot = await withModel([use, write, () => "Written.", () => "It is written."], own("x"));
    const waits = await spot.run(["chat", "write", "it"]);
    expect(waits.code).toBe(5);
    expect(waits.stderr).toContain("skillet approve");
    const listed = await spot.run(["runs"]);
    expect(listed.stdout).toMatch(/chat {2}waiting/);
    expect((await spot.run(["approve", "last", "--yes"])).code).toBe(0);
    const { code, stdout } = await spot.run(["resume", "last", "--json"]);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ content: "It is written.", stop: "answer" });
    const shown = (await spot.run(["runs", "show", "last"])).stdout;
    expect(shown).toMatch(/\n +\+\S+ s {4}x with /);
    rmSync(join(spot.project, "out.txt"));
  });

  it("continues with another model on request", async () => {
    const spot = await withModel([() => ({ status: 400, message: "no" })], own("x"));
    expect((await spot.run(["run", "x"])).code).toBe(1);
    const other = modelConfig("openai", await startModelServer("openai", [() => "By another."]));
    appendFileSync(spot.config, `\n${other.replace("[models.default]", "[models.other]")}`);
    expect(await spot.run(["resume", "last", "-m", "other"])).toMatchObject({ code: 0, stdout: "By another.\n" });
  });

  it("explains the fix when the skill is gone", async () => {
    const spot = await withModel([() => ({ status: 400, message: "no" })], own("x"));
    expect((await spot.run(["run", "x"])).code).toBe(1);
    rmSync(join(spot.home, ".skillet/skills/x"), { recursive: true });
    const { code, stderr } = await spot.run(["resume", "last"]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^✗ Run \S+ uses skill 'x', which was not found {2}\[run-skill-missing\]\n {2}restore it .*, or cancel the run: skillet cancel \w{8}\n$/,
    );
    const data = await spot.run(["resume", "last", "--json"]);
    expect(JSON.parse(data.stdout)).toMatchObject({ stop: "refused", refusals: [{ code: "not-found" }] });
  });

  it("explains the options for a run that failed", async () => {
    const spot = await withModel([() => ({ status: 400, message: "no" })], own("x"));
    const { code, stderr } = await spot.run(["run", "x"]);
    expect(code).toBe(1);
    expect(stderr).toMatch(/skillet resume \S+ {2}resumes the run/);
  });
});
