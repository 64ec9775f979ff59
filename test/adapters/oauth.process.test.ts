import { generateKeyPair, SignJWT } from "jose";
import { describe, expect, it } from "vitest";
import { createOauthResource, type OauthResourceOptions } from "../../src/adapters/mcp-server/oauth.ts";
import { skillText } from "../support/folder.ts";
import { ERAS } from "../support/mcp-client.ts";
import { createHomeWith } from "../support/mcp-process.ts";
import { startOauthIssuer } from "../support/oauth-issuer.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { codeOf, startTeamServer } from "../support/team-server.ts";
import { waitFor } from "../support/wait-for.ts";

const RESOURCE = "https://skills.example.com/mcp";

async function scene(more: Partial<OauthResourceOptions> = {}, settings: OauthResourceOptions["settings"] = {}) {
  const issuer = await startOauthIssuer();
  const oauth = createOauthResource({ resource: RESOURCE, ...more, settings: { issuer: issuer.issuer, ...settings } });
  const verify = async (text: string) => {
    const verified = await oauth.verify(text);
    return "refusal" in verified ? verified.refusal.status : verified;
  };
  const sign = (claims = {}, header = {}) => issuer.sign({ aud: RESOURCE, ...claims }, header);
  return { issuer, oauth, verify, sign };
}

describe("access tokens of an issuer", () => {
  it("[E-35] name the person and the scopes", async () => {
    const { verify, sign } = await scene({}, { tenantClaim: "org" });
    expect(await verify(await sign({ org: "red", aud: ["other", RESOURCE] }))).toMatchObject({
      ...{ key: 'person ["red","ada"]', userId: "ada", tenant: "red" },
      scopes: new Set(["list", "load", "run", "use", "approve"]),
    });
  });

  const past = () => Math.floor(Date.now() / 1000) - 60;
  it.each([
    ["for another audience", () => ({ aud: "https://other.example/mcp" })],
    ["without an audience", () => ({ aud: undefined })],
    ["of another issuer", () => ({ iss: "https://evil.example" })],
    ["that has expired", () => ({ exp: past() })],
    ["without an expiry", () => ({ exp: undefined })],
    ["that is not valid yet", () => ({ nbf: past() + 3600 })],
    ["without a person", () => ({ sub: undefined })],
    ["whose person is not a name", () => ({ sub: "ada\nbob" })],
    ["whose person is not text", () => ({ sub: 7 })],
  ])("[E-35] are refused %s", async (_, claims) => {
    const { verify, sign } = await scene();
    expect(await verify(await sign(claims()))).toBe(401);
    expect(await verify(await sign())).toMatchObject({ userId: "ada" });
  });

  it("[E-35] are refused with a signature of another key, a shared secret, or none", async () => {
    const { issuer, verify, sign } = await scene();
    const claims = { iss: issuer.issuer, sub: "ada", aud: RESOURCE, scope: "use", exp: past() + 3600 };
    const { privateKey } = await generateKeyPair("ES256");
    const forged = new SignJWT(claims).setProtectedHeader({ alg: "ES256", kid: "first" });
    expect(await verify(await forged.sign(privateKey))).toBe(401);
    const shared = new SignJWT(claims).setProtectedHeader({ alg: "HS256", kid: "first" });
    expect(await verify(await shared.sign(new TextEncoder().encode("a".repeat(32))))).toBe(401);
    const [, payload = ""] = (await sign()).split(".");
    const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
    for (const text of [
      `${none}.${payload}.`,
      `${none}.${payload}`,
      "not a token",
      "",
      "a.b.c",
      `a.b.${"c".repeat(20_000)}`,
    ])
      expect(await verify(text)).toBe(401);
    const [head, body, signature = ""] = (await sign()).split(".");
    const changed = `${signature[0] === "A" ? "B" : "A"}${signature.slice(1)}`;
    expect(await verify(`${head}.${body}.${changed}`)).toBe(401);
  });

  it("[E-35] are refused with an algorithm that is not on the list, which has asymmetric ones only", async () => {
    const { verify, sign, issuer } = await scene({}, { algorithms: ["RS256"] });
    expect(await verify(await sign())).toBe(401);
    await issuer.addKey("rsa", "RS256");
    await waitFor(async () => expect(await verify(await sign())).toMatchObject({ userId: "ada" }));
    for (const algorithms of [["HS256"], ["none"], []])
      expect(() =>
        createOauthResource({ resource: RESOURCE, settings: { issuer: issuer.issuer, algorithms } }),
      ).toThrow(expect.objectContaining({ code: "usage" }));
  });

  it("[E-35] follow the keys of the issuer: a new one is accepted, and a removed one no longer", async () => {
    const { issuer, verify, sign } = await scene();
    const old = await sign();
    expect(await verify(old)).toMatchObject({ userId: "ada" });
    await issuer.addKey("second");
    const before = issuer.key();
    await waitFor(async () => expect(await verify(await sign({ sub: "bob" }))).toMatchObject({ userId: "bob" }));
    issuer.removeKey("second");
    await issuer.addKey("third");
    await waitFor(async () => expect(await verify(await sign({ sub: "eve" }))).toMatchObject({ userId: "eve" }));
    expect(await verify(await issuer.sign({ aud: RESOURCE, sub: "mallory" }, {}, before))).toBe(401);
  });

  it("[E-35] get a 503 while the keys cannot be read, so that no client signs in again in vain", async () => {
    const { issuer, oauth, verify, sign } = await scene();
    issuer.setAway(true);
    expect(await verify(await sign())).toBe(503);
    expect(await oauth.verify(await sign())).toMatchObject({ isUnavailable: true });
    issuer.setAway(false);
    expect(await verify(await sign())).toMatchObject({ userId: "ada" });
  });

  it("[E-35] are refused when the metadata of the issuer names another one", async () => {
    const issuer = await startOauthIssuer({ named: "https://evil.example" });
    const oauth = createOauthResource({ resource: RESOURCE, settings: { issuer: issuer.issuer } });
    expect(await oauth.verify(await issuer.sign({ aud: RESOURCE }))).toMatchObject({ isUnavailable: true });
  });

  it("[E-35] of a disabled person are refused, also those that were verified before", async () => {
    let enabled = true;
    const { verify, sign } = await scene({ isEnabled: () => enabled });
    const token = await sign();
    expect(await verify(token)).toMatchObject({ userId: "ada" });
    enabled = false;
    expect(await verify(token)).toBe(401);
  });

  it.each(["http://issuer.example", "ftp://issuer.example", "issuer", ""])(
    "require an issuer with https, not %j",
    (issuer) => {
      expect(() => createOauthResource({ resource: RESOURCE, settings: { issuer } })).toThrow(
        expect.objectContaining({ code: "usage", message: "server.oauth.issuer is not an https address" }),
      );
    },
  );
});

