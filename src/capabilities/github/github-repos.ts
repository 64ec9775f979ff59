import { isUtf8 } from "node:buffer";
import { SkillError } from "../../errors/problem.ts";
import type { JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { encodeNestedPath, encodePath } from "./github-api.ts";
import { createUndocumentedError, FOLDER_ENTRY_SHAPE, GITHUB_REPOSITORY_SHAPE, getAtPath } from "./github-fields.ts";
import {
  BRANCH_SCHEMA,
  createEnumSchema,
  createGithubInputSchema,
  createListSchema,
  DIRECTION_SCHEMA,
  type GithubOperation,
  listGithubItems,
  PAGED_INPUT,
  pickQuery,
  REPO_INPUT,
} from "./github-inputs.ts";

const MAX_GITHUB_FILE_BYTES = 256 * 1024;
const MAX_FOLDER_ENTRIES = 1000;

export const REPO_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  get: {
    description: "Reads a repository: its description, default branch, license and statistics.",
    input: createGithubInputSchema(REPO_INPUT),
    output: GITHUB_REPOSITORY_SHAPE.schema,
    run: async (api, { owner, repo }) =>
      GITHUB_REPOSITORY_SHAPE.read((await api.get(encodePath`/repos/${owner}/${repo}`)).body),
  },
  list: {
    description: "Lists the repositories that the signed-in user can access, last pushed first.",
    input: createGithubInputSchema({
      "visibility?": createEnumSchema("all", ["all", "public", "private"]),
      "sort?": createEnumSchema("pushed", ["created", "updated", "pushed", "full_name"]),
      "direction?": DIRECTION_SCHEMA,
      ...PAGED_INPUT,
    }),
    output: createListSchema(GITHUB_REPOSITORY_SHAPE),
    run: (api, input) =>
      listGithubItems(api, "/user/repos", input, GITHUB_REPOSITORY_SHAPE, {
        query: pickQuery(input, ["visibility", "sort", "direction"]),
      }),
  },
  read_file: {
    description: "Reads a text file of a repository (256 KiB at most), or lists a folder.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "path?": {
        type: "string",
        maxLength: 1024,
        default: "",
        description: "relative to the repository root, such as docs/guide.md; defaults to the root",
      },
      "ref?": { ...BRANCH_SCHEMA, description: "a branch, tag or commit; defaults to the default branch" },
    }),
    output: {
      type: "object",
      properties: {
        path: { type: "string" },
        type: { enum: ["file", "folder"] },
        size: { type: "integer" },
        sha: { type: "string" },
        text: { type: "string" },
        entries: { type: "array", items: FOLDER_ENTRY_SHAPE.schema },
        is_cut: { const: true },
        url: { type: "string" },
      },
      required: ["path", "type"],
      additionalProperties: false,
    },
    run: async (api, input) => {
      const within = input.path.replace(/^\/+|\/+$/g, "");
      const below = within === "" ? "" : `/${encodeNestedPath(within)}`;
      const address = `${encodePath`/repos/${input.owner}/${input.repo}/contents`}${below}`;
      const { body } = await api.get(address, { ref: input.ref });
      return Array.isArray(body) ? formatFolder(within, body) : formatFile(within, body);
    },
  },
};

function formatFolder(within: string, entries: readonly unknown[]): JsonObject {
  const cut = entries.length > MAX_FOLDER_ENTRIES ? { is_cut: true } : {};
  return {
    path: within,
    type: "folder",
    entries: entries.slice(0, MAX_FOLDER_ENTRIES).map(FOLDER_ENTRY_SHAPE.read),
    ...cut,
  };
}

function formatFile(within: string, file: unknown): JsonObject {
  const [type, encoding, content] = ["type", "encoding", "content"].map((name) => getAtPath(file, name));
  const name = `"${sanitizeLine(within, 200)}"`;
  if (typeof type !== "string") throw createUndocumentedError();
  if (type !== "file")
    throw createUnreadableFileError(`${name} is a ${sanitizeLine(type, 20)}, not a file`, "read its target");
  if (encoding === "none")
    throw createUnreadableFileError(`${name} is too large for the contents API`, "clone the repository");
  if (encoding !== "base64" || typeof content !== "string") throw createUndocumentedError();
  const bytes = Buffer.from(content, "base64");
  if (!isUtf8(bytes) || bytes.includes(0))
    throw createUnreadableFileError(`${name} is not a text file`, "clone the repository");
  const cut = bytes.length > MAX_GITHUB_FILE_BYTES ? { is_cut: true } : {};
  const [sha, url] = [getAtPath(file, "sha"), getAtPath(file, "html_url")];
  return {
    path: within,
    type: "file",
    size: bytes.length,
    ...(typeof sha === "string" ? { sha } : {}),
    text: decodeWholeCharacters(bytes.subarray(0, MAX_GITHUB_FILE_BYTES)),
    ...cut,
    ...(typeof url === "string" ? { url } : {}),
  };
}

/** Drops a truncated character at the end: a streaming decoder holds it back. */
function decodeWholeCharacters(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

function createUnreadableFileError(message: string, fix: string): SkillError {
  return new SkillError("input-invalid", { message, fix });
}
