import { describe, expect, it } from "vitest";
import { createGithubProvider } from "../../src/capabilities/github/github-provider.ts";
import { formatFix } from "../../src/errors/problem.ts";
import { PROVIDER_ERROR_CODES } from "../../src/host/capability-contract.ts";
import { ask, type GithubServer, problem, type Reply, startGithubServer, TOKEN } from "../support/github-server.ts";
import { issue, repository, SHA } from "../support/github-shapes.ts";
import { waitFor } from "../support/wait-for.ts";

const engine = { owner: "ada", repo: "engine" };
const one = { ...engine, number: 12 };
const at = "/repos/ada/engine";

const SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";

/** GitHub's answer, and the result: the code, and words of the message and the fix. */
const REFUSALS: [name: string, reply: Reply, code: string, message: RegExp, fix?: RegExp][] = [
  [
    "a refused token",
    problem(401, "Bad credentials"),
    "auth-needed",
    /expired/,
    /^sign in: skillet auth login github$/,
  ],
  [
    "the hourly rate limit",
    problem(403, "API rate limit exceeded for user ID 1.", {
      headers: { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1893456000" },
    }),
    "rate-limited",
    /rate limit was reached/,
    /until 2030-01-01T00:00:00.000Z/,
  ],
  [
    "too many concurrent requests",
    problem(429, "Too many", { headers: { "retry-after": "60" } }),
    "rate-limited",
    /rate limit was reached/,
    /60 seconds/,
  ],
  ["a secondary limit", problem(403, SECONDARY), "rate-limited", /rate limit was reached/, /at least a minute/],
  [
    "a fine-grained token without the permission",
    problem(403, "Resource not accessible by personal access token", {
      headers: { "x-accepted-github-permissions": "issues=read; pull_requests=read" },
    }),
    "denied",
    /Resource not accessible/,
    /permission issues=read; pull_requests=read/,
  ],
  [
    "a classic token without the scope",
    problem(403, "Must have admin rights", { headers: { "x-accepted-oauth-scopes": "repo" } }),
    "denied",
    /admin rights/,
    /scopes repo/,
  ],
  [
    "single sign-on",
    problem(403, "Resource protected by organization SAML enforcement.", {
      headers: { "x-github-sso": "required; url=https://github.com/orgs/x/sso?authorization_request=SECRET" },
    }),
    "denied",
    /SAML/,
    /single sign-on/,
  ],
  ["a missing resource", problem(404, "Not Found"), "not-found", /did not find/, /private repository/],
  ["a deleted resource", problem(410, "This issue was deleted"), "not-found", /This issue was deleted/],
  ["a blocked resource", problem(451, "Repository access blocked"), "denied", /blocked/],
  ["unprocessable input", problem(400, "Problems parsing JSON"), "input-invalid", /Problems parsing JSON/],
  ["a gateway's page", { status: 502, body: "<html>Bad Gateway</html>" }, "unavailable", /internal error/, /later/],
  ["no JSON", { body: "<html>Hello</html>" }, "provider-answer-invalid", /does not match its documentation/],
  ["another error", { body: [1, 2] }, "provider-answer-invalid", /does not match its documentation/],
  ["an empty answer", { body: "" }, "provider-answer-invalid", /does not match its documentation/],
  ["a teapot", problem(418, "I'm a teapot"), "provider-failed", /teapot/],
  ["a connection that breaks", { ending: "breaks" }, "unavailable", /Cannot reach GitHub/, /network/],
];

describe("refusals of github", () => {
  it.each(REFUSALS)("[Q-22] report %s with a code, the reason and the fix, without the token", async (...row) => {
    const [, reply, code, message, fix] = row;
    const server = await startGithubServer({ [`GET ${at}/issues/12`]: reply });
    const error = await refusal(server, "github.issues get", one);
    expect(PROVIDER_ERROR_CODES).toContain(error.code);
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) });
    if (fix) expect(formatFix(error)).toMatch(fix);
    expect(`${error.message} ${error.fix} ${error.stack} ${JSON.stringify(error)}`).not.toMatch(/SECRET|github_pat_/);
  });

  it("[Q-22] redact the token when GitHub repeats it, in any spelling", async () => {
    const said = `${TOKEN} ${Buffer.from(TOKEN).toString("base64url")} is wrong`;
    const server = await startGithubServer({ [`GET ${at}/issues/12`]: problem(422, said) });
    const { message } = await refusal(server, "github.issues get", one);
    expect(message).toContain("[GITHUB_TOKEN] [GITHUB_TOKEN] is wrong");
  });

  it("name the wrong field in words", async () => {
    const errors = [
      { resource: "Issue", field: "title", code: "missing_field" },
      { resource: "Label", field: "name", code: "already_exists", value: "bug" },
      { resource: "PullRequest", code: "custom", message: "No commits between main and topic" },
      "Can not approve your own pull request",
    ];
    const server = await startGithubServer({ [`POST ${at}/issues`]: problem(422, "Validation Failed", { errors }) });
    const { code, message } = await refusal(server, "github.issues create", { ...engine, title: "x" });
    expect(code).toBe("input-invalid");
    expect(message).toContain(
      "Validation Failed; Issue.title: is missing; Label.name: already exists; PullRequest: No commits between main and topic; Can not approve",
    );
  });

  it.each([
    [405, "Pull Request is not mergeable"],
    [409, "Head branch was modified. Review and try the merge again."],
  ])("name the reason against a merge that is answered with %i", async (status, said) => {
    const server = await startGithubServer({ [`PUT ${at}/pulls/12/merge`]: problem(status, said) });
    const error = await refusal(server, "github.pulls merge", { ...one, sha: SHA });
    expect(error).toMatchObject({ code: "conflict", message: expect.stringContaining(said) });
  });

  it.each<[string, Reply]>([
    ["breaks off", { ending: "breaks" }],
    ["does not answer", { ending: "hangs" }],
    ["has a problem", { status: 500, body: { message: "Server Error" } }],
  ])("[Q-21] report an unknown outcome of a change when GitHub %s, and try it only once", async (_, reply) => {
    const server = await startGithubServer({ [`POST ${at}/issues/12/comments`]: reply });
    const { signal, end } = deadline();
    const refused = refusal(server, "github.issues comment", { ...one, body: "x" }, { signal });
    if (reply.ending === "hangs") {
      await waitFor(() => server.requests.length === 1);
      end();
    }
    const error = await refused;
    expect(["unavailable", "provider-timeout"]).toContain(error.code);
    expect(error).toMatchObject({ fix: expect.stringContaining("the change may have been made") });
    expect(server.requests).toHaveLength(1);
  });

  it("refuse an answer that is larger than 4 MiB", async () => {
    const body = JSON.stringify(issue(12, { body: "x".repeat(5 * 1024 * 1024) }));
    const server = await startGithubServer({ [`GET ${at}/issues/12`]: { body } });
    const error = await refusal(server, "github.issues get", one);
    expect(error).toMatchObject({
      code: "provider-answer-invalid",
      message: expect.stringContaining("larger than 4 MiB"),
    });
  });

  it("end on the signal, and report whether it was the time limit", async () => {
    const server = await startGithubServer({ [`GET ${at}/issues/12`]: { ending: "hangs" } });
    const { signal, end } = deadline();
    const late = refusal(server, "github.issues get", one, { signal });
    await waitFor(() => server.requests.length === 1);
    end();
    expect((await late).code).toBe("provider-timeout");
    const stop = new AbortController();
    const refused = refusal(server, "github.issues get", one, { signal: stop.signal });
    await waitFor(() => server.requests.length === 2);
    stop.abort();
    expect((await refused).code).toBe("provider-failed");
  });

  it("report that GitHub is unreachable", async () => {
    const server = await startGithubServer();
    const port = new URL(server.url).port;
    const error = await refusal({ url: `http://127.0.0.1:${port === "1" ? 2 : 1}` }, "github.issues get", one);
    expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining("Cannot reach GitHub") });
  });

  it("explain how to sign in without a credential, and send no request", async () => {
    const server = await startGithubServer();
    for (const secret of [{}, { token: 7 }, { token: "two\r\nlines: x" }]) {
      const credential = { account: "ada", secret };
      const error = await refusal(server, "github.issues get", one, { credential });
      expect(error).toMatchObject({ code: "auth-needed", fix: "sign in", commands: ["skillet auth login github"] });
    }
    expect(server.requests).toEqual([]);
  });
});

