import { SkillError } from "../../shared/error.ts";
import type { Data } from "../../skill/data.ts";
import { type Api, path } from "./api.ts";
import { list, listSchema } from "./list.ts";
import {
  asked,
  BODY,
  BRANCH,
  choice,
  DIRECTION,
  IN_REPO,
  type Input,
  input,
  NUMBERED,
  type Operation,
  PAGED,
  picked,
  SHA,
  TITLE,
} from "./operation.ts";
import { at, cut, flag, notAsDocumented, type Shape, shape, sure, text } from "./shape.ts";
import { CHANGED_FILE, CHECK, COMMENT, COMMIT, LISTED_PULL, PULL, REVIEW, REVIEW_COMMENT } from "./shapes.ts";

const MERGED = shape({ is_merged: sure(flag("merged")), sha: text("sha"), message: text("message") });

export const PULLS: Readonly<Record<string, Operation>> = {
  list: {
    description: "Lists the pull requests of a repository; newest first.",
    input: input({
      ...IN_REPO,
      "state?": choice("open", ["open", "closed", "all"]),
      "head?": { ...BRANCH, description: "from this branch: owner:branch" },
      "base?": { ...BRANCH, description: "into this branch" },
      "sort?": choice("created", ["created", "updated", "popularity", "long-running"]),
      "direction?": DIRECTION,
      ...PAGED,
    }),
    output: listSchema(LISTED_PULL),
    run: (api, given) =>
      list(api, path`/repos/${given.owner}/${given.repo}/pulls`, given, LISTED_PULL, {
        query: asked(given, ["state", "head", "base", "sort", "direction"]),
      }),
  },
  get: {
    description: "Reads one pull request: its text, branches, size, and whether it can be merged.",
    input: input(NUMBERED),
    output: PULL.schema,
    run: pullOf,
  },
  files: {
    description: "Reads which files a pull request changes, with their patches, as far as those are not too long.",
    input: input({ ...NUMBERED, ...PAGED }),
    output: listSchema(CHANGED_FILE),
    run: async (api, given) => {
      const found = await list(api, `${pullPath(given)}/files`, given, CHANGED_FILE);
      return { ...found, items: withinRoom(found.items) };
    },
  },
  commits: listOf("commits", COMMIT, "Lists the commits of a pull request, oldest first."),
  reviews: listOf("reviews", REVIEW, "Reads the reviews of a pull request, oldest first."),
  review_comments: listOf(
    "comments",
    REVIEW_COMMENT,
    "Reads what was said to single lines of a pull request. The conversation is read with github.issues comments.",
  ),
  checks: {
    description: "Lists the checks of the last commit of a pull request. Not every fine-grained token may read them.",
    input: input({ ...NUMBERED, ...PAGED }),
    output: listSchema(CHECK, { sha: { type: "string" } }),
    run: async (api, given) => {
      const sha = at(await pullOf(api, given), "head.sha");
      if (typeof sha !== "string") throw notAsDocumented();
      const checks = path`/repos/${given.owner}/${given.repo}/commits/${sha}/check-runs`;
      const found = await list(api, checks, given, CHECK, { items: (body) => at(body, "check_runs") });
      return { ...found, sha };
    },
  },
  comment: {
    description: "Comments on a pull request, in its conversation.",
    mutating: true,
    isReversible: true,
    input: input({ ...NUMBERED, body: BODY }),
    output: COMMENT.schema,
    run: async (api, given) => {
      const comments = path`/repos/${given.owner}/${given.repo}/issues/${given.number}/comments`;
      return COMMENT.read((await api.send("POST", comments, picked(given, ["body"]))).body);
    },
  },
  review: {
    description: "Reviews a pull request: comments, approves, or asks for changes.",
    mutating: true,
    isReversible: false,
    input: input({
      ...NUMBERED,
      event: { enum: ["COMMENT", "APPROVE", "REQUEST_CHANGES"] },
      "body?": { ...BODY, description: "Markdown; only APPROVE can do without" },
      "sha?": { ...SHA, description: "the commit that was looked at: head.sha" },
    }),
    output: REVIEW.schema,
    run: async (api, given) => {
      if (given.event !== "APPROVE" && given.body === undefined) {
        throw new SkillError("input-invalid", { message: `"body" is missing: ${given.event} has to say something` });
      }
      const commit = given["sha"] === undefined ? {} : { commit_id: given["sha"] };
      const sent = { ...picked(given, ["event", "body"]), ...commit };
      return REVIEW.read((await api.send("POST", `${pullPath(given)}/reviews`, sent)).body);
    },
  },
  create: {
    description: "Opens a pull request between two branches that are there.",
    mutating: true,
    isReversible: false,
    input: input({
      ...IN_REPO,
      title: TITLE,
      head: { ...BRANCH, description: "the branch with the changes; owner:branch when it is in a fork" },
      base: { ...BRANCH, description: "the branch that they are for" },
      "body?": BODY,
      "draft?": { type: "boolean", default: false },
    }),
    output: PULL.schema,
    run: async (api, given) => {
      const sent = picked(given, ["title", "head", "base", "body", "draft"]);
      return PULL.read((await api.send("POST", path`/repos/${given.owner}/${given.repo}/pulls`, sent)).body);
    },
  },
  merge: {
    description: "Merges a pull request, if its last commit is still the one that is named.",
    mutating: true,
    isReversible: false,
    input: input({
      ...NUMBERED,
      sha: { ...SHA, description: "head.sha of the pull request as it was read" },
      "merge_method?": choice("merge", ["merge", "squash", "rebase"]),
      "commit_title?": TITLE,
      "commit_message?": BODY,
    }),
    output: MERGED.schema,
    run: async (api, given) => {
      const sent = picked(given, ["sha", "merge_method", "commit_title", "commit_message"]);
      return MERGED.read((await api.send("PUT", `${pullPath(given)}/merge`, sent)).body);
    },
  },
};

function listOf(below: string, item: Shape, description: string): Operation {
  return {
    description,
    input: input({ ...NUMBERED, ...PAGED }),
    output: listSchema(item),
    run: (api, given) => list(api, `${pullPath(given)}/${below}`, given, item),
  };
}

async function pullOf(api: Api, given: Input): Promise<Data> {
  return PULL.read((await api.get(pullPath(given))).body);
}

function pullPath({ owner, repo, number }: Input): string {
  return path`/repos/${owner}/${repo}/pulls/${number}`;
}

/** In characters, for all patches of one answer. */
const ROOM = 200_000;

function withinRoom(files: readonly Data[]): Data[] {
  let room = ROOM;
  return files.map((file) => {
    const { patch } = file;
    if (typeof patch !== "string") return file;
    const kept = cut(patch, room);
    room -= kept.length;
    return kept.length === patch.length ? file : { ...file, patch: kept, is_cut: true };
  });
}
