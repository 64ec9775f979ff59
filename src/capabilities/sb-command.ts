import { chmodSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mount, Sandbox } from "../host/sandbox-contract.ts";
import { makeReadableFolder } from "../sandbox/sandbox-folders.ts";
import { readRegularText } from "../util/file-access.ts";
import { packageVersion } from "../util/system.ts";
import { quoteShellArgument, shortHash } from "../util/text.ts";
import type { SandboxProgramSettings } from "./sb-program.ts";

/** The names of the command in a sandbox. */
const COMMAND_NAMES = ["skillet-sb", "ash-sb"] as const;

const PROGRAM_FOLDER = "/opt/skillet/bin";

/** In bytes: the largest answer that the command accepts from the broker. */
export const MAX_BROKER_ANSWER_BYTES = 8 * 1024 * 1024;

/**
 * Writes the command where sandboxed code may read it, and returns its mounts. Where paths are not mapped, add the folder of the `from`
 * paths to PATH. A file that was changed is written again: there, code can modify it.
 */
export function prepareCommandMounts(folder: string, { mapsPaths }: Pick<Sandbox, "mapsPaths">): Mount[] {
  const text = formatSandboxCommand(mapsPaths ? {} : { node: process.execPath });
  const target = join(folder, "furniture", `command-${shortHash(text)}`);
  return COMMAND_NAMES.map((name) => {
    const file = join(target, name);
    if (readProgramText(file) !== text) writeProgram(file, text);
    return { from: file, to: `${PROGRAM_FOLDER}/${name}`, access: "read" };
  });
}

export interface SandboxCommandOptions {
  /** The path of Node to try first; then PATH, since an image has its own. */
  node?: string;
  /** The timeout of an answer. Providers have up to 300 seconds, and users need time to decide. */
  timeoutSeconds?: number;
}

/**
 * Returns the command as one text that needs only Node. It starts as a shell script, which takes less than a millisecond: a shebang would
 * look for Node in one place only, and could not limit its threads, which count against the run's process limit.
 */
export function formatSandboxCommand({
  node = `${PROGRAM_FOLDER}/node`,
  timeoutSeconds = 900,
}: SandboxCommandOptions = {}): string {
  const settings: SandboxProgramSettings = {
    version: packageVersion(),
    largestAnswer: MAX_BROKER_ANSWER_BYTES,
    timeoutSeconds,
  };
  const start = `for node in ${quoteShellArgument(node)} node; do command -v "$node" >/dev/null && exec "$node" --v8-pool-size=0 "$0" "$@"; done`;
  return `#!/bin/sh
':' //; ${start}; echo "${NO_NODE_MESSAGE}" >&2; exit 1
"use strict";
const SETTINGS = ${JSON.stringify(settings)};
${readProgramCode()}`;
}

const NO_NODE_MESSAGE =
  "skillet-sb needs Node, which is not installed here: the operator can choose an image with node in its PATH";

/** Set by the build. */
declare const SKILLET_SB_CODE: string | undefined;

/** Returns the code of the program (`sb-program.ts`), which esbuild bundles. */
function readProgramCode(): string {
  if (typeof SKILLET_SB_CODE === "string") return SKILLET_SB_CODE;
  return readFileSync(join(import.meta.dirname, "../../dist/skillet-sb.js"), "utf8");
}

function readProgramText(file: string): string | undefined {
  try {
    return readRegularText(file);
  } catch {
    return undefined;
  }
}

function writeProgram(file: string, text: string): void {
  makeReadableFolder(dirname(file));
  writeFileSync(`${file}.${process.pid}`, text);
  chmodSync(`${file}.${process.pid}`, 0o755);
  renameSync(`${file}.${process.pid}`, file);
}