describe("redirects of a call to github", () => {
  it("[S-24] are followed within GitHub", async () => {
    const server: GithubServer = await startGithubServer({
      "GET /repos/ada/old": () => ({
        status: 301,
        headers: { location: `${server.url}/repositories/1296269` },
        body: {},
      }),
      "GET /repositories/1296269": { body: repository("ada", "engine") },
    });
    expect(await ask(server, "github.repos get", { owner: "ada", repo: "old" })).toMatchObject({ name: "ada/engine" });
  });

  it("[S-24] are not followed to another origin, which gets neither a request nor the token", async () => {
    const other = await startGithubServer({ "GET /repos/ada/engine": { body: repository("ada", "engine") } });
    const server = await startGithubServer({
      [`GET ${at}`]: { status: 302, headers: { location: `${other.url}${at}` } },
    });
    const error = await refusal(server, "github.repos get", engine);
    expect(error).toMatchObject({
      code: "provider-answer-invalid",
      message: expect.stringContaining("was not followed"),
    });
    expect(other.requests).toEqual([]);
  });

  it("stop in a loop", async () => {
    const server = await startGithubServer({ [`GET ${at}`]: { status: 302, headers: { location: at } } });
    expect((await refusal(server, "github.repos get", engine)).code).toBe("provider-answer-invalid");
    expect(server.requests).toHaveLength(4);
  });

  it("[Q-21] change nothing after a move", async () => {
    const server = await startGithubServer({
      [`POST ${at}/issues`]: { status: 307, headers: { location: "/repositories/1/issues" } },
    });
    const error = await refusal(server, "github.issues create", { ...engine, title: "x" });
    expect(error).toMatchObject({ code: "not-found", fix: expect.stringContaining("new name") });
    expect(server.requests).toHaveLength(1);
  });

  it.each([
    ["github.issues list", { owner: "../..", repo: "user" }],
    ["github.issues list", { owner: "ada", repo: ".." }],
    ["github.issues list", { owner: "ada", repo: "." }],
    ["github.issues list", { owner: "ada", repo: "engine/../../../user" }],
    ["github.issues list", { owner: "ada", repo: "engine?x=1#" }],
    ["github.issues list", { owner: "ada%2f..", repo: "engine" }],
    ["github.issues list", { owner: "ada\n", repo: "engine" }],
    ["github.issues get", { ...engine, number: "12/../../../../user" }],
    ["github.issues list", { ...engine, limit: 101 }],
    ["github.issues list", { ...engine, page: "2&state=closed" }],
    ["github.issues list", { ...engine, user_id: "eve" }],
    ["github.repos read_file", { ...engine, path: "../../../user" }],
    ["github.repos read_file", { ...engine, path: "docs/./../../x" }],
    ["github.repos read_file", { ...engine, path: "docs//x" }],
    ["github.pulls merge", { ...one, sha: "main" }],
    ["github.issues get", [1]],
    ["github.issues delete", one],
    ["github.issues __proto__", one],
    ["github.secrets list", engine],
    ["constructor list", engine],
  ])("refuse %s with %j, and send no request", async (what, input) => {
    const server = await startGithubServer();
    expect((await refusal(server, what, input)).code).toBe("input-invalid");
    expect(server.requests).toEqual([]);
  });

  it.each([
    "ftp://api.github.com",
    "http://api.github.com",
    "https://ada:pw@api.github.com",
    "https://h/?x",
    "github",
    "",
  ])("send nothing to %j, and name the correct address in the health", async (baseUrl) => {
    const provider = createGithubProvider({ baseUrl });
    const health = await provider.health({ signal: new AbortController().signal });
    expect(health).toMatchObject({ isReady: false, steps: [expect.stringContaining("https://api.github.com")] });
    expect((await refusal({ url: baseUrl }, "github.issues get", one)).code).toBe("provider-missing");
  });
});

/** A signal whose abort reason is a timeout. */
function deadline() {
  const controller = new AbortController();
  return {
    signal: controller.signal,
    end: () => controller.abort(new DOMException("The time is over", "TimeoutError")),
  };
}

interface Refused extends Error {
  code: string;
  fix?: string;
}

async function refusal(...[server, what, input, more]: Parameters<typeof ask>): Promise<Refused> {
  try {
    await ask(server, what, input, more);
  } catch (error) {
    return error as Refused;
  }
  throw new Error("it was not refused");
}
