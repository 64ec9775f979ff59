import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, writeFiles } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { openTerminal } from "../support/terminal.ts";
import { modelConfig } from "../support/use.ts";

const writes: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "written\n" } }];

/** One of the user's own skills, whose model follows these turns. */
async function scene(turns: readonly Turn[], more = ""): Promise<Place & { out: string }> {
  const at = createHome(
    { "home/.skillet/skills/writer/SKILL.md": skillText("writer", { more }) },
    modelConfig("openai", await startModelServer("openai", turns)),
  );
  return { ...at, out: join(at.project, "out.txt") };
}

/** Starts a run that waits, and returns its id. */
async function waiting(turns: readonly Turn[]): Promise<Place & { out: string; id: string }> {
  const at = await scene(turns);
  const { code, stderr } = await at.run(["run", "writer", "Write", "it"]);
  const [, id = ""] = /skillet approve (\S+) --resume/.exec(stderr) ?? [];
  expect([code, id]).toEqual([5, expect.stringMatching(/^\d{8}-\d{6}-[0-9a-f]{8}$/)]);
  return { ...at, id };
}

describe("a run without a user to ask", () => {
  it("waits with exit 5, has changed nothing, and reports the reason and how to continue", async () => {
    const { run, out } = await scene([writes]);
    const { code, stdout, stderr } = await run(["run", "writer", "Write", "it"]);
    expect([code, stdout, existsSync(out)]).toEqual([5, "", false]);
    expect(stderr).toMatch(/! approval needed: write_file: .*out\.txt/);
    expect(stderr).toMatch(/skillet approve \S+ --resume {2}approves it and resumes the run/);
    expect(stderr).toMatch(/skillet runs show \S+ {2}shows the request and the steps so far/);
  });

  it("reports the same in JSON", async () => {
    const { run } = await scene([writes, writes]);
    const { code, stdout } = await run(["run", "writer", "--json"]);
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toMatchObject({
      stop: "waiting",
      approvalRequest: { tool: "write_file", on: "workspace", skill: "writer", source: "~/.skillet/skills" },
    });
    const quiet = await run(["run", "writer", "--quiet"]);
    expect([quiet.code, quiet.stderr]).toEqual([5, expect.stringContaining("skillet approve")]);
  });

  it("is denied with --no-wait, and its model reads that", async () => {
    const { run, out } = await scene([
      writes,
      ({ results }) => {
        expect(results.at(-1)?.content).toContain("no user to ask: this is not a terminal");
        return "I could not.";
      },
    ]);
    const { code, stdout } = await run(["run", "writer", "--no-wait"]);
    expect([code, stdout, existsSync(out)]).toEqual([0, "I could not.\n", false]);
  });

  it("continues when changes in the workspace were approved beforehand", async () => {
    const { run, out } = await scene([writes, () => "Done."]);
    const { code, stdout } = await run(["run", "writer", "--yes"]);
    expect([code, stdout, readFileSync(out, "utf8")]).toEqual([0, "Done.\n", "written\n"]);
  });
});

