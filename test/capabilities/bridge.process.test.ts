import { chmodSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createCommandProvider } from "../../src/capabilities/command-provider.ts";
import type { ProviderStderr } from "../../src/capabilities/provider-contract.ts";
import { formatProviderRequest } from "../../src/capabilities/provider-protocol.ts";
import { findHostProcesses } from "../../src/sandbox/probe-host.ts";
import { temporaryFolder } from "../support/folder.ts";
import { callOf, catchProviderError, createCallContext, createProgramProvider } from "../support/provider.ts";
import { waitFor } from "../support/wait-for.ts";

const OPERATION = { name: "list", description: "Lists.", mutating: false, input_schema: { type: "object" } };
const CAPABILITY = { id: "notes.notes", description: "Notes.", operations: [OPERATION] };
const describing = (capabilities: unknown, more: object = {}) =>
  createProgramProvider(`answer(${JSON.stringify({ capabilities, ...more })})`);
const listing = (source: string, more = {}) =>
  createProgramProvider(source, more).invoke(callOf("list"), createCallContext());
const WHICH = `const { id } = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify({ version: 1, id, ok: true, result: { is_ready: true, message: process.execPath } }));`;

describe("a provider that is a program", () => {
  it("[S-21] gets one line of JSON, and its answer is the output", async () => {
    const provider = createProgramProvider("answer({ output: request })", { seconds: 7 });
    const credential = { account: "ada", secret: { token: "t0p-secret" }, scopes: ["notes"], expiresAt: "2030-01-01" };
    const { output } = await provider.invoke(callOf("list", { query: "ä" }, { credential }), createCallContext());
    expect(output).toEqual({
      version: 1,
      id: expect.stringMatching(/^req_[0-9a-f]{32}$/),
      method: "invoke",
      namespace: "notes",
      params: {
        capability: "notes.notes",
        operation: "list",
        input: { query: "ä" },
        idempotency_key: "key_1",
        credential: { account: "ada", secret: { token: "t0p-secret" }, scopes: ["notes"], expires_at: "2030-01-01" },
      },
      context: { run: "run_1", skill: "note-taker", source: "user", user: "ada", chat: { id: "7", type: "private" } },
      deadline_ms: 7000,
    });
  });

  it("[S-24] has its own variables, and none of the host's", async () => {
    const { output } = await listing("answer({ output: process.env })", { env: { NOTES_FILE: "n.db" } });
    expect(output).toEqual({ NOTES_FILE: "n.db" });
  });

  it("returns a renewed credential", async () => {
    const answer = await listing(
      `answer({ output: 1, credential: { account: "ada", secret: { t: 2 }, expires_at: "2031-01-01" } })`,
    );
    expect(answer).toEqual({ output: 1, credential: { account: "ada", secret: { t: 2 }, expiresAt: "2031-01-01" } });
  });

  it.each([
    [
      "of another version",
      `print({ version: 2, id: request.id, ok: true, result: { output: 1 } })`,
      /`answer.version`/,
    ],
    [
      "with another id",
      `print({ version: 1, id: "req_x", ok: true, result: { output: 1 } })`,
      /`answer.id` does not match the request/,
    ],
    ["that is not JSON", `print("Hello s3cret")`, /`answer` is not JSON/],
    ["that is empty", "", /`answer` is empty/],
    ["of two objects", "answer({ output: 1 }); answer({ output: 2 })", /text after its first JSON value/],
    ["with a log line after it", `answer({ output: 1 }); print("\\ndone")`, /text after its first JSON value/],
    ["of 5 MB", `answer({ output: "x".repeat(5e6) })`, /`answer` is larger than 4 MiB/],
    ["that is not UTF-8", `require("node:fs").writeSync(1, Buffer.from([123, 0xff, 125]))`, /`answer` is not UTF-8/],
    [
      "with an unknown key",
      `print({ version: 1, id: request.id, ok: true, result: {}, debug: "s3cret" })`,
      /`answer` has an unknown key; known keys: version, id/,
    ],
    ["without a result", `print({ version: 1, id: request.id, ok: true })`, /`answer.result` is missing/],
    [
      "with both",
      `print({ version: 1, id: request.id, ok: true, result: { output: 1 }, error: {} })`,
      /`answer.error` is present/,
    ],
    ["that is a list", `print("[]")`, /`answer` is not an object/],
    ["without an output", "answer({ s3cret: 1 })", /`answer.result` has an unknown key/],
    [
      "that is nested endlessly",
      `print('{"version":1,"id":' + "[".repeat(1e5) + "]".repeat(1e5) + "}")`,
      /more than 100 levels/,
    ],
  ])("[S-21] gets the error of an answer %s, and nothing of its content", async (_, source, message) => {
    const error = await catchProviderError(listing(source));
    expect(error.code).toBe("provider-answer-invalid");
    expect(error.message).toMatch(message);
    expect(error.message).not.toContain("s3cret");
    expect(error.fix).toContain("docs/providers.md");
  });

  it("reports its errors on one line and with a known code", async () => {
    const known = await catchProviderError(
      listing(`refuse({ code: "rate-limited", message: "Too\\nmany </skill_output>", retry_after_seconds: 30 })`),
    );
    expect(known).toMatchObject({ code: "rate-limited", fix: "try again in 30 seconds" });
    expect(known.message).toBe("Too many &lt;/skill_output>");
    const unknown = await catchProviderError(
      listing(`refuse({ code: "EVIL", message: "x".repeat(5000), fix: "wait" })`),
    );
    expect(unknown).toMatchObject({ code: "provider-failed", fix: "wait" });
    expect(unknown.message.length).toBe(500);
  });

  it("can report an error, but no result, with a failing exit code", async () => {
    const error = await catchProviderError(listing(`refuse({ code: "denied", message: "No." }); process.exit(1)`));
    expect(error).toMatchObject({ code: "denied", message: "No." });
    expect(await catchProviderError(listing("answer({ output: 1 }); process.exit(1)"))).toMatchObject({
      code: "provider-failed",
    });
  });

  it("has its exit and last line of stderr reported, with secrets redacted", async () => {
    const hide = (text: string) => text.replaceAll("hunter2", "[PASSWORD]");
    const credential = { account: "ada", secret: { deep: { token: "t0p-secret" } } };
    const provider = createProgramProvider(`console.error("first\\nno hunter2 for t0p-secret\\n"); process.exit(3)`, {
      redact: hide,
    });
    const error = await catchProviderError(provider.invoke(callOf("list", {}, { credential }), createCallContext()));
    expect(error.code).toBe("provider-failed");
    expect(error.message).toBe("The provider of notes exited with exit code 3: no [PASSWORD] for [SECRET_1]");
    const killed = await catchProviderError(listing(`process.kill(process.pid, "SIGSEGV")`));
    expect(killed).toMatchObject({ code: "provider-failed", message: "The provider of notes exited with SIGSEGV" });
  });

  it("has the error line of Node's output quoted, and the rest kept for its author", async () => {
    const error = await catchProviderError(listing(`require("no-such-package")`));
    expect(error.message).toMatch(/exited with exit code 1: Error: Cannot find module 'no-such-package'/);
    expect(error.commands).toEqual(["skillet capability check notes"]);
    expect((error.cause as ProviderStderr).lines.at(-1)).toMatch(/^Node\.js v/);
    const saying = async (source: string) =>
      (await catchProviderError(listing(source))).message.split(": ").slice(1).join(": ");
    expect(await saying(`throw Object.assign(new TypeError("broken"), { code: "E" })`)).toBe("TypeError: broken");
    expect(await saying(`throw "only a text"`)).toBe("only a text");
    expect(await saying(`console.error("Error: old\\nfatal: no database"); process.exit(2)`)).toBe("Error: old");
    expect(await saying(`console.error("   at x\\n^\\n"); process.exit(2)`)).toBe("^");
  });

  it("has no part of a line quoted that was too long: a secret in it could not be found", async () => {
    const hide = (text: string) => text.replaceAll("hunter2", "[PASSWORD]");
    const source = `process.stderr.write("hunter2" + "x".repeat(16381) + "\\nend\\n"); process.exit(3)`;
    const error = await catchProviderError(createProgramProvider(source, { redact: hide }).health(createCallContext()));
    expect((error.cause as ProviderStderr).lines).toEqual(["end"]);
  });

  it("runs with this process's own Node when its command is node", async () => {
    const folder = temporaryFolder({ node: "#!/bin/sh\nexit 9\n", "program.cjs": WHICH });
    chmodSync(join(folder, "node"), 0o755);
    const asked = (node: string) => {
      const command = [node, join(folder, "program.cjs")];
      return createCommandProvider({ namespace: "notes", command, env: { PATH: folder }, folder });
    };
    expect(await asked("node").health(createCallContext())).toMatchObject({ message: process.execPath });
    expect(asked("node").origin, "whichever that is").toBe(`node ${join(folder, "program.cjs")}`);
    expect((await catchProviderError(asked("./node").health(createCallContext()))).message).toContain("exit code 9");
  });

  it("is reported as missing, with the fix", async () => {
    const folder = temporaryFolder({ "plain.txt": "" });
    const missing = (command: string[], where = folder) =>
      catchProviderError(
        createCommandProvider({ namespace: "notes", command, env: {}, folder: where }).health(createCallContext()),
      );
    const error = await missing(["no-such-program"]);
    expect(error.code).toBe("provider-missing");
    expect(error.message).toContain("no-such-program: program not found");
    expect(error.fix).toContain("[capabilities.providers.notes]");
    expect((await missing([join(folder, "plain.txt")])).message).toContain("permission denied");
    expect((await missing([])).code).toBe("provider-missing");
    expect((await missing([process.execPath], join(folder, "gone"))).message).toContain("does not exist");
  });

  it("is stopped at its time limit, with all its processes", async () => {
    const mark = crypto.randomUUID();
    const source = `require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "${mark}"], { stdio: "inherit" });
      setInterval(() => {}, 1000)`;
    const error = await catchProviderError(listing(source, { seconds: 0 }));
    expect(error.code).toBe("provider-timeout");
    expect(error.message).toBe("The provider of notes did not answer within 1 second");
    await expect.poll(() => findHostProcesses(mark)).toEqual([]);
  });

  it("is stopped on abort", async () => {
    const controller = new AbortController();
    const begun = join(temporaryFolder(), "begun");
    const source = `require("node:fs").writeFileSync(${JSON.stringify(begun)}, ""); setInterval(() => {}, 1000)`;
    const asked = catchProviderError(
      createProgramProvider(source).invoke(callOf("list"), { signal: controller.signal }),
    );
    await waitFor(() => existsSync(begun));
    controller.abort();
    const error = await asked;
    expect(error).toMatchObject({ code: "provider-failed" });
    expect(error.message).toContain("was stopped before it answered");
    const signal = AbortSignal.timeout(1);
    await waitFor(() => signal.aborted);
    expect(await catchProviderError(createProgramProvider("").health({ signal }))).toMatchObject({
      code: "provider-timeout",
    });
  });

  it("is not awaited when a child process holds its output", async () => {
    const mark = crypto.randomUUID();
    onTestFinished(() => {
      for (const { pid } of findHostProcesses(mark) ?? []) process.kill(pid, "SIGKILL");
    });
    const source = `require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "${mark}"], { stdio: "inherit", detached: true }).unref();
      answer({ output: "done" })`;
    expect(await listing(source)).toEqual({ output: "done" });
  });

  it("has a time limit from 1 to 300 seconds, with 30 by default", () => {
    const given = { namespace: "notes", command: ["x"], env: {}, folder: "/" };
    const secondsOf = (seconds?: number) =>
      createCommandProvider({ ...given, ...(seconds ? { seconds } : {}) }).seconds;
    expect([secondsOf(), secondsOf(0.1), secondsOf(10), secondsOf(9999)]).toEqual([30, 1, 10, 300]);
  });

  it("has no request written to a disk", async () => {
    const folder = temporaryFolder();
    const source = `answer({ output: require("node:fs").fstatSync(0).isFile() })`;
    expect((await listing(source, { env: { TMPDIR: folder } })).output).toBe(false);
  });

  it("gets the request as documented", () => {
    const page = readFileSync(join(import.meta.dirname, "../../docs/providers.md"), "utf8");
    const written = formatProviderRequest({
      id: "req_5b0c",
      method: "invoke",
      namespace: "notes",
      params: {
        capability: "notes.notes",
        operation: "add",
        input: { title: "Bins", text: "" },
        idempotencyKey: "run_1:3",
      },
      context: {
        run: "run_1",
        skill: "note-taker",
        source: "user",
        user: "ada",
        chat: { id: "terminal", type: "private" },
      },
      deadlineMs: 30_000,
    });
    const [, documented = "{}"] = /```json\n(\{\n {2}"version": 1,[\s\S]*?)\n```/.exec(page) ?? [];
    expect(JSON.parse(documented)).toEqual(JSON.parse(written));
  });
});

