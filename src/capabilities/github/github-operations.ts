import { isUtf8 } from "node:buffer";
import { SkillError } from "../../errors/problem.ts";
import type { JsonObject } from "../../util/objects.ts";
import { sanitizeLine } from "../../util/untrusted-text.ts";
import { encodeNestedPath, encodePath, type GithubApi } from "./github-api.ts";
import {
  booleanField,
  CHANGED_FILE_SHAPE,
  CHECK_SHAPE,
  COMMENT_SHAPE,
  COMMIT_SHAPE,
  createUndocumentedError,
  defineShape,
  FOLDER_ENTRY_SHAPE,
  FOUND_ISSUE_SHAPE,
  GITHUB_REPOSITORY_SHAPE,
  getAtPath,
  ISSUE_SHAPE,
  LISTED_ISSUE_SHAPE,
  LISTED_PULL_SHAPE,
  PULL_SHAPE,
  parseRepositoryUrl,
  REVIEW_COMMENT_SHAPE,
  REVIEW_SHAPE,
  type ResponseShape,
  requireField,
  textField,
  truncateCharacters,
} from "./github-fields.ts";
import {
  BODY_SCHEMA,
  BRANCH_SCHEMA,
  createEnumSchema,
  createGithubInputSchema,
  createListSchema,
  DIRECTION_SCHEMA,
  type GithubInput,
  type GithubOperation,
  LABELS_SCHEMA,
  LOGIN_SCHEMA,
  LOGINS_SCHEMA,
  listGithubItems,
  NUMBERED_INPUT,
  OWNER_SCHEMA,
  PAGED_INPUT,
  pickInput,
  pickQuery,
  REPO_INPUT,
  SHA_SCHEMA,
  TITLE_SCHEMA,
} from "./github-inputs.ts";

