import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, type LanguageModel, streamText, ToolLoopAgent, tool } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { createSkillToolset, type SkillToolset } from "../../src/adapters/ai-sdk/index.ts";
import { openSession } from "../../src/agent/session/session.ts";
import { discover } from "../../src/config/discover.ts";
import { createDirectorySource } from "../../src/skill/source/directory-source.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { API_KEY, MODEL, PROTOCOLS, startModelServer, type Turn } from "../support/model-server.ts";
import { toolsetOf } from "../support/toolset.ts";

const root = join(import.meta.dirname, "..", "..");
const NAMES = [
  "list_skills",
  "search_skills",
  "load_skill",
  "read_skill_resource",
  "run_skill_script",
  "validate_skill",
  "lint_skill",
];
const FILES = {
  "deploy/SKILL.md": skillText("deploy", { body: "# Deploy\n\nRun `ship` as in steps/checklist.md." }),
  "deploy/steps/checklist.md": "1. Tell the harbour master.\n",
  "review/SKILL.md": skillText("review"),
};

const providers = {
  openai: (baseURL: string) => createOpenAICompatible({ name: "test", baseURL, apiKey: API_KEY })(MODEL),
  anthropic: (baseURL: string) => createAnthropic({ baseURL, apiKey: API_KEY })(MODEL),
};
type Provider = keyof typeof PROTOCOLS;
const PROVIDERS = Object.keys(PROTOCOLS) as Provider[];

interface Question {
  model: LanguageModel;
  skills: SkillToolset;
  prompt: string;
}
const settings = async ({ model, skills, prompt }: Question) => ({
  model,
  prompt,
  tools: skills.tools,
  instructions: `Be brief.\n\n${await skills.instructions()}`,
  stopWhen: isStepCount(5),
  maxRetries: 0,
  maxOutputTokens: 1000,
});
const ask = {
  generateText: async (question: Question) => (await generateText(await settings(question))).text,
  streamText: async (question: Question) => streamText(await settings(question)).text,
};
const FUNCTIONS = Object.keys(ask) as (keyof typeof ask)[];

describe("a toolset that is not live", () => {
  it("[P-29] scans its folders once, and still reads edited instructions again", async () => {
    const folder = temporaryFolder(FILES);
    const fixed = await createSkillToolset([folder], { live: false });
    const live = await createSkillToolset([folder]);
    writeFiles(folder, {
      "late/SKILL.md": skillText("late"),
      "review/SKILL.md": skillText("review", { body: "New text." }),
    });
    const names = async ({ session }: SkillToolset) =>
      JSON.parse((await session.call("list_skills", {})).text).map(({ name }: { name: string }) => name);
    expect(await names(fixed)).toEqual(["deploy", "review"]);
    expect(await names(live)).toEqual(["deploy", "late", "review"]);
    expect(await fixed.session.call("load_skill", { skill: "late" })).toMatchObject({ code: "not-found" });
    expect((await fixed.session.call("load_skill", { skill: "review" })).text).toContain("New text.");
    expect(fixed.instructions).not.toContain("late");
  });

  it("[P-15, P-29] accepts a profile that a file must satisfy", async () => {
    const folder = temporaryFolder({
      "named/SKILL.md": skillText("named"),
      "plain/SKILL.md": "---\ndescription: A.\n---\nDo.\n",
    });
    const names = async (options?: object) => (await createSkillToolset([folder], options)).session.catalog.names();
    expect(await names()).toEqual(["named", "plain"]);
    expect(await names({ profile: "shipped", live: false })).toEqual([]);
    expect(await names({ profile: "agentskills" })).toEqual(["named"]);
  });
});

