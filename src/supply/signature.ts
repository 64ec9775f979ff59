import { type KeyObject, sign, verify } from "node:crypto";
import { lstatSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { LockedFiles } from "../host/lock/format.ts";
import { treeDigest, treeOf } from "../host/lock/tree.ts";
import { replaceFile } from "../host/locked-file.ts";
import { fingerprintOf, fromBase64, publicKeyOf, type Signers } from "../host/signers.ts";
import { SkillError } from "../shared/error.ts";
import { readInside, reason } from "../shared/inside.ts";
import { isData } from "../skill/data.ts";
import { SIGNATURE_FILE } from "../skill/skill.ts";
import type { Put } from "./put.ts";
import { publicKeyIn } from "./signing-key.ts";

/** Whose a skill is, as far as its signature tells. `key` is a fingerprint. */
export type SignatureState =
  | { state: "none" }
  | { state: "valid"; signer: string; key: string }
  | { state: "unknown-signer"; key: string }
  | { state: "broken"; why: string };

export interface SignedSkill {
  file: string;
  /** The fingerprint of the key. */
  key: string;
  digest: string;
}

/** Signs a skill: its name, and every file of its folder. Throws a SkillError when it cannot be, or would not hold where it is added. */
export function signSkill(request: { folder: string; name: string; privateKey: KeyObject }): SignedSkill {
  const { folder, name, privateKey } = request;
  const key = fingerprintOf(publicKeyIn(privateKey));
  const digest = treeDigest(signable(name, filesIn(folder)), SIGNATURE_FILE);
  const signature = sign(null, statement(name, digest), privateKey).toString("base64");
  const file = join(folder, SIGNATURE_FILE);
  replaceFile(file, `${JSON.stringify({ version: VERSION, key, name, digest, signature }, null, 2)}\n`, 0o644);
  return { file, key, digest };
}

/** Whether a skill is signed, by whom, and still what was signed. `files`: what is in its folder, where that is known. Never throws. */
export function checkSignature(request: {
  folder: string;
  name: string;
  files?: LockedFiles;
  signers: Pick<Signers, "withKey">;
}): SignatureState {
  const { folder, name, signers } = request;
  try {
    const stats = lstatSync(join(folder, SIGNATURE_FILE), { throwIfNoEntry: false });
    if (!stats) return { state: "none" };
    if (stats.isSymbolicLink()) return broken("is a link");
    const read = readInside(realpathSync(folder), SIGNATURE_FILE, LARGEST);
    if ("code" in read) return broken(WHY_UNREAD[read.code] ?? "cannot be read");
    const written = parse(read.bytes.toString("utf8"));
    if (typeof written === "string") return broken(written);
    if (written.name !== name || name.includes("\n")) return broken("is of a skill of another name");
    const digest = treeDigest(request.files ?? treeOf(folder), SIGNATURE_FILE);
    if (written.digest !== digest) return broken("is of other files: something was changed, added or removed since");
    const signer = signers.withKey(written.key);
    if (!signer) return { state: "unknown-signer", key: written.key };
    const key = publicKeyOf(Buffer.from(signer.key, "base64"));
    if (!verify(null, statement(name, digest), key, written.signature))
      return broken("was not made with the key it names");
    return { state: "valid", signer: signer.name, key: signer.fingerprint };
  } catch (error) {
    return broken(`cannot be checked: ${reason(error)}`);
  }
}

const VERSION = 1;
const LARGEST = 64 * 1024;
const SIGNATURE_BYTES = 64;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
const WHY_UNREAD: Readonly<Record<string, string>> = {
  "too-large": "is larger than 64 KiB",
  "not-a-file": "is not a regular file",
};

/** What is signed. Neither a name nor a digest holds a line break, so no two of them give the same. */
function statement(name: string, digest: string): Buffer {
  return Buffer.from(`skillet-signature-v1\n${name}\n${digest}\n`);
}

interface Written {
  key: string;
  name: string;
  digest: string;
  signature: Buffer;
}

/** What a signature says, or why it is none. */
function parse(text: string): Written | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "is not JSON";
  }
  if (!isData(value)) return "is no signature";
  const { version, key, name, digest, signature } = value;
  if (version !== VERSION) return "is of a version that is not known here";
  if (typeof key !== "string" || !DIGEST.test(key)) return "names no key";
  if (typeof digest !== "string" || !DIGEST.test(digest) || typeof name !== "string") return "says not what is signed";
  const bytes = typeof signature === "string" ? fromBase64(signature) : undefined;
  return bytes?.length === SIGNATURE_BYTES ? { key, name, digest, signature: bytes } : "holds no signature";
}

