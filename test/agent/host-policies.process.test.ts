import { describe, expect, it } from "vitest";
import { findDenials, findFirstDenial, findUnavailability } from "../../src/agent/policy/skill-policies.ts";
import { planUse } from "../../src/agent/run/plan-use.ts";
import { useSkill } from "../../src/agent/run/use-skill.ts";
import { openSession } from "../../src/agent/session/session.ts";
import type { Host } from "../../src/config/host.ts";
import { DEFAULT_SETTINGS } from "../../src/config/settings.ts";
import type { HostPolicy } from "../../src/host/approval.ts";
import { type Model, NO_USAGE } from "../../src/host/model-contract.ts";
import { createCatalogOf, defineTestSkill } from "../support/skills.ts";

const model: Model = {
  name: "mine",
  respond: async () => ({ text: "Done.", calls: [], usage: NO_USAGE, finish: "stop" }),
};
const host = (...policies: HostPolicy[]): Host => ({
  settings: DEFAULT_SETTINGS,
  models: { default: model },
  policies,
});

/** Hides a skill from everyone except operators. */
const operatorsOnly: HostPolicy = ({ name }, { caller }) =>
  name === "deploy" && caller.userId !== "ann" ? { message: "Only Ann deploys.", fix: "ask Ann" } : undefined;

describe("a policy of the embedding program", () => {
  it("hides and refuses a skill, with its own message and fix", async () => {
    const catalog = await createCatalogOf({ deploy: {}, review: {} });
    const session = openSession(catalog, host(operatorsOnly));
    expect(session.listVisible().map(({ name }) => name)).toEqual(["review"]);
    expect(await session.formatListing()).not.toContain("deploy");
    expect((await session.disclose("use the deploy skill")).text).not.toContain("Do deploy.");
    expect(await session.load("deploy")).toMatchObject({
      isError: true,
      code: "policy-denied",
      text: expect.stringMatching(/Only Ann deploys\..*ask Ann/s),
    });
    expect(await session.use({ skill: "deploy", message: "now" })).toMatchObject({
      stop: "refused",
      refusals: [{ code: "policy-denied", message: "Only Ann deploys.", fix: "ask Ann" }],
    });
    const plan = await planUse(catalog, host(operatorsOnly), { skill: "deploy", message: "now" });
    expect(JSON.stringify(plan)).toContain("Only Ann deploys.");
  });

  it("decides by the caller that the host states", async () => {
    const catalog = await createCatalogOf({ deploy: {} });
    const forAnn = { ...host(operatorsOnly), caller: { userId: "ann" } };
    expect(openSession(catalog, forAnn).listVisible()).toHaveLength(1);
    expect(await useSkill(catalog, forAnn, { skill: "deploy", message: "now" })).toMatchObject({ content: "Done." });
  });

  it("decides by the purpose: a policy that only refuses uses still allows reading the text", async () => {
    const reading: HostPolicy = (_, { purpose }) => (purpose === "use" ? { message: "Read it yourself." } : undefined);
    const catalog = await createCatalogOf({ deploy: {} });
    const session = openSession(catalog, host(reading));
    expect(await session.load("deploy")).toMatchObject({ isError: false });
    expect(await session.use({ skill: "deploy", message: "now" })).toMatchObject({
      refusals: [{ code: "policy-denied", message: "Read it yourself.", fix: expect.stringMatching(/operator/) }],
    });
    expect(findDenials(defineTestSkill("x"), host(reading), "run")).toEqual([]);
  });

  it("is reported together with all other reasons against a skill", () => {
    const all = findDenials(defineTestSkill("deploy", { more: { sensitive: true } }), host(operatorsOnly));
    expect(all.map(({ code }) => code)).toEqual(["chat-type", "policy-denied"]);
  });

  it.each<[string, unknown]>([
    ["throws", () => expect.fail("no database")],
    ["returns a promise", async () => undefined],
    ["returns something else", () => true],
  ])("that %s refuses", (_, policy) => {
    const broken = host(policy as HostPolicy);
    const found = [
      findFirstDenial(defineTestSkill("x"), broken),
      findUnavailability(defineTestSkill("x"), broken),
      ...findDenials(defineTestSkill("x"), broken),
    ];
    expect(found).toHaveLength(3);
    for (const denial of found)
      expect(denial).toMatchObject({ code: "policy-denied", kind: "access", message: expect.stringMatching(/failed/) });
  });
});