describe("a toolset", () => {
  it("shows a framework that passes only the output the same text as the AI SDK", async () => {
    const skills = await createSkillToolset([temporaryFolder(FILES)]);
    const { toModelOutput } = skills.tools.load_skill;
    const result = { text: "Done.", isError: false };
    const given = { toolCallId: "1", input: {}, output: result };
    expect(toModelOutput?.(given)).toEqual({ type: "text", value: "Done." });
    expect(toModelOutput?.(result as never)).toEqual({ type: "text", value: "Done." });
    expect(toModelOutput?.({ ...result, isError: true } as never)).toEqual({ type: "error-text", value: "Done." });
  });

  it("[P-08] is created from directories by one call, with its prompt fragment", async () => {
    const { tools, instructions, session } = await createSkillToolset([temporaryFolder(FILES)]);
    expect(Object.keys(tools)).toEqual(NAMES);
    expect(session.catalog.names()).toEqual(["deploy", "review"]);
    expect(await instructions()).toBe(
      "Skills contain instructions for certain tasks. When one fits the request, load it with `load_skill` before you answer.\n\n" +
        "- deploy: Does deploy. Use when asked for deploy.\n- review: Does review. Use when asked for review.",
    );
  });

  it("[P-08] has an empty fragment without skills, and its tools nonetheless", async () => {
    for (const folders of [[], [temporaryFolder()], [join(temporaryFolder(), "not-there")]]) {
      const { tools, instructions, instructionsFor } = await createSkillToolset(folders);
      expect([await instructions(), await instructionsFor("deploy")]).toEqual(["", ""]);
      expect(Object.keys(tools)).toEqual(NAMES);
    }
  });

  it("prefers the skill of the later folder", async () => {
    const shipped = temporaryFolder(FILES);
    const own = temporaryFolder({ "deploy/SKILL.md": skillText("deploy", { description: "Mine." }) });
    const lines = async (...folders: string[]) =>
      (await (await createSkillToolset(folders)).instructions()).split("\n");
    expect(await lines(shipped, own)).toContain("- deploy: Mine.");
    expect(await lines(own, shipped)).toContain("- deploy: Does deploy. Use when asked for deploy.");
  });

  it("includes only the matching skills for a query", async () => {
    const more = "triggers:\n  keywords: [harbour]\n";
    const folder = temporaryFolder({ "deploy/SKILL.md": skillText("deploy", { body: "Run `ship`.", more }) });
    const { instructionsFor } = await createSkillToolset([folder]);
    expect(await instructionsFor("What is the weather?")).toMatch(/^\[1 skills? available\]$/);
    expect(await instructionsFor("Bring it to the harbour")).toContain('<skill_content name="deploy">\nRun `ship`.');
  });

  it("follows the folders when the session reads them again", async () => {
    const folder = temporaryFolder(FILES);
    const skills = await createSkillToolset([folder]);
    writeFiles(folder, { "test/SKILL.md": skillText("test") });
    await skills.session.reload();
    expect(await skills.instructions()).toContain("\n- test: ");
  });

  it("is created from a session, under its host's policies", async () => {
    const home = temporaryFolder({ ".skillet/config.toml": "[skills.review]\nenabled = false\n" });
    const sources = [createDirectorySource({ path: temporaryFolder(FILES) })];
    const found = await discover({ workspace: temporaryFolder(), env: { HOME: home }, sources });
    const session = openSession(found.catalog, found);
    const skills = await createSkillToolset(session);
    expect(skills.session).toBe(session);
    expect(await skills.instructions()).toContain("\n- deploy: ");
    expect(await skills.instructions()).not.toContain("- review: ");
    const server = await startModelServer("anthropic", [
      () => [{ tool: "load_skill", input: { skill: "review" } }],
      ({ results: [result] }) => {
        expect(result).toMatchObject({ isError: true, content: expect.stringContaining("is disabled") });
        return "It is off.";
      },
    ]);
    const model = providers.anthropic(server.url);
    expect(await ask.generateText({ model, skills, prompt: "Review it." })).toBe("It is off.");
  });

  it("[P-14] has the category `skills` on every tool, and in every call and result", async () => {
    const { tools, session } = await createSkillToolset([temporaryFolder(FILES)]);
    expect(session.tools.map(({ name, category }) => [name, category])).toEqual(NAMES.map((name) => [name, "skills"]));
    const metadata = Object.entries(tools).map(([name, { metadata }]) => [name, metadata]);
    expect(metadata).toEqual(NAMES.map((name) => [name, { category: "skills" }]));
    const usage = {
      inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: 1, text: 1, reasoning: undefined },
    };
    const model = new MockLanguageModelV4({
      doGenerate: {
        content: [{ type: "tool-call", toolCallId: "1", toolName: "list_skills", input: "{}" }],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage,
        warnings: [],
      },
    });
    const { toolCalls, toolResults } = await generateText({ model, prompt: "What is there?", tools });
    const toolMetadata = { category: "skills" };
    expect(toolCalls).toMatchObject([{ toolName: "list_skills", toolMetadata }]);
    expect(toolResults).toMatchObject([{ toolName: "list_skills", toolMetadata, output: { isError: false } }]);
  });

  it("[P-16] registers for the shipped skills", async () => {
    const skills = await createSkillToolset([join(root, "skills")]);
    expect(skills.session.catalog.diagnostics).toEqual([]);
    expect(await skills.instructions()).toMatch(/^- skillmaker: /m);
    const server = await startModelServer("openai", [
      ({ tools }) => {
        // One of them, tables, has a toolset.
        expect(Object.keys(tools)).toEqual(expect.arrayContaining([...NAMES, "call_skill_tool"]));
        expect(Object.keys(tools)).toHaveLength(NAMES.length + 1);
        return [{ tool: "read_skill_resource", input: { skill: "skillmaker", resource: "skill-template.md" } }];
      },
      ({ results }) => {
        const template = readFileSync(join(root, "skills/skillmaker/skill-template.md"), "utf8");
        expect(results[0]?.content).toContain(template.trim());
        return "Registered.";
      },
    ]);
    const model = providers.openai(server.url);
    expect(await ask.generateText({ model, skills, prompt: "Make a skill." })).toBe("Registered.");
  });
});