describe.each(sampleRows(ERAS, 1))(
  "a server that accepts access tokens, for clients of %s",
  { timeout: 120_000 },
  (era) => {
    it("[E-35] names its issuer to clients without a token, and serves those with one", async () => {
      const issuer = await startOauthIssuer();
      const config = `[server]\npublic_url = "${RESOURCE}"\n[server.oauth]\nissuer = "${issuer.issuer}"\n`;
      const server = await startTeamServer(
        createHomeWith({
          "home/.skillet/skills/notes/SKILL.md": skillText("notes"),
          "home/.skillet/config.toml": config,
        }),
      );
      const refused = await server.send("/mcp", { method: "POST" });
      expect(refused.status).toBe(401);
      const [, address = ""] = /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate") ?? "") ?? [];
      expect(address).toBe("https://skills.example.com/.well-known/oauth-protected-resource/mcp");
      const metadata = await server.send(new URL(address).pathname);
      expect(await metadata.json()).toMatchObject({ resource: RESOURCE, authorization_servers: [issuer.issuer] });
      const client = await server.connect(await issuer.sign({ aud: RESOURCE }), era);
      expect((await client.call("load_skill", { skill: "notes" })).isError).toBe(false);
      const wrong = await server.send("/mcp", { token: await issuer.sign({ aud: "other" }), method: "POST" });
      expect([wrong.status, wrong.headers.get("www-authenticate")]).toEqual([
        401,
        expect.stringContaining('error="invalid_token"'),
      ]);
      const less = await issuer.sign({ aud: RESOURCE, scope: "load" });
      const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "use_skill", arguments: {} } };
      const short = await server.send("/mcp", {
        ...{ token: less, method: "POST", body: JSON.stringify(call) },
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      });
      expect([short.status, short.headers.get("www-authenticate")]).toEqual([
        403,
        expect.stringContaining('error="insufficient_scope", scope="use"'),
      ]);
      // The tokens of people are accepted too.
      const { token } = await server.createToken("bob");
      expect(codeOf(await (await server.connect(token, era)).call("load_skill", { skill: "notes" }))).toBeUndefined();
    });
  },
);
