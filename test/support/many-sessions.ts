import { join } from "node:path";
import { expect } from "vitest";
import { createServerTokenStore } from "../../src/store/server-tokens.ts";
import { skillText } from "./folder.ts";
import { createHomeWith } from "./mcp-process.ts";
import { startTeamServer, type TeamServer } from "./team-server.ts";

/** One session of a person, over plain requests: a thousand clients would take more memory than the server. */
export interface PlainSession {
  person: string;
  /** The skill that only this person has. */
  skill: string;
  call(tool: string, input?: object): Promise<{ text: string; isError: boolean; skills: string[] }>;
  id: string;
  token: string;
}

/** Starts a server for people who each have their own skill and one shared skill. */
export async function serverOfPeople(people: number): Promise<{ server: TeamServer; tokens: string[] }> {
  const names = Array.from({ length: people }, (_, index) => `person${index}`);
  const files = Object.fromEntries(
    [...names.map((name) => `of-${name}`), "shared"].map((skill) => [
      `home/.skillet/skills/${skill}/SKILL.md`,
      skillText(skill, { body: `Instructions of ${skill}. ${"More of it. ".repeat(200)}` }),
    ]),
  );
  const config = names.map((name) => `[server.people.${name}]\nskills = ["of-${name}", "shared"]\n`).join("\n");
  const place = createHomeWith({ ...files, "home/.skillet/config.toml": config });
  const server = await startTeamServer(place);
  const store = createServerTokenStore(join(place.home, ".skillet"));
  const tokens: string[] = [];
  for (const person of names) tokens.push((await store.create({ person })).text);
  return { server, tokens };
}

const HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };

export async function openPlainSession(
  { server, tokens }: { server: TeamServer; tokens: string[] },
  index: number,
): Promise<PlainSession> {
  const at = index % tokens.length;
  const token = tokens[at] ?? "";
  const post = (body: object, headers: Record<string, string> = {}) =>
    server.send("/mcp", {
      method: "POST",
      token,
      body: JSON.stringify({ jsonrpc: "2.0", ...body }),
      headers: { ...HEADERS, ...headers },
    });
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "many", version: "1" } };
  const started = await post({ id: 1, method: "initialize", params });
  await started.text();
  const id = started.headers.get("mcp-session-id") ?? "";
  expect([started.status, id !== ""]).toEqual([200, true]);
  const session = { "mcp-session-id": id };
  await (await post({ method: "notifications/initialized" }, session)).text();
  let request = 1;
  return {
    person: `person${at}`,
    skill: `of-person${at}`,
    id,
    token,
    async call(tool, input = {}) {
      const answer = await post(
        { id: ++request, method: "tools/call", params: { name: tool, arguments: input } },
        session,
      );
      const text = await answer.text();
      const line =
        text
          .split("\n")
          .find((one) => one.startsWith("data: {"))
          ?.slice(6) ?? text;
      const { result } = JSON.parse(line);
      return {
        text: result.content.map((part: { text: string }) => part.text).join("\n"),
        isError: result.isError === true,
        skills: (result.structuredContent?.skills ?? []).map(({ name }: { name: string }) => name).sort(),
      };
    },
  };
}

/** Processes items, up to `atOnce` of them in parallel. */
export async function inTurns<T>(items: readonly T[], atOnce: number, work: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let item = left.shift(); item !== undefined; item = left.shift()) await work(item);
    }),
  );
}

/** Checks that each session sees and loads the skills of its person, and no others. */
export async function expectNoCrossTalk(sessions: readonly PlainSession[], atOnce: number): Promise<void> {
  await inTurns(sessions, atOnce, async (session) => {
    const other = sessions.find(({ person }) => person !== session.person);
    const [listed, own, foreign] = await Promise.all([
      session.call("list_skills"),
      session.call("load_skill", { skill: session.skill }),
      session.call("load_skill", { skill: other?.skill ?? "" }),
    ]);
    expect(listed.skills.filter((name) => name.startsWith("of-") || name === "shared")).toEqual(
      [session.skill, "shared"].sort(),
    );
    expect(own.text).toContain(`Instructions of ${session.skill}.`);
    expect({ isError: foreign.isError, has: foreign.text.includes("Instructions of") }).toEqual({
      isError: true,
      has: false,
    });
  });
}

/** The resident memory of the server in bytes. */
export async function memoryOf(server: TeamServer): Promise<number> {
  const text = await (await server.send("/metrics", { token: server.token })).text();
  return Number(/^skillet_resident_memory_bytes (\d+)$/m.exec(text)?.[1]);
}

/** The 95th percentile of the times of one call, one after another, in milliseconds. */
export async function p95Of(sessions: readonly PlainSession[], calls: number): Promise<number> {
  const times: number[] = [];
  for (let call = 0; call < calls; call++) {
    const session = sessions[(call * 7) % sessions.length];
    const start = performance.now();
    await session?.call("load_skill", { skill: "shared" });
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  return times[Math.ceil(times.length * 0.95) - 1] ?? 0;
}
