import { describe, expect, it } from "vitest";
import type { ServerIdentity } from "../../src/adapters/mcp-server/http-identity.ts";
import { createServedCaller, getPersonFolder } from "../../src/adapters/mcp-server/served-person.ts";
import { completeHost } from "../../src/config/host.ts";
import { createSettings } from "../../src/config/settings-schema.ts";
import type { Capabilities } from "../../src/host/capability-contract.ts";
import { createApprovalStore } from "../../src/store/approvals.ts";
import { temporaryFolder } from "../support/folder.ts";

function identityOf(userId: string): ServerIdentity {
  return { key: `person ${userId}`, userId, scopes: new Set(), credential: "token", isValid: () => true };
}

const ALL_CAPABILITIES = { isVisible: () => true, isGranted: () => true } as unknown as Capabilities;
const EFFECT = {
  skill: "mail",
  source: "user",
  location: "/skills/mail",
  place: "/skills/mail",
  tool: "send",
  on: "outside" as const,
};

describe("the host of a person", () => {
  const settings = createSettings({
    skills: { mail: { env: { KEY: "of everyone", OTHER: "shared" } } },
    server: {
      people: {
        ada: {
          ...{ tenant: "red", chatType: "private", skills: ["mail"], capabilities: ["notes.*"] },
          variables: { mail: { KEY: "of ada" } },
        },
      },
    },
  });
  const host = completeHost({ settings, capabilities: ALL_CAPABILITIES, caller: { chatType: "group" } });
  const of = (person: string, home = "/nowhere") =>
    createServedCaller(host, identityOf(person), {
      openApprovals: (name) => createApprovalStore(getPersonFolder(home, name)),
    }).host;

  it("[E-35] has the person's caller, values and capabilities", () => {
    const [ada, bob] = [of("ada"), of("bob")];
    const valuesOf = (one: ReturnType<typeof of>) =>
      Object.fromEntries(one.settings?.skills.get("mail")?.variables ?? []);
    expect(JSON.parse(JSON.stringify(ada.caller))).toEqual({ userId: "ada", tenant: "red", chatType: "private" });
    expect(JSON.parse(JSON.stringify(bob.caller))).toEqual({ userId: "bob", chatType: "group" });
    expect(valuesOf(ada)).toEqual({ KEY: "of ada", OTHER: "shared" });
    expect(valuesOf(bob)).toEqual({ KEY: "of everyone", OTHER: "shared" });
    const granted = (one: ReturnType<typeof of>) =>
      ["notes.read", "notes.add", "mail.send"].filter((id) => one.capabilities?.isGranted(id, {} as never));
    expect([granted(ada), granted(bob)]).toEqual([
      ["notes.read", "notes.add"],
      ["notes.read", "notes.add", "mail.send"],
    ]);
  });

  it("[E-35] keeps a permanent approval for the person who gave it", async () => {
    const home = temporaryFolder();
    const [ada, bob] = [of("ada", home), of("bob", home)];
    await ada.approvals?.add(EFFECT);
    expect(await ada.approvals?.isAlwaysApproved(EFFECT)).toBe(true);
    expect(await bob.approvals?.isAlwaysApproved(EFFECT)).toBe(false);
    expect(await of("ada", home).approvals?.isAlwaysApproved(EFFECT)).toBe(true);
  });

  it("[E-35] has its own folder, whatever the name", () => {
    const names = ["ada", "Ada", "auth0|ada", "auth0/ada", "../ada", "..", "a".repeat(200), `${"a".repeat(199)}b`];
    const folders = names.map((name) => getPersonFolder("/home/x", name));
    expect(new Set(folders).size).toBe(names.length);
    for (const folder of folders) expect(folder).toMatch(/^\/home\/x\/people\/[a-z0-9_@+-][a-z0-9_.@+-]*$/);
  });
});
