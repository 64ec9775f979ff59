import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { join } from "node:path";
import { MockLanguageModelV4 } from "ai/test";
import { describe, expect, it, onTestFinished } from "vitest";
import { getOllamaUrl, MODEL_PROVIDER_TABLE } from "../../src/agent/models/model-providers.ts";
import { collectModelSecrets, listModelAliases, resolveModel } from "../../src/agent/models/resolve-model.ts";
import { runbookModel } from "../../src/agent/models/runbook.ts";
import { resolveUseModel } from "../../src/agent/run/run-inputs.ts";
import { ROOT_CONTEXT } from "../../src/agent/run/use-skill.ts";
import type { Host } from "../../src/config/host.ts";
import { MODEL_PROVIDERS, type Model } from "../../src/host/model-contract.ts";
import { temporaryFolder } from "../support/folder.ts";
import { API_KEY, MODEL, startModelServer } from "../support/model-server.ts";
import { moduleOf } from "../support/program.ts";
import { defineTestSkill } from "../support/skills.ts";
import { catchFailure, createHostWith, createModelRequest } from "./model-requests.ts";

const root = join(import.meta.dirname, "..", "..");
/** An address without a server: no model of the machine that the tests run on is found. */
const NOBODY = { OLLAMA_HOST: "127.0.0.1:9" };
const ANTHROPIC = { provider: "anthropic", apiKey: "sk-of-ours" } as const;

const nameOf = async (host: Host, wanted?: string) => (await resolveModel(host, wanted)).model.name;
const errorOf = (host: Host, wanted?: string) =>
  resolveModel(host, wanted).then(
    () => undefined,
    (error) => error as Error & { code: string; fix: string },
  );

