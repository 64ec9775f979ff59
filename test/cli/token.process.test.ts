import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createAuditLog } from "../../src/capabilities/audit-log.ts";
import { createServerTokenStore } from "../../src/store/server-tokens.ts";
import { skillet } from "../support/command.ts";
import { createHomeWith } from "../support/mcp-process.ts";
import { readAll } from "../support/read-all.ts";

function scene() {
  const place = createHomeWith({});
  const home = join(place.home, ".skillet");
  const run = (...args: string[]) => skillet(args, { cwd: place.cwd, env: { HOME: place.home } });
  return { home, run, store: createServerTokenStore(home), file: join(home, "server-tokens.json") };
}

describe("skillet token", () => {
  it("[E-35] prints a token once, and stores a hash of it in a file that only its owner can read", async () => {
    const { run, file, store } = scene();
    const { code, stdout, stderr } = await run("token", "create", "ada");
    expect(code).toBe(0);
    const text = stdout.trim();
    expect(text).toMatch(/^skt_[0-9a-f]{12}_[\w-]{43}$/);
    expect(stderr).not.toContain(text);
    expect(await store.find(text)).toMatchObject({ person: "ada", scopes: ["list", "load", "run", "use", "approve"] });
    const stored = readFileSync(file, "utf8");
    expect(JSON.parse(stored)).toMatchObject({ version: 1, tokens: expect.any(Object) });
    // The secret part can contain `_`.
    const secret = text.split("_").slice(2).join("_");
    expect(stored).not.toContain(secret);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const listed = await run("token", "list", "--json");
    expect(listed.stdout).not.toContain(secret);
    expect(JSON.parse(listed.stdout).tokens).toMatchObject([{ person: "ada", isValid: true }]);
  });

  it("[E-35] gives a token the requested scopes and lifetime", async () => {
    const { run, home } = scene();
    const { stdout } = await run("token", "create", "ci", "--scope", "load,metrics", "--expires", "2h", "--json");
    const { token, expiresAt, createdAt, scopes } = JSON.parse(stdout);
    expect(scopes).toEqual(["load", "metrics"]);
    expect(Date.parse(expiresAt) - Date.parse(createdAt)).toBeLessThanOrEqual(2 * 3_600_000);
    const later = createServerTokenStore(home, { now: () => Date.parse(expiresAt) });
    expect((await createServerTokenStore(home).find(token))?.person).toBe("ci");
    expect(await later.find(token)).toBeUndefined();
  });

  it.each([
    [["create", "ada", "--scope", "everything"], "scopes: list, load, run, use, approve, metrics"],
    [["create", "-"], "use up to 128 letters"],
    [["create", "a b"], "use up to 128 letters"],
    [["create", "ada", "--expires", "soon"], "for example --expires 12h or --expires 30d"],
  ])("refuses %j, names the fix, and writes nothing", async (args, fix) => {
    const { run, store } = scene();
    const { code, stderr } = await run("token", ...args);
    expect(code).toBe(2);
    expect(stderr).toContain(fix);
    expect(await store.list()).toEqual([]);
  });

  it("revokes one token, or all of a person, and records both in the audit log", async () => {
    const { run, store, home } = scene();
    for (const person of ["ada", "ada", "bob"]) await run("token", "create", person);
    const [first] = await store.list();
    expect((await run("token", "revoke", first?.id ?? "")).stdout).toContain(`revoked 1 token of ada: ${first?.id}`);
    expect((await run("token", "revoke", "adah")).stderr).toContain("did you mean ada?");
    expect((await run("token", "revoke", "ada")).code).toBe(0);
    expect((await createServerTokenStore(home).list()).map(({ person }) => person)).toEqual(["bob"]);
    const audit = createAuditLog(home);
    const lines = await readAll(audit.read());
    expect(lines.map(({ method, user }) => [method, user])).toEqual([
      ["token.create", "ada"],
      ["token.create", "ada"],
      ["token.create", "bob"],
      ["token.revoke", "ada"],
      ["token.revoke", "ada"],
    ]);
    expect((await audit.verify()).isWhole).toBe(true);
  });

  it("reports a file of a newer version and leaves it unchanged", async () => {
    const { run, file } = scene();
    await run("token", "create", "ada");
    const newer = readFileSync(file, "utf8").replace('"version": 1', '"version": 2');
    (await import("node:fs")).writeFileSync(file, newer);
    const { code, stderr } = await run("token", "create", "bob");
    expect(code).not.toBe(0);
    expect(stderr).toContain("[tokens-unreadable]");
    expect(readFileSync(file, "utf8")).toBe(newer);
  });
});
