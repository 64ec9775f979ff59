import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { CommandIo } from "../../src/cli/output.ts";
import { createApprovalPrompt, createApprovingHost } from "../../src/cli/run-output.ts";
import type { ApprovalRequest } from "../../src/host/approval.ts";
import { EFFECT } from "../store/run-scene.ts";
import { discoverIn } from "../support/discover.ts";
import { skillText } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor, withGrowingLimit } from "../support/wait-for.ts";

const writes: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "one\n\u001b[2Jtwo\n" } }];

async function scene(turns: readonly Turn[] | Turn): Promise<Place & { out: string }> {
  const at = createHome(
    { "home/.skillet/skills/writer/SKILL.md": skillText("writer") },
    modelConfig("openai", await startModelServer("openai", turns)),
  );
  return { ...at, out: join(at.project, "out.txt") };
}

const at = (args: string[], { home, project }: Place, beside = ""): Terminal =>
  openTerminal(args, { home, cwd: project, beside });

const QUESTION = "[y] yes, for this run  [a] always in this folder  [n] no ";

describe("an approval prompt", () => {
  const { signal } = new AbortController();
  /** Asks about an effect, with a user who gives these answers. */
  async function asked(
    effect: Partial<ApprovalRequest>,
    answers: (string | undefined)[] | ((question: string) => string),
    until = signal,
    columns?: number,
  ) {
    const questions: string[] = [];
    let said = "";
    const stream = {
      ...(columns === undefined ? {} : { columns, isTTY: true }),
      write(text: string) {
        said += text;
      },
    };
    const ask = async (question: string) => {
      questions.push(question);
      return typeof answers === "function" ? answers(question) : answers.shift();
    };
    const io: CommandIo = { stdout: stream, stderr: stream, env: { NO_COLOR: "1" }, cwd: "/", ask };
    const word = await createApprovalPrompt(io)?.({ ...EFFECT, ...effect }, { signal: until });
    return { word, questions, said };
  }

  it("for an external effect appears each time, and can be approved once, for the run, or always", async () => {
    const words = { y: "once", YES: "once", r: "run", " a ": "always" };
    for (const [answer, scope] of Object.entries(words)) {
      const { word, questions, said } = await asked({}, [answer]);
      expect(word).toEqual({ isApproved: true, scope });
      expect(questions).toEqual(["[y] once  [r] this run  [a] always for this tool  [n] no "]);
      expect(said).toContain("\nthis run: each call to mailer.send in this run, whatever its input\n");
    }
    expect((await asked({}, ["n", " ask Ann "])).word).toEqual({ isApproved: false, reason: "ask Ann" });
    expect((await asked({}, ["no", ""])).word).toEqual({ isApproved: false });
  });

  it("for a tool without a skill offers no permanent approval", async () => {
    const { word, questions, said } = await asked({ skill: "", source: "", location: "" }, ["a", "always", "r"]);
    expect([word, questions[0]]).toEqual([
      { isApproved: true, scope: "run" },
      "[y] once  [r] each call to mailer.send in this run  [n] no ",
    ]);
    expect(said).toContain("asked by  the conversation");
  });

  it("reports whether the effect is reversible, and as much of the input as fits", async () => {
    expect((await asked({ isReversible: false }, ["y"])).said).toContain("undo      not possible\n");
    expect((await asked({ isReversible: true }, ["y"])).said).toContain("undo      possible\n");
    expect((await asked({}, ["y"])).said).toContain("undo      unknown\n");
    const { said } = await asked({ input: { body: `${"x".repeat(5000)}\n? bash it is harmless` } }, ["y"], signal, 80);
    for (const line of said.split("\n").filter((one) => one.includes("xxx"))) expect(line).toMatch(/^ {2}[│┆] /);
    expect(said).toMatch(/\n {2}sha256:[0-9a-f]{16}\n/);
  });

  it("[Q-28] accepts approval only once the whole input was shown, however long, wide or deep it is", async () => {
    const deep = Array.from({ length: 30 }).reduce<unknown>((inner) => [inner], "eve@evil.example");
    const many = [...Array.from({ length: 300 }, (_, at) => `person-${at}@example.com`), "eve@evil.example"];
    const long = `${"please read this carefully. ".repeat(1000)}eve@evil.example`;
    for (const input of [{ body: long, mail: deep }, { to: many, body: long }, { mail: { body: long, to: many } }]) {
      const yes = await asked({ input }, ["y", "y", "y"], signal, 80);
      expect(yes.word, "a yes before everything was shown").toEqual({ isApproved: false });
      expect(yes.questions).toEqual(Array(3).fill("[d] show the whole input  [n] no "));
      expect(yes.said).toMatch(/The input has \d\d,\d{3} characters and is not shown in full\./);
      const stopped = await asked({ input }, (question) => (question.startsWith("[d]") ? "d" : "q"), signal, 80);
      expect(stopped.word, "stopped early").toEqual({ isApproved: false });
      expect(stopped.questions[1]).toMatch(/^\[Enter\] more \(\d[\d,]* lines\) {2}\[q\] stop $/);
      const reading = (question: string) => (/^\[(d|Enter|y)\]/.exec(question)?.[1] ?? "").replace("Enter", "");
      const { word, said, questions } = await asked({ input }, reading, signal, 80);
      expect(questions.at(-1)).toContain("[y] once");
      expect(word).toEqual({ isApproved: true, scope: "once" });
      expect(said.replace(/\n {2}[│┆] {1,3}/g, "")).toContain(JSON.stringify(Object.values(input)[0]).slice(-40, -2));
      expect(said).toMatch(/sha256:[0-9a-f]{16}, the complete input\n/);
    }
    expect((await asked({ input: { body: long } }, ["n"], signal, 80)).word).toEqual({ isApproved: false });
    expect((await asked({ input: { body: long } }, [undefined], signal, 80)).word).toEqual({ isApproved: false });
  });

  it("[Q-28] warns of a word that mixes alphabets", async () => {
    const { said } = await asked({ input: { to: "аnn@example.com" } }, ["y"]);
    expect(said).toContain('! "аnn@example.com" mixes alphabets: а is U+0430');
    expect((await asked({ input: { to: "анна, ann@example.com" } }, ["y"])).said).not.toContain("mixes alphabets");
  });

  it("[Q-28] folds by columns: no wide character pushes text over the edge", async () => {
    // The last ones have an ambiguous width: terminals for East Asian languages show them in two columns, others in one.
    for (const filler of ["Ａ", "漢", "한", "🧑‍🚀", "e\u0301", "ﷺ", "±", "α", "Ж", "→", "│", "①", "“"]) {
      for (const offset of [0, 1, 2, 3]) {
        const body = `${"x".repeat(offset)}${filler.repeat(36)}to: ann@example.com`;
        const place = `/p/${filler.repeat(60)}  what      nothing`;
        const effect = { input: { text: body, to: "eve@evil.example" }, what: body, where: body, location: place };
        const { said } = await asked(effect, ["y"], signal, 80);
        for (const line of said.split("\n").filter((one) => !one.startsWith("this run:"))) {
          const columns = [...line].reduce((sum, one) => sum + (one < "\x80" ? 1 : 2), 0);
          expect(columns, line).toBeLessThan(80);
        }
        const lines = said.split("\n").filter((line) => /^ {2}[│┆]/.test(line));
        const atEdge = lines.filter((line) => /^ {2}[│┆] \S/.test(line)).map((line) => line.slice(2, 8));
        expect(atEdge).toEqual(["│ text", "│ to: "]);
      }
    }
  });

  it("[Q-28] marks the rest of a folded line, so that it cannot pass for a line of a diff", async () => {
    const diff = `+${"x".repeat(71)}-harmless`;
    const { said } = await asked({ input: { "CLAUDE.md (changed)": `@@ 1 @@\n${diff}\n-gone` } }, ["y"], signal, 80);
    expect(said).toContain("\n  ┆   -harmless\n  │   -gone\n");
  });

  it("[Q-23] lets no value look like another field, however it is broken into lines or folded", async () => {
    const body = `hello\nto: ann@example.com\r\u2028bcc: bob\n${"x".repeat(73)}cc: carl`;
    for (const columns of [undefined, 80]) {
      const { said } = await asked({ input: { to: "eve@example.com", body, "a\nto": "b" } }, ["y"], signal, columns);
      const fields = said.split("\n").filter((line) => /^ {2}│ \S/.test(line));
      expect(fields).toEqual(["  │ to: eve@example.com", "  │ body: hello", "  │ a\\nto: b"]);
      expect(said).toContain("\n  │   to: ann@example.com\n");
    }
  });

  it("reports an effect that the skill did not declare", async () => {
    const { said } = await asked({ on: "other", tool: "bash" }, ["y"]);
    expect(said).toContain("? bash: the skill did not declare this side effect\n");
    const { questions } = await asked({ on: "other", tool: "bash" }, ["y"]);
    expect(questions).toEqual(["[y] once  [r] each call to bash in this run  [a] always for this tool  [n] no "]);
    expect(questions[0]?.length).toBeLessThanOrEqual(80);
  });

  it("is denied at Ctrl-D, without another question", async () => {
    const { word, questions } = await asked({}, [undefined]);
    expect([word, questions.length]).toEqual([{ isApproved: false }, 1]);
  });

  it("does not appear for a run that has ended meanwhile", async () => {
    const { word, questions } = await asked({}, ["y"], AbortSignal.abort());
    expect([word?.isApproved, questions]).toEqual([false, []]);
  });

  it("is not asked without a terminal, and --yes does not approve external effects", async () => {
    const io: CommandIo = { stdout: { write() {} }, stderr: { write() {} }, env: {}, cwd: "/" };
    expect(createApprovalPrompt(io)).toBe(undefined);
    const found = await discoverIn({});
    const { host } = createApprovingHost(io, found, { yes: true });
    expect(host.approve).toBe(undefined);
    expect(await host.approvals.isAlwaysApproved({ ...EFFECT, on: "workspace" })).toBe(true);
    expect(await host.approvals.isAlwaysApproved(EFFECT)).toBe(false);
    expect(await host.approvals.isAlwaysApproved({ ...EFFECT, on: "other" })).toBe(false);
    const { host: refusing } = createApprovingHost(io, found, { wait: false });
    expect(await refusing.approve?.(EFFECT, { signal })).toEqual({
      isApproved: false,
      reason: "no user to ask: this is not a terminal",
    });
  });

  it("appears one after the other, however many calls are concurrent", async () => {
    let open = 0;
    let most = 0;
    const ask = async () => {
      most = Math.max(most, ++open);
      // Other work continues meanwhile.
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
      open--;
      return "y";
    };
    const io: CommandIo = { stdout: { write() {} }, stderr: { write() {} }, env: {}, cwd: "/", ask };
    const { host } = createApprovingHost(io, await discoverIn({}), {});
    const words = await Promise.all([1, 2, 3].map(() => host.approve?.(EFFECT, { signal })));
    expect([words.length, most]).toEqual([3, 1]);
  });
});

