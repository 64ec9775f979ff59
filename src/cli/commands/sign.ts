import type { KeyObject } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { DiscoverResult } from "../../config/discover.ts";
import { SkillError } from "../../errors/problem.ts";
import {
  createSigningKey,
  getPublicKey,
  getSigningKeyFile,
  readSigningKey,
  type SignedSkill,
  signSkill,
} from "../../remote/signature.ts";
import { getSeverity, type Skill, type SkillOrigin } from "../../skill/skill.ts";
import { formatDisplayPath, formatHomePath } from "../../skill/source/locations.ts";
import { readFolderSkill } from "../../skill/source/read-skill.ts";
import { copySkill } from "../../skill/source/skill-copy.ts";
import { createSignerStore, decodeBase64, fingerprintKey, parsePublicKey, type Signer } from "../../store/signers.ts";
import { mapAsync } from "../../util/async.ts";
import { findNearest, quoteIfNeeded, truncateLine } from "../../util/text.ts";
import {
  type CommandContext,
  type CommandDefinition,
  discoverForCommand,
  EXIT,
  formatExamples,
  resolveCommandEnvironment,
} from "../command-context.ts";
import { type CommandIo, createPrinter, type Printer, printHanging, printJson } from "../output.ts";

/** `skillet sign`. */
export const signCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("Sign your skills or show your public key")
      .argument("[path...]", "Skill folders, or names")
      .option("--new-key", "Create your key in ~/.skillet/signing-key.pem. An existing key is never replaced.")
      .option("--key <file>", "Use another private Ed25519 key, a PEM file that only you can read")
      .addHelpText(
        "after",
        "\nThe passphrase of a key is read from $SKILLET_SIGNING_PASSPHRASE or a prompt.\nA change to a skill breaks its signature: sign it again.",
      )
      .addHelpText(
        "after",
        formatExamples(
          "skillet sign --new-key",
          "skillet sign skills/deploy",
          "skillet sign deploy --key ~/keys/team.pem",
        ),
      ),
  run: signSkills,
};

interface SignOptions {
  key?: string;
  newKey?: boolean;
}

/** Creates the user's key, signs skills with it, and shows the public key. */
async function signSkills({ io, options, args }: CommandContext<SignOptions>): Promise<number> {
  const found = await discoverForCommand(io, options);
  const { around: environment } = found;
  const targets = args.map((value) => findSignTarget(value, found, io.cwd));
  const file = resolveKeyFile(options.key, environment.skilletHome, io.cwd);
  const key = options.newKey
    ? await createSigningKey(file, () => askNewPassphrase(io))
    : await readSigningKey(file, () => readPassphrase(io, file));
  const out = createPrinter(io.stdout, io.env);
  if (options.newKey && !options.json) {
    out.line`${out.green("✓")} created ${formatHomePath(file, environment.home)}`;
    out.line`  keep a backup in a safe place: it cannot be restored`;
  }
  const signed = await mapAsync(targets, async (skill) => {
    const done = await signKeepingTrust(skill, key, found);
    if (!options.json) {
      out.line`${out.green("✓")} signed ${out.bold(skill.name)}  ${formatDisplayPath(done.file, { ...environment, workspace: io.cwd })}`;
      out.line`  ${out.dim(done.digest)}`;
    }
    const { file: signature, digest, key: fingerprint } = done;
    return { name: skill.name, file: signature, digest, fingerprint };
  });
  const publicKey = getPublicKey(key);
  const facts = { fingerprint: fingerprintKey(publicKey), publicKey: publicKey.toString("base64") };
  if (options.json) printJson(io.stdout, { key: { file, isNew: options.newKey ?? false, ...facts }, signed });
  else {
    if (signed.length > 0 || options.newKey) out.line``;
    printPublicKey(out, facts);
  }
  return EXIT.fine;
}

/** Resolves the key file. A key given in place of a file is not repeated in the message. */
function resolveKeyFile(value: string | undefined, skilletHome: string, cwd: string): string {
  if (value === undefined) return getSigningKeyFile(skilletHome);
  if (!/PRIVATE KEY|\n/.test(value)) return resolve(cwd, value);
  throw new SkillError("usage", {
    message: "--key needs a file, not the key itself: a command line is visible to other users",
    fix: "write the key to a file that only you can read, and pass its path",
  });
}

function printPublicKey(out: Printer, { fingerprint, publicKey }: { fingerprint: string; publicKey: string }): void {
  out.line`${out.bold("Your key")}`;
  out.line`  ${fingerprint}`;
  out.line`  others trust its signatures with:`;
  out.line`    ${out.cyan(`skillet signers add NAME ${publicKey}`)}`;
}

