import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { startCollector } from "../support/collector.ts";
import { skillText, writeFiles } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { running } from "../support/mcp-process.ts";
import { startModelServer, type Turn } from "../support/model-server.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

async function withModel(turns: readonly Turn[], files: Record<string, string>, config = ""): Promise<Place> {
  return createHome(files, `${modelConfig("openai", await startModelServer("openai", turns))}\n${config}`);
}

const own = (name: string, options: Parameters<typeof skillText>[1] = {}) => ({
  [`home/.skillet/skills/${name}/SKILL.md`]: skillText(name, options),
});

describe("skillet run", () => {
  it("uses a shipped skill without any key, and reports that runbook did it", async () => {
    const { run } = createHome({});
    const { code, stdout, stderr } = await run(["run", "host-report"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^Memory\s+[\d.]+ of [\d.]+ GiB used/m);
    expect(stdout).toContain("[runbook: no language model was used]");
    expect(stderr).toMatch(/✓ done \(2 iterations, [\d.]+ s, runbook, strong isolation\)/);
  });

  it("prints the answer on stdout, and progress on stderr", async () => {
    const { run } = await withModel(
      [() => [{ tool: "bash", input: { command: "echo hi" } }], () => "The answer."],
      own("x"),
    );
    const { code, stdout, stderr } = await run(["run", "x", "Do", "it"]);
    expect([code, stdout]).toEqual([0, "The answer.\n"]);
    expect(stderr).toContain("x: bash echo hi");
    expect(stderr).toMatch(/✓ done \(2 iterations, [\d.]+ s, 30 tokens, .*test-model, strong isolation\)/);
  });

  it("[W-12] accepts input as JSON or from a file, and piped text as the context", async () => {
    const schema = "input_schema: { type: object, properties: { n: { type: integer } }, required: [n] }\n";
    const { run, project } = await withModel(
      [
        ({ prompt }) => {
          expect(prompt).toContain('"n": 3');
          expect(prompt).toContain("<skill_context>\npiped\n</skill_context>");
          return "1";
        },
        ({ prompt }) => {
          expect(prompt).toContain('"n": 4');
          return "2";
        },
      ],
      own("x", { more: schema }),
    );
    writeFiles(project, { "in.json": '{"n": 4}' });
    expect((await run(["run", "x", "--input", '{"n": 3}'], { stdin: "piped" })).stdout).toBe("1\n");
    expect((await run(["run", "x", "--input", "@in.json"])).stdout).toBe("2\n");
    const wrong = await run(["run", "x", "--input", '{"n": "three"}']);
    expect([wrong.code, wrong.stdout]).toEqual([3, ""]);
    expect(wrong.stderr).toBe('✗ Invalid input: "n" must be integer  [input-invalid]\n  input fields: n\n');
    expect(await run(["run", "x", "--input", "{n}"])).toMatchObject({ code: 2, stdout: "" });
    expect(await run(["run", "x", "--input", "@nowhere"])).toMatchObject({ code: 2, stdout: "" });
  });

  it("[S-06, S-32] names the TOML to add when a key is missing, with exit 3", async () => {
    const { run } = createHome({});
    const { code, stdout, stderr } = await run(["run", "research", "What is new?"]);
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toContain("PERPLEXITY_API_KEY");
    expect(stderr).toContain("run: skillet config set skills.research.PERPLEXITY_API_KEY\n");
    expect(stderr).toContain("or add to ~/.skillet/config.toml:");
    expect(stderr).toContain("[skills.research]");
  });

  it("[S-31] shows a configured value as its name, and its content only on request", async () => {
    const { run, project } = createHome(
      {
        "project/workspace/skills/test-api/SKILL.md": `---
description: Test API key injection
env:
  - TEST_API_KEY
allowed_tools: [bash]
---

Echo the TEST_API_KEY environment variable to verify injection.
Run: echo "Key: $TEST_API_KEY"
`,
      },
      '[skills.test-api]\nTEST_API_KEY = "test-secret-123"\n',
    );
    const untrusted = await run(["run", "test-api"]);
    expect(untrusted.code).toBe(3);
    expect(untrusted.stderr).toContain("skillet trust");
    await run(["trust", join(project, "workspace/skills/test-api"), "--yes"]);
    const unbound = await run(["run", "test-api"]);
    expect([unbound.code, unbound.stderr]).toEqual([3, expect.stringContaining("skillet trust --secrets test-api")]);
    await run(["trust", "--secrets", "test-api", "--yes"]);
    const hidden = await run(["run", "test-api", "check if API key is available"]);
    expect(hidden.stdout).toContain("Key: [TEST_API_KEY]");
    expect(hidden.stdout + hidden.stderr).not.toContain("test-secret-123");
    const shown = await run(["run", "test-api", "--show-secrets"]);
    expect(shown.stdout).toContain("Key: test-secret-123");
    const chatted = await run(["chat", "use the test-api skill to check if API key is available"]);
    expect(chatted.stdout).toContain("Key: [TEST_API_KEY]");
    expect(chatted.stdout + chatted.stderr).not.toContain("test-secret-123");
    const asked = await run(["chat", "--show-secrets", "use the test-api skill to check if API key is available"]);
    expect(asked.stdout).toContain("Key: test-secret-123");
  });

  it("exits 4 at a limit, with the partial result", async () => {
    const turn = () => ({ text: "Half.", calls: [{ tool: "list_files", input: {} }] });
    const { run } = await withModel([turn, turn], own("x"));
    const { code, stdout, stderr } = await run(["run", "x", "--max-iterations", "2"]);
    expect(code).toBe(4);
    expect(stdout).toMatch(/^Half\.\n\n\[The limit of 2 iterations was reached/);
    expect(stderr).toContain("--max-iterations");
  });

  it("prints the result as JSON, or all events as JSON lines", async () => {
    const { run } = await withModel([() => "a", () => "b"], own("x"));
    const { stdout } = await run(["run", "x", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({
      skill: "x",
      content: "a",
      stop: "answer",
      iterations: 1,
      isError: false,
    });
    const lines = (await run(["run", "x", "--events"])).stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines[0]).toMatchObject({ type: "run-started", skill: "x", caller: { chatType: "private" } });
    expect(lines.at(-2)).toMatchObject({ type: "run-ended" });
    expect(lines.at(-1)).toMatchObject({ type: "result", content: "b" });
  });

  it("shows every check of a dry run, and runs nothing", async () => {
    const { run } = createHome(own("x", { more: "env: [A_KEY]\nrequired_tools: [teleport]\nmodel: nope\n" }));
    const refused = await run(["run", "x", "--dry-run"]);
    expect(refused.code).toBe(3);
    expect(refused.stdout).toMatch(/✗ tools +Skill requires tool 'teleport' which is not available/);
    expect(refused.stdout).toMatch(/✗ variables +Skill 'x' needs A_KEY/);
    expect(refused.stdout).toContain('A_KEY = "…"');
    expect(refused.stdout).toMatch(/! .*nope/);
    expect(refused.stdout.replace(/\s+/g, " ")).toMatch(
      /not available \[missing-tool\].*A_KEY.* \[missing-variable\].*nope.* \[model-unknown\]/,
    );
    const fine = await run(["run", "host-report", "--dry-run"]);
    expect(fine.code).toBe(0);
    expect(fine.stdout).toContain("It would run. Nothing was run.");
    expect(JSON.parse((await run(["run", "host-report", "-n", "--json"])).stdout)).toMatchObject({
      skill: "host-report",
    });
  });

  it("[S-16, S-36] uses a private chat at a terminal, or the chat type of the option", async () => {
    const { run } = await withModel([() => "ok"], own("x", { more: "sensitive: true\n" }));
    expect((await run(["run", "x"])).code).toBe(0);
    const group = await run(["run", "x", "--chat-type", "group"]);
    expect(group.code).toBe(3);
    expect(group.stderr).toMatch(/private/);
  });

  it("asks for trust on a terminal, and continues", async () => {
    const { run } = createHome({ "project/skills/y/SKILL.md": skillText("y", { body: "Run: echo from y" }) });
    const asked: string[] = [];
    const ask = async (question: string) => {
      asked.push(question);
      return "y";
    };
    const { code, stdout } = await run(["run", "y"], { ask });
    expect(code).toBe(0);
    expect(asked).toHaveLength(1);
    expect(stdout).toContain("from y");
  });

  it("[Q-23] escapes control sequences in a model's text", async () => {
    const { run } = await withModel([() => "a\u001b[2Jb\rc\u0007"], own("x"));
    const { stdout } = await run(["run", "x"]);
    expect(stdout).not.toMatch(/[\u001b\u0007\r]/);
  });

  it("stops at Ctrl-C with the partial result, and exits 130", async () => {
    const controller = new AbortController();
    const { run } = await withModel(
      [() => ({ text: "So far.", calls: [{ tool: "bash", input: { command: "sleep 75.125" } }] })],
      own("x"),
    );
    const interrupted = run(["run", "x"], { signal: controller.signal });
    await waitFor(() => expect(running("sleep 75.125")).toHaveLength(1));
    controller.abort();
    const { code, stdout } = await interrupted;
    expect(code).toBe(130);
    expect(stdout).toMatch(/^So far\./);
  });

  it("prints its answer before it waits for a slow collector", async () => {
    const { url } = await startCollector({ hangs: true });
    const { run } = await withModel([() => "Done."], own("x"));
    let printed = "";
    const print = (text: string) => {
      printed += text;
    };
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: url };
    const { stdout } = await run(["run", "x"], { env, onOutput: print, onStderr: print });
    expect(stdout).toBe("Done.\n");
    // The missing answer is reported when the wait ends.
    expect(printed).toMatch(/Done\.\n✓ done .*\n! Cannot send traces .*\n {2}\S.*\n$/);
  });

  it("suggests a name for an unknown one", async () => {
    const { code, stderr } = await createHome({}).run(["run", "host-reprot"]);
    expect(code).toBe(1);
    expect(stderr).toContain("host-report");
  });
});

describe("skillet chat", () => {
  it("[W-26] lists the skills and uses one, without a key", async () => {
    const { run, project } = createHome({
      "project/workspace/skills/test/SKILL.md": "---\ndescription: Test skill\n---\n\nSay hello to the user.\n",
    });
    const listed = await run(["chat", "List available skills"]);
    expect(listed.code).toBe(0);
    expect(listed.stdout).toContain("- test: Test skill");
    expect(listed.stdout).toContain("- host-report: ");
    expect(listed.stdout).toContain("[runbook: no language model was used]");
    expect((await run(["chat", "Use the test skill"])).code).toBe(3);
    await run(["trust", join(project, "workspace/skills/test"), "--yes"]);
    const used = await run(["chat", "Use the test skill"]);
    expect(used.code).toBe(1);
    expect(used.stdout).toMatch(/^Skill 'test' needs a language model: .*\nTo get one, set ANTHROPIC_API_KEY .*\n$/);
    expect(used.stdout).not.toContain("Say hello to the user.");
    const alone = await run(["run", "test"]);
    expect([alone.code, alone.stdout]).toEqual([1, ""]);
    expect(alone.stderr.split("\n")).toEqual([
      "✗ test needs a language model: it contains no commands  [model-needed]",
      "  set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or add [models.default]",
      "",
    ]);
    const report = await run(["chat", "Use the host-report skill"]);
    expect(report.stdout).toMatch(/^Memory\s/m);
  });

  it("[W-26] uses a skill with a language model", async () => {
    const { run, project } = await withModel(
      [
        ({ prompt }) => {
          expect(prompt).toBe("Use the test skill");
          return [{ tool: "use_skill", input: { skill: "test" } }];
        },
        ({ instructions }) => {
          expect(instructions).toContain("Say hello to the user.");
          return "Hello!";
        },
        ({ results }) => `It says: ${/<output>\n(.*)\n<\/output>/.exec(results[0]?.content ?? "")?.[1]}`,
      ],
      { "project/workspace/skills/test/SKILL.md": "---\ndescription: Test skill\n---\n\nSay hello to the user.\n" },
    );
    await run(["trust", join(project, "workspace/skills/test"), "--yes"]);
    expect(await run(["chat", "Use the test skill"])).toMatchObject({ code: 0, stdout: "It says: Hello!\n" });
  });

  it("[W-08, S-03] offers a model the tools of skills, and delegates a task to one", async () => {
    const { run } = await withModel(
      [
        ({ tools, instructions }) => {
          expect(Object.keys(tools)).toEqual(expect.arrayContaining(["list_skills", "use_skill", "load_skill"]));
          expect(instructions).toContain("use_skill");
          return [{ tool: "use_skill", input: { skill: "x", message: "Go." } }];
        },
        ({ prompt }) => {
          expect(prompt).toBe("Go.");
          return "Inner.";
        },
        ({ results }) => {
          expect(results[0]?.content).toContain("<output>\nInner.\n</output>");
          return "Outer.";
        },
      ],
      own("x"),
    );
    const { code, stdout } = await run(["chat", "Please", "go"]);
    expect([code, stdout]).toEqual([0, "Outer.\n"]);
  });

  it("answers piped input, and prints JSON", async () => {
    const { run } = await withModel([({ prompt }) => `You said: ${prompt}`], {});
    const { stdout } = await run(["chat", "--json"], { stdin: "hello" });
    expect(JSON.parse(stdout)).toMatchObject({ content: "You said: hello", stop: "answer" });
  });

  it("fails with a fix when the model is unavailable", async () => {
    const { run } = createHome(
      {},
      '[models.default]\nprovider = "openai-compatible"\nmodel = "m"\nbase_url = "http://127.0.0.1:1/v1"\nretries = 0\n',
    );
    const { code, stdout, stderr } = await run(["chat", "hello"]);
    expect(code).toBe(1);
    expect(stdout + stderr).toMatch(/127\.0\.0\.1:1/);
  });
});
