import { SkillError } from "../../errors/problem.ts";
import { type JsonObject, omitUndefined } from "../../util/objects.ts";
import { encodePath, type GithubApi, type GithubQuery } from "./github-api.ts";
import {
  BODY_SCHEMA,
  BRANCH_SCHEMA,
  booleanField,
  CHANGED_FILE_SHAPE,
  CHECK_SHAPE,
  COMMENT_SHAPE,
  COMMIT_SHAPE,
  createEnumSchema,
  createGithubInputSchema,
  createListSchema,
  createUndocumentedError,
  DIRECTION_SCHEMA,
  defineShape,
  FOUND_ISSUE_SHAPE,
  type GithubInput,
  type GithubOperation,
  getAtPath,
  ISSUE_SHAPE,
  LABELS_SCHEMA,
  LISTED_ISSUE_SHAPE,
  LISTED_PULL_SHAPE,
  LOGIN_SCHEMA,
  LOGINS_SCHEMA,
  NUMBERED_INPUT,
  OWNER_SCHEMA,
  PAGED_INPUT,
  PULL_SHAPE,
  parseRepositoryUrl,
  pickInput,
  pickQuery,
  REPO_INPUT,
  REVIEW_COMMENT_SHAPE,
  REVIEW_SHAPE,
  type ResponseShape,
  requireField,
  SHA_SCHEMA,
  TITLE_SCHEMA,
  textField,
  truncateCharacters,
} from "./github-fields.ts";

