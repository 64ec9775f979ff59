import { createSkillServer } from "../../adapters/mcp-server/skill-server.ts";
import {
  CLIENT_LISTINGS,
  type ClientListedSkill,
  type ListingClient,
  simulateClientListing,
} from "../../catalog/client-listings.ts";
import type { DiscoverResult } from "../../config/discover.ts";
import { findNamesListedByClient, listClientSkills, toClientSkillText } from "../../remote/clients/native-clients.ts";
import { adviseClient, HOOK_FORMATS } from "../../remote/clients/prompt-hook-config.ts";
import { estimateTokens, formatCount, formatNumber, truncateLine } from "../../util/text.ts";
import { type CommandIo, createPrinter, printJson, printTextExcerpt } from "../output.ts";
import { LOAD_INSTRUCTION } from "./hook.ts";

interface ExplainClientOptions {
  client: ListingClient;
  json?: boolean;
  text?: boolean;
}

/** Prints what a client's model receives about skills: from the client's own list, the MCP server and the prompt hook. */
export async function explainClient(
  io: CommandIo,
  query: string,
  found: DiscoverResult,
  { client, json, text }: ExplainClientOptions,
): Promise<void> {
  const facts = await collectClientFacts(query, found, client);
  if (json) printJson(io.stdout, facts);
  else if (text)
    io.stdout.write(
      listClientTexts(facts)
        .map((part) => `${part}\n`)
        .join("\n"),
    );
  else printClientFacts(io, facts);
}

type ClientFacts = Awaited<ReturnType<typeof collectClientFacts>>;

/** Returns the value of `explain --as --json`. */
export async function collectClientFacts(query: string, found: DiscoverResult, client: ListingClient) {
  const { title, version, mcp } = CLIENT_LISTINGS[client];
  const host = { ...found, caller: found.caller ?? { chatType: "private" as const, chatId: "terminal" } };
  const serving = createSkillServer(found.catalog, host, {
    listedByClient: (id, catalog) => findNamesListedByClient({ ...found, catalog }, id),
  });
  const { instructions, loadDescription, omitted } = await serving.createListing(client);
  const context = { catalog: found.catalog, host, loadWith: LOAD_INSTRUCTION };
  const { advice } = await adviseClient(HOOK_FORMATS[client], query, context);
  return {
    client,
    title,
    version,
    query,
    own: readOwnListing(found, client),
    server: {
      instructions: { text: instructions, limit: mcp.instructions, tokens: estimateTokens(instructions) },
      loadSkill: { text: loadDescription, limit: mcp.toolDescription, tokens: estimateTokens(loadDescription) },
      refreshesTools: mcp.refreshesTools,
      omitted,
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

function readOwnListing(found: DiscoverResult, client: ListingClient) {
  const skills = listClientSkills(found, client);
  const sources = new Map(skills.map(({ name, origin }) => [name, origin.source]));
  const listed = simulateClientListing(client, skills.map(toClientSkillText));
  const counts = { whole: 0, cut: 0, name: 0, dropped: 0 };
  for (const { shown } of listed) counts[shown]++;
  return {
    skills: listed.map((one) => ({ ...one, source: sources.get(one.name) ?? "" })),
    counts,
    useWhen: listed.filter(({ hasUseWhen }) => hasUseWhen).length,
    tokens: estimateTokens(formatListingText(listed)),
  };
}

function formatListingText(listed: readonly ClientListedSkill[]): string {
  return listed
    .filter(({ shown }) => shown !== "dropped")
    .map(({ name, description }) => (description === "" ? `- ${name}` : `- ${name}: ${description}`))
    .join("\n");
}

function listClientTexts({ own, server, hook }: ClientFacts): string[] {
  const { instructions, loadSkill } = server;
  return [
    formatListingText(own.skills),
    instructions.limit === 0 ? "" : instructions.text,
    loadSkill.text,
    hook.text,
  ].filter((text) => text !== "");
}

function printClientFacts(io: CommandIo, facts: ClientFacts): void {
  const out = createPrinter(io.stdout, io.env);
  const { title, version, own, server, hook } = facts;
  const { whole, cut, name, dropped } = own.counts;
  const shown = [
    `${formatCount(whole, "description")} complete`,
    cut > 0 && `${cut} truncated`,
    name > 0 && `${formatCount(name, "name")} only`,
    dropped > 0 && `${dropped} dropped`,
  ].filter((part) => part !== false);
  out.line`${out.bold(title)} ${version}`;
  if (own.skills.length === 0) out.line`No skills in its folders`;
  else
    out.line`${formatCount(own.skills.length, "skill")} in its folders: ${shown.join(", ")}; ${own.useWhen} with a "use when" part`;
  for (const skill of own.skills.filter((one) => one.shown === "dropped"))
    out.line`${out.yellow("!")} ${skill.name} is not listed: its description is longer than 1,024 characters`;
  printTextExcerpt(out, "Its own list, the same for every query", formatListingText(own.skills));
  const { instructions, loadSkill, omitted } = server;
  if (omitted.length > 0)
    out.line`\nskillet's server does not list ${formatCount(omitted.length, "skill")} of these again: ${truncateLine(omitted.join(", "), 200)}`;
  if (instructions.limit === 0) out.line`\n${out.dim("It ignores the instructions of MCP servers.")}`;
  else
    printTextExcerpt(
      out,
      `skillet's server: instructions (${formatNumber(instructions.limit)} characters arrive)`,
      instructions.text,
    );
  printTextExcerpt(
    out,
    `skillet's server: load_skill (${formatNumber(loadSkill.limit)} characters arrive)`,
    loadSkill.text,
  );
  if (hook.kind === "none") out.line`\n${out.bold("The prompt hook adds nothing")}: ${hook.reasons.join("; ")}`;
  else printTextExcerpt(out, `The prompt hook adds (${hook.kind})`, hook.text);
}
