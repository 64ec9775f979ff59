import { describe, expect, it } from "vitest";
import { createGithubProvider } from "../../src/capabilities/github/github-provider.ts";
import type { AuthCompletion, CapabilityProvider, ProviderAuth } from "../../src/host/capability-contract.ts";
import {
  CLIENT_ID,
  DEVICE_CODE,
  type GithubServer,
  type Reply,
  startGithubServer,
  TOKEN,
} from "../support/github-server.ts";
import { user } from "../support/github-shapes.ts";
import { waitFor } from "../support/wait-for.ts";

const context = { run: "r1", skill: "github" };

describe("signing in to github with a token", () => {
  it("names the page that creates one, with the required fields filled in", async () => {
    const begun = await authOf(createGithubProvider()).begin({ context }, within());
    expect(begun).toMatchObject({
      kind: "paste",
      url: "https://github.com/settings/personal-access-tokens/new?name=skillet&issues=write&pull_requests=write&contents=read",
    });
    expect(begun.message).toContain(begun.url);
  });

  it.each([
    ["https://api.github.com/", "https://github.com/settings/"],
    ["https://git.example.com/api/v3", "https://git.example.com/settings/"],
    ["https://api.octocorp.ghe.com", "https://octocorp.ghe.com/settings/"],
  ])("knows the pages of %s", async (baseUrl, page) => {
    const { url } = await authOf(createGithubProvider({ baseUrl })).begin({ context }, within());
    expect(url?.startsWith(page), url).toBe(true);
  });

  it("[S-24] tests the token, and gets its owner and its expiry from GitHub", async () => {
    const headers = {
      "x-oauth-scopes": "read:org, repo",
      "github-authentication-token-expiration": "2030-12-31 12:00:00 UTC",
    };
    const server = await startGithubServer({ "GET /user": { headers, body: { ...user("ada"), email: null } } });
    const credential = await authOf(createGithubProvider({ baseUrl: server.url })).complete(
      pasted(` ${TOKEN}\n`),
      within(),
    );
    expect(credential).toEqual({
      account: "ada",
      secret: { token: TOKEN },
      scopes: ["read:org", "repo"],
      expiresAt: "2030-12-31T12:00:00.000Z",
    });
  });

  it("reports no scopes for a fine-grained token, which has none", async () => {
    const server = await startGithubServer({ "GET /user": { headers: { "x-oauth-scopes": "" }, body: user("ada") } });
    const credential = await authOf(createGithubProvider({ baseUrl: server.url })).complete(pasted(TOKEN), within());
    expect(credential).toEqual({ account: "ada", secret: { token: TOKEN } });
  });

  it("[Q-22] refuses a token that GitHub rejects, and an invalid one, without repeating it", async () => {
    const server = await startGithubServer({ "GET /user": { body: user("ada") } });
    const auth = authOf(createGithubProvider({ baseUrl: server.url }));
    const wrong = `ghp_${"z".repeat(36)}`;
    for (const [text, code] of [
      [wrong, "auth-needed"],
      ["here it is: ghp_zzz", "input-invalid"],
      ["", "input-invalid"],
    ] as const) {
      const error = await auth.complete(pasted(text), within()).catch((reason: unknown) => reason as Error);
      expect(error).toMatchObject({ code });
      expect(JSON.stringify([error, (error as Error).message])).not.toContain("zzz");
    }
    expect(server.requests).toHaveLength(1);
  });

  it("[S-24] explains in its health how to sign in, and that a sign-in is needed", async () => {
    const { health } = createGithubProvider();
    const how = [expect.stringContaining("personal-access-tokens/new"), "skillet auth login github, and paste it"];
    expect(await health({ ...within(), isSignedIn: false })).toMatchObject({ isReady: false, steps: how });
    expect(await health(within())).toMatchObject({ isReady: true, steps: how });
    expect(await health({ ...within(), isSignedIn: true })).toEqual({ isReady: true });
    const { steps } = await createGithubProvider({ clientId: CLIENT_ID }).health({ ...within(), isSignedIn: false });
    expect(steps).toEqual(["skillet auth login github, and follow the instructions"]);
  });
});