describe("skillet approve", () => {
  it("stores the approval, and resume continues without asking the model again", async () => {
    const { run, out, id } = await waiting([writes, () => "Done."]);
    const approved = await run(["approve", id, "--yes"]);
    expect([approved.code, existsSync(out)]).toEqual([0, false]);
    expect(approved.stderr).toContain("wants to change files in the workspace");
    expect(approved.stderr).toContain("│ path: out.txt");
    expect(approved.stderr).toContain(`✓ approved for this run: ${id}`);
    const { code, stdout, stderr } = await run(["resume", id.slice(-8)]);
    expect([code, stdout, readFileSync(out, "utf8")]).toEqual([0, "Done.\n", "written\n"]);
    expect(stderr).toContain("· resuming writer Write it");
    const shown = (await run(["runs", "show", id])).stdout;
    expect(shown).toMatch(/writer requests write_file: .* yes, for this run/);
    expect(shown).toContain("resumed by process");
    expect(shown).toMatch(/write_file out\.txt .*ok/);
  });

  it("shows the same as `runs show`: the whole input, like the question", async () => {
    const { run, id } = await waiting([writes]);
    const { stdout } = await run(["runs", "show", id]);
    expect(stdout).toMatch(
      /\n\? write_file wants to change files in the workspace\n {2}what .*\n(?: {2}.*\n)* {2}asked by {2}writer .*\n {2}input\n {2}│ path: out\.txt\n {2}│ content: written\n/,
    );
    await run(["approve", id, "--yes"]);
    expect((await run(["runs", "show", id])).stdout).not.toContain("│ path");
  });

  it("continues at once with --resume", async () => {
    const { run, out, id } = await waiting([writes, () => "Done."]);
    const { code, stdout } = await run(["approve", id, "--resume", "--yes"]);
    expect([code, stdout, existsSync(out)]).toEqual([0, "Done.\n", true]);
  });

  it("denies with a reason that the model reads", async () => {
    const { run, out, id } = await waiting([
      writes,
      ({ results }) => {
        expect(results.at(-1)?.content).toContain("was not approved");
        expect(results.at(-1)?.content).toContain("ask Ann first");
        return "Ann must be asked.";
      },
    ]);
    const { code, stdout } = await run(["approve", id, "--deny", "ask Ann first", "--resume"]);
    expect([code, stdout, existsSync(out)]).toEqual([0, "Ann must be asked.\n", false]);
    expect((await run(["runs", "show", id])).stdout).toContain("no: ask Ann first");
  });

  it("applies once to a waiting run, and not to one that was canceled, has ended or does not exist", async () => {
    const { run, id } = await waiting([writes]);
    expect((await run(["approve", id, "--yes"])).code).toBe(0);
    const twice = await run(["approve", id]);
    expect([twice.code, twice.stderr]).toEqual([
      1,
      `✗ Run ${id} already has its answer  [no-pending-approval]\n  run: skillet resume ${id}\n`,
    ]);
    expect((await run(["cancel", id])).stdout).toBe(`✓ cancelled: ${id}\n`);
    expect(await run(["approve", id])).toMatchObject({ code: 1, stderr: expect.stringContaining("was cancelled") });
    expect(await run(["resume", id])).toMatchObject({ code: 1, stderr: expect.stringContaining("was cancelled") });
    expect(await run(["cancel", id])).toMatchObject({ code: 1, stderr: expect.stringContaining("already") });
    for (const args of [
      ["approve", "nobody"],
      ["resume", "nobody"],
      ["cancel", "nobody"],
      ["runs", "show", "nobody"],
    ])
      expect(await run(args)).toMatchObject({ code: 1, stderr: expect.stringContaining("Unknown run nobody") });
  });

  it("can approve a skill permanently, until that is revoked", async () => {
    const { run, id } = await waiting([writes, () => "1", writes, () => "2", writes]);
    expect((await run(["approve", id, "--always", "--resume", "--yes"])).stdout).toBe("1\n");
    const listed = await run(["approve"]);
    expect(listed.stdout).toMatch(/✓ always: writer {2}changes in \S+\/project {2}~\/\.skillet\/skills\/writer/);
    expect(listed.stderr).toContain("no run is waiting for approval");
    expect((await run(["run", "writer"])).stdout).toBe("2\n");
    expect((await run(["approve", "--forget", "writer"])).stdout).toBe("✓ writer needs approval again\n");
    expect((await run(["approve", "--forget", "writer"])).code).toBe(1);
    expect((await run(["run", "writer"])).code).toBe(5);
    const again = await run(["approve"]);
    expect(again.stdout).toMatch(/approval needed: write_file.*\n {2}input: path: out\.txt, content: written\n/);
    expect(JSON.parse((await run(["approve", "--json"])).stdout)).toMatchObject({
      waiting: [{ state: "waiting", skill: "writer" }],
      always: [],
    });
  });

  it("asks for confirmation on a terminal, and writes nothing if it is refused", async () => {
    const { run, id } = await waiting([writes]);
    const asked: string[] = [];
    const answering = (word: string) => ({
      ask: async (question: string) => {
        asked.push(question);
        return word;
      },
    });
    for (const more of [[], ["--json"]]) {
      const no = await run(["approve", id, ...more], answering("n"));
      expect([no.code, no.stderr]).toEqual([3, expect.stringContaining("is still waiting")]);
      expect(no.stderr, "users approve only what they are shown").toContain("│ content: written");
    }
    expect(asked).toEqual(Array(2).fill("Approve all file changes here, for the rest of the run? [y/N] "));
    expect((await run(["approve", id, "--yes"], answering("n"))).code).toBe(0);
    expect(asked).toHaveLength(2);
  });

  it("approves nothing when no user can be asked, unless --yes confirms it; a denial needs no confirmation", async () => {
    const { run, out, id } = await waiting([writes, () => "No."]);
    for (const more of [[], ["--resume"], ["--always"], ["--json"]]) {
      const { code, stdout, stderr } = await run(["approve", id, ...more]);
      const told = more.includes("--json") ? expect.stringContaining('"code": "not-confirmed"') : "";
      expect([code, stdout]).toEqual([3, told]);
      expect(stderr).toContain(
        `✗ Nothing was recorded, ${id} is still waiting: this is not a terminal  [not-confirmed]\n  review the request (skillet runs show ${id.slice(-8)}), then add --yes\n`,
      );
    }
    expect([existsSync(out), (await run(["approve"])).stdout]).toEqual([false, expect.stringContaining("waiting")]);
    expect((await run(["approve", id, "--deny", "no", "--resume"])).stdout).toBe("No.\n");
  });

  it("takes the last waiting run for `last`, not the run that started last", async () => {
    const { run, id } = await waiting([writes, () => "Nothing to do."]);
    expect((await run(["run", "writer", "Rest"])).code).toBe(0);
    expect((await run(["approve", "last", "--yes"])).stderr).toContain(`✓ approved for this run: ${id}`);
    expect((await run(["approve", "last", "--yes"])).stderr).toContain("has ended");
  });

  it("does not accept two answers at once", async () => {
    const { run, id } = await waiting([writes]);
    expect((await run(["approve", id, "--run", "--always"])).code).toBe(2);
    expect((await run(["approve", id, "--deny", "no", "--always"])).code).toBe(2);
    expect((await run(["approve", "--forget", "x", "--resume"])).code).toBe(2);
  });
});

