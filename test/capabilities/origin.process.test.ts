import { describe, expect, it } from "vitest";
import { canSignIn, createCapabilities } from "../../src/capabilities/configured-capabilities.ts";
import { createGithubProvider } from "../../src/capabilities/github/github-provider.ts";
import type { ProviderSettings } from "../../src/config/limits.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import { temporaryFolder } from "../support/folder.ts";
import { createCallContext, createIdleProvider, createProgramProvider } from "../support/provider.ts";

const github = (said: ProviderSettings) => originOf("github", said);

function originOf(namespace: string, said: ProviderSettings): string | undefined {
  const settings = { ...DEFAULT_SETTINGS, providers: new Map([[namespace, said]]) };
  return createCapabilities({ settings, home: temporaryFolder(), env: {} }).findProvider(`${namespace}.x`)?.origin;
}

describe("the origin of a provider's system", () => {
  it("[Q-20] differs with another command, address or app, before any connection", () => {
    expect(originOf("notes", { command: ["notes", "serve"] })).toBe("notes serve");
    expect(originOf("notes", { command: ["notes", "other"] })).toBe("notes other");
    expect(originOf("notes", {})).toBeUndefined();
    expect(github({})).toBe("https://api.github.com");
    expect(github({ baseUrl: "https://git.example/api/v3" })).toBe("https://git.example/api/v3");
    expect(github({ clientId: "Iv1.abc" })).toBe("https://api.github.com (client_id Iv1.abc)");
    expect(github({ command: ["own-github"] })).toBe("own-github");
  });

  it("is the same with another time limit or other variables, and for any spelling of its address", () => {
    const env = new Map([["NOTES_FILE", "x"]]);
    expect(originOf("notes", { command: ["notes", "serve"], seconds: 5, env })).toBe("notes serve");
    expect(github({ baseUrl: "https://API.github.com/", seconds: 5 })).toBe("https://api.github.com");
  });

  it("is the address that the provider reports, without a password", () => {
    for (const said of [{}, { baseUrl: "https://git.example/api/v3/" }, { clientId: "Iv1.abc" }, { baseUrl: "?" }])
      expect(createGithubProvider(said).origin).toBe(github(said));
    expect(github({ baseUrl: "https://ada:hunter2@git.example/?token=hunter2" })).toBe("https://git.example");
    const program = createProgramProvider("");
    expect(program.origin).toContain("program.cjs");
  });
});

describe("the sign-in of a provider", () => {
  it("is read from the program, and unknown if it does not answer", async () => {
    const { signal } = createCallContext();
    const describing = (more: object) =>
      createProgramProvider(`answer(${JSON.stringify({ capabilities: [], ...more })})`);
    expect(await canSignIn(createIdleProvider("notes"), signal)).toBe(false);
    expect(await canSignIn(createGithubProvider(), signal)).toBe(true);
    expect(await canSignIn(describing({}), signal)).toBe(false);
    expect(await canSignIn(describing({ auth: { kinds: ["paste"] } }), signal)).toBe(true);
    expect(await canSignIn(createProgramProvider("process.exit(1)"), signal)).toBeUndefined();
  });
});
