import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { createVault } from "../../src/capabilities/credential-vault.ts";
import { createSignInFlows } from "../../src/capabilities/sign-in-flows.ts";
import { parseSignInCallback } from "../../src/capabilities/sign-in-input.ts";
import { SkillError } from "../../src/errors/problem.ts";
import type {
  AuthChallenge,
  AuthCompletion,
  CapabilityProvider,
  Credential,
  ProviderAuth,
} from "../../src/host/capability-contract.ts";
import { temporaryFolder } from "../support/folder.ts";
import { readAll } from "../support/read-all.ts";
import { runOften } from "../support/steps.ts";

const url = "https://id.example.com/authorize?client_id=skillet&state=s-123&code_challenge=abc";
const credential: Credential = { account: "ada@example.com", secret: { access_token: "at-0123456789" } };
const code = (name: string) => expect.objectContaining({ code: name });

/** The test's own provider, with a clock that the test moves. */
function scene(own: Partial<ProviderAuth> = {}, begun: Partial<AuthChallenge> = {}) {
  const seen: { begun: number; polled: number; completed: AuthCompletion[] } = { begun: 0, polled: 0, completed: [] };
  const provider: CapabilityProvider = {
    ...{ namespace: "gog", from: "in this program", seconds: 5 },
    describe: async () => ({ capabilities: [] }),
    invoke: async () => ({ output: {} }),
    health: async () => ({ isReady: true }),
    auth: {
      async begin() {
        seen.begun++;
        return {
          kind: "link",
          url,
          message: "Open it",
          state: { state: "s-123", verifier: "very-secret-verifier" },
          ...begun,
        };
      },
      async complete(request) {
        seen.completed.push(request);
        return credential;
      },
      ...own,
    },
  };
  let time = Date.now();
  const now = () => time;
  const home = temporaryFolder();
  const vault = createVault(home, { env: {}, now });
  const audit = createAuditLog(home);
  const providerOf = (id: string) => (id.split(".")[0] === "gog" ? provider : undefined);
  const auth = createSignInFlows({ vault, findProvider: providerOf, audit, now });
  const request = { capability: "gog.email", scopes: ["mail"], context: { run: "r_1", skill: "gog", source: "user" } };
  return {
    ...{ auth, vault, audit, provider, providerOf, request, seen, now, home },
    begin: (user = "ada") => auth.begin(provider, request, user),
    pass: (seconds: number) => {
      time += seconds * 1000;
    },
  };
}

const device = (poll: ProviderAuth["poll"], more: Partial<AuthChallenge> = {}) =>
  scene({ ...(poll ? { poll } : {}) }, { kind: "device", userCode: "ABCD-EFGH", intervalSeconds: 5, ...more });

