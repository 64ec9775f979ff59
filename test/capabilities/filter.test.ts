import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { collectCredentialSecrets, filterCredentials } from "../../src/capabilities/credential-filter.ts";
import { sampleRows } from "../support/sample-steps.ts";
import { expectLinearSteps, runOften } from "../support/steps.ts";

const NONE = new Map<string, string>();
const REMOVED = "[removed: a credential]";
const filtered = (value: unknown, secrets = NONE) => {
  const { value: left, removed } = filterCredentials(value, secrets);
  return { value: JSON.parse(JSON.stringify(left)), removed };
};
const jwt = `eyJ${"hbGciOiJ".repeat(3)}.eyJ${"zdWIiOiI".repeat(3)}.${"c2lnbmF0".repeat(5)}`;
const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAA==\n-----END RSA PRIVATE KEY-----";
const drawn = "aB3dE6gH9jK2mN5pQ8sT1vW4";

describe("the credential filter", () => {
  it.each([
    ..."access_token accessToken ACCESS-TOKEN refresh_token id_token client_secret clientSecret password Passwd".split(
      " ",
    ),
    ..."secret webhook_secret api_key apikey X-API-Key private_key authorization Cookie Set-Cookie session_token".split(
      " ",
    ),
    ..."bearer aws_secret_access_key passphrase credentials oauthToken device_code pwd db_pwd passcode".split(" "),
  ])("[Q-21] removes values under %s", (name) => {
    expect(filtered({ deep: [{ [name]: "x" }] })).toEqual({ value: { deep: [{ [name]: REMOVED }] }, removed: 1 });
  });

  it.each<[string, string]>([
    ["GitHub's", `ghp_${drawn}${drawn}`],
    ["GitHub's, of a server", `ghs_${drawn}${drawn}`],
    ["GitHub's, fine-grained", `github_pat_11AAAAAAA0${drawn}_${drawn}`],
    ["GitLab's", "glpat-abcdefghijklmnopqrst"],
    ["Slack's", "xoxb-1234567890-abcdefghij"],
    ["AWS's", "AKIAIOSFODNN7EXAMPLE"],
    ["Google's", `ya29.${drawn}_${drawn}`],
    ["OpenAI's", `sk-proj-${drawn}${drawn}`],
    ["Anthropic's", `sk-ant-api03-${drawn}-${drawn}`],
    ["a JWT", jwt],
    ["a private key", pem],
    ["a private key without its end", pem.slice(0, 50)],
    ["a bearer's", `Bearer ${drawn}`],
    ["a header", "Authorization: Basic dXNlcjpwYXNz"],
    ["in JSON in a text", `{"access_token":"${drawn}"}`.slice(1, -1)],
    ["in the query of an address", `access_token=${drawn}`],
    ["with dots in it", "api_key=MTk4NjIyNDgz.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs"],
    ["a login", "Basic dXNlcjpwYXNzMTIz"],
    ["SendGrid's", `SG.${drawn}.${drawn}${drawn}`],
    ["DigitalOcean's", `dop_v1_${"0a1b2c3d".repeat(8)}`],
    ["Telegram's", `123456789:AA${drawn}${drawn}`.slice(0, 45)],
    ["Discord's", `MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.${drawn}abc`],
    ["a webhook's", `https://discord.com/api/webhooks/123456789/${drawn}${drawn}`.slice(-48)],
    ["Shopify's", `shpat_${"0a1b2c3d".repeat(4)}`],
    ["a password in JSON in a text", '{\\"password\\": \\"correct horse\\"}'.slice(1, -1)],
    ["a password in a connection string", "Pwd=hunter22"],
    ["before a host", "user:hunter2"],
  ])("[Q-21] removes values that look like a credential: %s", (_, credential) => {
    const text =
      _ === "a webhook's"
        ? `see https://discord.com/api/webhooks/123456789/${credential} now`
        : credential === "user:hunter2"
          ? `see https://${credential}@example.com/ now`
          : `see "${credential}", now`;
    const { value, removed } = filtered({ [text]: 1, list: [text] });
    expect(removed).toBe(2);
    expect(JSON.stringify(value)).not.toContain(JSON.stringify(credential).slice(1, -1));
    expect(value.list[0]).toMatch(/^see .*\[removed: a credential\].* ?now$|^see .*\[removed: a credential\]$/);
  });

  it("leaves ordinary answers unchanged", () => {
    const answer = {
      next_page_token: drawn,
      nextPageToken: drawn,
      pageToken: "CAEQAA",
      NextToken: drawn,
      sync_token: drawn,
      token_count: 12,
      tokens: 42,
      max_tokens: "4096",
      token: "if",
      secret: false,
      password: null,
      has_password: true,
      password_updated_at: "2026-01-01",
      password_hint: "the usual one",
      author: "Ada",
      authorization_url: "https://example.com/authorize?client_id=abc&state=xyz&code_challenge=abcdefgh12345678",
      cookie_policy: "strict",
      pwd: "/home/ada",
      monkey: "banana",
      key: "PROJ-123",
      body: "My password is secret. Bearer bonds, basic understanding; reset your password: click here. api_key: see docs. sk-toggleable__content-label-arrow",
      subject: "Authorization: please confirm the authorization: purchase request",
      patch: "+ accessToken: process.env.GITHUB_APP_ACCESS_TOKEN,\n+ client_secret = settings.oauth2.client_secret",
      link: "https://example.com/blog/global-warming-and-climate-change",
      email: "ada@example.com",
      url: "https://example.com:8080/a/b?q=1#x",
      sha: "da39a3ee5e6b4b0d3255bfef95601890afd80709",
      id: "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
      secrets: [{ name: "DEPLOY_KEY", created_at: "2026-01-01" }],
      headers: [{ name: "Subject", value: "Your tokens" }],
      empty: { password: "" },
      list: [[], {}, null, 1.5, true, ""],
    };
    expect(filtered(answer)).toEqual({ value: answer, removed: 0 });
  });

  it("removes values below a credential's name, except those that only describe it", () => {
    const answer = {
      credentials: { type: "oauth", expires_at: "2030", value: "abc", more: ["d", 1, true] },
      headers: [{ name: "Set-Cookie", value: "sid=1" }],
      cookies: [{ name: "sid", value: "abc" }],
      token: drawn,
    };
    expect(filtered(answer).value).toEqual({
      credentials: { type: "oauth", expires_at: "2030", value: REMOVED, more: [REMOVED, 1, true] },
      headers: [{ name: "Set-Cookie", value: REMOVED }],
      cookies: [{ name: "sid", value: REMOVED }],
      token: REMOVED,
    });
  });

  it("reaches no prototype and keeps names distinct that become the same", () => {
    const answer = JSON.parse(
      `{"__proto__":{"password":"x","polluted":1},"constructor":{"prototype":{"y":1}},"ghp_${drawn}a":1,"ghp_${drawn}b":2}`,
    );
    const { value } = filterCredentials(answer, NONE);
    expect(Object.keys(value as object)).toEqual(["__proto__", "constructor", REMOVED, `${REMOVED} (2)`]);
    expect(JSON.stringify(value)).toContain(`"__proto__":{"password":"${REMOVED}","polluted":1}`);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  it("stops at endless nesting, or too many values", () => {
    const round: Record<string, unknown> = {};
    round["a"] = round;
    round["b"] = [round, round];
    expect(JSON.stringify(filterCredentials(round, NONE).value)).toMatch(/left out/);
    let deep: unknown = { password: "x" };
    for (let depth = 0; depth < 5000; depth++) deep = [deep];
    expect(JSON.stringify(filterCredentials(deep, NONE).value)).toMatch(/^\[+"\[left out: nested too deeply\]"\]+$/);
  });

  const UNITS = [
    "eyJ",
    "-----BEGIN PRIVATE KEY-----",
    "Bearer ",
    "access_token",
    'access_token\\\\\\"',
    "://a:b",
    "sk-",
    "a",
    "-",
  ];
  const repeated = (unit: string, length: number) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length);

  it.each(sampleRows(UNITS, 4))("handles a megabyte of %j", (unit) => {
    const text = repeated(unit, 1_000_000);
    runOften(5, () => filterCredentials(text, new Map([["t", drawn]])));
  });

  it("takes linear time for any input", async () => {
    await expectLinearSteps(
      ["src/capabilities/credential-filter.ts"],
      ({ filterCredentials }: typeof import("../../src/capabilities/credential-filter.ts"), text: string) =>
        filterCredentials(text, new Map([["t", "0123456789abcdef0123456789abcdef"]])),
      UNITS.map((unit) => [unit, [8000, 16_000, 32_000].map((length) => repeated(unit, length))]),
    );
  });

  it("[Q-22] leaves no known secret, in any place and encoding", () => {
    const secret = fc.stringMatching(/^[A-Za-z0-9+/=_.~ é-]{6,30}$/).map((text) => `k7${text}Q9`);
    const encode = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => Buffer.from(text).toString("base64"),
      (text) => Buffer.from(text).toString("base64url"),
      (text) => Buffer.from(`xy${text}z`).toString("base64"),
      (text) => Buffer.from(text).toString("hex"),
      (text) => encodeURIComponent(text),
      (text) => JSON.stringify(JSON.stringify(text)),
    );
    const place = fc.constantFrom<(text: string) => unknown>(
      (text) => text,
      (text) => ({ [text]: 1 }),
      (text) => [[{ a: text }], "b"],
      (text) => ({ next_page_token: text, body: `before ${text} after` }),
      (text) => ({ name: text, value: text }),
      (text) => JSON.parse(`{"__proto__":{"x":${JSON.stringify(text)}}}`),
      (text) => ({ secrets: { name: text } }),
    );
    const around = fc.string({ maxLength: 20 });
    fc.assert(
      fc.property(secret, encode, place, around, around, (text, encoded, placed, before, after) => {
        const shown = `${before} ${encoded(text)} ${after}`;
        const { value, removed } = filterCredentials(placed(shown), new Map([["gog.token", text]]));
        const left = JSON.stringify(value);
        expect(removed).toBeGreaterThan(0);
        expect(left).not.toContain(JSON.stringify(encoded(text)).slice(1, -1));
        expect(left).not.toContain(text);
      }),
      { numRuns: 300 },
    );
    expect(filtered({ pin: 12345678 }, new Map([["t", "12345678"]])).value).toEqual({ pin: REMOVED });
  });

  it("knows the secret parts of a credential, and that an account is not secret", () => {
    const secrets = collectCredentialSecrets({
      account: "ada.lovelace@example.com",
      scopes: ["https://www.example.com/auth/mail"],
      secret: {
        ...{ access_token: "abcd", refreshToken: drawn, token_type: "Bearer", scope: "repo", unnamed: "long-enough-1" },
        ...{ email: "ada.lovelace@example.com", expires_at: "2030-01-01T00:00:00Z", who: "ada.lovelace@example.com" },
        ...{ deep: { session: "0123456789" }, list: ["9876543210", "x"], word: "short" },
      },
    });
    expect([...secrets.values()].sort()).toEqual(["0123456789", "9876543210", drawn, "abcd", "long-enough-1"]);
    expect(collectCredentialSecrets(undefined).size).toBe(0);
  });

  it("[Q-21] removes the old form of a renewed credential too", () => {
    const [old, renewed] = ["old-0123456789", "new-0123456789"].map((token) => ({ account: "ada", secret: { token } }));
    const { value, removed } = filtered(
      ["old-0123456789", "new-0123456789"],
      new Map(collectCredentialSecrets(old, renewed)),
    );
    expect(removed).toBe(2);
    expect(JSON.stringify(value)).not.toMatch(/0123456789/);
  });
});