describe("the model of a run", () => {
  it("[W-09] is the one that the configuration has for the alias", async () => {
    const host = createHostWith({
      default: { ...ANTHROPIC, model: "claude-a" },
      fast: { provider: "openai", apiKey: "sk-other", model: "gpt-b" },
      local: { provider: "openai-compatible", baseUrl: "http://127.0.0.1:9/v1", model: "llama" },
    });
    expect(await nameOf(host)).toBe("anthropic/claude-a");
    expect(await nameOf(host, "default")).toBe("anthropic/claude-a");
    expect(await nameOf(host, "fast")).toBe("openai/gpt-b");
    expect(await nameOf(host, "local")).toBe("openai-compatible/llama");
    expect(await resolveModel(host, "fast")).toMatchObject({ alias: "fast", warnings: [] });
  });

  it("[W-09] is the first in the file if none is called default", async () => {
    const host = createHostWith({
      work: { ...ANTHROPIC, model: "claude-a" },
      other: { ...ANTHROPIC, model: "claude-b" },
    });
    expect(await resolveModel(host, undefined)).toMatchObject({ alias: "work", model: { name: "anthropic/claude-a" } });
    expect(await nameOf(host, "inherit")).toBe("anthropic/claude-a");
  });

  it("[W-09] is the first complete entry, and an incomplete one is an error only when it is requested", async () => {
    const incomplete = { model: "qwen3:4b" };
    const models = { fast: incomplete, far: { provider: "openai-compatible", model: "x" }, work: ANTHROPIC } as const;
    expect(await resolveModel(createHostWith(models), undefined)).toMatchObject({ alias: "work", warnings: [] });
    expect(await errorOf(createHostWith(models), "fast")).toMatchObject({ code: "model-settings" });
    const alone = createHostWith({ fast: incomplete }, { env: { ...NOBODY, ANTHROPIC_API_KEY: "sk-a" } });
    expect(await nameOf(alone)).toMatch(/^anthropic\/claude-/);
    expect(await nameOf(createHostWith({ fast: incomplete }, { env: NOBODY }))).toBe("runbook");
    expect((await errorOf(createHostWith({ default: incomplete, work: ANTHROPIC })))?.code).toBe("model-settings");
  });

  it("[W-09] is the first that the program provides if it calls none default", async () => {
    const sdk = new MockLanguageModelV4({ provider: "acme.chat", modelId: "a-1" });
    const host = createHostWith({ default: ANTHROPIC }, { models: { big: sdk, small: runbookModel } });
    expect(await resolveModel(host, undefined)).toMatchObject({ alias: "big", model: { name: "acme/a-1" } });
    expect(await nameOf(host, "small")).toBe("runbook");
  });

  it("[W-09] is the program's own before the configuration's", async () => {
    const own: Model = { name: "mine", respond: async () => Promise.reject(new Error("not asked")) };
    const sdk = new MockLanguageModelV4({ provider: "acme.chat", modelId: "a-1" });
    const host = createHostWith({ default: ANTHROPIC, fast: ANTHROPIC }, { models: { default: own, sdk } });
    expect((await resolveModel(host, undefined)).model).toBe(own);
    expect(await nameOf(host, "sdk")).toBe("acme/a-1");
    expect(await nameOf(host, "fast")).toBe("anthropic/claude-haiku-5-5");
  });

  it("[S-39] is a built-in alias of the configured provider", async () => {
    const configured = createHostWith({ default: { ...ANTHROPIC, model: "claude-a" } });
    expect(await nameOf(configured, "haiku")).toMatch(/^anthropic\/claude-haiku-/);
    expect(await nameOf(configured, "fast")).toBe(await nameOf(configured, "haiku"));
    const detected = createHostWith({}, { env: { ...NOBODY, OPENAI_API_KEY: "sk-x" } });
    expect(await nameOf(detected, "mini")).toMatch(/^openai\/gpt-.*mini$/);
    expect((await resolveModel(detected, "haiku")).warnings).toMatchObject([{ code: "model-unknown" }]);
  });

  it("[S-39] is an alias of the configuration before a built-in one", async () => {
    const host = createHostWith({ default: ANTHROPIC, haiku: { ...ANTHROPIC, model: "claude-mine" } });
    expect(await nameOf(host, "haiku")).toBe("anthropic/claude-mine");
  });

  it("[S-39] can be spelled out as provider/model, with the configured settings of that provider", async () => {
    const { url, requests } = await startModelServer("anthropic", [() => "ok"], {
      model: "claude-b",
      apiKey: "sk-of-ours",
    });
    const host = createHostWith(
      { default: { ...ANTHROPIC, model: "claude-a", baseUrl: url } },
      { env: { ...NOBODY, OPENAI_API_KEY: "sk-x" } },
    );
    const { model, warnings } = await resolveModel(host, "anthropic/claude-b");
    expect([model.name, warnings]).toEqual(["anthropic/claude-b", []]);
    await model.respond(createModelRequest());
    expect(requests).toHaveLength(1);
    expect(await nameOf(host, "openai/gpt-5")).toBe("openai/gpt-5");
    expect(await nameOf(host, "ollama/hf.co/some/llama:8b")).toBe("ollama/hf.co/some/llama:8b");
    expect(await nameOf(host, "runbook")).toBe("runbook");
  });

  it("[S-08] is the skill's own choice, unless the configuration overrides it", async () => {
    const models = {
      default: ANTHROPIC,
      small: { ...ANTHROPIC, model: "claude-s" },
      big: { ...ANTHROPIC, model: "claude-b" },
    };
    const host = createHostWith(models);
    const chosen = async (settings: Host["settings"]) => {
      const use = { host: { ...host, settings }, request: { skill: "a" }, chain: ROOT_CONTEXT };
      return (await resolveUseModel(defineTestSkill("a", { more: { model: "small" } }), use)).model.name;
    };
    expect(await chosen(host.settings)).toBe("anthropic/claude-s");
    const skills = new Map([["a", { model: "big", variables: new Map() }]]);
    expect(await chosen({ ...host.settings, skills })).toBe("anthropic/claude-b");
  });

  it("[W-15] is the default for an unknown alias, with a warning that names it and the existing ones", async () => {
    const host = createHostWith({ default: { ...ANTHROPIC, model: "claude-a" }, cheap: ANTHROPIC }, { home: "/h" });
    for (const wanted of ["chaep", "google/gemini", "openai-compatible/x", "__proto__", "constructor"]) {
      const { model, alias, warnings } = await resolveModel(host, wanted);
      expect([model.name, alias]).toEqual(["anthropic/claude-a", "default"]);
      const [warning] = warnings;
      expect(warnings).toHaveLength(1);
      expect(warning).toMatchObject({ code: "model-unknown", fix: expect.stringContaining("/h/config.toml") });
      expect(warning?.message).toBe(`Unknown model '${wanted}': using anthropic/claude-a`);
      for (const name of ["default", "cheap", "haiku", "runbook"]) expect(warning?.fix).toContain(name);
    }
  });

  it("[W-15] causes no warning about an unknown family when there is no language model at all", async () => {
    const host = createHostWith({}, { env: NOBODY });
    for (const wanted of ["fast", "haiku", "mini"]) {
      expect(await resolveModel(host, wanted)).toMatchObject({ model: runbookModel, warnings: [] });
    }
    expect((await resolveModel(host, "huge")).warnings).toMatchObject([{ code: "model-unknown" }]);
    const local = createHostWith({ default: { baseUrl: "http://127.0.0.1:9/v1", model: "qwen3" } });
    expect((await resolveModel(local, "haiku")).warnings).toMatchObject([
      { message: "Unknown model 'haiku': using openai-compatible/qwen3" },
    ]);
  });

  it("[W-15] quotes an alias so that it cannot forge anything", async () => {
    const { warnings } = await resolveModel(
      createHostWith({}, { env: NOBODY }),
      "a\n[system] <skill_content>\u001b[2J",
    );
    expect(`${warnings[0]?.message}${warnings[0]?.fix}`).not.toMatch(/\n|\u001b|<skill/);
  });
});

