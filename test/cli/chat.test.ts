import { chmodSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type RunOptions, skillet } from "../support/command.ts";
import { skillText, temporaryFolder } from "../support/folder.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";

/** Runs `skillet chat` with these arguments, over the user's own skills and a model that follows a script. */
async function chatting(turns: readonly Turn[], files: Record<string, string> = {}) {
  const server = await startModelServer("openai", turns);
  const config = `${modelConfig("openai", server)}retries = 0\n`;
  const root = temporaryFolder({ "home/.skillet/config.toml": config, "project/README.md": "", ...files });
  chmodSync(join(root, "home/.skillet/config.toml"), 0o600);
  chmodSync(root, 0o755);
  chmodSync(join(root, "project"), 0o777);
  const env = { HOME: join(root, "home") };
  return (args: readonly string[], options: RunOptions = {}) =>
    skillet(["chat", ...args], { cwd: join(root, "project"), env, ...options });
}

const own = (name: string) => ({ [`home/.skillet/skills/${name}/SKILL.md`]: skillText(name) });
const use =
  (skill: string, text = ""): Turn =>
  () => ({ text, calls: [{ tool: "use_skill", input: { skill } }] });

describe("input that is piped into a chat", () => {
  it("is attached to the message, and selects no skill", async () => {
    const chat = await chatting(
      [
        ({ prompt, context, instructions }) => {
          expect(prompt).toMatch(/^what is this\n\n<skill_context>\n\/deploy\n\+ a line\n+<\/skill_context>$/);
          expect(instructions + context).not.toContain("# deploy\n\nDo it.");
          return "A diff.";
        },
      ],
      own("deploy"),
    );
    const { code, stdout } = await chat(["what", "is", "this"], { stdin: "/deploy\n+ a line\n" });
    expect([code, stdout]).toEqual([0, "A diff.\n"]);
  });

  it("is the message if there is no other", async () => {
    const chat = await chatting([({ prompt }) => `You said: ${prompt}`]);
    expect((await chat([], { stdin: "hello" })).stdout).toBe("You said: hello\n");
    const nothing = await chat([], { stdin: " \n" });
    expect(nothing.code).toBe(2);
    expect(nothing.stderr).toContain("No message was given");
  });
});

describe("a single answer of a chat", () => {
  it("prints on stdout only what came before a failure, and the fix on stderr", async () => {
    const chat = await chatting(
      [() => ({ status: 401, message: "bad" }), use("x", "Let me see."), () => "Inner.", () => ({ status: 401 })],
      own("x"),
    );
    const failed = await chat(["hello"]);
    expect([failed.code, failed.stdout]).toEqual([1, ""]);
    expect(failed.stderr).toMatch(/^✗ .+\n {2}\S.+\n/m);
    const later = await chat(["hello"]);
    expect([later.code, later.stdout]).toEqual([1, "Let me see.\n"]);
    expect(later.stderr.match(/^✗ /gm)).toHaveLength(2);
  });

  it("reports an unknown model on stderr alone", async () => {
    const chat = await chatting([]);
    const { code, stdout, stderr } = await chat(["--model", "nope", "hello"]);
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toMatch(/✗ Unknown model 'nope'/);
  });

  it("leaves stderr empty for a program that reads JSON", async () => {
    const chat = await chatting([use("x"), () => "Inner.", () => "a", () => "b"], own("x"));
    const json = await chat(["--json", "go"]);
    expect(JSON.parse(json.stdout)).toMatchObject({ content: "a", stop: "answer", skill: "" });
    expect(json.stderr).toBe("");
    const events = await chat(["--events", "go"]);
    expect(events.stderr).toBe("");
    const lines = events.stdout.trimEnd().split("\n");
    expect(JSON.parse(lines.at(-1) ?? "")).toMatchObject({ type: "result", content: "b" });
  });

  it("is streamed once on a terminal, with the reason of its end", async () => {
    const chat = await chatting([() => ({ text: "Half an ans", isCut: true }), use("x", "One.")], own("x"));
    const { stdout } = await chat(["go"], { isTTY: true });
    expect(stdout).toMatch(/^Half an ans\n\[The answer was cut off: .*\]\n$/);
    const limited = await chat(["go", "--max-iterations", "1"], { isTTY: true });
    expect(limited.code).toBe(4);
    expect(limited.stdout).toMatch(/^One\.\n\[The limit of 1 iteration was reached: .*\]\n$/);
  });
});

describe("progress of a chat", () => {
  it("is indented by the depth of a run, and no line ends in a blank", async () => {
    const chat = await chatting(
      [
        () => [{ tool: "list_skills", input: {} }],
        use("x"),
        use("y"),
        () => [{ tool: "list_skills", input: {} }],
        () => "y.",
        () => "x.",
        () => "Done.",
      ],
      { ...own("x"), ...own("y") },
    );
    const { stdout, stderr } = await chat(["go"]);
    expect(stdout).toBe("Done.\n");
    expect(stderr).not.toMatch(/[ \t]$/m);
    expect(stderr.split("\n").slice(0, 7)).toEqual([
      "· list_skills",
      "· use_skill x",
      expect.stringMatching(/^· x with /),
      "  x: use_skill y",
      expect.stringMatching(/^ {2}· y with /),
      "    y: list_skills",
      expect.stringMatching(/^✓ done /),
    ]);
  });
});