export const ISSUE_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  list: {
    description: "Lists the issues of a repository, without its pull requests; newest first.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "state?": createEnumSchema("open", ["open", "closed", "all"]),
      "labels?": { ...LABELS_SCHEMA, description: "only those that have all of these labels" },
      "assignee?": {
        type: "string",
        pattern: `^(?:none|\\*|${LOGIN_SCHEMA.pattern.slice(1, -1)})$`,
        description: "a user, none or *",
      },
      "since?": { type: "string", format: "date-time", description: "changed at this time or later" },
      "sort?": createEnumSchema("created", ["created", "updated", "comments"]),
      "direction?": DIRECTION_SCHEMA,
      ...PAGED_INPUT,
    }),
    output: createListSchema(LISTED_ISSUE_SHAPE),
    run: (api, given) => {
      const query = pickQuery(given, ["state", "assignee", "since", "sort", "direction"]);
      const labels = given.labels?.join(",");
      return listGithubItems(api, encodePath`/repos/${given.owner}/${given.repo}/issues`, given, LISTED_ISSUE_SHAPE, {
        query: { ...query, labels },
        isKept: (issue) => (getAtPath(issue, "pull_request") ?? null) === null,
      });
    },
  },
  get: {
    description: "Reads one issue with its text. Comments are read with comments.",
    input: createGithubInputSchema(NUMBERED_INPUT),
    output: ISSUE_SHAPE.schema,
    run: async (api, given) => ISSUE_SHAPE.read((await api.get(formatIssuePath(given))).body),
  },
  comments: {
    description: "Reads the comments of an issue or of the conversation of a pull request, oldest first.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(COMMENT_SHAPE),
    run: (api, given) => listGithubItems(api, `${formatIssuePath(given)}/comments`, given, COMMENT_SHAPE),
  },
  search: {
    description: "Searches issues or pull requests of one repository, or of all of one owner.",
    input: createGithubInputSchema({
      owner: OWNER_SCHEMA,
      "repo?": REPO_INPUT.repo,
      q: {
        type: "string",
        minLength: 1,
        maxLength: 200,
        description: "words and qualifiers such as label:bug, without repo:, org: and user:",
      },
      "kind?": createEnumSchema("issue", ["issue", "pull-request"]),
      ...PAGED_INPUT,
    }),
    output: createListSchema(FOUND_ISSUE_SHAPE),
    run: (api, given) => {
      const { owner, repo, q, kind } = given;
      if (/(?:^|[^\w])(?:repo|org|user|owner|enterprise):/i.test(q)) {
        throw new SkillError("input-invalid", {
          message: "q says where to search",
          fix: "say that with owner and repo, and leave repo:, org: and user: out of q",
        });
      }
      const where = repo === undefined ? `user:${owner}` : `repo:${owner}/${repo}`;
      return listGithubItems(api, "/search/issues", given, FOUND_ISSUE_SHAPE, {
        query: { q: `${where} is:${kind} ${q}` },
        items: (body) => getAtPath(body, "items"),
        isKept: (issue) => isInSearchScope(getAtPath(issue, "repository_url"), given),
      });
    },
  },
  create: {
    description: "Opens an issue.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...REPO_INPUT,
      title: TITLE_SCHEMA,
      "body?": BODY_SCHEMA,
      "labels?": LABELS_SCHEMA,
      "assignees?": LOGINS_SCHEMA,
    }),
    output: ISSUE_SHAPE.schema,
    run: async (api, given) => {
      const sent = pickInput(given, ["title", "body", "labels", "assignees"]);
      return ISSUE_SHAPE.read(
        (await api.send("POST", encodePath`/repos/${given.owner}/${given.repo}/issues`, sent)).body,
      );
    },
  },
  comment: {
    description: "Comments on an issue.",
    mutating: true,
    isReversible: true,
    input: createGithubInputSchema({ ...NUMBERED_INPUT, body: BODY_SCHEMA }),
    output: COMMENT_SHAPE.schema,
    run: async (api, given) =>
      COMMENT_SHAPE.read(
        (await api.send("POST", `${formatIssuePath(given)}/comments`, pickInput(given, ["body"]))).body,
      ),
  },
  update: {
    description:
      "Changes an issue: its title or text, closes or reopens it, or replaces all of its labels or assignees.",
    mutating: true,
    isReversible: true,
    input: {
      ...createGithubInputSchema({
        ...NUMBERED_INPUT,
        "title?": TITLE_SCHEMA,
        "body?": BODY_SCHEMA,
        "state?": { enum: ["open", "closed"] },
        "state_reason?": { enum: ["completed", "not_planned", "duplicate", "reopened"] },
        "labels?": { ...LABELS_SCHEMA, description: "all that it has from then on" },
        "assignees?": { ...LOGINS_SCHEMA, description: "all that it has from then on" },
      }),
      minProperties: 4,
    },
    output: ISSUE_SHAPE.schema,
    run: async (api, given) => {
      const sent = pickInput(given, ["title", "body", "state", "state_reason", "labels", "assignees"]);
      return ISSUE_SHAPE.read((await api.send("PATCH", formatIssuePath(given), sent)).body);
    },
  },
};

function formatIssuePath({ owner, repo, number }: GithubInput): string {
  return encodePath`/repos/${owner}/${repo}/issues/${number}`;
}

/** Words between which an OR stands may lead out of where it was to search: what was found is looked at once more. */
function isInSearchScope(url: unknown, { owner, repo }: Pick<GithubInput, "owner"> & { repo?: string }): boolean {
  const [foundOwner, foundRepo] = (typeof url === "string" ? (parseRepositoryUrl(url) ?? "") : "")
    .toLowerCase()
    .split("/");
  return foundOwner === owner.toLowerCase() && (repo === undefined || foundRepo === repo.toLowerCase());
}

const MERGE_SHAPE = defineShape({
  is_merged: requireField(booleanField("merged")),
  sha: textField("sha"),
  message: textField("message"),
});

