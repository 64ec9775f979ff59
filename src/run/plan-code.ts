import type { Host } from "../host/host.ts";
import { type Notice, type Sandbox, seenPath, WORKSPACE_FOLDER } from "../host/sandbox.ts";
import { commandsIn } from "../model/commands.ts";
import { keyOf } from "../policy/table.ts";
import { endpointText } from "../sandbox/endpoint.ts";
import { scriptsOf } from "../skill/script.ts";
import type { Skill } from "../skill/skill.ts";
import { ourToolName } from "../skill/tool-names.ts";
import { sandboxOf } from "./enclosure.ts";
import { endpointsIn, socketsIn } from "./endpoints.ts";
import { asNotice } from "./notice.ts";
import type { Check } from "./plan-use.ts";
import { checkWorkspace, chooseAccess, homeOf } from "./workspace-access.ts";

/** What keeps the code of a run apart, and what it is let to: the workspace, the network. */
export async function codeChecks(skill: Skill, host: Host): Promise<{ checks: Check[]; warnings: readonly Notice[] }> {
  let sandbox: Sandbox | undefined;
  const kept = await check("sandbox", async () => {
    sandbox = await sandboxOf(host);
    return sandbox.level === "none" ? "NOT ISOLATED" : `${sandbox.level} isolation by ${sandbox.by}`;
  });
  const open = opened(skill, host);
  const checks = [
    kept,
    await check("workspace", () => sayAccess(skill, host, sandbox)),
    await check(
      "network",
      () => [...endpointsIn(open).map(endpointText), ...socketsIn(open)].join(", ") || "closed: nothing can be reached",
    ),
  ];
  return {
    checks,
    warnings: open.length === 0 && !skill.manifest.tools.allowed.some(isFetch) ? wantsNetwork(skill) : [],
  };
}

async function check(name: string, say: () => string | Promise<string>): Promise<Check> {
  try {
    return { name, detail: await say(), refusals: [] };
  } catch (error) {
    return { name, detail: "", refusals: [asNotice(error)] };
  }
}

/** Throws a SkillError when what the settings give cannot be had. */
function sayAccess(skill: Skill, host: Host, sandbox: Sandbox | undefined): string {
  if (host.workspace === undefined) return "not seen: there is none";
  if (host.hasBuiltInTools === false) return "not seen: no tool that is built in is offered";
  const home = homeOf(host);
  const { access, asksToWrite, notices } = chooseAccess(host, { skill, home, kind: "run" });
  const checked = checkWorkspace(host, { access, home });
  const mounts = checked ? [{ from: checked.folder, to: WORKSPACE_FOLDER, access: "read" as const }] : [];
  const [less] = notices.map(({ message, fix }) => `: ${message.replace(/: the tools of this run .*$/s, "")}; ${fix}`);
  if (access === "none") return `not seen${less ?? ': workspace = "none" holds for it'}`;
  const place = sandbox ? seenPath(sandbox, mounts, WORKSPACE_FOLDER) : WORKSPACE_FOLDER;
  const how = access === "read" ? "read-only" : asksToWrite ? "may be changed when you agree" : "may be changed";
  return `seen as ${place}, ${how}${less ?? ""}`;
}

function opened({ name }: Skill, { settings: { sandbox, skills } }: Host): string[] {
  return [...sandbox.network, ...(skills.get(name)?.network ?? [])];
}

const CALLS = /\b(?:curl|wget)\s|\burllib\.request\b|\brequests\.(?:get|post)\(|\bfetch\(|"node:https?"/;
const HOSTS = /\bhttps:\/\/([a-z\d][a-z\d.-]*\.[a-z]{2,})|\b(api\.[a-z\d.-]+\.[a-z]{2,})\b/gi;
const MOST_HOSTS = 4;

/** What a skill that cannot reach anything most likely wants to reach. A tool that it requires is refused elsewhere. */
export function wantsNetwork(skill: Skill): Notice[] {
  const { tools, compatibility = "" } = skill.manifest;
  if (tools.required.some(isFetch)) return [];
  const scripts = scriptTexts(skill);
  const code = [...scripts, ...commandsIn(skill.body(), {})];
  const isNamed = [...tools.allowed, ...tools.preapproved].some(isFetch);
  if (!isNamed && !code.some((text) => CALLS.test(text))) return [];
  const said = [compatibility, ...code].join("\n");
  const hosts = new Set(Array.from(said.matchAll(HOSTS), ([, address, api]) => (address ?? api ?? "").toLowerCase()));
  const wanted = [...hosts].slice(0, MOST_HOSTS).map((host) => `${host}:443`);
  return [
    {
      code: "network-wanted",
      message: `Skill '${skill.name}' ${isNamed ? "lists web_fetch" : "has code that asks the network"}, and the network is closed to it`,
      fix: `run: skillet config set ${keyOf(skill, "network")} ${wanted.join(",") || "HOST:443"}`,
    },
  ];
}

function isFetch(entry: string): boolean {
  return ourToolName(entry) === "web_fetch";
}

function scriptTexts(skill: Skill): string[] {
  return scriptsOf(skill).flatMap(({ path }) => {
    try {
      return [Buffer.from(skill.read(path)).toString()];
    } catch {
      return []; // It is gone; a run would say so.
    }
  });
}
