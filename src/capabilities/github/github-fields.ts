import { SkillError } from "../../errors/problem.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";
import type { GithubApi } from "./github-api.ts";

/** In characters: for a single item, for each comment, and for each item of a list. */
const MAX_BODY_LENGTH = 20_000;
const MAX_COMMENT_LENGTH = 5000;
const MAX_EXCERPT_LENGTH = 500;

const TIME_FIELDS = {
  created_at: textField("created_at"),
  updated_at: textField("updated_at"),
  closed_at: textField("closed_at"),
};

const issueFields = {
  number: requireField(numberField("number")),
  title: requireField(textField("title")),
  state: requireField(textField("state")),
  state_reason: textField("state_reason"),
  author: textField("user.login"),
  author_is: textField("author_association"),
  labels: nameListField("labels", "name"),
  assignees: nameListField("assignees", "login"),
  milestone: textField("milestone.title"),
  is_locked: booleanField("locked"),
  is_pull_request: presenceField("pull_request"),
  comments: numberField("comments"),
  ...TIME_FIELDS,
  url: textField("html_url"),
};
export const ISSUE_SHAPE = defineShape({ ...issueFields, ...bodyFields("body", MAX_BODY_LENGTH) });
export const LISTED_ISSUE_SHAPE = defineShape({ ...issueFields, ...bodyFields("body", MAX_EXCERPT_LENGTH) });
export const FOUND_ISSUE_SHAPE = defineShape({
  ...issueFields,
  repository: {
    schema: { type: "string" },
    read: ({ repository_url: url }) => (typeof url === "string" ? parseRepositoryUrl(url) : undefined),
  },
  ...bodyFields("body", MAX_EXCERPT_LENGTH),
});

/** Returns `ada/engine` from an API URL. */
export function parseRepositoryUrl(url: string): string | undefined {
  return /\/repos\/([^/]+\/[^/]+)$/.exec(url)?.[1];
}

export const COMMENT_SHAPE = defineShape({
  id: requireField(numberField("id")),
  author: textField("user.login"),
  author_is: textField("author_association"),
  created_at: textField("created_at"),
  updated_at: textField("updated_at"),
  url: textField("html_url"),
  ...bodyFields("body", MAX_COMMENT_LENGTH),
});

export const REVIEW_COMMENT_SHAPE = defineShape({
  id: requireField(numberField("id")),
  author: textField("user.login"),
  path: textField("path"),
  line: numberField("line"),
  commit: textField("commit_id"),
  reply_to: numberField("in_reply_to_id"),
  created_at: textField("created_at"),
  url: textField("html_url"),
  ...bodyFields("body", MAX_COMMENT_LENGTH),
});

const BRANCH_SHAPE = defineShape({
  ref: requireField(textField("ref")),
  sha: requireField(textField("sha")),
  repository: textField("repo.full_name"),
});

const pullFields = {
  number: requireField(numberField("number")),
  title: requireField(textField("title")),
  state: requireField(textField("state")),
  is_draft: booleanField("draft"),
  is_merged: presenceField("merged_at"),
  author: textField("user.login"),
  author_is: textField("author_association"),
  labels: nameListField("labels", "name"),
  assignees: nameListField("assignees", "login"),
  reviewers: nameListField("requested_reviewers", "login"),
  head: objectField("head", BRANCH_SHAPE),
  base: objectField("base", BRANCH_SHAPE),
  ...TIME_FIELDS,
  merged_at: textField("merged_at"),
  url: textField("html_url"),
};
export const LISTED_PULL_SHAPE = defineShape({ ...pullFields, ...bodyFields("body", MAX_EXCERPT_LENGTH) });
export const PULL_SHAPE = defineShape({
  ...pullFields,
  is_mergeable: booleanField("mergeable"),
  mergeable_state: textField("mergeable_state"),
  comments: numberField("comments"),
  review_comments: numberField("review_comments"),
  commits: numberField("commits"),
  additions: numberField("additions"),
  deletions: numberField("deletions"),
  changed_files: numberField("changed_files"),
  ...bodyFields("body", MAX_BODY_LENGTH),
});

export const COMMIT_SHAPE = defineShape({
  sha: requireField(textField("sha")),
  author: textField("author.login"),
  author_name: textField("commit.author.name"),
  date: textField("commit.author.date"),
  url: textField("html_url"),
  ...renameBodyFields("message", bodyFields("commit.message", MAX_COMMENT_LENGTH)),
});

export const REVIEW_SHAPE = defineShape({
  id: requireField(numberField("id")),
  author: textField("user.login"),
  author_is: textField("author_association"),
  state: requireField(textField("state")),
  commit: textField("commit_id"),
  submitted_at: textField("submitted_at"),
  url: textField("html_url"),
  ...bodyFields("body", MAX_COMMENT_LENGTH),
});

