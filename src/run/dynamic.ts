import { dynamicCommands } from "../catalog/content.ts";
import type { Host } from "../host/host.ts";
import { denials } from "../policy/policy.ts";
import { requireSecrets } from "../policy/secrets.ts";
import { SkillError } from "../shared/error.ts";
import { openHiding } from "../shared/redact.ts";
import { fillCommand } from "../skill/shell-values.ts";
import { type Skill, withBody } from "../skill/skill.ts";
import { copySkill, type SkillCopy, withCopy } from "../source/digest.ts";
import type { Enclosure } from "./enclosure.ts";
import { allSecrets, ownSecrets } from "./secrets.ts";

export interface Dynamic {
  skill: Skill;
  host: Host;
  arguments: string | undefined;
  signal: AbortSignal | undefined;
}

const MOST_COMMANDS = 20;
const LONGEST = 12_000;

/** What the commands in a skill's instructions print; nothing where there are none, or the operator does not let them run. */
export async function printedBy(enclosure: Enclosure | undefined, dynamic: Dynamic): Promise<string[] | undefined> {
  const { skill, arguments: given, signal } = dynamic;
  const commands = enclosure ? commandsOf(dynamic) : [];
  if (!enclosure || commands.length === 0) return undefined;
  const printed: string[] = [];
  for (const [index, written] of commands.entries()) {
    if (index >= MOST_COMMANDS) {
      printed.push(`[not run: at most ${MOST_COMMANDS} commands are]`);
      continue;
    }
    const command = fillCommand(written, {
      names: skill.manifest.arguments,
      ...(given === undefined ? {} : { arguments: given }),
      ...(enclosure.places.skill === undefined ? {} : { folder: enclosure.places.skill }),
    });
    const { stdout, stderr, exitCode, ending } = await enclosure.run(["sh", "-c", command], signal ? { signal } : {});
    const text = (exitCode === 0 ? stdout : `${stdout}${stderr}`).trimEnd();
    const how =
      exitCode === 0 ? "" : `\n[the command ended with ${exitCode === undefined ? ending : `exit ${exitCode}`}]`;
    printed.push(`${text.slice(0, LONGEST)}${text.length > LONGEST ? "\n[cut]" : ""}${how}`);
  }
  return printed;
}

/** The same for instructions that are loaded: only where the skill's code may run, and without its values. */
export async function printedForLoading(given: Dynamic): Promise<string[] | undefined> {
  const { host } = given;
  const skill = withBody(given.skill);
  if (denials(skill, host, "run").length > 0) return undefined;
  await given.skill.fetch?.("all");
  const copy = copySkill(skill);
  if ((host.trust?.changesOf(skill, copy) ?? []).length > 0) return undefined;
  requireSecrets(skill, host);
  const dynamic = { ...given, skill: withCopy(skill, copy) };
  const enclosure = await enclosureFor(dynamic, copy);
  try {
    return await printedBy(enclosure, dynamic);
  } finally {
    enclosure?.close();
  }
}

/** Without the skill's values. None where no sandbox can be had: then the text says that nothing was run. */
async function enclosureFor({ skill, host, signal }: Dynamic, copy: SkillCopy): Promise<Enclosure | undefined> {
  const { openEnclosure } = await import("./enclosure.ts"); // Only who runs code loads what keeps it apart.
  const secrets = new Map<string, string>();
  const hiding = openHiding(allSecrets(ownSecrets(skill, host).secrets, host));
  const rest = { onProgress: () => {}, signal: signal ?? new AbortController().signal };
  try {
    return await openEnclosure(host, { skill, copy, secrets, hiding, kind: "run", ...rest });
  } catch (error) {
    if (error instanceof SkillError) return undefined;
    throw error;
  }
}

/** The commands in a skill's instructions, where the operator lets them run. */
export function commandsOf({ skill, host: { settings } }: Pick<Dynamic, "skill" | "host">): string[] {
  const isAllowed = settings.skills.get(skill.name)?.dynamicCommands ?? settings.tools.dynamicCommands;
  return isAllowed ? dynamicCommands(skill.body()) : [];
}