describe("signing in to github with a code", () => {
  it("[S-24] shows the code, waits until it was entered, and gets the token's owner", async () => {
    const token = "gho_16C7e42F292c6912E7710c838347Ae178B4a";
    const answers: Reply[] = [
      { body: { error: "authorization_pending", error_description: "The authorization request is still pending." } },
      { body: { access_token: token, token_type: "bearer", scope: "repo" } },
    ];
    const server: GithubServer = await startGithubServer(
      {
        "POST /login/device/code": () => ({ body: deviceCode(server.url) }),
        "POST /login/oauth/access_token": () => answers.shift() ?? { status: 500 },
        "GET /user": { headers: { "x-oauth-scopes": "repo" }, body: user("ada") },
      },
      { token },
    );
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: CLIENT_ID }));
    const begun = await auth.begin({ context }, within());
    expect(begun).toMatchObject({
      kind: "device",
      url: `${server.url}/login/device`,
      userCode: "WDJB-MJHT",
      expiresInSeconds: 900,
      intervalSeconds: 5,
    });
    expect(begun.message).not.toContain(DEVICE_CODE);
    const polled = { context, ...(begun.state ? { state: begun.state } : {}) };
    expect(await auth.poll?.(polled, within())).toBeUndefined();
    expect(await auth.poll?.(polled, within())).toEqual({ account: "ada", secret: { token }, scopes: ["repo"] });
    expect(server.requests.map(({ body }) => body).slice(0, 2)).toEqual([
      { client_id: CLIENT_ID, scope: "repo" },
      { client_id: CLIENT_ID, device_code: DEVICE_CODE, grant_type: "urn:ietf:params:oauth:grant-type:device_code" },
    ]);
  });

  it("stores the expiry of the token", async () => {
    const token = "ghu_16C7e42F292c6912E7710c838347Ae178B4a";
    const body = { access_token: token, expires_in: 28_800, refresh_token: "ghr_x", token_type: "bearer", scope: "" };
    const server = await startGithubServer(
      { "POST /login/oauth/access_token": { body }, "GET /user": { body: user("ada") } },
      { token },
    );
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: CLIENT_ID }));
    const before = Date.now();
    const { expiresAt = "" } = await auth.complete(waiting(), within());
    const asked = Date.parse(expiresAt) - 28_800_000;
    expect([before, asked, Date.now()].toSorted((a, b) => a - b)[1], "when it was asked for").toBe(asked);
  });

  it("polls less often when GitHub wants that", async () => {
    const server = await startGithubServer({
      "POST /login/oauth/access_token": { body: { error: "slow_down", interval: 1 } },
    });
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: CLIENT_ID }));
    expect(await auth.poll?.(waiting(), within())).toBeUndefined();
    expect(await auth.poll?.(waiting(), within())).toBeUndefined();
    expect(server.requests).toHaveLength(1);
    await waitFor(async () => {
      await auth.poll?.(waiting(), within());
      return server.requests.length === 2;
    });
  });

  it.each([
    ["expired_token", "auth-needed"],
    ["access_denied", "denied"],
    ["incorrect_device_code", "auth-needed"],
    ["device_flow_disabled", "provider-failed"],
    ["authorization_pending", "auth-needed"],
  ])("ends with %s as %s when the user reports completion", async (error, code) => {
    const server = await startGithubServer({
      "POST /login/oauth/access_token": { body: { error, error_description: "No." } },
    });
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: CLIENT_ID }));
    await expect(auth.complete(waiting(), within())).rejects.toMatchObject({ code, fix: expect.any(String) });
  });

  it("sends no user to a page outside GitHub", async () => {
    const server = await startGithubServer({
      "POST /login/device/code": { body: deviceCode("https://github.example") },
    });
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: CLIENT_ID }));
    await expect(auth.begin({ context }, within())).rejects.toMatchObject({ code: "provider-answer-invalid" });
  });

  it("reports that no sign-in is pending, or the app is unknown", async () => {
    const server = await startGithubServer();
    const auth = authOf(createGithubProvider({ baseUrl: server.url, clientId: "Iv1.other" }));
    await expect(auth.poll?.({ context }, within())).rejects.toMatchObject({ code: "auth-needed" });
    await expect(auth.begin({ context }, within())).rejects.toMatchObject({ code: "provider-answer-invalid" });
  });
});

function within() {
  return { signal: AbortSignal.timeout(10_000) };
}

function authOf({ auth }: CapabilityProvider): ProviderAuth {
  if (!auth) throw new Error("no user signs in there");
  return auth;
}

function pasted(text: string): AuthCompletion {
  return { context, callback: { text, values: {} } };
}

function waiting(): AuthCompletion {
  return { context, state: { device_code: DEVICE_CODE } };
}

function deviceCode(web: string) {
  return {
    device_code: DEVICE_CODE,
    user_code: "WDJB-MJHT",
    verification_uri: `${web}/login/device`,
    expires_in: 900,
    interval: 5,
  };
}