export const CHECK_SHAPE = defineShape({
  name: requireField(textField("name")),
  status: requireField(textField("status")),
  conclusion: textField("conclusion"),
  app: textField("app.slug"),
  started_at: textField("started_at"),
  completed_at: textField("completed_at"),
  url: textField("html_url"),
});

const MAX_PATCH_LENGTH = 10_000;

export const CHANGED_FILE_SHAPE = defineShape({
  path: requireField(textField("filename")),
  previous_path: textField("previous_filename"),
  status: requireField(textField("status")),
  additions: numberField("additions"),
  deletions: numberField("deletions"),
  ...renameBodyFields("patch", bodyFields("patch", MAX_PATCH_LENGTH)),
});

export const GITHUB_REPOSITORY_SHAPE = defineShape({
  name: requireField(textField("full_name")),
  description: textField("description"),
  is_private: booleanField("private"),
  is_fork: booleanField("fork"),
  is_archived: booleanField("archived"),
  default_branch: textField("default_branch"),
  language: textField("language"),
  topics: nameListField("topics", "name"),
  license: textField("license.spdx_id"),
  stars: numberField("stargazers_count"),
  forks: numberField("forks_count"),
  open_issues: numberField("open_issues_count"),
  may_push: booleanField("permissions.push"),
  created_at: textField("created_at"),
  pushed_at: textField("pushed_at"),
  url: textField("html_url"),
});

export const FOLDER_ENTRY_SHAPE = defineShape({
  name: requireField(textField("name")),
  path: requireField(textField("path")),
  type: requireField(textField("type")),
  size: numberField("size"),
});

function renameBodyFields(name: string, { body, is_cut }: ReturnType<typeof bodyFields>) {
  return { [name]: body, is_cut };
}

/** The fields returned for one kind of GitHub object, under new names. Everything else is dropped. */
export interface ResponseShape {
  schema: JsonObject;
  /** Throws a SkillError if the value is not an object. */
  read(from: unknown): JsonObject;
}

/** The schema of one field and how to read it. A missing value or one of another type is omitted. */
interface ResponseField {
  schema: JsonObject;
  read(from: JsonObject): unknown;
  isRequired?: boolean;
}

export function defineShape(fields: Readonly<Record<string, ResponseField>>): ResponseShape {
  const rows = Object.entries(fields);
  const properties = Object.fromEntries(rows.map(([name, { schema }]) => [name, schema]));
  const required = rows.filter(([, { isRequired }]) => isRequired).map(([name]) => name);
  return {
    schema: { type: "object", properties, required, additionalProperties: false },
    read(from) {
      if (!isJsonObject(from)) throw createUndocumentedError();
      return omitUndefined(Object.fromEntries(rows.map(([name, field]) => [name, field.read(from)])));
    },
  };
}

export function createUndocumentedError(): SkillError {
  return new SkillError("provider-answer-invalid", {
    message: "GitHub's answer does not match its documentation",
    fix: "check that base_url is the URL of GitHub's REST API",
  });
}

/** Makes a field required. */
export function requireField(field: ResponseField): ResponseField {
  return { ...field, isRequired: true };
}

/** Reads a text at a dotted path: `user.login`. */
export function textField(path: string): ResponseField {
  return createTypedField("string", path);
}

function numberField(path: string): ResponseField {
  return createTypedField("number", path);
}

export function booleanField(path: string): ResponseField {
  return createTypedField("boolean", path);
}

/** True if there is a value at the path. */
function presenceField(path: string): ResponseField {
  return requireField({ schema: { type: "boolean" }, read: (from) => (getAtPath(from, path) ?? null) !== null });
}

/** Reads a list of texts; from objects, takes their `name`. */
function nameListField(path: string, name: string): ResponseField {
  return requireField({
    schema: { type: "array", items: { type: "string" } },
    read: (from) =>
      getListAtPath(from, path)
        .map((item) => (isJsonObject(item) ? item[name] : item))
        .filter(isText),
  });
}

/** A truncated text; `is_cut` is set next to it. */
function bodyFields(path: string, limit: number): { body: ResponseField; is_cut: ResponseField } {
  return {
    body: {
      schema: { type: "string" },
      read: (from) => mapText(getAtPath(from, path), (text) => truncateCharacters(text, limit)),
    },
    is_cut: {
      schema: { const: true },
      read: (from) => mapText(getAtPath(from, path), (text) => (text.length > limit ? true : undefined)),
    },
  };
}

function objectField(path: string, { schema, read }: ResponseShape): ResponseField {
  return {
    schema,
    read: (from) => {
      const inner = getAtPath(from, path);
      return isJsonObject(inner) ? read(inner) : undefined;
    },
  };
}

