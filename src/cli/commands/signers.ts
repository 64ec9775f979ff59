import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { SkillError } from "../../errors/problem.ts";
import { createSignerStore, decodeBase64, fingerprintKey, parsePublicKey, type Signer } from "../../store/signers.ts";
import { quoteIfNeeded } from "../../util/shell-quote.ts";
import { findNearest, truncateLine } from "../../util/text.ts";
import { type CommandContext, type CommandDefinition, EXIT, formatExamples } from "../command-definition.ts";
import { resolveCommandEnvironment } from "../command-host.ts";
import { createPrinter, printHanging, printJson } from "../output.ts";

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
  const given = words.join(" "); // A key pasted without quotes is several words.
  const key = parsePublicKey(decodeBase64(given) ? given : (readKeyFile(resolve(io.cwd, given)) ?? given));
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
      fix: meant ? `did you mean ${meant}?` : "`skillet signers` lists the trusted signers",
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
