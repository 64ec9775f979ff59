import { SkillError } from "../../errors/problem.ts";
import { isJsonObject, type JsonObject, omitUndefined } from "../../util/objects.ts";

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