describe("a toolset over skills with tools", () => {
  const bringing = () =>
    temporaryFolder({
      "x/SKILL.md": skillText("x", { more: 'toolsets: ["tools:Tools"]\n' }),
      "x/tools.ts": toolsetOf({ one: 'return "one of " + args.input', send: 'return "sent"' }).replace(
        'parameters: z.object({ input: z.string().optional() }), execute: async (args, ctx) => { return "sent"',
        'effect: "outside", parameters: z.object({}), execute: async () => { return "sent"',
      ),
    });

  it("[P-08] has the tools of loaded skills by names that models accept, updated at each call", async () => {
    const skills = await createSkillToolset([bringing()], { home: temporaryFolder() });
    onTestFinished(() => skills.session.close());
    expect(Object.keys(skills.tools)).toEqual([...NAMES, "call_skill_tool"]);
    await skills.session.load("x");
    expect(Object.keys(skills.tools)).toEqual([...NAMES, "x__one", "x__send", "call_skill_tool"]);
    const server = await startModelServer("anthropic", [
      () => [{ tool: "x__one", input: { input: "many" } }],
      ({ results: [result] }) => {
        expect(result).toMatchObject({ isError: false, content: expect.stringContaining("one of many") });
        return [{ tool: "x__send", input: {} }];
      },
      ({ results }) => {
        expect(results.at(-1)).toMatchObject({
          isError: true,
          content: expect.stringContaining("no user can be asked"),
        });
        return "Done.";
      },
    ]);
    const model = providers.anthropic(server.url);
    expect(await ask.generateText({ model, skills, prompt: "Do it." })).toBe("Done.");
  });

  it("reaches tools that were loaded during a call", async () => {
    const skills = await createSkillToolset([bringing()], { home: temporaryFolder() });
    onTestFinished(() => skills.session.close());
    const server = await startModelServer("openai", [
      () => [{ tool: "load_skill", input: { skill: "x" } }],
      ({ results: [result] }) => {
        expect(result?.content).toContain("[It provides these tools: x__one, x__send]");
        return [{ tool: "call_skill_tool", input: { tool: "x__one", input: { input: "late" } } }];
      },
      ({ results }) => {
        expect(results.at(-1)?.content).toContain("one of late");
        return "Done.";
      },
    ]);
    const model = providers.openai(server.url);
    expect(await ask.generateText({ model, skills, prompt: "Do it." })).toBe("Done.");
  });
});

