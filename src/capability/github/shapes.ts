import { body, flag, isThere, names, number, part, shape, sure, text } from "./shape.ts";

/** In characters: of the one thing that was asked for, of each comment, and of each item of a list. */
const LONGEST_BODY = 20_000;
const LONGEST_COMMENT = 5000;
const LONGEST_EXCERPT = 500;

const TIMES = { created_at: text("created_at"), updated_at: text("updated_at"), closed_at: text("closed_at") };

const issueFields = {
  number: sure(number("number")),
  title: sure(text("title")),
  state: sure(text("state")),
  state_reason: text("state_reason"),
  author: text("user.login"),
  author_is: text("author_association"),
  labels: names("labels", "name"),
  assignees: names("assignees", "login"),
  milestone: text("milestone.title"),
  is_locked: flag("locked"),
  is_pull_request: isThere("pull_request"),
  comments: number("comments"),
  ...TIMES,
  url: text("html_url"),
};
export const ISSUE = shape({ ...issueFields, ...body("body", LONGEST_BODY) });
export const LISTED_ISSUE = shape({ ...issueFields, ...body("body", LONGEST_EXCERPT) });
export const FOUND_ISSUE = shape({
  ...issueFields,
  repository: {
    schema: { type: "string" },
    read: ({ repository_url: url }) => (typeof url === "string" ? repositoryIn(url) : undefined),
  },
  ...body("body", LONGEST_EXCERPT),
});

/** `ada/engine`, of an address of the API. */
export function repositoryIn(url: string): string | undefined {
  return /\/repos\/([^/]+\/[^/]+)$/.exec(url)?.[1];
}

export const COMMENT = shape({
  id: sure(number("id")),
  author: text("user.login"),
  author_is: text("author_association"),
  created_at: text("created_at"),
  updated_at: text("updated_at"),
  url: text("html_url"),
  ...body("body", LONGEST_COMMENT),
});

export const REVIEW_COMMENT = shape({
  id: sure(number("id")),
  author: text("user.login"),
  path: text("path"),
  line: number("line"),
  commit: text("commit_id"),
  reply_to: number("in_reply_to_id"),
  created_at: text("created_at"),
  url: text("html_url"),
  ...body("body", LONGEST_COMMENT),
});

const BRANCH = shape({ ref: sure(text("ref")), sha: sure(text("sha")), repository: text("repo.full_name") });

const pullFields = {
  number: sure(number("number")),
  title: sure(text("title")),
  state: sure(text("state")),
  is_draft: flag("draft"),
  is_merged: isThere("merged_at"),
  author: text("user.login"),
  author_is: text("author_association"),
  labels: names("labels", "name"),
  assignees: names("assignees", "login"),
  reviewers: names("requested_reviewers", "login"),
  head: part("head", BRANCH),
  base: part("base", BRANCH),
  ...TIMES,
  merged_at: text("merged_at"),
  url: text("html_url"),
};
export const LISTED_PULL = shape({ ...pullFields, ...body("body", LONGEST_EXCERPT) });
export const PULL = shape({
  ...pullFields,
  is_mergeable: flag("mergeable"),
  mergeable_state: text("mergeable_state"),
  comments: number("comments"),
  review_comments: number("review_comments"),
  commits: number("commits"),
  additions: number("additions"),
  deletions: number("deletions"),
  changed_files: number("changed_files"),
  ...body("body", LONGEST_BODY),
});

export const COMMIT = shape({
  sha: sure(text("sha")),
  author: text("author.login"),
  author_name: text("commit.author.name"),
  date: text("commit.author.date"),
  url: text("html_url"),
  ...renamed("message", body("commit.message", LONGEST_COMMENT)),
});

export const REVIEW = shape({
  id: sure(number("id")),
  author: text("user.login"),
  author_is: text("author_association"),
  state: sure(text("state")),
  commit: text("commit_id"),
  submitted_at: text("submitted_at"),
  url: text("html_url"),
  ...body("body", LONGEST_COMMENT),
});

export const CHECK = shape({
  name: sure(text("name")),
  status: sure(text("status")),
  conclusion: text("conclusion"),
  app: text("app.slug"),
  started_at: text("started_at"),
  completed_at: text("completed_at"),
  url: text("html_url"),
});

const LONGEST_PATCH = 10_000;

export const CHANGED_FILE = shape({
  path: sure(text("filename")),
  previous_path: text("previous_filename"),
  status: sure(text("status")),
  additions: number("additions"),
  deletions: number("deletions"),
  ...renamed("patch", body("patch", LONGEST_PATCH)),
});

export const REPOSITORY = shape({
  name: sure(text("full_name")),
  description: text("description"),
  is_private: flag("private"),
  is_fork: flag("fork"),
  is_archived: flag("archived"),
  default_branch: text("default_branch"),
  language: text("language"),
  topics: names("topics", "name"),
  license: text("license.spdx_id"),
  stars: number("stargazers_count"),
  forks: number("forks_count"),
  open_issues: number("open_issues_count"),
  may_push: flag("permissions.push"),
  created_at: text("created_at"),
  pushed_at: text("pushed_at"),
  url: text("html_url"),
});

export const ENTRY = shape({
  name: sure(text("name")),
  path: sure(text("path")),
  type: sure(text("type")),
  size: number("size"),
});

function renamed(name: string, { body: written, is_cut }: ReturnType<typeof body>) {
  return { [name]: written, is_cut };
}