export const ISSUE_OPERATIONS: Readonly<Record<string, GithubOperation>> = {
  list: {
    description: "Lists the issues of a repository, without pull requests, newest first.",
    input: createGithubInputSchema({
      ...REPO_INPUT,
      "state?": createEnumSchema("open", ["open", "closed", "all"]),
      "labels?": { ...LABELS_SCHEMA, description: "only issues with all of these labels" },
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
    run: (api, input) => {
      const query = pickQuery(input, ["state", "assignee", "since", "sort", "direction"]);
      const labels = input.labels?.join(",");
      return listGithubItems(api, encodePath`/repos/${input.owner}/${input.repo}/issues`, input, LISTED_ISSUE_SHAPE, {
        query: { ...query, labels },
        isKept: (issue) => (getAtPath(issue, "pull_request") ?? null) === null,
      });
    },
  },
  get: {
    description: "Reads one issue with its text. Use comments to read its comments.",
    input: createGithubInputSchema(NUMBERED_INPUT),
    output: ISSUE_SHAPE.schema,
    run: async (api, input) => ISSUE_SHAPE.read((await api.get(formatIssuePath(input))).body),
  },
  comments: {
    description: "Reads the comments of an issue, or of a pull request's conversation, oldest first.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(COMMENT_SHAPE),
    run: (api, input) => listGithubItems(api, `${formatIssuePath(input)}/comments`, input, COMMENT_SHAPE),
  },
  search: {
    description: "Searches the issues or pull requests of one repository, or of all repositories of one owner.",
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
    run: (api, input) => {
      const { owner, repo, q, kind } = input;
      if (/(?:^|[^\w])(?:repo|org|user|owner|enterprise):/i.test(q)) {
        throw new SkillError("input-invalid", {
          message: "q must not contain repo:, org: or user:",
          fix: "set owner and repo instead",
        });
      }
      const where = repo === undefined ? `user:${owner}` : `repo:${owner}/${repo}`;
      return listGithubItems(api, "/search/issues", input, FOUND_ISSUE_SHAPE, {
        query: { q: `${where} is:${kind} ${q}` },
        items: (body) => getAtPath(body, "items"),
        isKept: (issue) => isInSearchScope(getAtPath(issue, "repository_url"), input),
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
    run: async (api, input) => {
      const sent = pickInput(input, ["title", "body", "labels", "assignees"]);
      return ISSUE_SHAPE.read(
        (await api.send("POST", encodePath`/repos/${input.owner}/${input.repo}/issues`, sent)).body,
      );
    },
  },
  comment: {
    description: "Comments on an issue.",
    mutating: true,
    isReversible: true,
    input: createGithubInputSchema({ ...NUMBERED_INPUT, body: BODY_SCHEMA }),
    output: COMMENT_SHAPE.schema,
    run: async (api, input) =>
      COMMENT_SHAPE.read(
        (await api.send("POST", `${formatIssuePath(input)}/comments`, pickInput(input, ["body"]))).body,
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
        "labels?": { ...LABELS_SCHEMA, description: "replaces the current list" },
        "assignees?": { ...LOGINS_SCHEMA, description: "replaces the current list" },
      }),
      minProperties: 4,
    },
    output: ISSUE_SHAPE.schema,
    run: async (api, input) => {
      const sent = pickInput(input, ["title", "body", "state", "state_reason", "labels", "assignees"]);
      return ISSUE_SHAPE.read((await api.send("PATCH", formatIssuePath(input), sent)).body);
    },
  },
};

function formatIssuePath({ owner, repo, number }: GithubInput): string {
  return encodePath`/repos/${owner}/${repo}/issues/${number}`;
}

/** Checks each result again: an OR in the query may match outside of the requested owner or repository. */
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
    description: "Lists the pull requests of a repository, newest first.",
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
    run: (api, input) =>
      listGithubItems(api, encodePath`/repos/${input.owner}/${input.repo}/pulls`, input, LISTED_PULL_SHAPE, {
        query: pickQuery(input, ["state", "head", "base", "sort", "direction"]),
      }),
  },
  get: {
    description: "Reads one pull request: its text, branches, size, and mergeability.",
    input: createGithubInputSchema(NUMBERED_INPUT),
    output: PULL_SHAPE.schema,
    run: fetchPull,
  },
  files: {
    description: "Lists the files that a pull request changes, with their patches; long patches are cut.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(CHANGED_FILE_SHAPE),
    run: async (api, input) => {
      const found = await listGithubItems(api, `${formatPullPath(input)}/files`, input, CHANGED_FILE_SHAPE);
      return { ...found, items: limitPatches(found.items) };
    },
  },
  commits: createListOperation("commits", COMMIT_SHAPE, "Lists the commits of a pull request, oldest first."),
  reviews: createListOperation("reviews", REVIEW_SHAPE, "Reads the reviews of a pull request, oldest first."),
  review_comments: createListOperation(
    "comments",
    REVIEW_COMMENT_SHAPE,
    "Reads the comments on single lines of a pull request. Use github.issues comments to read its conversation.",
  ),
  checks: {
    description: "Lists the checks of the last commit of a pull request. Some fine-grained tokens cannot read them.",
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(CHECK_SHAPE, { sha: { type: "string" } }),
    run: async (api, input) => {
      const sha = getAtPath(await fetchPull(api, input), "head.sha");
      if (typeof sha !== "string") throw createUndocumentedError();
      const checks = encodePath`/repos/${input.owner}/${input.repo}/commits/${sha}/check-runs`;
      const found = await listGithubItems(api, checks, input, CHECK_SHAPE, {
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
    run: async (api, input) => {
      const comments = encodePath`/repos/${input.owner}/${input.repo}/issues/${input.number}/comments`;
      return COMMENT_SHAPE.read((await api.send("POST", comments, pickInput(input, ["body"]))).body);
    },
  },
  review: {
    description: "Reviews a pull request: comments, approves, or requests changes.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...NUMBERED_INPUT,
      event: { enum: ["COMMENT", "APPROVE", "REQUEST_CHANGES"] },
      "body?": { ...BODY_SCHEMA, description: "Markdown; optional only for APPROVE" },
      "sha?": { ...SHA_SCHEMA, description: "the commit that was reviewed: head.sha" },
    }),
    output: REVIEW_SHAPE.schema,
    run: async (api, input) => {
      if (input.event !== "APPROVE" && input.body === undefined) {
        throw new SkillError("input-invalid", { message: `"body" is missing: ${input.event} needs a text` });
      }
      const commit = input["sha"] === undefined ? {} : { commit_id: input["sha"] };
      const sent = { ...pickInput(input, ["event", "body"]), ...commit };
      return REVIEW_SHAPE.read((await api.send("POST", `${formatPullPath(input)}/reviews`, sent)).body);
    },
  },
  create: {
    description: "Opens a pull request between two existing branches.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...REPO_INPUT,
      title: TITLE_SCHEMA,
      head: { ...BRANCH_SCHEMA, description: "the branch with the changes; owner:branch if it is in a fork" },
      base: { ...BRANCH_SCHEMA, description: "the branch to merge into" },
      "body?": BODY_SCHEMA,
      "draft?": { type: "boolean", default: false },
    }),
    output: PULL_SHAPE.schema,
    run: async (api, input) => {
      const sent = pickInput(input, ["title", "head", "base", "body", "draft"]);
      return PULL_SHAPE.read(
        (await api.send("POST", encodePath`/repos/${input.owner}/${input.repo}/pulls`, sent)).body,
      );
    },
  },
  merge: {
    description: "Merges a pull request, if its last commit is still the given one.",
    mutating: true,
    isReversible: false,
    input: createGithubInputSchema({
      ...NUMBERED_INPUT,
      sha: { ...SHA_SCHEMA, description: "head.sha of the pull request when you read it" },
      "merge_method?": createEnumSchema("merge", ["merge", "squash", "rebase"]),
      "commit_title?": TITLE_SCHEMA,
      "commit_message?": BODY_SCHEMA,
    }),
    output: MERGE_SHAPE.schema,
    run: async (api, input) => {
      const sent = pickInput(input, ["sha", "merge_method", "commit_title", "commit_message"]);
      return MERGE_SHAPE.read((await api.send("PUT", `${formatPullPath(input)}/merge`, sent)).body);
    },
  },
};

