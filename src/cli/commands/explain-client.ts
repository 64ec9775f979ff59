import {
  CLIENT_LISTINGS,
  type ClientListed,
  type ListingClient,
  listForClient,
} from "../../catalog/client-listings.ts";
import { listedText, namesListedByClient, skillsOfClient } from "../../host/client-views.ts";
import type { Discovered } from "../../host/discover.ts";
import { openServing } from "../../mcp/serve.ts";
import { adviseClient, HOOK_FORMATS } from "../../session/prompt-hooks.ts";
import { count, estimateTokens, grouped, oneLine } from "../../shared/text.ts";
import { type Io, printer, printJson } from "../io.ts";
import { printText } from "../wrap.ts";
import { LOAD_WITH } from "./hook.ts";

interface ExplainClientOptions {
  client: ListingClient;
  json?: boolean;
  text?: boolean;
}

/** Prints what a client's model is told of skills: by the client's own list, by the MCP server and by the prompt hook. */
export async function explainClient(
  io: Io,
  query: string,
  found: Discovered,
  { client, json, text }: ExplainClientOptions,
): Promise<void> {
  const facts = await clientFacts(query, found, client);
  if (json) printJson(io.stdout, facts);
  else if (text)
    io.stdout.write(
      textsOf(facts)
        .map((part) => `${part}\n`)
        .join("\n"),
    );
  else printFacts(io, facts);
}

type Facts = Awaited<ReturnType<typeof clientFacts>>;

async function clientFacts(query: string, found: Discovered, client: ListingClient) {
  const { title, version, mcp } = CLIENT_LISTINGS[client];
  const host = { ...found, caller: found.caller ?? { chatType: "private" as const, chatId: "terminal" } };
  const serving = openServing(found.catalog, host, {
    listedByClient: (id, catalog) => namesListedByClient({ ...found, catalog }, id),
  });
  const { instructions, loadDescription, leftOut } = serving.listing(client);
  const context = { catalog: found.catalog, host, loadWith: LOAD_WITH };
  const { advice } = await adviseClient(HOOK_FORMATS[client], query, context);
  return {
    client,
    title,
    version,
    query,
    own: ownList(found, client),
    server: {
      instructions: { text: instructions, limit: mcp.instructions, tokens: estimateTokens(instructions) },
      loadSkill: { text: loadDescription, limit: mcp.toolDescription, tokens: estimateTokens(loadDescription) },
      refreshesTools: mcp.refreshesTools,
      leftOut,
    },
    hook: {
      event: HOOK_FORMATS[client].event,
      kind: advice.kind,
      skills: advice.skills.map(({ name }) => name),
      reasons: advice.reasons,
      text: advice.text,
      tokens: estimateTokens(advice.text),
    },
  };
}

function ownList(found: Discovered, client: ListingClient) {
  const skills = skillsOfClient(found, client);
  const sources = new Map(skills.map(({ name, origin }) => [name, origin.source]));
  const listed = listForClient(client, skills.map(listedText));
  const counts = { whole: 0, cut: 0, name: 0, dropped: 0 };
  for (const { shown } of listed) counts[shown]++;
  return {
    skills: listed.map((one) => ({ ...one, source: sources.get(one.name) ?? "" })),
    counts,
    cues: listed.filter(({ hasCue }) => hasCue).length,
    tokens: estimateTokens(listText(listed)),
  };
}

function listText(listed: readonly ClientListed[]): string {
  return listed
    .filter(({ shown }) => shown !== "dropped")
    .map(({ name, description }) => (description === "" ? `- ${name}` : `- ${name}: ${description}`))
    .join("\n");
}

function textsOf({ own, server, hook }: Facts): string[] {
  const { instructions, loadSkill } = server;
  return [listText(own.skills), instructions.limit === 0 ? "" : instructions.text, loadSkill.text, hook.text].filter(
    (text) => text !== "",
  );
}

function printFacts(io: Io, facts: Facts): void {
  const out = printer(io.stdout, io.env);
  const { title, version, own, server, hook } = facts;
  const { whole, cut, name, dropped } = own.counts;
  const shown = [
    `${count(whole, "description")} whole`,
    cut > 0 && `${cut} cut`,
    name > 0 && `${count(name, "name")} alone`,
    dropped > 0 && `${dropped} dropped`,
  ].filter((part) => part !== false);
  out.line`${out.bold(title)} ${version}`;
  if (own.skills.length === 0) out.line`No skills in its folders`;
  else
    out.line`${count(own.skills.length, "skill")} in its folders: ${shown.join(", ")}; ${own.cues} with a "use when" part`;
  for (const skill of own.skills.filter((one) => one.shown === "dropped"))
    out.line`${out.yellow("!")} ${skill.name} is not listed: its description is longer than 1,024 characters`;
  printText(out, "Its own list, the same for every query", listText(own.skills));
  const { instructions, loadSkill, leftOut } = server;
  if (leftOut.length > 0)
    out.line`\nskillet's server does not list ${count(leftOut.length, "skill")} of these again: ${oneLine(leftOut.join(", "), 200)}`;
  if (instructions.limit === 0) out.line`\n${out.dim("It drops the instructions of MCP servers.")}`;
  else
    printText(
      out,
      `skillet's server: instructions (${grouped(instructions.limit)} characters arrive)`,
      instructions.text,
    );
  printText(out, `skillet's server: load_skill (${grouped(loadSkill.limit)} characters arrive)`, loadSkill.text);
  if (hook.kind === "none") out.line`\n${out.bold("The prompt hook adds nothing")}: ${hook.reasons.join("; ")}`;
  else printText(out, `The prompt hook adds (${hook.kind})`, hook.text);
}