export const PULL_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  list: {
    description: "Lists the pull requests of a repository; newest first.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "state?": createEnumSchema("open", ["open", "closed", "all"]),
      "head?": { ...BRANCH_SCHEMA, description: "from this branch: owner:branch" },
      "base?": { ...BRANCH_SCHEMA, description: "into this branch" },
      "sort?": createEnumSchema("created", ["created", "updated", "popularity", "long-running"]),
      "direction?": DIRECTION_SCHEMA,
      ...PAGED_INPUT,
    }),
    output: createListSchema(LISTED_PULL_SHAPE),
    run: (api, given) =>
      listGithubItems(api, encodePath`/repos/${given.owner}/${given.repo}/pulls`, given, LISTED_PULL_SHAPE, {
        query: pickQuery(given, ["state", "head", "base", "sort", "direction"]),
      }),
  },
  get: {
    description: "Reads one pull request: its text, branches, size, and whether it can be merged.",
    input: createGithubInputSchema(NUMBERED_INPUT),
    output: PULL_SHAPE.schema,
    run: fetchPull,
  },
  files: {
    description: "Reads which files a pull request changes, with their patches, as far as those are not too long.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(CHANGED_FILE_SHAPE),
    run: async (api, given) => {
      const found = await listGithubItems(api, `${formatPullPath(given)}/files`, given, CHANGED_FILE_SHAPE);
      return { ...found, items: limitPatches(found.items) };
    },
  },
  commits: createListOperation("commits", COMMIT_SHAPE, "Lists the commits of a pull request, oldest first."),
  reviews: createListOperation("reviews", REVIEW_SHAPE, "Reads the reviews of a pull request, oldest first."),
  review_comments: createListOperation(
    "comments",
    REVIEW_COMMENT_SHAPE,
    "Reads what was said to single lines of a pull request. The conversation is read with github.issues comments.",
  ),
  checks: {
    description: "Lists the checks of the last commit of a pull request. Not every fine-grained token may read them.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(CHECK_SHAPE, { sha: { type: "string" } }),
    run: async (api, given) => {
      const sha = getAtPath(await fetchPull(api, given), "head.sha");
      if (typeof sha !== "string") throw createUndocumentedError();
      const checks = encodePath`/repos/${given.owner}/${given.repo}/commits/${sha}/check-runs`;
      const found = await listGithubItems(api, checks, given, CHECK_SHAPE, {
        items: (body) => getAtPath(body, "check_runs"),
      });
      return { ...found, sha };
    },
  },
  comment: {
    description: "Comments on a pull request, in its conversation.",
    mutating: true,
    isReversible: true,
    input: createGithubInputSchema({ ...NUMBERED_INPUT, body: BODY_SCHEMA }),
    output: COMMENT_SHAPE.schema,
    run: async (api, given) => {
      const comments = encodePath`/repos/${given.owner}/${given.repo}/issues/${given.number}/comments`;
      return COMMENT_SHAPE.read((await api.send("POST", comments, pickInput(given, ["body"]))).body);
    },
  },
  review: {
    description: "Reviews a pull request: comments, approves, or asks for changes.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...NUMBERED_INPUT,
      event: { enum: ["COMMENT", "APPROVE", "REQUEST_CHANGES"] },
      "body?": { ...BODY_SCHEMA, description: "Markdown; only APPROVE can do without" },
      "sha?": { ...SHA_SCHEMA, description: "the commit that was looked at: head.sha" },
    }),
    output: REVIEW_SHAPE.schema,
    run: async (api, given) => {
      if (given.event !== "APPROVE" && given.body === undefined) {
        throw new SkillError("input-invalid", { message: `"body" is missing: ${given.event} has to say something` });
      }
      const commit = given["sha"] === undefined ? {} : { commit_id: given["sha"] };
      const sent = { ...pickInput(given, ["event", "body"]), ...commit };
      return REVIEW_SHAPE.read((await api.send("POST", `${formatPullPath(given)}/reviews`, sent)).body);
    },
  },
  create: {
    description: "Opens a pull request between two branches that are there.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...REPO_INPUT,
      title: TITLE_SCHEMA,
      head: { ...BRANCH_SCHEMA, description: "the branch with the changes; owner:branch when it is in a fork" },
      base: { ...BRANCH_SCHEMA, description: "the branch that they are for" },
      "body?": BODY_SCHEMA,
      "draft?": { type: "boolean", default: false },
    }),
    output: PULL_SHAPE.schema,
    run: async (api, given) => {
      const sent = pickInput(given, ["title", "head", "base", "body", "draft"]);
      return PULL_SHAPE.read(
        (await api.send("POST", encodePath`/repos/${given.owner}/${given.repo}/pulls`, sent)).body,
      );
    },
  },
  merge: {
    description: "Merges a pull request, if its last commit is still the one that is named.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...NUMBERED_INPUT,
      sha: { ...SHA_SCHEMA, description: "head.sha of the pull request as it was read" },
      "merge_method?": createEnumSchema("merge", ["merge", "squash", "rebase"]),
      "commit_title?": TITLE_SCHEMA,
      "commit_message?": BODY_SCHEMA,
    }),
    output: MERGE_SHAPE.schema,
    run: async (api, given) => {
      const sent = pickInput(given, ["sha", "merge_method", "commit_title", "commit_message"]);
      return MERGE_SHAPE.read((await api.send("PUT", `${formatPullPath(given)}/merge`, sent)).body);
    },
  },
};

