import { isUtf8 } from "node:buffer";
import { SkillError } from "../../shared/error.ts";
import { inLine } from "../../shared/prompt.ts";
import type { Data } from "../../skill/data.ts";
import { deepPath, path } from "./api.ts";
import { list, listSchema } from "./list.ts";
import { asked, BRANCH, choice, DIRECTION, IN_REPO, input, type Operation, PAGED } from "./operation.ts";
import { at, notAsDocumented } from "./shape.ts";
import { ENTRY, REPOSITORY } from "./shapes.ts";

export const LARGEST_FILE = 256 * 1024;
const MOST_ENTRIES = 1000;

export const REPOS: Readonly<Record<string, Operation>> = {
  get: {
    description: "Reads what a repository is: its description, default branch, license and numbers.",
    input: input(IN_REPO),
    output: REPOSITORY.schema,
    run: async (api, { owner, repo }) => REPOSITORY.read((await api.get(path`/repos/${owner}/${repo}`)).body),
  },
  list: {
    description: "Lists the repositories that whoever is signed in can get at; those changed last come first.",
    input: input({
      "visibility?": choice("all", ["all", "public", "private"]),
      "sort?": choice("pushed", ["created", "updated", "pushed", "full_name"]),
      "direction?": DIRECTION,
      ...PAGED,
    }),
    output: listSchema(REPOSITORY),
    run: (api, given) =>
      list(api, "/user/repos", given, REPOSITORY, { query: asked(given, ["visibility", "sort", "direction"]) }),
  },
  read_file: {
    description: "Reads a text file of a repository (256 KiB at most), or what is in a folder.",
    input: input({
      ...IN_REPO,
      "path?": {
        type: "string",
        maxLength: 1024,
        default: "",
        description: "from the top of the repository, such as docs/guide.md; left out: the top itself",
      },
      "ref?": { ...BRANCH, description: "a branch, tag or commit; the default branch when left out" },
    }),
    output: {
      type: "object",
      properties: {
        path: { type: "string" },
        type: { enum: ["file", "folder"] },
        size: { type: "integer" },
        sha: { type: "string" },
        text: { type: "string" },
        entries: { type: "array", items: ENTRY.schema },
        is_cut: { const: true },
        url: { type: "string" },
      },
      required: ["path", "type"],
      additionalProperties: false,
    },
    run: async (api, given) => {
      const within = given.path.replace(/^\/+|\/+$/g, "");
      const below = within === "" ? "" : `/${deepPath(within)}`;
      const address = `${path`/repos/${given.owner}/${given.repo}/contents`}${below}`;
      const { body } = await api.get(address, { ref: given.ref });
      return Array.isArray(body) ? folderOf(within, body) : fileOf(within, body);
    },
  },
};

function folderOf(within: string, entries: readonly unknown[]): Data {
  const cut = entries.length > MOST_ENTRIES ? { is_cut: true } : {};
  return { path: within, type: "folder", entries: entries.slice(0, MOST_ENTRIES).map(ENTRY.read), ...cut };
}

function fileOf(within: string, file: unknown): Data {
  const [type, encoding, content] = ["type", "encoding", "content"].map((name) => at(file, name));
  const place = `"${inLine(within, 200)}"`;
  if (typeof type !== "string") throw notAsDocumented();
  if (type !== "file") throw unreadable(`${place} is a ${inLine(type, 20)}, not a file`, "read what it points to");
  if (encoding === "none") throw unreadable(`${place} is too large to be read this way`, "clone the repository");
  if (encoding !== "base64" || typeof content !== "string") throw notAsDocumented();
  const bytes = Buffer.from(content, "base64");
  if (!isUtf8(bytes) || bytes.includes(0)) throw unreadable(`${place} is no text`, "clone the repository");
  const cut = bytes.length > LARGEST_FILE ? { is_cut: true } : {};
  const [sha, url] = [at(file, "sha"), at(file, "html_url")];
  return {
    path: within,
    type: "file",
    size: bytes.length,
    ...(typeof sha === "string" ? { sha } : {}),
    text: wholeCharacters(bytes.subarray(0, LARGEST_FILE)),
    ...cut,
    ...(typeof url === "string" ? { url } : {}),
  };
}

/** A stream keeps the half of a character for later: there is no later. */
function wholeCharacters(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

function unreadable(message: string, fix: string): SkillError {
  return new SkillError("input-invalid", { message, fix });
}