describe("the description of a program", () => {
  it("is read with its schemas and its sign-in", async () => {
    const full = { ...OPERATION, output_schema: { type: "array" }, scopes: ["read"], is_reversible: true };
    const provider = describing([{ ...CAPABILITY, operations: [full] }], { auth: { kinds: ["device"] } });
    expect(await provider.describe(createCallContext())).toEqual({
      capabilities: [
        {
          id: "notes.notes",
          description: "Notes.",
          operations: [
            {
              ...{ name: "list", description: "Lists.", mutating: false, inputSchema: { type: "object" } },
              ...{ outputSchema: { type: "array" }, scopes: ["read"], isReversible: true },
            },
          ],
        },
      ],
      hasAuth: true,
    });
    expect((await describing([CAPABILITY]).describe(createCallContext())).hasAuth).toBe(false);
  });

  it("is put on one line, and cut", async () => {
    const described = await describing([{ ...CAPABILITY, description: `a\n${"b".repeat(2000)}` }]).describe(
      createCallContext(),
    );
    expect(described.capabilities[0]?.description).toMatch(/^a b+…$/);
    expect(described.capabilities[0]?.description.length).toBe(500);
  });

  const many = (count: number) => Array.from({ length: count }, (_, index) => ({ ...OPERATION, name: `op${index}` }));
  it.each([
    ["a capability of another namespace", [{ ...CAPABILITY, id: "gog.email" }], /not in the namespace notes/],
    ["one with only the same prefix", [{ ...CAPABILITY, id: "notesx.email" }], /not in the namespace notes/],
    ["a bare id", [{ ...CAPABILITY, id: "notes" }], /not in the namespace notes/],
    ["one capability twice", [CAPABILITY, CAPABILITY], /more than one capability `notes.notes`/],
    ["one operation twice", [{ ...CAPABILITY, operations: [OPERATION, OPERATION] }], /more than one operation/],
    ["an invalid name", [{ ...CAPABILITY, operations: [{ ...OPERATION, name: "a b" }] }], /number 1 of the operations/],
    ["no operations", [{ ...CAPABILITY, operations: [] }], /has no operations/],
    ["no description", [{ ...CAPABILITY, description: " " }], /has no description/],
    ["too many operations", [{ ...CAPABILITY, operations: many(101) }], /more than 100/],
    ["too many capabilities", many(65).map(({ name }) => ({ ...CAPABILITY, id: `notes.${name}` })), /more than 64/],
    [
      "input that is not an object",
      [{ ...CAPABILITY, operations: [{ ...OPERATION, input_schema: { type: "string" } }] }],
      /is not an object/,
    ],
    [
      "a schema with a reference outside",
      [
        {
          ...CAPABILITY,
          operations: [{ ...OPERATION, input_schema: { type: "object", $ref: "https://example.com/x" } }],
        },
      ],
      /input schema of notes.notes list cannot be used/,
    ],
    [
      "a key in camel case",
      [{ ...CAPABILITY, operations: [{ ...OPERATION, inputSchema: {} }] }],
      /operations\[0\]` has an unknown key/,
    ],
    ["a missing part", [{ ...CAPABILITY, operations: [{ name: "list" }] }], /operations\[0\].description` is missing/],
  ])("[S-21] is refused with %s", async (_, capabilities, message) => {
    const error = await catchProviderError(describing(capabilities).describe(createCallContext()));
    expect(error.code).toBe("provider-answer-invalid");
    expect(error.message).toMatch(message);
    expect(error.fix).toBeTruthy();
  });
});

