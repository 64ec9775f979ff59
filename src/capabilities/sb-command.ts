import { chmodSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Mount, Sandbox } from "../host/sandbox-contract.ts";
import { packageVersion } from "../package.ts";
import { makeReadableFolder } from "../sandbox/sandbox-folders.ts";
import { readRegularText } from "../util/file-access.ts";
import { shortHash } from "../util/text.ts";
import {
  BROKER_PROTOCOL_VERSION,
  CAPABILITY_SOCKET,
  MAX_BROKER_REQUEST_BYTES,
  SOCKET_VARIABLE,
  TOKEN_VARIABLE,
} from "./broker-protocol.ts";
import type { SandboxProgramSettings } from "./sb-program.ts";
import { ARGUMENT_PARSER_SOURCE, OUTPUT_FORMATTER_SOURCE, PROGRAM_SOURCE } from "./sb-source.ts";

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
    protocol: BROKER_PROTOCOL_VERSION,
    socket: CAPABILITY_SOCKET,
    ...{ socketVariable: SOCKET_VARIABLE, tokenVariable: TOKEN_VARIABLE },
    ...{ largestRequest: MAX_BROKER_REQUEST_BYTES, largestAnswer: MAX_BROKER_ANSWER_BYTES, timeoutSeconds },
  };
  const quoted = `'${node.replaceAll("'", "'\\''")}'`;
  const start = `for node in ${quoted} node; do command -v "$node" >/dev/null && exec "$node" --v8-pool-size=0 "$0" "$@"; done`;
  const parts = [JSON.stringify(settings), LOAD_EXPRESSION, "process", ARGUMENT_PARSER_SOURCE, OUTPUT_FORMATTER_SOURCE];
  return `#!/bin/sh
':' //; ${start}; echo "${NO_NODE_MESSAGE}" >&2; exit 1
"use strict";
(${PROGRAM_SOURCE})(${parts.join(", ")});
`;
}

const NO_NODE_MESSAGE =
  "skillet-sb needs Node, which is not installed here: the operator can choose an image with node in its PATH";

// Works whether a package.json above makes the file CommonJS or an ES module.
const LOAD_EXPRESSION = `typeof require === "function" ? require : process.getBuiltinModule`;

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
