import { SkillError } from "../../shared/error.ts";
import { path } from "./api.ts";
import { list, listSchema } from "./list.ts";
import {
  asked,
  BODY,
  choice,
  DIRECTION,
  IN_REPO,
  type Input,
  input,
  LABELS,
  LOGIN,
  LOGINS,
  NUMBERED,
  type Operation,
  OWNER,
  PAGED,
  picked,
  TITLE,
} from "./operation.ts";
import { at } from "./shape.ts";
import { COMMENT, FOUND_ISSUE, ISSUE, LISTED_ISSUE, repositoryIn } from "./shapes.ts";

export const ISSUES: Readonly<Record<string, Operation>> = {
  list: {
    description: "Lists the issues of a repository, without its pull requests; newest first.",
    input: input({
      ...IN_REPO,
      "state?": choice("open", ["open", "closed", "all"]),
      "labels?": { ...LABELS, description: "only those that have all of these labels" },
      "assignee?": {
        type: "string",
        pattern: `^(?:none|\\*|${LOGIN.pattern.slice(1, -1)})$`,
        description: "a user, none or *",
      },
      "since?": { type: "string", format: "date-time", description: "changed at this time or later" },
      "sort?": choice("created", ["created", "updated", "comments"]),
      "direction?": DIRECTION,
      ...PAGED,
    }),
    output: listSchema(LISTED_ISSUE),
    run: (api, given) => {
      const query = asked(given, ["state", "assignee", "since", "sort", "direction"]);
      const labels = given.labels?.join(",");
      return list(api, path`/repos/${given.owner}/${given.repo}/issues`, given, LISTED_ISSUE, {
        query: { ...query, labels },
        isKept: (issue) => (at(issue, "pull_request") ?? null) === null,
      });
    },
  },
  get: {
    description: "Reads one issue with its text. Comments are read with comments.",
    input: input(NUMBERED),
    output: ISSUE.schema,
    run: async (api, given) => ISSUE.read((await api.get(issuePath(given))).body),
  },
  comments: {
    description: "Reads the comments of an issue or of the conversation of a pull request, oldest first.",
    input: input({ ...NUMBERED, ...PAGED }),
    output: listSchema(COMMENT),
    run: (api, given) => list(api, `${issuePath(given)}/comments`, given, COMMENT),
  },
  search: {
    description: "Searches issues or pull requests of one repository, or of all of one owner.",
    input: input({
      owner: OWNER,
      "repo?": IN_REPO.repo,
      q: {
        type: "string",
        minLength: 1,
        maxLength: 200,
        description: "words and qualifiers such as label:bug, without repo:, org: and user:",
      },
      "kind?": choice("issue", ["issue", "pull-request"]),
      ...PAGED,
    }),
    output: listSchema(FOUND_ISSUE),
    run: (api, given) => {
      const { owner, repo, q, kind } = given;
      if (/(?:^|[^\w])(?:repo|org|user|owner|enterprise):/i.test(q)) {
        throw new SkillError("input-invalid", {
          message: "q says where to search",
          fix: "say that with owner and repo, and leave repo:, org: and user: out of q",
        });
      }
      const where = repo === undefined ? `user:${owner}` : `repo:${owner}/${repo}`;
      return list(api, "/search/issues", given, FOUND_ISSUE, {
        query: { q: `${where} is:${kind} ${q}` },
        items: (body) => at(body, "items"),
        isKept: (issue) => isWithin(at(issue, "repository_url"), given),
      });
    },
  },
  create: {
    description: "Opens an issue.",
    mutating: true,
    isReversible: false,
    input: input({ ...IN_REPO, title: TITLE, "body?": BODY, "labels?": LABELS, "assignees?": LOGINS }),
    output: ISSUE.schema,
    run: async (api, given) => {
      const sent = picked(given, ["title", "body", "labels", "assignees"]);
      return ISSUE.read((await api.send("POST", path`/repos/${given.owner}/${given.repo}/issues`, sent)).body);
    },
  },
  comment: {
    description: "Comments on an issue.",
    mutating: true,
    isReversible: true,
    input: input({ ...NUMBERED, body: BODY }),
    output: COMMENT.schema,
    run: async (api, given) =>
      COMMENT.read((await api.send("POST", `${issuePath(given)}/comments`, picked(given, ["body"]))).body),
  },
  update: {
    description:
      "Changes an issue: its title or text, closes or reopens it, or replaces all of its labels or assignees.",
    mutating: true,
    isReversible: true,
    input: {
      ...input({
        ...NUMBERED,
        "title?": TITLE,
        "body?": BODY,
        "state?": { enum: ["open", "closed"] },
        "state_reason?": { enum: ["completed", "not_planned", "duplicate", "reopened"] },
        "labels?": { ...LABELS, description: "all that it has from then on" },
        "assignees?": { ...LOGINS, description: "all that it has from then on" },
      }),
      minProperties: 4,
    },
    output: ISSUE.schema,
    run: async (api, given) => {
      const sent = picked(given, ["title", "body", "state", "state_reason", "labels", "assignees"]);
      return ISSUE.read((await api.send("PATCH", issuePath(given), sent)).body);
    },
  },
};

function issuePath({ owner, repo, number }: Input): string {
  return path`/repos/${owner}/${repo}/issues/${number}`;
}

/** Words between which an OR stands may lead out of where it was to search: what was found is looked at once more. */
function isWithin(url: unknown, { owner, repo }: Pick<Input, "owner"> & { repo?: string }): boolean {
  const [foundOwner, foundRepo] = (typeof url === "string" ? (repositoryIn(url) ?? "") : "").toLowerCase().split("/");
  return foundOwner === owner.toLowerCase() && (repo === undefined || foundRepo === repo.toLowerCase());
}
