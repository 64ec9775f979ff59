import { spawn } from "node:child_process";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { modelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

const program = join(import.meta.dirname, "../../src/cli/bin.ts");

/** `skillet chat` at a terminal of its own, which util-linux's `script` gives it. */
async function dialogue(turns: readonly Turn[], skills: Record<string, string> = {}) {
  const server = await modelServer("openai", turns);
  const home = temporaryFolder({ ".skillet/config.toml": modelConfig("openai", server), ...skills });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  const start = temporaryFolder({ "start.mjs": `import { run } from ${JSON.stringify(program)};\nrun();\n` });
  const command = `'${process.execPath}' '${join(start, "start.mjs")}' chat`;
  const terminal = spawn("script", ["-qfec", command, "/dev/null"], {
    cwd: temporaryFolder(),
    env: { ...process.env, HOME: home, SKILLET_HOME: "", TERM: "xterm", NO_COLOR: "1" },
  });
  onTestFinished(() => void terminal.kill("SIGKILL"));
  let screen = "";
  terminal.stdout.on("data", (bytes) => {
    screen += bytes;
  });
  const ended = new Promise<number | null>((resolve) => terminal.on("close", resolve));
  return {
    type: (text: string) => terminal.stdin.write(text),
    /** Waits until this is on the screen, after what was waited for before. */
    async sees(text: string): Promise<void> {
      await expect
        .poll(() => screen.includes(text), { timeout: 10_000, message: `"${text}" on the screen` })
        .toBe(true);
      screen = screen.slice(screen.indexOf(text) + text.length);
    },
    ended,
  };
}

describe("a dialogue", () => {
  it("streams answers, remembers what was said, and leaves at Ctrl-D", async () => {
    const { type, sees, ended } = await dialogue([
      ({ prompt }) => `You said ${prompt}.`,
      ({ prompt }) => `Then ${prompt}.`,
    ]);
    await sees("> ");
    type("one\r");
    await sees("You said one.");
    await sees("✓ done");
    type("two\r");
    await sees("Then two.");
    await sees("> ");
    type("\u0004");
    expect(await ended).toBe(0);
  });

  it("stops what is being done at Ctrl-C, and not itself", async () => {
    const { type, sees, ended } = await dialogue([() => ({ hangs: true }), () => "Still here."]);
    await sees("> ");
    type("one\r");
    await sees("thinking");
    type("\u0003");
    await sees("interrupted");
    await sees("> ");
    type("\u0003");
    await sees("/quit or Ctrl-D leaves");
    type("two\r");
    await sees("Still here.");
    await sees("> ");
    type("/quit\r");
    expect(await ended).toBe(0);
  });

  it("lists skills and uses one by its name, whatever the model would do", async () => {
    const { type, sees, ended } = await dialogue([() => "By the skill."], {
      ".skillet/skills/x/SKILL.md": skillText("x"),
    });
    await sees("> ");
    type("/skills\r");
    await sees("Does x.");
    type("/use x do it\r");
    await sees("By the skill.");
    type("/use y\r");
    await sees("Skill 'y' not found");
    type("/help\r");
    await sees("hand a task to one");
    type("/quit\r");
    expect(await ended).toBe(0);
  });
});