/** Truncates to `limit` UTF-16 units without splitting a surrogate pair. */
export function truncateCharacters(text: string, limit: number): string {
  return text.length <= limit ? text : text.slice(0, limit).replace(/[\ud800-\udbff]$/, "");
}

export function getAtPath(from: unknown, path: string): unknown {
  let value = from;
  for (const name of path.split("."))
    value = isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  return value;
}

function getListAtPath(from: unknown, path: string): unknown[] {
  const value = getAtPath(from, path);
  return Array.isArray(value) ? value : [];
}

function createTypedField(type: "string" | "number" | "boolean", path: string): ResponseField {
  return {
    schema: { type },
    read: (from) => {
      const value = getAtPath(from, path);
      return typeof value === type ? value : undefined;
    },
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function mapText<T>(value: unknown, use: (text: string) => T): T | undefined {
  return isText(value) ? use(value) : undefined;
}

/** One operation on GitHub. */
export interface GithubOperation {
  description: string;
  mutating?: true;
  isReversible?: boolean;
  input: JsonObject;
  output: JsonObject;
  /** Contract: the input matches the schema. */
  run(api: GithubApi, input: GithubInput): Promise<JsonObject>;
}

/** The input of an operation, according to its schema. */
export interface GithubInput {
  owner: string;
  repo: string;
  number: number;
  limit: number;
  page?: string;
  path: string;
  q: string;
  kind: string;
  event: string;
  body?: string;
  ref?: string;
  labels?: string[];
  [name: string]: unknown;
}

/** Returns a schema with exactly these properties. A name that ends with a question mark is optional. */
export function createGithubInputSchema(values: Readonly<Record<string, JsonObject>>): JsonObject {
  const entries = Object.entries(values).map(([name, schema]) => [name.replace(/\?$/, ""), schema] as const);
  const required = Object.keys(values).filter((name) => !name.endsWith("?"));
  return { type: "object", properties: Object.fromEntries(entries), required, additionalProperties: false };
}

export const OWNER_SCHEMA = {
  type: "string",
  description: "the owner of the repository: a user or an organization",
  pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
};
const REPO_SCHEMA = {
  type: "string",
  description: "the name of the repository, without its owner",
  pattern: "^\\.{0,2}[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$",
};
const NUMBER_SCHEMA = { type: "integer", minimum: 1, maximum: 2147483647, description: "the number after the #" };

/** The properties that most inputs start with. */
export const REPO_INPUT = { owner: OWNER_SCHEMA, repo: REPO_SCHEMA };
export const NUMBERED_INPUT = { ...REPO_INPUT, number: NUMBER_SCHEMA };
export const PAGED_INPUT = {
  "limit?": { type: "integer", minimum: 1, maximum: 100, default: 30, description: "maximum number of items" },
  "page?": {
    type: "string",
    pattern: "^[A-Za-z0-9_=+/:.-]{1,500}$",
    description: "next_page of the previous answer, to continue there; keep the other values the same",
  },
};

export const TITLE_SCHEMA = { type: "string", minLength: 1, maxLength: 256 };
export const BODY_SCHEMA = { type: "string", minLength: 1, maxLength: 65536, description: "Markdown" };
export const SHA_SCHEMA = { type: "string", pattern: "^[0-9a-f]{40}(?:[0-9a-f]{24})?$" };
export const BRANCH_SCHEMA = { type: "string", minLength: 1, maxLength: 255, pattern: "^[^\\s~^?*\\[\\\\]+$" };
export const LABELS_SCHEMA = { type: "array", maxItems: 100, items: { type: "string", minLength: 1, maxLength: 100 } };
export const LOGIN_SCHEMA = { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}(?:\\[bot\\])?$" };
export const LOGINS_SCHEMA = { type: "array", maxItems: 10, items: LOGIN_SCHEMA };
export const DIRECTION_SCHEMA = createEnumSchema("desc", ["asc", "desc"]);

export function createEnumSchema(defaultValue: string, values: readonly string[]): JsonObject {
  return { enum: values, default: defaultValue };
}

/** Returns the named values that are defined. */
export function pickInput(input: GithubInput, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.filter((name) => input[name] !== undefined).map((name) => [name, input[name]]));
}

/** Returns the named values as URL query parameters. */
export function pickQuery(input: GithubInput, names: readonly string[]): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(pickInput(input, names)).map(([name, value]) => [name, String(value)]));
}

/** Returns the schema of a list of items. */
export function createListSchema({ schema }: ResponseShape, more: JsonObject = {}): JsonObject {
  return {
    type: "object",
    properties: {
      count: { type: "integer" },
      has_more: { type: "boolean" },
      next_page: { type: "string" },
      items: { type: "array", items: schema },
      ...more,
    },
    required: ["count", "has_more", "items", ...Object.keys(more)],
    additionalProperties: false,
  };
}