function createListOperation(below: string, item: ResponseShape, description: string): GithubOperation {
  return {
    description,
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(item),
    run: (api, given) => listGithubItems(api, `${formatPullPath(given)}/${below}`, given, item),
  };
}

async function fetchPull(api: GithubApi, given: GithubInput): Promise<JsonObject> {
  return PULL_SHAPE.read((await api.get(formatPullPath(given))).body);
}

function formatPullPath({ owner, repo, number }: GithubInput): string {
  return encodePath`/repos/${owner}/${repo}/pulls/${number}`;
}

/** In characters, for all patches of one answer. */
const MAX_PATCHES_LENGTH = 200_000;

function limitPatches(files: readonly JsonObject[]): JsonObject[] {
  let room = MAX_PATCHES_LENGTH;
  return files.map((file) => {
    const { patch } = file;
    if (typeof patch !== "string") return file;
    const kept = truncateCharacters(patch, room);
    room -= kept.length;
    return kept.length === patch.length ? file : { ...file, patch: kept, is_cut: true };
  });
}

const MAX_GITHUB_FILE_BYTES = 256 * 1024;
const MAX_FOLDER_ENTRIES = 1000;

export const REPO_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  get: {
    description: "Reads what a repository is: its description, default branch, license and numbers.",
    input: createGithubInputSchema(REPO_INPUT),
    output: GITHUB_REPOSITORY_SHAPE.schema,
    run: async (api, { owner, repo }) =>
      GITHUB_REPOSITORY_SHAPE.read((await api.get(encodePath`/repos/${owner}/${repo}`)).body),
  },
  list: {
    description: "Lists the repositories that whoever is signed in can get at; those changed last come first.",
    input: createGithubInputSchema({
      "visibility?": createEnumSchema("all", ["all", "public", "private"]),
      "sort?": createEnumSchema("pushed", ["created", "updated", "pushed", "full_name"]),
      "direction?": DIRECTION_SCHEMA,
      ...PAGED_INPUT,
    }),
    output: createListSchema(GITHUB_REPOSITORY_SHAPE),
    run: (api, given) =>
      listGithubItems(api, "/user/repos", given, GITHUB_REPOSITORY_SHAPE, {
        query: pickQuery(given, ["visibility", "sort", "direction"]),
      }),
  },
  read_file: {
    description: "Reads a text file of a repository (256 KiB at most), or what is in a folder.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "path?": {
        type: "string",
        maxLength: 1024,
        default: "",
        description: "from the top of the repository, such as docs/guide.md; left out: the top itself",
      },
      "ref?": { ...BRANCH_SCHEMA, description: "a branch, tag or commit; the default branch when left out" },
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
    run: async (api, given) => {
      const within = given.path.replace(/^\/+|\/+$/g, "");
      const below = within === "" ? "" : `/${encodeNestedPath(within)}`;
      const address = `${encodePath`/repos/${given.owner}/${given.repo}/contents`}${below}`;
      const { body } = await api.get(address, { ref: given.ref });
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
  const place = `"${sanitizeLine(within, 200)}"`;
  if (typeof type !== "string") throw createUndocumentedError();
  if (type !== "file")
    throw createUnreadableFileError(`${place} is a ${sanitizeLine(type, 20)}, not a file`, "read what it points to");
  if (encoding === "none")
    throw createUnreadableFileError(`${place} is too large to be read this way`, "clone the repository");
  if (encoding !== "base64" || typeof content !== "string") throw createUndocumentedError();
  const bytes = Buffer.from(content, "base64");
  if (!isUtf8(bytes) || bytes.includes(0))
    throw createUnreadableFileError(`${place} is no text`, "clone the repository");
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

/** A stream keeps the half of a character for later: there is no later. */
function decodeWholeCharacters(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

function createUnreadableFileError(message: string, fix: string): SkillError {
  return new SkillError("input-invalid", { message, fix });
}
