import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { fingerprintOf, fromBase64, openSigners, publicKeyFrom, type Signer } from "../../host/signers.ts";
import { quoted } from "../../policy/trust.ts";
import { SkillError } from "../../shared/error.ts";
import { nearest, oneLine } from "../../shared/text.ts";
import { EXIT } from "../exit.ts";
import { surroundingsFor } from "../found.ts";
import { printer, printJson } from "../io.ts";
import type { Context } from "../program.ts";

/** Whose signatures count. */
export async function listSigners({ io, options }: Context<object>): Promise<number> {
  const signers = openSigners(surroundingsFor(io, options).skilletHome);
  const problem = signers.problem();
  const list = signers.list();
  const out = printer(io.stdout, io.env);
  const error = printer(io.stderr, io.env);
  if (options.json) printJson(io.stdout, { signers: list.map(asJson) });
  else {
    for (const { name, fingerprint, at } of list) {
      out.line`${out.bold(name)}  ${out.dim(`since ${at.slice(0, 10)}`)}`;
      out.line`  ${fingerprint}`;
    }
    if (list.length === 0 && problem === undefined)
      error.line`nobody's signature counts yet: \`skillet signers add NAME KEY\` changes that`;
  }
  if (problem === undefined) return EXIT.fine;
  error.line`${error.red("✗")} ${problem}`;
  return EXIT.findings;
}

function asJson({ name, fingerprint, key: publicKey, at }: Signer): object {
  return { name, fingerprint, publicKey, at };
}

export async function addSigner({ io, options, args: [name = "", ...words] }: Context<object>): Promise<number> {
  // Nothing that may be a private key becomes a name, which is shown.
  if ((fromBase64(name)?.length ?? 0) >= SHORTEST_KEY)
    throw new SkillError("usage", {
      message: "There is a key where a name is wanted",
      fix: "the name comes first: skillet signers add alice KEY",
    });
  const given = words.join(" "); // A key that was pasted without quotes is several words.
  const key = publicKeyFrom(fromBase64(given) ? given : (textOfFile(resolve(io.cwd, given)) ?? given));
  const fingerprint = fingerprintOf(key);
  const isChanged = openSigners(surroundingsFor(io, options).skilletHome).add(name, key);
  const out = printer(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { name, fingerprint, isChanged });
  else {
    const from = isChanged ? "counts from now on" : "counted already";
    out.line`${out.green("✓")} what is signed with this key ${from}, as signed by ${out.bold(name)}`;
    out.line`  ${fingerprint}`;
    out.line`  compare it with what ${name} tells you; to take it back:`;
    out.line`    ${out.cyan(`skillet signers remove ${quoted(name)}`)}`;
  }
  return EXIT.fine;
}

export async function removeSigner({ io, options, args: [name = ""] }: Context<object>): Promise<number> {
  const signers = openSigners(surroundingsFor(io, options).skilletHome);
  const names = signers.list().map((signer) => signer.name);
  const gone = signers.remove(name);
  if (!gone) {
    const meant = nearest(name, names);
    throw new SkillError("not-found", {
      message: `No signer is called '${oneLine(name, 64)}'`,
      fix: meant ? `did you mean ${meant}?` : "`skillet signers` shows whose signatures count",
    });
  }
  const out = printer(io.stdout, io.env);
  if (options.json) printJson(io.stdout, { removed: asJson(gone) });
  else {
    out.line`${out.green("✓")} signatures of ${out.bold(name)} count no longer; to let them count again:`;
    out.line`    ${out.cyan(`skillet signers add ${quoted(name)} ${gone.key}`)}`;
  }
  return EXIT.fine;
}

const SHORTEST_KEY = 32;
const LARGEST = 64 * 1024;

/** Nothing when there is no such file: then it is a key, or none. */
function textOfFile(path: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stats = fstatSync(fd);
    return stats.isFile() && stats.size <= LARGEST ? readFileSync(fd, "utf8") : undefined;
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}
