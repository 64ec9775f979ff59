import type { Discovered } from "../host/discover.ts";
import type { Notice } from "../host/sandbox.ts";
import { firstDenial } from "../policy/policy.ts";
import { isDisabled } from "../policy/tools.ts";
import { isTrusted } from "../policy/trust.ts";
import { hostTool } from "../run/host-tool.ts";
import { asNotice } from "../run/notice.ts";
import { allSecrets } from "../run/secrets.ts";
import { openToolsets } from "../run/toolset/open.ts";
import { openHiding } from "../shared/redact.ts";
import type { Skill } from "../skill/skill.ts";
import type { Tool } from "../skill/tool.ts";
import { copySkill, type SkillCopy } from "../source/digest.ts";

/** The tools of one that brings some, or why they are not there. */
export interface ToolRow {
  name: string;
  source: string;
  tools: readonly Tool[];
  problems: readonly Notice[];
  /** The skill that brings them; none where a server does. */
  of?: { skill: Skill; copy: SkillCopy };
  close(): void;
}

/** Everything that brings tools: the one place where a command gets its list of them. */
export async function openTools(found: Discovered, skills: readonly Skill[], onPrinted?: Printed): Promise<ToolRow[]> {
  return Promise.all(skills.map((skill) => rowOf(found, skill, onPrinted)));
}

/** What their code prints. */
type Printed = (text: string) => void;

/** The skills that bring tools, and that are there for this caller. */
export function skillsWithTools({ catalog, ...host }: Discovered): Skill[] {
  return catalog.skills.filter(
    (skill) => skill.manifest.toolsets.length > 0 && firstDenial(skill, host)?.kind !== "access",
  );
}

async function rowOf(found: Discovered, skill: Skill, onPrinted: Printed = () => {}): Promise<ToolRow> {
  const head = { name: skill.name, source: skill.origin.source };
  try {
    const [untrusted] = skill.fetch ? [isTrusted(skill, found) ?? []].flat() : [];
    if (untrusted) return { ...head, tools: [], problems: [untrusted], close: () => {} };
    await skill.fetch?.("all");
    const copy = copySkill(skill);
    const { tools, problems, close } = await openToolsets(found, { skill, copy, onPrinted });
    return { ...head, tools: enabled(found, tools), problems, of: { skill, copy }, close };
  } catch (error) {
    return { ...head, tools: [], problems: [asNotice(error)], close: () => {} };
  }
}

/** Without what the user took away from everybody. */
function enabled(found: Discovered, tools: readonly Tool[]): readonly Tool[] {
  return tools.filter(({ name }) => !isDisabled(name, found));
}

/** The tools of a server that is configured under this name. Nothing where none is. */
export async function openServer(found: Discovered, server: string): Promise<ToolRow | undefined> {
  const settings = found.settings.mcp.get(server);
  if (!settings) return undefined;
  const head = { name: server, source: "[tools.mcp]" };
  if (settings.enabled === false) return { ...head, tools: [], problems: [switchedOff(server)], close: () => {} };
  const [{ mcpTools }, { closeMcpServers }] = await Promise.all([
    import("../run/mcp/servers.ts"),
    import("../host/mcp/end.ts"),
  ]);
  const { tools, problems } = await mcpTools(found, (name) => name === server);
  const hiding = openHiding(allSecrets(new Map(), found));
  const most = found.settings.limits.toolOutput;
  return {
    ...head,
    tools: enabled(found, tools).map((tool) => hostTool(tool, most, hiding)),
    problems,
    close: () => void closeMcpServers(),
  };
}

function switchedOff(server: string): Notice {
  return {
    code: "mcp-disabled",
    message: `MCP server '${server}' is switched off`,
    fix: `set enabled = true under [tools.mcp.${server}] in config.toml`,
  };
}
