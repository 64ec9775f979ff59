import type { KeyObject } from "node:crypto";
import { resolve } from "node:path";
import type { Discovered } from "../../host/discover.ts";
import { fingerprintOf } from "../../host/signers.ts";
import { SkillError } from "../../shared/error.ts";
import { nearest, oneLine } from "../../shared/text.ts";
import { severityOf } from "../../skill/diagnostic.ts";
import type { Origin, Skill } from "../../skill/skill.ts";
import { copySkill } from "../../source/digest.ts";
import { readFolderSkill } from "../../source/folder-skill.ts";
import { displayPath, shortPath } from "../../source/locations.ts";
import { type SignedSkill, signSkill } from "../../supply/signature.ts";
import { makeSigningKey, publicKeyIn, readSigningKey, signingKeyFile } from "../../supply/signing-key.ts";
import { EXIT } from "../exit.ts";
import { discoverFor } from "../found.ts";
import { type Io, type Printer, printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

interface SignOptions {
  key?: string;
  newKey?: boolean;
}

/** Makes the user's key, signs skills with it, and shows what others know it by. */
export async function sign({ io, options, args }: Context<SignOptions>): Promise<number> {
  const found = await discoverFor(io, options);
  const { around } = found;
  const targets = args.map((given) => targetOf(given, found, io.cwd));
  const file = keyFile(options.key, around.skilletHome, io.cwd);
  const key = options.newKey
    ? await makeSigningKey(file, () => newPassphrase(io))
    : await readSigningKey(file, () => passphrase(io, file));
  const out = printer(io.stdout, io.env);
  if (options.newKey && !options.json) {
    out.line`${out.green("✓")} made ${shortPath(file, around.home)}`;
    out.line`  keep a copy of it in a safe place: nobody can make it again`;
  }
  const signed = targets.map((skill) => {
    const done = signKeepingTrust(skill, key, found);
    if (!options.json) {
      out.line`${out.green("✓")} signed ${out.bold(skill.name)}  ${displayPath(done.file, { ...around, workspace: io.cwd })}`;
      out.line`  ${out.dim(done.digest)}`;
    }
    const { file: signature, digest, key: fingerprint } = done;
    return { name: skill.name, file: signature, digest, fingerprint };
  });
  const publicKey = publicKeyIn(key);
  const facts = { fingerprint: fingerprintOf(publicKey), publicKey: publicKey.toString("base64") };
  if (options.json) printJson(io.stdout, { key: { file, isNew: options.newKey ?? false, ...facts }, signed });
  else {
    if (signed.length > 0 || options.newKey) out.line``;
    sayKey(out, facts);
  }
  return EXIT.fine;
}

/** A key in place of its file is not repeated. */
function keyFile(given: string | undefined, skilletHome: string, cwd: string): string {
  if (given === undefined) return signingKeyFile(skilletHome);
  if (!/PRIVATE KEY|\n/.test(given)) return resolve(cwd, given);
  throw new SkillError("usage", {
    message: "--key takes the file that holds the key, and not the key itself, which others can see on a command line",
    fix: "write it into a file that nobody else can read, and name that",
  });
}

function sayKey(out: Printer, { fingerprint, publicKey }: { fingerprint: string; publicKey: string }): void {
  out.line`${out.bold("Your key")}`;
  out.line`  ${fingerprint}`;
  out.line`  others let its signatures count with:`;
  out.line`    ${out.cyan(`skillet signers add NAME ${publicKey}`)}`;
}

/** What was trusted as it is stays so: the one file that is new in it is the user's own doing. */
function signKeepingTrust(skill: Skill, privateKey: KeyObject, { catalog, trust }: Discovered): SignedSkill {
  const { folder = "" } = skill.origin;
  const known = [...catalog.skills, ...catalog.shadowed].find(({ origin }) => origin.folder === folder);
  const isTrusted =
    known && trust.standingOf(known) === "trusted" && trust.changesOf(known, copySkill(known)).length === 0;
  const signed = signSkill({ folder, name: skill.name, privateKey });
  const now = isTrusted && readSafely(folder, known.origin);
  if (now && "skill" in now) trust.grant([{ skill: now.skill, copy: copySkill(now.skill) }]);
  return signed;
}

function targetOf(given: string, { catalog, trust }: Discovered, cwd: string): Skill {
  const skill =
    catalog.find(given) ?? skillAt(resolve(cwd, given.replace(/(^|\/)SKILL\.md$/, "$1.")), given, catalog.names());
  if (skill.origin.form !== "folder" || skill.origin.folder === undefined)
    throw unsignable(
      skill,
      "it is no folder, which a signature could be put into",
      "make a folder of it, with a SKILL.md",
    );
  if (skill.origin.scope === "bundled" || trust.lockStateOf(skill).is !== "unlocked")
    throw unsignable(
      skill,
      "it came from elsewhere, and would not be what was added any more",
      "sign it where it is made",
    );
  return skill;
}

function skillAt(path: string, given: string, names: readonly string[]): Skill {
  const read = readSafely(path, { scope: "user", source: path });
  if (read && "skill" in read) return read.skill;
  const problem = read?.findings.find(({ code }) => severityOf(code, "load") === "error");
  const meant = problem ? undefined : nearest(given, names);
  throw new SkillError("not-found", {
    message: problem
      ? `The skill in ${oneLine(given, 200)} does not load: ${problem.message}`
      : `There is no skill called '${oneLine(given, 200)}', and no folder of one`,
    fix: problem
      ? `see \`skillet check ${oneLine(given, 200)}\``
      : meant
        ? `did you mean ${meant}?`
        : "`skillet list` shows what there is",
  });
}

function readSafely(path: string, origin: Pick<Origin, "scope" | "source">): ReturnType<typeof readFolderSkill> {
  try {
    return readFolderSkill(path, origin);
  } catch {
    return undefined; // There is no such folder.
  }
}

function unsignable({ name }: Skill, why: string, fix: string): SkillError {
  return new SkillError("unsignable", { message: `"${name}" cannot be signed: ${why}`, fix });
}

const PASSPHRASE = "SKILLET_SIGNING_PASSPHRASE";

async function passphrase(io: Io, file: string): Promise<string> {
  const given = io.env[PASSPHRASE];
  if (given !== undefined && given !== "") return given;
  const typed = await (io.askHidden ?? io.ask)?.(`Passphrase of ${file}: `);
  if (typed) return typed;
  throw new SkillError("signing-key", {
    message: `${file} is locked with a passphrase, which was not given`,
    fix: `type it at a terminal, or set ${PASSPHRASE}`,
  });
}

/** Nothing for a key without one. */
async function newPassphrase(io: Io): Promise<string | undefined> {
  const given = io.env[PASSPHRASE];
  if (given !== undefined && given !== "") return given;
  const ask = io.askHidden ?? io.ask;
  const typed = await ask?.("A passphrase for the new key (empty for none): ");
  if (!typed) return undefined;
  if ((await ask?.("The same again: ")) === typed) return typed;
  throw new SkillError("usage", { message: "The two were not the same, so no key was made", fix: "try again" });
}