/** Signs a skill and keeps its trust: the only new file is the signature. */
async function signKeepingTrust(
  skill: Skill,
  privateKey: KeyObject,
  { catalog, trust }: DiscoverResult,
): Promise<SignedSkill> {
  const { folder = "" } = skill.origin;
  const known = [...catalog.skills, ...catalog.shadowed].find(({ origin }) => origin.folder === folder);
  const isTrusted =
    known && trust.getStatus(known) === "trusted" && trust.findChanges(known, await copySkill(known)).length === 0;
  const signed = signSkill({ folder, name: skill.name, privateKey });
  const now = isTrusted && readSkillSafely(folder, known.origin);
  if (now && "skill" in now) trust.grant([{ skill: now.skill, copy: await copySkill(now.skill) }]);
  return signed;
}

function findSignTarget(value: string, { catalog, trust }: DiscoverResult, cwd: string): Skill {
  const skill =
    catalog.find(value) ??
    readSkillToSign(resolve(cwd, value.replace(/(^|\/)SKILL\.md$/, "$1.")), value, catalog.names());
  if (skill.origin.form !== "folder" || skill.origin.folder === undefined)
    throw createUnsignableError(
      skill,
      "it is a single file, and a signature needs a folder",
      "convert it to a folder with a SKILL.md",
    );
  if (skill.origin.scope === "bundled" || trust.getLockState(skill).is !== "unlocked")
    throw createUnsignableError(
      skill,
      "it is a remote skill, and would no longer match its lock file",
      "sign it at its source",
    );
  return skill;
}

function readSkillToSign(path: string, value: string, names: readonly string[]): Skill {
  const read = readSkillSafely(path, { scope: "user", source: path });
  if (read && "skill" in read) return read.skill;
  const problem = read?.findings.find(({ code }) => getSeverity(code, "load") === "error");
  const meant = problem ? undefined : findNearest(value, names);
  throw new SkillError("not-found", {
    message: problem
      ? `The skill in ${truncateLine(value, 200)} does not load: ${problem.message}`
      : `'${truncateLine(value, 200)}' is neither a skill nor a skill folder`,
    ...(problem
      ? { fix: "see its problems", commands: [`skillet check ${quoteIfNeeded(truncateLine(value, 200))}`] }
      : meant
        ? { fix: `did you mean ${meant}?` }
        : { fix: "list the skills", commands: ["skillet list"] }),
  });
}

function readSkillSafely(
  path: string,
  origin: Pick<SkillOrigin, "scope" | "source">,
): ReturnType<typeof readFolderSkill> {
  try {
    return readFolderSkill(path, origin);
  } catch {
    return undefined; // The folder does not exist.
  }
}

function createUnsignableError({ name }: Skill, why: string, fix: string): SkillError {
  return new SkillError("unsignable", { message: `"${name}" cannot be signed: ${why}`, fix });
}

const PASSPHRASE_VARIABLE = "SKILLET_SIGNING_PASSPHRASE";

async function readPassphrase(io: CommandIo, file: string): Promise<string> {
  const value = io.env[PASSPHRASE_VARIABLE];
  if (value !== undefined && value !== "") return value;
  const typed = await (io.askHidden ?? io.ask)?.(`Passphrase of ${file}: `);
  if (typed) return typed;
  throw new SkillError("signing-key", {
    message: `${file} is protected by a passphrase, which is missing`,
    fix: `type it at a terminal, or set ${PASSPHRASE_VARIABLE}`,
  });
}

/** Returns a new passphrase; undefined for a key without one. */
async function askNewPassphrase(io: CommandIo): Promise<string | undefined> {
  const value = io.env[PASSPHRASE_VARIABLE];
  if (value !== undefined && value !== "") return value;
  const ask = io.askHidden ?? io.ask;
  const typed = await ask?.("Passphrase for the new key (empty for none): ");
  if (!typed) return undefined;
  if ((await ask?.("Repeat the passphrase: ")) === typed) return typed;
  throw new SkillError("usage", { message: "The passphrases differ; no key was created", fix: "try again" });
}

