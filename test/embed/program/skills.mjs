// What a program does that embeds skillet: it discovers skills, discloses them, uses one, and loads one with a toolset.
import { disclose, discover, openSession, useSkill } from "skillet";

/** The model of the embedding program: it answers with the task. */
const model = {
  name: "mine/parrot",
  respond: async ({ messages, onText }) => {
    const text = `Task: ${messages.find(({ role }) => role === "user")?.text}`;
    onText(text);
    return { text, calls: [], usage: { inputTokens: 1, outputTokens: 1, cachedTokens: 0 }, finish: "stop" };
  },
};

/** Returns what it saw, as plain data. */
export async function trySkills(home, workspace) {
  const found = await discover({ home, workspace, env: { HOME: home } });
  const { catalog } = found;
  const host = { ...found, models: { default: model } };
  const disclosure = await disclose(catalog, "what is the exchange rate of the euro?");
  const used = await useSkill(catalog, host, { skill: "rates", message: "Say hello." });
  const session = openSession(catalog, host);
  const loaded = await session.call("load_skill", { skill: "rates" });
  await session.ready();
  const called = await session.call("rates.rate_of", { currency: "EUR" });
  session.close();
  return {
    names: catalog.names(),
    errors: catalog.diagnostics.filter(({ severity }) => severity === "error").map(({ message }) => message),
    tier: disclosure.tier,
    used: { content: used.content, isError: used.isError },
    isLoaded: !loaded.isError,
    called: called.text,
  };
}
