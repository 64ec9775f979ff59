import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createMatcher, isSelectedMatch } from "../catalog/search/matcher.ts";
import { isInvocableBy, type Skill } from "../skill/skill.ts";
import { isJsonObject, type JsonObject } from "../util/objects.ts";
import { truncateLine } from "../util/text.ts";

/** A client whose transcripts can be read. */
export const TRANSCRIPT_CLIENTS = ["claude", "codex"] as const;
export type TranscriptClient = (typeof TRANSCRIPT_CLIENTS)[number];

/** What the transcripts say about one skill. */
export interface MinedSkill {
  skill: string;
  /** The sessions that list it with a description, and with its name alone. */
  listed: number;
  listedByName: number;
  /** The prompts for which it was used. */
  used: number;
  /** Prompts that it matches, in sessions that list it, and for which it was not used. Secrets are redacted. */
  missed: readonly string[];
}

export interface MinedTranscripts {
  sessions: number;
  prompts: number;
  /** The lines that are not JSON. */
  unreadable: number;
  skills: readonly MinedSkill[];
}

/** One event of a transcript, whichever client wrote it. */
type TranscriptEvent =
  | { type: "prompt"; text: string }
  | { type: "listing"; text: string }
  | { type: "use"; skill: string }
  /** The input of any other tool. */
  | { type: "call"; text: string };

interface TranscriptFormat {
  /** The folder below the user's home, and the names of its files. */
  folder: string;
  files: RegExp;
  read(line: JsonObject): TranscriptEvent[];
}

/** THE table of transcripts. */
const TRANSCRIPT_FORMATS: Readonly<Record<TranscriptClient, TranscriptFormat>> = {
  claude: { folder: ".claude/projects", files: /\.jsonl$/, read: readClaudeLine },
  codex: { folder: ".codex/sessions", files: /^rollout-.*\.jsonl$/, read: readCodexLine },
};

/** Lists the transcripts of a client below the user's home that changed since then, the newest first. */
export function listTranscripts(home: string, client: TranscriptClient, since?: Date): string[] {
  const { folder, files } = TRANSCRIPT_FORMATS[client];
  const root = join(home, folder);
  if (!existsSync(root)) return [];
  return readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && files.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .map((path) => ({ path, at: statSync(path).mtimeMs }))
    .filter(({ at }) => since === undefined || at >= since.getTime())
    .sort((a, b) => b.at - a.at)
    .map(({ path }) => path);
}

/** Reads transcripts line by line and reports on these skills. Nothing is written. */
export async function mineTranscripts(
  files: readonly { path: string; client: TranscriptClient }[],
  all: readonly Skill[],
): Promise<MinedTranscripts> {
  const skills = all.filter((skill) => isInvocableBy("model", skill));
  const matcher = createMatcher(skills);
  const found = new Map(
    skills.map(({ name }) => [name, { listed: 0, listedByName: 0, used: 0, missed: new Set<string>() }]),
  );
  const totals = { sessions: 0, prompts: 0, unreadable: 0 };
  for (const { path, client } of files) {
    const session = createSession(skills);
    const lines = createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY });
    for await (const line of lines) {
      if (line.trim() === "") continue;
      let read: unknown;
      try {
        read = JSON.parse(line);
      } catch {
        totals.unreadable++;
        continue;
      }
      if (isJsonObject(read)) for (const event of TRANSCRIPT_FORMATS[client].read(read)) session.add(event);
    }
    if (session.turns.length === 0) continue;
    totals.sessions++;
    totals.prompts += session.turns.length;
    for (const [name, kind] of session.listings) {
      const one = found.get(name);
      if (one) one[kind === "whole" ? "listed" : "listedByName"]++;
    }
    for (const { prompt, used } of session.turns) {
      for (const name of used) {
        const one = found.get(name);
        if (one) one.used++;
      }
      // Only a prompt that no skill was used for is a miss: another skill may have been the better one.
      if (used.size > 0) continue;
      const [best] = (await matcher.match(prompt)).matches.filter(isSelectedMatch);
      if (best && session.listings.has(best.skill.name))
        found.get(best.skill.name)?.missed.add(truncateLine(redactSecretShapes(prompt), MAX_QUERY_LENGTH));
    }
  }
  return {
    ...totals,
    skills: Array.from(found, ([skill, { missed, ...counts }]) => ({ skill, ...counts, missed: [...missed] })),
  };
}

const MAX_QUERY_LENGTH = 300;
/** Longer prompts are documents, not queries. */
const MAX_PROMPT_LENGTH = 2000;

