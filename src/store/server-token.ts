import { randomBytes } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { getErrnoCode, getErrorMessage, SkillError } from "../errors/problem.ts";
import { readRegularText } from "../util/file-access.ts";
import { replaceFile, withFileLock } from "./locked-file.ts";

/**
 * The file with the token for clients of `skillet serve --http`, in the skillet folder, readable for the user alone.
 */
export const TOKEN_FILE = "serve-token";

const TOKEN_BYTES = 32;
const MAX_TOKEN_FILE_BYTES = 4096;

export interface ServerToken {
  file: string;
  token: string;
  /** True if it was just created. */
  isNew: boolean;
}

export function getServerTokenPath(skilletHome: string): string {
  return join(skilletHome, TOKEN_FILE);
}

/**
 * Reads the token of this user's server, and creates it on first use. Throws a SkillError when others can read the
 * file.
 */
export function readOrCreateServerToken(skilletHome: string): ServerToken {
  const file = getServerTokenPath(skilletHome);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  return withFileLock(file, () => {
    const known = readToken(file);
    if (known !== undefined) return { file, token: known, isNew: false };
    const token = randomBytes(TOKEN_BYTES).toString("base64url");
    replaceFile(file, `${token}\n`, 0o600);
    chmodSync(file, 0o600);
    return { file, token, isNew: true };
  });
}

function readToken(file: string): string | undefined {
  const fix = `remove ${file}, and start the server again: it creates a new token`;
  const refuse = (why: string, cause?: unknown): never => {
    throw new SkillError("token-file", { message: `${file} ${why}`, fix, ...(cause === undefined ? {} : { cause }) });
  };
  try {
    const stats = lstatSync(file);
    if (!stats.isFile() || stats.size > MAX_TOKEN_FILE_BYTES) return refuse("is not a token file");
    if ((stats.mode & 0o077) !== 0) return refuse("can be read by other users");
    if (process.getuid && stats.uid !== process.getuid()) return refuse("belongs to another user");
    const token = readRegularText(file, { limit: MAX_TOKEN_FILE_BYTES, refusesLinks: true }).trim();
    return /^[\x21-\x7e]{16,}$/.test(token) ? token : refuse("does not hold a token of 16 or more characters");
  } catch (error) {
    if (error instanceof SkillError) throw error;
    return getErrnoCode(error) === "ENOENT" ? undefined : refuse(`cannot be read: ${getErrorMessage(error)}`, error);
  }
}