/** `skillet signers` and its subcommands. */
export const signersCommand: CommandDefinition = {
  define: (command) =>
    command
      .description("List the signers that you trust")
      .addHelpText(
        "after",
        formatExamples("skillet signers", "skillet signers add alice KEY", "skillet signers remove alice"),
      ),
  run: listSigners,
  commands: {
    add: {
      define: (command) =>
        command
          .description("Trust the signatures of a signer")
          .argument("<name>", "Your name for the signer")
          .argument("<key...>", "The signer's public key as printed by `skillet sign`, or a file with it")
          .usage("[options] <name> <key>")
          .allowUnknownOption() // Words with dashes may be a pasted key, which must not be repeated in an error.
          .addHelpText(
            "after",
            formatExamples("skillet signers add alice KEY", "skillet signers add alice alice-public.pem"),
          ),
      run: addSigner,
    },
    remove: {
      define: (command) =>
        command
          .description("Stop trusting the signatures of a signer")
          .argument("<name>", "Your name for the signer")
          .addHelpText("after", formatExamples("skillet signers remove alice")),
      run: removeSigner,
    },
  },
};

/** Lists the trusted signers. */
async function listSigners({ io, options }: CommandContext<object>): Promise<number> {
  const signers = createSignerStore(resolveCommandEnvironment(io, options).skilletHome);
  const problem = signers.problem();
  const list = signers.list();
  const out = createPrinter(io.stdout, io.env);
  const error = createPrinter(io.stderr, io.env);
  if (options.json) printJson(io.stdout, { signers: list.map(toSignerJson) });
  else {
    for (const { name, fingerprint, at } of list) {
      out.line`${out.bold(name)}  ${out.dim(`since ${at.slice(0, 10)}`)}`;
      out.line`  ${fingerprint}`;
    }
    if (list.length === 0 && problem === undefined)
      error.line`no signers are trusted yet; add one with \`skillet signers add NAME KEY\``;
  }
  if (problem === undefined) return EXIT.fine;
  printHanging(error, error.text`${error.red("✗")} `, [problem], { indent: 2, code: "signers-unreadable" });
  return EXIT.findings;
}

function toSignerJson({ name, fingerprint, key: publicKey, at }: Signer): object {
  return { name, fingerprint, publicKey, at };
}

async function addSigner({ io, options, args: [name = "", ...words] }: CommandContext<object>): Promise<number> {
  // A private key must not become a name, which is printed.
  if ((decodeBase64(name)?.length ?? 0) >= MIN_KEY_LENGTH)
    throw new SkillError("usage", {
      message: "The name looks like a key",
      fix: "the name comes first",
      commands: ["skillet signers add alice KEY"],
    });
  const value = words.join(" "); // A key pasted without quotes is several words.
  const key = parsePublicKey(decodeBase64(value) ? value : (readKeyFile(resolve(io.cwd, value)) ?? value));
  const fingerprint = fingerprintKey(key);
  const isChanged = createSignerStore(resolveCommandEnvironment(io, options).skilletHome).add(name, key);
  const out = createPrinter(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { name, fingerprint, isChanged });
  else {
    const from = isChanged ? "are now trusted" : "were already trusted";
    out.line`${out.green("✓")} signatures with this key ${from} as ${out.bold(name)}`;
    out.line`  ${fingerprint}`;
    out.line`  compare it with the fingerprint that ${name} publishes; to remove it:`;
    out.line`    ${out.cyan(`skillet signers remove ${quoteIfNeeded(name)}`)}`;
  }
  return EXIT.fine;
}

async function removeSigner({ io, options, args: [name = ""] }: CommandContext<object>): Promise<number> {
  const signers = createSignerStore(resolveCommandEnvironment(io, options).skilletHome);
  const names = signers.list().map((signer) => signer.name);
  const gone = signers.remove(name);
  if (!gone) {
    const meant = findNearest(name, names);
    throw new SkillError("not-found", {
      message: `Unknown signer '${truncateLine(name, 64)}'`,
      ...(meant
        ? { fix: `did you mean ${meant}?` }
        : { fix: "list the trusted signers", commands: ["skillet signers"] }),
    });
  }
  const out = createPrinter(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { removed: toSignerJson(gone) });
  else {
    out.line`${out.green("✓")} signatures of ${out.bold(name)} are no longer trusted; to trust them again:`;
    out.line`    ${out.cyan(`skillet signers add ${quoteIfNeeded(name)} ${gone.key}`)}`;
  }
  return EXIT.fine;
}

const MIN_KEY_LENGTH = 32;
const MAX_KEY_FILE_BYTES = 64 * 1024;

/** Reads a key file; undefined if the argument is the key itself. */
function readKeyFile(path: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stats = fstatSync(fd);
    return stats.isFile() && stats.size <= MAX_KEY_FILE_BYTES ? readFileSync(fd, "utf8") : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
