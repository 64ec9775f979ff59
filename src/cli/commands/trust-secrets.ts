import type { Discovered } from "../../host/discover.ts";
import type { Owner } from "../../host/grants.ts";
import { configuredVariables, isGiven } from "../../policy/secrets.ts";
import { tableOf } from "../../policy/table.ts";
import { SkillError } from "../../shared/error.ts";
import { nearest } from "../../shared/text.ts";
import { declaredVariables } from "../../skill/needs.ts";
import type { Skill } from "../../skill/skill.ts";
import { displayPath } from "../../source/locations.ts";
import { EXIT } from "../exit.ts";
import type { Found } from "../found.ts";
import { type Io, isAgreed, printer, printJson } from "../io.ts";
import { notAgreed } from "../told.ts";

interface SecretsOptions {
  secrets: string;
  yes?: boolean;
  json?: boolean;
}

/** Gives the values that are configured for a name to the copy that is found now. */
export async function trustSecrets(io: Io, found: Found, options: SecretsOptions): Promise<number> {
  const { grants, around } = found;
  const skill = skillCalled(options.secrets, found);
  const variables = configuredVariables(skill, found);
  const capabilities = skill.manifest.capabilities.filter((id) => found.capabilities.isGranted(id, skill));
  if (!isGiven(skill, found)) throw nothingToGive(skill);
  const before = grants.ownerOf(skill.name);
  const isNew = !before || !grants.isOwner(skill, before);
  const out = printer(options.json ? io.stderr : io.stdout, io.env);
  const shown = ({ source, place }: Owner) => `${place === "" ? "" : `${displayPath(place, around)} `}(from ${source})`;
  const { source, folder, file } = skill.origin;
  out.line`${out.bold(skill.name)}  ${[...variables, ...capabilities].join(", ") || `what ${tableOf(skill)} gives it`}`;
  if (before) out.line`  given to    ${shown(before)}`;
  if (isNew) out.line`  to be given ${shown({ source, place: folder ?? file ?? "" })}`;
  if (isNew && !options.yes && !(await isAgreed(io, "Give this to this copy, and no longer to another?"))) {
    throw notAgreed(io, "not given", "look at the skill, then say --yes");
  }
  if (isNew) grants.grant(skill);
  if (options.json)
    printJson(io.stdout, {
      name: skill.name,
      variables,
      capabilities,
      before: before ?? null,
      now: grants.ownerOf(skill.name),
    });
  else out.line`${out.green("✓")} ${isNew ? "given" : "it has them already"}`;
  return EXIT.fine;
}

function skillCalled(name: string, { catalog }: Discovered): Skill {
  const skill = catalog.find(name);
  if (skill) return skill;
  const meant = nearest(name, catalog.names());
  throw new SkillError("not-found", {
    message: `Skill '${name}' not found`,
    fix: meant === undefined ? "`skillet list` shows what there is" : `did you mean ${meant}?`,
  });
}

function nothingToGive(skill: Skill): SkillError {
  const [name] = declaredVariables(skill);
  return new SkillError("not-found", {
    message: `Skill '${skill.name}' ${name === undefined ? "declares no variables" : "has no values"}, so there is nothing to give`,
    fix:
      name === undefined ? "a skill declares them under `env`" : `set ${name} under ${tableOf(skill)} in config.toml`,
  });
}