function createSession(skills: readonly Skill[]) {
  const names = new Set(skills.map(({ name }) => name));
  const turns: { prompt: string; used: Set<string> }[] = [];
  const listings = new Map<string, "whole" | "name">();
  const use = (name: string) => {
    // Plugins put their name first.
    const own = name.replace(/^.*:/, "").replace(/^[/$]/, "");
    if (names.has(own)) turns.at(-1)?.used.add(own);
  };
  return {
    turns,
    listings,
    add(event: TranscriptEvent) {
      if (event.type === "prompt") {
        const prompt = event.text.trim();
        if (prompt === "" || prompt.length > MAX_PROMPT_LENGTH) return;
        turns.push({ prompt, used: new Set() });
        const [, called] = /^[/$]([a-z0-9][\w:-]*)/.exec(prompt) ?? [];
        if (called !== undefined) use(called);
      } else if (event.type === "use") use(event.skill);
      else if (event.type === "call") {
        for (const [, name = ""] of event.text.matchAll(/([\w-]+)[\\/]+SKILL\.md/g)) use(name);
      } else {
        for (const [, name = "", colon = "", text = ""] of event.text.matchAll(LISTED_SKILL)) {
          const own = name.replace(/^.*:/, "");
          if (!names.has(own)) continue;
          const isWhole = colon !== "" && text.replace(/\(file: [^)]*\)\s*$/, "").trim() !== "";
          if (isWhole || !listings.has(own)) listings.set(own, isWhole ? "whole" : "name");
        }
      }
    },
  };
}

/** A line of a list of skills: `- name: description`, or only the name. */
const LISTED_SKILL = /^[-*] [`*]*((?:[\w-]+:)*[a-z0-9][\w-]*)[`*]*(:?)[ \t]*(.*)$/gm;

function readClaudeLine({ type, message, attachment, isMeta, isSidechain }: JsonObject): TranscriptEvent[] {
  if (isSidechain === true) return [];
  if (isJsonObject(attachment))
    return attachment["type"] === "skill_listing" ? [{ type: "listing", text: joinTexts(attachment["content"]) }] : [];
  if (!isJsonObject(message)) return [];
  const { content } = message;
  const parts = Array.isArray(content) ? content.filter(isJsonObject) : [];
  if (type === "assistant")
    return parts.flatMap((part): TranscriptEvent[] => {
      if (part["type"] !== "tool_use" || !isJsonObject(part["input"])) return [];
      const { skill, command } = part["input"];
      const name = typeof skill === "string" ? skill : command;
      if (part["name"] === "Skill" && typeof name === "string") return [{ type: "use", skill: name }];
      const own = /^mcp__\w+__(?:use|load)_skill$/.test(String(part["name"])) && typeof skill === "string";
      return own ? [{ type: "use", skill: skill as string }] : [{ type: "call", text: JSON.stringify(part["input"]) }];
    });
  if (type !== "user" || parts.some((part) => part["type"] === "tool_result")) return [];
  const text = typeof content === "string" ? content : joinTexts(parts);
  const reminders = text.match(/<system-reminder>[\s\S]*?<\/system-reminder>/g) ?? [];
  const listed = reminders
    .filter((one) => /skills/i.test(one))
    .map((one): TranscriptEvent => ({ type: "listing", text: one }));
  const [, called] = /<command-name>\/?([^<]+)<\/command-name>/.exec(text) ?? [];
  if (called !== undefined) return [...listed, { type: "prompt", text: `/${called}` }];
  const prompt = text.replace(/<(system-reminder|local-command-\w+|command-\w+)>[\s\S]*?<\/\1>/g, "").trim();
  return isMeta === true || prompt === "" ? listed : [...listed, { type: "prompt", text: prompt }];
}

function readCodexLine({ type, payload }: JsonObject): TranscriptEvent[] {
  if (type !== "response_item" || !isJsonObject(payload)) return [];
  if (payload["type"] === "message") {
    const text = joinTexts(payload["content"]);
    const isListing = /<skills_instructions>|^#+ .*skills/im.test(text);
    if (isListing) return [{ type: "listing", text }];
    // Codex adds the environment and the rules of the project as messages of the user.
    if (payload["role"] !== "user" || /^\s*(?:<[a-z_]+>|# AGENTS\.md)/.test(text)) return [];
    return [{ type: "prompt", text }];
  }
  const { arguments: value, input } = payload;
  const text = typeof value === "string" ? value : typeof input === "string" ? input : "";
  return /_call$/.test(String(payload["type"])) && text !== "" ? [{ type: "call", text }] : [];
}

/** Joins the texts of a message: a string, or parts with a text. */
function joinTexts(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) =>
      typeof part === "string" ? part : isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : "",
    )
    .join("\n");
}

/** Texts that look like secrets: keys of known providers, tokens, passwords in URLs and assignments, private keys. */
const SECRET_SHAPES: readonly (readonly [shape: RegExp, replacement: string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, "[private key]"],
  [/\b(?:sk|pk|rk)[-_](?:[\w-]+[-_])?[A-Za-z0-9]{16,}\b/g, "[key]"],
  [/\b(?:gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|ASIA|AIza|hf_|npm_|pypi-)[\w-]{10,}/g, "[key]"],
  [/\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g, "[token]"],
  [/\b(bearer|basic)\s+[\w.~+/=-]{12,}/gi, "$1 [token]"],
  [/(\w+:\/\/[^\s:/@]+:)[^\s@/]+@/g, "$1[password]@"],
  [/\b(\w*(?:password|passwd|secret|token|api[_-]?key)\w*\s*[:=]\s*)["']?[^\s"',;]{4,}["']?/gi, "$1[secret]"],
  [/\b[A-Za-z0-9+/_-]{40,}={0,2}\b/g, "[long value]"],
];

/** Replaces texts that look like secrets. */
export function redactSecretShapes(text: string): string {
  return SECRET_SHAPES.reduce((redacted, [shape, replacement]) => redacted.replace(shape, replacement), text);
}