describe("a sign-in", () => {
  it("[S-24] stores its credential in the vault, and reveals it to no caller", async () => {
    const { auth, begin, vault, seen, audit, home } = scene();
    const begun = await begin();
    expect(begun).toEqual({
      ...{ flow: expect.stringMatching(/^flow_[0-9a-f]{32}$/), kind: "link", message: "Open it", url },
      expires_in_seconds: 600,
    });
    expect(readFileSync(vault.file, "utf8")).not.toContain("very-secret-verifier");
    expect(readFileSync(vault.file, "utf8"), "nor what it is asked for").not.toContain("mail");
    const result = await auth.complete(begun.flow, "http://localhost:1/?code=c-1&state=s-123", "ada");
    expect(result).toEqual({ status: "signed-in", account: "ada@example.com" });
    expect(seen.completed).toEqual([
      {
        ...{ capability: "gog.email", scopes: ["mail"], context: { run: "r_1", skill: "gog", source: "user" } },
        state: { state: "s-123", verifier: "very-secret-verifier" },
        callback: expect.objectContaining({ code: "c-1", state: "s-123" }),
      },
    ]);
    expect(await vault.get("gog", { user: "ada" })).toEqual({ ...credential, scopes: [] });
    expect(await vault.get("gog", { user: "" })).toBeUndefined();
    expect(await readAll(audit.read())).toMatchObject([
      { method: "auth.begin", outcome: "ok", user: "ada", capability: "gog.email" },
      { method: "auth.complete", outcome: "ok", user: "ada", capability: "gog.email" },
    ]);
    expect(readFileSync(`${home}/audit.jsonl`, "utf8")).not.toMatch(/c-1|very-secret|at-0123/);
  });

  it("[Q-20] belongs to its provider's origin: another origin starts another sign-in, and gets no data", async () => {
    const { auth, provider, request, vault, seen, now } = scene();
    const at = (origin: string) => ({ ...provider, origin });
    const authAt = (origin: string) => createSignInFlows({ vault, findProvider: () => at(origin), now });
    const { flow } = await auth.begin(at("https://one.example"), request, "ada");
    expect((await auth.begin(at("https://two.example"), request, "ada")).flow).not.toBe(flow);
    expect((await auth.begin(at("https://one.example"), request, "ada")).flow).toBe(flow);
    const moved = expect.objectContaining({
      code: "flow-unknown",
      message: expect.stringMatching(/has changed since this sign-in was begun/),
    });
    await expect(authAt("https://two.example").complete(flow, "c-1", "ada")).rejects.toThrow(moved);
    await expect(authAt("https://two.example").complete(flow, "c-1", "bob")).rejects.toThrow(/No such sign-in/);
    expect(seen.completed).toEqual([]);
    await authAt("https://one.example").complete(flow, "c-1", "ada");
    expect(await vault.list()).toMatchObject([{ account: "ada@example.com", origin: "https://one.example" }]);
  });

  it("[Q-20] works once", async () => {
    const { auth, begin, seen } = scene();
    const { flow } = await begin();
    const both = await Promise.allSettled([auth.complete(flow, "c-1", "ada"), auth.complete(flow, "c-1", "ada")]);
    expect(both.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    await expect(auth.complete(flow, "c-1", "ada")).rejects.toThrow(code("flow-used"));
    expect(seen.completed).toHaveLength(1);
    expect((await begin()).flow).not.toBe(flow);
  });

  it("[Q-20] is unknown to another user, or without its provider", async () => {
    const { auth, begin, vault, seen, now } = scene();
    const { flow } = await begin();
    const elsewhere = createSignInFlows({ vault, findProvider: () => undefined, now });
    const said = await Promise.all(
      [
        auth.complete(flow, "c-1", "bob"),
        auth.complete(flow, "c-1", ""),
        auth.poll(flow, "bob"),
        elsewhere.complete(flow, "c-1", "ada"),
        auth.complete(`flow_${"0".repeat(32)}`, "c-1", "bob"),
        auth.complete("__proto__", "c-1", "ada"),
        auth.complete(`${flow}.used`, "c-1", "ada"),
      ].map((work) => work.catch((error: SkillError) => `${error.code} ${error.message} ${error.fix}`)),
    );
    expect(new Set(said)).toEqual(new Set([said[0]]));
    expect(said[0]).toMatch(/^flow-unknown /);
    await auth.complete(flow, "c-1", "ada");
    await expect(auth.complete(flow, "c-1", "bob")).rejects.toThrow(code("flow-unknown"));
    expect(seen.completed).toHaveLength(1);
  });

  it("is continued while it is pending, for the same user and purpose", async () => {
    const { auth, begin, provider, request, seen, pass } = scene();
    const [first, second] = await Promise.all([begin(), begin()]);
    expect(second).toEqual(first);
    pass(100);
    expect(await begin()).toEqual({ ...first, expires_in_seconds: 500 });
    expect(seen.begun).toBe(1);
    expect((await begin("bob")).flow).not.toBe(first.flow);
    expect((await auth.begin(provider, { ...request, scopes: ["mail", "send"] }, "ada")).flow).not.toBe(first.flow);
    pass(500);
    expect((await begin()).flow).not.toBe(first.flow);
    await expect(auth.complete(first.flow, "c-1", "ada")).rejects.toThrow(code("flow-unknown"));
  });

  it("ends within an hour, whatever the provider says", async () => {
    const { begin } = scene({}, { expiresInSeconds: 1e9 });
    expect((await begin()).expires_in_seconds).toBe(3600);
  });

  it("is refused when the pasted text belongs to another", async () => {
    const { auth, begin, seen } = scene();
    const { flow } = await begin();
    await expect(auth.complete(flow, "https://x.example/?code=c&state=other", "ada")).rejects.toThrow(
      code("state-mismatch"),
    );
    await expect(auth.complete(flow, "c#other", "ada")).rejects.toThrow(code("state-mismatch"));
    expect(seen.completed).toHaveLength(0);
    await auth.complete(flow, "c#s-123", "ada");
    const { auth: other, begin: beginOther } = scene({}, { state: {} });
    const byUrl = await beginOther();
    await expect(other.complete(byUrl.flow, "c#other", "ada")).rejects.toThrow(code("state-mismatch"));
  });

  it("[Q-20] accepts a returned state with its own escapes", async () => {
    const { auth, begin } = scene({}, { state: { state: "to=%2Finbox&n=1" } });
    const { flow } = await begin();
    const pasted = `https://x.example/?code=c&state=${encodeURIComponent("to=%2Finbox&n=1")}`;
    expect(await auth.complete(flow, pasted, "ada")).toMatchObject({ status: "signed-in" });
  });

  it("ends when the other side refuses, and reports the reason on one line", async () => {
    const { auth, begin, seen } = scene();
    const { flow } = await begin();
    const pasted = "https://x.example/?error=access_denied&error_description=The+user%0Asaid+no&state=s-123";
    await expect(auth.complete(flow, pasted, "ada")).rejects.toThrow(
      expect.objectContaining({ code: "denied", message: expect.stringContaining("access_denied: The user said no") }),
    );
    await expect(auth.complete(flow, "c-1", "ada")).rejects.toThrow(code("flow-used"));
    expect(seen.completed).toHaveLength(0);
  });

  it("can be tried again when the pasted text was wrong, and shows nothing of it", async () => {
    let tries = 0;
    const { auth, begin } = scene({
      async complete({ callback, state }) {
        if (++tries > 1) return credential;
        const message = `no token: ${callback?.text} ${JSON.stringify(state)}`;
        throw new SkillError("input-invalid", { message, fix: "paste it again" });
      },
    });
    const { flow } = await begin();
    const refused = await auth.complete(flow, "wrong-token-0123", "ada").catch((error: SkillError) => error);
    expect(refused).toMatchObject({ code: "input-invalid", fix: "paste it again" });
    expect(String(refused)).not.toMatch(/wrong-token|very-secret/);
    expect((await begin()).flow).toBe(flow);
    expect(await auth.complete(flow, "right-token", "ada")).toMatchObject({ status: "signed-in" });
  });

  it("ends when its provider fails, whose exceptions cannot use skillet's codes", async () => {
    const { auth, begin } = scene({ complete: () => Promise.reject(new Error("boom")) });
    const { flow } = await begin();
    await expect(auth.complete(flow, "c-1", "ada")).rejects.toThrow(code("provider-failed"));
    await expect(auth.complete(flow, "c-1", "ada")).rejects.toThrow(code("flow-used"));
  });

  it("is polled no more often than the provider wants, until it is done", async () => {
    const answers: (Credential | undefined)[] = [undefined, credential];
    let polled = 0;
    const { auth, begin, pass, vault } = device(async () => answers[polled++]);
    const { flow, user_code, interval_seconds } = await begin();
    expect([user_code, interval_seconds]).toEqual(["ABCD-EFGH", 5]);
    const pending = { status: "pending", interval_seconds: 5 };
    expect(await Promise.all([auth.poll(flow, "ada"), auth.poll(flow, "ada")])).toEqual([pending, pending]);
    pass(4);
    expect(await auth.poll(flow, "ada")).toEqual(pending);
    expect(await auth.complete(flow, "done", "ada")).toEqual(pending);
    expect(polled).toBe(1);
    pass(1);
    expect(await auth.poll(flow, "ada")).toEqual({ status: "signed-in", account: "ada@example.com" });
    expect((await vault.get("gog", { user: "ada" }))?.account).toBe("ada@example.com");
    await expect(auth.poll(flow, "ada")).rejects.toThrow(code("flow-used"));
  });

  it.each([
    ["denied", "flow-used"],
    ["unavailable", "unavailable"],
  ] as const)("has ended or not after a poll that ends with %s", async (said, then) => {
    const { auth, begin, pass } = device(() => Promise.reject(new SkillError(said, { message: "no" })));
    const { flow } = await begin();
    await expect(auth.poll(flow, "ada")).rejects.toThrow(code(said));
    pass(5);
    await expect(auth.poll(flow, "ada")).rejects.toThrow(code(then));
  });

  it("is not polled if it cannot end by itself, and not started without a sign-in", async () => {
    const { auth, begin, provider, request } = scene();
    const { flow } = await begin();
    await expect(auth.poll(flow, "ada")).rejects.toThrow(code("auth-unsupported"));
    const { auth: _, ...without } = provider;
    await expect(auth.begin(without, request, "ada")).rejects.toThrow(code("auth-unsupported"));
  });

  it.each(["link", "paste"] as const)("of kind %s can be completed after an attempt to poll it", async (kind) => {
    const poll = async () => {
      throw new SkillError("denied", { message: "Nobody signs in this way", fix: "" });
    };
    const { auth, begin } = scene({ poll }, { kind });
    const { flow } = await begin();
    await expect(auth.poll(flow, "ada")).rejects.toThrow(code("auth-unsupported"));
    expect(await auth.complete(flow, "c-1", "ada")).toMatchObject({ status: "signed-in" });
  });

  it.each<[string, Partial<AuthChallenge>]>([
    ["an address that is not a web page", { url: "javascript:alert(1)" }],
    ["a file", { url: "file:///etc/passwd" }],
    ["a password in its address", { url: "https://ada:hunter2@example.com/" }],
    ["a token in its address", { url: "https://example.com/?access_token=abcdefgh12345678" }],
    ["a very long address", { url: `https://example.com/${"x".repeat(5000)}` }],
    ["no address", { url: undefined as never }],
    ["an unknown kind", { kind: "magic" as never }],
    ["an invalid state", { state: "x" as never }],
  ])("is not started with %s", async (_, begun) => {
    await expect(scene({}, begun).begin()).rejects.toThrow(code("provider-answer-invalid"));
  });

  it("has a signed state in its address", async () => {
    const url = `https://id.example.com/authorize?client_id=a&state=eyJ${"hbGciOiJ".repeat(3)}.eyJ${"zdWIiOiI".repeat(3)}.c2ln`;
    expect(await scene({}, { url, state: {} }).begin()).toMatchObject({ url });
  });

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["no account", { secret: {} }],
    ["an account of two lines", { account: "a\nb", secret: {} }],
    ["no secret", { account: "ada" }],
    ["invalid scopes", { account: "ada", secret: {}, scopes: "all" }],
    ["an invalid time", { account: "ada", secret: {}, expiresAt: "soon" }],
  ])("stores no credential with %s", async (_, given) => {
    const { auth, begin, vault } = scene({ complete: async () => given as Credential });
    const { flow } = await begin();
    await expect(auth.complete(flow, "c-1", "ada")).rejects.toThrow(code("provider-answer-invalid"));
    expect(await vault.list()).toEqual([]);
  });
});