describe.each(PROVIDERS)("over the protocol of %s", (provider) => {
  const start = async (script: readonly Turn[]) => {
    const server = await startModelServer(provider, script);
    return {
      server,
      model: providers[provider](server.url),
      skills: await createSkillToolset([temporaryFolder(FILES)]),
    };
  };
  /** Only one of the two marks an error result on the wire. */
  const isError = (is: boolean) => (provider === "anthropic" ? is : undefined);

  it.each(FUNCTIONS)("[P-08] a model loads a skill and reads its file through %s", async (name) => {
    const { server, model, skills } = await start([
      () => [{ tool: "load_skill", input: { skill: "deploy" } }],
      () => [{ tool: "read_skill_resource", input: { skill: "deploy", resource: "steps/checklist.md" } }],
      () => "Tell the harbour master first.",
    ]);
    const answer = await ask[name]({ model, skills, prompt: "How do I deploy?" });
    expect(answer).toBe("Tell the harbour master first.");
    const [first, second, third] = server.requests;
    expect(first).toMatchObject({
      isStream: name === "streamText",
      prompt: "How do I deploy?",
      instructions: `Be brief.\n\n${await skills.instructions()}`,
      results: [],
    });
    const offered = skills.session.tools.map(({ name, description, inputSchema }) => [
      name,
      { description, schema: inputSchema },
    ]);
    expect(first?.tools).toEqual(Object.fromEntries(offered));
    expect(second?.results).toEqual([
      {
        tool: "load_skill",
        content: expect.stringMatching(
          /^<skill_content name="deploy">\n# Deploy\n\nRun `ship`[\s\S]+\n- steps\/checklist\.md \(28 bytes\)\n/,
        ),
        isError: isError(false),
      },
    ]);
    expect(third?.results[1]).toEqual({
      tool: "read_skill_resource",
      content: expect.stringContaining("\n1. Tell the harbour master.\n"),
      isError: isError(false),
    });
    expect(skills.session.active.map(({ name }) => name)).toEqual(["deploy"]);
  });

  it.each(FUNCTIONS)("an unknown skill is an error result for the model, through %s", async (name) => {
    const { model, skills } = await start([
      () => [{ tool: "load_skill", input: { skill: "x" } }],
      ({ results }) => {
        expect(results).toEqual([{ tool: "load_skill", content: "Skill 'x' not found", isError: isError(true) }]);
        return "There is none.";
      },
    ]);
    expect(await ask[name]({ model, skills, prompt: "Use x." })).toBe("There is none.");
  });

  it("accepts `skill_name` and `resource_name`, and null for missing fields", async () => {
    const { model, skills } = await start([
      () => [
        { tool: "load_skill", input: { skill_name: "deploy", arguments: null, again: null } },
        { tool: "read_skill_resource", input: { skill_name: "deploy", resource_name: "steps/checklist.md" } },
      ],
      ({ results }) => {
        expect(results.map(({ tool, isError }) => [tool, isError])).toEqual([
          ["load_skill", isError(false)],
          ["read_skill_resource", isError(false)],
        ]);
        expect(results[0]?.content).toContain("Run `ship`");
        expect(results[1]?.content).toContain("1. Tell the harbour master.");
        return "Both.";
      },
    ]);
    expect(await ask.generateText({ model, skills, prompt: "Deploy." })).toBe("Both.");
  });

  it("reports invalid input so that the model can correct it", async () => {
    const { model, skills } = await start([
      () => [{ tool: "load_skill", input: { name: "deploy" } }],
      ({ results }) => {
        expect(results[0]?.content).toMatch(/^Invalid input: "skill" is missing\. It takes skill \(string\), /);
        expect(results[0]?.isError).toBe(isError(true));
        return [{ tool: "load_skill", input: { skill: "deploy" } }];
      },
      ({ results }) => results[1]?.content ?? "",
    ]);
    expect(await ask.generateText({ model, skills, prompt: "Deploy." })).toContain("Run `ship`");
  });

  it("returns instructions once per conversation, and again when they are out of sight", async () => {
    const load = () => [{ tool: "load_skill", input: { skill: "deploy" } }];
    const { model, skills } = await start([
      load,
      load,
      ({ results }) => results.at(-1)?.content ?? "",
      load,
      ({ results }) => results.at(-1)?.content ?? "",
    ]);
    const agent = new ToolLoopAgent({ ...(await settings({ model, skills, prompt: "" })) });
    const { text: first } = await agent.generate({ prompt: "Deploy." });
    expect(first).toMatch(/^Skill 'deploy' is already loaded in this conversation/);
    const { text: other } = await agent.generate({ prompt: "Deploy, in another conversation." });
    expect(other).toContain("Run `ship`");
  });

  it("works in an agent with other tools, with prompts and tools that change per step", async () => {
    const { server, model, skills } = await start([
      () => [
        { tool: "load_skill", input: { skill: "deploy" } },
        { tool: "weather", input: { city: "Ghent" } },
      ],
      ({ results }) => results[1]?.content ?? "",
    ]);
    const weather = tool({
      description: "Tells the weather.",
      inputSchema: z.object({ city: z.string() }),
      execute: ({ city }) => `It rains in ${city}.`,
    });
    const agent = new ToolLoopAgent({
      model,
      tools: { ...skills.tools, weather },
      stopWhen: isStepCount(3),
      maxOutputTokens: 1000,
      prepareCall: async (call) => ({ ...call, instructions: await skills.instructionsFor(String(call.prompt)) }),
      prepareStep: ({ stepNumber }) => (stepNumber === 0 ? { activeTools: ["load_skill", "weather"] } : {}),
    });
    const { text, steps } = await agent.generate({ prompt: "Deploy, if the weather allows." });
    expect(text).toBe("It rains in Ghent.");
    expect(server.requests.map(({ tools }) => Object.keys(tools))).toEqual([
      ["load_skill", "weather"],
      [...NAMES, "weather"],
    ]);
    expect(server.requests[0]?.instructions).toBe(
      (await skills.session.disclose("Deploy, if the weather allows.")).text,
    );
    // Types: the results of both are known by name, without a cast.
    for (const result of steps.flatMap((step) => step.toolResults)) {
      if (result.dynamic) continue;
      if (result.toolName === "weather") expect(result.output.length).toBe(18);
      if (result.toolName === "load_skill") expect(result.output.isError).toBe(false);
    }
  });
});

describe("the list of skills", () => {
  it("[A-03] takes 1 % of the window of the program's model, or of the session's", async () => {
    const folder = temporaryFolder();
    const many = Array.from({ length: 300 }, (_, at) => [`skill-${at}/SKILL.md`, skillText(`skill-${at}`)]);
    writeFiles(folder, Object.fromEntries(many));
    const model = createAnthropic({ apiKey: "none" })("claude-sonnet-5-5");
    const own = { name: "own", contextWindow: 30_000, respond: () => Promise.reject(new Error("not asked")) };
    const known = await createSkillToolset([folder], { models: { default: model } });
    const small = await createSkillToolset([folder], { models: { default: own } });
    const unknown = await createSkillToolset([folder]);
    expect((await small.instructionsFor("hello")).length).toBeLessThanOrEqual(1200);
    expect(small.instructions.length).toBeLessThan(1500);
    expect(await known.instructionsFor("hello")).toBe(await unknown.instructionsFor("hello"));
    const session = openSession(unknown.session.catalog, {}, { contextWindow: 400_000 });
    const large = await createSkillToolset(session);
    expect((await large.instructionsFor("hello")).length).toBeGreaterThan(
      (await unknown.instructionsFor("hello")).length,
    );
  });
});