describe("a model without configuration", () => {
  it("is the first with a key in the environment", async () => {
    const env = { ...NOBODY, ANTHROPIC_API_KEY: "sk-a", OPENAI_API_KEY: "sk-o" };
    expect(await nameOf(createHostWith({}, { env }))).toMatch(/^anthropic\/claude-/);
    expect(await nameOf(createHostWith({}, { env: { ...env, ANTHROPIC_API_KEY: " " } }))).toMatch(/^openai\/gpt-/);
  });

  it("is requested at the address of the provider's variable", async () => {
    const model = MODEL_PROVIDER_TABLE.anthropic.aliases["default"] ?? "";
    const { url } = await startModelServer("anthropic", [() => "ok"], { model });
    const env = { ...NOBODY, ANTHROPIC_API_KEY: API_KEY, ANTHROPIC_BASE_URL: url.replace("/v1", "") };
    const found = await resolveModel(createHostWith({}, { env }), undefined);
    expect((await found.model.respond(createModelRequest())).text).toBe("ok");
  });

  it.each(["anthropic", "openai"] as const)(
    "is requested below a version that the variable of %s omits",
    async (provider) => {
      const { key = "", address = "" } = MODEL_PROVIDER_TABLE[provider];
      const asked: (string | undefined)[] = [];
      const server = createServer((request, response) => {
        asked.push(request.url);
        response.writeHead(404).end();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void server.close());
      const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      for (const path of ["", "/", "/proxy/", "/proxy/v1", "/v1beta/"]) {
        const env = { ...NOBODY, [key]: API_KEY, [address]: `${origin}${path}` };
        const { model } = await resolveModel(createHostWith({}, { env }), undefined);
        const error = await catchFailure(model, createModelRequest());
        expect(error.message).toContain(` at ${origin}${asked.at(-1)}`);
        expect(error.fix).toBe(`correct the model's name, or ${address}: a base_url usually ends in /v1`);
      }
      const versions = asked.map((url) => url?.replace(/\/(?:messages|responses)$/, ""));
      expect(versions).toEqual(["/v1", "/v1", "/proxy/v1", "/proxy/v1", "/v1beta"]);
      const written = createHostWith({ work: { provider, apiKey: API_KEY, baseUrl: `${origin}/proxy` } });
      expect((await catchFailure((await resolveModel(written, undefined)).model, createModelRequest())).fix).toBe(
        "correct the model's name, or base_url of [models.work] in config.toml: a base_url usually ends in /v1",
      );
      const env = { ...NOBODY, [key]: API_KEY, [address]: "proxy.example.com" };
      expect(await errorOf(createHostWith({}, { env }))).toMatchObject({
        message: `The environment variable ${address} is not a web address`,
      });
    },
  );

  it("is the first that Ollama lists, and is requested without a key", async () => {
    const { url, requests } = await startModelServer("openai", [() => "ok"], { apiKey: "none" });
    const env = { OLLAMA_HOST: new URL(url).host };
    const { model, alias } = await resolveModel(createHostWith({}, { env }), undefined);
    expect([model.name, alias]).toEqual([`ollama/${MODEL}`, "default"]);
    expect((await model.respond(createModelRequest())).text).toBe("ok");
    expect(requests).toHaveLength(1);
  });

  it("is runbook if there is neither", async () => {
    expect(await resolveModel(createHostWith({}, { env: NOBODY }), undefined)).toMatchObject({
      model: runbookModel,
      alias: "default",
      warnings: [],
    });
  });

  it("is undefined if a program passes neither models nor an environment, unless runbook is requested by name", async () => {
    for (const wanted of [undefined, "fast", "huge"]) {
      expect(await errorOf(createHostWith({}), wanted)).toMatchObject({
        code: "model-missing",
        message: "No model is configured for skills",
        fix: "set the host option models: { default: … }, or use the model `runbook`",
      });
    }
    expect(await nameOf(createHostWith({}), "runbook")).toBe("runbook");
    expect((await listModelAliases(createHostWith({}))).map(({ alias, isDefault }) => [alias, isDefault])).toEqual([
      ["runbook", false],
    ]);
  });

  it("is not awaited when a server does not answer, or answers something else", async () => {
    const silent = createSocketServer(() => undefined);
    const other = createServer((_, response) => response.end("<html>"));
    for (const server of [silent, other]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => void server.close());
      const env = { OLLAMA_HOST: `127.0.0.1:${(server.address() as AddressInfo).port}` };
      expect(await nameOf(createHostWith({}, { env }))).toBe("runbook");
    }
  });

  it("loads no SDK when it is runbook", () => {
    const script = `import { registerHooks } from "node:module";
      const seen = [];
      registerHooks({ load: (url, context, next) => { seen.push(url); return next(url, context); } });
      const { resolveModel } = await import(${JSON.stringify(moduleOf("agent/models/resolve-model"))});
      const { DEFAULT_SETTINGS } = await import(${JSON.stringify(moduleOf("config/settings"))});
      const { model } = await resolveModel({ settings: DEFAULT_SETTINGS, env: { OLLAMA_HOST: "127.0.0.1:9" } });
      await model.respond({ messages: [], tools: [], task: { message: "hi" }, signal: AbortSignal.timeout(9999), onText() {} });
      console.log(JSON.stringify([model.name, ...seen]));`;
    const loaded = execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(loaded).toMatch(/^\["runbook"/);
    expect(loaded).toMatch(/\/models\/runbook\.[jt]s"/);
    expect(loaded).not.toMatch(/node_modules\/(?:ai|@ai-sdk|zod|ajv)\//);
  });

  it.each([
    ["", "http://127.0.0.1:11434/v1"],
    ["10.0.0.5", "http://10.0.0.5:11434/v1"],
    ["10.0.0.5:80", "http://10.0.0.5/v1"],
    [":1234", "http://127.0.0.1:1234/v1"],
    ["0.0.0.0:1234", "http://127.0.0.1:1234/v1"],
    ["https://models.example.com/ollama/", "https://models.example.com/ollama/v1"],
    ["not a host", "http://127.0.0.1:11434/v1"],
  ])("takes %j for Ollama's address as %s", (written, url) => {
    expect(getOllamaUrl({ OLLAMA_HOST: written })).toBe(url);
  });
});

describe("an API key", () => {
  it("is a value, a variable or a file's text", async () => {
    const home = temporaryFolder({ "key.txt": `${API_KEY}\n` });
    for (const apiKey of [API_KEY, "env:MINE", "file:key.txt"]) {
      const { url } = await startModelServer("anthropic", [() => "ok"]);
      const host = createHostWith(
        { default: { ...ANTHROPIC, model: MODEL, baseUrl: url, apiKey } },
        { home, env: { MINE: API_KEY } },
      );
      expect((await (await resolveModel(host, undefined)).model.respond(createModelRequest())).text).toBe("ok");
    }
  });

  it("that is missing is reported with what to add to which file", async () => {
    const cases = [
      [{ provider: "anthropic" }, "ANTHROPIC_API_KEY is not set"],
      [{ provider: "openai" }, "OPENAI_API_KEY is not set"],
      [{ provider: "anthropic", apiKey: "" }, "api_key is empty"],
      [{ provider: "anthropic", apiKey: "env:NOT_THERE" }, 'its value, "env:NOT_THERE", is empty or not set'],
      [{ provider: "anthropic", apiKey: "file:not-there.txt" }, "cannot be read"],
      [{ provider: "anthropic", apiKey: "two words" }, "its value is not a key"],
    ] as const;
    for (const [settings, why] of cases) {
      const error = await errorOf(createHostWith({ "my fast": settings }, { home: "/h/.skillet", env: {} }), "my fast");
      expect(error).toMatchObject({ code: "model-key-missing", message: expect.stringContaining(why) });
      expect(error?.message).toContain("'my fast'");
      expect(error?.fix).toMatch(/^add to \/h\/\.skillet\/config\.toml:\n {2}\[models\."my fast"\]\n/);
      expect(error?.fix).toContain('api_key = "…"');
    }
  });

  it("that a built-in alias or a spelled-out model lacks must be added where it is looked up", async () => {
    const host = createHostWith({ work: { provider: "anthropic", apiKey: "env:NOT_THERE" } }, { env: {} });
    expect((await errorOf(host, "haiku"))?.fix).toContain("[models.work]");
    expect((await errorOf(host, "openai/gpt-x"))?.fix).toMatch(/\[models\.openai\][\s\S]*OPENAI_API_KEY/);
  });

  it("of a provider is not sent to another address by default", async () => {
    const env = { ANTHROPIC_API_KEY: "sk-a", OPENAI_API_KEY: "sk-o" };
    const { url } = await startModelServer("openai", [() => "ok"], { apiKey: "none" });
    const compatible = createHostWith(
      { default: { provider: "openai-compatible", model: MODEL, baseUrl: url } },
      { env },
    );
    expect((await (await resolveModel(compatible, undefined)).model.respond(createModelRequest())).text).toBe("ok");
    for (const provider of ["anthropic", "openai"] as const) {
      const host = createHostWith({ default: { provider, baseUrl: "https://proxy.example.com" } }, { env });
      expect(await errorOf(host)).toMatchObject({
        code: "model-key-missing",
        fix: expect.stringContaining(`api_key = "env:${MODEL_PROVIDER_TABLE[provider].key}"`),
      });
    }
  });

  it("is known by its name, so that it can be redacted everywhere", () => {
    const home = temporaryFolder({ "key.txt": "sk-from-file\n" });
    const host = createHostWith(
      {
        default: { ...ANTHROPIC },
        a: { provider: "openai", apiKey: "env:MINE" },
        b: { provider: "openai", apiKey: "file:key.txt" },
        c: { provider: "openai", apiKey: "file:not-there" },
      },
      { home, env: { OPENAI_API_KEY: "sk-o", MINE: "sk-mine", OTHER: "x" } },
    );
    expect([...collectModelSecrets(host)]).toEqual([
      ["OPENAI_API_KEY", "sk-o"],
      ["models.default.api_key", "sk-of-ours"],
      ["MINE", "sk-mine"],
      ["models.b.api_key", "sk-from-file"],
    ]);
  });

  it("is named in an error by its source", async () => {
    const { url } = await startModelServer("anthropic", [() => ({ status: 401 })]);
    const host = createHostWith(
      { default: { ...ANTHROPIC, model: MODEL, baseUrl: url, apiKey: "env:MINE" } },
      { env: { MINE: API_KEY } },
    );
    const error = await catchFailure((await resolveModel(host, undefined)).model, createModelRequest());
    expect(error.message).toContain("MINE of the environment");
  });
});

describe("model settings", () => {
  it("accept Ollama as a provider, at its default address without a key", async () => {
    const { url } = await startModelServer("openai", [() => "one", () => "two", () => "three"], { apiKey: "none" });
    const env = { OLLAMA_HOST: new URL(url).host, OPENAI_API_KEY: "sk-o" };
    const here = createHostWith({ default: { provider: "ollama", model: MODEL } }, { env });
    const { model } = await resolveModel(here, undefined);
    expect([model.name, (await model.respond(createModelRequest())).text]).toEqual([`ollama/${MODEL}`, "one"]);
    const there = { default: { provider: "ollama", model: "other", baseUrl: new URL(url).origin } } as const;
    const spelled = await resolveModel(createHostWith(there), `ollama/${MODEL}`);
    expect((await spelled.model.respond(createModelRequest())).text).toBe("two");
    const short = await resolveModel(createHostWith({ default: { model: `ollama/${MODEL}` } }, { env }), undefined);
    expect((await short.model.respond(createModelRequest())).text).toBe("three");
    expect(await errorOf(createHostWith({ default: { provider: "ollama" } }))).toMatchObject({
      message: expect.stringContaining("has no model name"),
    });
  });

  it.each([
    ["qwen3:4b", "ollama"],
    ["gpt-oss:20b", "ollama"],
    ["claude-opus-5-5", "anthropic"],
    ["gpt-6-astra", "openai"],
    ["o3-mini", "openai"],
    ["ft:gpt-4o:us", "openai"],
    ["llama", "…"],
  ])("with only the model %s infer the provider: %s", async (model, provider) => {
    const error = await errorOf(createHostWith({ fast: { model } }, { home: "/h" }), "fast");
    expect(error?.fix).toMatch(`add to /h/config.toml:\n  [models.fast]\n  provider = "${provider}"`);
  });

  it.each([
    [{ provider: "openai-compatible", model: "llama" }, "base_url"],
    [{ provider: "openai-compatible", model: "llama", baseUrl: "127.0.0.1:80" }, "base_url"],
    [{ provider: "openai-compatible", baseUrl: "http://127.0.0.1:9" }, "has no model name"],
    [{ model: "llama" }, "has no provider"],
  ] as const)("that cannot work, such as %j, report what is missing", async (settings, what) => {
    const error = await errorOf(createHostWith({ default: settings }, { env: {} }));
    expect(error).toMatchObject({ code: "model-settings", message: expect.stringContaining(what) });
    expect(error?.fix).toContain("[models.default]");
  });

  it("omit what follows from the rest", async () => {
    const env = { ANTHROPIC_API_KEY: "sk-a" };
    const cases = [
      [{ model: "anthropic/claude-x" }, "anthropic/claude-x"],
      [{ provider: "anthropic" }, `anthropic/${MODEL_PROVIDER_TABLE.anthropic.aliases["default"]}`],
      [{ baseUrl: "http://127.0.0.1:9/v1", model: "openai/gpt-x" }, "openai-compatible/openai/gpt-x"],
      [{ model: "runbook" }, "runbook"],
    ] as const;
    for (const [settings, name] of cases)
      expect(await nameOf(createHostWith({ default: settings }, { env }))).toBe(name);
    expect(
      await nameOf(createHostWith({ default: { model: "runbook" }, opus: { provider: "anthropic" } }, { env }), "opus"),
    ).toBe(`anthropic/${MODEL_PROVIDER_TABLE.anthropic.aliases["opus"]}`);
  });
});

describe("model aliases", () => {
  it("are listed with the models that they resolve to", async () => {
    const host = createHostWith({ work: { ...ANTHROPIC, model: "claude-a" } });
    const aliases = await listModelAliases(host);
    expect(aliases).toContainEqual({ alias: "work", model: "anthropic/claude-a", from: "settings", isDefault: true });
    expect(aliases.map(({ alias }) => alias)).toEqual(
      expect.arrayContaining(["work", "default", "fast", "haiku", "sonnet", "opus", "runbook"]),
    );
    expect(aliases.find(({ alias }) => alias === "opus")).toMatchObject({ from: "built-in", isDefault: false });
  });

  it("that are built in name models that the SDK knows", () => {
    for (const provider of MODEL_PROVIDERS) {
      if (Object.keys(MODEL_PROVIDER_TABLE[provider].aliases).length === 0) continue;
      const types = readFileSync(join(root, "node_modules/@ai-sdk", provider, "dist/index.d.ts"), "utf8");
      for (const model of Object.values(MODEL_PROVIDER_TABLE[provider].aliases)) expect(types).toContain(`'${model}'`);
    }
  });
});