describe("the text that a user pastes", () => {
  const address = "https://localhost:8085/cb?code=4/0AX-y_z&state=s-123";
  const encoded = encodeURIComponent(address);
  it.each([
    address,
    `  ${address}\n`,
    `<${address}>`,
    `"${address}"`,
    `“${address}”`,
    `\`${address}\``,
    `\`\`\`\n${address}\n\`\`\``,
    `[click here](${address})`,
    `[${address}](${address}).`,
    `<${address.replace("&", "&amp;")}|${address}>`,
    `Here it is: ${address}, thanks!`,
    `It says (${address}).`,
    `${address}.`,
    `${address.slice(0, 30)}\n${address.slice(30)}`,
    `${address.slice(0, 20)}\r\n   ${address.slice(20, 40)}  \r\n${address.slice(40)}\r\n`,
    `see: ${address.slice(0, 30)}\n${address.slice(30)}`,
    `\u200b${address}\ufeff`,
    "https://localhost:8085/cb?code=4%2F0AX-y_z&state=s-123",
    "https://localhost:8085/cb?code=4%252F0AX-y_z&state=s-123",
    "https://localhost:8085/cb#code=4/0AX-y_z&state=s-123",
    "com.example.app:/cb?code=4/0AX-y_z&state=s-123",
    "localhost:8085/cb?code=4/0AX-y_z&state=s-123",
    "?code=4/0AX-y_z&state=s-123",
    "code=4/0AX-y_z&state=s-123",
    "4/0AX-y_z#s-123",
    "`4/0AX-y_z#s-123`",
    encoded,
    `https://slack-redir.net/link?url=${encoded}`,
    `https://warn.example.com/?data=1&url=${encoded}&x=2`,
  ])("is parsed: %j", (pasted) => {
    expect(parseSignInCallback(pasted)).toMatchObject({ code: "4/0AX-y_z", state: "s-123" });
  });

  it.each([
    ["abc-123", { text: "abc-123", code: "abc-123" }],
    [" 'abc-123' ", { text: "abc-123", code: "abc-123" }],
    ["The code is: abc-123", { code: "abc-123" }],
    ["code: abc-123", { code: "abc-123" }],
    ["github_pat_11AA\nBBcc", { text: "github_pat_11AABBcc" }],
    ["https://x.example/#access_token=at&token_type=bearer", { values: { access_token: "at", token_type: "bearer" } }],
    ["https://x.example/?error=access_denied", { values: { error: "access_denied" } }],
    ['{\n  "type": "service_account"\n}', { text: '{\n"type": "service_account"\n}', values: {} }],
    ["https://x.example/nothing", { text: "https://x.example/nothing", values: {} }],
    ["https://x.example/?__proto__=1&code=c", { code: "c" }],
  ])("is recognized: %j", (pasted, expected) => {
    expect(parseSignInCallback(pasted)).toMatchObject(expected);
  });

  it.each([
    ["", /is empty/],
    ["  \u200b ", /is empty/],
    ["x".repeat(20_000), /longer/],
    ["https://x.example/?code=1&code=2", /contains `code` twice/],
    [`https://x.example/?${"a=1&".repeat(100)}`, /more than 64 values/],
  ])("is refused when it is invalid: %.40j", (pasted, message) => {
    expect(() => parseSignInCallback(pasted)).toThrow(
      expect.objectContaining({ code: "callback-invalid", message: expect.stringMatching(message) }),
    );
  });

  it.each([" ", "\n", "(", "[", "a:/", "%25", "https://", "`"])("takes linear time, also for %j repeated", (unit) => {
    const pasted = `a${unit.repeat(16_000 / unit.length)}b`;
    runOften(300, () => {
      try {
        parseSignInCallback(pasted);
      } catch {}
    });
  });
});