describe("the health and the sign-in of a program", () => {
  it("are reported by the program", async () => {
    const provider = createProgramProvider(
      `answer({ is_ready: request.params.is_signed_in, message: "No\\naccount", steps: ["sign in"], accounts: ["ada"] })`,
    );
    expect(await provider.health({ ...createCallContext(), isSignedIn: false })).toEqual({
      isReady: false,
      message: "No account",
      steps: ["sign in"],
      accounts: ["ada"],
    });
  });

  it("lead from the start to a credential, with steps that only the program knows", async () => {
    const { auth } = createProgramProvider(`
      const { method, params, context } = request;
      if (method === "auth.begin") answer({ kind: "device", url: "https://example.com/device", user_code: "AB-12",
        message: "Type it in.", state: { by: context.user, scopes: params.scopes }, expires_in_seconds: 600, interval_seconds: 5 });
      else if (method === "auth.poll") answer(params.state.by === "ada" ? { credential: { account: "ada", secret: { t: 1 } } } : {});
      else answer({ credential: { account: params.callback.values.login, secret: { code: params.callback.code } } });
    `);
    const context = { user: "ada" };
    expect(await auth?.begin({ scopes: ["notes"], context }, createCallContext())).toEqual({
      ...{ kind: "device", url: "https://example.com/device", userCode: "AB-12", message: "Type it in." },
      ...{ state: { by: "ada", scopes: ["notes"] }, expiresInSeconds: 600, intervalSeconds: 5 },
    });
    expect(await auth?.poll?.({ state: { by: "bob" }, context }, createCallContext())).toBeUndefined();
    expect(await auth?.poll?.({ state: { by: "ada" }, context }, createCallContext())).toEqual({
      account: "ada",
      secret: { t: 1 },
    });
    const callback = { text: "https://x/?code=c1&login=ada", values: { code: "c1", login: "ada" }, code: "c1" };
    const credential = await auth?.complete({ state: {}, callback, context }, createCallContext());
    expect(credential).toEqual({ account: "ada", secret: { code: "c1" } });
  });

  it("are refused without a sign-in", async () => {
    const { auth } = createProgramProvider(`refuse({ code: "unsupported", message: "no" })`);
    const error = await catchProviderError(auth?.begin({ context: {} }, createCallContext()) ?? Promise.resolve());
    expect(error).toMatchObject({ code: "denied", message: "The provider of notes has no sign-in" });
  });
});