function broken(why: string): SignatureState {
  return { state: "broken", why: `${SIGNATURE_FILE} ${why}` };
}

function filesIn(folder: string): LockedFiles {
  try {
    return treeOf(folder);
  } catch (error) {
    throw new SkillError("unreadable", {
      message: `${folder} cannot be read: ${reason(error)}`,
      fix: "give yourself read permission to all that is in it",
      cause: error,
    });
  }
}

/** What versions are kept in is not added with a skill. */
const VERSION_CONTROL = /(?:^|\/)\.(?:git|hg|svn)(?:\/|$)/;

/** The files that whoever adds the skill gets. What would be others there cannot be signed. */
function signable(name: string, all: LockedFiles): LockedFiles {
  if (name.includes("\n")) throw unsignable(name, "its name holds a line break", "give it another name");
  const files = Object.entries(all).filter(([path]) => !VERSION_CONTROL.test(path));
  for (const [path, { mode }] of files) {
    if (mode === "link")
      throw unsignable(
        name,
        `"${path}" is a link, and a link is never added with a skill`,
        "put the file itself in its place",
      );
    if (mode === "other") throw unsignable(name, `"${path}" is not a regular file`, "remove it");
    if (mode !== "644" && mode !== "755")
      throw unsignable(
        name,
        `"${path}" can be written to by everybody, or has a set-id bit`,
        "take that from it: chmod o-w,u-s,g-s",
      );
  }
  return Object.fromEntries(files);
}

function unsignable(name: string, why: string, fix: string): SkillError {
  return new SkillError("unsignable", { message: `"${name}" cannot be signed: ${why}`, fix });
}

/** Describes the signature of a skill, after its name. */
export function saySignature(state: SignatureState | undefined): string {
  switch (state?.state) {
    case "valid":
      return `is signed by ${state.signer}`;
    case "unknown-signer":
      return `names a signer that nobody here knows (${state.key}), so its signature cannot be checked`;
    case "broken":
      return `has a signature that does not hold: ${state.why}`;
    default:
      return "is not signed";
  }
}

/** Refuses a skill that must be signed by a known signer and is not. */
export function notSigned(name: string, state: SignatureState | undefined): SkillError {
  return new SkillError("not-signed", {
    message: `Skill "${name}" ${saySignature(state)}, and nothing was added`,
    fix: "ask whoever wrote it for a signature, and add their key: skillet signers add NAME KEY",
  });
}

/**
 * Refuses skills that must be signed and are not: all of them with `all`, else those whose lock requires it. Returns them with the requirement
 * in their lock entry, so that no later update can drop it.
 */
export function requireSignatures<Coming extends { name: string; put: Put }>(
  coming: readonly Coming[],
  { signers, all = false }: { signers: Pick<Signers, "withKey">; all?: boolean },
): Coming[] {
  return coming.map((one) => {
    const { name, put } = one;
    if (!all && !put.entry.requireSignature) return one;
    const state = checkSignature({ folder: put.folder, name, files: put.entry.files, signers });
    if (state.state !== "valid") throw notSigned(name, state);
    return { ...one, put: { ...put, entry: { ...put.entry, requireSignature: true } } };
  });
}