function createListOperation(below: string, item: ResponseShape, description: string): GithubOperation {
  return {
    description,
    input: createGithubInputSchema({ ...NUMBERED_INPUT, ...PAGED_INPUT }),
    output: createListSchema(item),
    run: (api, input) => listGithubItems(api, `${formatPullPath(input)}/${below}`, input, item),
  };
}

async function fetchPull(api: GithubApi, input: GithubInput): Promise<JsonObject> {
  return PULL_SHAPE.read((await api.get(formatPullPath(input))).body);
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

interface GithubPageRequest {
  limit: number;
  /** `next_page` of the previous list. */
  page?: string | undefined;
}

interface GithubListOptions {
  query?: GithubQuery;
  /** Selects the items in the answer. Defaults to the whole answer. */
  items?(body: unknown): unknown;
  isKept?(item: unknown): boolean;
}

/** The maximum number of pages searched for items to keep. */
const MAX_PAGES = 10;

/**
 * Lists items in whole pages, as many as fit. `next_page` continues exactly after the last item. GitHub's `Link` header is only parsed for
 * the page, never followed, so it cannot lead to another host.
 */
export async function listGithubItems(
  api: GithubApi,
  path: string,
  request: GithubPageRequest,
  { read }: ResponseShape,
  options: GithubListOptions = {},
) {
  const { query = {}, items = (body) => body, isKept = () => true } = options;
  const found: JsonObject[] = [];
  let page = request.page;
  for (let count = 0; count < MAX_PAGES; count++) {
    const { body, headers } = await api.get(path, { ...query, per_page: request.limit, ...createPageQuery(page) });
    const all = items(body);
    if (!Array.isArray(all)) throw createUndocumentedError();
    const kept = all.filter(isKept);
    if (count > 0 && found.length + kept.length > request.limit) break;
    found.push(...kept.map(read));
    page = parseNextPage(headers.get("link"));
    if (page === undefined || found.length >= request.limit) break;
  }
  return { count: found.length, has_more: page !== undefined, ...omitUndefined({ next_page: page }), items: found };
}

/** Large lists are paged by cursor, others by number. */
function createPageQuery(page: string | undefined): GithubQuery {
  if (page === undefined) return {};
  return /^\d+$/.test(page) ? { page } : { after: page };
}

function parseNextPage(link: string | null): string | undefined {
  const [, address = ""] = /<([^<>]*)>\s*;[^,<]*\brel="?next"?/.exec(link ?? "") ?? [];
  const query = URL.parse(address)?.searchParams;
  const page = query?.get("after") || query?.get("page") || "";
  return /^[\w=+/:.-]{1,500}$/.test(page) ? page : undefined;
}