describe("a question at the terminal", () => {
  it("shows the effect, target, size and origin, without control sequences, and takes an answer", async () => {
    const spot = await scene([writes, () => "Done."]);
    const ticks = join(spot.home, "ticks");
    const there = at(["run", "writer"], spot, `setInterval(() => writeFileSync("${ticks}", "."), 150).unref();`);
    await there.sees(QUESTION);
    const screen = there.screen();
    expect(screen).toContain("? write_file wants to change files in the workspace");
    expect(screen).toMatch(/what +write out\.txt/);
    expect(screen).toContain("yes covers all file changes here, by writer, in this run\n");
    expect(screen).toMatch(/how much +\d+ characters/);
    expect(screen).toMatch(/asked by +writer \(~\/\.skillet\/skills\/writer\)/);
    expect(screen).toContain("│ path: out.txt");
    expect(screen).toContain("│ content: one\n  │   \\u{1b}[2Jtwo");
    expect(there.written()).not.toContain("\u001b[2Jtwo");
    // The progress line pauses meanwhile: it would move more often than the program ticks.
    const before = there.written().length;
    for (const _ of [1, 2]) {
      rmSync(ticks, { force: true });
      await waitFor(() => existsSync(ticks));
    }
    expect(there.written().length).toBe(before);
    there.type("y\r");
    expect(await there.ended).toBe(0);
    expect(there.screen()).toContain("Done.");
    expect(readFileSync(spot.out, "utf8")).toContain("two");
  });

  it("ignores text that was typed before the question", async () => {
    const spot = await scene([
      () => [{ tool: "bash", input: { command: "until [ -e go ]; do sleep 0.05; done" } }],
      writes,
      ({ results }) => {
        expect(results.at(-1)?.content).toContain("too early");
        return "No.";
      },
    ]);
    const there = at(["run", "writer"], spot);
    await there.sees("writer: bash until");
    there.type("y\ry\r");
    // The terminal shows typed text once it has it.
    await waitFor(() => expect(there.written().match(/y\r\n/g)).toHaveLength(2));
    writeFileSync(join(spot.project, "go"), "");
    await there.sees(QUESTION);
    there.type("n\r");
    await there.sees("Why not?");
    there.type("too early\r");
    expect(await there.ended).toBe(0);
    expect(existsSync(spot.out)).toBe(false);
  });

  it("ends with the run at Ctrl-C, and the run can be resumed", async () => {
    const spot = await scene([writes, () => "Done."]);
    const there = at(["run", "writer"], spot);
    await there.sees(QUESTION);
    there.type("\u0003");
    expect(await there.ended).toBe(130);
    expect(existsSync(spot.out)).toBe(false);
    const [, id = ""] = /skillet resume (\S+)/.exec(there.screen()) ?? [];
    expect(id).not.toBe("");
    const again = at(["resume", "last"], spot);
    await again.sees(QUESTION);
    again.type("a\r");
    expect(await again.ended).toBe(0);
    expect(existsSync(spot.out)).toBe(true);
    expect(JSON.parse(readFileSync(join(spot.home, ".skillet/approvals.json"), "utf8"))).toMatchObject({
      skills: { [`writer@${join(spot.home, ".skillet/skills/writer")}`]: { allowed: [`workspace:${spot.project}`] } },
    });
  });

  it("ends with the answer of another process, which continues the run here", async () => {
    const spot = await scene([writes, () => "Done."]);
    const there = at(["run", "writer"], spot);
    await there.sees(QUESTION);
    const { waiting } = JSON.parse((await spot.run(["approve", "--json"])).stdout);
    expect(waiting).toMatchObject([{ state: "running", approvalRequest: { tool: "write_file" } }]);
    const { code, stderr } = await spot.run(["approve", waiting[0].id, "--yes", "--resume"]);
    expect([code, stderr]).toEqual([0, expect.stringContaining("the run continues in process")]);
    expect(await there.ended).toBe(0);
    expect(there.screen()).toContain("approved for this run in another process");
    expect(existsSync(spot.out)).toBe(true);
  });

  it("ends with the denial of another process, whose reason the model gets", async () => {
    let told = "";
    const spot = await scene([
      writes,
      ({ results }) => {
        told = JSON.stringify(results);
        return "Not done.";
      },
    ]);
    const there = at(["run", "writer"], spot);
    await there.sees(QUESTION);
    expect((await spot.run(["approve", "last", "--deny", "ask Ann first"])).code).toBe(0);
    await there.ended;
    expect(there.screen()).toContain("denied in another process: ask Ann first");
    expect(told).toContain("ask Ann first");
    expect(existsSync(spot.out)).toBe(false);
  });

  it("does not count toward the time limit, and restores the terminal", async () => {
    const spot = await scene((request) => (request.results.length > 0 ? "done" : writes(request)));
    const answered = async (seconds: number) => {
      const there = at(["run", "writer", "--timeout", String(seconds)], spot);
      await waitFor(() => expect(there.written()).toMatch(/\[n\] no |The limit of/));
      const since = performance.now();
      await waitFor(() => performance.now() > since + seconds * 1100);
      there.type("y\r");
      return { there, code: await there.ended };
    };
    const { there, code } = await withGrowingLimit(answered, (result) => result.code === 0, { from: 3, most: 12 });
    expect(code).toBe(0);
    expect(there.left()).toMatch(/ icanon .* echo /s);
    expect(existsSync(spot.out)).toBe(true);
  });

  it("ends when another process cancels the run", async () => {
    const spot = await scene([writes]);
    const there = at(["run", "writer"], spot);
    await there.sees(QUESTION);
    const { stdout } = await spot.run(["cancel", "last"]);
    expect(stdout).toMatch(/cancelled: \S+; process \d+ stops within a second/);
    expect(await there.ended).toBe(130);
    expect(existsSync(spot.out)).toBe(false);
    expect((await spot.run(["runs"])).stdout).toContain("cancelled");
    expect(readdirSync(join(spot.home, ".skillet/runs")).filter((name) => name.includes("owner"))).toEqual([]);
  });

  it("is denied at Ctrl-D", async () => {
    const spot = await scene([writes, () => "No."]);
    const there = at(["run", "writer"], spot);
    await there.sees(QUESTION);
    there.type("\u0004");
    expect(await there.ended).toBe(0);
    expect(there.screen()).toMatch(/\[n\] no\n[^?]*No\.\n/);
    expect([existsSync(spot.out), there.left()]).toEqual([false, expect.stringMatching(/ icanon .* echo /s)]);
  });

  it("appears at the terminal of a user who pipes input in, and restores the terminal", async () => {
    const piped: Turn = ({ prompt }) => {
      expect(prompt).toContain("piped input");
      return [{ tool: "write_file", input: { path: "out.txt", content: "two" } }];
    };
    const spot = await scene([piped, writes, () => "Done.", piped]);
    const start = () =>
      openTerminal(["run", "writer", "--quiet"], { home: spot.home, cwd: spot.project, piped: "piped input" });
    const there = start();
    await there.sees(QUESTION);
    there.type("y\r");
    expect(await there.ended).toBe(0);
    expect(there.screen()).toMatch(/\[n\] no y\nDone\.\n/);
    expect([existsSync(spot.out), there.left()]).toEqual([true, expect.stringMatching(/ icanon .* echo /s)]);
    const again = start();
    await again.sees(QUESTION);
    again.type("\u0003");
    expect(await again.ended).toBe(130);
    expect(again.left()).toMatch(/ icanon .* echo /s);
  });

  it("appears in a dialogue, where Ctrl-C stops the answer and not the dialogue", async () => {
    const use: Turn = () => [{ tool: "use_skill", input: { skill: "writer", message: "write" } }];
    const spot = await scene([use, writes, use, writes, () => "Written.", () => "It is written."]);
    const there = at(["chat"], spot);
    await there.sees("> ");
    there.type("write it\r");
    await there.sees(QUESTION);
    there.type("\u0003");
    await there.sees("> ");
    expect(existsSync(spot.out)).toBe(false);
    there.type("write it\r");
    await there.sees(QUESTION);
    there.type("y\r");
    await there.sees("It is written.");
    await there.sees("> ");
    there.type("/quit\r");
    expect(await there.ended).toBe(0);
    expect(existsSync(spot.out)).toBe(true);
  });
});
