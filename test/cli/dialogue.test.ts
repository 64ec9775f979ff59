import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

interface Scene {
  /** Files of the user's home, and those of the workspace below `project/`. */
  files?: Record<string, string>;
  config?: string;
  options?: readonly string[];
  beside?: string;
}

/** Runs `skillet chat` at a terminal, with a model that follows the script, or without a model. */
async function dialogue(turns: readonly Turn[] | undefined, scene: Scene = {}) {
  const opened = await start(turns, scene);
  await opened.sees("> ");
  return opened;
}

async function start(turns: readonly Turn[] | undefined, scene: Scene) {
  const { files = {}, config = "", options = [], beside = "" } = scene;
  const server = turns ? await startModelServer("openai", turns) : undefined;
  const model = server ? modelConfig("openai", server) : "";
  const home = temporaryFolder({ ".skillet/config.toml": `${model}\n${config}`, "project/README.md": "", ...files });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  chmodSync(home, 0o755);
  return {
    ...openTerminal(["chat", ...options], { home, cwd: join(home, "project"), beside }),
    /** Waits until the model has this many requests. The screen shows "thinking" before it has one. */
    requested: (count: number) => waitFor(() => expect(server?.requests).toHaveLength(count)),
  };
}

const own = (name: string, options: Parameters<typeof skillText>[1] = {}) => ({
  [`.skillet/skills/${name}/SKILL.md`]: skillText(name, options),
});