/** One of the user's skills that sends messages, and records them with their keys. */
function addMailer(home: string, then = ""): void {
  const sent = JSON.stringify(join(home, "sent"));
  const toolset = `
    import { appendFileSync, existsSync } from "node:fs";
    import { Tool } from "skillet";
    export const Mailer = [
      Tool.define("send", {
        description: "Sends a mail.",
        parameters: { type: "object", properties: { to: { type: "string" } }, required: ["to"] },
        effect: ({ to }) => ({ on: "outside", what: "send a mail", where: to, amount: "1 mail", isReversible: false }),
        execute: async ({ to }, { key }) => {
          const isFirst = !existsSync(${sent});
          appendFileSync(${sent}, to + " " + key + "\\n");
          ${then}
          return "sent";
        },
      }),
    ];`;
  const more = "toolsets: [toolsets/index:Mailer]\n";
  writeFiles(join(home, ".skillet/skills/mailer"), {
    "SKILL.md": skillText("mailer", { more }),
    "toolsets/index.mjs": toolset,
  });
}

const sends =
  (to: string): Turn =>
  () => [{ tool: "mailer__send", input: { to } }];

describe("an effect of a tool outside the workspace", () => {
  it("needs approval each time, also with --yes, and happens once per approval", async () => {
    const turns = [sends("ann"), sends("bob"), () => "Sent."];
    const { run, home } = createHome({}, modelConfig("openai", await startModelServer("openai", turns)));
    addMailer(home);
    const sent = () => (existsSync(join(home, "sent")) ? readFileSync(join(home, "sent"), "utf8") : "");
    const first = await run(["run", "mailer", "--yes", "--json"]);
    const { run: id, approvalRequest: effect } = JSON.parse(first.stdout);
    expect([first.code, sent()]).toEqual([5, ""]);
    expect(effect).toMatchObject({ on: "outside", what: "send a mail", where: "ann", isReversible: false });
    const second = await run(["approve", id, "--resume", "--yes"]);
    expect(second.stderr).toMatch(/undo +not possible/);
    expect([second.code, sent()]).toEqual([5, expect.stringMatching(/^ann \S+\n$/)]);
    expect(second.stderr).toContain("! approval needed: mailer.send: send a mail (bob)\n");
    expect((await run(["runs"])).stdout).toContain("approval needed: mailer.send: send a mail (bob)\n");
    expect((await run(["runs", "show", id])).stdout).toContain("requests mailer.send: send a mail (ann) yes, once");
    const third = await run(["approve", id, "--run", "--resume", "--yes"]);
    expect([third.code, third.stdout]).toEqual([0, "Sent.\n"]);
    expect(sent()).toMatch(/^ann (\S+)\nbob (?!\1)\S+\n$/);
  });
});

describe("a call that was active when the program was killed", () => {
  it("is made again with the same idempotency key", async () => {
    const turns = [sends("ann"), () => "Sent."];
    const { run, home, project } = createHome({}, modelConfig("openai", await startModelServer("openai", turns)));
    addMailer(home, "if (isFirst) await new Promise(() => setInterval(() => {}, 1000));");
    const there = openTerminal(["run", "mailer"], { home, cwd: project });
    await there.sees("[n] no ");
    there.type("y\r");
    await expect.poll(() => existsSync(join(home, "sent"))).toBe(true);
    there.signal("SIGKILL");
    await there.ended;
    const { code, stdout } = await run(["resume", "last"], { ask: async () => "y" });
    expect([code, stdout]).toEqual([0, "Sent.\n"]);
    expect(readFileSync(join(home, "sent"), "utf8")).toMatch(/^ann (\S+)\nann \1\n$/);
  });
});

describe("a run at a terminal", () => {
  it("asks for approval there, once per run for changes in the workspace", async () => {
    const { run, out } = await scene([writes, writes, () => "Done."]);
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "y";
    };
    const { code, stdout } = await run(["run", "writer"], { ask });
    expect([code, stdout, existsSync(out)]).toEqual([0, "Done.\n", true]);
    expect(asked).toEqual(["[y] yes, for this run  [a] always in this folder  [n] no "]);
  });

  it("accepts a denial with a reason, and denies after three invalid answers", async () => {
    const refused: Turn = ({ results }) => {
      expect(results.at(-1)?.content).toContain("not today");
      return "No.";
    };
    const { run, out } = await scene([writes, refused, writes, () => "Nothing."]);
    const answers = ["n", "not today", "what?", "", "perhaps"];
    const ask = async () => answers.shift() ?? "y";
    expect((await run(["run", "writer"], { ask })).stdout).toBe("No.\n");
    const { stdout, stderr } = await run(["run", "writer"], { ask });
    expect([stdout, existsSync(out), answers]).toEqual(["Nothing.\n", false, []]);
    expect(stderr).toContain("no valid answer: not approved");
  });

  it("that waits asks when it is resumed there", async () => {
    const { run, out, id } = await waiting([writes, () => "Done."]);
    expect((await run(["resume", id])).code).toBe(5);
    expect((await run(["runs", "show", id])).stdout.match(/requests write_file/g)).toHaveLength(1);
    const { code, stdout } = await run(["resume", "last"], { ask: async () => "y" });
    expect([code, stdout, existsSync(out)]).toEqual([0, "Done.\n", true]);
  });
});