describe("a dialogue", () => {
  it("streams answers, remembers messages, and ends at Ctrl-D", async () => {
    const { type, sees, screen, ended } = await dialogue([
      ({ prompt }) => ({ text: `You said ${prompt}.`, usage: { input: 100, output: 20, cached: 0 } }),
      ({ said }) => `Then ${said.join(" ")}`,
    ]);
    type("one\r");
    await sees("You said one.");
    await sees("> ");
    type("two\r");
    await sees("Then one You said one. two");
    await sees("> ");
    type("\u0004");
    expect(await ended).toBe(0);
    expect(screen()).toMatch(
      /\n> one\nYou said one\.\n\d+\.\d s · 120 tokens\n> two\nThen one You said one\. two\n\d+\.\d s · \d+ tokens\n>\n+$/,
    );
  });

  it("prints the model, the number of skills and their sources at its start", async () => {
    const { type, screen, ended } = await dialogue([], { files: own("x") });
    type("exit\r");
    expect(await ended).toBe(0);
    const [header = ""] = screen().split("\n");
    expect(header).toMatch(/^skillet chat · openai-compatible\/test-model · \d+ skills · ~\/project · \/help$/);
    expect(header.length).toBeLessThanOrEqual(80);
  });

  it("reports a missing language model at its start", async () => {
    const { type, screen, ended } = await dialogue(undefined);
    type("quit\r");
    expect(await ended).toBe(0);
    expect(screen()).toMatch(/^skillet chat · \d+ skills · ~\/project · \/help\nrunbook, no language model: /);
    for (const line of screen().split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("reports an error and its fix, and continues", async () => {
    const { type, sees, screen, ended } = await dialogue([
      () => ({ status: 401, message: "no such key" }),
      ({ said }) => `After ${said.join(" ")}`,
    ]);
    type("one\r");
    await sees("✗ ");
    await sees("> ");
    type("two\r");
    await sees("After two");
    await sees("> ");
    type(":q\r");
    expect(await ended).toBe(0);
    expect(screen()).toMatch(/\n> one\n✗ .*\n {2}\S.*\n/);
    expect(screen()).not.toMatch(/✓|it failed|\[The model/);
  });
});

describe("typed text in a dialogue", () => {
  it("is kept for the next prompt when several lines arrive at once", async () => {
    const said = ({ prompt }: { prompt: string }) => `You said ${prompt}.`;
    const { type, sees, screen, ended } = await dialogue([said, said, said]);
    type("one\rtwo\rthree\r/quit\r");
    await sees("You said three.");
    expect(await ended).toBe(0);
    expect(screen().replace(/\d+\.\d s.*\n/g, "")).toContain(
      "\n> one\nYou said one.\n> two\nYou said two.\n> three\nYou said three.\n> /quit\n",
    );
  });

  it("is one message with its line breaks when the terminal reports a paste", async () => {
    const { type, sees, screen, written, ended } = await dialogue([
      ({ prompt }) => {
        expect(prompt).toBe("Look: first\n  second\n\tthird, please");
        return "Seen.";
      },
    ]);
    expect(written()).toContain("\u001b[?2004h");
    type("Look: \u001b[20");
    type("0~first\r  second\n\tthird\r\n\u001b[201~, please\r");
    await sees("Seen.");
    await sees("> ");
    type("\u001b[200~/qui\u001b[201~t\r");
    expect(await ended).toBe(0);
    expect(screen()).toContain("> Look: [paste 1: 3 lines], please\nSeen.\n");
    expect(written()).toContain("\u001b[?2004l");
  });

  it("does not appear between the lines of an answer, and appears at the next prompt", async () => {
    const { type, sees, screen, ended } = await dialogue(
      [
        () => [{ tool: "bash", input: { command: "sleep 2" } }],
        () => "Slept.\nWell.",
        ({ prompt }) => `You said ${prompt}.`,
      ],
      { files: own("x") },
    );
    type("/use x\r");
    await sees("x: bash sleep 2");
    type("next\rhal");
    await sees("You said next.");
    await sees("> ");
    await sees("hal");
    type("f\u0015/quit\r");
    expect(await ended).toBe(0);
    expect(screen()).toMatch(/\nSlept\.\nWell\.\n\d+\.\d s.*\n> next\nYou said next\.\n/);
  });

  it("is discarded at Ctrl-C, which stops the answer and not the program", async () => {
    const { type, sees, screen, ended, requested } = await dialogue([() => ({ hangs: true }), () => "Still here."]);
    type("one\r");
    await requested(1);
    type("never said\r\u0003");
    await sees("interrupted");
    await sees("> ");
    type("half a line\u0003");
    await sees("press Ctrl-C again or Ctrl-D, or type /quit, to leave");
    await sees("> ");
    type("two\r");
    await sees("Still here.");
    await sees("> ");
    type("\u0003");
    await sees("Ctrl-C again");
    await sees("> ");
    type("\u0003");
    expect(await ended).toBe(0);
    expect(screen()).not.toContain("never said");
    expect(screen()).toContain("\n> two\nStill here.\n");
  });

  it("is completed by Tab: commands, skills and models", async () => {
    const { type, sees, ended } = await dialogue([() => "By the skill."], { files: own("unmistakable") });
    type("/unm");
    type("\t");
    await sees("istakable ");
    type("\u0015/use unm");
    await sees("/use unm");
    type("\t");
    await sees("istakable ");
    type("now\r");
    await sees("By the skill.");
    await sees("> ");
    type("/model runb");
    await sees("/model runb");
    type("\t");
    await sees("ook");
    type("\u0015/qu");
    await sees("/qu");
    type("\t");
    await sees("it ");
    type("\r");
    expect(await ended).toBe(0);
  });
});

/** What a dialogue must undo at any end: raw mode, hidden keys, and marks around pastes. */
function expectRestored({ left, written }: Terminal) {
  expect(left()).toMatch(/[^-]icanon/);
  expect(left()).toMatch(/[^-]echo /);
  expect(written().lastIndexOf("\u001b[?2004l")).toBeGreaterThanOrEqual(written().lastIndexOf("\u001b[?2004h"));
}

describe("the terminal of a dialogue", () => {
  it("is restored after an invalid option", async () => {
    const opened = await start([], { options: ["--timeout", "abc"] });
    expect(await opened.ended).toBe(2);
    expect(opened.screen()).toContain("--timeout");
    expectRestored(opened);
  });

  it("is restored after the dialogue ended", async () => {
    const opened = await dialogue([]);
    opened.type("/quit\r");
    expect(await opened.ended).toBe(0);
    expectRestored(opened);
  });

  it("is restored after a bug", async () => {
    const beside = `process.once("SIGUSR2", () => { throw new Error("a bug"); });`;
    const opened = await dialogue([], { beside });
    opened.signal("SIGUSR2");
    expect(await opened.ended).toBe(1);
    expect(opened.screen()).toContain("Error: a bug");
    expectRestored(opened);
  });

  const signals = [
    ["SIGQUIT", 131],
    ["SIGTERM", 143],
    ["SIGHUP", 129],
  ] as const;
  it.each(sampleRows(signals, 1))(
    "is restored after %s, which ends the program at its prompt and during an answer",
    async (name, code) => {
      const waiting = await dialogue([]);
      waiting.signal(name);
      expect(await waiting.ended).toBe(code);
      expectRestored(waiting);
      const answering = await dialogue([() => [{ tool: "bash", input: { command: "sleep 60" } }]], { files: own("x") });
      answering.type("/use x\r");
      await answering.sees("x: bash sleep 60");
      answering.signal(name);
      expect(await answering.ended).toBe(code);
      expect(answering.screen()).toContain("interrupted");
      expectRestored(answering);
    },
  );

  it("can disappear", async () => {
    // Its end may be read before the signal comes.
    const ends = [0, 129];
    const waiting = await dialogue([]);
    expect(ends).toContain(await waiting.hangUp());
    const answering = await dialogue([() => ({ hangs: true })]);
    answering.type("one\r");
    await answering.requested(1);
    expect(ends).toContain(await answering.hangUp());
  });

  it("stays when another program sends the signal of Ctrl-C", async () => {
    const { type, signal, sees, ended, requested } = await dialogue([() => ({ hangs: true }), () => "Still here."]);
    type("one\r");
    await requested(1);
    signal("SIGINT");
    await sees("interrupted");
    await sees("> ");
    signal("SIGINT");
    await sees("press Ctrl-C again or Ctrl-D, or type /quit, to leave");
    await sees("> ");
    type("two\r");
    await sees("Still here.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
  });
});

describe("the commands of a dialogue", () => {
  it("explain how to resume a skill that Ctrl-C stopped", async () => {
    const { type, sees, ended, requested } = await dialogue([() => ({ hangs: true })], { files: own("x") });
    type("/x go\r");
    await requested(1);
    type("\u0003");
    await sees("skillet resume 20");
    await sees("resumes the run");
    await sees("> ");
    type("\u0004");
    expect(await ended).toBe(0);
  });

  it("list skills, use one by name, and explain how to use it", async () => {
    const { type, sees, ended } = await dialogue([() => "By the skill.", ({ prompt }) => `Again: ${prompt}`], {
      files: own("x"),
    });
    type("/skills\r");
    await sees("Does x.");
    type("/use\r");
    await sees("usage: /use NAME message; /skills lists the skills");
    type("/use x do it\r");
    await sees("By the skill.");
    type("/x do it again\r");
    await sees("Again: do it again");
    type("/use nope\r");
    await sees("✗ Skill 'nope' not found");
    type("/help\r");
    await sees("run a skill; short form: /NAME message");
    type("/quit\r");
    expect(await ended).toBe(0);
  });

  it("are not sent to the model when they are unknown, and a path is not a command", async () => {
    const { type, sees, ended } = await dialogue([({ prompt }) => `Path: ${prompt}`], { files: own("deploy") });
    type("/skils\r");
    await sees("✗ /skils is neither a command nor a skill");
    await sees("did you mean /skills?");
    type("/deplo now\r");
    await sees("did you mean /deploy?");
    type("/etc/hosts is what\r");
    await sees("Path: /etc/hosts is what");
    await sees("> ");
    type("/exit\r");
    expect(await ended).toBe(0);
  });

  it("change the model of later messages", async () => {
    const other = await startModelServer("openai", [() => "From the other one."]);
    const { type, sees, ended } = await dialogue([], { config: modelConfig("openai", other, "other") });
    type("/model\r");
    await sees("✓ default");
    await sees("other");
    type("/model nope\r");
    await sees("✗ Unknown model 'nope'");
    await sees("> ");
    type("/model other\r");
    await sees("· switched to");
    type("one\r");
    await sees("From the other one.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
  });

  it("keep the result of a skill in the conversation", async () => {
    const { type, sees, ended } = await dialogue(
      [
        () => "Forty-two.",
        ({ said }) => {
          expect(said[0]).toBe("/x count");
          expect(said[1]).toContain(">\nForty-two.\n</skill_output>");
          expect(said[2]).toBe("and now?");
          return "Still 42.";
        },
      ],
      { files: own("x") },
    );
    type("/use x count\r");
    await sees("Forty-two.");
    await sees("> ");
    type("and now?\r");
    await sees("Still 42.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
  });
});

describe("trust in a dialogue", () => {
  const files = { "project/skills/y/SKILL.md": skillText("y", { body: "Run: echo from y" }) };
  const use: Turn = () => ({ text: "I use y.", calls: [{ tool: "use_skill", input: { skill: "y" } }] });

  it("is requested before a refusal for lack of trust becomes the answer", async () => {
    const { type, sees, screen, ended } = await dialogue(
      [use, () => "It was refused.", use, () => "Inner.", ({ said }) => `Done after ${said[0]}.`],
      { files },
    );
    type("please y\r");
    await sees("[y/N] ");
    expect(screen()).not.toContain("It was refused.");
    type("y\r");
    await sees("Done after please y.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
    expect(screen()).not.toContain("It was refused.");
  });

  it("is not given by text that was typed before the question", async () => {
    const { type, sees, screen, ended } = await dialogue([use, () => "It was refused."], { files });
    type("please y\ry\ry\r");
    await sees("[y/N] ");
    type("n\r");
    await sees("It was refused.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
    expect(screen().split("It was refused.")).toHaveLength(2);
  });
});
